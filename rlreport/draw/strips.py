"""Draw strips as SVG: small charts of one width on one axis of steps, with rules through them all.

On a page a strip is as wide as its column: places across are percentages, so that texts keep their
size. The picture for mail and Markdown has all strips below each other, with their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

from rlreport.check.course import Course
from rlreport.check.prepared import Kind
from rlreport.draw.chart import Axis, drawable, limits, powers
from rlreport.draw.curves import DrawnCurve
from rlreport.draw.direct import escaped, number, ticks
from rlreport.draw.rules import RunRule, label_sides
from rlreport.draw.run_charts import scale_of
from rlreport.draw.theme import FONT, LIGHT, PADDING, RIGHT, SMALL
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.language import Language
from rlreport.text.messages import message

HEIGHT = 62  # of a strip, in pixels
TOP = 18  # above its plot, for its name
BOTTOM = 4  # below its plot
PLOT = HEIGHT - TOP - BOTTOM
AXIS_HEIGHT = 20  # of the axis below the strips
BELOW_AXIS = 4
HEAD_HEIGHT = 16  # of the label of a rule above them
# Units across a plot: its path is stretched to the width of the page
UNITS = 1000
MOST_POINTS = 150  # of a line; of more values the means and the range are drawn
MOST_DOTS = 24  # as many values as these are drawn as dots, too


@dataclass(frozen=True, slots=True)
class Steps:
    """The axis of steps that all strips share, and the rules on it."""

    axis: Axis
    rules: tuple[RunRule, ...]

    def part(self, step: float) -> float:
        """Return where a step is on the axis, 0 to 1."""
        return (step - self.axis.low) / (self.axis.high - self.axis.low)

    def percent(self, step: float) -> str:
        return f"{100 * self.part(step):.4g}%"


def strip(course: Course, steps: Steps, *, percent: bool) -> str:
    """Return the marks of a strip; its name is left to the caller.

    ``percent``: whether values are shares, shown in percent.
    """
    values = drawable(course.values)
    axis = _value_axis(values, percent=percent)
    return (
        f"{_grid(axis)}{rule_marks(steps, HEIGHT)}"
        f'<svg y="{TOP}" width="100%" height="{PLOT}" viewBox="0 0 {UNITS} {PLOT}" '
        f'preserveAspectRatio="none" overflow="visible">{_lines(course, values, axis, steps)}</svg>'
        f"{_dots(course, values, axis, steps)}"
    )


def _value_axis(values: Floats, *, percent: bool) -> Axis:
    """Return the y axis: logarithmic if the values span decades."""
    low, high = limits([values], percent)
    scale = scale_of(values)
    if scale == "log":
        low = float(np.nanmin(values))
        high = float(np.nanmax(values))
    return Axis(low, high, "", percent, scale=scale)


def _heights(values: Floats, axis: Axis) -> Floats:
    """Return the place of values in the plot, in pixels from its top."""
    low = axis.low
    high = axis.high
    if axis.scale == "log":
        values = np.log(values)
        low = math.log(low)
        high = math.log(high)
    return PLOT * (1 - (values - low) / (high - low))


def _grid(axis: Axis) -> str:
    """Return a thin line and a label for two or three values of the y axis."""
    if axis.scale == "log":
        places = powers(axis.low, axis.high)
        every = max(1, len(places) - 1)  # the lowest and the highest
        found = [(value, f"{value:g}") for value in places[::every]]
    else:
        found = ticks(axis, 2)
    lines = []
    labels = []
    for value, text in found:
        height = TOP + float(_heights(np.array([value]), axis)[0])
        line = math.floor(height) + 0.5  # on a whole pixel, so that it is sharp
        lines.append(f'<line x2="100%" y1="{line}" y2="{line}"/>')
        labels.append(f'<text x="-6" y="{number(height + 3)}">{escape(text)}</text>')
    return (
        f'<g stroke="var(--line)">{"".join(lines)}</g>'
        f'<g fill="var(--muted)" text-anchor="end">{"".join(labels)}</g>'
    )


def rule_marks(steps: Steps, height: int) -> str:
    """Return the rules over the whole height of a strip, so that they meet those of the next."""
    marks = []
    for rule in steps.rules:
        ink = f"var(--{rule.colour})"
        if rule.within is not None:
            start = max(steps.part(rule.within[0]), 0.0)
            end = min(steps.part(rule.within[1]), 1.0)
            marks.append(
                f'<rect x="{100 * start:.4g}%" width="{100 * (end - start):.4g}%" '
                f'height="{height}" fill="{ink}" fill-opacity="0.1"/>'
            )
        dash = ' stroke-dasharray="4 3"' if rule.dashed else ""
        place = steps.percent(rule.step)
        marks.append(
            f'<line x1="{place}" x2="{place}" y2="{height}" stroke="{ink}"{dash}/>'
        )
    return "".join(marks)


def _lines(course: Course, values: Floats, axis: Axis, steps: Steps) -> str:
    """Return the line of the values; if they are noisy, their pieces before a thin line of them.

    Pieces are sharp where the values break. Of many values the means and the ranges are drawn.
    """
    x = _across(course.steps, steps)
    y = _heights(values, axis)
    ends = y
    if len(values) > MOST_POINTS:
        groups = np.arange(len(values)) * MOST_POINTS // len(values)
        table = pd.DataFrame({"x": x, "y": y}).groupby(groups)
        x, y = table.mean().to_numpy().T
        ends = table["y"].agg(["min", "max"]).to_numpy().ravel()
        behind = _path(np.repeat(x, 2), ends, is_thin=True)
    else:
        behind = _path(x, y, is_thin=True)
    if not _is_fitted(values):
        return (behind if len(values) > MOST_POINTS else "") + _path(x, y)
    if len(values) > MOST_POINTS:
        # A line through so many noisy values would fill the plot.
        behind = _points(np.repeat(x, 2), ends)
    return behind + _pieces(course, axis, steps)


def shows_pieces(course: Course) -> bool:
    """Return whether the thick line of a strip is that of the pieces, not of the values."""
    return _is_fitted(drawable(course.values))


def _is_fitted(values: Floats) -> bool:
    return scale_of(values) != "log" and DrawnCurve("", "", values).is_noisy


def _across(numbers: Ints | Floats, steps: Steps) -> Floats:
    """Return the places of steps, in UNITS."""
    low = steps.axis.low
    places = UNITS * (numbers - low) / (steps.axis.high - low)
    return places.astype(np.float64)


def _pieces(course: Course, axis: Axis, steps: Steps) -> str:
    """Return the line of the pieces of a curve, which connects them."""
    numbers: list[float] = []
    levels: list[float] = []
    for piece in course.curve.pieces:
        start, stop = np.searchsorted(
            course.steps, (piece.steps[0], piece.steps[1] + 1)
        ).tolist()
        # A piece of logarithms is no straight line: of each, up to 16 places are drawn.
        ends = [piece.start, piece.end]
        is_curved = course.curve.kind is Kind.SIZE and min(ends) > 0
        count = min(stop - start, 16) if is_curved else 2
        first, last = np.log(ends) if is_curved else ends
        line = np.linspace(first, last, count)
        levels += (np.exp(line) if is_curved else line).tolist()
        first_step, last_step = piece.steps
        numbers += np.linspace(first_step, last_step, count).tolist()
    x = _across(np.array(numbers), steps)
    return _path(x, _heights(np.array(levels), axis))


def _path(x: Floats, y: Floats, *, is_thin: bool = False) -> str:
    """Return a path through the points with a finite y; its width does not depend on the page's."""
    finite = np.isfinite(y)
    points = np.column_stack([x[finite], y[finite]])
    texts = [f"{across:.0f} {number(down)}" for across, down in points.tolist()]
    path = "L".join(texts)
    width = ' stroke-opacity="0.4"' if is_thin else ' stroke-width="1.75"'
    return (
        f'<path stroke="var(--policy)"{width} stroke-linejoin="round" '
        f'vector-effect="non-scaling-stroke" d="M{path}"/>'
    )


def _points(x: Floats, y: Floats) -> str:
    """Return a path of small dots: lines of no length, whose round ends stay round."""
    finite = np.isfinite(y)
    points = np.column_stack([x[finite], y[finite]]).tolist()
    path = "".join(f"M{across:.0f} {number(down)}h0" for across, down in points)
    return (
        '<path stroke="var(--policy)" stroke-width="1.75" stroke-opacity="0.4" '
        f'stroke-linecap="round" vector-effect="non-scaling-stroke" d="{path}"/>'
    )


def _dots(course: Course, values: Floats, axis: Axis, steps: Steps) -> str:
    """Return a dot at each of few values, such as evaluations."""
    if len(values) > MOST_DOTS:
        return ""
    heights = TOP + _heights(values, axis)
    dots = [
        f'<circle cx="{steps.percent(step)}" cy="{number(height)}" r="2"/>'
        for step, height in zip(course.steps.tolist(), heights.tolist(), strict=True)
        if math.isfinite(height)
    ]
    return f'<g fill="var(--policy)">{"".join(dots)}</g>'


def on_page(marks: str, description: str, language: Language) -> str:
    """Return a strip for a page, as wide as its column."""
    return (
        f'<svg width="100%" height="{HEIGHT}" role="img" fill="none" font-size="{SMALL}" '
        f'overflow="visible" aria-label="{escaped(description, language)}">{marks}</svg>'
    )


def axis_on_page(steps: Steps) -> str:
    """Return the axis below strips for a page; the numbers are no texts for screen readers."""
    return (
        f'<svg width="100%" height="{AXIS_HEIGHT}" aria-hidden="true" fill="none" '
        f'font-size="{SMALL}" overflow="visible">{_axis_marks(steps)}</svg>'
    )


def _axis_marks(steps: Steps) -> str:
    labels = "".join(
        f'<text x="{steps.percent(step)}" y="14">{text}</text>'
        for step, text in ticks(steps.axis, 6)
    )
    return (
        '<line x2="100%" y1="0.5" y2="0.5" stroke="var(--muted)"/>'
        f'<g fill="var(--muted)" text-anchor="middle">{labels}</g>'
    )


def head_on_page(steps: Steps, language: Language) -> str:
    """Return the labels of the rules above strips for a page, "" without any."""
    if not steps.rules:
        return ""
    return (
        f'<svg width="100%" height="{head_height(steps)}" aria-hidden="true" fill="none" '
        f'font-size="{SMALL}" overflow="visible">{_head_marks(steps, language)}</svg>'
    )


def _head_marks(steps: Steps, language: Language) -> str:
    """Return the labels of the rules, each on the side on which there is room for it.

    Two on one side are below each other.
    """
    marks = []
    sides = _sides(steps)
    height = head_height(steps)
    for index, (rule, side) in enumerate(zip(steps.rules, sides, strict=True)):
        anchor = "end" if side < 0 else "start"
        place = steps.percent(rule.step)
        words = escaped(rule.words, language)
        top = HEAD_HEIGHT * index if height > HEAD_HEIGHT else 0
        marks.append(
            f'<text x="{place}" dx="{4 * side}" y="{top + 11}" text-anchor="{anchor}" '
            f'fill="var(--{rule.colour})">{words}</text>'
            f'<line x1="{place}" x2="{place}" y1="{top + 2}" y2="{height}" '
            f'stroke="var(--{rule.colour})"/>'
        )
    return "".join(marks)


def head_height(steps: Steps) -> int:
    """Return the height of the labels of rules, in pixels; 0 without any."""
    sides = _sides(steps)
    return HEAD_HEIGHT * (len(sides) - len(set(sides)) + 1) if sides else 0


def _sides(steps: Steps) -> list[int]:
    places = [(steps.part(rule.step), rule.words) for rule in steps.rules]
    return label_sides(places)


def picture(
    strips: Sequence[tuple[str, str]],
    steps: Steps,
    width: int,
    language: Language,
) -> str:
    """Return all strips as one SVG in light colours, ``width`` pixels wide.

    ``strips``: the name and the marks of each.
    """
    plot_width = width - PADDING["left"] - RIGHT
    parts: list[str] = []
    top = head_height(steps)
    if top:
        parts.append(_head_marks(steps, language))
    for name, marks in strips:
        words = escaped(name, language)
        title = f'<text y="13" fill="var(--text)" font-weight="bold">{words}</text>'
        parts.append(_part_at(f'y="{top}"', plot_width, HEIGHT, marks + title))
        top += HEIGHT
    parts.append(_part_at(f'y="{top}"', plot_width, AXIS_HEIGHT, _axis_marks(steps)))
    height = top + AXIS_HEIGHT + BELOW_AXIS
    left = PADDING["left"]
    plot = _part_at(f'x="{left}"', plot_width, height, "".join(parts))
    font = language.font or FONT
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" fill="none" '
        f'font-family="{font}" font-size="{SMALL}">'
        f'<rect width="100%" height="100%" fill="var(--page)"/>{plot}</svg>'
    )
    # A picture has no style sheet, which has the values of these names on pages.
    for name, colour in LIGHT.items():
        svg = svg.replace(f"var(--{name})", colour)
    return svg


def _part_at(position: str, width: float, height: float, marks: str) -> str:
    """Return marks at a position, such as ``y="20"``, in the coordinates of that place."""
    return f'<svg {position} width="{width}" height="{height}" overflow="visible">{marks}</svg>'


def axis_of(low: float, high: float) -> Axis:
    """Return the axis of steps from ``low`` to ``high``, which differ."""
    return Axis(low, high, message("step"), format=",d")


WHOLE_HEIGHT = 24  # of the curve over all steps above a chart of some steps


def whole(course: Course, steps: Steps, focus: tuple[float, float]) -> str:
    """Return a curve over all steps, with the steps of ``focus`` marked."""
    values = drawable(course.values)
    axis = _value_axis(values, percent=False)
    left = steps.percent(focus[0])
    width = f"{100 * (steps.part(focus[1]) - steps.part(focus[0])):.4g}%"
    axis_ends = (steps.axis.low, steps.axis.high)
    texts = zip(("0%", "100%"), ("start", "end"), axis_ends, strict=True)
    below = WHOLE_HEIGHT + 12
    labels = "".join(
        f'<text x="{place}" y="{below}" text-anchor="{anchor}">{step:,.0f}</text>'
        for place, anchor, step in texts
    )
    return (
        f'<svg width="100%" height="{WHOLE_HEIGHT + 16}" aria-hidden="true" fill="none" '
        f'font-size="{SMALL}" overflow="visible"><rect x="{left}" width="{width}" '
        f'height="{WHOLE_HEIGHT}" fill="var(--policy)" fill-opacity="0.13" '
        f'stroke="var(--muted)"/><svg width="100%" height="{WHOLE_HEIGHT}" '
        f'viewBox="0 0 {UNITS} {PLOT}" preserveAspectRatio="none" overflow="visible">'
        f'{_lines(course, values, axis, steps)}</svg><g fill="var(--muted)">{labels}</g></svg>'
    )
