"""The author's notes: a Markdown text at the top of the overview, with links into the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from markupsafe import Markup

from rlreport.errors import RowError, UsageError
from rlreport.pages.charts import page_charts
from rlreport.pages.context import RunReport
from rlreport.pages.page import Addresses
from rlreport.pages.quotes import (
    Quote,
    Quotes,
    QuoteState,
    add_quotes,
    quotes_as_text,
    quotes_in,
)
from rlreport.read.detect import NOTES_FILE
from rlreport.read.listing import is_url
from rlreport.system.documents import read_bounded
from rlreport.system.own_output import is_own_file, refuse_own_output
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import printable, shortened
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


MOST_BYTES = 64_000
_MOST_NAMED = 10  # Maximum number of broken links in a warning
_LONGEST_NAME = 60  # Maximum number of characters of each
_KINDS = "step|response|prompt|chart|finding"
# Targets of links into the report, such as ``step:12``
_OWN = re.compile(rf"({_KINDS}):(.+)", re.DOTALL)
# Number of a step or prompt, or step and n of a response: ``12``, ``12/3``, ``-5/3``
_PLACE = re.compile(r"(-?\d{1,18})(?:/(\d{1,18}))?", re.ASCII)
# Start of the addresses outside of the report that links may have
_ELSEWHERE = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
# A link into the report as Markdown: ``[text](step:12)``
_OWN_LINK = re.compile(rf"\[([^\[\]]*)\]\(<?((?:{_KINDS}):[^()<>]*)>?\)")


@dataclass(frozen=True, slots=True)
class Targets:
    """The parts of the report that links in the notes can lead to."""

    addresses: Addresses
    responses: Collection[tuple[int, int]]  # shown responses, as (step, n)
    prompts: Collection[int]  # ids of prompts with a response on the responses page
    charts: Mapping[str, str]  # name -> title of charts of the overview
    findings: Collection[str]  # ids of findings that the overview lists

    def address(self, kind: str, name: str) -> str | None:
        """Return the address for a link like ``step:12`` (kind:name), None if not in the report."""
        if kind in ("chart", "finding"):
            names = self.charts if kind == "chart" else self.findings
            return f"#{kind}={quote(name)}" if name in names else None
        numbers = _PLACE.fullmatch(name)
        # Only a response is given by two numbers.
        if not numbers or (numbers[2] is not None) != (kind == "response"):
            return None
        number = int(numbers[1])
        n = int(numbers[2] or 0)
        if kind == "step":
            return self.addresses.step(number)
        if kind == "prompt":
            return self.addresses.prompt(number) if number in self.prompts else None
        return self.response(number, n)

    def response(self, step: int, n: int, quote: str | None = None) -> str | None:
        """Return the address of a response, with a quote to mark; None if it is not shown."""
        if (step, n) not in self.responses:
            return None
        return self.addresses.response(step, n, quote=quote)


class Notes(NamedTuple):
    """The author's notes as HTML, a warning about broken links, and whether the end is missing."""

    html: Markup
    remark: str = ""
    cut: bool = False


def read_notes(
    logs: Sequence[str | Path],
    given: str | Path | None,
    *,
    redact: bool,
    hides: str = "",
) -> tuple[str, list[Note]]:
    """Return (Markdown or "", warnings); raise UsageError if the file ``given`` is unreadable.

    Args:
        logs: files and folders of the logs, next to which notes are looked for.
        given: path that the user gave, None if none was given.
        redact: whether the report must not contain texts that the user did not ask for.
        hides: another option that hides what notes may contain, "" without one.
    """
    path = notes_file(logs, given)
    if path is None:
        return "", []
    if redact and not given:
        text = message(
            "notes.md is left out because texts are redacted; pass --notes to include it"
        )
        return "", [Note(NoteKind.NOTES, text, 1)]
    if hides and not given:
        text = message(
            "notes.md is left out, as it may contain what {option} hides; pass --notes to include "
            "it",
            option=hides,
        )
        return "", [Note(NoteKind.NOTES, text, 1)]
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, RowError, UnicodeDecodeError) as error:
        why = _why_unreadable(error)
        if given and not path.exists():
            raise UsageError(f"--notes {given}: there is no such file") from None
        if given:
            raise UsageError(f"--notes {given}: {why}") from None
        return "", [
            Note(NoteKind.NOTES, message("notes.md cannot be read: {why}", why=why), 1)
        ]
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return printable(lines).strip("\n"), []


def _why_unreadable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return message("its text is not UTF-8")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def notes_file(logs: Sequence[str | Path], given: str | Path | None) -> Path | None:
    """Return ``given``, or the notes file of the only folder of ``logs`` with one, else None.

    A Markdown report is no file of notes: a later build would quote the earlier report.

    Raises:
        UnusableInputError: ``given`` is a report of rlreport.
    """
    if given:
        refuse_own_output([Path(given)], option="--notes")
        return Path(given)
    paths = {
        Path(log) / NOTES_FILE
        for log in logs
        if not is_url(str(log)) and Path(log).is_dir()
    }
    found = [path for path in paths if path.exists() and not is_own_file(path)]
    return found[0] if len(found) == 1 else None


def render_notes(
    text: str,
    targets: Targets | None = None,
    *,
    most: int = 10**9,
    words: Callable[[str], str] = str,
    quotes: Quotes | None = None,
    language: Language = ENGLISH,
) -> Notes:
    """Render the author's notes; raw HTML, images and broken links become text.

    Args:
        text: Markdown.
        targets: what links into the report can lead to; None: they become text.
        most: most characters of HTML; further blocks are left out.
        words: what is done to each text, such as escaping.
        quotes: what is known of the quotes of responses.
        language: in which that is written.
    """
    if not text.strip():
        return Notes(Markup())
    parser = _parser()
    inline = _Inline(targets, words, quotes or {}, language)
    tokens = parser.parse(text)
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    html = ""
    block = []
    for token in tokens:
        _prepare(token, inline, top_level=min(levels, default=1))
        block.append(token)
        # A block ends with its closing token, or is a single token.
        is_end = token.level == 0 and token.nesting <= 0
        if not is_end:
            continue
        block_html = parser.renderer.render(block, parser.options, {})
        if len(html) + len(block_html) > most:
            return Notes(Markup(html), cut=True)
        html += block_html
        block = []
    names = tuple(inline.broken_links)[:_MOST_NAMED]
    remark = message("broken links in the notes: {names}", names=names) if names else ""
    return Notes(Markup(html), remark)


def _prepare(token: Token, inline: _Inline, top_level: int) -> None:
    """Change a token, in place, to what is rendered; ``top_level``: least level of a heading."""
    if token.type.startswith("heading"):
        # Headings begin at level 3, as the section has level 2.
        level = int(token.tag[1]) - top_level + 3
        token.tag = f"h{min(6, level)}"
    # Of all attributes, only the first number of a list is of use.
    attributes = token.attrs.items()
    token.attrs = {name: value for name, value in attributes if name == "start"}
    token.content = printable(token.content)
    token.info = ""  # the language of a code block, which would become a class
    token.children = list(inline.rendered(token.children or ()))


def linked_notes(report: RunReport, addresses: Addresses) -> Notes:
    """Return the author's notes with links to the rendered parts of a report.

    ``addresses`` are relative to the page with the notes, the overview.
    """
    text = report.run.author_notes
    if not text:
        return Notes(Markup())
    run = report.run
    # The empty list: a report without pages of steps has no arrays to concatenate.
    shown = np.concatenate([[], *report.shown_rows]).astype(int)
    places = run.tables.responses[["step", "n"]].iloc[shown]
    charts = page_charts(report).overview
    targets = Targets(
        addresses,
        responses=set(places.itertuples(index=False, name=None)),
        prompts=report.listed_prompts,
        charts={chart.name: run.options.language.of(chart.title) for chart in charts},
        findings={finding.id for finding in run.verdict.findings},
    )
    return render_notes(text, targets, quotes=run.quotes, language=run.options.language)


def quotes_of(text: str) -> list[Quote]:
    """Return the quotes of responses in the author's notes, each once."""
    return quotes_in(text, _parser()) if text.strip() else []


def plain_notes(
    text: str, quotes: Quotes | None = None, language: Language = ENGLISH
) -> str:
    """Return the notes as Markdown, with links into the report replaced by text (or target)."""
    text = quotes_as_text(text, quotes or {}, language)

    def name(link: re.Match[str]) -> str:
        return str(link[1] or link[2])

    return _OWN_LINK.sub(name, text)


class _Inline:
    """Makes the text, links and images within a block harmless, and keeps broken links."""

    def __init__(
        self,
        targets: Targets | None,
        words: Callable[[str], str],
        quotes: Quotes,
        language: Language,
    ) -> None:
        self.targets = targets
        self.words = words
        self.quotes = quotes
        self.language = language
        self.broken_links: list[str] = []  # without repetitions

    def rendered(self, tokens: Sequence[Token]) -> Iterator[Token]:
        """Yield the tokens of a block to render, without the tags of broken links.

        An image becomes its alternative text, and a link without text gets one. Tokens are
        changed in place.
        """
        is_linked = True  # whether the last link opened leads anywhere
        target = ""  # of that link
        is_empty = False  # whether that link is open and has no text so far
        for token in tokens:
            if token.type == "quote":
                yield from self._quoted(token)
                continue
            attributes: dict[str, str | int | float] = {}
            if token.type == "link_open":  # links do not nest
                target = str(token.attrs["href"])
                href = self._address(target)
                is_empty = True
                is_linked = href is not None
                attributes = {"href": href or "", "rel": "noreferrer"}
            elif token.type == "link_close" and is_empty:
                name = shortened(self._name(target), _LONGEST_NAME)
                yield replace(
                    token, type="text", tag="", nesting=0, content=printable(name)
                )
            elif token.type == "image":
                parts = [child.content for child in token.children or ()]
                token.content = "".join(parts)
                token.type = "text"
                token.tag = ""
            # No other attribute of a token within a block is kept.
            token.attrs = attributes
            token.content = printable(token.content)
            if token.type == "text":
                token.content = self.words(token.content)
            is_empty = is_empty and not token.content.strip()
            # Of a broken link, the text remains.
            if is_linked or not token.type.startswith("link_"):
                yield token

    def _quoted(self, token: Token) -> Iterator[Token]:
        """Yield a quote, a link to it if it is in the report, and whether it was checked."""
        quote: Quote = token.meta["quote"]
        state = self.quotes.get(quote, QuoteState.NO_TEXT)
        is_checked = state is QuoteState.CHECKED
        href = None
        if self.targets:
            href = self.targets.response(
                quote.step, quote.n, quote.text if is_checked else None
            )
        shown = self._text(token, token.meta["shown"])
        if href is None:
            yield shown
        else:
            attributes = {"href": href, "rel": "noreferrer"}
            yield replace(
                token, type="link_open", tag="a", nesting=1, attrs=dict(attributes)
            )
            yield shown
            yield replace(token, type="link_close", tag="a", nesting=-1)
        yield self._text(token, " – ")
        name = "cited broken" if state.is_broken else "cited"
        yield replace(token, type="html_inline", content=f'<span class="{name}">')
        yield self._text(token, self.language.of(state.about(quote)))
        yield replace(token, type="html_inline", content="</span>")

    def _text(self, token: Token, content: str) -> Token:
        """Return a text in place of a token."""
        return replace(token, type="text", content=self.words(printable(content)))

    def _address(self, href: str) -> str | None:
        """Return where a link leads: ``href`` if it is outside of the report; None if nowhere.

        Links that lead nowhere are noted as broken, but not those into the report if there are no
        ``targets`` at all.
        """
        link = _OWN.fullmatch(unquote(href))
        address = None
        if link:
            if self.targets is None:
                return None
            address = self.targets.address(kind=link[1], name=link[2])
        elif _ELSEWHERE.match(href):
            address = href
        if address is None:
            name = shortened(printable(unquote(href)), _LONGEST_NAME)
            if name not in self.broken_links:
                self.broken_links.append(name)
        return address

    def _name(self, target: str) -> str:
        """Return the text of a link that has none: a chart's title, or the target."""
        target = unquote(target)
        kind, _, name = target.partition(":")
        if self.targets and kind == "chart":
            return self.targets.charts.get(name) or target
        return target


@cache
def _parser() -> MarkdownIt:
    """Return the Markdown parser: with tables, without raw HTML."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(
        ["table", "strikethrough"]
    )
    add_quotes(parser)
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # ``address`` decides
    return parser
