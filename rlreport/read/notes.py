"""Remarks about the logs: lines that could not be read, oddities, restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.fields import NotTaken, count_not_taken, trim_not_taken
from rlreport.figures.ragged import Ints
from rlreport.tables import Note
from rlreport.text.messages import marked, message

MAX_UNREAD = 1000
"""Unread lines that are listed; further ones are only counted."""


class LogPosition(NamedTuple):
    """A place in the logs; ``line`` counts from 1 inside its byte range."""

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
class Remarks:
    """Remarks about the lines that were read, added in the order of the logs.

    Attributes:
        oddities: by kind, see ODDITIES.
        unread: the first MAX_UNREAD lines that could not be used.
        unread_count: number of all of them.
        unread_fields: fields that nobody read.
    """

    oddities: dict[str, Oddity] = field(default_factory=dict)
    unread: list[UnreadLine] = field(default_factory=list)
    unread_count: int = 0
    unread_fields: NotTaken = field(default_factory=dict)

    def add(self, kind: str, position: LogPosition, count: int = 1) -> None:
        """Count an oddity."""
        times, first = self.oddities.get(kind, (0, position))
        self.oddities[kind] = Oddity(times + count, first)

    def add_unread(self, line: UnreadLine) -> None:
        """Add a line that could not be used."""
        self.unread_count += 1
        if len(self.unread) < MAX_UNREAD:
            self.unread.append(line)

    def add_unread_fields(self, found: NotTaken) -> None:
        """Add fields that nobody read."""
        for name, (times, kind) in found.items():
            count_not_taken(self.unread_fields, name, kind, times)
        trim_not_taken(self.unread_fields)

    def update(self, other: Remarks) -> None:
        """Add all remarks of another."""
        for kind, oddity in other.oddities.items():
            self.add(kind, oddity.first, oddity.times)
        self.unread = [*self.unread, *other.unread][:MAX_UNREAD]
        self.unread_count += other.unread_count
        self.add_unread_fields(other.unread_fields)


ODDITIES = {
    "unequal_lengths": marked("token arrays of unequal length, cut to the shortest"),
    "sentinel": marked("tokens with a log-probability above 0, taken for padding and dropped"),
    "pads": marked("pad tokens at the ends of responses, dropped"),
    "coerced": marked("numbers written as text, read as numbers"),
    "array_strings": marked("rows whose token arrays hold text where numbers belong"),
    "nested": marked("token arrays that are lists of lists, left out"),
    "not_tokens": marked("response_tokens that are no list of strings, left out"),
    "not_a_number": marked("optional rewards that are no numbers, left out"),
    "not_text": marked("reference responses that are no text, left out"),
    "tolerant": marked("lines of non-strict JSON (NaN, Infinity, lone surrogates), read anyway"),
    "reasonless": marked("unknown finish reasons, left out"),
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
    "untrained": marked("rows of agents that are not trained, left out of the figures"),
    "failed": marked("rollouts that failed before the policy wrote anything, counted by step"),
    "other_split_rows": marked("rows of further splits, not read (--split reads them)"),
    "long_text": marked("responses of over 4,194,304 characters, whose words count up to there"),
    "many_extras": marked("further scalar fields, left out beyond the first 64"),
}
"""Text for each kind of oddity; the count precedes it."""


def superseded_rows(steps: Ints, validation: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark rows that a restarted run logged again further down in the same file.

    A restart shows as a step that is lower than the one before. Files in which most steps
    differ from their predecessor's and go backwards often are not sorted by step at all.

    Args:
        steps: int64 (R,), steps of the rows of one file in their order.
        validation: bool (R,), rows of validation; they may come late, so they only indicate
            restarts in a file that has no others.

    Returns:
        bool (R,), rows whose step occurs again, for rows of the same kind, after a restart.
    """
    telling = np.arange(len(steps)) if validation.all() else np.flatnonzero(~validation)
    change = np.diff(steps[telling])
    back = change < 0
    if not back.any() or 4 * int(back.sum()) > int((change != 0).sum()):
        return np.zeros(len(steps), dtype=bool)
    attempt = np.zeros(len(steps), dtype=np.int64)
    attempt[telling[1:][back]] = 1
    attempt = np.cumsum(attempt)
    _, pair = np.unique(2 * steps + validation, return_inverse=True)
    last = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    np.maximum.at(last, pair, attempt)
    older: NDArray[np.bool_] = attempt < last[pair]
    return older


def restart_note(steps: Ints, name: str, *, kept: bool) -> Note:
    """Return the note on rows of a file, the older ones of those logged again after a restart."""
    low, high = int(steps.min()), int(steps.max())
    span = message("{low} to {high}", low=low, high=high) if low < high else str(low)
    text = marked("steps run backwards: {steps} logged again after a restart, all rows kept")
    if not kept:
        text = marked(
            "steps run backwards: {steps} logged again after a restart, the older rows left out"
        )
    return Note("restart", message(text, steps=span), len(steps), name)
