"""The one Jinja environment a language, and where templates and assets lie."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from rlreport import __version__
from rlreport.bake.script_json import script_json
from rlreport.check.finding import GLYPHS, LEVELS
from rlreport.draw.chart import Chart
from rlreport.draw.theme import LIGHT, vega_config
from rlreport.text.language import Language
from rlreport.text.messages import message

GENERATOR = f"rlreport {__version__}"
"""What reports say they are built by."""


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


@lru_cache(maxsize=8)
def environment(language: Language) -> jinja2.Environment:
    """Autoescaping, strict about names, with the few functions that templates may call.

    Their own texts are in the language; what they are given must be so already.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_folder("templates")),
        autoescape=_escapes,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.i18n"],
    )
    made.policies["ext.i18n.trimmed"] = True
    made.install_gettext_translations(language.translations, newstyle=True)  # type: ignore[attr-defined]
    made.globals["generator"] = GENERATOR
    made.globals["lang"] = language.tag
    made.globals["colours"] = LIGHT
    made.globals["glyphs"] = GLYPHS
    made.globals["levels"] = language.of(LEVELS)
    made.globals["openings"] = language.of(
        {level: message("{one:capital}.", one=said) for level, said in LEVELS.items()}
    )
    made.globals["script_json"] = script_json
    made.globals["svg"] = _svg
    made.globals["chart_json"] = _chart_json
    made.globals["chart_config"] = vega_config()
    return made


def _escapes(template: str | None) -> bool:
    """Whether what a template prints is escaped: plain text has no markup."""
    return template is None or not template.endswith(".txt")


def _chart_json(chart: Chart) -> Markup:
    """The specification for a page, its data as columns: see docs/page-data.md.

    The charts' common ``config`` stands in the page once.
    """
    common = vega_config()
    spec = {k: v for k, v in chart.spec.items() if k != "config" or v != common}
    rows = chart.spec.get("data", {}).get("values")
    if rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        fields = sorted({field for row in rows for field in row})
        spec["data"] = {"columns": {field: [row.get(field) for row in rows] for field in fields}}
    return script_json(spec)


def _svg(chart: Chart) -> Markup:
    """The baked drawing; our own drawing code escapes every text inside it."""
    return Markup(chart.svg)
