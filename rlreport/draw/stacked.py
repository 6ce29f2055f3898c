"""Charts of quantities over the steps that add up: shares of groups, seconds of phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlreport.draw.chart import (
    Axis,
    Chart,
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
    spread_out,
    thinned,
)
from rlreport.draw.frame import Frame
from rlreport.draw.smoothing import is_sparse
from rlreport.draw.theme import INTERACTION, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats
from rlreport.text.messages import message, sentences
from rlreport.text.numbers import NumberKind, written

_LABELS = 110  # pixels right of the plot, for the names of areas
_LEAST_LABELLED = (
    0.03  # areas that end lower than this part of the axis have no name there
)


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
    amounts = [drawable(part.amounts) for part in parts]
    is_known = np.isfinite(np.array(amounts)).all(axis=0)
    if not is_known.any():
        return None
    curves: list[DrawnCurve] = []
    low = np.where(is_known, 0.0, np.nan)
    for part, values in zip(parts, amounts, strict=True):
        if not np.any(values[is_known]):
            continue
        high = low + values
        middle = (low + high) / 2
        curves.append(
            DrawnCurve(
                part.key, part.title, middle, colour=part.colour, low=low, high=high
            )
        )
        low = high
    if not curves:
        return None
    thin = thinned(frame.steps, curves)
    highest = np.asarray(thin.curves[-1].high)
    top = 1.0 if percent else limits([np.array([0.0]), highest])[1]
    y = Axis(0.0, top, _axis_title(axis, thin), percent)
    marks = frame.marks(name)
    marked: list[dict[str, Any]] = []
    for mark in sorted(marks, key=lambda mark: -mark.severity.order):
        finding = {"severity": mark.severity, "finding": mark.title}
        marked += [{"from": start, "to": end} | finding for start, end in mark.spans]
    rows: list[dict[str, Any]] = []
    for curve in thin.curves:
        rows += _rows(frame, thin.steps, curve)
    spec, vega = fill(
        "stacked",
        {
            "rows": rows,
            "marked": marked,
            "marked_bar": marked,
            "label": _labels(thin, y),
        },
        (frame.axis(min(6, len(thin.steps))), y),
        curve_styles(thin.curves),
        right=_LABELS,
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
    """Return a row per area with its name, at its middle at the last step that has values."""
    height = plot_height("half")
    per_pixel = (y.high - y.low) / height
    places = []
    for curve in thin.curves:
        low = np.asarray(curve.low)
        high = np.asarray(curve.high)
        last = int(np.flatnonzero(np.isfinite(low))[-1])
        places.append(float(low[last] + high[last]) / 2 / per_pixel)
    heights = spread_out(np.array(places), height).tolist()
    rows = []
    for curve, place in zip(thin.curves, heights, strict=True):
        rows.append(
            {
                "step": float(thin.steps[-1]),
                "series": curve.key,
                "y": finite_or_none(y.low + place * per_pixel),
                "label": label(curve.title, 22),
            }
        )
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
