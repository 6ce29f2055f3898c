"""Collect problems of the logs: unusable lines, invalid values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rlreport.text.messages import translatable

# Two attempts share at least this many steps, where each has at least this fraction of its usual
# rows, and at least this fraction of the older rows has a prompt that occurs in the newer files
# Kind of the note on how a file is read that its reader has to know; see ``read.detect``
FORMAT = "format"

MAX_UNREAD = 1000  # Maximum number of unusable lines that are listed; further ones are only counted

NO_STEP = "no_step"  # Kind of the note that neither rows nor paths have a step


class LogPosition(NamedTuple):
    """Position of a line: index of the file, byte offset, line number (from 1) in its range."""

    file: int
    offset: int
    line: int


class UnreadLine(NamedTuple):
    """A line that could not be used, and the reason; ``torn``: the file ends within this line."""

    position: LogPosition
    reason: str
    torn: bool


class Oddity(NamedTuple):
    times: int
    first: LogPosition


@dataclass(slots=True)
class Remarks:
    """Problems of the lines that were read, added in the order of the logs."""

    # kind (a key of ODDITIES) -> number and first position
    oddities: dict[str, Oddity] = field(default_factory=dict)
    # the first MAX_UNREAD lines that could not be used
    unread: list[UnreadLine] = field(default_factory=list)
    unread_count: int = 0  # number of all lines that could not be used

    def add(self, kind: str, position: LogPosition, count: int = 1) -> None:
        """Count ``count`` more oddities of a kind, the first of which is at ``position``."""
        times, first = self.oddities.get(kind, (0, position))
        self.oddities[kind] = Oddity(times + count, first)

    def update(self, other: Remarks) -> None:
        """Add all remarks of ``other``, which must come later in the logs."""
        for kind, oddity in other.oddities.items():
            self.add(kind, oddity.first, oddity.times)
        self.unread = [*self.unread, *other.unread][:MAX_UNREAD]
        self.unread_count += other.unread_count


# Kind of invalid or unusual value -> text of the note on it, shown after their number
ODDITIES = {
    "unequal_lengths": translatable(
        "token arrays of unequal length, cut to the shortest"
    ),
    "sentinel": translatable(
        "tokens with a log-probability above 0, treated as padding and left out"
    ),
    "pads": translatable("pad tokens at the start or end of responses, dropped"),
    "nested": translatable("token arrays that are not lists of numbers, left out"),
    "not_tokens": translatable(
        "response_tokens that are not a list of strings, left out"
    ),
    "not_a_number": translatable("optional rewards that are not numbers, left out"),
    "not_text": translatable("reference responses that are not text, left out"),
    "tolerant": translatable(
        "lines of non-strict JSON (NaN, Infinity, lone surrogates), read anyway"
    ),
    "reasonless": translatable("unknown finish reasons, counted as “another reason”"),
    "bad_mask": translatable(
        "response masks that do not match the tokens or contain values other than 0 and 1, ignored"
    ),
    "bad_turns": translatable(
        "rows whose turns are not a list of objects with a role; turns ignored"
    ),
    "bad_spans": translatable(
        "rows with token spans of turns that overlap or exceed the response; spans ignored"
    ),
    "untrained": translatable(
        "rows of agents that are not trained, left out of the figures"
    ),
    "filtered_out": translatable(
        "rollouts filtered out before training or not trained yet, left out of the figures"
    ),
    "failed": translatable(
        "rollouts that failed before the policy wrote anything, only counted by step"
    ),
    "other_split_rows": translatable(
        "rows of other splits, skipped (read them with --split)"
    ),
    "long_text": translatable(
        "responses of over 4,194,304 characters; words after that are not counted"
    ),
    NO_STEP: translatable(
        "no row has a step, so the run is one step; if a field or the paths have it, pass "
        "--map step=FIELD or --step-from-path REGEX"
    ),
    "many_extras": translatable("extra scalar fields beyond the first 64, left out"),
}
