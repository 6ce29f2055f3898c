"""Render charts with Vega: PNG in light colours, or SVG that follows the page's theme.

The SVG has no style attribute, style element or script, so that the strictest
Content-Security-Policy allows it; equal input gives equal bytes.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from rlreport.draw.chart import Chart, KeyEntry
from rlreport.draw.fluid import NotFluidError, fluid, is_fluid
from rlreport.draw.theme import FONT, LIGHT, SMALL, Spec, sentinels
from rlreport.draw.vega import convert, start_converting
from rlreport.text.clean import printable
from rlreport.text.language import ENGLISH, Language

_PNG = b"\x89PNG\r\n\x1a\n"  # the first bytes of a PNG
DENSITY = 2  # Scale of PNG pictures: pixels per CSS pixel, for high-resolution screens

# The key of a picture, in pixels: a row, a line with what is around it, the width of a character
_KEY_ROW = 16
_KEY_SAMPLE = 44
_KEY_CHARACTER = 6

SVG = "{http://www.w3.org/2000/svg}"
_TAGS = {"g", "path", "line", "text", "tspan", "defs", "clipPath", "rect"}
_GEOMETRY = {"d", "transform", "x", "y", "x2", "y2", "width", "height"}
_ALLOWED_ATTRIBUTES = {
    *_GEOMETRY,
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-opacity",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linejoin",
    "font-size",
    "text-anchor",
    "opacity",
    "clip-path",
    "id",
}
_DEFAULTS = {
    ("opacity", "1"),
    ("transform", "translate(0,0)"),
    ("fill", "transparent"),
    ("font-size", "0px"),  # ``drawn`` sets all font sizes to 0
}
_LINK = f"{SVG}a"
_ADDRESS = "{http://www.w3.org/1999/xlink}href"
_SAFE_ADDRESSES = ("https://", "http://", "mailto:")
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
# A control character in JSON, or what only looks like one
_ESCAPED = re.compile(r"\\[bfru]")
_TEXT_SIZE = re.compile(
    r'("(?:labelFontSize|titleFontSize|fontSize)":(?:\{"value":)?)\d+'
)


def drawn(charts: Sequence[Chart], language: Language = ENGLISH) -> list[Chart]:
    """Return the charts with ``svg`` rendered where it is missing, with texts in ``language``."""
    return start_drawing(charts, language)()


def start_drawing(
    charts: Sequence[Chart], language: Language
) -> Callable[[], list[Chart]]:
    """Start to draw what ``drawn`` returns; return a function that waits for it."""
    specifications = [
        _fast_specification(chart, language) for chart in charts if not chart.svg
    ]
    drawings = start_converting("vega_to_svg", specifications, allowed_base_urls=[])

    def result() -> list[Chart]:
        drawing = iter(drawings())  # of each chart that has none
        return [
            chart if chart.svg else _with_svg(chart, next(drawing), language)
            for chart in charts
        ]

    return result


def _fast_specification(chart: Chart, language: Language) -> str:
    """Return a chart's specification as JSON, with all texts of font size 0.

    So Vega need not measure them, which would take most of its time; the layout does not depend on
    their widths, and the root of the SVG sets the real size.
    """
    specification = {**language.of(chart.vega), "background": None}
    return _TEXT_SIZE.sub(r"\g<1>0", _json(specification))


def _with_svg(chart: Chart, drawing: str, language: Language) -> Chart:
    description = language.of(chart.description)
    svg = _page_svg(ET.XML(drawing), chart.name, description, chart.vega)
    return replace(chart, svg=svg)


def drawn_alone(chart: Chart) -> Chart:
    """Return a custom chart with ``vega`` compiled from its ``spec``, and ``svg`` rendered.

    Image marks raise a ValueError, as the renderer would omit them without an error; so do links
    that do not lead to web or mail addresses, as they could run scripts.
    """
    vega = convert("vegalite_to_vega", _json(chart.spec))
    drawing = ET.XML(convert("vega_to_svg", _json(vega), allowed_base_urls=[]))
    if any("mark-image" in element.get("class", "") for element in drawing.iter()):
        raise ValueError("the chart has image marks, but reports cannot load images")
    for link in drawing.iter(_LINK):
        address = link.get(_ADDRESS, "")
        if not address.lower().startswith(_SAFE_ADDRESSES):
            raise ValueError(
                f"the chart has a link to {address!r}, which is no web address"
            )
    return replace(
        chart, vega=vega, svg=_page_svg(drawing, chart.name, chart.description)
    )


def png(chart: Chart, width: int, font: str = FONT) -> bytes:
    """Return a chart as PNG in light colours, ``width`` × DENSITY pixels wide.

    ``font`` replaces the usual font, which may lack the characters of a language.
    """
    # Vega's width is that of the plot, without the padding.
    padding = chart.vega["padding"]
    plot = width - padding["left"] - padding["right"]
    text = _json(_with_key({**chart.vega, "width": plot}, chart.key))
    text = text.replace(f'"{FONT}"', f'"{font}"')
    picture: bytes = convert("vega_to_png", text, scale=DENSITY, allowed_base_urls=[])
    return picture


def _with_key(vega: Spec, key: Sequence[KeyEntry]) -> Spec:
    """Return a specification with the key of its curves below the plot, in rows."""
    marks = []
    x = 0
    y = vega["height"] + vega["padding"]["bottom"] + _KEY_ROW // 2
    for entry in key:
        length = _KEY_SAMPLE + len(entry.title) * _KEY_CHARACTER
        if x and x + length > vega["width"]:
            x = 0
            y += _KEY_ROW
        colour, dash = entry.style
        line = {"x": x, "x2": x + 22, "y": y}
        line |= {"stroke": colour, "strokeDash": dash}
        text = {"x": x + 28, "y": y + 4}
        text |= {"text": entry.title, "fill": LIGHT["text"]}
        for kind, values in (("rule", line), ("text", text | {"fontSize": SMALL})):
            encoded = {name: {"value": value} for name, value in values.items()}
            marks.append({"type": kind, "encode": {"enter": encoded}})
        x += length
    if not marks:
        return vega
    bottom = y + _KEY_ROW // 2 - vega["height"]
    padding = {**vega["padding"], "bottom": bottom}
    return {**vega, "marks": [*vega["marks"], *marks], "padding": padding}


def svg_png(drawing: str) -> bytes:
    """Return an SVG of our own as PNG, DENSITY pixels for each of its own."""
    picture: bytes = convert("svg_to_png", drawing, scale=DENSITY)
    return smaller_png(picture)


def smaller_png(png: bytes) -> bytes:
    """Return a PNG with the same pixels, compressed as far as zlib can: to about a third.

    vl-convert compresses for speed.
    """
    head = b""
    packed = b""
    at = len(_PNG)
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind = png[at + 4 : at + 8]
        if kind == b"IDAT":
            packed += png[at + 8 : at + 8 + size]
        elif kind != b"IEND":
            head += png[at : at + 12 + size]
        at += 12 + size
    data = zlib.compress(zlib.decompress(packed), 9)
    return _PNG + head + _png_chunk(b"IDAT", data) + _png_chunk(b"IEND", b"")


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def _json(vega: Spec) -> str:
    """Return a specification as JSON, without characters that XML cannot hold."""
    with suppress(TypeError):  # a lone surrogate
        text = orjson.dumps(vega).decode()
        if not _ESCAPED.search(text) and printable(text) == text:
            return text
    return orjson.dumps(_make_printable(vega)).decode()


def _make_printable(value: Any) -> Any:
    """Return a specification whose texts have no control characters, which XML cannot hold."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _make_printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_make_printable(inner) for inner in value]
    return value


def _page_svg(
    drawing: ET.Element, name: str, description: str, vega: Spec | None = None
) -> str:
    """Return Vega's drawing as SVG for a page: simplified, with colours that follow the theme.

    ``vega``: the specification of one of our designs, whose drawing is as wide as its place.
    """
    variables = sentinels()
    root_attributes = {
        "xmlns": SVG[1:-1],  # without braces
        "role": "img",
        "aria-label": printable(description),
        "fill": "none",
        "font-size": str(SMALL),
    }
    if vega is not None and is_fluid(vega):

        def attributes(element: ET.Element) -> dict[str, str]:
            return _attributes(element, f"{name}-", variables)

        with suppress(NotFluidError):
            root = fluid(drawing, vega, attributes, root_attributes)
            return ET.tostring(root, encoding="unicode")
    root_attributes |= {"viewBox": drawing.attrib["viewBox"], "width": "100%"}
    root = ET.Element("svg", root_attributes)
    root.extend(_simplify(drawing, f"{name}-", variables))
    return ET.tostring(root, encoding="unicode")


def _simplify(
    element: ET.Element, prefix: str, variables: dict[str, str]
) -> list[ET.Element]:
    """Return what a page needs of an element's children: no invisible elements, no plain groups.

    ``prefix`` makes ids unique on the page; ``variables``: colour -> CSS property, ``sentinels``.
    """
    result: list[ET.Element] = []
    for child in element:
        tag = child.tag.removeprefix(SVG)
        if tag == "a":
            # The static drawing has a link's marks only; in the interactive one links work.
            result.extend(_simplify(child, prefix, variables))
            continue
        if tag not in _TAGS or _is_invisible(child):
            continue
        inner = _simplify(child, prefix, variables)
        if tag in ("g", "defs") and not inner:
            continue
        attributes = _attributes(child, prefix, variables)
        if tag == "g" and "mark-rect" in child.get("class", ""):
            attributes["shape-rendering"] = "crispEdges"  # avoids seams between cells
        # A group without attributes does nothing: its elements take its place.
        if tag == "g" and not attributes:
            result.extend(inner)
            continue
        copy = ET.Element(tag, attributes)
        copy.text = child.text
        copy.extend(inner)
        result.append(copy)
    return result


def _is_invisible(element: ET.Element) -> bool:
    return element.get("display") == "none" or element.get("class") == "background"


def _attributes(
    element: ET.Element, prefix: str, variables: dict[str, str]
) -> dict[str, str]:
    """Return the allowed attributes of an element that differ from the default, shortened.

    For ``prefix`` and ``variables`` see ``_simplify``.
    """
    attributes = {}
    for key, value in element.attrib.items():
        if key not in _ALLOWED_ATTRIBUTES or (key, value) in _DEFAULTS:
            continue
        if key in _GEOMETRY:
            attributes[key] = _round_numbers(value)
        elif key in ("fill", "stroke") and value in variables:
            # A colour of the theme, which is another one in dark mode
            attributes[key] = f"var({variables[value]})"
        elif key in ("fill", "stroke"):
            attributes[key] = value
        elif key == "id":
            attributes[key] = prefix + value
        else:
            # A clip path is given by its id, a font size in pixels.
            text = value.replace("url(#", f"url(#{prefix}")
            attributes[key] = text.removesuffix("px")
    return attributes


@lru_cache(maxsize=4096)  # many symbols and ticks have equal geometry
def _round_numbers(geometry: str) -> str:
    return _NUMBER.sub(_rounded, geometry)


def _rounded(number: re.Match[str]) -> str:
    return f"{round(float(number[0]), 1) + 0.0:g}"  # adding 0.0 turns -0.0 into 0.0
