"""Each design as Altair authors it (Vega-Lite) and as Vega-Lite compiles it (Vega).

``designs.json`` holds both, so that a run needs neither Altair nor a compiler. It is written when
the package is built (``hatch_build.py``), and on first use where it is missing or out of date.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from rlreport.draw.layout import INTERACTION, Spec

PATH = Path(__file__).with_name("designs.json")
_SOURCES = ("of_run.py", "of_step.py", "parts.py", "compiled.py", "../layout.py", "../theme.py")


def design_copy(name: str) -> Spec:
    """Return a copy of a design: ``spec`` is Vega-Lite, ``vega`` what it compiles to."""
    copy: Spec = orjson.loads(_designs()[name])
    return copy


@cache
def _designs() -> dict[str, bytes]:
    """Return each design as JSON: parsing is the fastest way to copy it."""
    stored = orjson.loads(PATH.read_bytes()) if PATH.exists() else {}
    if stored.get("sources") != _fingerprint():
        text = compile_designs()
        with suppress(OSError):  # a read-only installation compiles in every process
            write(text)
        stored = orjson.loads(text)
    return {name: orjson.dumps(design) for name, design in stored["designs"].items()}


def compile_designs() -> bytes:
    """Author and compile every design; return the content of ``designs.json``."""
    from rlreport.draw.designs import of_run, of_step

    authors = (
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
    specs = {author.__name__: author() for author in authors}
    designs = {name: {"spec": spec, "vega": _compiled(spec)} for name, spec in specs.items()}
    return orjson.dumps(
        {"sources": _fingerprint(), "designs": designs},
        option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2,
    )


def write(text: bytes) -> None:
    """Write ``designs.json`` in one step, as several processes may do so at once."""
    part = PATH.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(text)
    part.replace(PATH)


def _fingerprint() -> str:
    sources = [(PATH.parent / name).read_bytes() for name in _SOURCES]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _compiled(spec: Spec) -> Spec:
    """Return the Vega of what is drawn on paper, for any data."""
    import vl_convert

    still: dict[str, Any] = {key: value for key, value in spec.items() if key != "params"}
    still["layer"] = [layer for layer in spec["layer"] if not layer["name"].startswith(INTERACTION)]
    vega: Spec = vl_convert.vegalite_to_vega(still)
    lines = {axis["scale"]: axis for axis in vega["axes"] if axis["grid"]}
    vega["axes"] = [axis for axis in vega["axes"] if not axis["grid"]]
    for axis in vega["axes"]:
        # Which labels are dropped depends on the width of text, and so on the fonts of a machine.
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
    write(compile_designs())
