"""Draws charts: many in one call, then cut apart, shrunk and lettered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rlreport.draw.engine import convert
from rlreport.draw.layout import Spec, total_size
from rlreport.draw.letters import letters
from rlreport.draw.shrink import Place, parts, shrink
from rlreport.draw.stencil import Vega
from rlreport.draw.theme import sentinels


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart that can be drawn.

    Attributes:
        name: id of the chart.
        description: text alternative.
        size: width and height in pixels.
        letters: its texts, as SVG.
        vega: a filled stencil.
        dots: places of the dots, of which ``vega`` draws one.
    """

    name: str
    description: str
    size: tuple[int, int]
    letters: str
    vega: Vega
    dots: Sequence[Place] = ()


def drawing(
    name: str, description: str, spec: Spec, vega: Vega, dots: Sequence[Place] = ()
) -> Drawing:
    """A chart that can be drawn: ``vega``, lettered and sized as its ``spec`` says."""
    return Drawing(name, description, total_size(spec), letters(spec), vega, dots)


def draw(drawings: Sequence[Drawing]) -> list[str]:
    """Draws charts as SVG; together, as every call of Vega has a price of its own.

    Raises:
        ValueError: Vega refused the drawing.
    """
    if not drawings:
        return []
    together = {
        "width": 1,
        "height": 1,
        "config": drawings[0].vega["config"],
        "marks": [_group(drawing.vega) for drawing in drawings],
    }
    drawn = convert("vega_to_svg", orjson.dumps(together).decode(), allowed_base_urls=[])
    variables = sentinels()
    return [
        shrink(part, one.name, one.description, one.size, variables, one.letters, one.dots)
        for part, one in zip(parts(drawn), drawings, strict=True)
    ]


def _group(vega: Vega) -> dict[str, Any]:
    """A chart as a group of a larger drawing, where groups may lie over one another."""
    place = {"x": vega["padding"]["left"], "y": vega["padding"]["top"]}
    size = {side: vega[side] for side in ("width", "height")}
    return {
        "type": "group",
        "encode": {"enter": {key: {"value": at} for key, at in {**place, **size}.items()}},
        "signals": [{"name": side, "value": pixels} for side, pixels in size.items()]
        + vega.get("signals", []),
        **{key: vega.get(key, []) for key in ("data", "scales", "axes", "marks")},
    }
