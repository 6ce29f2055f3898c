"""Rows of earlier attempts, which a restarted run logged again."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.about.several_runs import RANK
from rlreport.figures.ragged import Ints
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, translatable

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
    environment. A file in which a quarter of the changes of step are decreases has no starts.
    """
    attempt = _attempts(steps, validation)
    restarts = int(attempt[-1]) if len(attempt) else 0
    judged = np.ones(len(steps), bool) if validation.all() else ~validation
    if not restarts or 4 * restarts >= np.count_nonzero(np.diff(steps[judged])):
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
    # Only a run that starts afresh is evaluated at step 0, before it is trained, but not each is.
    first = counted[1] if counted[0] == 0 and len(counted) > 1 else counted[0]
    if steps[0] > first:
        return False
    enough = min(_REPEATED_STEPS, math.ceil(len(before) / 2))
    return len(np.intersect1d(steps, counted)) >= enough


def start_note(starts: Ints, steps: Ints, name: str) -> tuple[Note, bool]:
    """Return a note on several starts in a file, and whether the last one alone is the run.

    It is if it has more steps than each start before. ``starts`` is the number of each row's start,
    from 0, ``steps`` its step.
    """
    last = int(starts[-1])
    lengths = [len(np.unique(steps[starts == start])) for start in range(last + 1)]
    if lengths[-1] > max(lengths[:-1]):
        text = message(
            "{count} starts in one log: the last one, of {last:count} steps, is the run; the rows "
            "of the starts before it are left out",
            count=len(lengths),
            last=lengths[-1],
        )
        left_out = int((starts < last).sum())
        return Note(NoteKind.FORMAT, text, left_out, name), True
    text = message(
        "{count} starts in one log, of {lengths} steps: they are no one run, and figures and "
        "charts mix them. If they are one training, pass --merge; --restarts last keeps the last "
        "rows of each step.",
        count=len(lengths),
        lengths=tuple(lengths[:_MAX_LENGTHS]),
    )
    return Note(NoteKind.SEVERAL_STARTS, text, len(lengths), name), False


def later_attempts(
    files: Ints, steps: Ints, prompts: NDArray[np.uint64], names: Sequence[str]
) -> list[tuple[Ints, Ints]]:
    """Return (files of an attempt, files of a later attempt) for each restart, as indices.

    ``files``, ``steps`` and ``prompts`` have one value per row. Files whose names differ only in a
    rank, or that cover about the same steps, are one attempt. A later attempt logs whole steps of
    an earlier one again. Files of two environments share no prompt, so prompts have to be shared
    unless the later attempt also begins and ends later and prompts of the earlier one do not recur.
    """
    table = pd.DataFrame({"file": files, "step": steps, "prompt": prompts})
    number_of_attempt = table["file"].map(_attempts_of_files(table, names))
    # By first step, as ``groupby`` sorts by the number
    attempts = [_Attempt.of(rows) for _, rows in table.groupby(number_of_attempt)]
    pairs: list[tuple[Ints, Ints]] = []
    for number in range(1, len(attempts)):
        attempt = attempts[number]
        previous = attempts[number - 1]
        # An attempt between the two may have been short: compare with the furthest one, too.
        furthest = max(attempts[:number], key=lambda one: one.last)
        compared = [previous] if furthest is previous else [furthest, previous]
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
