"""Collect problems of the logs: unusable lines, invalid values, restarts, missing grades."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.about.several_runs import RANK, SEVERAL_STARTS
from rlreport.figures.ragged import Ints
from rlreport.tables import Note
from rlreport.text.messages import message, translatable

_RANK = re.compile("[-_.]?(?<![a-z])" + RANK.replace("{more}", ""), re.IGNORECASE)
# Two attempts share at least this many steps, where each has at least this fraction of its usual
# rows, and at least this fraction of the older rows has a prompt that occurs in the newer files
# Kind of the note on how a file is read that its reader has to know; see ``read.detect``
FORMAT = "format"
_MAX_LENGTHS = 5  # number of starts whose lengths are named
_MIN_SHARED_STEPS = 3
_WHOLE_STEP = 0.75
_SHARED_PROMPTS = 0.1

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
    "unequal_lengths": translatable("token arrays of unequal length, cut to the shortest"),
    "sentinel": translatable(
        "tokens with a log-probability above 0, treated as padding and left out"
    ),
    "pads": translatable("pad tokens at the start or end of responses, dropped"),
    "nested": translatable("token arrays that are not lists of numbers, left out"),
    "not_tokens": translatable("response_tokens that are not a list of strings, left out"),
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
    "untrained": translatable("rows of agents that are not trained, left out of the figures"),
    "filtered_out": translatable(
        "rollouts filtered out before training or not trained yet, left out of the figures"
    ),
    "failed": translatable(
        "rollouts that failed before the policy wrote anything, only counted by step"
    ),
    "other_split_rows": translatable("rows of other splits, skipped (read them with --split)"),
    "long_text": translatable(
        "responses of over 4,194,304 characters; words after that are not counted"
    ),
    NO_STEP: translatable(
        "no row has a step, so the run is one step; if a field or the paths have it, pass "
        "--map step=FIELD or --step-from-path REGEX"
    ),
    "many_extras": translatable("extra scalar fields beyond the first 64, left out"),
}


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
    sorted_rows = np.arange(len(steps)) if validation.all() else np.flatnonzero(~validation)
    change = np.diff(steps[sorted_rows])
    is_restart = change < 0
    attempt = np.zeros(len(steps), dtype=np.int64)
    if 4 * int(is_restart.sum()) > int((change != 0).sum()):
        return attempt
    attempt[sorted_rows[1:][is_restart]] = 1
    return np.cumsum(attempt)


def starts_of(steps: Ints, validation: NDArray[np.bool_], prompts: NDArray[np.uint64]) -> Ints:
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
    enough = min(_REPEATED_STEPS, -(-len(before) // 2))
    return len(np.intersect1d(steps, counted)) >= enough


def start_note(starts: Ints, steps: Ints, name: str) -> tuple[Note, bool]:
    """Return a note on several starts in a file, and whether the last one alone is the run."""
    lengths = [len(np.unique(steps[starts == start])) for start in range(int(starts[-1]) + 1)]
    if lengths[-1] > max(lengths[:-1]):
        text = message(
            "{count} starts in one log: the last one, of {last:count} steps, is the run; the rows "
            "of the starts before it are left out",
            count=len(lengths),
            last=lengths[-1],
        )
        return Note(FORMAT, text, int((starts < starts[-1]).sum()), name), True
    text = message(
        "{count} starts in one log, of {lengths} steps: they are no one run, and figures and "
        "charts mix them. If they are one training, pass --merge; --restarts last keeps the last "
        "rows of each step.",
        count=len(lengths),
        lengths=tuple(lengths[:_MAX_LENGTHS]),
    )
    return Note(SEVERAL_STARTS, text, len(lengths), name), False


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
    ranges["name"] = [_name_of_attempt(names[file], *span) for file, *span in ranges.itertuples()]
    units = ranges.groupby("name").agg({"min": "min", "max": "max"}).sort_values(["min", "max"])
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
            older, newer = (attempts[i] for i in ((at, before) if nested else (before, at)))
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
    return re.sub(rf"(.*)(?<!\d)0*{first}(?!\d)", r"\1", name) if first == last else name


def restart_note(steps: Ints, name: str, *, kept: bool) -> Note:
    low = int(steps.min())
    high = int(steps.max())
    span = message("{low} to {high}", low=low, high=high) if low < high else str(low)
    text = translatable("after a restart, steps {steps} were logged again; older rows left out")
    if kept:
        text = translatable(
            "steps {steps} were logged again, as after a restart; all rows kept (--restarts last "
            "leaves out these rows)"
        )
    return Note("restart", message(text, steps=span), len(steps), name)


class Missing(IntEnum):
    """Why a response has no valid reward: codes in column ``missing_grade`` (0: it has one)."""

    NULL = 1
    JUDGE_FAILED = 2
    MASKED = 3
    ERROR = 4


MISSING_GRADES = "missing_grades"  # Kind of the notes on responses without a grade (valid reward)
_NOTES = {
    Missing.NULL: translatable("responses whose reward is null, left out of figures of the reward"),
    Missing.JUDGE_FAILED: translatable(
        "responses whose judge failed, left out of figures of the reward"
    ),
    Missing.MASKED: translatable(
        "responses masked by the trainer, left out of figures of the reward"
    ),
    Missing.ERROR: translatable(
        "responses whose grader had an error, left out of figures of the reward"
    ),
}
_GRADERS = ("judge", "grader", "reward", "verifier", "scorer", "rubric")
_TRUE = ("true", "1", "1.0", "yes")
_FALSE = ("false", "0", "0.0", "no")
# (Reason why a reward is invalid, values that mean it, names of the fields with such a value)
_SIGNS = (
    (Missing.JUDGE_FAILED, _TRUE, [f"{grader}_failed" for grader in _GRADERS]),
    (Missing.MASKED, _TRUE, ["mask_sample", "is_masked", "masked"]),
    # NeMo-RL: 0 for a response that is masked in the loss.
    (Missing.MASKED, _FALSE, ["sample_mask", "sample_loss_mask", "loss_multiplier"]),
    # NeMo Gym: such a row has the reward 0.
    (Missing.JUDGE_FAILED, ("judge_failed",), ["_ng_failure_class"]),
)

# Field that marks rows that the trainer dropped, or kept -> its value for kept rows
_KEPT = {
    **dict.fromkeys(("filtered", "is_filtered", "overlong_filtered", "discarded"), 0),
    **dict.fromkeys(("dropped", "is_dropped", "removed", "is_removed"), 0),
    **dict.fromkeys(("effective", "is_effective", "kept", "trained", "loss_mask"), 1),
}

_FLAGS = {name: (kind, values) for kind, values, names in _SIGNS for name in names}
_ERRORS = frozenset(f"{grader}_error" for grader in _GRADERS)
# Fields for errors of a rollout; its reward is invalid if the error names a grader
_OWN_ERRORS = ("errors", "error")

_FIELDS = _FLAGS.keys() | _ERRORS
_NESTED = ("metadata", "info", "extra_info", "reward_info", "reward_extra_info")
_NO_TEXT = ("", "none", "null", "nan", "ok", "false", "0", "no")
_ORDER = (Missing.JUDGE_FAILED, Missing.ERROR, Missing.MASKED, Missing.NULL)


def missing_grade(record: Mapping[str, Any], *, null: bool) -> int:
    """Return a row's ``Missing`` code, 0 if its reward is valid; ``null``: the reward is null."""
    kinds: set[int] = {Missing.NULL} if null else set()
    nested = [inner for name in _NESTED if isinstance(inner := record.get(name), dict)]
    for fields in (record, *nested):
        for name in fields.keys() & _FIELDS:
            value = fields[name]
            if name in _ERRORS:
                if value is True or _error_text(value):
                    kinds.add(Missing.ERROR)
            elif isinstance(value, bool | int | float | str):
                kind, values = _FLAGS[name]
                if str(value).lower() in values:
                    kinds.add(kind)
    for name in _OWN_ERRORS:
        # Errors of tools and environments do not make a logged reward invalid.
        errors = _error_text(record.get(name))
        if errors and (null or any(grader in errors for grader in _GRADERS)):
            kinds.add(Missing.ERROR)
    return next((kind for kind in _ORDER if kind in kinds), 0)


def _error_text(value: object) -> str:
    if isinstance(value, list | dict):
        return str(value).lower() if value else ""
    word = value.strip().lower() if isinstance(value, str) else ""
    return "" if word in _NO_TEXT else word


def clear_missing_grades(columns: dict[str, NDArray[Any]]) -> None:
    """Set rewards with a ``missing_grade`` to NaN, unless all are masked; add ``masked_reward``."""
    kinds = columns["missing_grade"]
    if len(kinds) and (kinds == Missing.MASKED).all():  # else no reward would be left
        kinds[:] = 0
    columns["masked_reward"] = np.where(kinds == Missing.MASKED, columns["reward"], np.nan)
    for name in ("reward", "non_score_reward"):
        if name in columns:
            columns[name][kinds > 0] = np.nan


def dropped_rows(kinds: NDArray[Any], extras: pd.DataFrame) -> NDArray[np.float64]:
    """Return 1 if the trainer dropped or masked the row, 0 if not, NaN if not logged, (R,)."""
    masked = kinds == Missing.MASKED
    dropped = np.where(masked.any(), masked.astype(np.float64), np.nan)
    for name in _KEPT.keys() & set(extras.select_dtypes("number")):
        values = extras[name].to_numpy(np.float64)
        if np.isin(values[np.isfinite(values)], (0, 1)).all():
            dropped = np.fmax(dropped, np.abs(values - _KEPT[name]))
    return dropped


def missing_grade_notes(kinds: NDArray[np.int8]) -> list[Note]:
    counts = np.bincount(kinds, minlength=len(Missing) + 1).tolist()
    return [Note(MISSING_GRADES, message(_NOTES[k]), counts[k]) for k in Missing if counts[k]]
