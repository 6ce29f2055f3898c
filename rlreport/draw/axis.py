"""Axes: their extents, ticks and labels, the same ones that Vega makes in the browser.

Baked charts are lettered here rather than by vl-convert, which spends about a millisecond
on each text it measures. The rules are d3's, so that a chart keeps its labels when a page's
script brings it to life.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.text.numbers import MINUS

Floats = NDArray[np.float64]
LEAST_SPAN = 0.02
"""Least extent of an axis as a share of its largest value: smaller wobbles are rounding."""
MOST = 1e300
"""Values beyond are drawn at the edge, so that sums of them stay finite."""

_SI = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")


@dataclass(frozen=True, slots=True)
class Axis:
    """Extent of an axis, its title, and whether its values are shares."""

    low: float
    high: float
    title: str
    percent: bool = False

    @property
    def format(self) -> dict[str, str]:
        """Vega-Lite's ``format`` of the labels, where it is not the usual one."""
        return tick_format((self.low, self.high), self.percent)


def y_limits(arrays: Sequence[Floats], percent: bool = False) -> tuple[float, float]:
    """Extent of all finite values with a little air; never empty. Shares stay within 0 and 1."""
    values = np.concatenate([array[np.isfinite(array)] for array in arrays])
    if not values.size:
        return (0.0, 1.0)
    low, high = (float(end) for end in np.clip([values.min(), values.max()], -MOST, MOST))
    missing = LEAST_SPAN * max(abs(low), abs(high)) - (high - low)
    air = max(0.06 * (high - low), missing / 2) if high > low else 0.1 * abs(high) or 1.0
    bottom, top = low - air, high + air
    if low >= 0 > bottom:
        bottom = 0.0
    if percent:
        bottom, top = max(bottom, 0.0), min(top, 1.0) if high <= 1 else top
    return (bottom, top)


def tick_format(limits: tuple[float, float], percent: bool) -> dict[str, str]:
    """Axis format: percentages, SI prefixes for large values, powers of ten for tiny ones."""
    largest = max(abs(limits[0]), abs(limits[1]))
    if percent:
        return {"format": "~%"}
    if largest >= 1e5:
        return {"format": "~s"}
    return {"format": "~e"} if largest < 1e-3 else {}


def ticks(low: float, high: float, count: int, least: float = 0.0) -> list[float]:
    """Round values from ``low`` to ``high``, about ``count`` of them, as d3-array's ``ticks``.

    Args:
        low: start of the axis.
        high: end of the axis, above ``low``.
        count: number of ticks to come near to.
        least: least distance of ticks (Vega's ``tickMinStep``).
    """
    found = _tick_step(low, high, count, least)
    if found is None:
        return []
    factor, power = found
    # Products and quotients of whole numbers, as tenths have no exact float.
    up, down = (factor * 10.0**power, 1.0) if power >= 0 else (1.0, 10.0**-power / factor)
    first, last = round(low * down / up), round(high * down / up)
    first += first * up / down < low
    last -= last * up / down > high
    return [i * up / down for i in range(first, last + 1)]


def _tick_step(low: float, high: float, count: int, least: float) -> tuple[int, int] | None:
    """Distance of ticks as (factor, power of ten), as d3-array's ``tickIncrement``."""
    span = high - low
    if least:
        count = min(count, math.floor(span / least) or 1)
    step = span / count
    if not (step > 0 and math.isfinite(step)):
        return None
    power = math.floor(math.log10(step))
    error = step / 10.0**power
    factor = next(
        (nice for nice, bound in ((10, 50.0), (5, 10.0), (2, 2.0)) if error >= math.sqrt(bound)), 1
    )
    return (1, power + 1) if factor == 10 else (factor, power)


def tick_labels(
    values: Sequence[float], format_: str | None, largest: float, exponent: int
) -> list[str]:
    """Texts of ticks in the formats that the charts' axes use, as d3-scale writes them.

    Args:
        values: ticks.
        format_: ``~%``, ``~s``, ``~e``, ``,d`` or None, which gives all ticks the decimals
            that their distance needs.
        largest: largest magnitude of the axis; one SI prefix serves all its ticks.
        exponent: power of ten of the ticks' distance.
    """
    if format_ is None:
        texts = [f"{value:,.{max(0, -exponent)}f}" for value in values]
    elif format_ == "~s":
        thousands = max(0, min(8, math.floor(math.log10(largest) / 3 + 1e-12)))
        decimals = max(0, 3 * thousands - exponent)
        texts = [
            _trimmed(f"{value / 1000.0**thousands:.{decimals}f}") + _SI[thousands]
            for value in values
        ]
    else:
        texts = [_FORMATS[format_](value) for value in values]
    return [_signed(text) for text in texts]


def labelled(axis: dict[str, Any], domain: Sequence[float]) -> list[tuple[float, str]]:
    """Ticks with their texts of an axis as a specification describes it."""
    low, high = domain
    wanted = (axis["tickCount"], axis.get("tickMinStep", 0.0))
    values = axis.get("values") or ticks(low, high, *wanted)
    if len(values) > 1:
        exponent = math.floor(math.log10(abs(values[1] - values[0])) + 1e-9)
    else:
        exponent = (_tick_step(low, high, *wanted) or (1, 0))[1]
    texts = tick_labels(values, axis.get("format"), max(abs(low), abs(high)), exponent)
    return list(zip(values, texts, strict=True))


def _signed(text: str) -> str:
    if not text.startswith("-"):
        return text
    return MINUS + text[1:] if any(c in "123456789" for c in text) else text[1:]


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _power(value: float) -> str:
    mantissa, exponent = f"{value:.6e}".split("e")
    return f"{_trimmed(mantissa)}e{int(exponent):+d}"


_FORMATS: dict[str, Callable[[float], str]] = {
    "~%": lambda value: _trimmed(f"{100 * value:.6f}") + "%",
    "~e": _power,
    ",d": lambda value: f"{value:,.0f}",
}
