"""Sums of floats that come out the same in any order.

A value x is split into 16·h, h an integer, and a rest within ±8, which is rounded to a
multiple of 2^-32. Both are summed as integers, so no order and no grouping changes a bit.
The rounding is at most 2^-33 a value; values beyond ±2^40 count as ±2^40.
"""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Floats, Ints

HIGH_STEP = 16.0
LOW_SCALE = 2.0**32
_LARGEST = 2.0**40
_CARRY_BITS = 36
_CHUNK = 1 << 17


def binned_sums(bins: Ints, values: Floats, size: int) -> Ints:
    """Sum values by bin, NaN counting as nothing.

    Args:
        bins: int64 (N,), in [0, size).
        values: float64 (N,).
        size: number of bins.

    Returns:
        int64 (2, size): the high and the low parts, to be carried (see ``carry``).
    """
    result = np.zeros((2, size), dtype=np.int64)
    # Integers held in float64 stay exact below 2^53, which 2^17 values of 2^35 just keep to.
    for start in range(0, len(bins), _CHUNK):
        where = bins[start : start + _CHUNK]
        low = values[start : start + _CHUNK]
        largest = np.abs(low).max() if len(low) else 0.0
        if not largest <= HIGH_STEP / 2:
            low = np.clip(
                np.nan_to_num(low, posinf=_LARGEST, neginf=-_LARGEST), -_LARGEST, _LARGEST
            )
            high = np.rint(low / HIGH_STEP)
            big = np.flatnonzero(high)
            result[0] += np.bincount(where[big], high[big], size).astype(np.int64)
            low = low - high * HIGH_STEP
        low = low * LOW_SCALE
        np.rint(low, out=low)
        result[1] += np.bincount(where, low, size).astype(np.int64)
    return result


def carry(sums: Ints) -> Ints:
    """Move what the low parts (second last axis, index 1) exceed into the high ones, in place.

    Equal sums are then equal bit for bit. The low parts exceed at 16 · 2^32 = 2^36.
    """
    low = sums[..., 1, :]
    sums[..., 0, :] += low >> _CARRY_BITS
    low &= (1 << _CARRY_BITS) - 1
    return sums


def to_floats(sums: Ints) -> Floats:
    """Return the sums, shape (..., 2, size), as float64 (..., size)."""
    return np.asarray(sums[..., 0, :] * HIGH_STEP + sums[..., 1, :] / LOW_SCALE)
