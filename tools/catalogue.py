"""Update the message catalogues of all translations: ``python -m tools.catalogue``.

Adds new messages without a translation, removes unused ones, and compiles each catalogue. With
``--check`` it changes nothing and fails if a message has no translation, as before a release.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages import Catalog, pofile
from jinja2.ext import GETTEXT_FUNCTIONS, babel_extract

from rlreport.pages.scripts import script_messages
from rlreport.text.language import FOLDER, make

ROOT = Path(__file__).resolve().parents[1]

_HEADERS = re.compile(
    r'^"(?:Project-Id|Report-Msgid|POT-Cre|PO-Rev|Last-Tr|Language-Team|Generated-By).*\n',
    re.MULTILINE,
)
"""Catalogue headers with author and date, which are omitted: version control has them."""

_Text = str | tuple[str, str]  # a message, or its singular and plural

_LITERALS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "message": ((0,), ()),
    "format_message": ((0,), ()),
    "translatable": ((0,), ()),
    "_section": ((0, 1, 2, 3, 4), ()),
    "Message": ((0,), ()),
    "Column": ((1, 2, 3), ("label", "unit", "help")),
    "Need": ((0,), ()),
    "Limit": ((2, 3, 4), ()),
    "Curve": ((1,), ()),
    "Field": ((2,), ()),
    "not_run": ((0,), ()),
    "Ranking": ((), ("unit",)),
    "Extreme": ((0,), ()),
    "_chart": ((1,), ("axis", "note")),
    "Check": (
        (),
        (
            "name",
            "title",
            "statement",
            "why",
            "suggestion",
            "before_setting",
            "otherwise",
            "source",
            "needs_also",
            "close",
        ),
    ),
}
"""Function name -> positions and keywords of those arguments that are translatable messages."""

_AS_COLUMNS = {
    "_whole",
    "_count",
    "_share",
    "_shown",
    "_asked",
    "_shown_count",
    "_asked_count",
    "_inner",
}
"""Functions whose arguments are messages at the same positions as those of ``Column``."""


def extracted(root: Path) -> Catalog:
    """Return a catalogue of all messages in the package, templates and scripts below ``root``."""
    catalogue = Catalog(
        project="rlreport",
        charset="utf-8",
        creation_date=datetime(2026, 1, 1, tzinfo=UTC),
    )
    for path in sorted((root / "rlreport").rglob("*.py")):
        _add(catalogue, root, path, _python_messages(path.read_text("utf-8")))
    for path in sorted((root / "templates").rglob("*")):
        if path.is_file():
            _add(catalogue, root, path, _template_messages(path))
    for path in sorted((root / "static" / "js").rglob("*.js")):
        _add(catalogue, root, path, script_messages(path.read_text("utf-8")))
    return catalogue


def _add(catalogue: Catalog, root: Path, path: Path, texts: Iterator[_Text]) -> None:
    for text in texts:
        if text:
            catalogue.add(text, locations=[(path.relative_to(root).as_posix(), 0)])


def _python_messages(source: str) -> Iterator[_Text]:
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
        literals = [_literal(argument) for argument in call.args]
        if name == "plural" and len(literals) > 1 and literals[0] and literals[1]:
            yield literals[0], literals[1]
            continue
        positions, keywords = _LITERALS.get(
            "Column" if name in _AS_COLUMNS else name, ((), ())
        )
        yield from (
            literals[position] for position in positions if position < len(literals)
        )
        for pair in call.keywords:
            if pair.arg in keywords:
                nodes = (
                    pair.value.values
                    if isinstance(pair.value, ast.Dict)
                    else [pair.value]
                )
                yield from map(_literal, nodes)


def _literal(node: ast.expr) -> str:
    return (
        node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        else ""
    )


def _template_messages(path: Path) -> Iterator[_Text]:
    options = {"trimmed": "true", "trim_blocks": "true", "lstrip_blocks": "true"}
    with path.open("rb") as file:
        for _, _, text, _ in babel_extract(file, GETTEXT_FUNCTIONS, (), options):
            singular, plural = text[:2] if isinstance(text, tuple) else (text, None)
            yield (singular, plural) if singular and plural else singular or ""


def update(po: Path, messages: Catalog) -> None:
    """Update the catalogue file ``po``: add new messages, remove all others, keep translations."""
    catalogue = Catalog(locale=po.stem)
    if po.exists():
        with po.open("rb") as file:
            catalogue = pofile.read_po(file, locale=po.stem)
    catalogue.update(messages, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.fuzzy, catalogue.header_comment = (
        False,
        f"# What rlreport says, in {po.stem}.",
    )
    content = io.BytesIO()
    pofile.write_po(
        content, catalogue, width=100, sort_by_file=True, include_lineno=False
    )
    po.write_text(_HEADERS.sub("", content.getvalue().decode()), "utf-8")


def untranslated(po: Path) -> list[str]:
    """Return the messages in catalogue file ``po`` that reports show in English."""
    with po.open("rb") as file:
        entries = [entry for entry in pofile.read_po(file, locale=po.stem) if entry.id]
    forms = (
        (e.id, e.string if isinstance(e.string, tuple) else (e.string,))
        for e in entries
    )
    return [
        id if isinstance(id, str) else id[0] for id, texts in forms if not all(texts)
    ]


def main() -> None:
    """Update and compile every catalogue, or with ``--check`` look for missing translations."""
    if sys.argv[1:] == ["--check"]:
        missing = [
            f"{po}: {text}" for po in FOLDER.glob("*.po") for text in untranslated(po)
        ]
        sys.exit("\n".join(missing) or 0)
    messages = extracted(ROOT)
    for po in sorted(FOLDER.glob("*.po")):
        update(po, messages)
        po.with_suffix(".mo").write_bytes(make(po))
        print(po)


if __name__ == "__main__":
    main()
