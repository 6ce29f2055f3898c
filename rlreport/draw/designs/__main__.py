"""Writes ``designs.json``: every design as Altair authors it, and as Vega-Lite compiles it.

Run ``python -m rlreport.draw.designs`` after a change of a design, of Altair or of vl-convert.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import vl_convert

from rlreport.draw.designs import INTERACTION, PLACE, Spec, of_run, of_step

AUTHORS = (
    of_run.curves,
    of_run.steps_heat,
    of_run.path,
    of_run.paths,
    of_run.columns,
    of_step.histogram,
    of_step.ordered_bars,
    of_step.scatter,
    of_step.plane_heat,
)


def made() -> str:
    """The designs, as the JSON text that the package carries."""
    designs = {}
    for author in AUTHORS:
        spec = author()
        designs[author.__name__] = {"spec": spec, "vega": compiled(spec)}
    return json.dumps(designs, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def compiled(spec: Spec) -> Spec:
    """The Vega of what is drawn on paper, for any data."""
    still: dict[str, Any] = {key: value for key, value in spec.items() if key != "params"}
    still["layer"] = [layer for layer in spec["layer"] if not layer["name"].startswith(INTERACTION)]
    vega: Spec = vl_convert.vegalite_to_vega(still)
    lines = {axis["scale"]: axis for axis in vega["axes"] if axis["grid"]}
    vega["axes"] = [axis for axis in vega["axes"] if not axis["grid"]]
    for axis in vega["axes"]:
        # What gives way depends on the width of text, and so on the fonts of a machine.
        axis["labelOverlap"] = False
        if axis["scale"] in lines:  # one axis costs half of two
            axis |= {"grid": True, "gridScale": lines[axis["scale"]]["gridScale"]}
    vega["axes"].sort(key=lambda axis: not axis["grid"])  # under all else
    for mark in _marks(vega):
        mark["encode"]["update"].pop("tooltip", None)
    return vega


def _marks(group: Spec) -> Iterator[Spec]:
    for mark in group["marks"]:
        if "marks" in mark:
            yield from _marks(mark)
        else:
            yield mark


if __name__ == "__main__":
    PLACE.write_text(made(), "utf-8")
