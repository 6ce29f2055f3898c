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
"""Tools that are counted by name in one response."""

TURN_LIMITS = frozenset(
    {"max_turns", "max_turns_exceeded", "max_turns_reached", "max_steps", "turn_limit"}
)
"""What frameworks log where a conversation was stopped for its number of turns."""

_LARGEST = 2**53
_LONGEST_NAME = 80
_OPEN, _CLOSE = "<think>", "</think>"
_THOUGHT = re.compile(f"{_OPEN}(.*?)(?:{_CLOSE}|\\Z)", re.DOTALL)
_SPLITS = {
    "training": "train", "validation": "val", "valid": "val", "dev": "val",
    "evaluation": "eval", "test": "eval",
}  # fmt: skip


@dataclass(slots=True)
class RowMetadata:
    """What a row says about itself besides text and tokens.

    Attributes:
        split: the row's own split, None if it names none.
        trainable: whether the agent that spoke is being trained.
        failed: the rollout ended in errors before the policy wrote anything.
        figures: columns of the response table by name.
        tools: tool -> number of its answers, and how many were errors.
    """

    split: str | None = None
    trainable: bool = True
    failed: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    tools: dict[str, tuple[int, int]] = field(default_factory=dict)


def row_metadata(
    record: Mapping[str, Any], step: int, prompt: str, response: str, reason: object = None
) -> RowMetadata:
    """Return the metadata of a row; unusable values are ignored.

    Args:
        record: the row; its turns as ``normalize_turns_and_mask`` left them. Without turns,
            those that the text marks are used.
        step: its training step.
        prompt: its prompt.
        response: its text.
        reason: why the response ended.
    """
    turns = record.get("turns")
    out = RowMetadata(
        split=split_named(record.get("split")) or None,
        trainable=record.get("trainable") is not False,
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
    """Characters of thinking in a text, whether it has no end, and the text without it."""

    chars: int
    unclosed: bool
    answer: str


def _thinking(text: str, begun: bool = False) -> _Thinking | None:
    """Return what a text holds of thinking, None where it does not think.

    ``begun`` says that the prompt ends with ``<think>``.
    """
    opened, closed = text.find(_OPEN), text.find(_CLOSE)
    if not begun and opened < 0 and closed < 0:
        return None
    # A chat template often opens the thinking itself: then the text has only its end.
    if (begun and opened < 0) or (closed >= 0 and (opened < 0 or closed < opened)):
        text = _OPEN + text
    chars = sum(map(len, _THOUGHT.findall(text)))
    return _Thinking(chars, text.rfind(_OPEN) > text.rfind(_CLOSE), _THOUGHT.sub("", text))


def _begins_thinking(prompt: str) -> bool:
    return prompt[-24:].rstrip().endswith(_OPEN)


def _turn_figures(turns: Sequence[Turn], prompt: str) -> dict[str, float]:
    """Return the figures of the turns after a prompt.

    A void turn has neither a call nor, besides its thinking, any text (SimpleTIR 2025).
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


def _tool_counts(turns: Sequence[Turn]) -> dict[str, tuple[int, int]]:
    """Return the answers of each tool, and how many were errors; at most MAX_TOOLS tools."""
    counts: dict[str, tuple[int, int]] = {}
    for turn in turns:
        name = turn.get("tool")
        name = name[:_LONGEST_NAME] if isinstance(name, str) else ""
        if turn["role"] == "tool" and (name in counts or len(counts) < MAX_TOOLS):
            answers, errors = counts.get(name, (0, 0))
            counts[name] = answers + 1, errors + bool(turn.get("error"))
    return counts


def split_named(value: object) -> str:
    """Return the usual name of a split; "" if the value names none."""
    if not isinstance(value, str):
        return ""
    return _SPLITS.get(value.lower(), value.lower())


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a value is a finite number that float64 holds exactly."""
    if type(value) is int:
        return abs(value) <= _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def normalize_turns_and_mask(row: dict[str, Any]) -> list[str]:
    """Check ``response_mask`` and ``turns`` in place; return the kinds of problems found."""
    problems: list[str] = []
    mask, logged = row.get("response_mask"), row.get("turns")
    if mask is None and logged is None:
        return problems
    # As the arrays are read: the shortest of them.
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
