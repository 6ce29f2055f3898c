"""Turns and masks of a canonical row, checked: what cannot be right is left out, and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.fields import TOKEN_ARRAYS
from rlreport.formats.base import Row
from rlreport.text.chat import content_text, role_name

BAD_MASK = "bad_mask"
BAD_TURNS = "bad_turns"
BAD_SPANS = "bad_spans"


def mended(row: Row) -> list[str]:
    """Check ``response_mask`` and ``turns`` of a row, in place, and return what was left out."""
    odd: list[str] = []
    if row.get("response_mask") is None and row.get("turns") is None:
        return odd
    tokens = _tokens(row)
    if row.get("response_mask") is not None and not _is_mask(row["response_mask"], tokens):
        del row["response_mask"]
        odd.append(BAD_MASK)
    if row.get("turns") is not None:
        turns = _turns(row["turns"])
        if turns is None:
            del row["turns"]
            odd.append(BAD_TURNS)
        else:
            row["turns"] = turns
            if not _spans_fit(turns, tokens):
                for turn in turns:
                    turn.pop("tokens", None)
                odd.append(BAD_SPANS)
    return odd


def _tokens(row: Row) -> int:
    """Return how many tokens a row has: as its arrays are read, the fewest of them; -1 without."""
    sizes = [
        len(array)
        for name in ("token_ids", "response_tokens", *TOKEN_ARRAYS)
        # An empty array is none, but a response may have no tokens.
        if isinstance(array := row.get(name), list) and (array or name == "response_tokens")
    ]
    return min(sizes, default=-1)


def _is_mask(mask: object, tokens: int) -> bool:
    return isinstance(mask, list) and len(mask) == tokens and all(m in (0, 1) for m in mask)


def _turns(turns: object) -> list[Row] | None:
    if not isinstance(turns, list):
        return None
    made = []
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            return None
        role = role_name(turn["role"])
        sampled = turn.get("sampled")
        own = {key: value for key, value in turn.items() if value is not None}
        own |= {
            "role": role,
            "text": content_text(turn.get("text")),
            "sampled": role == "assistant" if sampled is None else bool(sampled),
        }
        made.append(own)
    return made


def _spans_fit(turns: Sequence[Row], tokens: int) -> bool:
    end = 0
    for span in _spans(turns):
        if not isinstance(span, list | tuple) or len(span) != 2:
            return False
        first, stop = span
        if type(first) is not int or type(stop) is not int or not end <= first <= stop <= tokens:
            return False
        end = stop
    return True


def _spans(turns: Sequence[Row]) -> Iterator[Any]:
    return (turn["tokens"] for turn in turns if "tokens" in turn)
