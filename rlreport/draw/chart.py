"""A chart: its Vega-Lite specification, its drawing and its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart as pages use it.

    Attributes:
        name: stable id, also the file name in ``data/charts/<name>.vl.json``.
        title: heading above the chart, in words, with its unit.
        description: one or two sentences with the figures, for screen readers.
        spec: Vega-Lite with its data inline (``{"data": {"values": […]}}``), safe field names.
        vega: Vega of what is drawn on paper, data and all.
        svg: the chart drawn, themed by CSS custom properties, no script, no style element.
        wide: spans the page's width (True) or half of it.
        interactive: the page may replace the SVG by Vega.
        shaded: severity and words of each finding whose steps are shaded.
        group: heading that the chart stands under, "" for the page's own charts.
    """

    name: str
    title: str
    description: str
    spec: dict[str, Any]
    vega: dict[str, Any]
    svg: str = ""
    wide: bool = False
    interactive: bool = True
    shaded: tuple[tuple[str, str], ...] = ()
    group: str = ""
