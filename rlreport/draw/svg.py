"""Bakes charts to SVG that follows the page's theme, or one to a PNG.

This module needs neither pandas nor Altair, so a process that only draws starts fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rlreport.draw.chart import Chart
from rlreport.draw.drawing import Drawing, draw, drawing
from rlreport.draw.engine import convert
from rlreport.draw.layout import Spec, total_size
from rlreport.draw.stencil import stencil_of
from rlreport.draw.still import still
from rlreport.draw.theme import Theme, sentinels, tokens
from rlreport.text.clean import printable


def baked(charts: Iterable[Chart]) -> list[Chart]:
    """The charts with their SVG drawn, one for both themes.

    Colours become CSS custom properties, fonts the page's. The SVG has no style attribute,
    style element or script, so the strictest Content-Security-Policy lets it pass; the same
    input gives the same bytes.

    Raises:
        ValueError: Vega-Lite refused a specification.
    """
    drawn = list(charts)
    svgs = draw([_drawing(chart) for chart in drawn])
    return [replace(chart, svg=svg) for chart, svg in zip(drawn, svgs, strict=True)]


def _drawing(chart: Chart) -> Drawing:
    shown = _printable(chart.spec)
    vega = stencil_of(shown).filled(shown, shown["data"]["values"])
    return drawing(chart.name, printable(chart.description), shown, vega)


def png(spec: Spec, width: int, theme: Theme = "light") -> bytes:
    """Draws a specification as PNG, ``width`` pixels wide, for mail and Markdown.

    Raises:
        ValueError: Vega-Lite refused the specification.
    """
    text = json.dumps(_printable(still(spec)))
    if theme == "dark":
        dark = tokens("dark")
        for colour, variable in sentinels().items():
            text = text.replace(f'"{colour}"', f'"{dark[variable.removeprefix("--")]}"')
    scale = width / total_size(spec)[0]
    drawn: bytes = convert("vegalite_to_png", text, scale=scale, allowed_base_urls=[])
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
