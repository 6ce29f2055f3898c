"""The class ``Chart``, and ``fill``, which fills a design (a chart template) with data.

A design has two forms with the same placeholders: Vega-Lite for export and for interactive charts
on pages, and Vega for static drawing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import orjson

from rlreport.draw.theme import DESIGNS, HEIGHT, PADDING, WIDTH, Spec, design_sources
from rlreport.text.messages import message

if TYPE_CHECKING:  # designs are compiled without NumPy
    from rlreport.draw.axes import Axis

Rows = Sequence[Mapping[str, Any]]
Place = Literal["lead", "reward", "open", "more"]

# Value of ``data`` in a specification whose rows the page's script provides
PAGE_ROWS = {"name": "rows"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its data, in the forms that pages use."""

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
    # section of the overview page: ``lead`` (most prominent), ``reward``, ``open``, or ``more``
    # (collapsed)
    place: Place = "open"
    smoothed: bool = False  # whether curves are smoothed, with the logged values behind them

    def sized(self, size: str) -> Chart:
        """Return a copy of the same height, as wide as ``WIDTH[size]``."""
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
    """Fill both forms (Vega-Lite and Vega) of a design, which is a chart template, with data.

    Args:
        design: name of the design.
        data: rows by layer name; ``rows`` is for all layers without their own data. A layer whose
            own rows are missing or empty is left out.
        axes: x and y axis.
        placeholders: placeholder -> its value, such as ``$series.key``; not those of the axes.
        size: size of the chart: ``step``, ``half`` or ``wide``.
        right: padding right of the plot in pixels, where names of curves are drawn.

    Returns:
        Vega-Lite with interaction, and Vega of the static drawing; the latter is empty for the
        small charts of step pages, which ``draw.direct`` draws.
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
    """Return the height of a chart's plot area, without the padding, in pixels."""
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def layer_named(spec: Spec, name: str) -> Spec:
    """Return the layer ``name`` of a Vega-Lite specification."""
    layer: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)
    return layer


def _fill_placeholders(node: Any, values: Mapping[str, Any], key: str = "") -> Any:
    """Copy part of a chart template with values filled in; drop keys whose value becomes None."""
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
    """Return name -> {"spec": Vega-Lite, "vega": Vega} of each chart template; do not modify."""
    content = orjson.loads(DESIGNS.read_bytes()) if DESIGNS.exists() else {}
    if content.get("sources") != design_sources():
        from rlreport.draw.designs import compile_designs  # imports Altair

        text = compile_designs()
        content = orjson.loads(text)
        path = DESIGNS.with_suffix(f".{os.getpid()}.part")  # several processes may write at once
        with suppress(OSError):  # a read-only installation compiles in every process
            path.write_bytes(text)
            path.replace(DESIGNS)
    designs: dict[str, Spec] = content["designs"]
    return designs
