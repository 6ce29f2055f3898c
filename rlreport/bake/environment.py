"""The one Jinja environment, and where templates and assets lie."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket
from markupsafe import Markup

from rlreport.bake.script_json import script_json
from rlreport.draw.chart import Chart
from rlreport.draw.kept import cache_folder


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
        bytecode_cache=_compiled_before(),
    )
    made.globals["script_json"] = script_json
    made.globals["svg"] = _svg
    return made


def _svg(chart: Chart) -> Markup:
    """The baked drawing; our own drawing code escapes every text inside it."""
    return Markup(chart.svg)


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates; a place that cannot be written is no error."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled_before() -> _Compiled | None:
    """Templates compiled by this version of Jinja, in the user's cache."""
    folder = cache_folder() / f"templates-{version('jinja2')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return _Compiled(str(folder))
