"""Style sheet and bundled scripts, in files whose names contain a hash of the content.

Browsers refuse to load modules from ``file://``. So the ES modules of ``static/js`` are joined to
one classic script: each module becomes a function that returns its exports, after the modules
it imports, and the page gets no global variables.
"""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from rlreport.bake.pages import package_folder, script_json
from rlreport.draw.bundle import vega_bundle
from rlreport.draw.theme import PADDING, TITLES, tokens
from rlreport.text.language import ENGLISH, Language

_IMPORT = re.compile(
    r'^import \{(?P<names>[^}]*)\} from "(?P<module>\.{1,2}/[\w./-]+\.js)";\n', re.M
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) +(?P<name>\w+))", re.M)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/)[\s\S])*\*/|// .*) *\n", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.M)
_SCRIPT_MESSAGE = re.compile(
    r'\b(?:message|plural|marked|nodes)\(\s*("(?:[^"\\\n]|\\.)*")(?:,\s*("(?:[^"\\\n]|\\.)*"))?'
)
"""Pattern of a message in a script: the literal, and that of the plural."""


@dataclass(frozen=True)
class Assets:
    """Contents of the shared assets: style sheet, scripts of both forms, Vega's bundle."""

    style: str
    report: str
    one_file: str
    vega: str

    @cached_property
    def files(self) -> dict[str, tuple[str, bytes]]:
        """Logical name -> (path below the root, which contains the content hash, bytes)."""
        texts = {"style.css": self.style, "report.js": self.report, "vega.js": self.vega}
        result = {}
        for file, text in texts.items():
            name, suffix = file.split(".")
            digest = hashlib.sha256(text.encode()).hexdigest()[:10]
            result[name] = (f"assets/{name}.{digest}.{suffix}", text.encode())
        return result


@lru_cache(maxsize=8)
def assets(language: Language) -> Assets:
    """Return the assets of this version, scripts with the messages of a language."""
    static = package_folder("static")
    look = {"colours": tokens("light"), "padding": PADDING, "titles": TITLES}
    report, one_file = (
        _filled(_translated(join_scripts(static / "js", entry), language), "LOOK", look)
        for entry in ("page/main.js", "page/one-file.js")
    )
    light, dark = tokens("light"), tokens("dark")
    palette = " ".join(f"--{name}: light-dark({light[name]}, {dark[name]});" for name in light)
    style = f":root {{ {palette} }}\n" + (static / "style.css").read_text("utf-8")
    return Assets(style, report, one_file, vega_bundle())


def _translated(scripts: str, language: Language) -> str:
    """Return scripts with the translations of their messages inserted (none in English).

    Messages with a count have a form for one and one for several.
    """
    if language == ENGLISH:
        return scripts
    catalogue = language.translations
    words: dict[str, str | list[str]] = {}
    for text in script_messages(scripts):
        if isinstance(text, str):
            words[text] = catalogue.gettext(text)
        else:
            words[text[0]] = [catalogue.ngettext(*text, count) for count in (1, 2)]
    return _filled(scripts, "WORDS", words)


def script_messages(source: str) -> Iterator[str | tuple[str, str]]:
    """Yield the messages of a script: a literal, or that for one and that for several."""
    for match in _SCRIPT_MESSAGE.finditer(source):
        one, other = (ast.literal_eval(text) if text else "" for text in match.groups())
        yield (one, other) if match[0].startswith("plural") else one


def _filled(scripts: str, name: str, value: object) -> str:
    """Return the scripts with a value for a constant that is ``{}`` in them."""
    return scripts.replace(f"const {name} = {{}};", f"const {name} = {script_json(value)};", 1)


def join_scripts(folder: Path, entry: str = "main.js") -> str:
    """Join ``entry`` and all it imports from ``folder``, dependencies first.

    Only named imports and exported declarations are supported; whole-line comments are dropped.

    Raises:
        ValueError: imports are cyclic, or modules use another form of import or export.
    """
    modules: dict[str, str] = {}
    _join(folder, entry, modules, ())
    return f'(() => {{\n"use strict";\nconst modules = {{}};\n{"".join(modules.values())}}})();\n'


def _join(folder: Path, name: str, modules: dict[str, str], above: tuple[str, ...]) -> None:
    """Add a module to ``modules`` after those that it imports."""
    if name in above:
        raise ValueError(f"modules import each other: {' → '.join((*above, name))}")
    if name in modules:
        return

    def import_line(match: re.Match[str]) -> str:
        imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), match["module"]))
        _join(folder, imported, modules, (*above, name))
        names = re.sub(r"\b(\w+) as (\w+)", r"\1: \2", match["names"])
        return f'const {{{names}}} = modules["{imported}"];\n'

    source = _COMMENT.sub("", (folder / name).read_text("utf-8"))
    exported = ", ".join(match["name"] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub("", _IMPORT.sub(import_line, source))
    if odd := _OTHER.search(body):
        raise ValueError(f"{name}: only named imports and declarations: {odd[0]}")
    modules[name] = (
        f'modules["{name}"] = (() => {{\n{body.strip()}\nreturn {{ {exported} }};\n}})();\n'
    )
