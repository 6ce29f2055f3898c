"""Translate messages into the language of a report.

Translations are in ``catalogues/<language>.po``. Building or installing the package compiles them
to ``.mo`` files (``hatch_build.py`` runs this module). If these are missing, as in a checkout that
is not installed, every run compiles them, which needs Babel. ``python -m tools.catalogue`` adds
new messages to the ``.po`` files.
"""

from __future__ import annotations

import gettext
import io
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from rlreport.errors import UsageError
from rlreport.text.messages import Joined, Message, bare_separator, filled

T = TypeVar("T")

FOLDER = Path(__file__).with_name("catalogues")
_ENGLISH = "en"
# Language code, as for ``--lang`` -> BCP 47 tag
TAGS: Mapping[str, str] = {_ENGLISH: "en", "zh": "zh-CN"}

# Language code -> CSS fonts for pictures, if the default font lacks its characters
FONTS: Mapping[str, str] = {
    "zh": "'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
}

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the interface, selected by ``--lang``, not by the locale."""

    code: str = _ENGLISH

    @property
    def tag(self) -> str:
        """BCP 47 tag, the value of ``<html lang>``."""
        return TAGS.get(self.code, self.code)

    @property
    def font(self) -> str:
        return FONTS.get(self.code, "sans-serif")

    @property
    def translations(self) -> gettext.NullTranslations:
        return _translations(self.code, FOLDER)

    def of(self, value: T) -> T:
        """Return a message, list, tuple, dict or dataclass with all messages in it translated."""
        return value if self.code == _ENGLISH else cast("T", self._translated(value))

    def _translated(self, value: Any) -> Any:
        """Return a value with all messages in it translated; a dataclass without any is unchanged.

        Values of other types than those below are returned as they are.
        """
        kind = type(value)
        if kind in _PLAIN:  # first, as most values are of these types
            return value
        if kind is Message:
            return filled(self._literal(value), value.places, self._translated)
        if kind is Joined:
            parts = [self._translated(part) for part in value.parts]
            separator = value.separator
            if separator:  # gettext("") would return the header of the catalogue
                separator = self.translations.gettext(separator)
            return bare_separator(separator).join(parts)
        if kind is list:
            return [self._translated(item) for item in value]
        if kind is dict:
            return {key: self._translated(item) for key, item in value.items()}
        if isinstance(value, tuple):
            items = [self._translated(item) for item in value]
            is_named = hasattr(value, "_fields")
            return kind(*items) if is_named else tuple(items)
        if is_dataclass(value) and not isinstance(value, type):
            return self._translated_dataclass(value)
        return value

    def _translated_dataclass(self, value: Any) -> Any:
        """Return a dataclass with all messages in its fields translated; itself without any."""
        changed: dict[str, Any] = {}
        # Fields without ``init`` are left out: ``replace`` computes them anew, from the others.
        for field in fields(value):
            if field.init:
                before = getattr(value, field.name)
                after = self._translated(before)
                if after is not before:
                    changed[field.name] = after
        return replace(value, **changed) if changed else value

    def _literal(self, message: Message) -> str:
        """Return the translated literal, in the form for its count if it has a plural."""
        if message.plural:
            return self.translations.ngettext(
                message.literal, message.plural, message.number
            )
        return self.translations.gettext(message.literal)


ENGLISH = Language()


def language(code: str) -> Language:
    """Return the language with a code such as ``zh``; raise UsageError if there is none."""
    if code not in TAGS:
        raise UsageError(
            f"unknown language {code!r}; available languages: {', '.join(TAGS)}"
        )
    return Language(code)


@lru_cache(maxsize=8)
def _translations(code: str, folder: Path) -> gettext.NullTranslations:
    """Return the catalogue of a language in a folder; for English, one that changes nothing."""
    if code == _ENGLISH:
        return gettext.NullTranslations()
    return gettext.GNUTranslations(compiled(folder / f"{code}.po"))


def compiled(po: Path) -> io.BytesIO:
    """Return the compiled form of a ``.po`` file; compile it if its ``.mo`` is missing or older."""
    mo = po.with_suffix(".mo")
    if not mo.exists():
        return io.BytesIO(make(po))
    is_older = po.exists() and po.stat().st_mtime > mo.stat().st_mtime
    return io.BytesIO(make(po) if is_older else mo.read_bytes())


def make(po: Path) -> bytes:
    """Return the ``.mo`` form of a ``.po`` file; fuzzy and untranslated messages stay English."""
    from babel.messages import mofile, pofile

    compiled_file = io.BytesIO()
    with po.open("rb") as file:
        catalog = pofile.read_po(file, locale=po.stem)
    for message in list(catalog):
        if isinstance(message.string, tuple) and not all(message.string):
            catalog.delete(message.id)  # Babel would write English for a missing form
    mofile.write_mo(compiled_file, catalog)
    return compiled_file.getvalue()


if __name__ == "__main__":
    for catalogue in FOLDER.glob("*.po"):
        catalogue.with_suffix(".mo").write_bytes(make(catalogue))
