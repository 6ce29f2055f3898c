"""A chart's design compiled once to Vega, and filled many times with data.

Nine tenths of the time of a small SVG goes into compiling Vega-Lite and into measuring
text. So charts are compiled by what they are made of, without their text and data; each
drawing only swaps data, extents and colours, and is lettered afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from rlreport.draw.axis import labelled
from rlreport.draw.engine import convert
from rlreport.draw.kept import kept
from rlreport.draw.layout import Spec
from rlreport.draw.letters import scaled, without_text
from rlreport.draw.still import still

Vega = dict[str, Any]

_SERIES = ("color", "strokeDash")
"""Channels that tell series apart; each layer has scales of its own."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """A compiled design: plain and picklable, so that workers need neither Altair nor a compiler.

    Attributes:
        vega: Vega specification; its named datasets are empty.
    """

    vega: Vega

    def filled(
        self,
        spec: Spec,
        rows: Sequence[Mapping[str, Any]],
        *,
        bins: tuple[float, float, float] | None = None,
    ) -> Vega:
        """The Vega specification of a chart.

        Args:
            spec: its Vega-Lite with extents, colours, and the data of its own layers.
            rows: dataset of the other layers.
            bins: width, start and end of the bins, where the design has any.
        """
        datasets = {layer["name"]: layer["data"]["values"] for layer in _own(spec)}
        datasets["rows"] = rows
        axes = {channel: scaled(spec, channel) for channel in ("x", "y")}
        domains = {channel: {"domain": a["scale"]["domain"]} for channel, a in axes.items()}
        domains |= _series_scales(spec)
        ticks = {
            channel: [at for at, _ in labelled(place["axis"], place["scale"]["domain"])]
            for channel, place in axes.items()
        }
        return {
            **self.vega,
            "data": [_fed(source, datasets, bins) for source in self.vega["data"]],
            "scales": [
                {**scale, **domains.get(scale["name"], {})} for scale in self.vega["scales"]
            ],
            # Without labels only a grid shows where its ticks are.
            "axes": [
                {**axis, "values": ticks[axis["scale"]] if axis["grid"] else []}
                for axis in self.vega["axes"]
            ],
        }


def stencil_of(spec: Spec) -> Stencil:
    """The stencil of a chart's specification, kept in the user's cache.

    Raises:
        ValueError: Vega-Lite refused the specification.
    """
    return _stencil(json.dumps(skeleton(spec), sort_keys=True))


@cache
def _stencil(bare: str) -> Stencil:
    made_of = f"{version('vl-convert-python')} {bare}"
    made = kept("stencil.json", made_of, lambda: json.dumps(convert("vegalite_to_vega", bare)))
    vega = json.loads(made)
    # A grid has an axis of its own; the other one on the left would only bear text.
    axes = [axis for axis in vega["axes"] if axis["scale"] == "x" or axis["grid"]]
    return Stencil({**vega, "axes": axes})


def skeleton(spec: Spec) -> Spec:
    """A specification without text, data, extents and colours: what charts of a kind share.

    Each layer with data of its own gets the dataset of its name, the others ``rows``.
    """
    bare = without_text(still({**spec, "data": {"name": "rows"}}))
    bare.pop("description", None)
    for layer in bare["layer"]:
        if layer in _own(bare):
            layer["data"] = {"name": layer["name"]}
        layer["encoding"].pop("tooltip", None)
        for channel, place in layer["encoding"].items():
            if channel in _SERIES and place.get("field") == "series":
                place["scale"] = {"domain": [], "range": []}
            elif place.get("axis"):
                place["scale"]["domain"] = [0, 1]
                place["axis"].pop("format", None)
                place["axis"]["values"] = [0]
    return bare


def _series_scales(spec: Spec) -> dict[str, Vega]:
    """Name of a scale that tells series apart → its domain and range."""
    return {
        f"{layer['name']}_{channel}": place["scale"]
        for layer in spec["layer"]
        for channel in _SERIES
        if (place := layer["encoding"].get(channel, {})).get("field") == "series"
    }


def _own(spec: Spec) -> list[Spec]:
    """Layers with data of their own."""
    return [layer for layer in spec["layer"] if "values" in layer.get("data", {})]


def _fed(
    source: Vega,
    datasets: Mapping[str, Sequence[Mapping[str, Any]]],
    bins: tuple[float, float, float] | None,
) -> Vega:
    """A dataset of the compiled specification with its rows, and with the bins' edges."""
    fed = dict(source)
    if "source" not in fed and "url" not in fed:
        fed["values"] = list(datasets.get(fed["name"], ()))
    if bins is not None:
        step, low, high = bins
        fed["transform"] = [
            {**transform, "step": step, "extent": [low, high]}
            if transform["type"] == "bin"
            else transform
            for transform in fed.get("transform", [])
        ]
    return fed
