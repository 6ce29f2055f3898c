"""Rewrites the SVG that Vega draws: a fifth of the size, themed, without ids that clash.

Vega repeats every attribute on every mark and writes coordinates with 15 digits. Here
equal attributes move to the group, runs of lines become one path, round symbols become
circles, numbers keep one decimal, and colours become custom properties.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
_LINE = re.compile(r'<line transform="translate\(([^,]+),([^)]+)\)" x2="([^"]+)" y2="([^"]+)"')
_OUTLINE = re.compile(r' d="([^"]*)"')
# Overlaps of what is translucent add up only between elements.
_RUN_OF_SHAPES = re.compile(
    r'<path d="[^"]*"((?: (?!fill-opacity)[\w-]+="[^"]*")*)/>(?:<path d="[^"]*"\1/>)+'
)
_PLACE = re.compile(r"translate\(([^,]+),([^)]+)\)")
_RUN_OF_DOTS = re.compile(
    r'<path transform="translate\([^)]*\)"'
    r'( d="M([\d.]+),0A\2,\2,0,1,1,-\2,0A\2,\2,0,1,1,\2,0" ([^>]*)/>)'
    r'(?:<path transform="translate\([^)]*\)"\1)*'
)
_DOTS = "dots"
_DOT = re.compile(r'<circle cx="[^"]*" cy="[^"]*" (r="[^"]*" />)')
_GEOMETRY = ("d", "transform", "x", "y", "x1", "y1", "x2", "y2", "width", "height")


Place = tuple[float, float]
"""Pixels from the left and from the top."""


def parts(svg: str) -> list[ET.Element]:
    """The charts of a drawing: its outermost groups, ready for ``shrink``.

    Args:
        svg: as ``vl_convert.vega_to_svg`` returns it.
    """
    # On the text, where runs of hundreds of marks are found far sooner than in a tree.
    for pattern, change in (
        (_LINE, _as_path),
        (_RUN_OF_SHAPES, _one_path),
        (_RUN_OF_DOTS, _one_group),
    ):
        svg = pattern.sub(change, svg)
    scopes = ET.fromstring(svg).iterfind("/".join([f"{{{SVG}}}g"] * 5))
    return [scope for scope in scopes if "role-scope" in scope.get("class", "")]


def shrink(
    part: ET.Element,
    name: str,
    description: str,
    size: tuple[int, int],
    variables: dict[str, str],
    letters: str,
    dots: Sequence[Place] = (),
) -> str:
    """Rewrites a drawn chart for a page.

    Args:
        part: one of ``parts``.
        name: ids in the result start with it, so that charts can share a document.
        description: becomes the accessible name.
        size: width and height in pixels.
        variables: colour in the drawing → CSS custom property that takes its place.
        letters: SVG texts that lie over the drawing.
        dots: places in the plot of the one dot that is drawn, where there are several.
    """
    root = ET.Element(
        "svg",
        {
            "xmlns": SVG,
            "viewBox": f"0 0 {size[0]} {size[1]}",
            "width": "100%",
            "role": "img",
            "aria-label": description,
            "fill": "none",
        },
    )
    root.extend(_cleaned(part, f"{name}-"))
    for element in root.iter():
        for attribute in ("fill", "stroke"):
            colour = element.get(attribute, "")
            if colour in variables:
                element.set(attribute, f"var({variables[colour]})")
    drawn = ET.tostring(root, encoding="unicode")
    if dots:
        drawn = _DOT.sub(lambda dot: _at_each(dots, dot[1]), drawn)
    return drawn.removesuffix("</svg>") + letters + "</svg>"


def _as_path(line: re.Match[str]) -> str:
    x, y, dx, dy = line.groups()
    run = f"v{dy}" if dx == "0" else f"h{dx}" if dy == "0" else f"l{dx},{dy}"
    return f'<path d="M{x},{y}{run}"'


def _one_path(run: re.Match[str]) -> str:
    """Shapes that look alike, as one path."""
    return f'<path d="{"".join(_OUTLINE.findall(run[0]))}"{run[1]}/>'


def _one_group(run: re.Match[str]) -> str:
    """Round symbols that look alike, as circles in a group that says their look."""
    radius = _tenth(run[2])
    circles = [
        f'<circle cx="{_tenth(x)}" cy="{_tenth(y)}" r="{radius}"/>'
        for x, y in _PLACE.findall(run[0])
    ]
    return f'<g class="{_DOTS}" {run[3]}>{"".join(circles)}</g>'


def _at_each(places: Sequence[Place], radius: str) -> str:
    return "".join(f'<circle cx="{_tenth(x)}" cy="{_tenth(y)}" {radius}' for x, y in places)


def _cleaned(element: ET.Element, prefix: str) -> list[ET.Element]:
    """The element's children, cleaned; groups that only hold others dissolve into them."""
    result: list[ET.Element] = []
    for child in element:
        tag = child.tag.removeprefix(f"{{{SVG}}}")
        if child.get("display") == "none" or child.get("class") == "background":
            continue
        attributes = _attributes(child, prefix)
        if child.get("class") == _DOTS:
            if "stroke" not in attributes:
                attributes.pop("stroke-width", None)
            dots = ET.Element("g", attributes)
            dots.extend(ET.Element("circle", dot.attrib) for dot in child)
            result.append(dots)
            continue
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
        copy.extend(inner)
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
    return _tenth(match[0])


def _tenth(number: float | str) -> str:
    text = f"{float(number):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


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
