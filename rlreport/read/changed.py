"""Logs that were cut, deleted or replaced while they were read: notes, and the steps concerned.

A log that only grows is no such log: what was there when the logs were listed is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, sentences


class Change(NamedTuple):
    """A byte range of a log that may not have been read to its end, and how the log changed."""

    file: int
    stop: int  # offset at which the next range begins
    how: str


def first_changes(changes: Sequence[Change]) -> dict[int, Change]:
    """Return file -> its first range that changed; what comes later in the file may be missing."""
    by_file: dict[int, Change] = {}
    for change in sorted(changes, key=lambda change: change.stop):
        by_file.setdefault(change.file, change)
    return by_file


def change_notes(changes: Mapping[int, Change], names: Sequence[str]) -> list[Note]:
    return [
        Note(NoteKind.CHANGED, change.how, 1, names[file])
        for file, change in sorted(changes.items())
    ]


def change_in_words(note: Note) -> str:
    return message("{file} {how}", file=note.file, how=note.text)


def changes_in_words(notes: Sequence[Note], unjudged: int | None) -> str:
    """Return sentences on the changes that ``notes`` tell, and on the first step not judged."""
    changes = [note for note in notes if note.kind == NoteKind.CHANGED]
    if not changes:
        return ""
    if len(changes) == 1:
        text = message("{change}.", change=change_in_words(changes[0]))
    else:
        text = message(
            "{count:count} files changed while they were read; the first: {change}.",
            count=len(changes),
            change=change_in_words(changes[0]),
        )
    if unjudged is None:
        return text
    rest = message(
        "Steps from {step} on are not judged, as rows may be missing.", step=unjudged
    )
    return sentences([text, rest])


def incomplete_from(
    changes: Mapping[int, Change], columns: Mapping[str, NDArray[np.generic]]
) -> int | None:
    """Return the step from which on rows of changed logs may be missing, None if there is none.

    ``columns`` are those of all rows, (R,) each, in the order of the logs. A log of which no row
    was read counts as if it had never been there: nothing says which steps it had.
    """
    file, offset, step = (
        columns[name].astype(np.int64) for name in ("file", "offset", "step")
    )
    steps = np.unique(step)
    incomplete = np.zeros(len(steps), bool)
    has_one_step_per_file = _are_dumps_of_steps(file, step)
    for number, change in changes.items():
        steps_read = step[(file == number) & (offset < change.stop)]
        if not len(steps_read):
            continue
        first = _first_incomplete(steps_read)
        # Later steps are in other files, or would have followed in this one.
        is_concerned = steps == first if has_one_step_per_file else steps >= first
        incomplete[is_concerned] = True
    # An incomplete step before a complete one, such as that of a dump, does not end the run.
    complete = np.flatnonzero(~incomplete)
    after_last_complete = complete[-1] + 1 if len(complete) else 0
    if after_last_complete == len(steps):
        return None
    return int(steps[after_last_complete])


def _are_dumps_of_steps(file: Ints, step: Ints) -> bool:
    """Return whether each file has one step only, so that no later step can be missing in it."""
    pairs = np.unique(np.stack([file, step]), axis=1)
    files = len(np.unique(file))
    return files > 1 and files == pairs.shape[1]


def _first_incomplete(steps_read: Ints) -> int:
    """Return the first step of which rows may follow, given the steps of all rows before.

    In a log in order of steps it is the last one. Asynchronous trainers also log rows of a few
    steps before: as many as they were late so far, they may be late again.
    """
    newest = np.maximum.accumulate(steps_read)
    most_late = int((newest - steps_read).max())
    return int(newest[-1]) - most_late
