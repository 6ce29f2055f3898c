"""The bars behind a response list's numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlreport.bake.step import _bars


@given(st.lists(st.floats(), max_size=30))
def test_a_bar_is_at_most_twenty_twentieths_and_the_largest_value_has_them_all(
    values: list[float],
) -> None:
    bars = _bars(np.array(values, dtype=np.float64))
    assert len(bars) == len(values)
    assert all(0 <= bar <= 20 for bar in bars)
    largest = max((abs(value) for value in values if np.isfinite(value)), default=0.0)
    for value, bar in zip(values, bars, strict=True):
        if not np.isfinite(value) or value == 0:
            assert bar == 0
        elif abs(value) == largest:
            assert bar == 20


def test_values_whose_product_would_round_up_or_overflow_have_whole_bars() -> None:
    assert _bars(np.array([0.07, 1.1, 0.55])) == [2, 20, 10]
    assert _bars(np.array([1.7e308, -1.7e308, 8.5e307])) == [20, 20, 10]
