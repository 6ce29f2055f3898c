"""Sizes of charts, and how a design is filled with data: specifications as plain dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

WIDTH = {"step": 320, "half": 664, "wide": 1352}
"""Pixels, as the page's columns are at a window 1400 pixels wide: text keeps its size there."""

HEIGHT = {"step": 220, "half": 220, "wide": 200}
PADDING = {"left": 52, "top": 32, "bottom": 38}
VALUE_FORMAT = ",.4~r"

Spec = dict[str, Any]

ROWS = {"name": "rows"}
OWN = {"name": "own"}


def fill(
    template: Spec,
    data: Mapping[str, Any],
    *,
    size: str,
    right: int = 16,
    layers: Mapping[str, Any] | None = None,
) -> Spec:
    """Puts data into a copy of a template and sets its size.

    Args:
        template: of ``designs.template``.
        data: Vega-Lite data of the whole chart: inline values, or a named dataset.
        size: ``step``, ``half`` or ``wide``.
        right: pixels kept free for direct labels.
        layers: name of a layer → values for its own data; without any it is left out.
    """
    spec = copied(template)
    spec["data"] = dict(data)
    spec["width"] = WIDTH[size] - PADDING["left"] - right
    spec["height"] = plot_height(size)
    spec["padding"] = {**PADDING, "right": right}
    own = layers or {}
    kept = []
    for layer in spec["layer"]:
        if layer.pop("data", ROWS) == OWN:
            if not own.get(layer["name"]):
                continue
            layer["data"] = {"values": own[layer["name"]]}
        kept.append(layer)
    spec["layer"] = kept
    return spec


def plot_height(size: str) -> int:
    """Height of the plot inside its padding, in pixels."""
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def total_size(spec: Spec) -> tuple[int, int]:
    """Width and height of the drawing in pixels: the plot and its padding."""
    padding = spec["padding"]
    return (
        padding["left"] + spec["width"] + padding["right"],
        padding["top"] + spec["height"] + padding["bottom"],
    )


def copied(spec: Spec) -> Spec:
    """A deep copy, made the fastest way."""
    copy: Spec = orjson.loads(orjson.dumps(spec))
    return copy


def encoding(spec: Spec, name: str) -> Spec:
    """The encoding of the layer ``name``."""
    found: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)["encoding"]
    return found


def mark_of(layer: Mapping[str, Any]) -> Spec:
    """The mark of a layer, always as a mapping with its ``type``."""
    mark = layer["mark"]
    return mark if isinstance(mark, dict) else {"type": mark}
