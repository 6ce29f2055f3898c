"""The charts' designs: authored with Altair, and kept.

Importing Altair costs more than drawing a small report. So it is done once a machine; the
designs are kept in the user's cache under the version and the source they come from, and a
warm process reads JSON.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rlreport.draw.kept import kept
from rlreport.draw.layout import Spec, fill

STEP_RIGHT = 12
"""Pixels right of a step chart's plot."""

_STEP_DESIGNS: dict[str, tuple[str, ...]] = {
    "histogram": ("ghost", "key"),
    "ordered_bars": ("zero",),
    "scatter": (),
    "plane_heat": (),
}
"""Designs of a step's charts, with their layers that have data of their own."""


def template(name: str) -> Spec:
    """The design ``name`` as Vega-Lite without data; to be copied, not changed."""
    spec: Spec = designs()[name]
    return spec


def page_spec(name: str) -> Spec:
    """A step chart's design as Vega-Lite that takes the dataset ``rows`` from the page."""
    layers: dict[str, Any] = {layer: [{}] for layer in _STEP_DESIGNS[name]}
    return fill(template(name), {"name": "rows"}, size="step", right=STEP_RIGHT, layers=layers)


@cache
def designs() -> dict[str, Any]:
    """All designs by name, from the cache or made anew."""
    found: dict[str, Any] = json.loads(kept("designs.json", made_of(), make))
    return found


def make() -> str:
    """Makes the designs, as JSON."""
    from rlreport.draw import run_templates, step_templates  # with Altair

    over_run = (
        run_templates.curves,
        run_templates.steps_heat,
        run_templates.path,
        run_templates.columns,
    )
    of_step = (
        step_templates.histogram,
        step_templates.ordered_bars,
        step_templates.scatter,
        step_templates.plane_heat,
    )
    return json.dumps({author.__name__: author() for author in (*over_run, *of_step)})


def made_of() -> str:
    """What the designs depend on: Altair's version and this package's source."""
    source = hashlib.sha256()
    for module in sorted(Path(__file__).parent.glob("*.py")):
        source.update(module.read_bytes())
    return f"altair {version('altair')}, {source.hexdigest()}"
