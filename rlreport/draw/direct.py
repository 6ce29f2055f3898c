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

import numpy as np

from rlreport.draw.chart import Axis
from rlreport.draw.theme import HEIGHT, PADDING, SMALL, TITLES, WIDTH
from rlreport.figures.ragged import Floats
from rlreport.text.clean import printable
from rlreport.text.language import Language

Axes = tuple[Axis, Axis]  # x and y
Pair = tuple[Floats, Floats]
RIGHT = 12  # padding right of the plot of a step chart, in pixels
PLOT_WIDTH = WIDTH["step"] - PADDING["left"] - RIGHT
PLOT_HEIGHT = HEIGHT["step"] - PADDING["top"] - PADDING["bottom"]

_TICKS_X, _TICKS_Y = 6, 5  # usual number of ticks, as in ``chart.fill``
_RADIUS = math.sqrt(26) / 2  # of a dot whose size is 26, as Vega defines sizes


def draw(axes: Axes, marks: Iterable[str], description: str, language: Language) -> str:
    """Return a chart as SVG: axes with translated titles, and ``marks`` (SVG elements) as given."""
    x, y = axes
    description, x_title, y_title = (
        escape(printable(language.of(text))) for text in (description, x.title, y.title)
    )
    grid = []
    y_labels = []
    for value, label in zip(*_ticks(y, _TICKS_Y), strict=True):
        place = _place(value, y, PLOT_HEIGHT, 0)
        line = math.floor(place + 0.5)  # lines lie on whole pixels, so that they are sharp
        grid.append(f'<path d="M0,{line}h{PLOT_WIDTH}"/>')
        y_labels.append(f'<text x="-6" y="{_number(place + 3)}">{label}</text>')
    x_labels = [
        f'<text x="{_number(_place(value, x, 0, PLOT_WIDTH))}" y="15">{label}</text>'
        for value, label in zip(*_ticks(x, _TICKS_X), strict=True)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH["step"]} {HEIGHT["step"]}" '
        f'width="100%" role="img" aria-label="{description}" fill="none" font-size="{SMALL}">'
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


def bars(axes: Axes, edges: Pair, ends: Pair, look: str) -> str:
    """Return an SVG path, with attributes ``look``, of bars between two x and two y; "" if none."""
    left, right = (_place(values, axes[0], 0, PLOT_WIDTH) for values in edges)
    top, bottom = np.sort([_place(values, axes[1], PLOT_HEIGHT, 0) for values in ends], axis=0)
    path = "".join(
        f"M{_number(x)},{_number(y)}h{_number(width)}v{_number(height)}h{_number(-width)}Z"
        for x, y, width, height in zip(
            left.tolist(), top.tolist(), (right - left).tolist(), (bottom - top).tolist(),
            strict=True,
        )
    )  # fmt: skip
    return f'<path {look} shape-rendering="crispEdges" d="{path}"/>' if path else ""


def dots(axes: Axes, x: Floats, y: Floats) -> str:
    places = zip(
        _place(x, axes[0], 0, PLOT_WIDTH).tolist(),
        _place(y, axes[1], PLOT_HEIGHT, 0).tolist(),
        strict=True,
    )
    radius = _number(_RADIUS)
    circles = (f'<circle cx="{_number(a)}" cy="{_number(b)}" r="{radius}"/>' for a, b in places)
    return f'<g fill="var(--policy)" fill-opacity="0.5">{"".join(circles)}</g>'


def zero_line(axes: Axes) -> str:
    y = _number(_place(0.0, axes[1], PLOT_HEIGHT, 0))
    return f'<path stroke="var(--muted)" stroke-dasharray="2,2" d="M0,{y}h{PLOT_WIDTH}"/>'


def legend(entries: Sequence[tuple[float, str, str]], language: Language) -> str:
    """Return a legend as SVG; ``entries``: (right end in pixels, text, CSS property without --)."""
    texts = (
        f'<text x="{_number(x)}" y="-13" fill="var(--{colour})">{escape(language.of(text))}</text>'
        for x, text, colour in entries
    )
    return f'<g text-anchor="end">{"".join(texts)}</g>'


def _place(values: Floats | float, axis: Axis, low: float, high: float) -> Floats:
    return np.asarray(low + (values - axis.low) / (axis.high - axis.low) * (high - low))


def _number(value: Floats | float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _ticks(axis: Axis, usual_count: int) -> tuple[list[float], list[str]]:
    values, step = _tick_values(axis.low, axis.high, axis.count or usual_count)
    return values, [_label(value, step, axis) for value in values]


def _tick_values(low: float, high: float, count: float) -> tuple[list[float], float]:
    """Return about ``count`` multiples of a step (1, 2 or 5 × a power of ten), and the step."""
    rough = (high - low) / count
    power = math.floor(math.log10(rough))
    error = rough / 10.0**power
    factor = 10 if error >= 50**0.5 else 5 if error >= 10**0.5 else 2 if error >= 2**0.5 else 1
    # As in d3, divide by the inverse of steps below 1, which is a whole number and so exact.
    inverse = 10.0**-power / factor if power < 0 else 0.0
    step = factor * 10.0**power
    first, last = (
        math.floor((limit * inverse if inverse else limit / step) + 0.5) for limit in (low, high)
    )

    def value(number: int) -> float:
        return number / inverse if inverse else number * step

    first += value(first) < low
    last -= value(last) > high
    if last < first and 0.5 <= count < 2:
        return _tick_values(low, high, 2 * count)
    return [value(number) for number in range(first, last + 1)], step


def _label(value: float, step: float, axis: Axis) -> str:
    largest = max(abs(axis.low), abs(axis.high))
    sign = "−" if value < 0 else ""
    places = -_exponent(step)
    kind = axis.format or axis.usual_format() or ",f"
    if kind == ",d":
        text = f"{abs(round(value)):,d}"
    elif kind == "~%":
        text = _trimmed(f"{abs(value) * 100:.{max(0, places - 2)}f}") + "%"
    elif kind == "~e":
        digits = max(0, _exponent(largest - step) - _exponent(step))
        mantissa, exponent = f"{abs(value):.{digits}e}".split("e")
        text = f"{_trimmed(mantissa)}e{'+' if int(exponent) >= 0 else '-'}{abs(int(exponent))}"
    elif kind == "~s":
        thousands = _exponent(largest) // 3  # such axes reach from 1e5 to below 1e26
        power = 3 * thousands
        text = _trimmed(f"{abs(value) / 10.0**power:.{max(0, power + places)}f}")
        text += "kMGTPEZY"[thousands - 1]
    else:
        text = f"{abs(value):,.{max(0, places)}f}"
    return (sign if text.strip("0.,%") else "") + text


def _exponent(value: float) -> int:
    return int(f"{abs(value):e}".partition("e")[2])


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
