"""Row metadata: split, agent, errors, policy version, turns and loss mask."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from rlreport.fields import TOKEN_ARRAYS
from rlreport.figures.conversation import (
    TURN_LIMITS,
    conversation_figures,
    says_more,
    thinking_figures,
    tool_counts,
)
from rlreport.text.chat import content_text, role_name, turns_in_text

_LARGEST = 2**53
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
    out = RowMetadata()
    turns = record.get("turns")
    if turns:
        out.figures = conversation_figures(turns, prompt)
        out.tools = tool_counts(turns)
    elif says_more(prompt, response):
        if turns := turns_in_text(response):
            out.figures = conversation_figures(turns, prompt)
            del out.figures["tool_errors"]  # markup does not tell errors
        else:
            out.figures = thinking_figures(prompt, response)
    out.split = split_named(record.get("split")) or None
    out.trainable = record.get("trainable") is not False
    out.failed = bool(record.get("errors")) and not response.strip()
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
