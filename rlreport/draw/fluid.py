"""Make Vega's drawing of a chart as wide as its place on the page, with texts of one size.

Places across the plot become percentages; lines are stretched, texts and dots are not. Left and
right of the plot the style sheet leaves the same room for all charts (``PADDING``, ``RIGHT``), so
that the edges of plots down a page are equal, at any width and in print.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from rlreport.draw.theme import PADDING, RIGHT, Spec

SVG = "{http://www.w3.org/2000/svg}"
# So many symbols are one path of dots, as a circle each would take three times the bytes
MOST_CIRCLES = 60
_TRANSLATE = re.compile(r"translate\(([-\d.e]+),([-\d.e]+)\)")
_RADIUS = re.compile(r"M([\d.]+),0A")


class NotFluidError(ValueError):
    """The drawing has parts of which it is not known how to stretch them."""


def is_fluid(vega: Spec) -> bool:
    """Return whether a chart has the layout of our designs, with the page's edges of the plot."""
    padding = vega.get("padding")
    return isinstance(padding, dict) and padding == {**PADDING, "right": RIGHT}


@dataclass(slots=True)
class _Plot:
    """The plot of a drawing, and what becomes of it."""

    width: float
    height: float
    # attributes of an element -> those on the page: allowed ones, with colours of the theme
    attributes: Callable[[ET.Element], dict[str, str]]
    root: ET.Element
    layer: ET.Element | None = None  # of stretched shapes; None after a text or a dot

    def stretched(self) -> ET.Element:
        """Return the layer for the next shape."""
        if self.layer is None:
            attributes = {
                "width": "100%",
                "height": _number(self.height),
                "viewBox": f"0 0 {_number(self.width)} {_number(self.height)}",
                "preserveAspectRatio": "none",
                "overflow": "visible",
            }
            self.layer = ET.SubElement(self.root, "svg", attributes)
        return self.layer

    def add(self, tag: str, attributes: dict[str, str]) -> ET.Element:
        """Add an element that is not stretched."""
        self.layer = None
        return ET.SubElement(self.root, tag, attributes)

    def across(self, x: float) -> str:
        """Return a place: in the plot as a percentage, left of it in pixels."""
        return _number(x) if x < 0 else f"{100 * x / self.width:.4g}%"


def fluid(
    drawing: ET.Element,
    vega: Spec,
    attributes: Callable[[ET.Element], dict[str, str]],
    root_attributes: dict[str, str],
) -> ET.Element:
    """Return Vega's drawing of a chart as an SVG that is as wide as its place.

    Raise NotFluidError if it has other parts than those of our designs.

    Args:
        drawing: the drawing.
        vega: the specification, of which ``is_fluid`` is true.
        attributes: returns the attributes that an element keeps.
        root_attributes: those of the SVG.
    """
    top = vega["padding"]["top"]
    height = vega["height"] + top + vega["padding"]["bottom"]
    size = {"class": "fluid", "width": "100%", "height": _number(height)}
    root = ET.Element("svg", {**root_attributes, **size, "overflow": "visible"})
    inner = {"y": _number(top), "width": "100%", "overflow": "visible"}
    plot = _Plot(
        vega["width"], vega["height"], attributes, ET.SubElement(root, "svg", inner)
    )
    _convert(drawing, (-vega["padding"]["left"], -top), plot)
    return root


def _convert(
    element: ET.Element, origin: tuple[float, float], plot: _Plot, role: str = ""
) -> None:
    """Add what an element contains; ``origin`` is where it is in the plot."""
    for number, child in enumerate(element):
        tag = child.tag.removeprefix(SVG)
        if child.get("display") == "none" or child.get("class") == "background":
            continue
        place = _place(child, origin)
        match tag:
            case "g":
                own = child.get("class", "")
                if "mark-symbol" in own and len(child) > MOST_CIRCLES:
                    _add_dots(child, place, plot)
                else:
                    _convert(child, place, plot, own or role)
            case "text":
                _add_text(
                    child,
                    place,
                    plot,
                    is_second="axis-label" in role and number % 2 == 1,
                )
            case "path" if "mark-symbol" in role:
                _add_circle(child, place, plot)
            case "path" | "line" | "rect":
                _add_shape(child, place, plot, is_rect="mark-rect" in role)
            case _:
                raise NotFluidError(tag)


def _place(element: ET.Element, origin: tuple[float, float]) -> tuple[float, float]:
    """Return where an element is; half a pixel across, for sharp lines, would be stretched."""
    transform = element.get("transform", "")
    found = _TRANSLATE.fullmatch(transform.replace("translate(0.5,", "translate(0,"))
    if transform and not found:
        raise NotFluidError(transform)
    if not found:
        return origin
    across, down = map(float, found.groups())
    return (origin[0] + across, origin[1] + down)


def _add_text(
    element: ET.Element, place: tuple[float, float], plot: _Plot, *, is_second: bool
) -> None:
    if not element.text or not element.text.strip():
        return
    x, y = place
    attributes = _without(plot.attributes(element), "transform")
    attributes |= {"x": plot.across(x), "y": _number(y)}
    if is_second and y > plot.height:
        # Narrow charts have every other number of the steps
        attributes["class"] = "second"
    plot.add("text", attributes).text = element.text


def _add_circle(element: ET.Element, place: tuple[float, float], plot: _Plot) -> None:
    x, y = place
    look = _without(plot.attributes(element), "transform", "d")
    circle = plot.add("circle", look)
    circle.set("cx", plot.across(x))
    circle.set("cy", _number(y))
    circle.set("r", _radius(element))


def _add_dots(group: ET.Element, origin: tuple[float, float], plot: _Plot) -> None:
    """Add one path per look with a dot for each symbol: a line of no length with round ends."""
    paths: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for symbol in group:
        look = _without(plot.attributes(symbol), "transform", "d")
        look |= {
            "stroke": look.pop("fill", "none"),
            "stroke-width": _number(2 * float(_radius(symbol))),
            "stroke-linecap": "round",
        }
        x, y = _place(symbol, origin)
        paths.setdefault(tuple(look.items()), []).append(
            f"M{_number(x)} {_number(y)}h0"
        )
    for look_of_path, dots in paths.items():
        ET.SubElement(
            plot.stretched(), "path", {**dict(look_of_path), "d": "".join(dots)}
        )


def _add_shape(
    element: ET.Element, place: tuple[float, float], plot: _Plot, *, is_rect: bool
) -> None:
    attributes = plot.attributes(element)
    if is_rect:
        attributes["shape-rendering"] = "crispEdges"  # avoids seams between cells
    attributes.pop("transform", None)
    x, y = place
    if x or y:
        attributes["transform"] = f"translate({_number(x)},{_number(y)})"
    ET.SubElement(plot.stretched(), element.tag.removeprefix(SVG), attributes)


def _radius(symbol: ET.Element) -> str:
    found = _RADIUS.match(symbol.get("d", ""))
    if not found:
        raise NotFluidError(symbol.get("d", ""))
    return _number(float(found[1]))


def _without(attributes: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if name not in names}


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"
