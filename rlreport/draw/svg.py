"""Bakes a specification to an SVG that follows the page's theme, or to a PNG.

This module needs neither pandas nor Altair, so a process that only draws starts fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rlreport.draw.chart import Chart
from rlreport.draw.layout import Spec, copied, total_width
from rlreport.draw.letters import letters, without_text
from rlreport.draw.shrink import shrink
from rlreport.draw.theme import Theme, sentinels, tokens
from rlreport.draw.words import printable

INTERACTION = "interaction"
"""Layers whose name starts so only serve the pointer; they are not baked."""


def still(spec: Spec) -> Spec:
    """The specification without what only serves the reader's hand: hover, brushes, switches.

    A switch (a parameter bound to an input) goes with all that refers to it: transforms of
    layers, and ``domainMin`` and ``domainMax``, which only override a scale's ``domain``.
    """
    kept = copied({key: value for key, value in spec.items() if key != "params"})
    switches = [param["name"] for param in spec.get("params", []) if "bind" in param]
    layers = [x for x in kept["layer"] if not x.get("name", "").startswith(INTERACTION)]
    for layer in layers:
        if switches:
            layer["transform"] = [
                step
                for step in layer.get("transform", [])
                if not any(switch in step.get("calculate", "") for switch in switches)
            ]
            for channel in ("x", "y"):
                scale = layer["encoding"].get(channel, {}).get("scale") or {}
                scale.pop("domainMin", None)
                scale.pop("domainMax", None)
    return {**kept, "layer": layers}


def start_drawing() -> None:
    """Starts the drawing engine, which takes a third of a second, before the first chart."""
    import vl_convert

    vl_convert.vega_to_svg({"width": 1, "height": 1}, allowed_base_urls=[])


def bake(spec: Spec, name: str, description: str) -> str:
    """Draws a specification as one SVG for both themes.

    Colours become CSS custom properties, fonts the page's. The SVG has no style attribute,
    style element or script, so the strictest Content-Security-Policy lets it pass; the same
    input gives the same bytes.

    Args:
        spec: Vega-Lite in the light theme's colours, data inline.
        name: id of the chart; ids inside the SVG start with it.
        description: text alternative.

    Raises:
        ValueError: Vega-Lite refused the specification.
    """
    import vl_convert  # starts V8

    shown = _printable(still(spec))
    bare = json.dumps(without_text(shown))
    drawn: str = vl_convert.vegalite_to_svg(bare, allowed_base_urls=[])
    return shrink(drawn, name, printable(description), sentinels(), letters(shown))


def baked(charts: Iterable[Chart]) -> list[Chart]:
    """The charts with their SVG drawn; those that have one already are left as they are."""
    return [
        chart if chart.svg else replace(chart, svg=bake(chart.spec, chart.name, chart.description))
        for chart in charts
    ]


def png(spec: Spec, width: int, theme: Theme = "light") -> bytes:
    """Draws a specification as PNG, ``width`` pixels wide, for mail and Markdown.

    Raises:
        ValueError: Vega-Lite refused the specification.
    """
    import vl_convert  # starts V8

    text = json.dumps(_printable(still(spec)))
    if theme == "dark":
        dark = tokens("dark")
        for colour, variable in sentinels().items():
            text = text.replace(f'"{colour}"', f'"{dark[variable.removeprefix("--")]}"')
    scale = width / total_width(spec)
    drawn: bytes = vl_convert.vegalite_to_png(text, scale=scale, allowed_base_urls=[])
    return drawn


def _printable(value: Any) -> Any:
    """JSON with every text printable: a NUL in a label would abort vl-convert's whole process."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return value
