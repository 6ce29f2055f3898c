"""Sums of floats that come out the same in any order.

A value is rounded to a multiple of 2^-32 and summed as an integer, so no order and no
grouping changes a bit. The rounding is at most 2^-33 a value; values beyond ±2^40 count as
±2^40. A sum is kept in two integers, high · 2^22 + low · 2^-32 with low in [-2^53, 2^53): the
high part of most sums is 0, and a float64 holds each part.
"""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Floats, Ints

MOST_ADDED = 256
"""As many low parts, carried, can be added up without overflow."""

_LOW_SCALE = 2.0**32
_LARGEST = 2.0**40
_CARRY_BITS = 54
_HIGH_STEP = 2.0**_CARRY_BITS / _LOW_SCALE
_HALF = 1 << (_CARRY_BITS - 1)
_PIECE_BITS = 24
_COARSE = 16.0
_COARSE_BITS = 36
_CHUNK = 1 << 17


def binned_sums(bins: Ints, values: Floats, size: int) -> Ints:
    """Sum values by bin, NaN counting as nothing.

    Args:
        bins: int64 (N,), in [0, size).
        values: float64 (N,).
        size: number of bins.

    Returns:
        int64 (2, size): the high and the low parts.
    """
    coarse = np.zeros(size, dtype=np.int64)
    fine = np.zeros(size, dtype=np.int64)
    # Integers held in float64 stay exact below 2^53, which 2^17 values of 2^35 just keep to.
    for start in range(0, len(bins), _CHUNK):
        where = bins[start : start + _CHUNK]
        rest = values[start : start + _CHUNK]
        largest = np.abs(rest).max() if len(rest) else 0.0
        if not largest <= _COARSE / 2:
            rest = np.clip(
                np.nan_to_num(rest, posinf=_LARGEST, neginf=-_LARGEST), -_LARGEST, _LARGEST
            )
            sixteens = np.rint(rest / _COARSE)
            big = np.flatnonzero(sixteens)
            coarse += np.bincount(where[big], sixteens[big], size).astype(np.int64)
            rest = rest - sixteens * _COARSE
        rest = rest * _LOW_SCALE
        np.rint(rest, out=rest)
        fine += np.bincount(where, rest, size).astype(np.int64)
    return np.stack(settled(coarse, fine))


def settled(sixteens: Ints, fine: Ints) -> tuple[Ints, Ints]:
    """Return sums given as multiples of 16 and of 2^-32 as high and low parts."""
    return _canonical(sixteens, fine, _COARSE_BITS)


def carry(sums: Ints) -> Ints:
    """Move what the low parts (second last axis, index 1) exceed into the high ones, in place.

    Equal sums are then equal bit for bit.
    """
    sums[..., 0, :] += excess(sums[..., 1, :])
    return sums


def excess(low: Ints) -> Ints:
    """Take from low parts, in place, what belongs into the high ones, and return it."""
    over: Ints = (low + _HALF) >> _CARRY_BITS
    if over.any():
        low -= over << _CARRY_BITS
    return over


def group_sums(low: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Sum consecutive groups of low parts, however many: high and low parts, int64 (G,) each."""
    largest = max(int(low.max()), -int(low.min()))
    if largest * int(np.diff(starts, append=len(low)).max()) < 1 << 62:
        sums = np.add.reduceat(low, starts)
        return excess(sums), sums
    coarse = np.add.reduceat(low >> _PIECE_BITS, starts)
    fine = np.add.reduceat(low & ((1 << _PIECE_BITS) - 1), starts)
    return _canonical(coarse, fine, _PIECE_BITS)


def to_floats(sums: Ints) -> Floats:
    """Return the sums, shape (..., 2, size), as float64 (..., size)."""
    return np.asarray(sums[..., 0, :] * _HIGH_STEP + sums[..., 1, :] / _LOW_SCALE)


def _canonical(coarse: Ints, fine: Ints, bits: int) -> tuple[Ints, Ints]:
    """Return coarse · 2^bits + fine, in units of 2^-32, as high and low parts."""
    coarse = coarse + (fine >> bits)
    high = coarse >> (_CARRY_BITS - bits)
    low = ((coarse - (high << (_CARRY_BITS - bits))) << bits) + (fine & ((1 << bits) - 1))
    high += excess(low)
    return high, low
