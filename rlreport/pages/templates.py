"""Render pages with Jinja, and bundle the style sheet and scripts that they load.

Browsers refuse to load modules from ``file://``. So the ES modules of ``static/js`` are bundled
into one classic script: each module becomes a function that returns its exports, placed after the
modules that it imports. Modules define no global variables.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import math
import posixpath
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
import numpy as np
import orjson
from markupsafe import Markup

from rlreport import __version__
from rlreport.check.finding import GLYPHS, LEVELS
from rlreport.draw.bundle import vega_bundle
from rlreport.draw.chart import Chart
from rlreport.draw.theme import LIGHT, PADDING, TITLES, tokens, vega_config
from rlreport.pages import package_folder, source_environment
from rlreport.pages.views import Link, PageContext, Shell
from rlreport.system.gzipped import gzipped
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message

T = TypeVar("T")

GENERATOR = f"rlreport {__version__}"  # Name and version of the generator, shown in reports
# `<`, `>` and `&` could be markup; U+2028/9 end a line in old JavaScript parsers.
_UNSAFE = "<>&\u2028\u2029"  # Characters that ``script_json`` escapes
PROMPTS = "data/prompts.csv"  # Path of the exported table of prompts, below the report's root
NAMES = {
    "overview": message("Overview"),
    "responses": message("Responses"),
    "prompts": message("Prompts"),
    "tokens": message("Tokens"),
    "data": message("Data"),
}
PAGE_FILES = {kind: f"{kind}.html" for kind in NAMES} | {"overview": "index.html"}

# Pages in the main navigation; those of responses exist only if responses are logged
ALWAYS_LISTED = ("overview", "data")
OF_ROLLOUTS = ("responses", "prompts", "tokens")
# Content-Security-Policy of pages in a folder, which may only run the report's scripts
FOLDER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of pages and files of the report, relative to one page."""

    steps: frozenset[int] = frozenset()  # steps that have a page
    root: str = ""  # the report's root relative to the page: "" or "../"
    # whether the report is one file, in which pages have addresses like ``#/data``
    one_file: bool = False

    def page(self, kind: str) -> str:
        if self.one_file:
            return "#/" if kind == "overview" else f"#/{kind}"
        return self.root + PAGE_FILES[kind]

    def step(self, step: int) -> str | None:
        return self.any_step(step) if step in self.steps else None

    def response(
        self, step: int, n: int, *, token: int | None = None, turn: int | str | None = None
    ) -> str | None:
        """Return the address of a response, or of its token or turn; None without a step page."""
        parts = {"token": token, "turn": turn}
        inside = "".join(f"&{key}={at}" for key, at in parts.items() if at is not None)
        return f"{self.any_response(step, n)}{inside}" if step in self.steps else None

    def prompt(self, prompt_id: int | str) -> str:
        """Return the address of the responses page, filtered to the responses to one prompt."""
        return self.responses(f"min.prompt_id={prompt_id}&max.prompt_id={prompt_id}&sort=step")

    def responses(self, state: str) -> str:
        """Return the address of the responses page with filters, e.g. ``state="min.reward=1"``."""
        return f"{self.page('responses')}{self._mark}{state}"

    def file(self, path: str) -> str | None:
        return None if self.one_file else self.root + path

    @property
    def _mark(self) -> str:
        return "?" if self.one_file else "#"

    def any_step(self, step: int | str) -> str:
        return f"#/steps/{step}" if self.one_file else f"{self.root}steps/{step}.html"

    def any_response(self, step: int | str, n: int | str) -> str:
        """Return a response's address; "{step}" and "{n}" make it a pattern for scripts."""
        return f"{self.any_step(step)}{self._mark}r={n}"


class Maker:
    """Base class of builders that cache values they have computed, in the dict ``memo``."""

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.memo:
            self.memo[key] = make()
        return cast("T", self.memo[key])


@dataclass(frozen=True, slots=True)
class Page:
    path: str  # path of its file in a report folder, e.g. ``steps/100.html``
    view: str  # name in a one-file report, e.g. ``steps/100``, whose address is ``#/steps/100``
    title: str  # content of the ``<title>`` element
    html: str  # a whole document, or for a one-file report the content of ``<main>``


# Function that encodes a page for an output format: page -> (path, bytes), size in bytes
Finish = Callable[[Page], tuple[tuple[str, bytes], int]]


def rendered(
    kind: str, view: Any, context: PageContext, addresses: Addresses, step: int | None = None
) -> Page:
    """Render a page: a whole document, or for a one-file report the content of ``<main>``."""
    frame = shell(kind, context, addresses, step)
    template = f"main/{kind}.html" if context.one_file else "page.html"
    language = context.options.language
    shown = {**language.of(view)}
    html = environment(language).get_template(template).render(view=shown, shell=frame)
    shown.clear()  # else Jinja's macros, which are in a reference cycle, would keep it for long
    if step is not None:
        return Page(f"steps/{step}.html", f"steps/{step}", frame.title, html)
    return Page(PAGE_FILES[kind], "" if kind == "overview" else kind, frame.title, html)


def shell(kind: str, context: PageContext, addresses: Addresses, step: int | None = None) -> Shell:
    """Return title, navigation and assets of a page; ``kind``: key of NAMES, or "step"."""
    title = context.run
    if kind != "overview":
        name = NAMES[kind] if step is None else message("Step {step}", step=step)
        title = message("{page} · {run}", page=name, run=context.run)
    frame = Shell(
        title=title,
        run=context.run,
        kind=kind,
        root=addresses.root,
        nav=[
            (kind, Link(NAMES[kind], addresses.page(kind)))
            for kind in NAMES
            if kind in ALWAYS_LISTED or (context.has_rollouts and kind in OF_ROLLOUTS)
        ],
        assets={name: addresses.root + path for name, path in context.asset_files.items()},
        csp="" if context.one_file else FOLDER_POLICY,
    )
    return context.options.language.of(frame)


@lru_cache(maxsize=8)
def environment(language: Language) -> jinja2.Environment:
    """Return the Jinja environment of a language; callers translate the values they pass."""
    result = source_environment()
    result.install_gettext_translations(language.translations)  # type: ignore[attr-defined]
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


def _chart_json(chart: Chart) -> Markup:
    common = vega_config()
    spec = {k: v for k, v in chart.spec.items() if k != "config" or v != common}
    data = chart.spec.get("data")  # charts of the user's own may have none, or null
    rows = data.get("values") if isinstance(data, dict) else None
    if rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        fields = sorted({field for row in rows for field in row})
        spec["data"] = {"columns": {field: [row.get(field) for row in rows] for field in fields}}
    return script_json(spec)


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
    options = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    if indent:
        options |= orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        # orjson rejects lone surrogates and NumPy object arrays.
        return orjson.dumps(_plain(value), option=options)


def _plain(value: Any) -> Any:
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


_IMPORT = re.compile(
    r'^import \{(?P<names>[^}]*)\} from "(?P<module>\.{1,2}/[\w./-]+\.js)";\n', re.M
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) +(?P<name>\w+))", re.M)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/)[\s\S])*\*/|// .*) *\n", re.M)
# Pattern of a message call in a script; its groups are the text and, if any, the plural text
_SCRIPT_MESSAGE = re.compile(
    r'\b(?:message|plural|marked|nodes)\(\s*("(?:[^"\\\n]|\\.)*")(?:,\s*("(?:[^"\\\n]|\\.)*"))?'
)


@dataclass(frozen=True)
class Assets:
    """Style sheet and scripts: ``report`` for a report folder, ``one_file`` for a single file."""

    style: str
    report: str
    one_file: str
    vega: str

    @cached_property
    def files(self) -> dict[str, tuple[str, bytes]]:
        """Logical name, e.g. "style" -> (path with a hash of the content, bytes) in a folder."""
        texts = {"style.css": self.style, "report.js": self.report, "vega.js": self.vega}
        result = {}
        for file, text in texts.items():
            name, suffix = file.split(".")
            digest = hashlib.sha256(text.encode()).hexdigest()[:10]
            result[name] = (f"assets/{name}.{digest}.{suffix}", text.encode())
        return result


@lru_cache(maxsize=8)
def assets(language: Language) -> Assets:
    """Return style sheet and scripts; messages in scripts are translated to ``language``."""
    static = package_folder("static")
    look = {"colours": tokens("light"), "padding": PADDING, "titles": TITLES}
    report, one_file = (
        _set_constant(_translated(join_scripts(static / "js", entry), language), "LOOK", look)
        for entry in ("page/main.js", "page/one-file.js")
    )
    light = tokens("light")
    dark = tokens("dark")
    palette = " ".join(f"--{name}: light-dark({light[name]}, {dark[name]});" for name in light)
    style = f":root {{ {palette} }}\n" + (static / "style.css").read_text("utf-8")
    return Assets(style, report, one_file, vega_bundle())


def _translated(scripts: str, language: Language) -> str:
    if language == ENGLISH:
        return scripts
    catalogue = language.translations
    translations: dict[str, str | list[str]] = {}
    for text in script_messages(scripts):
        if isinstance(text, str):
            translations[text] = catalogue.gettext(text)
        else:
            translations[text[0]] = [catalogue.ngettext(*text, count) for count in (1, 2)]
    return _set_constant(scripts, "WORDS", translations)


def script_messages(source: str) -> Iterator[str | tuple[str, str]]:
    """Yield each message of a script: its literal, or (singular, plural) if it has a count."""
    for match in _SCRIPT_MESSAGE.finditer(source):
        singular, plural = (ast.literal_eval(text) if text else "" for text in match.groups())
        yield (singular, plural) if match[0].startswith("plural") else singular


def _set_constant(scripts: str, name: str, value: object) -> str:
    return scripts.replace(f"const {name} = {{}};", f"const {name} = {script_json(value)};", 1)


def join_scripts(folder: Path, entry: str = "main.js") -> str:
    """Bundle a module with its imports, dependencies first; drop comments on lines of their own."""
    modules: dict[str, str] = {}
    _join(folder, entry, modules)
    return f'(() => {{\n"use strict";\nconst modules = {{}};\n{"".join(modules.values())}}})();\n'


def _join(folder: Path, name: str, modules: dict[str, str]) -> None:
    if name in modules:
        return

    def import_line(match: re.Match[str]) -> str:
        imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), match["module"]))
        _join(folder, imported, modules)
        names = re.sub(r"\b(\w+) as (\w+)", r"\1: \2", match["names"])
        return f'const {{{names}}} = modules["{imported}"];\n'

    source = _COMMENT.sub("", (folder / name).read_text("utf-8"))
    exports = ", ".join(match["name"] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub("", _IMPORT.sub(import_line, source))
    modules[name] = (
        f'modules["{name}"] = (() => {{\n{body.strip()}\nreturn {{ {exports} }};\n}})();\n'
    )
