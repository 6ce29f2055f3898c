"""The report in short as plain text, for readers who ask a language model about their run.

Texts of the log are hostile: each stands on one line between marks with a word that no text
contains, so that none can end the data or be taken for the reader's own instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import NamedTuple, Protocol

import xxhash

from rlreport.pages.findings import VerdictView
from rlreport.pages.html import environment
from rlreport.text.clean import one_line
from rlreport.text.language import Language

# Maximum length in characters; more is tedious to paste, and crowds out the reader's question
MOST_CHARACTERS = 8_000
_MARKER_DIGITS = 8
_LONGEST_CARD_LINE = 160


class Overview(Protocol):
    """The view of the overview, of which the template shows more than is declared here."""

    @property
    def verdict(self) -> VerdictView: ...

    @property
    def card(self) -> Mapping[str, str] | None: ...


class Detail(NamedTuple):
    """How much of a report the text holds."""

    findings: int
    examples: int  # of each finding
    card_lines: int
    reasons: bool  # whether why findings matter and what to try


# The first that fits is taken
_DETAILS = (
    Detail(findings=40, examples=2, card_lines=80, reasons=True),
    Detail(findings=40, examples=2, card_lines=40, reasons=True),
    Detail(findings=40, examples=1, card_lines=40, reasons=False),
    Detail(findings=12, examples=1, card_lines=20, reasons=False),
    Detail(findings=6, examples=1, card_lines=10, reasons=False),
    Detail(findings=3, examples=0, card_lines=0, reasons=False),
    Detail(findings=0, examples=0, card_lines=0, reasons=False),
)


class CardLines(NamedTuple):
    """The configuration of the run, cut."""

    summary: str
    lines: list[str]
    more: int  # number of lines left out


def assistant_text(view: Overview, title: str, language: Language) -> str:
    """Return what the overview says as text of at most MOST_CHARACTERS characters.

    ``view`` is that of the overview, redacted if the report is.
    """
    view = language.of(view)
    text = ""
    for detail in _DETAILS:
        text = _marked(view, title, language, detail)
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def _marked(view: Overview, title: str, language: Language, detail: Detail) -> str:
    """Return the text with a marker that nothing else in it contains."""
    content = _rendered(view, title, language, detail, marker="")
    for number in count():
        digest = xxhash.xxh3_64_hexdigest(f"{number}{content}".encode())
        marker = digest[:_MARKER_DIGITS]
        if marker not in content:
            break
    return _rendered(view, title, language, detail, marker=marker)


def _rendered(
    view: Overview, title: str, language: Language, detail: Detail, *, marker: str
) -> str:
    findings = view.verdict.findings
    template = environment(language).get_template("assistant.txt")
    return template.render(
        view=view,
        title=title,
        detail=detail,
        findings=findings[: detail.findings],
        more_findings=max(0, len(findings) - detail.findings),
        card=_card(view.card, detail.card_lines),
        marker=marker,
    )


def _card(card: Mapping[str, str] | None, most: int) -> CardLines | None:
    if card is None:
        return None
    lines = [line for line in card["text"].split("\n") if line]
    shown = []
    for line in lines[:most]:
        indent = len(line) - len(line.lstrip(" "))
        shown.append(" " * indent + one_line(line, _LONGEST_CARD_LINE))
    return CardLines(card["summary"], shown, len(lines) - len(shown))
