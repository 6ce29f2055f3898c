"""The author's notes: a Markdown text at the top of the overview."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from markupsafe import Markup

from rlreport.errors import RowError, UsageError
from rlreport.read.detect import NOTES_FILE
from rlreport.read.files import is_url
from rlreport.system.documents import read_bounded
from rlreport.tables import Note
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import message

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

NOTES = "notes"  # ``Note.kind`` of warnings about the file of the author's notes
MOST_BYTES = 64_000
_LONGEST_NAME = 60  # characters of the target of a link that is shown as text
_ELSEWHERE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)


class Notes(NamedTuple):
    """The author's notes as HTML, and whether the end is missing."""

    html: Markup
    cut: bool = False


def read_notes(
    logs: Sequence[str | Path], given: str | Path | None, *, redact: bool
) -> tuple[str, list[Note]]:
    """Return the Markdown of the author's notes ("" if none), and warnings about the notes file."""
    path = notes_file(logs, given)
    if path is None:
        return "", []
    if redact and not given:
        text = message(
            "notes.md is left out because texts are redacted; pass --notes to include it"
        )
        return "", [Note(NOTES, text, 1)]
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, RowError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        if isinstance(error, UnicodeDecodeError):
            why = message("its text is not UTF-8")
        if given:
            why = why if path.exists() else "there is no such file"
            raise UsageError(f"--notes {given}: {why}") from None
        return "", [Note(NOTES, message("notes.md cannot be read: {why}", why=why), 1)]
    return printable(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n"), []


def notes_file(logs: Sequence[str | Path], given: str | Path | None) -> Path | None:
    """Return the file of the author's notes, None if there is none or each folder has its own."""
    if given:
        return Path(given)
    paths = {Path(log) / NOTES_FILE for log in logs if not is_url(str(log)) and Path(log).is_dir()}
    found = [path for path in paths if path.exists()]
    return found[0] if len(found) == 1 else None


def render_notes(text: str, *, most: int = 10**9, words: Callable[[str], str] = str) -> Notes:
    """Render the notes to HTML; raw HTML, images and links that are no web addresses are text."""
    if not text.strip():
        return Notes(Markup())
    parser, html, block = _parser(), "", []

    tokens = parser.parse(text)
    headings = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    for token in tokens:
        if token.type.startswith("heading"):  # from level 3, as the section has level 2
            token.tag = f"h{min(6, int(token.tag[1]) - min(headings) + 3)}"
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        token.content, token.info = printable(token.content), ""
        token.children = list(_inline(token.children or (), words))
        block.append(token)
        if token.level or token.nesting > 0:
            continue
        block_html = parser.renderer.render(block, parser.options, {})
        if len(html) + len(block_html) > most:
            return Notes(Markup(html), cut=True)
        html, block = html + block_html, []
    return Notes(Markup(html))


def _inline(tokens: Sequence[Token], words: Callable[[str], str]) -> list[Token]:
    """Replace images in Markdown tokens by alt texts, and other than web links by text (target)."""
    result: list[Token] = []
    target, linked, empty = "", True, False
    for token in tokens:
        attributes: dict[str, str | int | float] = {}
        if token.type == "link_open":  # links do not nest
            target = str(token.attrs["href"])
            linked, empty = bool(_ELSEWHERE.match(target)), True
            attributes = {"href": target, "rel": "noreferrer"}
        elif token.type == "link_close" and (empty or not linked):
            name = shortened(printable(unquote(target)), _LONGEST_NAME)
            content = words(name if empty else f" ({name})")
            result.append(replace(token, type="text", tag="", nesting=0, content=content))
        elif token.type == "image":
            token.content = "".join(child.content for child in token.children or ())
            token.type, token.tag = "text", ""
        token.attrs = attributes
        token.content = printable(token.content)
        if token.type == "text":
            token.content = words(token.content)
        empty = empty and not token.content.strip()
        if linked or not token.type.startswith("link_"):
            result.append(token)
    return result


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # ``_inline`` decides
    return parser
