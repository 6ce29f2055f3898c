"""What a row says beside its text and tokens: split, seat, errors, version, turns, and its mask.

Turns and masks are checked: what cannot be right is left out, and said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from rlreport.fields import TOKEN_ARRAYS
from rlreport.figures.conversation import (
    TURN_LIMITS,
    conversation_figures,
    thinking_figures,
    tool_counts,
)
from rlreport.text.chat import content_text, role_name, turns_in_text

BESIDE = ("turns", "policy_version", "errors", "seconds", "trainable", "split")
"""Fields that this module reads."""

_LARGEST = 2**53
_SPLITS = {
    "training": "train", "validation": "val", "valid": "val", "dev": "val",
    "evaluation": "eval", "test": "eval",
}  # fmt: skip


@dataclass(slots=True)
class Beside:
    """What a row says beside text and tokens.

    Attributes:
        split: the row's own, None where it names none.
        trained: its seat is trained.
        failed: the rollout ended in errors before the policy spoke: it is no response.
        figures: columns of the response table, by name.
        tools: tool -> its answers, and how many were errors.
    """

    split: str | None = None
    trained: bool = True
    failed: bool = False
    figures: dict[str, float] = field(default_factory=dict)
    tools: dict[str, tuple[int, int]] = field(default_factory=dict)


NOTHING = Beside()

ToolCounts = dict[tuple[int, str], tuple[int, int]]
"""(step, tool) -> its answers, and how many were errors."""


def add_tool(known: ToolCounts, step: int, tool: str, counts: tuple[int, int]) -> None:
    """Add the answers of a tool in a step."""
    answers, errors = known.get((step, tool), (0, 0))
    known[step, tool] = answers + counts[0], errors + counts[1]


def beside(
    record: Mapping[str, Any], step: int, prompt: str, response: str, reason: object = None
) -> Beside:
    """Return what a row says in the fields of ``BESIDE``; what means nothing there is skipped.

    Args:
        record: those fields; turns as ``mended`` has checked them. Where there are
            none, those that the text marks count.
        step: of the row.
        prompt: its prompt.
        response: its text.
        reason: why the response ended.
    """
    out = Beside()
    turns = record.get("turns")
    if turns:
        out.figures = conversation_figures(turns, prompt)
        out.tools = tool_counts(turns)
    elif turns := turns_in_text(response):
        out.figures = conversation_figures(turns, prompt)
        del out.figures["tool_errors"]  # no markup tells an error
    else:
        out.figures = thinking_figures(prompt, response)
    out.split = split_named(record.get("split")) or None
    errors = record.get("errors")
    out.trained = record.get("trainable") is not False
    out.failed = bool(errors) and not response.strip()
    version: Any = record.get("policy_version")
    if isinstance(version, list | tuple) and version:
        version = version[0]
    if _is_number(version):
        out.figures["lag"] = float(step - version)
    if _is_number(seconds := record.get("seconds")):
        out.figures["seconds"] = float(seconds)
    limited = isinstance(reason, str) and reason.lower() in TURN_LIMITS
    if limited or (turns and isinstance(reason, str)):
        out.figures["at_turn_limit"] = float(limited)
    return out


def split_named(value: object) -> str:
    """Return the usual name of a split; "" where a value names none."""
    if not isinstance(value, str):
        return ""
    return _SPLITS.get(value.lower(), value.lower())


def _is_number(value: Any) -> TypeGuard[float]:
    if type(value) is int:
        # Beyond, no float64 holds it exactly, nor far beyond at all.
        return abs(value) <= _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def mask_of_json(text: bytes, size: int) -> bytes | None:
    """Return a JSON array of so many 0, 1, true or false as bytes of 0 and 1; None if it is none.

    Of ``true`` only the t and of ``false`` only the f is looked for; the length of the text
    proves that nothing else stands there.
    """
    if b'"' in text:
        return None
    data = np.frombuffer(text, dtype=np.uint8)
    one = (data == ord("1")) | (data == ord("t"))
    marks = one | (data == ord("0")) | (data == ord("f"))
    own = data[marks]
    letters = 3 * int((own == ord("t")).sum()) + 4 * int((own == ord("f")).sum())
    if len(own) != size or len(text) != 2 * size + 1 + letters:
        return None
    return bytes(one[marks].astype(np.uint8))


def mended(row: dict[str, Any]) -> list[str]:
    """Check ``response_mask`` and ``turns`` of a row, in place, and return what was left out."""
    odd: list[str] = []
    mask, logged = row.get("response_mask"), row.get("turns")
    if mask is None and logged is None:
        return odd
    # As the arrays are read: the shortest of them.
    sizes = [
        len(array)
        for name in ("token_ids", "response_tokens", *TOKEN_ARRAYS)
        # An empty array is none, but a response may have no tokens.
        if isinstance(array := row.get(name), list) and (array or name == "response_tokens")
    ]
    tokens = min(sizes, default=-1)
    of_all = isinstance(mask, list) and len(mask) == tokens
    if mask is not None and not (of_all and all(own in (0, 1) for own in mask)):
        del row["response_mask"]
        odd.append("bad_mask")
    turns = None if logged is None else _turns(logged)
    if logged is not None and turns is None:
        del row["turns"]
        odd.append("bad_turns")
    elif turns is not None:
        row["turns"] = turns
        if not _spans_fit([turn["tokens"] for turn in turns if "tokens" in turn], tokens):
            for turn in turns:
                turn.pop("tokens", None)
            odd.append("bad_spans")
    return odd


def _turns(turns: object) -> list[dict[str, Any]] | None:
    if not isinstance(turns, list):
        return None
    made = []
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            return None
        role, sampled = role_name(turn["role"]), turn.get("sampled")
        made.append(
            {key: value for key, value in turn.items() if value is not None}
            | {
                "role": role,
                "text": content_text(turn.get("text")),
                "sampled": role == "assistant" if sampled is None else bool(sampled),
            }
        )
    return made


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
