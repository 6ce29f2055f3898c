"""The style sheet and the scripts of pages, bundled and translated."""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from rlreport.draw.bundle import vega_bundle
from rlreport.draw.theme import PADDING, TITLES, tokens
from rlreport.pages.html import script_json
from rlreport.pages.template_files import package_folder
from rlreport.text.language import ENGLISH, Language

_IMPORT = re.compile(
    r'^import \{(?P<names>[^}]*)\} from "(?P<module>\.{1,2}/[\w./-]+\.js)";\n', re.M
)
_EXPORT = re.compile(
    r"^export (?=(?:async )?(?:function|class|const) +(?P<name>\w+))", re.M
)
_COMMENT = re.compile(r"^ *(?:/\*\*(?:(?!\*/)[\s\S])*\*/|// .*) *\n", re.M)
# Pattern of a message call in a script; its groups are the text and, if any, the plural text
_SCRIPT_MESSAGE = re.compile(
    r'\b(?:message|plural|marked|nodes)\(\s*("(?:[^"\\\n]|\\.)*")(?:,\s*("(?:[^"\\\n]|\\.)*"))?'
)


@dataclass(frozen=True)
class Assets:
    """Style sheet and scripts, each made when it is used, with messages in ``language``."""

    language: Language

    @cached_property
    def style(self) -> str:
        return _palette() + (package_folder("static") / "style.css").read_text("utf-8")

    @cached_property
    def report(self) -> str:
        """The script of a report folder."""
        return _script("page/main.js", self.language)

    @cached_property
    def one_file(self) -> str:
        """The script of a report in one file."""
        return _script("page/one-file.js", self.language)

    @cached_property
    def vega(self) -> str:
        return vega_bundle()

    @cached_property
    def files(self) -> dict[str, tuple[str, bytes]]:
        """Logical name, e.g. "style" -> (path with a hash of the content, bytes) in a folder."""
        texts = {
            "style.css": self.style,
            "report.js": self.report,
            "vega.js": self.vega,
        }
        result = {}
        for file, text in texts.items():
            name, suffix = file.split(".")
            digest = hashlib.sha256(text.encode()).hexdigest()[:10]
            result[name] = (f"assets/{name}.{digest}.{suffix}", text.encode())
        return result


@lru_cache(maxsize=8)
def assets(language: Language) -> Assets:
    """Return style sheet and scripts; messages in scripts are translated to ``language``."""
    return Assets(language)


def _palette() -> str:
    """Return the rule of the style sheet that declares all colours."""
    light = tokens("light")
    dark = tokens("dark")
    colours = [f"--{name}: light-dark({light[name]}, {dark[name]});" for name in light]
    return f":root {{ {' '.join(colours)} }}\n"


def _script(entry: str, language: Language) -> str:
    """Return a script with all that it imports, with its messages and the look of charts."""
    look = {"colours": tokens("light"), "padding": PADDING, "titles": TITLES}
    joined = join_scripts(package_folder("static") / "js", entry)
    script = _translated(joined, language)
    return _set_constant(script, "LOOK", look)


def _translated(scripts: str, language: Language) -> str:
    """Return scripts that know the translations of their messages, in the constant ``WORDS``."""
    if language == ENGLISH:  # messages are written in English
        return scripts
    catalogue = language.translations
    translations: dict[str, str | list[str]] = {}
    for text in script_messages(scripts):
        if isinstance(text, str):
            translations[text] = catalogue.gettext(text)
        else:
            # Singular and plural, as texts of 1 and of 2
            translations[text[0]] = [
                catalogue.ngettext(*text, count) for count in (1, 2)
            ]
    return _set_constant(scripts, "WORDS", translations)


def script_messages(source: str) -> Iterator[str | tuple[str, str]]:
    """Yield each message of a script: its literal, or (singular, plural) if it has a count."""
    for match in _SCRIPT_MESSAGE.finditer(source):
        singular, plural = (
            ast.literal_eval(text) if text else "" for text in match.groups()
        )
        yield (singular, plural) if match[0].startswith("plural") else singular


def _set_constant(scripts: str, name: str, value: object) -> str:
    """Return scripts in which an empty object, declared as a constant, has a value."""
    return scripts.replace(
        f"const {name} = {{}};", f"const {name} = {script_json(value)};", 1
    )


def join_scripts(folder: Path, entry: str = "main.js") -> str:
    """Bundle a module with its imports, dependencies first; drop comments on lines of their own."""
    modules: dict[str, str] = {}
    _join(folder, entry, modules)
    return f'(() => {{\n"use strict";\nconst modules = {{}};\n{"".join(modules.values())}}})();\n'


def _join(folder: Path, name: str, modules: dict[str, str]) -> None:
    """Add a module to ``modules``, after those that it imports, as a function that is called.

    ``name`` is its path in ``folder``. The function returns what the module exports.
    """
    if name in modules:
        return

    def import_line(match: re.Match[str]) -> str:
        """Add an imported module; return the line that replaces its import."""
        imported = posixpath.normpath(
            posixpath.join(posixpath.dirname(name), match["module"])
        )
        _join(folder, imported, modules)
        # ``{a as b}`` of an import is ``{a: b}`` where an object is taken apart.
        names = re.sub(r"\b(\w+) as (\w+)", r"\1: \2", match["names"])
        return f'const {{{names}}} = modules["{imported}"];\n'

    source = _COMMENT.sub("", (folder / name).read_text("utf-8"))
    exports = ", ".join(match["name"] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub("", _IMPORT.sub(import_line, source))
    modules[name] = (
        f'modules["{name}"] = (() => {{\n{body.strip()}\nreturn {{ {exports} }};\n}})();\n'
    )
