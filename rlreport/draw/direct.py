"""Draw the small charts of step pages as SVG, directly from arrays.

A page has up to four; drawing them with Vega took a third of the time of a build. The drawing
is what Vega draws of the chart's specification: the same marks, ticks and labels at the same
places (``tests/test_draw_direct.py``). Ticks and their labels follow d3 (d3-array ``ticks``,
d3-format ``formatSpecifier``), on which Vega relies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeVar

import numpy as np

from rlreport.draw.chart import Axis
from rlreport.draw.theme import HEIGHT, PADDING, SMALL, TITLES, WIDTH
from rlreport.figures.ragged import Floats
from rlreport.text.clean import printable
from rlreport.text.language import Language

Axes = tuple[Axis, Axis]  # x and y
Pair = tuple[Floats, Floats]
Numbers = TypeVar("Numbers", float, Floats)
RIGHT = 12  # padding right of the plot of a step chart, in pixels
PLOT_WIDTH = WIDTH["step"] - PADDING["left"] - RIGHT
PLOT_HEIGHT = HEIGHT["step"] - PADDING["top"] - PADDING["bottom"]

# Usual number of ticks, as in ``chart.fill``
_TICKS_X = 6
_TICKS_Y = 5
_RADIUS = math.sqrt(26) / 2  # of a dot whose size is 26, as Vega defines sizes


def draw(axes: Axes, marks: Iterable[str], description: str, language: Language) -> str:
    """Return a chart as SVG: axes with translated titles, and ``marks`` (SVG elements) as given.

    The origin of ``marks`` is the upper left corner of the plot; ``description`` is for screen
    readers.
    """
    x, y = axes
    grid = []
    y_labels = []
    for value, text in ticks(y, _TICKS_Y):
        height = _y_pixels(value, axes)
        line = math.floor(height + 0.5)  # on a whole pixel, so that it is sharp
        grid.append(f'<path d="M0,{line}h{PLOT_WIDTH}"/>')
        # As in ``vega_config``: 6 pixels from the axis, the baseline 3 below the tick.
        y_labels.append(f'<text x="-6" y="{number(height + 3)}">{text}</text>')
    x_labels = []
    for value, text in ticks(x, _TICKS_X):
        place = number(_x_pixels(value, axes))
        x_labels.append(f'<text x="{place}" y="15">{text}</text>')
    # Lines of one pixel are sharp at half pixels, to which axes are moved by "translate(0.5, …)".
    label = escaped(description, language)
    x_title = escaped(x.title, language)
    y_title = escaped(y.title, language)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH["step"]} {HEIGHT["step"]}" '
        f'width="100%" role="img" aria-label="{label}" fill="none" font-size="{SMALL}">'
        f'<g transform="translate({PADDING["left"]},{PADDING["top"]})">'
        '<g transform="translate(0.5,0.5)">'
        f'<g stroke="var(--line)" stroke-width="1">{"".join(grid)}</g>'
        f'<g fill="var(--muted)" text-anchor="end">{"".join(y_labels)}</g>'
        f'<text fill="var(--muted)" x="{-PADDING["left"]}" y="{TITLES["y"]}">{y_title}</text></g>'
        f'<g fill="var(--muted)" transform="translate(0.5,{PLOT_HEIGHT + 0.5})">'
        f'<g text-anchor="middle">{"".join(x_labels)}</g>'
        f'<path d="M0,0h{PLOT_WIDTH}" stroke="var(--muted)" stroke-width="1"/>'
        f'<text text-anchor="end" x="{PLOT_WIDTH}" y="{TITLES["x"]}">{x_title}</text></g>'
        f"{''.join(marks)}</g></svg>"
    )


def escaped(text: str, language: Language) -> str:
    return escape(printable(language.of(text)))


def bars(axes: Axes, edges: Pair, ends: Pair, look: str) -> str:
    """Return bars as one SVG path, "" if there are none.

    Args:
        axes: the x and the y axis.
        edges: x of the left and of the right edge of each bar, float64 (B,) each.
        ends: y of the two ends of each bar, in any order, float64 (B,) each.
        look: attributes of the path.
    """
    left, right = (_x_pixels(values, axes) for values in edges)
    # Bars of negative values reach down, so that their ends are in the other order.
    top, bottom = np.sort([_y_pixels(values, axes) for values in ends], axis=0)
    width = right - left
    height = bottom - top
    rectangles = np.column_stack([left, top, width, height]).tolist()
    path = "".join(
        f"M{number(x)},{number(y)}h{number(w)}v{number(h)}h{number(-w)}Z"
        for x, y, w, h in rectangles
    )
    return f'<path {look} shape-rendering="crispEdges" d="{path}"/>' if path else ""


def dots(axes: Axes, x: Floats, y: Floats) -> str:
    """Return SVG circles at the points (x, y), float64 (N,) each."""
    across = _x_pixels(x, axes).tolist()
    down = _y_pixels(y, axes).tolist()
    radius = number(_RADIUS)
    circles = (
        f'<circle cx="{number(a)}" cy="{number(b)}" r="{radius}"/>'
        for a, b in zip(across, down, strict=True)
    )
    return f'<g fill="var(--policy)" fill-opacity="0.5">{"".join(circles)}</g>'


def zero_line(axes: Axes) -> str:
    y = number(_y_pixels(0.0, axes))
    return (
        f'<path stroke="var(--muted)" stroke-dasharray="2,2" d="M0,{y}h{PLOT_WIDTH}"/>'
    )


def legend(entries: Sequence[tuple[float, str, str]], language: Language) -> str:
    """Return a legend as SVG; ``entries``: (right end in pixels, text, CSS property without --)."""
    texts = (
        f'<text x="{number(x)}" y="-13" fill="var(--{colour})">{escape(language.of(text))}</text>'
        for x, text, colour in entries
    )
    return f'<g text-anchor="end">{"".join(texts)}</g>'


def _x_pixels(values: Numbers, axes: Axes) -> Numbers:
    return _fraction(values, axes[0]) * PLOT_WIDTH


def _y_pixels(values: Numbers, axes: Axes) -> Numbers:
    """Return pixels from the top of the plot: its lower edge is at PLOT_HEIGHT."""
    return PLOT_HEIGHT - _fraction(values, axes[1]) * PLOT_HEIGHT


def _fraction(values: Numbers, axis: Axis) -> Numbers:
    return (values - axis.low) / (axis.high - axis.low)


def number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def ticks(axis: Axis, usual_count: int) -> list[tuple[float, str]]:
    """Return the value and the label of each tick."""
    values, step = _tick_values(axis.low, axis.high, axis.count or usual_count)
    return [(value, _label(value, step, axis)) for value in values]


def _tick_values(low: float, high: float, count: float) -> tuple[list[float], float]:
    """Return about ``count`` ticks and their step, of which they are multiples.

    The step is 1, 2 or 5 times a power of ten.
    """
    rough_step = (high - low) / count
    power = math.floor(math.log10(rough_step))
    factor = _round_factor(rough_step / 10.0**power)
    step = factor * 10.0**power
    # As in d3, divide by the inverse of steps below 1, which is a whole number and so exact.
    if power < 0:
        inverse = 10.0**-power / factor
        first = math.floor(low * inverse + 0.5)
        last = math.floor(high * inverse + 0.5)
    else:
        inverse = 0.0
        first = math.floor(low / step + 0.5)
        last = math.floor(high / step + 0.5)

    def value(number: int) -> float:
        """Return the multiple of the step with this number."""
        return number / inverse if inverse else number * step

    # The nearest multiples may lie outside of the limits.
    if value(first) < low:
        first += 1
    if value(last) > high:
        last -= 1
    # No multiple lies within the limits: try again with a smaller step, as d3 does for few ticks.
    if last < first and 0.5 <= count < 2:
        return _tick_values(low, high, 2 * count)
    return [value(number) for number in range(first, last + 1)], step


def _round_factor(factor: float) -> int:
    """Return that of 1, 2, 5 and 10 to which the ratio of ``factor`` (1 to 10) is nearest to 1."""
    # As in d3, the limits are geometric means of neighbours, such as √(5 · 10).
    if factor >= 50**0.5:
        return 10
    if factor >= 10**0.5:
        return 5
    if factor >= 2**0.5:
        return 2
    return 1


def _label(value: float, step: float, axis: Axis) -> str:
    """Return a tick's label with the digits that tell neighbours apart, as d3 formats it."""
    largest = max(abs(axis.low), abs(axis.high))
    sign = "−" if value < 0 else ""
    places = -_exponent(step)  # decimal places that a multiple of the step needs
    kind = axis.format or axis.usual_format() or ",f"
    if kind == ",d":
        text = f"{abs(round(value)):,d}"
    elif kind == "~%":
        # Percent have two places fewer.
        text = _trimmed(f"{abs(value) * 100:.{max(0, places - 2)}f}") + "%"
    elif kind == "~e":
        # Digits from the first one of the largest tick to that of the step
        digits = max(0, _exponent(largest - step) - _exponent(step))
        mantissa, exponent = f"{abs(value):.{digits}e}".split("e")
        text = f"{_trimmed(mantissa)}e{int(exponent):+d}"
    elif kind == "~s":
        # All labels have the prefix of the largest one; such axes reach from 1e5 to below 1e26.
        thousands = _exponent(largest) // 3
        power = 3 * thousands
        text = _trimmed(f"{abs(value) / 10.0**power:.{max(0, power + places)}f}")
        text += "kMGTPEZY"[thousands - 1]
    else:
        text = f"{abs(value):,.{max(0, places)}f}"
    rounds_to_zero = not text.strip("0.,%")
    return text if rounds_to_zero else sign + text


def _exponent(value: float) -> int:
    """Return the power of ten of a number's first digit."""
    return int(f"{abs(value):e}".partition("e")[2])


def _trimmed(text: str) -> str:
    """Return a number without zeros at the end of its decimal places: "1.50" -> "1.5"."""
    return text.rstrip("0").rstrip(".") if "." in text else text
