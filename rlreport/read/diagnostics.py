"""What reading has to say about the logs: lines not read, and oddities with their counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rlreport.fields import NotTaken, count_not_taken, trim_not_taken
from rlreport.text.messages import marked

MOST_UNREAD = 1000


class LogPosition(NamedTuple):
    """Where something was met; ``line`` counts from 1 inside its split."""

    file: int
    offset: int
    line: int


class UnreadLine(NamedTuple):
    """A line that could not be used, and why; ``torn``: the file ends inside it."""

    position: LogPosition
    reason: str
    torn: bool


class Oddity(NamedTuple):
    """How often something was met, and where first."""

    times: int
    first: LogPosition


@dataclass(slots=True)
class Diagnostics:
    """Remarks of one kind or another; adding is commutative.

    Attributes:
        oddities: by kind, see ODDITIES.
        unread: the first thousand lines that could not be used.
        unread_count: all of them.
        not_taken: fields that nobody read.
    """

    oddities: dict[str, Oddity] = field(default_factory=dict)
    unread: list[UnreadLine] = field(default_factory=list)
    unread_count: int = 0
    not_taken: NotTaken = field(default_factory=dict)

    def add(self, kind: str, position: LogPosition, count: int = 1) -> None:
        """Count an oddity."""
        known = self.oddities.get(kind)
        if known is None:
            self.oddities[kind] = Oddity(count, position)
        else:
            self.oddities[kind] = Oddity(known.times + count, min(known.first, position))

    def add_unread(self, line: UnreadLine) -> None:
        """Add a line that could not be used."""
        self.unread_count += 1
        self.unread.append(line)
        if len(self.unread) >= 2 * MOST_UNREAD:
            self.unread = sorted(self.unread)[:MOST_UNREAD]

    def update(self, other: Diagnostics) -> None:
        """Add all of another's remarks."""
        for kind, oddity in other.oddities.items():
            self.add(kind, oddity.first, oddity.times)
        self.unread = sorted([*self.unread, *other.unread])[:MOST_UNREAD]
        self.unread_count += other.unread_count
        self.add_not_taken(other.not_taken)

    def add_not_taken(self, found: NotTaken) -> None:
        """Add fields that nobody read."""
        for name, (times, kind) in found.items():
            count_not_taken(self.not_taken, name, kind, times)
        trim_not_taken(self.not_taken)


ODDITIES = {
    "unequal_lengths": marked("token arrays of unequal length, cut to the shortest"),
    "sentinel": marked("tokens with a log-probability above 0, taken for padding and dropped"),
    "pads": marked("pad tokens at the ends of responses, dropped"),
    "coerced": marked("numbers written as text, read as numbers"),
    "array_strings": marked("rows whose token arrays hold text or true/false where numbers belong"),
    "nested": marked("token arrays that are lists of lists, left out"),
    "not_tokens": marked("response_tokens that are no list of strings, left out"),
    "not_a_number": marked("optional rewards that are no numbers, left out"),
    "not_text": marked("reference responses that are no text, left out"),
    "tolerant": marked(
        "lines that are no strict JSON (NaN, Infinity, lone surrogates), read all the same"
    ),
    "reasonless": marked("finish reasons that are not known, left out"),
    "unended": marked(
        "compressed files without an end, as a killed writer leaves them; no row is lost"
    ),
    "bad_mask": marked(
        "response masks of another length than the tokens, or not of 0 and 1, left out"
    ),
    "bad_turns": marked("rows whose turns are no list of objects with a role; the turns left out"),
    "bad_spans": marked(
        "rows whose turns' token spans overlap or leave the response; the spans left out"
    ),
    "untrained": marked("rows of agents that are not trained, kept out of the figures"),
    "failed": marked("rollouts that failed before the policy spoke, counted by step, no responses"),
    "other_split_rows": marked("rows of further splits, not read (--split reads them)"),
    "long_text": marked("responses of over 4,194,304 characters, whose words count up to there"),
    "many_extras": marked("further scalar fields, left out beyond the first 64"),
    "many_tokens": marked("token strings left out of the token table beyond the first 262,144"),
}
"""What each kind says; the count goes before it."""
