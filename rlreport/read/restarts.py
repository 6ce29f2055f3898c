"""Starts of a run in one log, and rows of earlier attempts, which a restarted run logged again.

A start begins where the run began, and is a run of its own: starts are never mixed. A resumption
from a checkpoint repeats the last steps of a start. ``choose_start`` says which start is read, for
rollouts and for trainer metrics alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.about.several_runs import RANK
from rlreport.errors import UsageError
from rlreport.figures.ragged import Ints
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import Message, listed, message, translatable

_RANK = re.compile("[-_.]?(?<![a-z])" + RANK.replace("{more}", ""), re.IGNORECASE)
_MAX_LENGTHS = 5  # number of starts whose lengths are named
_MIN_SHARED_STEPS = 3
_WHOLE_STEP = 0.75
_SHARED_PROMPTS = 0.1


def superseded_rows(steps: Ints, validation: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows of a file have steps that a restart logged again later, bool (R,).

    A restart is a row with a lower step than the row before. A file in which over a quarter of the
    changes of step are decreases is taken to be unsorted, without restarts. Rows of the validation
    split (those in ``validation``) may be logged late, so they indicate restarts only in files
    without other rows. A step of training and the same step of validation are two.
    """
    attempt = _attempts(steps, validation)
    if not attempt.any():  # quick for each of many files
        return np.zeros(len(steps), dtype=bool)
    step_and_split = 2 * steps + validation
    last_attempt = pd.Series(attempt).groupby(step_and_split).transform("max")
    return attempt < last_attempt.to_numpy()


def _attempts(steps: Ints, validation: NDArray[np.bool_]) -> Ints:
    """Return the number, from 0, of the attempt that each row of a file belongs to, int64 (R,).

    ``superseded_rows`` says what an attempt is; an unsorted file has only attempt 0.
    """
    # Rows that show restarts, in the order of the log
    judged = np.arange(len(steps)) if validation.all() else np.flatnonzero(~validation)
    change = np.diff(steps[judged])
    is_restart = change < 0
    begins_attempt = np.zeros(len(steps), dtype=np.int64)
    if 4 * int(is_restart.sum()) > int((change != 0).sum()):
        return begins_attempt
    begins_attempt[judged[1:][is_restart]] = 1
    return np.cumsum(begins_attempt)


def starts_of(
    steps: Ints, validation: NDArray[np.bool_], prompts: NDArray[np.uint64]
) -> Ints:
    """Return the number of the start of the run that each row of a file belongs to, int64 (R,).

    An attempt (see ``superseded_rows``) that begins afresh is a start; others resume a start.
    ``prompts`` have one value per row: without prompts of the attempt before, one is of another
    environment. A file in which a quarter of the changes of step are decreases has no starts, nor
    has one that begins again more often than it has steps: it is in another order, such as that
    of its prompts.
    """
    attempt = _attempts(steps, validation)
    restarts = int(attempt[-1]) if len(attempt) else 0
    judged = np.ones(len(steps), bool) if validation.all() else ~validation
    is_unsorted = 4 * restarts >= np.count_nonzero(np.diff(steps[judged]))
    if not restarts or is_unsorted or restarts > len(np.unique(steps[judged])):
        return np.zeros(len(steps), np.int64)
    start_of_attempt = np.zeros(restarts + 1, np.int64)
    columns = {"attempt": attempt, "step": steps, "prompt": prompts}
    table = pd.DataFrame(columns)[judged]
    steps_since_start = np.zeros(0, np.int64)
    steps_before = steps_since_start  # of the attempt before
    prompts_before = pd.Series(dtype=np.uint64)
    for number, group in table.groupby("attempt"):
        steps_of_attempt = np.unique(group["step"].to_numpy())
        share_of_prompts = group["prompt"].isin(prompts_before).mean()
        is_start = (
            len(steps_since_start) > 0  # the first attempt is start 0
            and share_of_prompts >= _SHARED_PROMPTS
            and begins_afresh(steps_of_attempt, steps_since_start, before=steps_before)
        )
        if is_start:
            start_of_attempt[number:] += 1  # of this attempt and all after it
            steps_since_start = steps_of_attempt
        steps_since_start = np.union1d(steps_since_start, steps_of_attempt)
        steps_before = steps_of_attempt
        prompts_before = group["prompt"]
    return start_of_attempt[attempt]


# Number of steps that a fresh start repeats at least; of a shorter part before, half of them
_REPEATED_STEPS = 3


def begins_afresh(steps: Ints, counted: Ints, *, before: Ints) -> bool:
    """Return whether a part of a log begins where the run began, and repeats enough of its steps.

    A resumption from a checkpoint repeats the tail only. ``steps`` are the distinct steps of the
    part, ``counted`` those since the run began, ``before`` those of the part before it; all are
    ascending, and none is empty.
    """
    if not begins_anew(steps, counted):
        return False
    enough = min(_REPEATED_STEPS, math.ceil(len(before) / 2))
    return len(np.intersect1d(steps, counted)) >= enough


def begins_anew(steps: Ints, counted: Ints) -> bool:
    """Return whether a part of a log begins at or before the first of the steps ``counted``."""
    # Only a run that starts afresh is evaluated at step 0, before it is trained, but not each is.
    first = counted[1] if counted[0] == 0 and len(counted) > 1 else counted[0]
    return bool(steps[0] <= first)


class StartChoice(NamedTuple):
    """Which start of a run is read.

    Attributes:
        start: its number from 0; None if all are read as one training.
        is_run: whether it is the run. If not, the run is not judged.
    """

    start: int | None
    is_run: bool = True


def choose_start(lengths: Sequence[int], restarts: str | int | None) -> StartChoice:
    """Return which start is read, given the number of steps of each and the option ``restarts``.

    By default, the last one is the run if it is longer than each other one: those before it failed.
    Of starts without such a last one, nothing says which is meant.

    Raises:
        UsageError: ``restarts`` is the number of a start that is not there.
    """
    last = len(lengths) - 1
    if last <= 0:
        return StartChoice(max(last, 0))
    if restarts is None:
        return StartChoice(last, is_run=lengths[-1] > max(lengths[:-1]))
    if restarts == "all":
        return StartChoice(None)
    if restarts == "last":
        return StartChoice(last)
    if int(restarts) > len(lengths):
        raise UsageError(
            f"--restarts {restarts}: a log has {len(lengths)} starts, of "
            f"{_listed(lengths)} steps"
        )
    return StartChoice(int(restarts) - 1)


def shifts_of_starts(starts: Sequence[Ints]) -> list[int]:
    """Return the number to add to the steps of each start, so that they follow on one another.

    ``starts`` has the distinct steps of each, ascending.
    """
    shifts: list[int] = []
    last: int | None = None
    for steps in starts:
        shift = 0 if last is None else shift_after(last, steps)
        shifts.append(shift)
        last = int(steps[-1]) + shift
    return shifts


def shift_after(last: int, steps: Ints) -> int:
    """Return the number to add to ``steps``, so that they follow on the step ``last``."""
    spacing = 1
    if len(steps) > 1:
        # The usual number of steps from one to the next
        spacing = max(1, int(np.median(np.diff(steps))))
    return last + spacing - int(steps[0])


def _listed(lengths: Sequence[int]) -> Message | str:
    """Return the lengths of the first starts."""
    named = [f"{length:,}" for length in lengths]
    if len(named) > _MAX_LENGTHS:
        named = [*named[:_MAX_LENGTHS], "…"]
    return listed(named)


def starts_note(
    lengths: Sequence[int],
    choice: StartChoice,
    restarts: str | int | None,
    *,
    log: Message | str,
    rows: int,
    name: str = "",
) -> Note:
    """Return the note on several starts.

    Args:
        lengths: number of steps of each start.
        choice: which of them is read.
        restarts: the option, None if the user chose no start.
        log: what has the starts, such as "one log".
        rows: number of rows of the starts that are left out.
        name: of the file.
    """
    count = len(lengths)
    if choice.start is None:
        text = message(
            "{count} starts in {log}, of {lengths} steps, are read as one training: steps are "
            "numbered on from one to the next",
            count=count,
            log=log,
            lengths=_listed(lengths),
        )
        return Note(NoteKind.FORMAT, text, count, name)
    if not choice.is_run:
        text = message(
            "{count} starts in {log}, of {lengths} steps: they are no one run. Figures and charts "
            "show the last one only; the {rows:count} rows of the others are left out. --restarts "
            "N reads start N, and --restarts all takes them to be one training.",
            count=count,
            log=log,
            lengths=_listed(lengths),
            rows=rows,
        )
        return Note(NoteKind.SEVERAL_STARTS, text, count, name)
    if restarts is None:
        text = message(
            "{count} starts in {log}: the last one, of {last:count} steps, is the run; the "
            "{rows:count} rows of the starts before it are left out. If they are one training, "
            "pass --restarts all.",
            count=count,
            log=log,
            last=lengths[-1],
            rows=rows,
        )
    else:
        text = message(
            "{count} starts in {log}: start {number}, of {steps:count} steps, is read, as "
            "--restarts says; the {rows:count} rows of the others are left out",
            count=count,
            log=log,
            number=choice.start + 1,
            steps=lengths[choice.start],
            rows=rows,
        )
    return Note(NoteKind.FORMAT, text, rows, name)


def later_attempts(
    files: Ints, steps: Ints, prompts: NDArray[np.uint64], names: Sequence[str]
) -> list[tuple[Ints, Ints]]:
    """Return (files of an attempt, files of a later attempt) for each restart, as indices.

    Files whose names differ only in a rank, or that cover about the same steps, are one attempt. A
    later attempt logs whole steps of an earlier one again, see ``_logs_again``.

    Args:
        files: the file of each row, an index of ``names``.
        steps: the step of each row.
        prompts: a hash of the prompt of each row.
        names: the name of each file.
    """
    table = pd.DataFrame({"file": files, "step": steps, "prompt": prompts})
    number_of_attempt = table["file"].map(_attempts_of_files(table, names))
    # By first step, as ``groupby`` sorts by the number
    attempts = [_Attempt.of(rows) for _, rows in table.groupby(number_of_attempt)]
    pairs: list[tuple[Ints, Ints]] = []
    furthest = attempts[0]  # of the attempts so far, the one with the last step
    for previous, attempt in pairwise(attempts):
        if previous.last > furthest.last:
            furthest = previous
        # The attempt just before may have been short: the furthest one is compared, too.
        compared = [furthest]
        if previous is not furthest:
            compared.append(previous)
        for earlier in compared:
            older, newer = _by_age(earlier, attempt)
            if attempt.first <= earlier.last and _logs_again(older, newer):
                pairs.append((older.files, newer.files))
    return pairs


def _attempts_of_files(table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return file -> number of its attempt, by first step."""
    steps_of_file = table.groupby("file")["step"]
    files = pd.DataFrame({"first": steps_of_file.min(), "last": steps_of_file.max()})
    # Files with equal names, except for a rank or the step, are of one attempt.
    files["name"] = [
        _name_of_attempt(names[file], first, last)
        for file, first, last in files.itertuples()
    ]
    by_name = files.groupby("name").agg({"first": "min", "last": "max"})
    by_name = by_name.sort_values(["first", "last"])
    # Files of one attempt begin at the same step, and none ends over a step after the one before.
    change = by_name.diff().fillna(0)
    is_next_attempt = (change["first"] > 0) | (change["last"] > 1)
    attempts: pd.Series = files["name"].map(is_next_attempt.cumsum())
    return attempts


class _Attempt(NamedTuple):
    """An attempt at a run: rows of one or several files."""

    rows: pd.DataFrame  # columns ``file``, ``step``, ``prompt``
    first: int  # step
    last: int  # step

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Attempt:
        return cls(rows, rows["step"].min(), rows["step"].max())

    @property
    def files(self) -> Ints:
        return self.rows["file"].unique()


def _by_age(earlier: _Attempt, attempt: _Attempt) -> tuple[_Attempt, _Attempt]:
    """Return (older, newer) of two attempts, given by their first steps."""
    # If one attempt covers the steps of the other, the file read first is the older.
    is_covered = attempt.last <= earlier.last
    if is_covered and attempt.files.min() < earlier.files.min():
        return attempt, earlier
    return earlier, attempt


def _logs_again(older: _Attempt, newer: _Attempt) -> bool:
    """Return whether ``newer`` repeats steps of ``older``, or is another part of the same run."""
    # Number of rows by step
    rows_before = older.rows["step"].value_counts()
    rows_after = newer.rows["step"].value_counts()
    shared_steps = rows_before.index.intersection(rows_after.index)
    # A step of which a file has only a part has fewer rows than usual.
    repeats_whole_steps = len(shared_steps) >= _MIN_SHARED_STEPS and all(
        rows[shared_steps].median() >= _WHOLE_STEP * rows.median()
        for rows in (rows_before, rows_after)
    )
    is_repeated = older.rows["step"].isin(shared_steps)
    prompts = older.rows.loc[is_repeated, "prompt"]
    shared_prompts = prompts.isin(newer.rows["prompt"]).mean()
    # One that does not go on from the other may be of another run: its prompts decide.
    if not (newer.first > older.first and newer.last > older.last):
        return repeats_whole_steps and bool(shared_prompts >= _SHARED_PROMPTS)
    # Steps that were logged twice have more rows than any other step.
    rows_of_both = rows_before.add(rows_after, fill_value=0)
    most_elsewhere = rows_of_both.drop(shared_steps).max()
    are_doubled = rows_of_both[shared_steps].median() > most_elsewhere
    # Where no prompt recurs at other steps, a later attempt need not share any.
    steps_of_prompt = older.rows.groupby("prompt")["step"].nunique()
    recurring_prompts = (steps_of_prompt > 1).mean()
    may_share_none = recurring_prompts < _SHARED_PROMPTS
    return bool(
        (repeats_whole_steps or are_doubled) and (shared_prompts > 0 or may_share_none)
    )


def _name_of_attempt(name: str, first: int, last: int) -> str:
    """Return a file's name without its rank, and without its step if it has only one."""
    name = _RANK.sub("", name)
    if first != last:
        return name
    return re.sub(rf"(.*)(?<!\d)0*{first}(?!\d)", r"\1", name)


def restart_note(steps: Ints, name: str, *, kept: bool) -> Note:
    """Return a note on rows that were logged again: ``steps`` of each, ``name`` of their file.

    ``kept``: the rows stay in the tables.
    """
    low = int(steps.min())
    high = int(steps.max())
    span = message("{low} to {high}", low=low, high=high) if low < high else str(low)
    text = translatable(
        "after a restart, steps {steps} were logged again; older rows left out"
    )
    if kept:
        text = translatable(
            "steps {steps} were logged again, as after a restart; all rows kept (--restarts last "
            "leaves out these rows)"
        )
    return Note(NoteKind.RESTART, message(text, steps=span), len(steps), name)
