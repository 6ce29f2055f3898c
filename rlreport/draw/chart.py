"""Charts, and the designs (templates) that are filled with their data.

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

PAGE_ROWS = {"name": "rows"}
"""Data of a specification whose rows are provided by the page."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart as pages use it.

    Attributes:
        name: stable id, also the file name in ``data/charts/<name>.vl.json``.
        description: one or two sentences with the figures, for screen readers.
        spec: Vega-Lite with its data inline, or with the dataset ``rows`` of the page.
        vega: Vega of what is drawn on paper.
        svg: the chart drawn, themed by CSS custom properties, no script, no style element.
        wide: spans the page's width (True) or half of it.
        interactive: the page may replace the SVG by Vega.
        shaded: severity and words of each finding whose steps are shaded.
        group: heading that the chart stands under, "" for the page's own charts.
        subject: name of the chart on the same subject, which findings name instead.
        place: of the overview: ``lead`` and ``reward`` stand alone, ``more`` is folded.
        smoothed: whether curves are smoothed, with the logged values behind.
    """

    name: str
    title: str
    description: str
    spec: Spec
    vega: Spec
    svg: str = ""
    wide: bool = False
    interactive: bool = True
    shaded: tuple[tuple[str, str], ...] = ()
    group: str = ""
    subject: str = ""
    place: Place = "open"
    smoothed: bool = False

    def sized(self, size: str) -> Chart:
        """Return the chart with another width; its height stays."""
        sides = self.vega["padding"]
        width = {"width": WIDTH[size] - sides["left"] - sides["right"]}
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
    """Fill a design.

    Args:
        design: its name.
        data: layer -> its rows, and ``rows`` for all layers without their own data; layers whose
            own rows are missing or empty are left out.
        axes: x and y.
        placeholders: further placeholders of the design → their values.
        size: ``step``, ``half`` or ``wide``.
        right: pixels right of the plot, for direct labels.

    Returns:
        Vega-Lite with interaction, and Vega of the static drawing.
    """
    forms = _designs()[design]
    values = dict(placeholders or {})
    for channel, axis, ticks in zip("xy", axes, (6, 5), strict=True):
        values |= axis.placeholders(channel, ticks)
    spec, vega = (
        {
            **_replaced(forms[form], values),
            "width": WIDTH[size] - PADDING["left"] - right,
            "height": plot_height(size),
            "padding": {**PADDING, "right": right},
        }
        for form in ("spec", "vega")
    )
    spec["data"] = {"values": list(data["rows"])}
    spec["layer"] = [x for x in spec["layer"] if "data" not in x or data.get(x["name"])]
    for layer in spec["layer"]:
        if "data" in layer:
            layer["data"] = {"values": list(data[layer["name"]])}
    for source in vega["data"]:
        if "source" not in source:
            source["values"] = list(data.get(source["name"], ()))
    return spec, vega


def plot_height(size: str) -> int:
    """Return the height of the plot inside its padding, in pixels."""
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def layer_named(spec: Spec, name: str) -> Spec:
    """Return the layer ``name`` of a Vega-Lite specification."""
    layer: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)
    return layer


def _replaced(node: Any, values: Mapping[str, Any], key: str = "") -> Any:
    """Copy a part of a design with placeholders replaced; keys whose value is None are dropped."""
    if isinstance(node, dict):
        return {
            key: _replaced(inner, values, key)
            for key, inner in node.items()
            if not isinstance(inner, str) or values.get(inner, inner) is not None
        }
    if isinstance(node, list):
        if len(node) == 1 and isinstance(node[0], str) and node[0] in values:
            return values[node[0]]
        return [_replaced(inner, values) for inner in node]
    if isinstance(node, str):
        return values[node] if node in values else message(node) if key == "title" else node
    return node


@cache
def _designs() -> dict[str, Spec]:
    """Return all designs: ``spec`` is Vega-Lite, ``vega`` the static form; do not modify them."""
    stored = orjson.loads(DESIGNS.read_bytes()) if DESIGNS.exists() else {}
    if stored.get("sources") != design_sources():
        from rlreport.draw.designs import compile_designs  # imports Altair

        text = compile_designs()
        stored = orjson.loads(text)
        part = DESIGNS.with_suffix(f".{os.getpid()}.part")  # several processes may write at once
        with suppress(OSError):  # a read-only installation compiles in every process
            part.write_bytes(text)
            part.replace(DESIGNS)
    designs: dict[str, Spec] = stored["designs"]
    return designs
