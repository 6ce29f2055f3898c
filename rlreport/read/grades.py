"""Missing grades: responses whose reward says nothing, as no grader judged them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.tables import Note
from rlreport.text.messages import marked, message


class Missing(IntEnum):
    """Why a response has no grade, as the column ``missing_grade`` holds it; 0 where it has one."""

    NULL = 1
    JUDGE_FAILED = 2
    MASKED = 3
    ERROR = 4


MISSING_GRADES = "missing_grades"
"""Kind of the notes on responses without a grade."""

_NOTES = {
    Missing.NULL: marked("responses whose reward is null, left out of figures of the reward"),
    Missing.JUDGE_FAILED: marked(
        "responses whose judge failed, left out of figures of the reward, whatever it is"
    ),
    Missing.MASKED: marked(
        "responses masked by the trainer, left out of figures of the reward, whatever it is"
    ),
    Missing.ERROR: marked(
        "responses whose grader met an error, left out of figures of the reward, whatever it is"
    ),
}
_GRADERS = (
    *("judge", "grader", "grading", "grade", "reward", "reward_model", "rm", "verifier"),
    *("scorer", "scoring", "score", "rubric"),
)


def _names(*endings: str) -> frozenset[str]:
    return frozenset("_".join(parts) for parts in product(_GRADERS, endings))


_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no")
_SIGNS = (
    (Missing.JUDGE_FAILED, _TRUE, _names("failed", "failure", "timeout", "timed_out")),
    (Missing.JUDGE_FAILED, _FALSE, _names("ok", "success", "succeeded")),
    (Missing.JUDGE_FAILED, _FALSE, ("reward_valid", "grade_valid", "is_graded")),
    (
        Missing.JUDGE_FAILED,
        ("failed", "failure", "error", "timeout", "timed_out"),
        _names("status"),
    ),
    (Missing.MASKED, _TRUE, ("mask_sample", "masked_sample", "is_masked", "masked")),
    (Missing.MASKED, _TRUE, ("sample_masked", "remove_sample", "ignore_sample", "exclude_sample")),
    # NeMo-RL: 0 for a response that the loss leaves out.
    (Missing.MASKED, _FALSE, ("sample_mask", "loss_multiplier")),
)
"""What a value, in words, of a flag with one of these names says."""

_FLAGS = {name: (kind, values) for kind, values, names in _SIGNS for name in names}
_ERRORS = _names("error", "errors", "exception")
_OWN_ERRORS = ("errors", "error")
"""Errors of the whole rollout: of the grader only if they say so."""

_FIELDS = _FLAGS.keys() | _ERRORS
_NESTED = ("metadata", "info", "extra_info", "reward_info", "reward_extra_info")
_NO_TEXT = ("", "none", "null", "nan", "ok", "false", "0", "no")
_ORDER = (Missing.JUDGE_FAILED, Missing.ERROR, Missing.MASKED, Missing.NULL)


def missing_grade(record: Mapping[str, Any], *, null: bool) -> int:
    """Return why a row has no grade, 0 if it has one; ``null`` says that its reward is null."""
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
        # Tools and environments fail, too, and the reward of such a rollout may be deserved.
        errors = _error_text(record.get(name))
        if errors and (null or any(grader in errors for grader in _GRADERS)):
            kinds.add(Missing.ERROR)
    return next((kind for kind in _ORDER if kind in kinds), 0)


def _error_text(value: object) -> str:
    """Return what an error says in lower case, "" where there is none."""
    if isinstance(value, list | dict):
        return str(value).lower() if value else ""
    word = value.strip().lower() if isinstance(value, str) else ""
    return "" if word in _NO_TEXT else word


def clear_missing_grades(columns: dict[str, NDArray[Any]]) -> None:
    """Make the rewards of responses without a grade NaN.

    A mask on every response of the log would leave nothing, so it means something else.
    """
    kinds = columns["missing_grade"]
    if len(kinds) and (kinds == Missing.MASKED).all():
        kinds[:] = 0
    for name in ("reward", "non_score_reward"):
        if name in columns:
            columns[name][kinds > 0] = np.nan


def missing_grade_notes(kinds: Sequence[int] | NDArray[Any]) -> list[Note]:
    """Return a note for each kind of missing grades, with its count."""
    counts = {kind: int(np.count_nonzero(np.asarray(kinds) == kind)) for kind in Missing}
    return [
        Note(MISSING_GRADES, message(_NOTES[kind]), count)
        for kind, count in counts.items()
        if count
    ]
