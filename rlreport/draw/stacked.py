"""Charts of quantities over the steps that add up: shares of groups, seconds of phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlreport.draw.chart import (
    Axis,
    Chart,
    KeyEntry,
    Rows,
    drawable,
    fill,
    finite_or_none,
    label,
    layer_named,
    limits,
    plot_height,
    records,
)
from rlreport.draw.curves import (
    DrawnCurve,
    ThinnedCurves,
    curve_styles,
    thinned,
)
from rlreport.draw.frame import Frame, mark_layers
from rlreport.draw.rules import PlacedRules
from rlreport.draw.smoothing import is_sparse
from rlreport.draw.theme import INTERACTION, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats
from rlreport.text.messages import message, sentences
from rlreport.text.numbers import NumberKind, written

# Least height of an area at its end for its name to be written there, in pixels
_LEAST_NAMED = 13


@dataclass(frozen=True, slots=True)
class Part:
    """One of the quantities that add up."""

    key: str  # id in the chart's data, safe as a field name
    title: str
    amounts: Floats  # float64 (S,), one per step, NaN where missing, else >= 0
    colour: str


def stacked_chart(
    frame: Frame,
    name: str,
    title: str,
    parts: Sequence[Part],
    *,
    axis: str,
    percent: bool = False,
    note: str = "",
) -> Chart | None:
    """Return a chart of areas on each other, the first at the bottom; None without a value.

    A step counts if all parts have a value there. Parts that are 0 everywhere are left out.

    Args:
        frame: the step axis and the findings to mark.
        name: the chart's name, by which findings refer to it.
        title: heading above the chart.
        parts: what adds up.
        axis: title of y, with its unit.
        percent: whether the amounts are fractions of 1, shown as percentages.
        note: last sentence of the description.
    """
    curves = _areas(parts)
    if not curves:
        return None
    thin = thinned(frame.steps, curves)
    y = _value_axis(thin, axis, percent=percent)
    rows: list[dict[str, Any]] = []
    for curve in thin.curves:
        rows += _rows(frame, thin.steps, curve)
    labels = _labels(thin, y)
    marks = frame.marks(name)
    layers: dict[str, Rows] = {
        "rows": rows,
        "label": labels,
        "halo": labels,
        **mark_layers(sorted(marks, key=lambda mark: -mark.severity.order)),
        "rule": _rules(frame),
    }
    spec, vega = fill(
        "stacked",
        layers,
        (frame.axis(min(6, len(thin.steps))), y),
        curve_styles(thin.curves),
    )
    _add_tooltip(spec, thin.curves, percent=percent)
    described = [_in_words(curve, frame.steps, percent=percent) for curve in curves]
    averaged = ""
    if thin.group_size > 1:
        averaged = message(
            "Each point is the mean of up to {every} steps.", every=thin.group_size
        )
    return Chart(
        name=name,
        title=title,
        description=sentences([*described, averaged, note]),
        spec=spec,
        vega=vega,
        shaded=tuple((mark.severity, mark.words) for mark in marks),
        key=() if labels else _key(curves),
    )


def _areas(parts: Sequence[Part]) -> list[DrawnCurve]:
    """Return the areas, each on the one before; the line in the middle is not drawn."""
    amounts = [drawable(part.amounts) for part in parts]
    is_known = np.isfinite(np.array(amounts)).all(axis=0)
    low = np.where(is_known, 0.0, np.nan)
    areas = []
    for part, values in zip(parts, amounts, strict=True):
        if not np.any(values[is_known]):
            continue
        high = low + values
        middle = (low + high) / 2
        area = DrawnCurve(part.key, part.title, middle, part.colour)
        areas.append(replace(area, low=low, high=high))
        low = high
    return areas


def _value_axis(thin: ThinnedCurves, title: str, *, percent: bool) -> Axis:
    highest = np.asarray(thin.curves[-1].high)
    top = 1.0 if percent else limits([np.array([0.0]), highest])[1]
    return Axis(0.0, top, _axis_title(title, thin), percent)


def _rules(frame: Frame) -> Rows:
    """Return the rules of the run; labels on the areas could not be read."""
    placed = PlacedRules.on_axis(frame.rules, frame.extent, labelled=False)
    return [row | {"opacity": 1} for row in placed.layers()["rule"]]


def _key(areas: Sequence[DrawnCurve]) -> tuple[KeyEntry, ...]:
    """Return the names of areas from the top down, as they lie on each other."""
    if len(areas) == 1:  # the title names it
        return ()
    return tuple(
        KeyEntry(area.title, (area.colour, area.dash), is_area=True)
        for area in reversed(areas)
    )


def _axis_title(title: str, thin: ThinnedCurves) -> str:
    if thin.group_size == 1:
        return title
    return message("{axis}; mean of {every} steps", axis=title, every=thin.group_size)


def _rows(frame: Frame, steps: Floats, curve: DrawnCurve) -> list[dict[str, Any]]:
    """Return the rows of an area; a single step is as wide as the axis."""
    low = np.asarray(curve.low)
    high = np.asarray(curve.high)
    known = np.flatnonzero(np.isfinite(low))
    if len(known) == 1:
        left, right = frame.extent
        ends = np.array([left, steps[known[0]], right])
        index = np.repeat(known, 3)
        return _records(curve, ends, low[index], high[index])
    if is_sparse(low):  # without rows for its gaps, the area bridges them
        return _records(curve, steps[known], low[known], high[known])
    return _records(curve, steps, low, high)


def _records(
    curve: DrawnCurve, steps: Floats, low: Floats, high: Floats
) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "step": [step if step % 1 else int(step) for step in steps.tolist()],
        "series": [curve.key] * len(steps),
        "low": low,
        "high": high,
        "value": (low + high) / 2,
        "amount": high - low,
    }
    return records(columns)


def _labels(thin: ThinnedCurves, y: Axis) -> list[dict[str, Any]]:
    """Return a row per area with its name, in its middle at its end; [] if one is too low there."""
    if len(thin.curves) == 1:  # the title names it
        return []
    least = _LEAST_NAMED * (y.high - y.low) / plot_height("half")
    rows = []
    for curve in thin.curves:
        low = np.asarray(curve.low)
        high = np.asarray(curve.high)
        last = int(np.flatnonzero(np.isfinite(low))[-1])
        if high[last] - low[last] < least:
            return []
        place = finite_or_none(float(low[last] + high[last]) / 2)
        step = float(thin.steps[-1])
        text = label(curve.title, 22)
        rows.append({"step": step, "series": curve.key, "y": place, "label": text})
    return rows


def _add_tooltip(spec: Spec, curves: Sequence[DrawnCurve], *, percent: bool) -> None:
    """Show the amounts at a step on hover, the uppermost first."""
    form = ".1%" if percent else VALUE_FORMAT
    tips = [_tip("step", ",~f", message("step"))]
    for curve in reversed(curves):
        tips.append(_tip(f"{curve.key}_amount", form, label(curve.title)))
    layer_named(spec, INTERACTION)["encoding"]["tooltip"] = tips


def _tip(field: str, form: str, title: str) -> dict[str, str]:
    return {"field": field, "type": "quantitative", "format": form, "title": title}


def _in_words(curve: DrawnCurve, steps: Floats, *, percent: bool) -> str:
    """Return the first and the last amount of an area as a sentence."""
    amounts = np.asarray(curve.high) - np.asarray(curve.low)
    known = np.flatnonzero(np.isfinite(amounts))
    kind: NumberKind = "share" if percent else "number"
    ends = [
        message(
            "{value} at step {step:count}",
            value=written(float(amounts[index]), kind),
            step=float(steps[index]),
        )
        for index in np.unique(known[[0, -1]]).tolist()
    ]
    if len(ends) == 1:
        return message("{name}: {value}.", name=curve.title, value=ends[0])
    return message(
        "{name}: {first}, {last}.", name=curve.title, first=ends[0], last=ends[1]
    )
