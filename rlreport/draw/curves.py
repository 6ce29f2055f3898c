"""Curves over the steps: values to a finished chart."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from rlreport.draw.chart import Chart
from rlreport.draw.extent import Axis, Scale, limits, stretched
from rlreport.draw.fill import Plot, Rows, fill, layer_named, plot_height
from rlreport.draw.frame import Frame
from rlreport.draw.labels import finite_or_none, label
from rlreport.draw.layout import INTERACTION, VALUE_FORMAT
from rlreport.draw.series import (
    LEAST_SMOOTHED,
    SMOOTHING,
    Series,
    in_words,
    smoothed,
    thinned,
)
from rlreport.figures.ragged import Floats
from rlreport.text.messages import clauses, message, sentences

LABEL_GAP = 13


def curve_chart(
    frame: Frame,
    name: str,
    title: str,
    series: Sequence[Series],
    *,
    axis: str,
    wide: bool = False,
    percent: bool = False,
    shiftable: bool = False,
    note: str = "",
    right: int = 92,
    labelled: bool = True,
    scale: Scale = "linear",
    guide: tuple[float, float] | None = None,
) -> Chart | None:
    """Draws curves over the steps; None where no series has a value.

    Args:
        frame: steps and findings of the page.
        name: name of the chart.
        title: heading.
        series: curves, the first is drawn last.
        axis: title of the y axis with its unit.
        wide: whether the chart spans the page.
        percent: values are shares.
        shiftable: offer to start every curve at 0.
        note: ends the description.
        right: pixels for direct labels.
        labelled: whether curves carry their names.
        scale: of the y axis; ``log`` for positive values, ``symlog`` takes hold beyond ±2.
        guide: range shaded across the plot; the axis title and the note should say what it is.
    """
    shown = [one for one in series if one.present]
    if not shown:
        return None
    size = "wide" if wide else "half"
    parts = [in_words(one, frame.steps, percent) for one in shown if one.has_line]
    shown = [one.drawable() for one in shown]
    steps, shown, every = thinned(frame.steps, shown)
    arrays = [array for one in shown for array in one.arrays()]
    extent = limits([*arrays, _nearest(guide, arrays)], percent)
    if scale == "log":
        extent = stretched(float(np.nanmin(arrays[0])), float(np.nanmax(arrays[0])))
    elif scale == "symlog" and extent[0] >= -2 and extent[1] <= 2:
        scale = "linear"
    if scale != "linear":
        axis = (
            message("{axis}, logarithmic", axis=axis)
            if scale == "log"
            else message("{axis}, logarithmic beyond ±1", axis=axis)
        )
    rows = [row for one in reversed(shown) for row in _rows(steps, one, shiftable)]
    marks = frame.marks(name)
    plot = fill(
        "curves",
        rows,
        {
            "x": Axis(
                *frame.extent,
                message("step"),
                format=",d",
                count=min(12 if wide else 6, len(steps)),
            ),
            "y": Axis(*extent, axis, percent, scale=scale),
        },
        size=size,
        right=right,
        own={
            "marked": marks,
            "marked_bar": marks,
            "guide": _shaded(guide, extent),
            "zero": [{"zero": 0}] if extent[0] < 0 < extent[1] else [],
            "point": _lonely(rows),
            "label": _labels(steps, shown, extent, plot_height(size), shiftable)
            if labelled
            else [],
        },
        series=shown,
    )
    _point_out(plot, shown, percent)
    if not any(one.has_band for one in shown):
        plot.spec["layer"].remove(layer_named(plot.spec, "band"))
    if any("ema_9" in row for row in rows):
        _offer_smoothing(plot)
    if shiftable and len(steps) > 1:
        _offer_shift(plot, extent, rows)
    if every > 1:
        parts.append(message("Each point is the mean of up to {every} steps.", every=every))
    if marks:
        found = dict.fromkeys(mark["finding"] for mark in marks)
        marked_ones = clauses(message("{mark:clause}", mark=mark) for mark in found)
        parts.append(message("Marked: {marks}.", marks=marked_ones))
    if note:
        parts.append(note)
    words = sentences(parts)
    return Chart(name, title, words, plot.spec, plot.vega, wide=wide, shaded=frame.legend(name))


def _nearest(guide: tuple[float, float] | None, arrays: Sequence[Floats]) -> Floats:
    """The edge of the guide that values beyond it leave out of sight; none if they meet it.

    A curve well inside keeps its own extent, or a wide guide would flatten it.
    """
    if guide is None:
        return np.array([])
    values = np.concatenate(arrays)
    low, high = np.nanmin(values), np.nanmax(values)
    return np.array([edge for edge in guide if low > guide[1] == edge or high < guide[0] == edge])


def _shaded(guide: tuple[float, float] | None, extent: tuple[float, float]) -> Rows:
    """The part of the guide that lies in the plot."""
    if guide is None:
        return []
    low, high = max(guide[0], extent[0]), min(guide[1], extent[1])
    return [{"low": low, "high": high}] if low < high else []


def _rows(steps: Floats, one: Series, shiftable: bool) -> list[dict[str, Any]]:
    finite = one.values[np.isfinite(one.values)]
    averages = {
        f"ema_{factor * 10:.0f}": smoothed(one.values, factor)
        for factor in SMOOTHING
        if len(finite) >= LEAST_SMOOTHED
    }
    rows = []
    for index, (step, value) in enumerate(zip(steps, one.values, strict=True)):
        row: dict[str, Any] = {
            "step": float(step) if step % 1 else int(step),
            "series": one.key,
            "value": finite_or_none(value),
        }
        if one.low is not None and one.high is not None:
            row["low"] = finite_or_none(one.low[index])
            row["high"] = finite_or_none(one.high[index])
        for field, average in averages.items():
            row[field] = finite_or_none(average[index], 4)
        if shiftable and finite.size:
            row["start"] = finite_or_none(finite[0])
        rows.append(row)
    return rows


def _lonely(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values without a neighbour, which a line cannot show, and all where they are few."""
    lonely = []
    for index, row in enumerate(rows):
        if row["value"] is None:
            continue
        beside = [rows[i] for i in (index - 1, index + 1) if 0 <= i < len(rows)]
        if not any(x["series"] == row["series"] and x["value"] is not None for x in beside):
            lonely.append(row)
    return [row for row in rows if row["value"] is not None] if len(rows) <= 4 else lonely


def _labels(
    steps: Floats,
    series: Sequence[Series],
    extent: tuple[float, float],
    height: int,
    shiftable: bool,
) -> list[dict[str, Any]]:
    """Names at the ends of the curves, moved apart where they would overlap."""
    scale = (extent[1] - extent[0]) / height
    ends = []
    for one in series:
        if not one.has_line:
            continue
        finite = np.flatnonzero(np.isfinite(one.values))
        ends.append((float(one.values[finite[-1]]), float(one.values[finite[0]]), one))
    ends.sort(key=lambda end: end[0])
    places = spread_out([(end[0] - extent[0]) / scale for end in ends], LABEL_GAP, height)
    rows = []
    for place, (_, start, one) in zip(places, ends, strict=True):
        row = {
            "step": float(steps[-1]),
            "series": one.key,
            "y": finite_or_none(extent[0] + place * scale),
            "label": label(one.title, 22),
        }
        if shiftable:
            row["start"] = finite_or_none(start)
        rows.append(row)
    return rows


def spread_out(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Moves ascending places apart to at least ``gap``, within 0 and ``height`` if they fit."""
    moved = list(places)
    for index in range(1, len(moved)):
        moved[index] = max(moved[index], moved[index - 1] + gap)
    if moved and moved[-1] > height:
        moved[-1] = height
        for index in range(len(moved) - 2, -1, -1):
            moved[index] = min(moved[index], moved[index + 1] - gap)
    return moved


def _point_out(plot: Plot, series: Sequence[Series], percent: bool) -> None:
    """Adds what the pointer shows: every curve's value, and the edges of its band."""
    form = ".1%" if percent else VALUE_FORMAT
    told = [(f"{one.key}_value", label(one.title)) for one in series if one.has_line]
    for one in series:
        if one.has_band:
            told += [
                (f"{one.key}_low", message("{name}, band from", name=label(one.title))),
                (f"{one.key}_high", message("{name}, band to", name=label(one.title))),
            ]
    plot.encoding(INTERACTION)["tooltip"] = [
        {"field": "step", "type": "quantitative", "format": ",~f", "title": message("step")},
        *(
            {"field": field, "type": "quantitative", "format": form, "title": title}
            for field, title in told
        ),
    ]


def _offer_smoothing(plot: Plot) -> None:
    """Adds a choice of moving averages to draw, the values as logged behind them."""
    options: list[float] = [0, *SMOOTHING]
    line = layer_named(plot.spec, "line")
    behind = deepcopy(line)
    behind["name"] = f"{INTERACTION}_raw"
    behind["mark"] |= {"strokeOpacity": {"expr": "smoothing ? 0.3 : 0"}, "strokeWidth": 1}
    plot.spec["layer"].insert(plot.spec["layer"].index(line), behind)
    chosen = "".join(f"smoothing == {f} ? datum.ema_{f * 10:.0f} : " for f in SMOOTHING)
    line["transform"] = [{"calculate": f"{chosen}datum.value", "as": "value"}]
    labels = [message("none"), *(f"{factor}" for factor in SMOOTHING)]
    bind = {"input": "select", "options": options, "labels": labels, "name": message("smoothing ")}
    plot.spec["params"].append({"name": "smoothing", "value": 0, "bind": bind})


def _offer_shift(plot: Plot, extent: tuple[float, float], rows: Rows) -> None:
    """Adds a check box that moves every curve to start at 0, to compare trends."""
    moved = {
        "band": ("low", "high"),
        "line": ("value",),
        f"{INTERACTION}_raw": ("value",),
        "point": ("value",),
        "label": ("y",),
    }
    for layer in plot.spec["layer"]:
        layer.setdefault("transform", []).extend(
            {"calculate": f"datum.{name} - (zero_shift ? datum.start : 0)", "as": name}
            for name in moved.get(layer["name"], ())
        )
    ends = np.array(
        [
            row[key] - row["start"]
            for row in rows
            for key in ("low", "high", "value")
            if row.get(key) is not None and "start" in row
        ]
    )
    shifted = limits([ends])
    scale = plot.encoding("line")["y"]["scale"]
    for side, here, there in zip(("domainMin", "domainMax"), extent, shifted, strict=True):
        scale[side] = {"expr": f"zero_shift ? {there!r} : {here!r}"}
    plot.spec["params"].append(
        {
            "name": "zero_shift",
            "value": False,
            "bind": {"input": "checkbox", "name": message("start every curve at 0 ")},
        }
    )
