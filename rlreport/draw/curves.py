"""Charts of curves over the steps; steps with a finding (a detected problem) are shaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.finding import Severity, ToldFinding
from rlreport.draw.chart import (
    Axis,
    Chart,
    Rows,
    Scale,
    drawable,
    evenly,
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
from rlreport.draw.theme import INTERACTION, LIGHT, LINE, PALETTE, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats, Ints, spans
from rlreport.text.messages import clauses, message, plural, sentences
from rlreport.text.numbers import written

MOST_POINTS = 400  # maximum number of points per curve
AVERAGED_POINTS = 250  # maximum number of points with a range, which take more bytes
SPARKLINE_POINTS = 50
_WIDTH = 100.0
_HEIGHT = 24.0
_MARGIN = 2.0

# Decay factors of the moving averages offered to readers; noisy curves use the first one
SMOOTHING = (0.6, 0.9)
MOST_RANGES = (
    3  # Maximum number of curves whose ranges are shaded where steps are averaged
)
LEAST_SMOOTHED = 10  # Minimum number of values of a curve that can be smoothed
# Minimum noise of curves that are smoothed: half the mean squared difference of adjacent values,
# divided by the variance of the values; 1 for white noise
NOISE = 0.08


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

    @property
    def has_line(self) -> bool:
        return bool(np.isfinite(self.values).any())

    @property
    def has_band(self) -> bool:
        return self.low is not None and bool(np.isfinite(self.low).any())

    @property
    def noisy(self) -> bool:
        """Whether to smooth the line: it fluctuates (NOISE), is not sparse, has enough values."""
        values = self.values[np.isfinite(self.values)]
        # Sparse values are evaluations of many responses; smoothed, they would lag by many steps.
        if len(values) < LEAST_SMOOTHED or not varies(values) or is_sparse(self.values):
            return False
        steps = np.diff(values)
        turns = np.count_nonzero(steps[1:] * steps[:-1] < 0)
        noise = np.mean(steps**2) / 2 / np.var(values)
        return bool(noise > NOISE and turns > len(steps) / 3)

    def arrays(self) -> dict[str, Floats]:
        items = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: array for name, array in items if isinstance(array, np.ndarray)}

    def map(self, change: Callable[[Floats], Floats]) -> DrawnCurve:
        arrays = {name: change(array) for name, array in self.arrays().items()}
        return replace(self, **arrays)  # type: ignore[arg-type] # arrays only


def smoothed(values: Floats, factor: float) -> Floats:
    """Return the exponential moving average of values; weights decay by ``factor`` per value.

    As in TensorBoard, weights are normalized so that the average does not start near 0 (Kingma
    and Ba (2015), section 3). Missing values are skipped and stay missing.
    """
    finite = pd.Series(values).dropna()
    averages = finite.ewm(alpha=1 - factor).mean()
    return averages.reindex(range(len(values))).to_numpy(dtype=np.float64)


def is_sparse(values: Floats) -> bool:
    """Return whether most finite values have a gap before the next one; lines then bridge gaps."""
    finite = np.isfinite(values)
    return bool(2 * (finite[1:] & finite[:-1]).sum() < finite.sum() - 1)


def thinned(
    steps: Floats, series: Sequence[DrawnCurve]
) -> tuple[Floats, list[DrawnCurve], int]:
    """Return (steps, curves, steps per point), averaged if there are over MOST_POINTS steps.

    Averaged curves also have ``min`` and ``max``, the range of the values in each mean. Nothing is
    averaged if all curves are sparse, with at most MOST_POINTS values each.
    """
    if len(steps) <= MOST_POINTS or all(
        is_sparse(c.values) and np.isfinite(c.values).sum() <= MOST_POINTS
        for c in series
    ):
        return steps, list(series), 1
    group_size = -(-len(steps) // AVERAGED_POINTS)
    groups = np.arange(len(steps)) // group_size

    def reduced(values: Floats, reduction: str = "mean") -> Floats:
        return (
            pd.Series(values).groupby(groups).agg(reduction).to_numpy(dtype=np.float64)
        )

    group_steps = np.concatenate([steps[:1], reduced(steps)[1:-1], steps[-1:]])
    curves = [
        replace(
            c.map(reduced), min=reduced(c.values, "min"), max=reduced(c.values, "max")
        )
        for c in series
    ]
    return group_steps, curves, group_size


def in_words(curve: DrawnCurve, steps: Floats, percent: bool) -> str:
    """Return a sentence with a curve's first, last, lowest and highest value, or its only one."""
    finite = np.flatnonzero(np.isfinite(curve.values))
    values = curve.values[finite]

    def at(index: int) -> str:
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


def sparkline(values: Floats, steps: Ints | None = None) -> str:
    """Return a line as SVG path data in a box of 100 × 24, "" for fewer than two points."""
    values = drawable(values)
    if len(values) < 2:
        return ""
    at = np.arange(len(values)) if steps is None else steps.astype(np.float64)
    across = _WIDTH * (at - at[0]) / (at[-1] - at[0])
    if len(values) > SPARKLINE_POINTS:  # means of neighbours
        groups = np.arange(len(values)) * SPARKLINE_POINTS // len(values)
        means = pd.DataFrame({"x": across, "y": values}).groupby(groups).mean()
        across = means.x.to_numpy()
        values = means.y.to_numpy()
    if is_sparse(values):
        across, values = across[np.isfinite(values)], values[np.isfinite(values)]
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return ""
    low = float(values[finite].min())
    high = float(values[finite].max())
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    down = _MARGIN + (1.0 - share) * (_HEIGHT - 2 * _MARGIN)
    starts = ~np.append(False, finite[:-1])
    return "".join(
        f"{'M' if start else 'L'}{x:.4g} {y:.3g}"
        for x, y, start in zip(
            across[finite], down[finite], starts[finite], strict=True
        )
    )


LABEL_GAP = 13  # Minimum vertical distance of two curve labels, in pixels
MANY_STEPS = (
    6  # A step axis that spans fewer steps than this has ticks at whole steps only
)


@dataclass(frozen=True, slots=True)
class Frame:
    """Step axis and findings that all charts over steps of one page share."""

    steps: Floats  # float64 (S,), ascending
    # findings to mark on the charts that they refer to
    findings: Sequence[ToldFinding] = ()
    # first and last step of the axis, None for those of ``steps``
    within: tuple[float, float] | None = None

    @property
    def extent(self) -> tuple[float, float]:
        """Limits of the axis: ``within``, or first and last step, ± 0.5 if at most 0.5 apart."""
        if self.within is not None:
            return self.within
        first = float(self.steps[0])
        last = float(self.steps[-1])
        half = max(0.5, abs(first) * 1e-9)  # far beyond 2**53, half a step would vanish
        return (first, last) if last - first > half else (first - half, last + half)

    @property
    def edges(self) -> Floats:
        """Boundaries halfway between steps, and the axis limits at the ends; float64 (S + 1,)."""
        middles = (self.steps[1:] + self.steps[:-1]) / 2
        return np.concatenate([[self.extent[0]], middles, [self.extent[1]]])

    def axis(self, count: int | None = None) -> Axis:
        """Return the x axis with about ``count`` ticks, or one per step if it spans few steps."""
        low, high = self.extent
        if high - low < MANY_STEPS:
            count = max(1, int(high - low))
        return Axis(low, high, message("step"), format=",d", count=count)

    def marks(self, chart: str) -> list[Mark]:
        """Return a mark for each finding that refers to the chart and to a step on this axis."""
        marks = []
        for finding in self.findings:
            if chart not in finding.charts:
                continue
            text = finding.name or finding.title
            mask = np.isin(self.steps, finding.steps)
            if finding.onset is not None:
                last = np.inf if finding.until is None else finding.until
                mask = (self.steps >= finding.onset.step) & (self.steps <= last)
            # [start, end] of each block of marked steps, extended halfway to its neighbours
            blocks: list[list[float]] = self.edges[spans(mask)].tolist()
            marks.append(Mark(finding.severity, finding.title, text, blocks))
        return [mark for mark in marks if mark.spans]


class Mark(NamedTuple):
    """Steps to shade on a chart: those of a finding (detected problem)."""

    severity: Severity  # sets the colour
    title: str  # text of the tooltip
    words: str  # text of the legend
    spans: list[list[float]]  # [start, end] of each shaded range of steps


def floats(table: pd.DataFrame, column: str) -> Floats:
    """Return a column as float64, NaN where missing; ``drawable`` replaces extreme values."""
    return drawable(table[column].to_numpy(dtype=np.float64, na_value=np.nan))


def curve_chart(  # noqa: PLR0913, PLR0914
    frame: Frame,
    name: str,
    title: str,
    series: Sequence[DrawnCurve],
    *,
    axis: str = "",
    wide: bool = False,
    percent: bool = False,
    note: str = "",
    omitted: int = 0,
    labels: int = 92,
    scale: Scale = "linear",
) -> Chart | None:
    """Return a chart of curves over the steps; None if no curve has a value or a band.

    The first of ``series`` is on top. ``axis`` is the title of y with its unit ("": "as logged");
    it also says if steps are averaged. ``percent``: values are fractions of 1. ``omitted``: number
    of curves not in ``series``. ``labels``: pixels for the curves' names, 0 for none. ``log`` needs
    positive values; ``symlog`` takes effect beyond ±2. ``note`` ends the description.
    """
    curves = [curve.map(drawable) for curve in series]
    curves = [curve for curve in curves if curve.has_line or curve.has_band]
    if not curves:
        return None
    parts = [
        in_words(curve, frame.steps, percent) for curve in curves if curve.has_line
    ]
    steps, curves, group_size = thinned(frame.steps, curves)
    axis_titles = [axis, message("mean and range of {every} steps", every=group_size)]
    if group_size == 1:
        axis_titles = [axis or message("as logged")]
    elif len(curves) > MOST_RANGES:
        axis_titles = [axis, message("mean of {every} steps", every=group_size)]
        curves = [replace(curve, min=None, max=None) for curve in curves]
    y = _value_axis(curves, clauses(axis_titles), percent, scale)
    rows = [row for curve in reversed(curves) for row in _rows(steps, curve)]
    # The mean of a spike and its neighbours would look like a plateau on a logarithmic axis.
    noisy = [curve.key for curve in curves if curve.noisy and scale != "log"]
    drawn_rows = [
        row | {"value": row["ema_6"]} if row["series"] in noisy else row for row in rows
    ]
    marks = frame.marks(name)
    marked = [  # the most severe on top
        {"from": low, "to": high, "severity": mark.severity, "finding": mark.title}
        for mark in sorted(marks, key=lambda mark: -mark.severity.order)
        for low, high in mark.spans
    ]
    layers = {
        "raw": [row for row in rows if row["series"] in noisy],
        "marked": marked,
        "marked_bar": marked,
        "zero": [{"zero": 0}] if y.low < 0 < y.high else [],
        "point": _point_rows(rows),
    }
    size = "wide" if wide else "half"
    if labels:
        named = [
            replace(c, title=label(c.title, max(22, labels // 6 - 6))) for c in curves
        ]
        layers["label"] = _labels(steps[-1], named, drawn_rows, y, plot_height(size))
    spec, vega = fill(
        f"curves_{y.scale}",
        {"rows": drawn_rows, **layers},
        (frame.axis(min(12 if wide else 6, len(steps))), y),
        curve_styles(curves),
        size=size,
        right=labels or 16,
    )
    _make_interactive(spec, rows, curves, noisy, percent=percent)
    if group_size > 1:
        parts.append(
            message("Each point is the mean of up to {every} steps.", every=group_size)
        )
    if noisy:
        parts.append(
            message("Noisy curves are smoothed; thin lines show the logged values.")
        )
    if marks:
        titles = dict.fromkeys(row["finding"] for row in marked)
        listed = clauses(message("{mark:clause}", mark=title) for title in titles)
        parts.append(message("Marked: {marks}.", marks=listed))
    if omitted:
        parts.append(
            plural(
                "{count} curve is left out.", "{count} curves are left out.", omitted
            )
        )
    text = sentences([*parts, note])
    shaded = tuple((mark.severity, mark.words) for mark in marks)
    return Chart(
        name, title, text, spec, vega, wide=wide, shaded=shaded, smoothed=bool(noisy)
    )


def curve_styles(series: Sequence[DrawnCurve]) -> dict[str, Any]:
    return {
        "$series.key": [curve.key for curve in series],
        "$series.color": [curve.colour for curve in series],
        "$series.dash": [list(curve.dash) for curve in series],
        "$series.width": [curve.width for curve in series],
    }


def curves_of(columns: Iterable[tuple[Any, Any]], prefix: str = "") -> list[DrawnCurve]:
    """Return a curve per (title, values), at most one per style; ``prefix`` starts its key."""
    named = [(str(title), np.asarray(values, np.float64)) for title, values in columns]
    keys = unique_names([title for title, _ in named])
    return [
        DrawnCurve(prefix + key, *curve, *style)
        for key, curve, style in zip(keys, named, PALETTE, strict=False)
    ]


def path_chart(
    name: str,
    title: str,
    description: str,
    axis: str,
    paths: Sequence[tuple[DrawnCurve, Floats, Floats, Mapping[int, str]]],
) -> Chart:
    """Return a chart of reward over ``axis``; a path: (curve, steps, x, {0 or -1: label})."""
    rows = []
    ends = []
    for curve, steps, x, labels in paths:
        selection = evenly(len(x), MOST_POINTS)
        columns = {"x": x[selection], "y": curve.values[selection]}
        points = [
            {"step": int(step), "series": curve.key} | row
            for step, row in zip(steps[selection], records(columns), strict=True)
        ]
        rows += points
        ends += [points[i] | {"label": text} for i, text in labels.items()]
    axes = (
        Axis(*limits([x for _, _, x, _ in paths]), axis),
        Axis(*limits([curve.values for curve, *_ in paths]), message("mean reward")),
    )
    styles = curve_styles([curve for curve, *_ in paths])
    forms = fill(
        "paths", {"rows": rows, "label": ends, "halo": ends}, axes, styles, right=72
    )
    return Chart(name, title, description, *forms)


def _value_axis(
    series: Sequence[DrawnCurve], title: str, percent: bool, scale: Scale
) -> Axis:
    values = np.concatenate(
        [array for curve in series for array in curve.arrays().values()]
    )
    low = float(np.nanmin(values))
    high = float(np.nanmax(values))
    extent = limits([values], percent)
    if scale == "log":
        factor = (high / low) ** 0.06
        extent = (low / factor, high * factor)
        title = message("{axis}, logarithmic", axis=title)
    elif scale == "symlog":
        if extent[0] < -2 or extent[1] > 2:
            title = message("{axis}, logarithmic beyond ±1", axis=title)
        else:
            scale = "linear"
    return Axis(*extent, title, percent, scale=scale)


def _rows(steps: Floats, curve: DrawnCurve) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "step": [step if step % 1 else int(step) for step in steps.tolist()],
        "series": [curve.key] * len(steps),
        "value": curve.values,
    }
    columns |= {name: edge for name, edge in curve.arrays().items() if name != "values"}
    if np.isfinite(curve.values).sum() >= LEAST_SMOOTHED:
        for factor in SMOOTHING:
            averages = smoothed(curve.values, factor).tolist()
            columns[f"ema_{factor * 10:.0f}"] = [
                finite_or_none(value, 4) for value in averages
            ]
    rows = records(columns)
    return (
        [row for row in rows if row["value"] is not None]
        if is_sparse(curve.values)
        else rows
    )


def _point_rows(rows: list[dict[str, Any]]) -> Rows:
    """Return rows to draw as points: values without an adjacent one, or all if up to four rows."""
    present = [row["series"] if row["value"] is not None else None for row in rows]
    around = zip([None, *present], present, [*present[1:], None], strict=False)
    return [
        row
        for row, (before, here, after) in zip(rows, around, strict=True)
        if here is not None and (len(rows) <= 4 or here not in (before, after))
    ]


def _labels(
    step: float, series: Sequence[DrawnCurve], rows: Rows, y: Axis, height: int
) -> Rows:
    """Return a row per line with its name, at its last value but moved apart if names overlap."""
    scale = (y.high - y.low) / height
    ends = {row["series"]: row["value"] for row in rows if row["value"] is not None}
    named = sorted((c for c in series if c.has_line), key=lambda curve: ends[curve.key])
    positions = spread_out(
        np.array([(ends[c.key] - y.low) / scale for c in named]), height
    )
    return [
        {
            "step": float(step),
            "series": c.key,
            "y": finite_or_none(y.low + position * scale),
            "label": c.title,
        }
        for position, c in zip(positions.tolist(), named, strict=True)
    ]


def spread_out(positions: Floats, height: float) -> Floats:
    """Return ascending pixel positions moved LABEL_GAP apart, the last at most at ``height``."""
    gaps = LABEL_GAP * np.arange(len(positions))
    lowest: Floats = np.maximum.accumulate(positions - gaps)
    lowest = np.minimum(lowest, height - gaps[-1:])
    return lowest + gaps


def _make_interactive(
    spec: Spec,
    rows: Rows,
    curves: Sequence[DrawnCurve],
    noisy: Sequence[str],
    *,
    percent: bool,
) -> None:
    """Give a specification the logged rows, a tooltip and a choice of smoothing, in place."""
    unused = {"raw"}
    if not any(curve.has_band for curve in curves):
        unused.add("band")
    if all(curve.min is None for curve in curves):
        unused.add("range")
    spec["data"] = {"values": rows}
    spec["layer"] = [layer for layer in spec["layer"] if layer["name"] not in unused]
    _add_tooltip(spec, curves, percent)
    if any("ema_9" in row for row in rows):
        _offer_smoothing(spec, noisy)


def _add_tooltip(spec: Spec, series: Sequence[DrawnCurve], percent: bool) -> None:
    tips = [("step", ",~f", message("step"))]
    form = ".1%" if percent else VALUE_FORMAT
    tips += [
        (f"{curve.key}_value", form, label(curve.title))
        for curve in series
        if curve.has_line
    ]
    for curve in series:
        name = label(curve.title)
        if curve.has_band:
            tips += [
                (f"{curve.key}_low", form, message("{name}, lower band", name=name)),
                (f"{curve.key}_high", form, message("{name}, upper band", name=name)),
            ]
        if curve.has_line and curve.min is not None:
            tips += [
                (f"{curve.key}_min", form, message("{name}, lowest", name=name)),
                (f"{curve.key}_max", form, message("{name}, highest", name=name)),
            ]
    layer_named(spec, INTERACTION)["encoding"]["tooltip"] = [
        {"field": field, "type": "quantitative", "format": form, "title": title}
        for field, form, title in tips
    ]


def _offer_smoothing(spec: Spec, noisy: Sequence[str]) -> None:
    line = layer_named(spec, "line")
    behind = deepcopy(line) | {"name": f"{INTERACTION}_raw"}
    del behind["encoding"]["size"]
    behind["mark"] |= {
        "strokeOpacity": {"expr": "smoothing ? 0.4 : 0"},
        "strokeWidth": 1,
    }
    spec["layer"].insert(spec["layer"].index(line), behind)
    is_automatic = f"smoothing == 'auto' && indexof({list(noisy)}, datum.series) >= 0"
    expression = f"{is_automatic} ? datum.ema_{SMOOTHING[0] * 10:.0f} : "
    expression += "".join(
        f"smoothing == {f} ? datum.ema_{f * 10:.0f} : " for f in SMOOTHING
    )
    line["transform"] = [{"calculate": f"{expression}datum.value", "as": "value"}]
    bind = {
        "input": "select",
        "options": ["auto", 0, *SMOOTHING],
        "labels": [message("of noisy curves"), message("none"), *map(str, SMOOTHING)],
        "name": message("smoothing "),
    }
    spec["params"].append({"name": "smoothing", "value": "auto", "bind": bind})
