"""The class ``Chart``, its axes, and ``fill``, which fills a design (a chart template) with data.

A design has a Vega-Lite form, for export and interactive charts, and a Vega form for static
drawing, with the same placeholders. Designs of step pages have no Vega form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from rlreport.draw.theme import (
    DESIGNS,
    HEIGHT,
    LINE,
    PADDING,
    RIGHT,
    WIDTH,
    Spec,
    Style,
    design_sources,
    sentinels,
)
from rlreport.figures.ragged import Floats
from rlreport.text.clean import one_line
from rlreport.text.messages import Message, message


def evenly(count: int, room: int) -> NDArray[np.int64]:
    """Return indices of up to ``room`` of ``count`` items: evenly spaced, with both ends."""
    positions = np.linspace(0, count - 1, min(count, room))
    return positions.round().astype(np.int64)


Scale = Literal["linear", "log", "symlog"]
# Minimum extent of an axis as a fraction of its largest magnitude, so that noise stays flat
LEAST_SPAN = 0.02
# Differences below this fraction of the largest magnitude count as rounding errors
LEAST_VARIED = 1e-12
# Charts omit magnitudes above MOST, whose squares are infinite
MOST = 1e150
# and draw those below LEAST as 0, as their squares are 0
LEAST = 1e-140
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
    percent: bool = False  # whether to show fractions of 1 as percentages
    format: str = ""  # d3 format of the tick labels; "" chooses by the limits
    count: int | None = None  # approximate number of ticks, None for the default
    # type of the scale; ``symlog`` is linear around 0 and logarithmic beyond
    scale: Scale = "linear"

    def placeholders(self, channel: str, usual_count: int) -> dict[str, Any]:
        """Return values for axis ``channel`` ("x" or "y") of a design: {"$x.low": 0.0, …}."""
        # Vega chooses the ticks of a linear axis; those of other axes are powers of ten.
        ticks = None if self.scale == "linear" else powers(self.low, self.high)
        return {
            f"${channel}.low": self.low,
            f"${channel}.high": self.high,
            f"${channel}.title": self.title,
            f"${channel}.format": self.format or self.usual_format(),
            f"${channel}.count": self.count or usual_count,
            f"${channel}.values": ticks,
        }

    def usual_format(self) -> str | None:
        """Return the d3 tick format by unit, scale and limits, None for Vega's default."""
        largest = max(abs(self.low), abs(self.high))
        if self.percent:
            return "~%"
        # Long numbers get an exponent ("~e") or an SI prefix ("~s"): labels have little room.
        if self.scale != "linear":
            return "~g" if largest < 1e7 else "~e"
        # The largest SI prefix is Y, 1e24.
        if largest < 1e-3 or largest >= 1e26:
            return "~e"
        return "~s" if largest >= 1e5 else None


def drawable(values: Floats) -> Floats:
    """Return the values; magnitudes above MOST and infinity become NaN, those below LEAST 0.

    The squares of what remains are finite, and 0 only for 0.
    """
    magnitudes = np.abs(values)
    not_too_large = np.where(magnitudes <= MOST, values, np.nan)
    return np.where(magnitudes < LEAST, 0.0, not_too_large)


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
    padding = _padding(low, high)
    bottom = low - padding
    top = high + padding
    if low >= 0:
        bottom = max(bottom, 0.0)
    if percent:
        bottom = max(bottom, 0.0)
        if high <= 1:
            top = min(top, 1.0)
    return (bottom, top)


def _padding(low: float, high: float) -> float:
    """Return the margin at either end: 6% of the range, and more where it would be too short."""
    if high == low:
        return 0.1 * abs(high) or 1.0  # 1.0 if the only value is 0
    span = high - low
    # An axis of 1,000.0 to 1,000.1 would show noise as large changes.
    least_span = LEAST_SPAN * max(abs(low), abs(high))
    missing = least_span - span  # negative if the range is long enough
    return max(0.06 * span, missing / 2)


def on_one_scale(some: Sequence[Floats], others: Sequence[Floats]) -> bool:
    """Return whether two groups of curves can share an axis without one of them looking flat.

    ``some`` and ``others`` are the values of the curves of each group.
    """
    # Next to values over MOST_APART times as large, a curve would be a line at 0.
    smaller, larger = sorted((_magnitude(some), _magnitude(others)))
    # Values that are all 0 fit any scale.
    if smaller > 0 and larger > MOST_APART * smaller:
        return False
    # Curves near 100 and near 200 that vary by 1 would both look flat on an axis of 100 to 200.
    low, high = limits(some)
    other_low, other_high = limits(others)
    wider_range = max(high - low, other_high - other_low)
    joint_range = max(high, other_high) - min(low, other_low)
    return joint_range <= MOST_APART * wider_range


def _magnitude(arrays: Sequence[Floats]) -> float:
    """Return the largest absolute value of all arrays, 0 if all values are missing."""
    return max(float(np.nanmax(np.abs(array), initial=0.0)) for array in arrays)


def powers(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic ("log" or "symlog") axis: up to six powers of ten per sign.

    A symlog axis, whose ``low`` is 0 or less, is linear between −1 and 1: in between only 0 is a
    tick.
    """
    if low > 0:  # a log axis, or a symlog axis of positive values
        return _decades(low, high)
    negative: list[float] = []
    positive: list[float] = []
    if low <= -1:
        negative = [-tick for tick in reversed(_decades(1.0, -low))]
    if high >= 1:
        positive = _decades(1.0, high)
    return [*negative, 0.0, *positive]


def _decades(least: float, most: float) -> list[float]:
    """Return up to six powers of ten between two positive limits."""
    first = math.ceil(np.log10(least))
    last = math.floor(np.log10(most))
    # Of more than six powers, every second, third, … is a tick.
    every = max(1, math.ceil((last - first + 1) / 6))
    return [10.0**power for power in range(first, last + 1, every)]


def varies(values: Floats) -> bool:
    """Return whether the finite values differ by more than rounding errors."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return False
    return bool(np.ptp(finite) > LEAST_VARIED * np.abs(finite).max())


class Bins(NamedTuple):
    """Bins of equal width from ``low`` to ``high``."""

    width: float
    low: float
    high: float


def bins(values: Floats) -> Bins:
    """Return at most MOST_BINS + 1 bins of a round width for finite values."""
    low = float(values.min())
    high = float(values.max())
    least_width = (high - low) / MOST_BINS
    largest = max(abs(low), abs(high))
    # All values are equal, but for rounding errors: they get a single bin.
    if least_width <= largest * LEAST_VARIED:
        # Beside a value such as 1e20, an edge 0.5 away would be the value itself.
        half = max(0.5, largest * 1e-6)
        return Bins(width=2 * half, low=low - half, high=low + half)
    # The first round width that is not below the least one
    power = 10.0 ** np.floor(np.log10(least_width))
    round_widths = [float(power * factor) for factor in (1, 2, 2.5, 5, 10)]
    width = next(width for width in round_widths if width >= least_width)
    # Edges are multiples of the width. A bin does not contain its upper edge, so that a highest
    # value on an edge needs one more bin.
    first_edge = np.floor(low / width) * width
    last_edge = (np.floor(high / width) + 1) * width
    return Bins(width, float(first_edge), float(last_edge))


class Counts(NamedTuple):
    """Numbers of values in bins, without empty bins; float64 (B,) each."""

    starts: Floats
    ends: Floats
    numbers: Floats


def counts(values: Floats, bins: Bins) -> Counts:
    """Return how many of the finite values are in each bin that is not empty."""
    last = round((bins.high - bins.low) / bins.width) - 1  # index of the last bin
    # Vega, which draws the interactive chart, adds 1e-14, too: a value on an edge, perhaps off by
    # a rounding error, is in the same bin in both drawings.
    indices = np.floor(1e-14 + (values - bins.low) / bins.width)
    indices = np.clip(indices.astype(np.int64), 0, last)
    numbers = np.bincount(indices)
    present = np.flatnonzero(numbers)
    edges = bins.low + bins.width * np.arange(last + 2, dtype=np.float64)
    return Counts(
        starts=edges[present],
        ends=edges[present + 1],
        numbers=numbers[present].astype(np.float64),
    )


def unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names of ASCII letters, digits and ``_``, "unnamed" if none remains.

    They are cut to LONGEST_NAME. Names that differ at most in case get ``_2``, ``_3``, … appended.
    """
    # Vega takes ``.``, ``[]`` and quotes for a path; some file systems ignore upper and lower case.
    used_names: set[str] = set()
    result = []
    for name in names:
        safe_name = _UNSAFE.sub("_", name).strip("_")[:LONGEST_NAME] or "unnamed"
        candidate = safe_name
        number = 2
        while candidate.lower() in used_names:
            candidate = f"{safe_name}_{number}"
            number += 1
        used_names.add(candidate.lower())
        result.append(candidate)
    return result


def label(text: str, longest: int = 40) -> str:
    """Return one printable line of at most ``longest`` characters; keep a ``Message`` as it is."""
    if isinstance(text, Message):
        return text
    return one_line(text, longest)


def finite_or_none(value: float, digits: int = 6) -> float | None:
    """Round to ``digits`` significant digits; return None for NaN and infinity."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def records(columns: Mapping[str, Floats | Sequence[Any]]) -> list[dict[str, Any]]:
    """Return one dict per row of equally long columns; ``finite_or_none`` rounds arrays."""
    rows = zip(*map(_json_values, columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _json_values(column: Floats | Sequence[Any]) -> Sequence[Any]:
    """Return an array as a list of numbers that JSON can hold, any other column as it is."""
    if isinstance(column, np.ndarray):
        return [finite_or_none(value) for value in column.tolist()]
    return column


class KeyEntry(NamedTuple):
    """A curve or an area in the key of its chart."""

    title: str
    style: Style
    is_area: bool = False

    def sample(self) -> str:
        """Return a short line, or a filled box, in the style, as SVG."""
        colour, dash = self.style
        if self.is_area:
            return (
                '<svg width="14" height="10" aria-hidden="true"><path d="M0 0h14v10h-14z" '
                f'fill="var({sentinels()[colour]})"/></svg>'
            )
        lengths = ",".join(map(str, dash))
        dashes = f' stroke-dasharray="{lengths}"' if dash[1:] != (0,) else ""
        return (
            '<svg width="22" height="8" aria-hidden="true"><path d="M0 4h22" '
            f'stroke="var({sentinels()[colour]})" stroke-width="{LINE}"{dashes}/></svg>'
        )


Rows = Sequence[Mapping[str, Any]]
PageSlot = Literal["lead", "reward", "open", "time", "more"]


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
    # whether the page may replace the SVG by an interactive Vega chart
    interactive: bool = True
    # (severity, legend text) of each finding (detected problem) whose steps are shaded
    shaded: tuple[tuple[str, str], ...] = ()
    # heading of the group of charts that this one belongs to, "" for none
    group: str = ""
    # second name: findings refer to this chart if no chart is named so
    subject: str = ""
    term: str = ""  # key of the definition of what it shows, "" without one
    # section of the overview: ``lead`` (on top), ``reward``, ``open``, ``time``, ``more`` (folded)
    place: PageSlot = "open"
    # how noisy curves are smoothed, with the logged values behind them; "" if none is
    smoothing: str = ""
    # names of the curves with their styles, above the plot; empty where the plot has the names
    key: tuple[KeyEntry, ...] = ()
    # first and last step that are shown, if they are those around an event, else None
    focus: tuple[float, float] | None = None
    # the first curve over all steps as an SVG, if the chart has a focus
    whole: str = ""
    png: bytes = b""  # picture for mail and Markdown, b"" until it is drawn

    def sized(self, size: str) -> Chart:
        """Return a copy whose specifications are ``WIDTH[size]`` wide; ``svg`` is not redrawn."""
        padding = self.vega["padding"]
        plot_width = {"width": WIDTH[size] - padding["left"] - padding["right"]}
        return replace(
            self,
            wide=size == "wide",
            spec=self.spec | plot_width,
            vega=self.vega | plot_width,
        )


def fill(
    design: str,
    data: Mapping[str, Rows],
    axes: tuple[Axis, Axis],
    placeholders: Mapping[str, Any] | None = None,
    *,
    size: str = "half",
    right: int = RIGHT,
) -> tuple[Spec, Spec]:
    """Return the (Vega-Lite, Vega) forms of a design (chart template), filled with data.

    The Vega form is {} for charts that ``draw.direct`` draws.

    Args:
        design: name of the design.
        data: layer name -> rows of a layer that has data of its own; ``rows`` -> those of all
            other layers.
        axes: the x and the y axis.
        placeholders: further placeholder -> value, such as "$bins.step".
        size: a key of ``theme.WIDTH`` and ``theme.HEIGHT``.
        right: padding right of the plot, in pixels.
    """
    forms = _forms(design)
    x, y = axes
    values = dict(placeholders or {})
    values |= x.placeholders("x", usual_count=6)
    values |= y.placeholders("y", usual_count=5)
    # Padding contains titles and labels, the width and the height are those of the plot alone.
    measures = {
        "width": WIDTH[size] - PADDING["left"] - right,
        "height": plot_height(size),
        "padding": {**PADDING, "right": right},
    }
    spec = forms["spec"].filled(values) | measures
    _put_rows_into_layers(spec, data)
    if "vega" not in forms:
        return spec, {}
    vega = forms["vega"].filled(values) | measures
    for source in vega["data"]:
        # Sources that name another source get their rows from it.
        if "source" not in source:
            source["values"] = list(data.get(source["name"], ()))
    return spec, vega


def _put_rows_into_layers(spec: Spec, data: Mapping[str, Rows]) -> None:
    """Give a Vega-Lite chart and its layers their rows, in place; ``data`` as for ``fill``.

    Layers with data of their own are removed if they have no rows.
    """
    spec["data"] = {"values": list(data["rows"])}
    layers = []
    for layer in spec["layer"]:
        if "data" in layer:
            rows = data.get(layer["name"])
            if not rows:
                continue
            layer["data"] = {"values": list(rows)}
        layers.append(layer)
    spec["layer"] = layers


def plot_height(size: str) -> int:
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def layer_named(spec: Spec, name: str) -> Spec:
    layer: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)
    return layer


class _Form(NamedTuple):
    """A form of a design, with the places at which copies of it differ."""

    packed: bytes  # JSON, of which copies are made faster than of the objects
    # (key of a dict or index of a list on each level, the text there) of each placeholder and title
    places: list[tuple[Sequence[Any], str]]

    def filled(self, values: Mapping[str, Any]) -> Spec:
        """Return a copy with ``values`` for placeholders; one with the value None is left out."""
        spec: Spec = orjson.loads(self.packed)
        for (*parents, key), text in self.places:
            node: Any = spec
            for parent in parents:
                node = node[parent]
            is_alone = isinstance(node[key], list)
            if text not in values:
                # Titles are translated; the catalogue has those of designs.
                if key == "title" and not is_alone:
                    node[key] = message(text)
            elif values[text] is None and isinstance(node, dict) and not is_alone:
                del node[key]
            else:
                node[key] = values[text]
        return spec


def _places(node: Any, *path: Any) -> Iterator[tuple[Sequence[Any], str]]:
    """Yield the path and the text of each placeholder, such as "$x.low", and of each title."""
    if isinstance(node, dict):
        for key, inner in node.items():
            yield from _places(inner, *path, key)
    elif isinstance(node, list):
        # Domains and ranges are lists of one placeholder, whose value is the whole list.
        only = node[0] if len(node) == 1 else None
        if isinstance(only, str) and only.startswith("$"):
            yield path, only
            return
        for index, inner in enumerate(node):
            yield from _places(inner, *path, index)
    elif isinstance(node, str) and (node.startswith("$") or path[-1] == "title"):
        yield path, node


@cache
def _forms(design: str) -> dict[str, _Form]:
    """Return name -> form of a design, as JSON to be filled, with the places of its data."""
    return {
        name: _Form(orjson.dumps(form), list(_places(form)))
        for name, form in _designs()[design].items()
    }


@cache
def _designs() -> dict[str, Spec]:
    """Return name -> forms of a design, ``spec`` (Vega-Lite) and, but for some, ``vega``.

    They are compiled now if the file is missing or older than its sources.
    """
    content = orjson.loads(DESIGNS.read_bytes()) if DESIGNS.exists() else {}
    if content.get("sources") != design_sources():
        from rlreport.draw.designs import compile_designs  # imports Altair

        content = orjson.loads(compile_designs())
    designs: dict[str, Spec] = content["designs"]
    return designs
