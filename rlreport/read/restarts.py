"""Steps that a file holds twice, since a restarted run logged them again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.read.partial import Partial
from rlreport.read.sources import Source
from rlreport.read.splits import Span
from rlreport.tables import Note
from rlreport.text.messages import message

Replaced = dict[int, tuple[tuple[Span, ...], tuple[Span, ...]]]
"""File -> spans of its rows that a later attempt replaced: of training, and those beside it."""


def restarts(
    partial: Partial, sources: Sequence[Source], *, kept: bool
) -> tuple[list[Note], Replaced]:
    """Report steps that were logged again after a restart.

    Args:
        partial: the merged scan.
        sources: the files.
        kept: the older rows stay; else the notes say that they are left out.

    Returns:
        a note for each file with such steps, and where the older rows lie.
    """
    notes: list[Note] = []
    replaced: Replaced = {}
    columns = partial.columns
    if not partial.rows:
        return notes, replaced
    offset, sub = (columns[name].astype(np.int64) for name in ("offset", "sub"))
    in_files = np.lexsort((sub, offset, columns["file"]))
    file = columns["file"][in_files]
    for number, source in enumerate(sources):
        rows = in_files[file == number]
        steps = columns["step"][rows].astype(np.int64)
        beside = columns["validation"][rows] == 1
        older = _superseded(steps, beside)
        if not older.any():
            continue
        low, high = int(steps[older].min()), int(steps[older].max())
        span = message("{low} to {high}", low=low, high=high) if low < high else str(low)
        text = (
            message(
                "steps run backwards: {steps} logged again after a restart, all rows kept",
                steps=span,
            )
            if kept
            else message(
                "steps run backwards: {steps} logged again after a restart, the older rows left "
                "out",
                steps=span,
            )
        )
        notes.append(Note("restart", text, int(older.sum()), source.name))
        places = np.stack([offset[rows], sub[rows]], axis=1)
        replaced[number] = (
            _spans(places[~beside], older[~beside]),
            _spans(places[beside], older[beside]),
        )
    return notes, replaced


def _superseded(steps: Ints, beside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell the rows whose step is logged again after the file went back to an earlier step.

    Args:
        steps: int64 (R,), steps of one file's rows in the file's order.
        beside: bool (R,), rows that stand beside training. They may come late, and alone tell
            of no restart where the file holds rows of training too.

    Returns:
        bool (R,), rows that a later attempt replaces by others of their kind. None where steps
        hop back and forth on most rows: such a file is not in the order of its steps.
    """
    telling = np.arange(len(steps)) if beside.all() else np.flatnonzero(~beside)
    change = np.diff(steps[telling])
    back = change < 0
    if not back.any() or 4 * int(back.sum()) > int((change != 0).sum()):
        return np.zeros(len(steps), dtype=bool)
    attempt = np.zeros(len(steps), dtype=np.int64)
    attempt[telling[1:][back]] = 1
    attempt = np.cumsum(attempt)
    _, pair = np.unique(2 * steps + beside, return_inverse=True)
    last = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    np.maximum.at(last, pair, attempt)
    older: NDArray[np.bool_] = attempt < last[pair]
    return older


def _spans(places: Ints, older: NDArray[np.bool_]) -> tuple[Span, ...]:
    """Return the first and last place, (offset, sub), of each run of older rows."""
    edges = np.diff(np.concatenate([[0], older.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    return tuple(
        ((first, first_sub), (last, last_sub))
        for (first, first_sub), (last, last_sub) in zip(
            places[starts].tolist(), places[stops].tolist(), strict=True
        )
    )
