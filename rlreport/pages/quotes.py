"""Quotes of responses in the author's notes: recognize them, and check them against the logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from rlreport.read.rollouts import Rollout, Rollouts
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import printable, shortened
from rlreport.text.language import Language
from rlreport.text.messages import message, translatable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

MOST_CHARS = 1000  # Maximum number of characters of a quote
_MOST_NAMED = 10  # Maximum number of quotes that a warning lists
_LONGEST_NAMED = 60  # Maximum number of characters of each

# Characters that count as white space. Twin: ``BLANKS`` in ``static/js/shared/quote.js``
_BLANKS = re.compile(
    "[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
)
# Opening -> closing quotation marks
_MARKS = {
    "“": "”",
    '"': '"',
    "„": "“”",
    "«": "»",
    "「": "」",
    "『": "』",
}
_PLACE = r"response:(?P<step>-?\d{1,18})/(?P<n>\d{1,18})"
# ``[“quote”](response:58/1)``, with the place alone or in angle brackets
_LINKED = re.compile(
    r"\[\s*(?P<shown>"
    + "|".join(rf"{mark}.{{1,{MOST_CHARS}}}?[{ends}]" for mark, ends in _MARKS.items())
    + rf")\s*\]\(<?{_PLACE}>?\)",
    re.DOTALL | re.ASCII,
)
# ``response:58/1 "quote"`` in a sentence; code spans are matched first, to leave them alone.
# A code span begins with a whole run of backticks, so that each run is looked at once.
_LOOSE = re.compile(
    r"(?P<code>(?<!`)(?P<ticks>`+)(?!`).{0,2000}?(?<!`)(?P=ticks)(?!`))"
    rf"|(?<![\w(<:/`]){_PLACE}[:,]?\s*(?P<shown>"
    + "|".join(
        rf"{mark}[^{ends}]{{1,{MOST_CHARS}}}[{ends}]" for mark, ends in _MARKS.items()
    )
    + ")",
    re.DOTALL | re.ASCII,
)


class Quote(NamedTuple):
    """A quote of a response."""

    step: int
    n: int
    text: str  # without quotation marks


class QuoteState(Enum):
    """Whether a quote is in its response."""

    CHECKED = translatable("step {step}, response {n} (checked)")
    NOT_FOUND = translatable("✕ step {step}, response {n} (not found)")
    NO_RESPONSE = translatable("✕ step {step}, response {n} (no such response)")
    NO_TEXT = translatable(
        "step {step}, response {n} (not checked: its text is not kept)"
    )
    REDACTED = translatable(
        "step {step}, response {n} (not checked: texts are redacted)"
    )

    @property
    def is_broken(self) -> bool:
        return self in (QuoteState.NOT_FOUND, QuoteState.NO_RESPONSE)

    def about(self, quote: Quote) -> str:
        """Return the place of a quote and whether it was checked, as a message."""
        return message(self.value, step=quote.step, n=quote.n)


# What is known of the quotes in the notes
Quotes = Mapping[Quote, QuoteState]


def add_quotes(parser: MarkdownIt) -> None:
    r"""Make a Markdown parser yield a token of the type ``quote`` for each quote of a response.

    Its ``meta`` has the ``quote``, and how it is ``shown``, with quotation marks.
    A quote is taken literally: it may hold Markdown, such as ``*`` and ``\boxed{}``.
    """
    parser.core.ruler.before("inline", "quotes", _link_quotes)
    parser.inline.ruler.before("link", "quote", _quote_rule)


def _link_quotes(state: StateCore) -> None:
    """Rewrite ``response:58/1 "quote"`` as a link in the texts of blocks that are not code."""
    for token in state.tokens:
        if token.type == "inline":
            token.content = linked_quotes(token.content)


def linked_quotes(text: str) -> str:
    """Return Markdown in which each ``response:58/1 "quote"`` is ``["quote"](response:58/1)``."""

    def linked(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        return f"[{match['shown']}](response:{match['step']}/{match['n']})"

    return _LOOSE.sub(linked, text)


def _quote_rule(state: StateInline, silent: bool) -> bool:
    """Read a link whose text is in quotation marks and which leads to a response."""
    match = _LINKED.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("quote", "", 0)
        token.meta = {"quote": _quote(match), "shown": match["shown"]}
    state.pos = match.end()
    return True


def _quote(match: re.Match[str]) -> Quote:
    text = match["shown"][1:-1]
    return Quote(int(match["step"]), int(match["n"]), text)


def quotes_in(text: str, parser: MarkdownIt) -> list[Quote]:
    """Return the quotes of a Markdown text, each once; ``parser`` has ``add_quotes``."""
    quotes: dict[Quote, None] = {}
    for token in parser.parse(text):
        for child in token.children or ():
            if child.type == "quote":
                quotes[child.meta["quote"]] = None
    return list(quotes)


def check_quotes(
    quotes: Sequence[Quote],
    responses: pd.DataFrame,
    rollouts: Rollouts,
    *,
    redact: bool,
) -> dict[Quote, QuoteState]:
    """Return which quotes are in their responses; with ``redact``, no text is looked at.

    ``responses`` is the response table, ``rollouts`` has the texts that are kept of them.
    """
    if not quotes:
        return {}
    if redact:
        return dict.fromkeys(quotes, QuoteState.REDACTED)
    wanted = np.array([quote.step for quote in quotes])
    positions = np.flatnonzero(np.isin(responses["step"].to_numpy(), wanted))
    places = responses[["step", "n"]].iloc[positions]
    rows = dict(
        zip(places.itertuples(index=False, name=None), positions.tolist(), strict=True)
    )
    return {quote: _state(quote, rows, rollouts) for quote in quotes}


def _state(
    quote: Quote, rows: Mapping[tuple[int, int], int], rollouts: Rollouts
) -> QuoteState:
    """Return whether a quote is in its response, or why that is not known."""
    row = rows.get((quote.step, quote.n))
    if row is None:
        return QuoteState.NO_RESPONSE
    try:
        (rollout,) = rollouts.read([row], with_tokens=0)
    except LookupError:
        return QuoteState.NO_TEXT
    if rollout.hidden:
        return QuoteState.REDACTED
    texts = [text for text in _texts_of(rollout) if text]
    if not texts:
        return QuoteState.NO_TEXT
    if any(holds_quote(text, quote.text) for text in texts):
        return QuoteState.CHECKED
    return QuoteState.NOT_FOUND


def _texts_of(rollout: Rollout) -> Iterator[str]:
    """Yield the texts of a response that its panel shows."""
    yield rollout.response
    for turn in rollout.conversation:
        yield turn.text
        yield turn.thinking or ""
        yield turn.error or ""
        for _, arguments in turn.calls:
            yield arguments


def holds_quote(text: str, quote: str) -> bool:
    """Return whether a text holds a quote; white space of any length counts as one space.

    Twin: ``quoteSpan`` in ``static/js/shared/quote.js``.
    """
    wanted = _plain(quote).strip(" ")
    return bool(wanted) and wanted in _plain(text)


def _plain(text: str) -> str:
    return printable(_BLANKS.sub(" ", text))


def broken_quotes(quotes: Quotes) -> list[Note]:
    """Return a warning about quotes that are not in their responses, if there are any."""
    broken = [quote for quote, state in quotes.items() if state.is_broken]
    if not broken:
        return []
    names = tuple(
        message(
            "response:{step}/{n} “{quote}”",
            step=quote.step,
            n=quote.n,
            quote=shortened(printable(quote.text), _LONGEST_NAMED),
        )
        for quote in broken[:_MOST_NAMED]
    )
    text = message(
        "quotes in the notes that are not in their responses: {names}", names=names
    )
    return [Note(NoteKind.NOTES, text, len(broken))]


def quotes_as_text(text: str, quotes: Quotes, language: Language) -> str:
    """Return Markdown with quotes as texts, each with its place and whether it was checked."""

    def quote_as_text(link: re.Match[str]) -> str:
        quote = _quote(link)
        state = quotes.get(quote)
        if state is None:  # a link within code is no quote, and stays as it is
            return link[0]
        return f"{link['shown']} – {language.of(state.about(quote))}"

    return _LINKED.sub(quote_as_text, linked_quotes(text))
