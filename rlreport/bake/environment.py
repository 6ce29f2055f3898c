"""The Jinja environment of each language, and where templates and assets lie."""

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
    """Return the folder ``templates`` or ``static``: in the installed package, else next to it.

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
    """Return an environment that escapes and is strict about names.

    Texts in templates are translated; views must be in the language already.
    """
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_folder("templates")),
        autoescape=_escapes,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.i18n"],
    )
    result.policies["ext.i18n.trimmed"] = True
    result.install_gettext_translations(language.translations, newstyle=True)  # type: ignore[attr-defined]
    openings = {level: message("{one:capital}.", one=name) for level, name in LEVELS.items()}
    result.globals |= {
        "generator": GENERATOR,
        "lang": language.tag,
        "colours": LIGHT,
        "glyphs": GLYPHS,
        "levels": language.of(LEVELS),
        "openings": language.of(openings),
        "script_json": script_json,
        "svg": lambda chart: Markup(chart.svg),  # our own drawing code escapes its texts
        "chart_json": _chart_json,
        "chart_config": vega_config(),
    }
    return result


def _escapes(template: str | None) -> bool:
    """Say whether a template's output is escaped: plain text has no markup."""
    return template is None or not template.endswith(".txt")


def _chart_json(chart: Chart) -> Markup:
    """Return the specification for a page, its data as columns: see docs/page-data.md.

    The ``config`` that all charts share is in the page once.
    """
    common = vega_config()
    spec = {k: v for k, v in chart.spec.items() if k != "config" or v != common}
    rows = chart.spec.get("data", {}).get("values")
    if rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        fields = sorted({field for row in rows for field in row})
        spec["data"] = {"columns": {field: [row.get(field) for row in rows] for field in fields}}
    return script_json(spec)
