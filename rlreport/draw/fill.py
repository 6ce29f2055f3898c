"""Fill a design with data.

The same axes, series and data go into both of its forms: Vega-Lite is what readers export and
pages make interactive, Vega is what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlreport.draw.designs.compiled import design_copy
from rlreport.draw.extent import Axis
from rlreport.draw.layout import HEIGHT, PADDING, ROWS, SERIES, WIDTH, Spec
from rlreport.draw.series import Series
from rlreport.text.messages import message

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plot:
    """A filled design.

    Attributes:
        spec: Vega-Lite, with what serves the reader's hand.
        vega: Vega of what is drawn on paper.
    """

    spec: Spec
    vega: Spec

    def encoding(self, layer: str) -> Spec:
        """The Vega-Lite encoding of a layer."""
        return layer_named(self.spec, layer)["encoding"]  # type: ignore[no-any-return]


def fill(
    name: str,
    rows: Rows,
    axes: Mapping[str, Axis],
    *,
    size: str,
    right: int = 16,
    own: Mapping[str, Rows] | None = None,
    series: Sequence[Series] = (),
    bins: tuple[float, float, float] | None = None,
    fed: bool = False,
) -> Plot:
    """Fills a design.

    Args:
        name: of the design.
        rows: data of the layers that share it.
        axes: ``x`` and ``y``.
        size: ``step``, ``half`` or ``wide``.
        right: pixels kept free at the right, for direct labels.
        own: name of a layer with data of its own → those; without any it is left out.
        series: what the design's scales of series tell apart.
        bins: width, start and end of the bins, where the design has any.
        fed: the page gives the data: the Vega-Lite names its dataset ``rows``.
    """
    design = design_copy(name)
    frame = {
        "width": WIDTH[size] - PADDING["left"] - right,
        "height": plot_height(size),
        "padding": {**PADDING, "right": right},
    }
    data = own or {}
    spec = {**design["spec"], **frame, "data": {"name": ROWS} if fed else {"values": list(rows)}}
    spec["layer"] = [
        _filled_layer(layer, data, axes, series, bins)
        for layer in spec["layer"]
        if "data" not in layer or data.get(layer["name"])
    ]
    vega = {**design["vega"], **frame}
    vega["data"] = [_fed(source, {ROWS: rows, **data}, bins) for source in vega["data"]]
    vega["scales"] = [_scale(scale, axes, series) for scale in vega["scales"]]
    vega["axes"] = [_axis(axis, axes[axis["scale"]]) for axis in vega["axes"]]
    return Plot(spec, vega)


def plot_height(size: str) -> int:
    """Height of the plot inside its padding, in pixels."""
    return HEIGHT[size] - PADDING["top"] - PADDING["bottom"]


def layer_named(spec: Spec, name: str) -> Spec:
    """The layer ``name`` of a Vega-Lite specification."""
    layer: Spec = next(layer for layer in spec["layer"] if layer["name"] == name)
    return layer


def _filled_layer(
    layer: Spec,
    own: Mapping[str, Rows],
    axes: Mapping[str, Axis],
    series: Sequence[Series],
    bins: tuple[float, float, float] | None,
) -> Spec:
    if "data" in layer:
        layer["data"] = {"values": list(own[layer["name"]])}
    for transform in layer.get("transform", ()):
        if bins is not None and "bin" in transform:
            transform["bin"] = {"step": bins[0], "extent": list(bins[1:])}
    for channel, place in layer["encoding"].items():
        if channel == "tooltip":
            for shown in place if isinstance(place, list) else [place]:
                if "title" in shown:
                    shown["title"] = message(shown["title"])
        if not isinstance(place, dict):
            continue
        if place.get("axis") and channel in axes:
            axis = axes[channel]
            place["title"] = axis.title
            place["scale"]["domain"] = axis.domain
            if axis.scale != "linear":
                place["scale"]["type"] = axis.scale
            place["axis"].update(axis.ticks)
        elif (place.get("scale") or {}).get("domain") == SERIES:
            place["scale"].update(_scale_of_series(channel, series))
    return layer


def _fed(
    source: Spec, datasets: Mapping[str, Rows], bins: tuple[float, float, float] | None
) -> Spec:
    """A dataset of the compiled specification with its rows, and with the bins' edges."""
    if "source" not in source:
        source["values"] = list(datasets.get(source["name"], ()))
    for transform in source.get("transform", ()):
        if bins is not None and transform["type"] == "bin":
            transform.update({"step": bins[0], "extent": list(bins[1:])})
    return source


def _scale(scale: Spec, axes: Mapping[str, Axis], series: Sequence[Series]) -> Spec:
    if scale["name"] in axes:
        axis = axes[scale["name"]]
        scale["domain"] = axis.domain
        if axis.scale != "linear":
            scale["type"], scale["zero"] = axis.scale, False
    elif scale.get("domain") == SERIES:
        scale.update(_scale_of_series(scale["name"].rpartition("_")[2], series))
    return scale


def _scale_of_series(channel: str, series: Sequence[Series]) -> Spec:
    looks = [s.colour if channel == "color" else list(s.dash) for s in series]
    return {"domain": [one.key for one in series], "range": looks}


def _axis(axis: Spec, wanted: Axis) -> Spec:
    axis.update(wanted.ticks)
    if "title" in axis:
        axis["title"] = wanted.title
    return axis
