"""Columns of the response list that tell nothing of their own: ids, and copies of other columns.

They are hidden until the reader selects them; their help text says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats
from rlreport.pages.table import ColumnView
from rlreport.text.messages import message

# Relative difference of equal numbers, as a log may hold one as float32, the other as float64
SAME = 1e-6

# Values that differ from prompt to prompt are an id from so many prompts on: lengths may do so by
# chance. Of fewer prompts they must be consecutive
LEAST_PROMPTS = 8

# An id of prompts may err at this fraction of them, such as two prompts with the same text
TOLERATED = 0.01


def without_redundant(
    columns: Sequence[ColumnView],
    logged: Sequence[ColumnView],
    values: Mapping[str, Floats],
    steps: NDArray[np.int64],
    prompts: NDArray[np.int64],
) -> list[ColumnView]:
    """Return all columns, hidden those that are redundant.

    Args:
        columns: computed figures, in order.
        logged: further logged numbers, which may be ids.
        values: key of a column -> its values in all responses of the run.
        steps: the step of each response.
        prompts: id of its prompt.
    """
    result: list[ColumnView] = []
    for column in (*columns, *logged):
        why = ""
        if not column.hidden:
            shown = [one for one in result if not one.hidden]
            why = _copied(column, shown, values)
            if not why and column in logged:
                why = _numbering(values[column.key], steps, prompts)
        result.append(_hidden(column, why) if why else column)
    return result


def _hidden(column: ColumnView, why: str) -> ColumnView:
    text = message("hidden at first: {why}", why=why)
    if column.help:
        text = message("{help}; {more}", help=column.help, more=text)
    return replace(column, help=text, hidden=True)


def _copied(
    column: ColumnView, shown: Sequence[ColumnView], values: Mapping[str, Floats]
) -> str:
    """Return which shown column has the same values in all responses, in words."""
    numbers = values[column.key]
    if not _vary(numbers):  # equal constants may be different things
        return ""
    for other in shown:
        if _equal(numbers, values[other.key]):
            return message("it equals “{column}” in every response", column=other.label)
    return ""


def _equal(some: Floats, others: Floats) -> bool:
    return np.allclose(some, others, rtol=SAME, atol=0.0, equal_nan=True)


def _vary(numbers: Floats) -> bool:
    finite = numbers[np.isfinite(numbers)]
    return bool(len(finite)) and bool(finite.min() != finite.max())


def _numbering(
    numbers: Floats, steps: NDArray[np.int64], prompts: NDArray[np.int64]
) -> str:
    """Return what the values are an id of, in words; "" if they are none."""
    # NaN and infinity are not integers either.
    is_integer = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not is_integer.all():
        return ""
    if _numbers_prompts(numbers, prompts):
        return message("it is a number of the prompt")
    if _numbers_rows(numbers, steps):
        return message("it numbers the responses")
    return ""


def _numbers_prompts(numbers: Floats, prompts: NDArray[np.int64]) -> bool:
    """Return whether each prompt has a value of its own."""
    count = len(np.unique(prompts))
    different = np.unique(numbers)
    pairs = len(np.unique(np.column_stack([numbers, prompts]), axis=0))
    tolerated = TOLERATED * count
    if pairs - count > tolerated or count - len(different) > tolerated:
        return False
    is_consecutive = different[-1] - different[0] == len(different) - 1
    return count >= LEAST_PROMPTS or (count > 2 and bool(is_consecutive))


def _numbers_rows(numbers: Floats, steps: NDArray[np.int64]) -> bool:
    """Return whether the values are consecutive integers, all different, in each step."""
    order = np.lexsort((numbers, steps))
    within = np.diff(steps[order]) == 0
    # Without two responses in a step there is nothing to number.
    gaps = np.diff(numbers[order])[within]
    return len(gaps) > 0 and bool((gaps == 1).all())
