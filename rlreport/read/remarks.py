"""Collect problems of the logs: unusable lines, invalid values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, translatable

MAX_UNREAD = 1000  # Maximum number of unusable lines that are listed; further ones are only counted


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
    oddities: dict[NoteKind, Oddity] = field(default_factory=dict)
    # the first MAX_UNREAD lines that could not be used
    unread: list[UnreadLine] = field(default_factory=list)
    unread_count: int = 0  # number of all lines that could not be used

    def add(self, kind: NoteKind, position: LogPosition, count: int = 1) -> None:
        """Count ``count`` more oddities of a kind, the first of which is at ``position``."""
        times, first = self.oddities.get(kind, (0, position))
        self.oddities[kind] = Oddity(times + count, first)

    def update(self, other: Remarks) -> None:
        """Add all remarks of ``other``, which must come later in the logs."""
        for kind, oddity in other.oddities.items():
            self.add(kind, oddity.first, oddity.times)
        self.unread = [*self.unread, *other.unread][:MAX_UNREAD]
        self.unread_count += other.unread_count


_MAX_ALIKE = 3  # notes with one text that are kept, each with the name of its file
_MAX_UNLIKE = 20  # notes with different texts on files that are not read


def one_per_cause(notes: Iterable[Note]) -> list[Note]:
    """Return the notes; of many with one text, the first only, with the number of all of them."""
    by_cause: dict[tuple[NoteKind, str], list[Note]] = {}
    for note in notes:
        by_cause.setdefault((note.kind, str(note.text)), []).append(note)
    kept: list[Note] = []
    for alike in by_cause.values():
        if len(alike) > _MAX_ALIKE:
            kept.append(_with_sum(alike[0], alike))
        else:
            kept += alike
    return kept


def on_files_not_read(notes: Iterable[Note]) -> list[Note]:
    """Return notes on files that are not read: one per cause, and one on all beyond the first."""
    notes = one_per_cause(notes)
    further = notes[_MAX_UNLIKE:]
    if len(further) > 1:
        text = message("not read: further files in no known log format")
        rest = replace(further[0], text=text)
        notes[_MAX_UNLIKE:] = [_with_sum(rest, further)]
    return notes


def _with_sum(note: Note, notes: Sequence[Note]) -> Note:
    """Return a note that stands for all ``notes``, with the number of what these concern."""
    return replace(note, count=sum(one.count for one in notes))


# Kind of invalid or unusual value -> text of the note on it, shown after their number
_ODD_VALUES = {
    NoteKind.UNEQUAL_LENGTHS: translatable(
        "token arrays of unequal length, cut to the shortest"
    ),
    NoteKind.SENTINEL: translatable(
        "tokens with a log-probability above 0, treated as padding and left out"
    ),
    NoteKind.PADS: translatable("pad tokens at the start or end of responses, dropped"),
    NoteKind.NESTED: translatable(
        "token arrays that are not lists of numbers, left out"
    ),
    NoteKind.NOT_TOKENS: translatable(
        "response_tokens that are not a list of strings, left out"
    ),
    NoteKind.NOT_A_NUMBER: translatable(
        "optional rewards that are not numbers, left out"
    ),
    NoteKind.NOT_TEXT: translatable("reference responses that are not text, left out"),
    NoteKind.TOLERANT: translatable(
        "lines of non-strict JSON (NaN, Infinity, lone surrogates), read anyway"
    ),
    NoteKind.REASONLESS: translatable(
        "unknown finish reasons, counted as “another reason”"
    ),
}
_ODD_ROWS = {
    NoteKind.BAD_MASK: translatable(
        "response masks that do not match the tokens or contain values other than 0 and 1, ignored"
    ),
    NoteKind.BAD_TURNS: translatable(
        "rows whose turns are not a list of objects with a role; turns ignored"
    ),
    NoteKind.BAD_SPANS: translatable(
        "rows with token spans of turns that overlap or exceed the response; spans ignored"
    ),
    NoteKind.UNTRAINED: translatable(
        "rows of agents that are not trained, left out of the figures"
    ),
    NoteKind.FILTERED_OUT: translatable(
        "rollouts filtered out before training or not trained yet, left out of the figures"
    ),
    NoteKind.FAILED: translatable(
        "rollouts that failed before the policy wrote anything, only counted by step"
    ),
    NoteKind.OTHER_SPLIT_ROWS: translatable(
        "rows of other splits, skipped (read them with --split)"
    ),
    NoteKind.LONG_TEXT: translatable(
        "responses of over 4,194,304 characters; words after that are not counted"
    ),
    NoteKind.NO_STEP: translatable(
        "no row has a step, so the run is one step; if a field or the paths have it, pass "
        "--map step=FIELD or --step-from-path REGEX"
    ),
    NoteKind.MANY_EXTRAS: translatable(
        "extra scalar fields beyond the first 64, left out"
    ),
}
ODDITIES = _ODD_VALUES | _ODD_ROWS
