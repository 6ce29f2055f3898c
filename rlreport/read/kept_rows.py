"""Which rows of the logs are kept: without restarts, branches and superseded files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.read.chunk import (
    Chunk,
    Columns,
    Extra,
    LeftOut,
    joined_columns,
)
from rlreport.read.detect import LogFiles
from rlreport.read.remarks import ODDITIES
from rlreport.read.restarts import (
    later_attempts,
    restart_note,
    start_note,
    starts_of,
    superseded_rows,
)
from rlreport.tables import Note, NoteKind, RowRole
from rlreport.text.messages import message, translatable

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]
_BRANCHES = translatable("branches of rollouts: shown, but only the trained row counts")


@dataclass(slots=True)
class LogRows:
    chunk: Chunk  # all rows, concatenated
    order: Ints  # int64 (R',), which rows of ``chunk`` are in the response table, in its order
    failed: dict[int, int] = field(
        default_factory=dict
    )  # training step -> failed rollouts
    filtered: dict[int, int] = field(
        default_factory=dict
    )  # training step -> filtered rollouts
    repeated: dict[int, int] = field(
        default_factory=dict
    )  # step -> responses of older attempts
    notes: list[Note] = field(default_factory=list)  # on rows left out


def log_rows(  # noqa: PLR0914
    chunks: Sequence[Chunk], files: LogFiles, *, keep_restarted: bool
) -> LogRows:
    """Concatenate chunks and choose the rows of the response table.

    Of each rollout, the last row counts and the others are its branches. Of steps that a restarted
    run logged again, the last attempt is kept unless ``keep_restarted``. Without training rows,
    validation rows count as training rows.
    """
    rows = LogRows(joined_chunk(chunks), np.zeros(0, np.int64))
    columns = rows.chunk.columns
    if not columns:
        return rows
    left_out = columns["left_out"]
    untrained = left_out == LeftOut.UNTRAINED_BRANCH
    responses = (left_out == LeftOut.NO) | untrained
    if responses.any() and columns["validation"][responses].all():
        columns["validation"] = np.zeros_like(columns["validation"])
    keep = np.ones(len(responses), dtype=bool)
    repeated = np.zeros(len(responses), dtype=bool)
    rollout = columns.get("rollout")
    for file, index in _rows_by_file(columns):
        steps = columns["step"][index].astype(np.int64)
        name = files.sources[file].name
        in_validation = columns["validation"][index] == RowRole.VALIDATION
        older = superseded_rows(steps, in_validation)
        starts = starts_of(
            steps, in_validation, columns["prompt_hash"][index].astype(np.uint64)
        )
        if keep_restarted and starts.any():
            note, last_only = start_note(starts, steps, name)
            rows.notes.append(note)
            if last_only:
                keep[index[starts < starts[-1]]] = False
                older = older & (starts == starts[-1])
        keep[index[older]] &= keep_restarted
        older &= responses[index]
        repeated[index[older]] = True
        if older.any():
            rows.notes.append(restart_note(steps[older], name, kept=keep_restarted))
        if rollout is not None:
            keys = {
                "step": steps,
                "of": columns["validation"][index],
                "rollout": rollout[index],
            }
            keys["left_out"] = left_out[index]
            repeats = pd.DataFrame(keys).duplicated(keep="last").to_numpy()
            branches = (
                repeats & ~np.isnan(rollout[index]) & responses[index]
                | untrained[index]
            )
            columns["validation"][index[branches]] = RowRole.BRANCH
    _mark_older_files(rows, keep, repeated, files, keep_restarted=keep_restarted)
    responses &= ~_without_trained_row(rows, responses & keep, files)
    training = keep & (columns["validation"] == RowRole.TRAINING)
    rows.failed = _by_step(columns, training & (left_out == LeftOut.FAILED))
    rows.filtered = _by_step(columns, training & (left_out == LeftOut.FILTERED))
    rows.repeated = _by_step(columns, training & responses & repeated)
    response_rows = np.flatnonzero(keep & responses)
    names = ("sub", "offset", "file", "validation", "step")
    rows.order = response_rows[
        np.lexsort([columns[name][response_rows] for name in names])
    ]
    return rows


def _without_trained_row(rows: LogRows, responses: Mask, files: LogFiles) -> Mask:
    """Add notes on branches; return which rows are branches at steps without others, bool (R,)."""
    step, file = (
        rows.chunk.columns[name].astype(np.int64) for name in ("step", "file")
    )
    branches = responses & (rows.chunk.columns["validation"] == RowRole.BRANCH)
    alone: Mask = branches & ~np.isin(step, step[responses & ~branches])
    rows.notes += _notes_by_file(
        NoteKind.BRANCHES, _BRANCHES, file[branches & ~alone], files
    )
    text = ODDITIES[NoteKind.UNTRAINED]
    rows.notes += _notes_by_file(NoteKind.UNTRAINED, text, file[alone], files)
    return alone


def _notes_by_file(
    kind: NoteKind, text: str, file: Ints, files: LogFiles
) -> list[Note]:
    """Return a note for each file in ``file``, the file of each row concerned."""
    numbers, counts = np.unique(file, return_counts=True)
    return [
        Note(kind, message(text), count, files.sources[number].name)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    ]


def _by_step(columns: Columns, selection: Mask) -> dict[int, int]:
    steps, rows = np.unique(columns["step"][selection], return_counts=True)
    return dict(zip(steps.tolist(), rows.tolist(), strict=True))


def _mark_older_files(
    rows: LogRows, keep: Mask, repeated: Mask, files: LogFiles, *, keep_restarted: bool
) -> None:
    columns = rows.chunk.columns
    names = [source.name for source in files.sources]
    if len(names) < 2:
        return
    file, step, validation = (
        columns[name].astype(np.int64) for name in ("file", "step", "validation")
    )
    training = (
        keep & (columns["left_out"] == LeftOut.NO) & (validation == RowRole.TRAINING)
    )
    # A step of training and the same step of validation are two.
    split_steps = np.where(validation == RowRole.VALIDATION, 2 * step + 1, 2 * step)
    prompts = columns["prompt_hash"].astype(np.uint64)[training]
    for older, newer in later_attempts(file[training], step[training], prompts, names):
        again = (
            keep
            & np.isin(file, older)
            & np.isin(split_steps, split_steps[np.isin(file, newer)])
        )
        if not again.any():  # another pair of attempts has marked these rows
            continue
        name = names[int(older.min())]
        rows.notes.append(restart_note(step[again], name, kept=keep_restarted))
        keep[again] = keep_restarted
        repeated |= again


def joined_chunk(chunks: Sequence[Chunk]) -> Chunk:
    joined = Chunk()
    for chunk in chunks:
        base = joined.rows
        for name, extra in chunk.extras.items():
            whole = joined.extras.setdefault(name, Extra())
            whole.rows.frombytes((np.asarray(extra.rows, np.int64) + base).tobytes())
            whole.numbers.extend(extra.numbers)
            whole.texts |= {base + row: text for row, text in extra.texts.items()}
        joined.tools += [(base + row, *tool) for row, *tool in chunk.tools]  # type: ignore[misc]
        joined.rows += chunk.rows
        joined.counts += chunk.counts
        joined.changes += chunk.changes
        joined.remarks.update(chunk.remarks)
        joined.reward_parts |= chunk.reward_parts
        joined.extras_dropped |= chunk.extras_dropped
    joined.columns = joined_columns([chunk.columns for chunk in chunks if chunk.rows])
    return joined


def _rows_by_file(columns: Columns) -> list[tuple[int, Ints]]:
    file, offset, sub = (
        columns[name].astype(np.int64) for name in ("file", "offset", "sub")
    )
    rows = np.lexsort((sub, offset, file))
    numbers, starts = np.unique(file[rows], return_index=True)
    return list(zip(numbers.tolist(), np.split(rows, starts[1:]), strict=True))
