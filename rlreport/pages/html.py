"""Render HTML with Jinja, and encode the data that pages carry for their scripts."""

from __future__ import annotations

import base64
import math
from functools import lru_cache
from typing import Any, NamedTuple

import jinja2
import numpy as np
import orjson
from markupsafe import Markup

from rlreport import __version__
from rlreport.check.finding import GLYPHS, LEVELS
from rlreport.draw.chart import Chart
from rlreport.draw.theme import LIGHT, vega_config
from rlreport.pages.page_data import ChartRows
from rlreport.pages.template_files import source_environment
from rlreport.system.gzipped import gzipped
from rlreport.text.language import Language
from rlreport.text.messages import message

GENERATOR = f"rlreport {__version__}"  # name and version, shown in reports
# Characters that ``script_json`` escapes: `<`, `>` and `&` could be markup; U+2028/9 end a line in
# old JavaScript parsers.
_UNSAFE = "<>&\u2028\u2029"


class Node(NamedTuple):
    """A data element of a one-file report: ``<script type=MEDIA class=NAME data-step=STEP>``."""

    media: str
    name: str
    content: str
    step: str = ""  # the step whose data it has, "" for those of the run


@lru_cache(maxsize=8)
def environment(language: Language) -> jinja2.Environment:
    """Return the Jinja environment of a language; callers translate the values they pass."""
    result = source_environment()
    result.install_gettext_translations(language.translations)  # type: ignore[attr-defined]
    # The word before a finding of a mail, such as "Critical."
    openings = {
        level: message("{one:capital}.", one=name) for level, name in LEVELS.items()
    }
    result.globals |= {
        "generator": GENERATOR,
        "lang": language.tag,
        "colours": LIGHT,
        "glyphs": GLYPHS,
        "levels": language.of(LEVELS),
        "openings": language.of(openings),
        "script_json": script_json,
        # No escaping: our own drawing code has escaped all texts.
        "svg": lambda chart: Markup(chart.svg),
        "key_sample": lambda entry: Markup(entry.sample()),
        "whole": lambda chart: Markup(chart.whole),
        "chart_json": _chart_json,
        "chart_config": vega_config(),
    }
    return result


def _chart_json(chart: Chart) -> Markup:
    """Return a chart's specification as JSON for its page.

    The ``config`` that all charts share is left out, and rows are written as columns.
    """
    spec = dict(chart.spec)
    if spec.get("config") == vega_config():
        del spec["config"]
    data = spec.get("data")  # missing or null in some charts of the user's functions
    rows = data.get("values") if isinstance(data, dict) else None
    if rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        spec["data"] = _by_columns(rows)
    return script_json(spec)


def _by_columns(rows: list[dict[str, Any]]) -> ChartRows:
    """Return rows as a list of values per field: shorter, as fields are not repeated.

    A row without a field has the value None.
    """
    fields = set[str]()
    for row in rows:
        fields.update(row)
    columns = {}
    for field in sorted(fields):
        columns[field] = [row.get(field) for row in rows]
    return {"columns": columns}


def script_json(value: Any) -> Markup:
    """Serialise ``value`` for a ``<script type="application/json">`` element, without markup."""
    text = canonical_json(value).decode()
    for character in _UNSAFE:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def packed_json(value: Any) -> str:
    return gzip_base64(canonical_json(value))


def gzip_base64(content: bytes, *, level: int = 3) -> str:
    """Compress with gzip and encode as base64; the result is reproducible and safe in HTML."""
    return base64.b64encode(gzipped(content, level)).decode("ascii")


def canonical_json(value: Any, *, indent: bool = False) -> bytes:
    """Serialise ``value`` as reproducible UTF-8 JSON; NaN and infinities become null."""
    options = (
        orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    )
    if indent:
        options |= orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        # orjson rejects lone surrogates and NumPy object arrays.
        return orjson.dumps(_plain(value), option=options)


def _plain(value: Any) -> Any:
    """Return a value that orjson can write: lone surrogates become "?", NumPy arrays lists."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
