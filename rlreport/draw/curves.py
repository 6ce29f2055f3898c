"""Charts of curves over the steps; steps with a finding (a detected problem) are shaded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.draw.chart import (
    LONGEST_NAME,
    Axis,
    Chart,
    KeyEntry,
    Rows,
    Scale,
    drawable,
    fill,
    finite_or_none,
    label,
    layer_named,
    limits,
    plot_height,
    records,
    unique_names,
    varies,
)
from rlreport.draw.events import DrawnEvent, Rule, rules_of
from rlreport.draw.frame import Frame, Mark, mark_layers
from rlreport.draw.names import NamedLine, name_places
from rlreport.draw.rules import FIRST_LINE
from rlreport.draw.smoothing import (
    LEAST_SMOOTHED,
    LONG,
    MEDIAN,
    SMOOTHING,
    average_field,
    is_sparse,
    median_window,
    running_median,
    smoothed,
)
from rlreport.draw.theme import (
    DOTS,
    INTERACTION,
    LIGHT,
    LINE,
    PALETTE,
    VALUE_FORMAT,
    Spec,
)
from rlreport.figures.ragged import Floats
from rlreport.text.messages import clauses, message, plural, sentences
from rlreport.text.numbers import written

MOST_POINTS = 400  # maximum number of points per curve
AVERAGED_POINTS = 250  # maximum number of points with a range, which take more bytes


# Maximum number of curves whose ranges are shaded where steps are averaged
MOST_RANGES = 3
# Minimum noise of curves that are smoothed: half the mean squared difference of adjacent values,
# divided by the variance of the values; 1 for white noise
NOISE = 0.08
# Minimum share of their values that are turning points, higher or lower than both neighbours; of
# white noise 2/3 are
TURNING_POINTS = 1 / 3
# Opacity of logged values behind a smoothed line, a Vega expression
_SHOWN_BEHIND = "smoothing ? 0.4 : 0"
MARGIN = 0.06  # of a logarithmic axis, as a fraction of its decades, at either end

USUAL_TICKS = {"half": 6, "wide": 12}  # numbers of steps below a chart, by its size
# Names of curves stand in the plot if there are at most so many, none of them longer; otherwise
# above it, in a key
MOST_NAMES = 3
LONGEST_LABEL = 16
# Maximum number of values of a sparse curve that are drawn as points
MOST_DOTS = 60


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A curve over the steps with its style, and optionally a band around it."""

    key: str  # id of the curve in the chart's data, safe as a field name
    title: str  # label at the curve's end and name in tooltips
    values: Floats  # float64 (S,), one value per step, NaN where missing
    # style of the line, see ``theme.Style``
    colour: str = LIGHT["policy"]
    dash: tuple[int, ...] = (1, 0)
    width: float = LINE  # of the line, in pixels
    # float64 (S,), lower and upper edge of the band, None without a band
    low: Floats | None = None
    high: Floats | None = None
    # float64 (S,), range of the values that each value is the mean of, else None
    min: Floats | None = None
    max: Floats | None = None
    events: tuple[DrawnEvent, ...] = ()  # what happened to it, to be marked

    @property
    def has_line(self) -> bool:
        return bool(np.isfinite(self.values).any())

    @property
    def has_band(self) -> bool:
        return self.low is not None and bool(np.isfinite(self.low).any())

    @property
    def is_noisy(self) -> bool:
        """Whether to smooth the line: it has enough values, is not sparse, and fluctuates."""
        values = self.values[np.isfinite(self.values)]
        # Sparse values are evaluations of many responses; smoothed, they would lag by many steps.
        if len(values) < LEAST_SMOOTHED or not varies(values) or is_sparse(self.values):
            return False
        changes = np.diff(values)
        # At a turning point, one of two successive changes goes up and the other down.
        turning_points = np.count_nonzero(changes[1:] * changes[:-1] < 0)
        # 1 for white noise: the variance of a difference is twice that of the values.
        noise = np.mean(changes**2) / 2 / np.var(values)
        return bool(noise > NOISE and turning_points > TURNING_POINTS * len(changes))

    @property
    def is_long(self) -> bool:
        return bool(np.isfinite(self.values).sum() > LONG)

    def arrays(self) -> dict[str, Floats]:
        """Return field -> array, for ``values`` and those of the other fields that are set."""
        items = {field.name: getattr(self, field.name) for field in fields(self)}
        return {n: value for n, value in items.items() if isinstance(value, np.ndarray)}

    def map(self, change: Callable[[Floats], Floats]) -> DrawnCurve:
        """Return a copy with each array changed."""
        arrays = {name: change(array) for name, array in self.arrays().items()}
        return replace(self, **arrays)  # type: ignore[arg-type] # arrays only


class ThinnedCurves(NamedTuple):
    """Curves whose points are means of ``group_size`` steps each (1: as logged)."""

    steps: Floats
    curves: list[DrawnCurve]
    group_size: int

    @property
    def named_events(self) -> list[tuple[str, Sequence[DrawnEvent]]]:
        """The name and the events of each curve."""
        return [(curve.title, curve.events) for curve in self.curves]


def thinned(steps: Floats, curves: Sequence[DrawnCurve]) -> ThinnedCurves:
    """Average adjacent steps if there are over MOST_POINTS of them.

    Averaged curves also have ``min`` and ``max``, the range of the values in each mean. Nothing is
    averaged if all curves are sparse, with at most MOST_POINTS values each.
    """
    if len(steps) <= MOST_POINTS or all(_has_few_points(c.values) for c in curves):
        return ThinnedCurves(steps, list(curves), 1)
    group_size = math.ceil(len(steps) / AVERAGED_POINTS)
    groups = np.arange(len(steps)) // group_size

    def reduced(values: Floats, reduction: str = "mean") -> Floats:
        """Return one number per group of steps: by default the mean of its values."""
        grouped = pd.Series(values).groupby(groups)
        return grouped.agg(reduction).to_numpy(dtype=np.float64)

    # The axis still begins at the first step and ends at the last.
    between = reduced(steps)[1:-1]
    group_steps = np.concatenate([steps[:1], between, steps[-1:]])
    averaged = []
    for curve in curves:
        low = reduced(curve.values, "min")
        high = reduced(curve.values, "max")
        averaged.append(replace(curve.map(reduced), min=low, max=high))
    return ThinnedCurves(group_steps, averaged, group_size)


def _has_few_points(values: Floats) -> bool:
    return is_sparse(values) and np.isfinite(values).sum() <= MOST_POINTS


def in_words(curve: DrawnCurve, steps: Floats, percent: bool) -> str:
    """Return a sentence with a curve's first, last, lowest and highest value, or its only one.

    ``percent``: whether values are fractions of 1, written as percentages.
    """
    finite = np.flatnonzero(np.isfinite(curve.values))
    values = curve.values[finite]

    def at(index: int) -> str:
        """Return the finite value with this index and its step, such as "0.4 at step 12"."""
        value = written(values[index], "share" if percent else "number")
        return message(
            "{value} at step {step:count}",
            value=value,
            step=float(steps[finite[index]]),
        )

    if len(values) == 1:
        return message("{name}: {value}.", name=curve.title, value=at(0))
    return message(
        "{name}: {first}, {last}; lowest {lowest}, highest {highest}.",
        name=curve.title,
        first=at(0),
        last=at(-1),
        lowest=at(int(values.argmin())),
        highest=at(int(values.argmax())),
    )


def floats(table: pd.DataFrame, column: str) -> Floats:
    """Return a column as float64, NaN where missing; ``drawable`` replaces extreme values."""
    return drawable(table[column].to_numpy(dtype=np.float64, na_value=np.nan))


@dataclass(frozen=True, slots=True)
class ChartStyle:
    """How a chart of curves looks, apart from its curves."""

    axis: str = ""  # title of y with its unit, "" for "as logged"
    wide: bool = False  # see ``Chart.wide``
    percent: bool = False  # whether values are fractions of 1, shown as percentages
    # of y; ``log`` needs positive values, ``symlog`` takes effect only beyond ±2
    scale: Scale = "linear"
    # whether names are above the plot even if they would fit into it
    has_key: bool = False
    smooths: bool = True  # whether to smooth noisy curves; not if single values matter


def curve_chart(
    frame: Frame,
    name: str,
    title: str,
    curves: Sequence[DrawnCurve],
    style: ChartStyle,
    *,
    omitted: int = 0,
    note: str = "",
) -> Chart | None:
    """Return a chart of curves over the steps; None if no curve has a value or a band.

    Args:
        frame: the step axis and the findings to mark.
        name: the chart's name, by which findings refer to it.
        title: heading above the chart.
        curves: the curves, of which the first is drawn on top.
        style: how the chart looks.
        omitted: number of curves that the caller left out, for the description.
        note: last sentence of the description.
    """
    logged = [curve.map(drawable) for curve in curves]
    logged = [curve for curve in logged if curve.has_line or curve.has_band]
    if not logged:
        return None
    focused, shown = _focused(frame, name, logged)
    if focused is frame:  # the chart shows all steps
        return _curve_chart(
            frame, name, title, logged, style, omitted=omitted, note=note
        )
    note = sentences([note, _focus_note(focused)])
    chart = _curve_chart(focused, name, title, shown, style, omitted=omitted, note=note)
    # The static drawing shows the focus; the data has all steps, as readers may zoom to others.
    rows = _rows_of(_without_many_ranges(thinned(frame.steps, logged)))
    spec = {**chart.spec, "data": {"values": rows}}
    return replace(chart, spec=spec, focus=focused.extent)


def _curve_chart(
    frame: Frame,
    name: str,
    title: str,
    logged: list[DrawnCurve],
    style: ChartStyle,
    *,
    omitted: int,
    note: str,
) -> Chart:
    """Return the chart of curves with a line or a band, without magnitudes that are too large."""
    thin = _without_many_ranges(thinned(frame.steps, logged))
    size = "wide" if style.wide else "half"
    run_rules = frame.rules_on(name)
    y = _value_axis(thin, style)
    if frame.labels_rules:
        y = _with_room(y, run_rules.depth / plot_height(size))
    # The mean of a spike and its neighbours would look like a plateau on a logarithmic axis.
    noisy = []
    if style.smooths and y.scale != "log":
        noisy = [curve for curve in thin.curves if curve.is_noisy]
    smooth_fields = {curve.key: _smooth_field(curve) for curve in noisy}
    marks = frame.marks(name)
    # Later rows are drawn on top of earlier ones: the most severe mark and the first curve.
    by_severity = sorted(marks, key=lambda mark: -mark.severity.order)
    rows = _rows_of(thin)
    drawn_rows = _smoothed_rows(rows, smooth_fields)
    rules = rules_of(thin.named_events, frame.extent, run_rules)
    layers = _layers(rows, smooth_fields, by_severity, y)
    layers["point"] = _point_rows(rows, thin.curves)
    layers |= run_rules.layers()
    layers["event"] = _rule_rows(rules, marks, frame)
    layers["event_label"] = layers["event"]
    key = _key(thin.curves, always=style.has_key)
    if not key:
        depth = max(run_rules.depth, FIRST_LINE + 4 if rules else 0)
        labels = _labels(thin, y, plot_height(size), depth)
        if labels is None:
            key = _key(thin.curves, always=True)
        else:
            layers |= {"label": labels, "halo": labels}
    spec, vega = fill(
        f"curves_{y.scale}",
        {"rows": drawn_rows, **layers},
        (frame.axis(min(USUAL_TICKS[size], len(thin.steps))), y),
        curve_styles(thin.curves),
        size=size,
    )
    _make_interactive(spec, rows, thin.curves, smooth_fields, percent=style.percent)
    remarks = _remarks(
        thin.group_size,
        bool(noisy),
        by_severity,
        [*run_rules.descriptions, *(rule.words for rule in rules)],
        omitted,
    )
    return Chart(
        name=name,
        title=title,
        description=sentences([*_in_words(frame, logged, style), *remarks, note]),
        spec=spec,
        vega=vega,
        wide=style.wide,
        shaded=tuple((mark.severity, mark.words) for mark in marks),
        smoothing=_smoothing_in_words(noisy),
        key=key,
    )


def _in_words(
    frame: Frame, logged: Sequence[DrawnCurve], style: ChartStyle
) -> list[str]:
    """Return a sentence on each curve with a name: on its logged values, not on their means."""
    lines = [curve for curve in logged if curve.has_line and curve.title]
    return [in_words(curve, frame.steps, style.percent) for curve in lines]


def _key(curves: Sequence[DrawnCurve], *, always: bool) -> tuple[KeyEntry, ...]:
    """Return the names of curves that are too many or too long to be written into the plot."""
    named = [curve for curve in curves if curve.has_line and curve.title]
    fits = all(len(label(curve.title)) <= LONGEST_LABEL for curve in named)
    if not always and (len(named) < 2 or (len(named) <= MOST_NAMES and fits)):
        return ()
    return tuple(
        KeyEntry(label(curve.title, LONGEST_NAME), (curve.colour, curve.dash))
        for curve in named
    )


def _focused(
    frame: Frame, name: str, logged: list[DrawnCurve]
) -> tuple[Frame, list[DrawnCurve]]:
    """Return the frame and the curves within the focus, if it is that of this chart."""
    focused = frame.within_focus(name)
    if focused is frame:
        return frame, logged
    inside = np.isin(frame.steps, focused.steps)
    curves = [curve.map(lambda values: values[inside]) for curve in logged]
    curves = [curve for curve in curves if curve.has_line or curve.has_band]
    if not curves or not curves[0].has_line:
        return frame, logged
    return focused, curves


def _focus_note(frame: Frame) -> str:
    low, high = frame.extent
    return message("Steps {low:count}–{high:count} are shown.", low=low, high=high)


def _rows_of(thin: ThinnedCurves) -> list[dict[str, Any]]:
    """Return the rows of all curves; later ones are drawn on top, so the first curve is last."""
    rows: list[dict[str, Any]] = []
    for curve in reversed(thin.curves):
        rows += _rows(thin.steps, curve)
    return rows


def _without_many_ranges(thin: ThinnedCurves) -> ThinnedCurves:
    """Drop the ranges of averaged values if there are over MOST_RANGES curves."""
    if thin.group_size == 1 or len(thin.curves) <= MOST_RANGES:
        return thin
    curves = [replace(curve, min=None, max=None) for curve in thin.curves]
    return thin._replace(curves=curves)


def _smooth_field(curve: DrawnCurve) -> str:
    """Return the field of rows with the smooth line of a noisy curve."""
    return MEDIAN if curve.is_long else average_field(SMOOTHING[0])


def _smoothing_in_words(noisy: Sequence[DrawnCurve]) -> str:
    """Return how noisy curves are smoothed, "" if there are none."""
    windows = [median_window(curve.values) for curve in noisy if curve.is_long]
    if windows:
        return message("running median of {count} values", count=max(windows))
    if noisy:
        return message("moving average, factor {factor}", factor=SMOOTHING[0])
    return ""


def _smoothed_rows(rows: Rows, noisy: Mapping[str, str]) -> Rows:
    """Return the rows of the static drawing, with the smooth lines of noisy curves.

    ``noisy``: key of a noisy curve -> field of its smooth line.
    """
    drawn_rows: list[Mapping[str, Any]] = []
    for row in rows:
        field = noisy.get(row["series"])
        if field is not None:
            drawn_rows.append({**row, "value": row[field]})
        else:
            drawn_rows.append(row)
    return drawn_rows


def _layers(
    rows: Rows, noisy: Mapping[str, str], marks: Sequence[Mark], y: Axis
) -> dict[str, Rows]:
    """Return the rows of those layers of the design ``curves`` that have data of their own.

    These are layer -> rows: the logged values of noisy curves (key -> field), as a line or as
    dots, the marked steps, and a line at 0 if the axis passes it.
    """
    return {
        "raw": [row for row in rows if noisy.get(row["series"], MEDIAN) != MEDIAN],
        "raw_dots": [
            row
            for row in rows
            if noisy.get(row["series"]) == MEDIAN and row["value"] is not None
        ],
        **mark_layers(marks),
        "zero": [{"zero": 0}] if y.low < 0 < y.high else [],
    }


def _rule_rows(rules: Sequence[Rule], marks: Sequence[Mark], frame: Frame) -> Rows:
    """Return the rows of rules at their steps or, where shaded steps begin, at that edge."""
    shaded = set[float]()
    for mark in marks:
        shaded.update(start for start, _ in mark.spans)
    # A step lies between the edge of its own index and the next one.
    indices = np.searchsorted(frame.steps, [rule.step for rule in rules])
    edges = frame.edges[indices].tolist()
    return [
        rule.row(edge if edge in shaded else rule.step)
        for rule, edge in zip(rules, edges, strict=True)
    ]


def _remarks(
    group_size: int,
    is_smoothed: bool,
    marks: Sequence[Mark],
    events: Sequence[str],
    omitted: int,
) -> list[str]:
    """Return sentences on how the chart differs from the logged values, and on what it marks.

    Args:
        group_size: number of steps that each point is the mean of.
        is_smoothed: whether noisy curves are smoothed.
        marks: the marked steps.
        events: labels of the rules.
        omitted: number of curves that are left out.
    """
    remarks: list[str] = []
    if group_size > 1:
        remarks.append(
            message("Each point is the mean of up to {every} steps.", every=group_size)
        )
    if is_smoothed:
        remarks.append(
            message(
                "Noisy curves are smoothed; thin lines or dots show the logged values."
            )
        )
    if marks:
        titles = dict.fromkeys(mark.title for mark in marks)
        listed = clauses(message("{mark:clause}", mark=title) for title in titles)
        remarks.append(message("Marked: {marks}.", marks=listed))
    if events:
        remarks.append(message("Events: {events}.", events=clauses(events)))
    if omitted:
        remarks.append(
            plural(
                "{count} curve is left out.", "{count} curves are left out.", omitted
            )
        )
    return remarks


def curve_styles(series: Sequence[DrawnCurve]) -> dict[str, Any]:
    """Return the values of a design's placeholders for the curves' keys and styles."""
    return {
        "$series.key": [curve.key for curve in series],
        "$series.color": [curve.colour for curve in series],
        "$series.dash": [list(curve.dash) for curve in series],
        "$series.width": [curve.width for curve in series],
    }


def curves_of(columns: Iterable[tuple[Any, Any]], prefix: str = "") -> list[DrawnCurve]:
    """Return a curve per (title, values) of ``columns``, but no more than PALETTE has styles.

    ``prefix`` starts the key of each curve.
    """
    titles = []
    arrays = []
    for title, values in columns:
        titles.append(str(title))
        arrays.append(np.asarray(values, np.float64))
    keys = unique_names(titles)
    curves = []
    # Not strict: further curves would have no style of their own.
    for key, title, values, (colour, dash) in zip(
        keys, titles, arrays, PALETTE, strict=False
    ):
        curves.append(DrawnCurve(prefix + key, title, values, colour=colour, dash=dash))
    return curves


def _value_axis(thin: ThinnedCurves, style: ChartStyle) -> Axis:
    """Return the y axis: its limits, its scale, and its title, which names the scale."""
    title = _axis_title(thin, style.axis)
    arrays: list[Floats] = []
    for curve in thin.curves:
        arrays += curve.arrays().values()
    low, high = limits(arrays, style.percent)
    scale = style.scale
    if scale == "log":
        # The margin is a factor: that of ``limits`` may reach 0, which has no logarithm.
        values = np.concatenate(arrays)
        least = float(np.nanmin(values))
        most = float(np.nanmax(values))
        factor = (most / least) ** MARGIN
        low = least / factor
        high = most * factor
        title = message("{axis}, logarithmic", axis=title)
    elif scale == "symlog":
        # Between −1 and 1 the scale is linear, and up to 2 nearly so.
        if low < -2 or high > 2:
            title = message("{axis}, logarithmic beyond ±1", axis=title)
        else:
            scale = "linear"
    return Axis(low, high, title, style.percent, scale=scale)


def _with_room(y: Axis, part: float) -> Axis:
    """Return a linear axis that leaves this part of its height free at the top."""
    if y.scale != "linear":
        return y
    room = (y.high - y.low) * part / (1 - part)
    return replace(y, high=y.high + room)


def _axis_title(thin: ThinnedCurves, title: str) -> str:
    """Return the axis title, with how steps are averaged if they are.

    Without a ``title``, as curves have no common unit, it says that values are as logged.
    """
    every = thin.group_size
    if every == 1:
        return title or message("as logged")
    if len(thin.curves) > MOST_RANGES:  # then ranges are not drawn
        averaged = message("mean of {every} steps", every=every)
    else:
        averaged = message("mean and range of {every} steps", every=every)
    return clauses([title, averaged])


def _rows(steps: Floats, curve: DrawnCurve) -> list[dict[str, Any]]:
    """Return a curve as rows of the chart's data, with moving averages if it is long enough."""
    columns: dict[str, Any] = {
        # Whole steps as integers; the mean of several steps may be none.
        "step": [step if step % 1 else int(step) for step in steps.tolist()],
        "series": [curve.key] * len(steps),
    }
    for name, array in curve.arrays().items():
        columns["value" if name == "values" else name] = array
    if np.isfinite(curve.values).sum() >= LEAST_SMOOTHED:
        for factor in SMOOTHING:
            averages = smoothed(curve.values, factor).tolist()
            # Four digits suffice for a line, and keep the page small.
            rounded = [finite_or_none(value, 4) for value in averages]
            columns[average_field(factor)] = rounded
    if curve.is_long and curve.is_noisy:
        medians = running_median(curve.values).tolist()
        columns[MEDIAN] = [finite_or_none(value, 4) for value in medians]
    rows = records(columns)
    if is_sparse(curve.values):
        # Without rows for its gaps, the line bridges them.
        return [row for row in rows if row["value"] is not None]
    return rows


def _point_rows(rows: Rows, curves: Sequence[DrawnCurve]) -> Rows:
    """Return rows to draw as points: values without an adjacent one, or all if up to four rows.

    Of sparse curves, such as evaluations, all values are, as they tell where one was logged.
    """
    sparse = {
        curve.key
        for curve in curves
        if is_sparse(curve.values) and np.isfinite(curve.values).sum() <= MOST_DOTS
    }
    # Curve of each row that has a value; None before the first row and after the last
    present = [row["series"] if row["value"] is not None else None for row in rows]
    padded = [None, *present, None]
    points = []
    for i, row in enumerate(rows):
        # The rows of a curve follow each other, step by step.
        before, here, after = padded[i : i + 3]
        is_alone = here not in (before, after)
        is_point = is_alone or len(rows) <= 4 or here in sparse
        if here is not None and is_point:
            points.append(row)
    return points


def _labels(
    thin: ThinnedCurves, y: Axis, height: int, depth: int
) -> list[dict[str, Any]] | None:
    """Return a row per line with its name, [] for a single one, whose name is the title.

    None if the names would cover lines.

    Args:
        thin: the curves.
        y: the axis.
        height: of the plot, in pixels.
        depth: pixels at its top that other labels take.
    """
    curves = [curve for curve in thin.curves if curve.has_line]
    if len(curves) < 2:
        return []
    scale = _Height(y, height)
    first, last = thin.steps[[0, -1]].tolist()
    lines = []
    for curve in curves:
        finite = np.isfinite(curve.values)
        x = (thin.steps[finite] - first) / max(last - first, 1)
        name = label(curve.title, LONGEST_LABEL)
        lines.append(NamedLine(name, x, scale.of(curve.values[finite])))
    places = name_places(lines, height - depth)
    if places is None:
        return None
    return [
        {
            "step": last,
            "series": curve.key,
            "y": finite_or_none(scale.value(place)),
            "label": line.name,
        }
        for curve, line, place in zip(curves, lines, places, strict=True)
    ]


class _Height:
    """Places of values on an axis, in pixels from its lower end."""

    def __init__(self, y: Axis, height: int) -> None:
        self.scale = y.scale
        self.ends = self._linear(np.array([y.low, y.high]))
        self.height = height

    def _linear(self, values: Floats) -> Floats:
        linear: Floats = values
        if self.scale == "log":
            linear = np.log(values)
        elif self.scale == "symlog":
            linear = np.sign(values) * np.log1p(np.abs(values))
        return linear

    def of(self, values: Floats) -> Floats:
        low, high = self.ends.tolist()
        places: Floats = self.height * (self._linear(values) - low) / (high - low)
        return places

    def value(self, place: float) -> float:
        low, high = self.ends.tolist()
        found: float = low + place / self.height * (high - low)
        if self.scale == "log":
            return math.exp(found)
        if self.scale == "symlog":
            return math.copysign(math.expm1(abs(found)), found)
        return found


def _make_interactive(
    spec: Spec,
    rows: Rows,
    curves: Sequence[DrawnCurve],
    noisy: Mapping[str, str],
    *,
    percent: bool,
) -> None:
    """Give a specification the logged rows, a tooltip and a choice of smoothing, in place.

    Layers that the interactive chart does not need are removed. ``noisy``: key of each curve that
    is smoothed at first -> field of its smooth line.
    """
    # The logged values behind smoothed lines: ``_offer_smoothing`` adds a layer that reacts.
    unused = {"raw", "raw_dots"}
    if not any(curve.has_band for curve in curves):
        unused.add("band")
    if all(curve.min is None for curve in curves):
        unused.add("range")
    spec["data"] = {"values": rows}
    spec["layer"] = [layer for layer in spec["layer"] if layer["name"] not in unused]
    _add_tooltip(spec, curves, percent)
    if any(average_field(SMOOTHING[0]) in row for row in rows):
        _offer_smoothing(spec, rows, noisy)


def _add_tooltip(spec: Spec, curves: Sequence[DrawnCurve], percent: bool) -> None:
    """Show the values of all curves at a step, then their bands and ranges, on hover.

    Fields such as ``policy_value`` are computed by the layer, see ``designs.curves``.
    """
    form = ".1%" if percent else VALUE_FORMAT
    tips = [_tip("step", ",~f", message("step"))]
    for curve in curves:
        if curve.has_line:
            tips.append(_tip(f"{curve.key}_value", form, label(curve.title)))
    for curve in curves:
        name = label(curve.title)
        if curve.has_band:
            lower = message("{name}, lower band", name=name)
            upper = message("{name}, upper band", name=name)
            tips.append(_tip(f"{curve.key}_low", form, lower))
            tips.append(_tip(f"{curve.key}_high", form, upper))
        if curve.has_line and curve.min is not None:
            lowest = message("{name}, lowest", name=name)
            highest = message("{name}, highest", name=name)
            tips.append(_tip(f"{curve.key}_min", form, lowest))
            tips.append(_tip(f"{curve.key}_max", form, highest))
    layer_named(spec, INTERACTION)["encoding"]["tooltip"] = tips


def _tip(field: str, form: str, title: str) -> dict[str, str]:
    return {"field": field, "type": "quantitative", "format": form, "title": title}


def _offer_smoothing(spec: Spec, rows: Rows, noisy: Mapping[str, str]) -> None:
    """Let the reader choose the smoothing; a thin line of the logged values goes behind, or dots.

    ``noisy``: key of each curve that the first choice, "of noisy curves", smooths -> its field.
    """
    line = layer_named(spec, "line")
    behind = deepcopy(line) | {"name": f"{INTERACTION}_raw"}
    del behind["encoding"]["size"]  # the width of each curve; this line is always thin
    counts = Counter(row["series"] for row in rows if row["value"] is not None)
    if max(counts.values()) > LONG:
        behind["mark"] = {**DOTS, "type": "circle", "opacity": {"expr": _SHOWN_BEHIND}}
        del behind["encoding"]["strokeDash"]
    else:
        behind["mark"] |= {"strokeOpacity": {"expr": _SHOWN_BEHIND}, "strokeWidth": 1}
    spec["layer"].insert(spec["layer"].index(line), behind)
    # A chain of Vega conditionals: "condition ? field : …", the logged value last
    expression = ""
    for field in dict.fromkeys(noisy.values()):
        keys = [key for key, own in noisy.items() if own == field]
        condition = f"smoothing == 'auto' && indexof({keys}, datum.series) >= 0"
        expression += f"{condition} ? datum.{field} : "
    for factor in SMOOTHING:
        expression += f"smoothing == {factor} ? datum.{average_field(factor)} : "
    expression += "datum.value"
    line["transform"] = [{"calculate": expression, "as": "value"}]
    bind = {
        "input": "select",
        "options": ["auto", 0, *SMOOTHING],
        "labels": [message("of noisy curves"), message("none"), *map(str, SMOOTHING)],
        "name": message("smoothing "),
    }
    spec["params"].append({"name": "smoothing", "value": "auto", "bind": bind})
