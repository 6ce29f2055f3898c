"""Sums, means etc. of rows of unequal length, stored in one flat array with row offsets.

``offsets`` is int64 of shape (R + 1,), ascending from 0 to the number of tokens N; row r is
``flat[offsets[r]:offsets[r + 1]]`` and may be empty. A row's result depends only on that row,
bit for bit, so that it is the same in every batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.rounding import Floats as Floats
from rlreport.figures.rounding import Ints as Ints
from rlreport.figures.rounding import beyond_rounding, significant

# Values this much smaller than another, relative to it, may be equal to it at 10 digits
_NEARLY = 1e-8


def offsets_of(lengths: Ints) -> Ints:
    """Return the row offsets, shape (R + 1,), of rows with these lengths, shape (R,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def lengths_of(offsets: Ints) -> Ints:
    """Return the lengths, shape (R,), of rows with these offsets; faster than ``np.diff``."""
    return offsets[1:] - offsets[:-1]


def row_ends(offsets: Ints) -> Ints:
    """Return the index of the last token of each nonempty row, int64."""
    stops = offsets[1:]
    is_nonempty = stops > offsets[:-1]
    return stops[is_nonempty] - 1


def spans(chosen: NDArray[np.bool_]) -> Ints:
    """Return the start and the exclusive stop of each run of true values, int64 (runs, 2)."""
    padded = np.concatenate([[False], chosen, [False]]).astype(np.int8)
    return np.flatnonzero(np.diff(padded)).reshape(-1, 2)


def row_sums(flat: Floats, offsets: Ints) -> Floats:
    """Return each row's sum, shape (R,); 0 for an empty row, NaN if any value is NaN."""
    return _reduce(np.add, flat, offsets, 0.0)


def row_maxima(flat: Floats, offsets: Ints) -> Floats:
    """Return each row's largest number, rounded to 10 significant digits; NaN if none, (R,)."""
    return significant(_reduce(np.fmax, flat, offsets, np.nan))


def row_first_maxima(flat: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return each row's largest number and its first index in the row, NaN if none, (R,) each.

    The number is rounded to 10 significant digits, and so are those that it is compared with.
    """
    largest = row_maxima(flat, offsets)
    lengths = lengths_of(offsets)
    # Only values that are nearly as large as the largest may equal it after rounding.
    slack = np.where(np.isfinite(largest), np.abs(largest) * _NEARLY, 0.0)
    near = np.flatnonzero(flat >= np.repeat(largest - slack, lengths))
    row_of_near = np.searchsorted(offsets, near, side="right") - 1
    is_largest = significant(flat[near]) == largest[row_of_near]
    rows = row_of_near[is_largest]
    positions = near[is_largest] - offsets[rows]
    first = np.full(len(lengths), np.nan)
    # Of several positions in a row, the last assignment counts: the first position.
    first[rows[::-1]] = positions[::-1]
    return largest, first


def row_means(flat: Floats, offsets: Ints) -> Floats:
    """Return the mean of each row's finite values, NaN if it has none, shape (R,)."""
    _, means = finite_means(flat, offsets)
    return means


def finite_means(flat: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return each row's number of finite values and their mean (NaN if none), shape (R,) each."""
    count, total = finite_sums(flat, offsets)
    with np.errstate(invalid="ignore"):
        return count, total / count


def row_moments(flat: Floats, offsets: Ints) -> tuple[Floats, Floats, Floats]:
    """Return each row's number of finite values, their mean, and their sum of (x - mean)².

    Shape (R,) each. The mean and the sum are NaN for a row without finite values.
    """
    count, mean = finite_means(flat, offsets)
    deviation = flat - np.repeat(mean, lengths_of(offsets))
    np.square(deviation, out=deviation)
    _, squares = finite_sums(deviation, offsets)
    return count, mean, _squares_beyond_rounding(count, mean, squares)


def _squares_beyond_rounding(count: Floats, mean: Floats, squares: Floats) -> Floats:
    """Return sums of (x - mean)², NaN without values, 0 where only rounding makes values differ."""
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = beyond_rounding(np.sqrt(squares / count), mean)
    known = np.where(count > 0, squares, np.nan)
    return np.where(deviation == 0, 0.0, known)


def finite_sums(flat: Floats, offsets: Ints) -> tuple[Floats, Floats]:
    """Return each row's number of finite values and their sum (0 if none), shape (R,) each."""
    sums = row_sums(flat, offsets)
    # As usual: a value that is not finite would make its row's sum neither.
    if np.isfinite(sums).all():
        return lengths_of(offsets).astype(np.float64), sums
    finite = np.isfinite(flat)
    if finite.all():
        return lengths_of(offsets).astype(np.float64), sums
    count = row_sums(finite.astype(np.float64), offsets)
    return count, row_sums(np.where(finite, flat, 0.0), offsets)


def _reduce(ufunc: np.ufunc, flat: Floats, offsets: Ints, empty: float) -> Floats:
    """Return each row's reduction by ``ufunc`` (add: its sum), (R,); ``empty`` for an empty row."""
    starts = offsets[:-1]
    nonempty = offsets[1:] > starts
    if nonempty.all() and len(starts):
        return np.asarray(ufunc.reduceat(flat, starts), dtype=np.float64)
    result = np.full(len(starts), empty)
    if nonempty.any():
        # ``reduceat`` would give an empty row the first value of the next one. Skip the starts of
        # empty rows: every other row still ends where the next one starts.
        result[nonempty] = ufunc.reduceat(flat, starts[nonempty])
    return result
