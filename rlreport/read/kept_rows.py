"""Which rows of the logs are kept: without restarts, branches and superseded files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.constant import compact
from rlreport.figures.ragged import Ints
from rlreport.formats.trl import Trackio
from rlreport.read.chunk import (
    Chunk,
    Extra,
    LeftOut,
    joined_columns,
)
from rlreport.read.detect import LogFiles
from rlreport.read.remarks import ODDITIES
from rlreport.read.restarts import (
    choose_start,
    later_attempts,
    restart_note,
    shifts_of_starts,
    starts_note,
    starts_of,
    superseded_rows,
)
from rlreport.read.texts import Columns
from rlreport.tables import Note, NoteKind, RowRole
from rlreport.text.messages import message, translatable

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]
# Matches files of tables in a folder of W&B; groups: folder and table, W&B's own count
_WANDB_TABLE = re.compile(r"(.*)_(\d{1,18})_[0-9a-f]{8,64}\.table\.json")
_BRANCHES = translatable("branches of rollouts: shown, but only the trained row counts")


@dataclass(slots=True)
class LogRows:
    """All rows that were read, and which of them the tables have."""

    chunk: Chunk  # all rows, concatenated
    order: Ints  # int64 (R',), which rows of ``chunk`` are in the response table, in its order
    # training step -> number of rows
    failed: dict[int, int] = field(default_factory=dict)  # rollouts that failed
    filtered: dict[int, int] = field(default_factory=dict)  # rollouts filtered out
    repeated: dict[int, int] = field(default_factory=dict)  # of older attempts
    notes: list[Note] = field(default_factory=list)  # on rows left out
    starts: int = 1  # the largest number of starts in one log


def log_rows(
    chunks: Sequence[Chunk], files: LogFiles, restarts: str | int | None = None
) -> LogRows:
    """Concatenate chunks (which lose their columns) and choose the rows of the response table.

    Of each rollout, the last row counts and the others are its branches. ``restarts`` says which
    start of a run is read. Of steps that a resumption logged again, all rows are kept by default
    and with "all", else those of the last attempt. Without training rows, validation rows count as
    training rows.
    """
    chunk = joined_chunk(chunks)
    if not chunk.columns:
        return LogRows(chunk, np.zeros(0, np.int64))
    kept = _KeptRows(chunk.columns, files, restarts)
    kept.judge_validation_if_nothing_else()
    # Before branches are marked, as afterwards a branch no longer shows that it is of validation.
    kept.leave_out_repeated_tables()
    kept.leave_out_other_starts()
    kept.leave_out_older_attempts()
    kept.mark_branches()
    kept.leave_out_older_files()
    # Last, as a branch is shown only if a kept row was trained at its step.
    kept.leave_out_branches_alone()
    return LogRows(
        chunk,
        kept.in_table_order(),
        failed=kept.count_by_step(kept.left_out == LeftOut.FAILED),
        filtered=kept.count_by_step(kept.left_out == LeftOut.FILTERED),
        repeated=kept.count_by_step(kept.responses & kept.repeated),
        notes=kept.notes,
        starts=kept.starts,
    )


class _KeptRows:
    """Which of R rows are kept. Methods change the masks, bool (R,), and column ``validation``."""

    def __init__(
        self, columns: Columns, files: LogFiles, restarts: str | int | None
    ) -> None:
        self.columns = columns
        self.left_out = columns["left_out"]
        self.untrained: Mask = self.left_out == LeftOut.UNTRAINED_BRANCH
        # Rows for the response table, unless they are of an older attempt; others are counted.
        self.responses: Mask = (self.left_out == LeftOut.NO) | self.untrained
        # Rows that are counted or are in the table; False for those of older attempts.
        self.keep: Mask = np.ones(len(self.responses), dtype=bool)
        # Rows of steps that a restart logged again later, whether they are kept or not.
        self.repeated: Mask = np.zeros(len(self.responses), dtype=bool)
        self.notes: list[Note] = []
        self.starts = 1  # the largest number of starts in one log
        self._names = [source.name for source in files.sources]
        self._formats = [one.id for one in files.formats]
        self._restarts = restarts
        self._keep_restarted = restarts in (None, "all")

    def judge_validation_if_nothing_else(self) -> None:
        """Make validation rows training rows if no response is of training."""
        roles = self.columns["validation"]
        if self.responses.any() and roles[self.responses].all():
            self.columns["validation"] = np.zeros_like(roles)

    def leave_out_repeated_tables(self) -> None:
        """Leave out tables of a tracker that have the rows of the table before.

        TRL logs its last table once more when training ends, and a table under a new step if it
        logs more often than it generates.
        """
        previous: dict[str, bytes] = {}  # log -> rows of its last table
        repeated: list[Ints] = []
        for log, rows in self._tables_of_trackers():
            names = ("prompt_hash", "response_hash", "reward")
            content = b"".join(self.columns[name][rows].tobytes() for name in names)
            if previous.get(log) == content:
                repeated.append(rows)
            previous[log] = content
        if not repeated:
            return
        first = int(self.columns["file"][repeated[0][0]])
        for rows in repeated:
            self.keep[rows] = False
        text = message(
            "tables of the tracker that repeat the rows of the table before, as TRL's last one "
            "does; their {rows:count} rows are left out",
            rows=sum(map(len, repeated)),
        )
        self.notes.append(
            Note(NoteKind.REPEATED_FILE, text, len(repeated), self._names[first])
        )

    def _tables_of_trackers(self) -> Iterator[tuple[str, Ints]]:
        """Yield (log, rows of a table) in the order in which a tracker's log has the tables."""
        of_wandb: list[tuple[tuple[str, int], Ints]] = []
        for file, rows in _rows_by_file(self.columns):
            name = self._names[file]
            in_wandb = _WANDB_TABLE.fullmatch(name)
            if in_wandb:
                of_wandb.append(((in_wandb[1], int(in_wandb[2])), rows))
            elif self._formats[file] == Trackio.id:
                # Each object of the log is a table, or a trace with a row of its own.
                offsets = self.columns["offset"][rows]
                for table in np.split(rows, np.flatnonzero(np.diff(offsets)) + 1):
                    if len(table) > 1:
                        yield name, table
        # A folder of W&B has a file for each table, with W&B's own count in its name.
        for (log, _), rows in sorted(of_wandb, key=lambda one: one[0]):
            yield log, rows

    def leave_out_other_starts(self) -> None:
        """Leave out the rows of starts that are not read, or number the steps of all starts on.

        Files with as many starts, such as those of ranks, are of the same starts.
        """
        # Number of starts -> rows of the files that have as many, and the start of each row
        found: dict[int, list[tuple[int, Ints, Ints]]] = {}
        for file, rows_of_file in _rows_by_file(self.columns):
            rows = rows_of_file[self.keep[rows_of_file]]
            steps = self.columns["step"][rows].astype(np.int64)
            prompts = self.columns["prompt_hash"][rows].astype(np.uint64)
            in_validation = self.columns["validation"][rows] == RowRole.VALIDATION
            starts = starts_of(steps, in_validation, prompts)
            if starts.any():  # more than the first one
                count = int(starts[-1]) + 1
                found.setdefault(count, []).append((file, rows, starts))
        for count, files in sorted(found.items()):
            self.starts = max(self.starts, count)
            rows = np.concatenate([rows for _, rows, _ in files])
            starts = np.concatenate([starts for _, _, starts in files])
            self._choose_start(rows, starts, self._names[files[0][0]])

    def _choose_start(self, rows: Ints, starts: Ints, name: str) -> None:
        """Keep the rows of the start that is read; ``starts`` are those of ``rows``."""
        # A copy, as the column may be too narrow for steps that are numbered on
        step = self.columns["step"].astype(np.int64)
        steps_of = [
            np.unique(step[rows[starts == start]])
            for start in range(int(starts.max()) + 1)
        ]
        lengths = [len(steps) for steps in steps_of]
        choice = choose_start(lengths, self._restarts)
        left_out: Mask = np.zeros(len(rows), dtype=bool)
        if choice.start is None:
            shifts = np.array(shifts_of_starts(steps_of), np.int64)
            step[rows] += shifts[starts]
            self.columns["step"] = step
        else:
            left_out = starts != choice.start
            self.keep[rows[left_out]] = False
        note = starts_note(
            lengths,
            choice,
            self._restarts,
            log=message("one log"),
            rows=int(left_out.sum()),
            name=name,
        )
        self.notes.append(note)

    def leave_out_older_attempts(self) -> None:
        """Leave out rows of steps that a restart logged again in the same file."""
        for file, rows_of_file in _rows_by_file(self.columns):
            # Rows of other starts are no older rows of the run.
            rows = rows_of_file[self.keep[rows_of_file]]
            steps = self.columns["step"][rows].astype(np.int64)
            in_validation = self.columns["validation"][rows] == RowRole.VALIDATION
            older = superseded_rows(steps, in_validation)
            if not self._keep_restarted:
                self.keep[rows[older]] = False
            older &= self.responses[rows]
            self.repeated[rows[older]] = True
            if older.any():
                self._note_restart(steps[older], file)

    def mark_branches(self) -> None:
        """Give all rows of a rollout but its last one, and untrained rows, the role of branches."""
        roles = self.columns["validation"].copy()
        rollouts = self.columns["rollout"]  # NaN if the row is of no rollout
        ordered = _in_order_of_logs(self.columns)
        rows = ordered[~np.isnan(rollouts[ordered])]
        # Rows that count elsewhere (failed, filtered) are not rows of the same rollout.
        table = pd.DataFrame(
            {
                "file": self.columns["file"][rows],
                "step": self.columns["step"][rows],
                "role": roles[rows],
                "rollout": rollouts[rows],
                "left_out": self.left_out[rows],
            }
        )
        has_later_row = table.duplicated(keep="last").to_numpy()
        roles[rows[has_later_row & self.responses[rows]]] = RowRole.BRANCH
        roles[self.untrained] = RowRole.BRANCH
        self.columns["validation"] = compact(roles)

    def leave_out_older_files(self) -> None:
        """Leave out rows of steps that a restart logged again in further files."""
        if len(self._names) < 2:
            return
        file = self.columns["file"].astype(np.int64)
        step = self.columns["step"].astype(np.int64)
        roles = self.columns["validation"]
        prompts = self.columns["prompt_hash"].astype(np.uint64)
        # One number for both, as a step of training and the same step of validation are two
        step_and_split = np.where(roles == RowRole.VALIDATION, 2 * step + 1, 2 * step)
        trained = (
            self.keep & (self.left_out == LeftOut.NO) & (roles == RowRole.TRAINING)
        )
        attempts = later_attempts(
            file[trained], step[trained], prompts[trained], self._names
        )
        for older_files, newer_files in attempts:
            logged_again = step_and_split[np.isin(file, newer_files)]
            older = self.keep & np.isin(file, older_files)
            older &= np.isin(step_and_split, logged_again)
            if not older.any():  # left out already, because of another later attempt
                continue
            # One note for all files of the attempt, with the name of the first
            self._note_restart(step[older], int(older_files.min()))
            self.repeated |= older
            if not self._keep_restarted:
                self.keep[older] = False

    def _note_restart(self, steps: Ints, file: int) -> None:
        name = self._names[file]
        self.notes.append(restart_note(steps, name, kept=self._keep_restarted))

    def leave_out_branches_alone(self) -> None:
        """Leave out branches at steps without any other response; note these and other branches."""
        step = self.columns["step"].astype(np.int64)
        kept = self.responses & self.keep
        branches = kept & (self.columns["validation"] == RowRole.BRANCH)
        alone = branches & ~np.isin(step, step[kept & ~branches])
        self._note_by_file(NoteKind.BRANCHES, _BRANCHES, branches & ~alone)
        self._note_by_file(NoteKind.UNTRAINED, ODDITIES[NoteKind.UNTRAINED], alone)
        self.responses &= ~alone

    def _note_by_file(self, kind: NoteKind, text: str, concerned: Mask) -> None:
        """Add a note for each file, with the number of its rows in ``concerned``."""
        files = self.columns["file"][concerned]
        numbers, counts = np.unique(files, return_counts=True)
        for file, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.notes.append(Note(kind, message(text), count, self._names[file]))

    def count_by_step(self, selection: Mask) -> dict[int, int]:
        """Return training step -> number of its kept rows in ``selection``."""
        training = self.keep & (self.columns["validation"] == RowRole.TRAINING)
        steps = self.columns["step"][training & selection]
        numbers, counts = np.unique(steps, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def in_table_order(self) -> Ints:
        """Return the kept responses by step, role, file and place in the file."""
        rows = np.flatnonzero(self.keep & self.responses)
        # ``lexsort`` sorts by its last key first.
        keys = ("sub", "offset", "file", "validation", "step")
        return rows[np.lexsort([self.columns[key][rows] for key in keys])]


def joined_chunk(chunks: Sequence[Chunk]) -> Chunk:
    """Concatenate chunks; those given lose their columns, which would double the memory."""
    joined = Chunk()
    for chunk in chunks:
        # Extras and tools name rows by their number in the chunk: add the rows before it.
        rows_before = joined.rows
        for name, extra in chunk.extras.items():
            whole = joined.extras.setdefault(name, Extra())
            rows = np.asarray(extra.rows, np.int64) + rows_before
            whole.rows.frombytes(rows.tobytes())
            whole.numbers.extend(extra.numbers)
            for row, text in extra.texts.items():
                whole.texts[rows_before + row] = text
        for row, *tool in chunk.tools:
            joined.tools.append((rows_before + row, *tool))  # type: ignore[arg-type]
        joined.rows += chunk.rows
        joined.counts += chunk.counts
        joined.changes += chunk.changes
        joined.remarks.update(chunk.remarks)
        joined.reward_parts |= chunk.reward_parts
        joined.extras_dropped |= chunk.extras_dropped
    joined.columns = joined_columns([chunk.columns for chunk in chunks if chunk.rows])
    return joined


def _in_order_of_logs(columns: Columns) -> Ints:
    """Return the rows by file, and in each in the order in which they were logged."""
    # ``lexsort`` sorts by its last key first.
    keys = ("sub", "offset", "file")
    return np.lexsort([columns[key].astype(np.int64) for key in keys])


def _rows_by_file(columns: Columns) -> list[tuple[int, Ints]]:
    """Return (file, its rows in the order in which they were logged) for each file with rows."""
    rows = _in_order_of_logs(columns)
    file = columns["file"].astype(np.int64)
    numbers, starts = np.unique(file[rows], return_index=True)
    rows_of_files = np.split(rows, starts[1:])
    return list(zip(numbers.tolist(), rows_of_files, strict=True))
