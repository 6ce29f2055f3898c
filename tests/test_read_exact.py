"""Sums that do not depend on their order, however many and however large."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlreport.read.exact import binned_sums, carry, group_sums, to_floats

LARGEST = 2.0**40
VALUES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-1e6, 1e6) | st.floats(-9, 9)


def rounded(value: float) -> Fraction:
    """What a value counts as: a multiple of 2^-32 within 2^40, half to even."""
    if np.isnan(value):
        return Fraction(0)
    return Fraction(round(Fraction(float(np.clip(value, -LARGEST, LARGEST))) * 2**32), 2**32)


def exactly(sums: np.ndarray) -> list[Fraction]:
    """The sums that high and low parts stand for."""
    return [Fraction(int(high)) * 2**22 + Fraction(int(low), 2**32) for high, low in sums.T]


@given(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=40))
def test_sums_are_those_of_the_rounded_values(pairs: list[tuple[int, float]]) -> None:
    bins = np.array([place for place, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs], dtype=np.float64)
    sums = binned_sums(bins, values, 4)
    wanted = [
        sum((rounded(v) for at, v in pairs if at == place), Fraction(0)) for place in range(4)
    ]
    assert exactly(sums) == wanted
    assert (np.abs(sums[1] + 0.5) < 2**53).all()
    np.testing.assert_array_equal(to_floats(sums), [float(total) for total in wanted])


@given(st.lists(st.integers(-(2**53), 2**53 - 1), min_size=1, max_size=50), st.integers(1, 9))
def test_groups_of_low_parts_add_up(low: list[int], size: int) -> None:
    starts = np.arange(0, len(low), size)
    sums = np.stack(group_sums(np.array(low, dtype=np.int64), starts))
    assert exactly(sums) == [Fraction(sum(low[i : i + size]), 2**32) for i in starts.tolist()]


def test_no_number_of_low_parts_overflows() -> None:
    low = np.full(1 << 16, 2**53 - 1, dtype=np.int64)
    (total,) = exactly(np.stack(group_sums(low, np.array([0]))))
    assert total == Fraction((2**53 - 1) << 16, 2**32)


def test_equal_sums_are_equal_bit_for_bit() -> None:
    one = carry(np.array([[3], [-(2**55)]], dtype=np.int64))
    other = carry(np.array([[0], [2**54]], dtype=np.int64))
    np.testing.assert_array_equal(one, other)
