"""Axes lettered by us read as those that Vega letters in the browser."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import vl_convert
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rlreport.draw.axis import labelled, tick_format, ticks, y_limits

FINITE = st.floats(-1e12, 1e12)


def vega_labels(domain: tuple[float, float], axis: dict[str, Any]) -> list[str]:
    """Labels of an axis as Vega writes them."""
    spec = {
        "width": 9000,
        "height": 10,
        "scales": [
            {"name": "x", "type": "linear", "zero": False, "domain": domain, "range": "width"}
        ],
        "axes": [{"scale": "x", "orient": "bottom", "labelOverlap": False, **axis}],
    }
    root = ET.fromstring(vl_convert.vega_to_svg(json.dumps(spec)))
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


@given(
    st.floats(-1e7, 1e7), st.floats(1e-6, 1e7), st.integers(2, 12), st.sampled_from([None, "~s"])
)
@example(0.0, 5.02, 5, None)
@example(-0.1, 1.2, 5, None)
@example(5e-324, 3.0, 2, None)
@example(4.9e-4, 2e-5, 5, "~e")
@example(-1e5, 2.6e6, 5, "~s")
@example(0.0, 1.0, 5, "~%")
@example(0.0, 0.0625, 4, "~%")
@example(0.125, 0.75, 2, None)
def test_labels_are_those_of_vega(low: float, span: float, count: int, form: str | None) -> None:
    high = low + span
    assume(span > 0.01 * max(abs(low), abs(high)))
    assume(form != "~s" or max(abs(low), abs(high)) >= 1e5)
    axis = {"tickCount": count} | ({"format": form} if form else {})
    ours = [text for _, text in labelled(axis, (low, high))]
    assert ours == vega_labels((low, high), axis)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**7), st.integers(1, 12))
def test_steps_have_whole_ticks(first: int, span: int, count: int) -> None:
    shown = ticks(first, first + span, count, 1)
    assert all(tick == round(tick) for tick in shown)
    axis = {"tickCount": count, "tickMinStep": 1, "format": ",d"}
    assert [t for _, t in labelled(axis, (first, first + span))] == [
        f"{tick:,.0f}".replace("-", "−") for tick in shown
    ]


@given(FINITE, st.floats(1e-9, 1e12), st.integers(1, 20))
def test_ticks_lie_on_the_axis_evenly(low: float, span: float, count: int) -> None:
    high = low + span
    assume(span > 1e-6 * max(abs(low), abs(high)))
    shown = ticks(low, high, count)
    assert len(shown) <= 2 * count + 1
    slack = 1e-9 * max(abs(low), abs(high))
    assert all(low - slack <= tick <= high + slack for tick in shown)
    if len(shown) > 2:
        np.testing.assert_allclose(np.diff(shown), shown[1] - shown[0], rtol=1e-3)


def test_an_axis_without_extent_has_no_ticks() -> None:
    assert ticks(1.0, 1.0, 5) == []
    assert ticks(0.0, float("inf"), 5) == []


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=9))
def test_limits_hold_every_finite_value(values: list[float]) -> None:
    low, high = y_limits([np.array(values, dtype=np.float64)])
    assert low < high
    assert np.isfinite([low, high, high - low]).all()
    assert all(low <= v <= high for v in values if abs(v) <= 1e300)


def test_limits_of_what_is_never_negative_start_at_zero_or_above() -> None:
    assert y_limits([np.array([0.0, 5.0])])[0] == 0.0
    assert y_limits([np.array([0.0, 1.0])], percent=True) == (0.0, 1.0)


def test_rounding_noise_does_not_fill_the_axis() -> None:
    low, high = y_limits([np.array([5.001e-4, 4.999e-4])])
    assert high - low == pytest.approx(0.02 * 5.001e-4)


@pytest.mark.parametrize(
    ("limits", "percent", "form"),
    [
        ((0, 1), True, {"format": "~%"}),
        ((0, 2e5), False, {"format": "~s"}),
        ((0, 9e-4), False, {"format": "~e"}),
        ((-3, 4), False, {}),
    ],
)
def test_the_format_suits_the_extent(limits, percent, form) -> None:
    assert tick_format(limits, percent) == form
