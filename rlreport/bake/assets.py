"""Style sheet and scripts as they are delivered: joined, named by their content.

Browsers refuse to load modules from ``file://``. So the ES modules of ``static/js`` are delivered
as one classic script: each module becomes a function that returns its exports, after the modules
it imports, and nothing reaches the page's globals.
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

from rlreport.bake.environment import package_folder
from rlreport.bake.script_json import script_json
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
"""A message in a script: its literal, and that of the plural."""


@dataclass(frozen=True)
class Assets:
    """Texts of the shared assets.

    Attributes:
        style: style sheet.
        report: scripts of the folder form's pages.
        one_file: scripts of the one-file form.
        vega: Vega's bundle.
    """

    style: str
    report: str
    one_file: str
    vega: str

    @cached_property
    def files(self) -> dict[str, tuple[str, bytes]]:
        """Logical name -> (file below the root with its content hash, bytes)."""
        return {
            name: (f"assets/{name}.{_hash(text)}.{suffix}", text.encode())
            for name, text, suffix in (
                ("style", self.style, "css"),
                ("report", self.report, "js"),
                ("vega", self.vega, "js"),
            )
        }


@lru_cache(maxsize=8)
def assets(language: Language) -> Assets:
    """Return the assets of this version, scripts with the messages of a language."""
    static = package_folder("static")
    look = {"colours": tokens("light"), "padding": PADDING, "titles": TITLES}
    report, one_file = (
        _filled(in_language(join_scripts(static / "js", entry), language), "LOOK", look)
        for entry in ("page/main.js", "page/one-file.js")
    )
    return Assets(
        palette() + (static / "style.css").read_text("utf-8"),
        report,
        one_file,
        vega_bundle(),
    )


def in_language(scripts: str, language: Language) -> str:
    """Return scripts with the translations of their messages, none in English.

    Messages with a count have a form for one and one for several.
    """
    catalogue = language.translations
    words: dict[str, str | list[str]] = {}
    for text in script_messages(scripts):
        if isinstance(text, str):
            words[text] = catalogue.gettext(text)
        else:
            words[text[0]] = [catalogue.ngettext(*text, count) for count in (1, 2)]
    return scripts if language == ENGLISH else _filled(scripts, "WORDS", words)


def script_messages(source: str) -> Iterator[str | tuple[str, str]]:
    """Yield the messages of a script: a literal, or that for one and that for several."""
    for found in _SCRIPT_MESSAGE.finditer(source):
        one, other = (ast.literal_eval(text) if text else "" for text in found.groups())
        yield (one, other) if found[0].startswith("plural") else one


def palette() -> str:
    """Return the design tokens as custom properties, light and dark."""
    light, dark = tokens("light"), tokens("dark")
    colours = (f"--{name}: light-dark({light[name]}, {dark[name]});" for name in light)
    return f":root {{ {' '.join(colours)} }}\n"


def _filled(scripts: str, name: str, value: object) -> str:
    """Set the value of a constant that is empty in the scripts."""
    return scripts.replace(f"const {name} = {{}};", f"const {name} = {script_json(value)};", 1)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def join_scripts(folder: Path, entry: str = "main.js") -> str:
    """Join ``entry`` and all it imports from ``folder``, dependencies first.

    Imports are named ones, exports are declarations; whole-line comments stay behind.

    Raises:
        ValueError: modules import each other in a circle, or use another form of import or
            export.
    """
    order: list[str] = []
    _visit(folder, entry, order, ())
    parts = [_wrapped(folder, name) for name in order]
    return '(() => {\n"use strict";\nconst modules = {};\n' + "".join(parts) + "})();\n"


def _visit(folder: Path, name: str, order: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"modules import each other: {' → '.join((*above, name))}")
    if name in order:
        return
    for match in _IMPORT.finditer(_source(folder, name)):
        _visit(folder, _resolve(name, match["module"]), order, (*above, name))
    order.append(name)


def _source(folder: Path, name: str) -> str:
    return (folder / name).read_text("utf-8")


def _wrapped(folder: Path, name: str) -> str:
    source = _COMMENT.sub("", _source(folder, name))
    exported = [match["name"] for match in _EXPORT.finditer(source)]
    body = _IMPORT.sub(lambda match: _destructured(name, match), source)
    body = _EXPORT.sub("", body)
    if odd := _OTHER.search(body):
        raise ValueError(f"{name}: only named imports and declarations: {odd[0]}")
    return (
        f'modules["{name}"] = (() => {{\n{body.strip()}\n'
        f"return {{ {', '.join(exported)} }};\n}})();\n"
    )


def _resolve(importer: str, module: str) -> str:
    """Return the path below the scripts' folder that ``importer`` means by ``module``."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))


def _destructured(importer: str, match: re.Match[str]) -> str:
    names = re.sub(r"\b(\w+) as (\w+)", r"\1: \2", match["names"])
    return f'const {{{names}}} = modules["{_resolve(importer, match["module"])}"];\n'
