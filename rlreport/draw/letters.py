"""Letters a baked chart: axis labels and titles, and the texts of its text layers."""

from __future__ import annotations

from collections.abc import Callable
from xml.sax.saxutils import escape

from rlreport.draw.axis import labelled
from rlreport.draw.layout import Spec, copied, mark_of
from rlreport.draw.theme import LIGHT, SMALL, sentinels

Scale = Callable[[float], float]

_ANCHOR = {"left": "start", "center": "middle", "right": "end"}
_MIDDLE = 4
"""Pixels from a text's middle down to its baseline."""


def without_text(spec: Spec) -> Spec:
    """The specification without any text, its ticks where ``letters`` writes them."""
    bare = copied(spec)
    bare["layer"] = [layer for layer in bare["layer"] if mark_of(layer)["type"] != "text"]
    for layer in bare["layer"]:
        for channel in ("x", "y"):
            place = layer["encoding"].get(channel)
            if not isinstance(place, dict):
                continue
            if place.get("axis"):
                domain = place.get("scale", {}).get("domain")
                if domain:
                    place["axis"]["values"] = [at for at, _ in labelled(place["axis"], domain)]
                place["axis"].update({"labels": False, "titleX": None, "titleY": None})
            place["title"] = None
    return bare


def letters(spec: Spec) -> str:
    """SVG texts of a chart, over the drawing of ``without_text``.

    Text layers hold their data inline; their places are fields on the axes' scales, or
    pixels.
    """
    left, top = spec["padding"]["left"], spec["padding"]["top"]
    bottom, right = top + spec["height"], left + spec["width"]
    x, y = scaled(spec, "x"), scaled(spec, "y")
    across = _to_pixels(x["scale"]["domain"], left, right)
    up = _to_pixels(y["scale"]["domain"], bottom, top)
    texts = [f'<g font-size="{SMALL}" fill="var(--muted)">']
    texts += [
        _text(across(at), bottom + 16, text, "middle")
        for at, text in labelled(x["axis"], x["scale"]["domain"])
    ]
    texts += [
        _text(left - 8, up(at) + _MIDDLE, text, "end")
        for at, text in labelled(y["axis"], y["scale"]["domain"])
    ]
    texts.append(_text(right, bottom + 33, x["title"], "end"))
    texts.append(_text(0, top - 13, y["title"], "start"))
    for layer in spec["layer"]:
        if mark_of(layer)["type"] == "text":
            texts += _layer(layer, across, up, (left, top))
    return "".join(texts) + "</g>"


def _layer(layer: Spec, across: Scale, up: Scale, origin: tuple[int, int]) -> list[str]:
    mark, encoding = mark_of(layer), layer["encoding"]
    anchor = _ANCHOR[mark.get("align", "center")]
    down = mark.get("dy", 0) + (_MIDDLE if mark.get("baseline") == "middle" else 0)
    look = ""
    if "stroke" in mark:
        look = f' stroke="{_themed(mark["stroke"])}" stroke-width="{mark["strokeWidth"]}"'
    return [
        _text(
            _place(encoding["x"], row, across, origin[0]) + mark.get("dx", 0),
            _place(encoding["y"], row, up, origin[1]) + down,
            row[encoding["text"]["field"]],
            anchor,
            f' fill="{_themed(_colour(encoding, mark, row))}"{look}',
        )
        for row in layer["data"]["values"]
        if None not in row.values()
    ]


def _place(channel: Spec, row: Spec, scale: Scale, origin: int) -> float:
    if "value" in channel:
        return float(origin + channel["value"])
    value = row[channel["field"]]
    if "scale" in channel and channel["scale"] is None:
        return float(origin + value)
    return float(scale(value))


def _colour(encoding: Spec, mark: Spec, row: Spec) -> str:
    if "color" not in encoding:
        return str(mark.get("color", LIGHT["muted"]))
    value = row[encoding["color"]["field"]]
    scale = encoding["color"]["scale"]
    return str(
        value if scale is None else dict(zip(scale["domain"], scale["range"], strict=True))[value]
    )


def _themed(colour: str) -> str:
    return f"var({sentinels()[colour]})"


def scaled(spec: Spec, channel: str) -> Spec:
    """The channel's encoding that sets the chart's scale and axis."""
    places = (layer["encoding"].get(channel) for layer in spec["layer"])
    found: Spec = next(
        place
        for place in places
        if isinstance(place, dict) and place.get("axis") and place["scale"].get("domain")
    )
    return found


def _to_pixels(domain: list[float], start: float, end: float) -> Scale:
    low, high = domain
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _text(x: float, y: float, text: str, anchor: str, look: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(text)}</text>'
