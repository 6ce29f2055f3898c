"""A chart's design compiled once to Vega, and drawn many times with other data.

Nine tenths of the time of a small SVG goes into compiling Vega-Lite and into measuring
text. So the step charts are compiled once, without their text; each drawing only swaps data
and extents, and is lettered afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlreport.draw.axis import labelled
from rlreport.draw.layout import Spec
from rlreport.draw.letters import letters, scaled, without_text
from rlreport.draw.shrink import shrink
from rlreport.draw.svg import still
from rlreport.draw.theme import sentinels


@dataclass(frozen=True, slots=True)
class Stencil:
    """A compiled design: plain and picklable, so that workers need neither Altair nor a compiler.

    Attributes:
        vega: Vega specification; its named datasets are empty.
    """

    vega: dict[str, Any]

    def draw(
        self,
        name: str,
        description: str,
        spec: Spec,
        rows: Sequence[Mapping[str, Any]],
        *,
        bins: tuple[float, float, float] | None = None,
    ) -> str:
        """Draws the design.

        Args:
            name: id of the chart.
            description: text alternative.
            spec: the design as Vega-Lite with extents, titles and the data of its own layers.
            rows: dataset of the other layers.
            bins: width, start and end of the bins, where the design has any.

        Raises:
            ValueError: Vega refused the drawing.
        """
        import vl_convert  # starts V8

        datasets = {layer["name"]: layer["data"]["values"] for layer in _own(spec)}
        datasets["rows"] = rows
        vega = dict(self.vega)
        vega["data"] = [_fed(source, datasets, bins) for source in vega["data"]]
        axes = {channel: scaled(spec, channel) for channel in ("x", "y")}
        vega["scales"] = [
            {**scale, "domain": axes[scale["name"]]["scale"]["domain"]}
            if scale["name"] in axes
            else scale
            for scale in vega["scales"]
        ]
        values = {
            channel: [at for at, _ in labelled(place["axis"], place["scale"]["domain"])]
            for channel, place in axes.items()
        }
        vega["axes"] = [{**axis, "values": values[axis["scale"]]} for axis in vega["axes"]]
        drawn = vl_convert.vega_to_svg(json.dumps(vega), allowed_base_urls=[])
        return shrink(drawn, name, description, sentinels(), letters(spec))


def compiled(spec: Spec) -> dict[str, Any]:
    """Compiles a design without its text, and without what only serves the pointer.

    Each layer with data of its own gets the dataset of its name.
    """
    import vl_convert  # starts V8

    bare = without_text(still(spec))
    bare["data"] = {"name": "rows"}
    for layer in _own(bare):
        layer["data"] = {"name": layer["name"]}
    vega: dict[str, Any] = vl_convert.vegalite_to_vega(json.dumps(bare))
    return vega


def _own(spec: Spec) -> list[Spec]:
    """Layers with data of their own."""
    return [layer for layer in spec["layer"] if "values" in layer.get("data", {})]


def _fed(
    source: dict[str, Any],
    datasets: Mapping[str, Sequence[Mapping[str, Any]]],
    bins: tuple[float, float, float] | None,
) -> dict[str, Any]:
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
