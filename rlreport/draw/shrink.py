"""Rewrites the SVG that Vega draws: a fifth of the size, themed, without ids that clash.

Vega repeats every attribute on every mark and writes coordinates with 15 digits. Here
equal attributes move to the group, runs of lines become one path, round symbols become
circles, numbers keep one decimal, and colours become custom properties.
"""

from __future__ import annotations

import re
from itertools import groupby
from xml.etree import ElementTree as ET

SVG = "http://www.w3.org/2000/svg"
_DROPPED = {
    "class",
    "role",
    "aria-hidden",
    "aria-label",
    "aria-roledescription",
    "pointer-events",
    "stroke-miterlimit",
    "font-family",
}
_INHERITED = (
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-opacity",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "font-size",
    "font-weight",
    "text-anchor",
)
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
_ROUND_SYMBOL = re.compile(r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0")
_TRANSLATE = re.compile(r"translate\(([^,()]+),([^,()]+)\)")
_CIRCLE = ("cx", "cy", "r")
_LEAST_RUN = 3
_GEOMETRY = ("d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "cx", "cy")


def shrink(svg: str, name: str, description: str, variables: dict[str, str], letters: str) -> str:
    """Rewrites ``svg`` for a page.

    Args:
        svg: as ``vl_convert.vegalite_to_svg`` returns it.
        name: ids in the result start with it, so that charts can share a document.
        description: becomes the accessible name.
        variables: colour in the drawing → CSS custom property that takes its place.
        letters: SVG texts that lie over the drawing.
    """
    source = ET.fromstring(svg)
    root = ET.Element(
        "svg",
        {
            "xmlns": SVG,
            "viewBox": source.get("viewBox", ""),
            "width": "100%",
            "role": "img",
            "aria-label": description,
            "fill": "none",
        },
    )
    root.extend(_flat(_cleaned(source, f"{name}-")))
    for element in root.iter():
        for attribute in ("fill", "stroke"):
            colour = element.get(attribute, "")
            if colour in variables:
                element.set(attribute, f"var({variables[colour]})")
    drawn = ET.tostring(root, encoding="unicode")
    return drawn.removesuffix("</svg>") + letters + "</svg>"


def _cleaned(element: ET.Element, prefix: str) -> list[ET.Element]:
    """The element's children, cleaned; groups that only hold others dissolve into them."""
    result: list[ET.Element] = []
    for child in element:
        tag = child.tag.removeprefix(f"{{{SVG}}}")
        if child.get("display") == "none" or child.get("class") == "background":
            continue
        if tag == "rect" and element.tag.endswith("svg"):
            continue  # the page shows through
        attributes = _attributes(child, prefix)
        if "mark-rect" in child.get("class", ""):
            attributes["shape-rendering"] = "crispEdges"  # no seams between cells
        inner = _cleaned(child, prefix)
        if tag in ("g", "defs") and not inner:
            continue
        if tag == "g" and not attributes:
            result.extend(inner)
            continue
        copy = ET.Element(tag, attributes)
        copy.text = child.text
        copy.extend(_flat(inner))
        if tag == "g":
            _hoist(copy)
        result.append(copy)
    return result


def _attributes(element: ET.Element, prefix: str) -> dict[str, str]:
    kept = {}
    for key, value in element.attrib.items():
        if key in _DROPPED or (key == "opacity" and value == "1"):
            continue
        if key in _GEOMETRY:
            value = _NUMBER.sub(_rounded, value)  # noqa: PLW2901
        if key == "transform" and value == "translate(0,0)":
            continue
        if key == "id":
            value = prefix + value  # noqa: PLW2901
        elif key == "clip-path":
            value = value.replace("url(#", f"url(#{prefix}")  # noqa: PLW2901
        elif key == "font-size":
            value = value.removesuffix("px")  # noqa: PLW2901
        elif (key, value) in (("fill", "none"), ("fill", "transparent")):
            value = "none"  # noqa: PLW2901
        kept[key] = value
    return kept


def _rounded(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _flat(elements: list[ET.Element]) -> list[ET.Element]:
    """Joins runs of lines, and of shapes, that look alike into one path; dots become circles."""
    result: list[ET.Element] = []
    for element in elements:
        shape = _as_path(_as_circle(element))
        last = result[-1] if result else None
        if (
            last is not None
            and shape.tag == last.tag == "path"
            and _look(shape) == _look(last)
            and "fill-opacity" not in shape.attrib  # overlaps add up only between elements
        ):
            last.set("d", last.get("d", "") + shape.get("d", ""))
        else:
            result.append(shape)
    return _gathered(result)


def _gathered(elements: list[ET.Element]) -> list[ET.Element]:
    """Puts runs of circles that look alike into a group that says their look once."""
    result: list[ET.Element] = []
    for look, run in groupby(elements, lambda e: _look(e) if e.tag == "circle" else None):
        circles = list(run)
        if look is None or len(circles) < _LEAST_RUN:
            result += circles
            continue
        group = ET.Element("g", look)
        for circle in circles:
            group.append(ET.Element("circle", {key: circle.get(key, "") for key in _CIRCLE}))
        result.append(group)
    return result


def _look(element: ET.Element) -> dict[str, str]:
    """What does not place the element; the width of a stroke that is not there is left out."""
    placing = ("d", *_CIRCLE) if "stroke" in element.attrib else ("d", "stroke-width", *_CIRCLE)
    return {key: value for key, value in element.attrib.items() if key not in placing}


def _as_circle(element: ET.Element) -> ET.Element:
    symbol = _ROUND_SYMBOL.fullmatch(element.get("d", ""))
    place = _TRANSLATE.fullmatch(element.get("transform", ""))
    if symbol is None or place is None:
        return element
    attributes = {k: v for k, v in element.attrib.items() if k not in ("d", "transform")}
    return ET.Element("circle", {"cx": place[1], "cy": place[2], "r": symbol[1], **attributes})


def _as_path(element: ET.Element) -> ET.Element:
    if element.tag != "line" or set(element.attrib) & {"x1", "y1"}:
        return element
    place = _TRANSLATE.fullmatch(element.get("transform", "translate(0,0)"))
    if place is None:
        return element
    attributes = {k: v for k, v in element.attrib.items() if k not in ("x2", "y2", "transform")}
    dx, dy = element.get("x2", "0"), element.get("y2", "0")
    run = f"v{dy}" if dx == "0" else f"h{dx}" if dy == "0" else f"l{dx},{dy}"
    return ET.Element("path", {"d": f"M{place[1]},{place[2]}{run}", **attributes})


def _hoist(group: ET.Element) -> None:
    """Moves inherited attributes that all children share to the group."""
    children = list(group)
    if len(children) < 2:
        return
    for key in _INHERITED:
        value = children[0].get(key)
        if value is None or key in group.attrib:
            continue
        if all(child.get(key) == value for child in children):
            group.set(key, value)
            for child in children:
                del child.attrib[key]
