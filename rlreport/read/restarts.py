"""Rows of earlier attempts, which a restarted run logged again."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

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
    split may be logged late, so they indicate restarts only in files without other rows.
    """
    attempt = _attempts(steps, validation)
    last = pd.Series(attempt).groupby(2 * steps + validation).transform("max")
    return attempt < last.to_numpy()


def _attempts(steps: Ints, validation: NDArray[np.bool_]) -> Ints:
    """Return the number of the attempt that each row of a file belongs to, int64 (R,)."""
    sorted_rows = (
        np.arange(len(steps)) if validation.all() else np.flatnonzero(~validation)
    )
    change = np.diff(steps[sorted_rows])
    is_restart = change < 0
    attempt = np.zeros(len(steps), dtype=np.int64)
    if 4 * int(is_restart.sum()) > int((change != 0).sum()):
        return attempt
    attempt[sorted_rows[1:][is_restart]] = 1
    return np.cumsum(attempt)


def starts_of(
    steps: Ints, validation: NDArray[np.bool_], prompts: NDArray[np.uint64]
) -> Ints:
    """Return the number of the start of the run that each row of a file belongs to, int64 (R,).

    An attempt (see ``superseded_rows``) that begins afresh is a start; others resume a start.
    ``prompts`` have one value per row: without prompts of the attempt before, one is of another
    environment. A file in which a quarter of the changes of step are decreases has no starts.
    """
    attempt = _attempts(steps, validation)
    falls = int(attempt[-1]) if len(attempt) else 0
    judged = np.ones(len(steps), bool) if validation.all() else ~validation
    if not falls or 4 * falls >= np.count_nonzero(np.diff(steps[judged])):
        return np.zeros(len(steps), np.int64)
    start_of_attempt = np.zeros(falls + 1, np.int64)
    columns = {"attempt": attempt, "step": steps, "prompt": prompts}
    table = pd.DataFrame(columns)[judged]
    counted = before = np.zeros(0, np.int64)
    prompts_before = pd.Series(dtype=np.uint64)
    for number, group in table.groupby("attempt"):
        own = np.unique(group["step"].to_numpy())
        is_shared = group["prompt"].isin(prompts_before).mean() >= _SHARED_PROMPTS
        prompts_before = group["prompt"]
        if len(counted) and is_shared and begins_afresh(own, counted, before=before):
            start_of_attempt[number:] += 1
            counted = own
        counted, before = np.union1d(counted, own), own
    return start_of_attempt[attempt]


# Number of steps that a fresh start repeats at least; of a shorter part before, half of them
_REPEATED_STEPS = 3


def begins_afresh(steps: Ints, counted: Ints, *, before: Ints) -> bool:
    """Return whether a part of a log begins where the run began, and repeats enough of its steps.

    A resumption from a checkpoint repeats the tail only. ``steps`` are the distinct steps of the
    part, ``counted`` those since the run began, ``before`` those of the part before it.
    """
    # Only a run that starts afresh is evaluated at step 0, before it is trained, but not each is.
    first = counted[1] if counted[0] == 0 and len(counted) > 1 else counted[0]
    if steps[0] > first:
        return False
    enough = min(_REPEATED_STEPS, math.ceil(len(before) / 2))
    return len(np.intersect1d(steps, counted)) >= enough


def start_note(starts: Ints, steps: Ints, name: str) -> tuple[Note, bool]:
    """Return a note on several starts in a file, and whether the last one alone is the run."""
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
    ranges = table.groupby("file")["step"].agg(["min", "max"])
    ranges["name"] = [
        _name_of_attempt(names[file], *span) for file, *span in ranges.itertuples()
    ]
    units = (
        ranges.groupby("name")
        .agg({"min": "min", "max": "max"})
        .sort_values(["min", "max"])
    )
    change = units.diff().fillna(0)
    units["attempt"] = ((change["min"] > 0) | (change["max"] > 1)).cumsum()
    table["attempt"] = table["file"].map(ranges["name"].map(units["attempt"]))
    spans = units.groupby("attempt").agg(first=("min", "min"), last=("max", "max"))
    spans["file"] = table.groupby("attempt")["file"].min()
    attempts = [rows for _, rows in table.groupby("attempt")]
    bounds: list[Any] = list(spans.itertuples())
    pairs: list[tuple[Ints, Ints]] = []
    for at in range(1, len(bounds)):
        # Compare with the attempt before, and with the one that ends at the highest step.
        furthest = max(range(at), key=lambda i: bounds[i].last)
        for before in sorted({at - 1, furthest}):
            one = bounds[before]
            two = bounds[at]
            # If one attempt covers the steps of the other, the file read first is the older.
            nested = two.last <= one.last and two.file < one.file
            older, newer = (
                attempts[i] for i in ((at, before) if nested else (before, at))
            )
            continued = bool(two.first > one.first and two.last > one.last)
            if two.first <= one.last and _logs_again(older, newer, continued=continued):
                pairs.append((older["file"].unique(), newer["file"].unique()))
    return pairs


def _logs_again(older: pd.DataFrame, newer: pd.DataFrame, *, continued: bool) -> bool:
    before = older["step"].value_counts()
    after = newer["step"].value_counts()
    both = before.index.intersection(after.index)
    whole = len(both) >= _MIN_SHARED_STEPS and all(
        rows[both].median() >= _WHOLE_STEP * rows.median() for rows in (before, after)
    )
    shared = older.loc[older["step"].isin(both), "prompt"].isin(newer["prompt"]).mean()
    if not continued:
        return whole and bool(shared >= _SHARED_PROMPTS)
    recur = older.groupby("prompt")["step"].nunique().gt(1).mean()
    total = before.add(after, fill_value=0)
    again = whole or total[both].median() > total.drop(both).max()
    return bool(again and (shared > 0 or recur < _SHARED_PROMPTS))


def _name_of_attempt(name: str, first: int, last: int) -> str:
    name = _RANK.sub("", name)
    return (
        re.sub(rf"(.*)(?<!\d)0*{first}(?!\d)", r"\1", name) if first == last else name
    )


def restart_note(steps: Ints, name: str, *, kept: bool) -> Note:
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
