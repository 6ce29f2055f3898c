"""Charts of curves over the steps, with the marks of findings."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import SEVERITIES, Finding, Severity
from rlreport.draw.axes import (
    Axis,
    Scale,
    drawable,
    finite_or_none,
    label,
    limits,
    records,
    stretched,
)
from rlreport.draw.chart import Chart, Rows, fill, layer_named, plot_height
from rlreport.draw.series import LEAST_SMOOTHED, SMOOTHING, Series, in_words, smoothed, thinned
from rlreport.draw.theme import INTERACTION, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats, spans
from rlreport.text.messages import clauses, message, sentences, told

LABEL_GAP = 13
"""Minimum distance of two labels, in pixels."""

MANY_STEPS = 6
"""Length of an axis from which the usual number of ticks lies between no two steps."""

Guide = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """Data shared by the charts over steps of one page.

    Attributes:
        steps: float64 (S,), ascending.
        findings: marked on the charts they name.
        within: extent of the axis, by default that of ``steps``.
        in_progress: step that is still being written, marked on every chart.
    """

    steps: Floats
    findings: Sequence[Finding] = ()
    within: tuple[float, float] | None = None
    in_progress: int | None = None

    @property
    def extent(self) -> tuple[float, float]:
        """First and last step; for a single step, half a step to each side."""
        if self.within is not None:
            return self.within
        first, last = float(self.steps[0]), float(self.steps[-1])
        half = max(0.5, abs(first) * 1e-9)  # far beyond 2**53, half a step would vanish
        return (first, last) if last - first > half else (first - half, last + half)

    @property
    def edges(self) -> Floats:
        """float64 (S + 1,): where each step's share of the axis begins and ends."""
        middles = (self.steps[1:] + self.steps[:-1]) / 2
        return np.concatenate([[self.extent[0]], middles, [self.extent[1]]])

    def axis(self, count: int | None = None) -> Axis:
        """Return the axis of the steps with about ``count`` ticks, none between two steps."""
        low, high = self.extent
        if high - low < MANY_STEPS:
            count = max(1, int(high - low))
        return Axis(low, high, message("step"), format=",d", count=count)

    def marks(self, chart: str) -> list[Mark]:
        """Return the marks of a chart: the step in progress, and findings that refer to it."""
        marks = []
        if self.in_progress is not None:
            words = message("step {step} is in progress", step=self.in_progress)
            marks.append(Mark("info", words, words, self._spans(self.steps == self.in_progress)))
        for finding in self.findings:
            if chart not in finding.charts:
                continue
            words, shown = finding.name or finding.title, np.isin(self.steps, finding.steps)
            if finding.onset is not None:
                since, until = finding.onset.step, finding.until
                shown = (self.steps >= since) & (self.steps <= (np.inf if until is None else until))
                places = {"name": words, "since": since, "until": until}
                words = (
                    told("{name}, since step {since}", places)
                    if until is None
                    else told("{name}, since step {since} until step {until}", places)
                )
            marks.append(Mark(finding.severity, finding.title, words, self._spans(shown)))
        return [mark for mark in marks if mark.spans]

    def _spans(self, marked: NDArray[np.bool_]) -> list[list[float]]:
        """Return spans of consecutive marked steps, extended halfway to the adjacent steps."""
        runs: list[list[float]] = self.edges[spans(marked)].tolist()
        return runs


class Mark(NamedTuple):
    """A finding on a chart: text of the tooltip, text of the legend, and spans of steps."""

    severity: Severity
    title: str
    words: str
    spans: list[list[float]]


def mark_layers(marks: Sequence[Mark]) -> dict[str, Rows]:
    """Return the layers that show the spans of findings, the least severe below."""
    rows = [
        {"from": low, "to": high, "severity": mark.severity, "finding": mark.title}
        for mark in sorted(marks, key=lambda mark: -SEVERITIES.index(mark.severity))
        for low, high in mark.spans
    ]
    return {"marked": rows, "marked_bar": rows}


def floats(table: pd.DataFrame, column: str) -> Floats:
    """Return a column as float64, NaN for missing values; all NaN if the column is missing."""
    if column not in table:
        return np.full(len(table), np.nan)
    return table[column].to_numpy(dtype=np.float64, na_value=np.nan)


def curve_chart(
    frame: Frame,
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    axis: str,
    wide: bool = False,
    percent: bool = False,
    note: str = "",
    labels: int = 92,
    scale: Scale = "linear",
    guide: Guide | None = None,
) -> Chart | None:
    """Return a chart of curves over the steps; None if no series has a value.

    Args:
        frame: steps and findings of the page.
        name: see ``Chart``.
        title: heading.
        wide: whether the chart spans the page.
        series: curves, the first is drawn last.
        axis: title of the y axis with its unit.
        percent: values are shares.
        note: ends the description.
        labels: pixels for the names of curves right of the plot, 0 for no names.
        scale: of the y axis; ``log`` for positive values, ``symlog`` takes hold beyond ±2.
        guide: range shaded across the plot; the axis title and the note should say what it is.
    """
    shown = [one for one in series if one.has_line or one.has_band]
    if not shown:
        return None
    parts = [in_words(one, frame.steps, percent) for one in shown if one.has_line]
    steps, shown, every = thinned(frame.steps, [one.map(drawable) for one in shown])
    y = _value_axis(shown, axis, percent, scale, guide)
    rows = [row for one in reversed(shown) for row in _rows(steps, one)]
    noisy = [one.key for one in shown if one.noisy]
    drawn_rows = [row | {"value": row["ema_6"]} if row["series"] in noisy else row for row in rows]
    marks = frame.marks(name)
    layers = {
        "raw": [row for row in rows if row["series"] in noisy],
        **mark_layers(marks),
        "guide": _shaded(guide, y),
        "zero": [{"zero": 0}] if y.low < 0 < y.high else [],
        "point": _lonely(rows),
    }
    size = "wide" if wide else "half"
    if labels:
        ends = [
            replace(one, values=smoothed(one.values, SMOOTHING[0])) if one.key in noisy else one
            for one in shown
        ]
        layers["label"] = _labels(steps[-1], ends, y, plot_height(size))
    spec, vega = fill(
        f"curves_{y.scale}",
        {"rows": drawn_rows, **layers},
        (frame.axis(min(12 if wide else 6, len(steps))), y),
        looks(shown),
        size=size,
        right=labels or 16,
    )
    # The interactive form smooths by itself.
    spec["data"] = {"values": rows}
    spec["layer"] = [layer for layer in spec["layer"] if layer["name"] != "raw"]
    _add_tooltip(spec, shown, percent)
    if not any(one.has_band for one in shown):
        spec["layer"].remove(layer_named(spec, "band"))
    if any("ema_9" in row for row in rows):
        _offer_smoothing(spec, noisy)
    if every > 1:
        parts.append(message("Each point is the mean of up to {every} steps.", every=every))
    if noisy:
        parts.append(message("Noisy curves are smoothed, with the logged values behind."))
    if marks:
        titles = dict.fromkeys(row["finding"] for row in layers["marked"])
        listed = clauses(message("{mark:clause}", mark=title) for title in titles)
        parts.append(message("Marked: {marks}.", marks=listed))
    words = sentences([*parts, note])
    shaded = tuple((mark.severity, mark.words) for mark in marks)
    return Chart(name, title, words, spec, vega, wide=wide, shaded=shaded, smoothed=bool(noisy))


def looks(series: Sequence[Series]) -> dict[str, Any]:
    """Return the placeholders for keys, colours and dashes that distinguish the series."""
    return {
        "$series.key": [one.key for one in series],
        "$series.color": [one.colour for one in series],
        "$series.dash": [list(one.dash) for one in series],
    }


def _value_axis(
    series: Sequence[Series], title: str, percent: bool, scale: Scale, guide: Guide | None
) -> Axis:
    values = np.concatenate([array for one in series for array in one.arrays().values()])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    # Of a guide that the curve does not meet, its nearest edge; one well inside keeps its own
    # extent, or a wide guide would flatten it.
    edges = [e for e in guide or () if guide and (low > guide[1] == e or high < guide[0] == e)]
    extent = limits([values, np.array(edges)], percent)
    if scale == "log":
        extent = stretched(low, high)
        title = message("{axis}, logarithmic", axis=title)
    elif scale == "symlog":
        if extent[0] < -2 or extent[1] > 2:
            title = message("{axis}, logarithmic beyond ±1", axis=title)
        else:
            scale = "linear"
    return Axis(*extent, title, percent, scale=scale)


def _shaded(guide: Guide | None, y: Axis) -> Rows:
    """Return the part of the guide that is within the plot."""
    if guide is None:
        return []
    low, high = max(guide[0], y.low), min(guide[1], y.high)
    return [{"low": low, "high": high}] if low < high else []


def _rows(steps: Floats, one: Series) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "step": [step if step % 1 else int(step) for step in steps.tolist()],
        "series": [one.key] * len(steps),
        "value": one.values,
    }
    if one.low is not None and one.high is not None:
        columns |= {"low": one.low, "high": one.high}
    if np.isfinite(one.values).sum() >= LEAST_SMOOTHED:
        for factor in SMOOTHING:
            averages = smoothed(one.values, factor).tolist()
            columns[f"ema_{factor * 10:.0f}"] = [finite_or_none(value, 4) for value in averages]
    return records(columns)


def _lonely(rows: list[dict[str, Any]]) -> Rows:
    """Return values to draw as points: those without a neighbour, or all if they are few."""
    present = [row["series"] if row["value"] is not None else None for row in rows]
    around = zip([None, *present], present, [*present[1:], None], strict=False)
    return [
        row
        for row, (before, here, after) in zip(rows, around, strict=True)
        if here is not None and (len(rows) <= 4 or here not in (before, after))
    ]


def _labels(step: float, series: Sequence[Series], y: Axis, height: int) -> Rows:
    """Return names at the ends of the curves, moved apart if they would overlap."""
    scale = (y.high - y.low) / height
    ends = [(one.values[np.isfinite(one.values)][-1], one) for one in series if one.has_line]
    ends.sort(key=lambda end: end[0])
    places = spread_out(np.array([(value - y.low) / scale for value, _ in ends]), height)
    return [
        {
            "step": float(step),
            "series": one.key,
            "y": finite_or_none(y.low + place * scale),
            "label": label(one.title, 22),
        }
        for place, (_, one) in zip(places.tolist(), ends, strict=True)
    ]


def spread_out(places: Floats, height: float) -> Floats:
    """Move ascending places apart by LABEL_GAP, within 0 and ``height`` if they fit."""
    gaps = LABEL_GAP * np.arange(len(places))
    moved: Floats = np.maximum.accumulate(places - gaps)
    moved = np.minimum(moved, height - gaps[-1:])
    return moved + gaps


def _add_tooltip(spec: Spec, series: Sequence[Series], percent: bool) -> None:
    """Add a tooltip with the value of every curve and the edges of its band."""
    shown = [("step", ",~f", message("step"))]
    form = ".1%" if percent else VALUE_FORMAT
    shown += [(f"{one.key}_value", form, label(one.title)) for one in series if one.has_line]
    for one in series:
        if one.has_band:
            name = label(one.title)
            shown += [
                (f"{one.key}_low", form, message("{name}, lower band", name=name)),
                (f"{one.key}_high", form, message("{name}, upper band", name=name)),
            ]
    layer_named(spec, INTERACTION)["encoding"]["tooltip"] = [
        {"field": field, "type": "quantitative", "format": form, "title": title}
        for field, form, title in shown
    ]


def _offer_smoothing(spec: Spec, noisy: Sequence[str]) -> None:
    """Add a choice of moving averages, drawn in front of the logged values.

    By default only the curves ``noisy`` are smoothed, like in the static drawing.
    """
    line = layer_named(spec, "line")
    behind = deepcopy(line) | {"name": f"{INTERACTION}_raw"}
    behind["mark"] |= {"strokeOpacity": {"expr": "smoothing ? 0.4 : 0"}, "strokeWidth": 1}
    spec["layer"].insert(spec["layer"].index(line), behind)
    usual = f"smoothing == 'auto' && indexof({list(noisy)}, datum.series) >= 0"
    chosen = f"{usual} ? datum.ema_{SMOOTHING[0] * 10:.0f} : "
    chosen += "".join(f"smoothing == {f} ? datum.ema_{f * 10:.0f} : " for f in SMOOTHING)
    line["transform"] = [{"calculate": f"{chosen}datum.value", "as": "value"}]
    bind = {
        "input": "select",
        "options": ["auto", 0, *SMOOTHING],
        "labels": [message("of noisy curves"), message("none"), *map(str, SMOOTHING)],
        "name": message("smoothing "),
    }
    spec["params"].append({"name": "smoothing", "value": "auto", "bind": bind})
