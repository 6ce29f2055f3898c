"""Render charts with Vega, as SVG that follows the page's theme.

The SVG has no style attribute, style element or script, so that the strictest
Content-Security-Policy allows it; equal input gives equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from rlreport.draw.chart import Chart
from rlreport.draw.theme import FONT, SMALL, Spec, sentinels
from rlreport.text.clean import printable
from rlreport.text.language import ENGLISH, Language

DENSITY = 2
"""Pixels of a picture per pixel of the drawing, for high-resolution screens."""

SVG = "{http://www.w3.org/2000/svg}"
_TAGS = {"g", "path", "line", "text", "tspan", "defs", "clipPath", "rect"}
_INHERITED = [
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-opacity",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linejoin",
    "font-size",
    "text-anchor",
]
_GEOMETRY = {"d", "transform", "x", "y", "x2", "y2", "width", "height"}
_KEPT = {*_INHERITED, *_GEOMETRY, "opacity", "clip-path", "id"}
_DEFAULTS = {
    ("opacity", "1"),
    ("transform", "translate(0,0)"),
    ("fill", "transparent"),
    ("font-size", "0px"),  # attributes of texts that were not measured
}
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
_TEXT_SIZE = re.compile(r'("(?:labelFontSize|titleFontSize|fontSize)":(?:\{"value":)?)\d+')


def drawn(charts: Sequence[Chart], language: Language = ENGLISH) -> list[Chart]:
    """Return the charts with their SVG, texts in the given language.

    Raises:
        ValueError: Vega refused a chart.
    """
    result = []
    for chart in charts:
        # Measuring every text would take most of Vega's time, and no place depends on it.
        unmeasured = {**language.of(chart.vega), "background": None}
        drawing = _svg(_TEXT_SIZE.sub(r"\g<1>0", _json(unmeasured)))
        svg = _themed(drawing, chart.name, language.of(chart.description))
        result.append(replace(chart, svg=svg))
    return result


def drawn_alone(chart: Chart) -> Chart:
    """Return a chart of any Vega-Lite specification with Vega and SVG, laid out by Vega.

    Raises:
        ValueError: Vega rejected the chart.
    """
    import vl_convert  # starts V8

    vega = vl_convert.vegalite_to_vega(_json(chart.spec))
    svg = _themed(_svg(_json(vega)), chart.name, chart.description)
    return replace(chart, vega=vega, svg=svg)


def png(chart: Chart, width: int, font: str = FONT) -> bytes:
    """Draw a chart as PNG in light colours, for mail and Markdown.

    Args:
        chart: the chart.
        width: width of the drawing in CSS pixels; the picture is DENSITY times as wide.
        font: font of its texts.

    Raises:
        ValueError: Vega rejected the chart.
    """
    import vl_convert  # starts V8

    padding = chart.vega["padding"]
    text = _json({**chart.vega, "width": width - padding["left"] - padding["right"]})
    text = text.replace(f'"{FONT}"', f'"{font}"')
    picture: bytes = vl_convert.vega_to_png(text, scale=DENSITY, allowed_base_urls=[])
    return picture


def _svg(specification: str) -> ET.Element:
    import vl_convert  # starts V8

    return ET.XML(vl_convert.vega_to_svg(specification, allowed_base_urls=[]))


def _json(vega: Spec) -> str:
    """Return JSON with printable texts only, as NUL would abort the process in vl-convert."""
    return orjson.dumps(_printable(vega)).decode()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return value


def _themed(drawing: ET.Element, name: str, words: str) -> str:
    """Return a minimal SVG of a drawn chart, with colours of the page's theme."""
    root = ET.Element(
        "svg",
        {
            "xmlns": SVG[1:-1],
            "viewBox": drawing.attrib["viewBox"],
            "width": "100%",
            "role": "img",
            "aria-label": printable(words),
            "fill": "none",
            "font-size": str(SMALL),
        },
    )
    root.extend(_cleaned(drawing, f"{name}-", sentinels()))
    return ET.tostring(root, encoding="unicode")


def _cleaned(element: ET.Element, prefix: str, variables: dict[str, str]) -> list[ET.Element]:
    """Return the element's children without redundant attributes and groups.

    Groups without attributes are replaced by their children; attributes that all children of a
    group share are moved to the group.

    Args:
        element: element drawn by Vega.
        prefix: prefix of ids, so that charts can share a document.
        variables: colour in the drawing → CSS custom property that replaces it.
    """
    result: list[ET.Element] = []
    for child in element:
        tag = child.tag.removeprefix(SVG)
        if tag not in _TAGS or child.get("display") == "none" or child.get("class") == "background":
            continue
        inner = _cleaned(child, prefix, variables)
        attributes = _attributes(child, prefix, variables)
        if tag in ("g", "defs") and not inner:
            continue
        if tag == "g":
            attributes |= _hoisted(inner)
            if "mark-rect" in child.get("class", ""):
                attributes["shape-rendering"] = "crispEdges"  # avoids seams between cells
            if not attributes:
                result.extend(inner)
                continue
        copy = ET.Element(tag, attributes)
        copy.text = child.text
        copy.extend(inner)
        result.append(copy)
    return result


def _attributes(element: ET.Element, prefix: str, variables: dict[str, str]) -> dict[str, str]:
    attributes = {}
    for key, value in element.attrib.items():
        if key not in _KEPT or (key, value) in _DEFAULTS:
            continue
        if key in _GEOMETRY:
            attributes[key] = _in_tenths(value)
        elif key in ("fill", "stroke"):
            attributes[key] = f"var({variables[value]})" if value in variables else value
        elif key == "id":
            attributes[key] = prefix + value
        else:
            attributes[key] = value.replace("url(#", f"url(#{prefix}").removesuffix("px")
    return attributes


@lru_cache(maxsize=4096)  # symbols of one size and ticks of one axis are equal
def _in_tenths(geometry: str) -> str:
    return _NUMBER.sub(lambda number: f"{round(float(number[0]), 1) + 0.0:g}", geometry)


def _hoisted(children: Sequence[ET.Element]) -> dict[str, str]:
    """Remove the inheritable attributes that all of several children share, and return them."""
    if len(children) < 2:
        return {}
    shared = {}
    for key in _INHERITED:
        value = children[0].get(key)
        if value is not None and all(child.get(key) == value for child in children):
            shared[key] = value
            for child in children:
                del child.attrib[key]
    return shared
