"""Row metadata: split, agent, errors, policy version; figures of turns, tools and thinking."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from rlreport.fields import TOKEN_ARRAYS
from rlreport.text.chat import CALL, Turn, content_text, role_name, turns_in_text

MAX_TOOLS = 64
"""Maximum number of tools counted by name per response."""

TURN_LIMITS = frozenset(
    {"max_turns", "max_turns_exceeded", "max_turns_reached", "max_steps", "turn_limit"}
)
"""Finish reasons of conversations that reached the maximum number of turns."""

_LARGEST = 2**53
_LONGEST_NAME = 80
_OPEN, _CLOSE = "<think>", "</think>"
_THOUGHT = re.compile(f"{_OPEN}(.*?)(?:{_CLOSE}|\\Z)", re.DOTALL)
_SPLITS = {
    "training": "train", "validation": "val", "valid": "val", "dev": "val",
    "evaluation": "eval", "test": "eval",
}  # fmt: skip


class ToolCounts(NamedTuple):
    """Answers of a tool, errors among them, their characters, and tokens of those with a range."""

    answers: int = 0
    errors: int = 0
    chars: int = 0
    ranges: int = 0
    tokens: int = 0


@dataclass(slots=True)
class RowMetadata:
    """Values of a row other than text and tokens.

    Attributes:
        split: the split in the row, None without one.
        trainable: whether the agent is being trained.
        filtered_out: whether the trainer did not use the rollout.
        failed: whether the rollout ended in errors before the policy wrote anything.
        figures: columns of the response table by name.
        tools: tool -> counts of its answers.
    """

    split: str | None = None
    trainable: bool = True
    filtered_out: bool = False
    failed: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    tools: dict[str, ToolCounts] = field(default_factory=dict)


def row_metadata(
    record: Mapping[str, Any], step: int, prompt: str, response: str, reason: object = None
) -> RowMetadata:
    """Return the metadata of a row; unusable values are ignored.

    Args:
        record: the row, after ``normalize_turns_and_mask``. Without turns, tool call markup in
            the text is parsed.
        step: its training step.
        prompt: its prompt.
        response: its text.
        reason: why the response ended.
    """
    turns = record.get("turns")
    out = RowMetadata(
        split=split_named(record.get("split")) or None,
        trainable=record.get("trainable") is not False,
        filtered_out=record.get("filtered_out") is True,
        failed=bool(record.get("errors")) and not response.strip(),
    )
    if turns:
        out.figures, out.tools = _turn_figures(turns, prompt), _tool_counts(turns)
    elif turns := turns_in_text(response):
        out.figures = _turn_figures(turns, prompt)
        del out.figures["tool_errors"]  # markup does not tell errors
    elif thinking := _thinking(response, _begins_thinking(prompt)):
        out.figures = {
            "thinking_chars": float(thinking.chars),
            "unclosed_thinking": float(thinking.unclosed),
        }
    version: Any = record.get("policy_version")
    if isinstance(version, list | tuple) and version:
        version = version[0]
    if is_number(version):
        out.figures["lag"] = float(step - version)
    if is_number(seconds := record.get("seconds")):
        out.figures["seconds"] = float(seconds)
    if isinstance(reason, str):
        limited = reason.lower() in TURN_LIMITS
        if limited or turns:
            out.figures["at_turn_limit"] = float(limited)
    return out


class _Thinking(NamedTuple):
    """Characters of thinking in a text, whether it is unclosed, and the text without it."""

    chars: int
    unclosed: bool
    answer: str


def _thinking(text: str, begun: bool = False) -> _Thinking | None:
    """Return the thinking in a text, None if there is none.

    ``begun``: whether the prompt ends with ``<think>``.
    """
    opened, closed = text.find(_OPEN), text.find(_CLOSE)
    if not begun and opened < 0 and closed < 0:
        return None
    # A chat template often contains the opening tag: then the text has only the closing one.
    if (begun and opened < 0) or (closed >= 0 and (opened < 0 or closed < opened)):
        text = _OPEN + text
    chars = sum(map(len, _THOUGHT.findall(text)))
    return _Thinking(chars, text.rfind(_OPEN) > text.rfind(_CLOSE), _THOUGHT.sub("", text))


def _begins_thinking(prompt: str) -> bool:
    return prompt[-24:].rstrip().endswith(_OPEN)


def _turn_figures(turns: Sequence[Turn], prompt: str) -> dict[str, float]:
    """Return the figures of the turns after a prompt.

    A void turn has neither a call nor any text except thinking (SimpleTIR 2025).
    """
    sampled = [turn for turn in turns if turn["sampled"]]
    answers = [turn for turn in turns if turn["role"] == "tool"]
    chars = calls = void = 0
    unclosed: list[bool] = []
    for i, turn in enumerate(sampled):
        logged, turn_calls = turn.get("thinking"), turn.get("calls")
        logged = logged if isinstance(logged, str) else ""
        # The prompt opens the thinking of the first turn, unless that is a field of the turn.
        thinking = _thinking(turn["text"], not i and not logged and _begins_thinking(prompt))
        chars += len(logged) + (thinking.chars if thinking else 0)
        unclosed += [thinking.unclosed] if thinking else []
        text = thinking.answer if thinking else turn["text"]
        count = len(turn_calls) if isinstance(turn_calls, list) else turn["text"].count(CALL)
        calls += count
        void += not count and not text.strip()
    figures = {
        "turns": float(len(sampled)),
        "tool_calls": float(max(calls, len(answers))),
        "tool_errors": float(sum(bool(turn.get("error")) for turn in answers)),
        "void_turns": float(void),
    }
    if chars or unclosed:
        figures["thinking_chars"] = float(chars)
        figures["unclosed_thinking"] = float(any(unclosed))
    return figures


def _tool_counts(turns: Sequence[Turn]) -> dict[str, ToolCounts]:
    """Return the counts of at most MAX_TOOLS tools."""
    counts: dict[str, ToolCounts] = {}
    for turn in turns:
        name = turn.get("tool")
        name = name[:_LONGEST_NAME] if isinstance(name, str) else ""
        if turn["role"] == "tool" and (name in counts or len(counts) < MAX_TOOLS):
            answers, errors, chars, ranges, tokens = counts.get(name, ToolCounts())
            start, stop = turn.get("tokens", (0, 0))
            counts[name] = ToolCounts(
                answers + 1,
                errors + bool(turn.get("error")),
                chars + len(turn["text"]),
                ranges + ("tokens" in turn),
                tokens + stop - start,
            )
    return counts


def split_named(value: object) -> str:
    """Return the canonical name of a split; "" if the value is not a split."""
    if not isinstance(value, str):
        return ""
    return _SPLITS.get(value.lower(), value.lower())


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number that float64 represents exactly."""
    if type(value) is int:
        return abs(value) <= _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def normalize_turns_and_mask(row: dict[str, Any]) -> list[str]:
    """Check ``response_mask`` and ``turns`` in place; return the kinds of problems found."""
    problems: list[str] = []
    mask, logged = row.get("response_mask"), row.get("turns")
    if mask is None and logged is None:
        return problems
    # Arrays are cut to the shortest of them when they are read.
    sizes = [
        len(values)
        for name in ("token_ids", "response_tokens", *TOKEN_ARRAYS)
        # An empty array counts as absent, but a response may have no tokens.
        if isinstance(values := row.get(name), list) and (values or name == "response_tokens")
    ]
    tokens = min(sizes, default=-1)
    if mask is not None and not (_is_mask(mask) and len(mask) == tokens):
        del row["response_mask"]
        problems.append("bad_mask")
    turns = None if logged is None else _turns(logged)
    if logged is not None and turns is None:
        del row["turns"]
        problems.append("bad_turns")
    elif turns is not None:
        row["turns"] = turns
        if not _spans_fit([turn["tokens"] for turn in turns if "tokens" in turn], tokens):
            for turn in turns:
                turn.pop("tokens", None)
            problems.append("bad_spans")
    return problems


def _is_mask(mask: object) -> bool:
    try:
        return isinstance(mask, list) and set(mask) <= {0, 1}
    except TypeError:  # of lists or objects
        return False


def _turns(turns: object) -> list[dict[str, Any]] | None:
    if not isinstance(turns, list):
        return None
    normalized = []
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            return None
        role, sampled = role_name(turn["role"]), turn.get("sampled")
        normalized.append(
            {key: value for key, value in turn.items() if value is not None}
            | {
                "role": role,
                "text": content_text(turn.get("text")),
                "sampled": role == "assistant" if sampled is None else bool(sampled),
            }
        )
    return normalized


def _spans_fit(spans: Sequence[Any], tokens: int) -> bool:
    end = 0
    for span in spans:
        if not isinstance(span, list | tuple) or len(span) != 2:
            return False
        first, stop = span
        if type(first) is not int or type(stop) is not int or not end <= first <= stop <= tokens:
            return False
        end = stop
    return True
