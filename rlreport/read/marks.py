"""Counted remarks about the logs, each with the first place it was met."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where something was met; ``line`` counts from 1 inside its split."""

    file: int
    offset: int
    line: int


class Mark(NamedTuple):
    """How often, and where first."""

    times: int
    first: Place


class Flaw(NamedTuple):
    """A line that could not be used."""

    place: Place
    reason: str
    torn: bool


@dataclass(slots=True)
class Marks:
    """Remarks by kind. Adding is commutative, so any order of reading gives the same."""

    by_kind: dict[str, Mark] = field(default_factory=dict)

    def add(self, kind: str, place: Place, count: int = 1) -> None:
        """Count a remark."""
        known = self.by_kind.get(kind)
        if known is None:
            self.by_kind[kind] = Mark(count, place)
        else:
            self.by_kind[kind] = Mark(known.times + count, min(known.first, place))

    def update(self, other: Marks) -> None:
        """Add all of another's remarks."""
        for kind, mark in other.by_kind.items():
            self.add(kind, mark.first, mark.times)


REMARKS = {
    "unequal_lengths": "token arrays of unequal length, cut to the shortest",
    "sentinel": "tokens with a log-probability above 0, taken for padding and dropped",
    "pads": "pad tokens at the ends of responses, dropped",
    "coerced": "numbers written as text, read as numbers",
    "array_strings": "rows whose token arrays hold text or true/false where numbers belong",
    "nested": "token arrays that are lists of lists, left out",
    "not_tokens": "response_tokens that are no list of strings, left out",
    "not_a_number": "optional rewards that are no numbers, left out",
    "not_text": "reference responses that are no text, left out",
    "tolerant": "lines that are no strict JSON (NaN, Infinity, lone surrogates), read all the same",
    "reasonless": "finish reasons that are not known, left out",
    "many_extras": "further scalar fields, left out beyond the first 64",
    "many_tokens": "token strings left out of the token table beyond the first 262,144",
}
"""What each kind of mark says; the count goes before it."""
