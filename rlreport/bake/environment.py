"""The one Jinja environment, and where templates and assets lie."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from rlreport.bake.script_json import script_json
from rlreport.draw.chart import Chart


def package_folder(name: str) -> Path:
    """Folder ``templates`` or ``static``: inside the installed package, else beside it.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"rlreport's own folder {name!r} is missing: reinstall rlreport")


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Autoescaping, strict about names, with the few functions that templates may call."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["script_json"] = script_json
    made.globals["svg"] = _svg
    return made


def _svg(chart: Chart) -> Markup:
    """The baked drawing; our own drawing code escapes every text inside it."""
    return Markup(chart.svg)
