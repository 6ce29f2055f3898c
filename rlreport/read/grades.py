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


_FAILED = _names("failed", "failure", "timeout", "timed_out")
_SUCCEEDED = _names("ok", "success", "succeeded") | {"reward_valid", "grade_valid", "is_graded"}
_STATUS = _names("status")
_ERRORS = _names("error", "errors", "exception")
_OWN_ERRORS = ("errors", "error")
"""Errors of the whole rollout: of the grader only if they say so."""
_MASKED = frozenset(
    ("mask_sample", "masked_sample", "is_masked", "masked", "sample_masked", "remove_sample",
     "ignore_sample", "exclude_sample")
)  # fmt: skip
_KEPT = frozenset(("sample_mask", "loss_multiplier"))
"""Flags that are 0 for a response that the loss leaves out (NeMo-RL)."""
_FLAGS = _FAILED | _SUCCEEDED | _STATUS | _ERRORS | _MASKED | _KEPT
_NESTED = ("metadata", "info", "extra_info", "reward_info", "reward_extra_info")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_NO_TEXT = ("", "none", "null", "nan", "ok", *_FALSE)
_BAD_STATUS = ("failed", "failure", "error", "timeout", "timed_out")


def missing_grade(record: Mapping[str, Any], *, null: bool) -> int:
    """Return why a row has no grade, 0 if it has one; ``null`` says that its reward is null."""
    kinds: set[int] = {Missing.NULL} if null else set()
    nested = [inner for name in _NESTED if isinstance(inner := record.get(name), dict)]
    for fields in (record, *nested):
        for name in fields.keys() & _FLAGS:
            kinds.add(_kind(name, fields[name]))
    for name in _OWN_ERRORS:
        # Tools and environments fail, too, and the reward of such a rollout may be deserved.
        if (errors := _text(record.get(name))) and (null or any(g in errors for g in _GRADERS)):
            kinds.add(Missing.ERROR)
    return next((kind for kind in _ORDER if kind in kinds), 0)


_ORDER = (Missing.JUDGE_FAILED, Missing.ERROR, Missing.MASKED, Missing.NULL)


def _kind(name: str, value: object) -> int:
    """Return what a flag says; numbers such as an error's size or a mean are no flags."""
    word = str(value).lower() if isinstance(value, bool | int | float | str) else ""
    yes, no = word in (*_TRUE, "1.0"), word in (*_FALSE, "0.0")
    if name in _ERRORS:
        return Missing.ERROR if value is True or _text(value) else 0
    if (
        (name in _FAILED and yes)
        or (name in _SUCCEEDED and no)
        or (name in _STATUS and word in _BAD_STATUS)
    ):
        return Missing.JUDGE_FAILED
    return Missing.MASKED if (name in _MASKED and yes) or (name in _KEPT and no) else 0


def _text(value: object) -> str:
    """Return what an error says in lower case, "" where there is none."""
    if isinstance(value, list | dict):
        return str(value).lower() if value else ""
    if not isinstance(value, str):
        return ""
    word = value.strip().lower()
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
