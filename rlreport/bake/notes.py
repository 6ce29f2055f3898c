"""The author's notes: a Markdown text at the top of the overview, with links into the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from markupsafe import Markup

from rlreport.bake.pages import Addresses
from rlreport.errors import RowError, UsageError
from rlreport.read.detect import NOTES_FILE
from rlreport.read.files import is_url
from rlreport.sidefiles import read_bounded
from rlreport.tables import Note
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import message

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

NOTES = "notes"
"""Kind of the remarks on the file."""

MOST_BYTES = 64_000
_MOST_NAMED, _LONGEST_NAME = 10, 60  # targets that a note names, and characters of each
_KINDS = "step|response|prompt|chart|finding"
_OWN = re.compile(rf"({_KINDS}):(.+)", re.DOTALL)
_PLACE = re.compile(r"(\d{1,18})(?:/(\d{1,18}))?", re.ASCII)
_ELSEWHERE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_OWN_LINK = re.compile(rf"\[([^\[\]]*)\]\(<?((?:{_KINDS}):[^()<>]*)>?\)")


@dataclass(frozen=True, slots=True)
class Targets:
    """What links of the notes can lead to.

    Attributes:
        responses: shown responses, as (step, n).
        prompts: ids of prompts with a response in the list of the run.
        charts: names of charts of the overview.
        findings: ids of findings that the overview lists.
    """

    addresses: Addresses
    responses: Collection[tuple[int, int]]
    prompts: Collection[int]
    charts: Collection[str]
    findings: Collection[str]

    def address(self, kind: str, name: str) -> str | None:
        """Return the address of a target, None if the report does not have it."""
        if kind in ("chart", "finding"):
            known = self.charts if kind == "chart" else self.findings
            return f"#{kind}={quote(name)}" if name in known else None
        place = _PLACE.fullmatch(name)
        if not place or (place[2] is not None) != (kind == "response"):
            return None
        number, n = int(place[1]), int(place[2] or 0)
        if kind == "step":
            return self.addresses.step(number)
        if kind == "prompt":
            return self.addresses.prompt(number) if number in self.prompts else None
        return self.addresses.response(number, n) if (number, n) in self.responses else None


class Notes(NamedTuple):
    """The rendered notes: HTML, a remark on links without a target, whether the end is missing."""

    html: Markup
    remark: str = ""
    cut: bool = False


def read_notes(
    logs: Sequence[str | Path], given: str | Path | None, *, redact: bool
) -> tuple[str, list[Note]]:
    """Return the Markdown text of the notes, "" without any, and remarks on the file.

    Args:
        logs: paths of the logs; ``notes.md`` in a folder of them is read if nothing is given.
        given: the file named by the user.
        redact: whether texts are left out, as a file that was found then is, too.

    Raises:
        UsageError: the given file cannot be read, is too large or is not UTF-8.
    """
    folders = () if given else {Path(log) for log in logs if not is_url(str(log))}
    found = (
        [Path(given)]
        if given
        else [folder / NOTES_FILE for folder in folders if _has_notes(folder)]
    )
    if len(found) != 1:  # notes of several folders are of several runs
        return "", []
    if redact and not given:
        text = message("notes.md is left out with the texts; --notes shows it")
        return "", [Note(NOTES, text, 1)]
    try:
        text = read_bounded(found[0], MOST_BYTES).decode("utf-8-sig")
    except (OSError, RowError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        if isinstance(error, UnicodeDecodeError):
            why = message("its text is not UTF-8")
        if given:
            why = why if found[0].exists() else "there is no such file"
            raise UsageError(f"--notes {given}: {why}") from None
        return "", [Note(NOTES, message("notes.md cannot be read: {why}", why=why), 1)]
    return printable(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n"), []


def _has_notes(folder: Path) -> bool:
    return folder.is_dir() and (folder / NOTES_FILE).exists()


def render_notes(
    text: str,
    targets: Targets | None = None,
    *,
    most: int = 10**9,
    words: Callable[[str], str] = str,
) -> Notes:
    """Return the notes as HTML: no markup but Markdown's, no pictures, no unknown links.

    Args:
        text: Markdown.
        targets: what links can lead to; None for formats without pages.
        most: characters; paragraphs that would exceed it are left out.
        words: applied to texts.
    """
    if not text.strip():
        return Notes(Markup())
    parser, html, block, missing = _parser(), "", [], {}

    def address(href: str) -> str | None:
        own = _OWN.fullmatch(unquote(href))
        if own and targets is None:
            return None
        found = targets.address(own[1], own[2]) if own and targets else None
        if not own and _ELSEWHERE.match(href):
            found = href
        if found is None:
            missing[shortened(printable(unquote(href)), _LONGEST_NAME)] = True
        return found

    tokens = parser.parse(text)
    headings = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    for token in tokens:
        if token.type.startswith("heading"):  # the section itself has a heading of level 2
            token.tag = f"h{min(6, int(token.tag[1]) - min(headings) + 3)}"
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        token.content, token.info = printable(token.content), ""
        token.children = list(_inline(token.children or (), address, words))
        block.append(token)
        if token.level or token.nesting > 0:
            continue
        piece = parser.renderer.render(block, parser.options, {})
        if len(html) + len(piece) > most:
            return Notes(Markup(html), cut=True)
        html, block = html + piece, []
    names = tuple(list(missing)[:_MOST_NAMED])
    remark = message("links of the notes that lead nowhere: {names}", names=names) if names else ""
    return Notes(Markup(html), remark)


def plain_notes(text: str) -> str:
    """Return the notes as plain text: Markdown in which links into the report are their words."""
    return _OWN_LINK.sub(lambda link: link[1] or link[2], text)


def _inline(
    tokens: Sequence[Token],
    address: Callable[[str], str | None],
    words: Callable[[str], str],
) -> list[Token]:
    """Return the tokens of a line with pictures as their words and links that have an address."""
    kept: list[Token] = []
    linked, target, empty = True, "", False
    for token in tokens:
        attributes: dict[str, str | int | float] = {}
        if token.type == "link_open":  # links do not nest
            target = str(token.attrs["href"])
            href, empty = address(target), True
            linked = href is not None
            attributes = {"href": href or "", "rel": "noreferrer"}
        elif token.type == "link_close" and empty:
            name = shortened(unquote(target), _LONGEST_NAME)
            kept.append(replace(token, type="text", tag="", nesting=0, content=printable(name)))
        elif token.type == "image":
            token.content = "".join(child.content for child in token.children or ())
            token.type, token.tag = "text", ""
        token.attrs = attributes
        token.content = printable(token.content)
        if token.type == "text":
            token.content = words(token.content)
        empty = empty and not token.content.strip()
        if linked or not token.type.startswith("link_"):
            kept.append(token)
    return kept


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # ``address`` decides
    return parser
