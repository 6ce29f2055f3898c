"""The class ``Chart``, its axes, and ``fill``, which fills a design (a chart template) with data.

A design has a Vega-Lite form, for export and interactive charts, and a Vega form for static
drawing, with the same placeholders. Designs of step pages have no Vega form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import orjson

from rlreport.draw.theme import DESIGNS, HEIGHT, PADDING, WIDTH, Spec, design_sources
from rlreport.figures.ragged import Floats
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import Message, message

Scale = Literal["linear", "log", "symlog"]
# Minimum extent of an axis as a fraction of its largest magnitude, so that noise stays flat
LEAST_SPAN = 0.02
# Differences below this fraction of the largest magnitude count as rounding errors
LEAST_VARIED = 1e-12
# Charts omit magnitudes above MOST and draw those below LEAST as 0: their squares are inf or 0
MOST, LEAST = 1e150, 1e-140
MOST_BINS = 24
# Curves do not share an axis if their magnitudes, or both ranges together and the wider of them,
# differ by more than this factor
MOST_APART = 10.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
# Maximum length in characters of chart and field names, which are also used as file names
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Axis:
    # limits of the axis
    low: float
    high: float
    title: str  # quantity and unit
    percent: bool = False  # whether values are fractions of 1 that are shown as percentages
    format: str = ""  # d3 format of the tick labels; "" chooses one that suits the limits
    count: int | None = None  # approximate number of ticks, None for the default
    # type of the scale; ``symlog`` is linear around 0 and logarithmic beyond
    scale: Scale = "linear"

    def placeholders(self, channel: str, usual_count: int) -> dict[str, Any]:
        """Return values for axis ``channel`` ("x" or "y") of a design: {"$x.low": 0.0, …}."""
        return {
            f"${channel}.low": self.low,
            f"${channel}.high": self.high,
            f"${channel}.title": self.title,
            f"${channel}.format": self.format or self.usual_format(),
            f"${channel}.count": self.count or usual_count,
            f"${channel}.values": None if self.scale == "linear" else powers(self.low, self.high),
        }

    def usual_format(self) -> str | None:
        """Return the d3 tick format by unit, scale and limits, None for Vega's default."""
        largest = max(abs(self.low), abs(self.high))
        if self.percent:
            return "~%"
        if self.scale != "linear":
            return "~g" if largest < 1e7 else "~e"
        if largest < 1e-3 or largest >= 1e26:
            return "~e"
        return "~s" if largest >= 1e5 else None


def drawable(values: Floats) -> Floats:
    """Return the values; magnitudes above MOST and infinity become NaN, those below LEAST 0."""
    magnitudes = np.abs(values)
    return np.where(magnitudes < LEAST, 0.0, np.where(magnitudes <= MOST, values, np.nan))


def limits(arrays: Sequence[Floats], percent: bool = False) -> tuple[float, float]:
    """Return (low, high) of an axis for the finite values and a margin; (0, 1) without values.

    The margin does not pass 0 if all values are >= 0. With ``percent``, the axis never passes 0,
    and does not pass 1 if all values are <= 1.
    """
    values = np.concatenate([array[np.isfinite(array)] for array in arrays])
    if not values.size:
        return (0.0, 1.0)
    low = float(values.min())
    high = float(values.max())
    missing = LEAST_SPAN * max(abs(low), abs(high)) - (high - low)
    padding = max(0.06 * (high - low), missing / 2) if high > low else 0.1 * abs(high) or 1.0
    bottom = low - padding
    top = high + padding
    if low >= 0 > bottom:
        bottom = 0.0
    if percent:
        bottom, top = max(bottom, 0.0), min(top, 1.0) if high <= 1 else top
    return (bottom, top)


def on_one_scale(some: Sequence[Floats], others: Sequence[Floats]) -> bool:
    """Return whether two groups of curves are near enough to share an axis, see MOST_APART."""
    sides = (some, others)
    sizes = [max(float(np.nanmax(np.abs(array), initial=0.0)) for array in side) for side in sides]
    lows, highs = zip(*map(limits, sides), strict=True)
    widest = max(high - low for low, high in zip(lows, highs, strict=True))
    # Values that are all 0 have any scale.
    alike = max(sizes) <= MOST_APART * min(sizes) or not min(sizes)
    return alike and max(highs) - min(lows) <= MOST_APART * widest


def powers(low: float, high: float) -> list[float]:
    """Return ticks: up to six powers of ten per sign; if ``low`` <= 0, only 0, ±1 and beyond."""

    def decades(least: float, most: float) -> list[float]:
        first = np.ceil(np.log10(least))
        last = np.floor(np.log10(most))
        every = max(1, -(-(last - first + 1) // 6))
        return [float(10.0**power) for power in np.arange(first, last + 1, every)]

    if low > 0:
        return decades(low, high)
    below = [-tick for tick in reversed(decades(1.0, -low))] if low <= -1 else []
    return [*below, 0.0, *(decades(1.0, high) if high >= 1 else [])]


def varies(values: Floats) -> bool:
    """Return whether the finite values differ by more than rounding errors."""
    finite = values[np.isfinite(values)]
    return len(finite) > 1 and bool(np.ptp(finite) > LEAST_VARIED * np.abs(finite).max())


def bins(values: Floats) -> tuple[float, float, float]:
    """Return (bin width, first edge, last edge) of at most MOST_BINS + 1 bins for finite values."""
    low = float(values.min())
    high = float(values.max())
    raw = (high - low) / MOST_BINS
    largest = max(abs(low), abs(high))
    if raw <= largest * LEAST_VARIED:
        half = max(0.5, largest * 1e-6)
        return 2 * half, low - half, low + half
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= raw))
    start = np.floor(low / step) * step
    stop = (np.floor(high / step) + 1) * step
    return step, float(start), float(stop)


def counts(values: Floats, step: float, low: float, high: float) -> tuple[Floats, Floats, Floats]:
    """Return (starts, ends, counts), (B,) each, of the bins that contain values; see ``bins``."""
    # A value on an edge falls into the same bin as in Vega, which draws the interactive chart.
    last = round((high - low) / step) - 1
    indices = np.floor(1e-14 + (values - low) / step).astype(np.int64)
    present, numbers = np.unique(np.clip(indices, 0, last), return_counts=True)
    edges = np.array([low + step * i for i in range(last + 2)])
    return edges[present], edges[present + 1], numbers.astype(np.float64)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names of ASCII letters, digits and ``_``, "unnamed" if none remains.

    They are cut to LONGEST_NAME. Names that differ at most in case get ``_2``, ``_3``, … appended.
    """
    # Vega takes ``.``, ``[]`` and quotes for a path; some file systems ignore upper and lower case.
    used_names: set[str] = set()
    result = []
    for name in names:
        base = candidate = _UNSAFE.sub("_", name).strip("_")[:LONGEST_NAME] or "unnamed"
        number = 2
        while candidate.lower() in used_names:
            candidate = f"{base}_{number}"
            number += 1
        used_names.add(candidate.lower())
        result.append(candidate)
    return result


def label(text: str, longest: int = 40) -> str:
    """Return one printable line of at most ``longest`` characters; keep a ``Message`` as it is."""
    if isinstance(text, Message):
        return text
    return shortened(printable(" ".join(text.split())), longest)


def finite_or_none(value: float, digits: int = 6) -> float | None:
    """Round to ``digits`` significant digits; return None for NaN and infinity."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def records(columns: Mapping[str, Floats | Sequence[Any]]) -> list[dict[str, Any]]:
    """Return one dict per row of equally long columns; ``finite_or_none`` rounds arrays."""
    values = [
        map(finite_or_none, column.tolist()) if isinstance(column, np.ndarray) else column
        for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


Rows = Sequence[Mapping[str, Any]]
PageSlot = Literal["lead", "reward", "open", "more"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its data, its drawings, and its position on the page."""

    name: str  # stable id, also the file name in ``data/charts/<name>.vl.json``
    title: str  # heading above the chart
    description: str  # one or two sentences with the main numbers, for screen readers
    spec: Spec  # Vega-Lite with inline data, or with the dataset ``rows`` that the page provides
    vega: Spec  # compiled Vega of the static drawing; empty where the SVG is drawn directly
    svg: str = ""  # static drawing whose colours are CSS custom properties; "" until it is rendered
    wide: bool = False  # whether the chart spans the page's width, not half of it
    interactive: bool = True  # whether the page may replace the SVG by an interactive Vega chart
    # (severity, legend text) of each finding (detected problem) whose steps are shaded
    shaded: tuple[tuple[str, str], ...] = ()
    group: str = ""  # heading of the group of charts that this one belongs to, "" for none
    subject: str = ""  # second name, by which findings refer to this chart if no chart is named so
    # section of the overview page: ``lead`` (on top), ``reward``, ``open``, ``more`` (collapsed)
    place: PageSlot = "open"
    smoothed: bool = False  # whether curves are smoothed, with the logged values behind them
    png: bytes = b""  # picture for mail and Markdown, b"" until it is drawn

    def sized(self, size: str) -> Chart:
        """Return a copy whose specifications are ``WIDTH[size]`` wide; ``svg`` is not redrawn."""
        padding = self.vega["padding"]
        width = {"width": WIDTH[size] - padding["left"] - padding["right"]}
        return replace(self, wide=size == "wide", spec=self.spec | width, vega=self.vega | width)


def fill(
    design: str,
    data: Mapping[str, Rows],
    axes: tuple[Axis, Axis],
    placeholders: Mapping[str, Any] | None = None,
    *,
    size: str = "half",
    right: int = 16,
) -> tuple[Spec, Spec]:
    """Return the (Vega-Lite, Vega) forms of a design (chart template), filled with data.

    ``data`` maps layer names to rows; its key ``rows`` is for layers without their own data. The
    Vega-Lite form omits layers whose own rows are missing or empty. ``right`` is the padding on
    the right in pixels. The Vega form is {} for charts that ``draw.direct`` draws.
    """
    forms = _designs()[design]
    values = dict(placeholders or {})
    for channel, axis, ticks in zip("xy", axes, (6, 5), strict=True):
        values |= axis.placeholders(channel, ticks)
    spec, vega = (
        {
            **_fill_placeholders(forms[form], values),
            "width": WIDTH[size] - PADDING["left"] - right,
            "height": plot_height(size),
            "padding": {**PADDING, "right": right},
        }
        if form in forms
        else {}
        for form in ("spec", "vega")
    )
    spec["data"] = {"values": list(data["rows"])}
    spec["layer"] = [x for x in spec["layer"] if "data" not in x or data.get(x["name"])]
    for layer in spec["layer"]:
        if "data" in layer:
            layer["data"] = {"values": list(data[layer["name"]])}
    for source in vega.get("data", ()):
        if "source" not in source:
            source["values"] = list(data.get(source["name"], ()))
    return spec, vega


def plot_height(size: str) -> int:
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def layer_named(spec: Spec, name: str) -> Spec:
    layer: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)
    return layer


def _fill_placeholders(node: Any, values: Mapping[str, Any], key: str = "") -> Any:
    if isinstance(node, dict):
        return {
            key: _fill_placeholders(inner, values, key)
            for key, inner in node.items()
            if not isinstance(inner, str) or values.get(inner, inner) is not None
        }
    if isinstance(node, list):
        if len(node) == 1 and isinstance(node[0], str) and node[0] in values:
            return values[node[0]]
        return [_fill_placeholders(inner, values) for inner in node]
    if isinstance(node, str):
        return values[node] if node in values else message(node) if key == "title" else node
    return node


@cache
def _designs() -> dict[str, Spec]:
    content = orjson.loads(DESIGNS.read_bytes()) if DESIGNS.exists() else {}
    if content.get("sources") != design_sources():
        from rlreport.draw.designs import compile_designs  # imports Altair

        content = orjson.loads(compile_designs())
    designs: dict[str, Spec] = content["designs"]
    return designs
