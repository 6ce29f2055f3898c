"""Missing grades: rewards that a trainer logged where it had no grade."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, translatable


class Missing(IntEnum):
    """Why a response has no valid reward: codes in column ``missing_grade`` (0: it has one)."""

    NULL = 1
    JUDGE_FAILED = 2
    MASKED = 3
    ERROR = 4
    PARTS = 5  # the reward is a number, but all of its parts are null


_NOTES = {
    Missing.NULL: translatable(
        "responses whose reward is null, left out of figures of the reward"
    ),
    Missing.JUDGE_FAILED: translatable(
        "responses whose judge failed, left out of figures of the reward"
    ),
    Missing.MASKED: translatable(
        "responses masked by the trainer, left out of figures of the reward"
    ),
    Missing.ERROR: translatable(
        "responses whose grader had an error, left out of figures of the reward"
    ),
    Missing.PARTS: translatable(
        "responses whose reward parts are all null, left out of figures of the reward"
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

_FLAGS: dict[str, tuple[Missing, tuple[str, ...]]] = {}
for _kind, _values, _names in _SIGNS:
    _FLAGS |= dict.fromkeys(_names, (_kind, _values))
_ERRORS = frozenset(f"{grader}_error" for grader in _GRADERS)
# Fields for errors of a rollout; its reward is invalid if the error names a grader
_OWN_ERRORS = ("errors", "error")

_FIELDS = frozenset(_FLAGS.keys() | _ERRORS)
_NESTED = ("metadata", "info", "extra_info", "reward_info", "reward_extra_info")
_NO_TEXT = ("", "none", "null", "nan", "ok", "false", "0", "no")
_ORDER = (
    Missing.JUDGE_FAILED,
    Missing.ERROR,
    Missing.MASKED,
    Missing.NULL,
    Missing.PARTS,
)
# Where more rows have no part of the reward, the parts are not those of all rows
_MOST_WITHOUT_PARTS = 0.5


def missing_grade(record: Mapping[str, Any], *, null: bool) -> int:
    """Return a row's ``Missing`` code, 0 if its reward is valid; ``null``: the reward is null."""
    kinds = _signs_in(record)
    # Graders also report in objects of the row, one level deep.
    for name in _NESTED:
        inner = record.get(name)
        if isinstance(inner, dict):
            kinds |= _signs_in(inner)
    if null:
        kinds.add(Missing.NULL)
    elif _lacks_parts(record.get("reward_parts")):
        kinds.add(Missing.PARTS)
    for name in _OWN_ERRORS:
        # Errors of tools and environments do not make a logged reward invalid.
        errors = _error_text(record.get(name))
        if errors and (null or any(grader in errors for grader in _GRADERS)):
            kinds.add(Missing.ERROR)
    for kind in _ORDER:  # of several reasons, the most specific
        if kind in kinds:
            return kind
    return 0


def _lacks_parts(parts: object) -> bool:
    """Return whether parts of the reward are logged, but all are null (or NaN)."""
    if not (isinstance(parts, dict) and parts):
        return False
    return all(part is None or part != part for part in parts.values())


def _signs_in(fields: Mapping[str, Any]) -> set[Missing]:
    """Return why the reward is invalid, according to each field that says so."""
    kinds: set[Missing] = set()
    # Hardly any row has such a field, and this test takes a quarter of the time.
    if _FIELDS.isdisjoint(fields):
        return kinds
    for name in fields.keys() & _FIELDS:
        value = fields[name]
        if name in _ERRORS:
            if value is True or _error_text(value):
                kinds.add(Missing.ERROR)
        elif isinstance(value, bool | int | float | str):
            kind, values = _FLAGS[name]
            if str(value).lower() in values:
                kinds.add(kind)
    return kinds


def _error_text(value: object) -> str:
    """Return an error in lower case; "" if the value says that there was none."""
    if isinstance(value, list | dict):
        return str(value).lower() if value else ""
    word = value.strip().lower() if isinstance(value, str) else ""
    return "" if word in _NO_TEXT else word


def clear_missing_grades(columns: dict[str, NDArray[Any]]) -> None:
    """Set rewards with a ``missing_grade`` to NaN, unless all are masked; add ``masked_reward``."""
    kinds = columns["missing_grade"].copy()
    if len(kinds) and (kinds == Missing.MASKED).all():  # else no reward would be left
        kinds[:] = 0
    without_parts = kinds == Missing.PARTS
    # A sum of no parts is 0; another reward does not come from these parts.
    is_sum = (columns["reward"][without_parts] == 0).all()
    if not is_sum or without_parts.sum() > _MOST_WITHOUT_PARTS * len(kinds):
        kinds[without_parts] = 0
    columns["missing_grade"] = kinds
    # A copy, before the rewards are cleared
    columns["masked_reward"] = np.where(
        kinds == Missing.MASKED, columns["reward"], np.nan
    )
    for name in ("reward", "non_score_reward"):
        if name in columns:
            columns[name] = np.where(kinds > 0, np.nan, columns[name])


def dropped_rows(kinds: NDArray[Any], extras: pd.DataFrame) -> NDArray[np.float64]:
    """Return 1 if the trainer dropped or masked the row, 0 if not, NaN if not logged, (R,).

    ``kinds`` are the rows' codes of ``Missing``, ``extras`` their further fields.
    """
    masked = kinds == Missing.MASKED
    dropped = np.where(masked.any(), masked.astype(np.float64), np.nan)
    for name in _KEPT.keys() & set(extras.select_dtypes("number")):
        values = extras[name].to_numpy(np.float64)
        # A field with other numbers is no flag. One flag that says so is enough.
        logged = values[np.isfinite(values)]
        if np.isin(logged, (0, 1)).all():
            dropped = np.fmax(dropped, np.abs(values - _KEPT[name]))
    return dropped


def missing_grade_notes(kinds: NDArray[np.int8]) -> list[Note]:
    counts = np.bincount(kinds, minlength=len(Missing) + 1).tolist()
    return [
        Note(NoteKind.MISSING_GRADES, message(_NOTES[k]), counts[k])
        for k in Missing
        if counts[k]
    ]
