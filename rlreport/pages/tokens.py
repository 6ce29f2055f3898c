"""The page of tokens and of texts that spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import pandas as pd

from rlreport.columns import TOKEN
from rlreport.draw.chart import Chart
from rlreport.pages.charts import drawn_charts
from rlreport.pages.context import RunReport
from rlreport.pages.page import Addresses, Page, has_responses
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    number_columns_of,
    table,
)
from rlreport.read.rollouts import EDGE
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, sentences, span

TOKENS_SHOWN = 40
# Minimum number of times a token must occur for a table of token means to list it
LEAST_SUPPORT = 20

Windows = tuple[tuple[int, int], tuple[int, int]]


class _Among(Enum):
    """Which tokens a ranking compares; rare ones have the largest means by chance alone."""

    ALL = auto()  # a share of the KL cannot be large by chance
    SUPPORTED = auto()
    IN_BOTH_WINDOWS = auto()


@dataclass(frozen=True, slots=True)
class _Ranking:
    """A table of the tokens with the largest value, by size, of the column ``sort_by``."""

    name: str
    caption: str
    columns: tuple[str, ...]
    sort_by: str
    among: _Among = _Among.SUPPORTED

    def rows(self, tokens: pd.DataFrame, least: int) -> pd.DataFrame:
        """Return the tokens to rank; ``least``: how often a supported one occurs."""
        supported = tokens[tokens["count"] >= least]
        if self.among is _Among.ALL:
            return tokens
        if self.among is _Among.IN_BOTH_WINDOWS:
            return supported[
                (supported["count_first"] > 0) & (supported["count_last"] > 0)
            ]
        return supported

    def note(self, least: int, windows: Windows) -> str:
        """Return which tokens the table compares, "" if all."""
        if self.among is _Among.ALL:
            return ""
        support = plural(
            "Tokens seen at least once.", "Tokens seen at least {count} times.", least
        )
        if self.among is _Among.SUPPORTED:
            return support
        first, last = windows
        means = message(
            "Mean probability within {first} and within {last}.",
            first=span(first),
            last=span(last),
        )
        return sentences([support, means])


_RANKINGS = (
    _Ranking(
        "kl-share",
        message("Tokens with the largest share of the KL"),
        ("kl_share", "kl_mean"),
        sort_by="kl_share",
        among=_Among.ALL,
    ),
    _Ranking(
        "log-ratio",
        message("Tokens furthest from the reference"),
        ("abs_log_ratio_mean", "log_ratio_mean"),
        sort_by="abs_log_ratio_mean",
    ),
    _Ranking(
        "rising",
        message("Tokens whose probability changed most"),
        ("prob_first", "prob_last", "prob_change"),
        sort_by="prob_change",
        among=_Among.IN_BOTH_WINDOWS,
    ),
    _Ranking(
        "value-error",
        message("Tokens by the critic's error"),
        ("abs_value_error_mean",),
        sort_by="abs_value_error_mean",
    ),
)

_TOKEN = ColumnView("token", message("Token"), kind="token")
_NGRAM = ColumnView("ngram", message("Text"), kind="token")
_SHARE = message("share of responses that contain it")
_SPREAD = (
    ColumnView(
        "share_first",
        message("First steps"),
        help=_SHARE,
        written="share",
        term="texts.share_first",
    ),
    ColumnView(
        "share_last",
        message("Last steps"),
        help=_SHARE,
        written="share",
        term="texts.share_last",
    ),
    ColumnView(
        "z",
        "z",
        help=message("significance of the rise of its share, in standard errors"),
        term="texts.z",
    ),
    ColumnView(
        "reward_lift",
        message("Reward lift"),
        help=message("gain over others in the step"),
        term="texts.reward_lift",
    ),
)
_SEEN_IN = ColumnView(
    "example",
    message("Seen in"),
    kind="link",
    help=message("a response that contains it"),
)


@dataclass(frozen=True, slots=True)
class TokensView:
    """What the page of tokens shows."""

    summary: str
    charts: Sequence[Chart]
    ngrams: TableView | None  # texts that spread
    tables: list[TableView]  # rankings of tokens


def tokens_view(report: RunReport, addresses: Addresses) -> TokensView:
    """Return what the page of tokens shows; without token strings, only texts that spread."""
    run = report.run
    tables = run.tables
    spreading = run.spreading.table
    missing = ""
    if tables.tokens.empty:
        missing = message("The log has no token strings (response_tokens).")
    return TokensView(
        summary=sentences([missing, sampling_note(tables)]),
        charts=drawn_charts(report).tokens,
        ngrams=_spreading(spreading, addresses) if len(spreading) else None,
        tables=list(_rankings(tables.tokens, run.windows, addresses)),
    )


PAGE = Page("tokens", message("Tokens"), tokens_view, has_responses)


def _rankings(
    tokens: pd.DataFrame, windows: Windows, addresses: Addresses
) -> Iterator[TableView]:
    """Yield a table for each ranking in which a token has a value other than 0.

    ``windows``: first and last window of steps, each as (first step, last step).
    """
    if tokens.empty:
        return
    # In a short run, a table of the most frequent tokens is better than none.
    least = min(LEAST_SUPPORT, int(tokens["count"].max()))
    for ranking in _RANKINGS:
        rows = ranking.rows(tokens, least)
        size = rows[ranking.sort_by].abs()
        if size.max() > 0:
            # Tokens of one size are in the order of their texts, the same in every report.
            ranked = rows.assign(_size=size)[size.notna()]
            ranked = ranked.sort_values(["_size", "raw"], ascending=[False, True])
            top = ranked.head(TOKENS_SHOWN)
            yield _ranking_table(ranking, top, ranking.note(least, windows), addresses)


def _ranking_table(
    ranking: _Ranking, top: pd.DataFrame, note: str, addresses: Addresses
) -> TableView:
    """Return the table of a ranking; ``top`` are its tokens, the first one first."""
    texts = top["token"].astype(str)
    raw_texts = top["raw"]  # as logged: the cell is sorted by it, and shows it on hover
    tokens = [
        Cell(token, raw, raw) for token, raw in zip(texts, raw_texts, strict=True)
    ]
    places = zip(
        top["example_step"], top["example_n"], top["example_position"], strict=True
    )
    columns = [TOKEN[name] for name in ("count", *ranking.columns)]
    return table(
        ranking.name,
        ranking.caption,
        {
            _TOKEN: tokens,
            **number_columns_of(top, columns),
            _SEEN_IN: [_example(addresses, step, n, at) for step, n, at in places],
        },
        ids=[f"{ranking.name}-{rank}" for rank in range(len(top))],
        note=note,
    )


def _example(
    addresses: Addresses, step: float, n: float, token: float | None = None
) -> Cell:
    """Return a link to a response that contains a token or text; ``step`` is NaN without any.

    ``token`` is the token's position in the response, None for a text.
    """
    if pd.isna(step):
        return Cell("–", None, message("in none of the sampled responses"))
    position = None if token is None or pd.isna(token) else int(token)
    text = message("step {step}, response {n}", step=int(step), n=int(n))
    href = addresses.response(int(step), int(n), token=position)
    return Cell(text, float(step), href=href)


def sampling_note(tables: Tables) -> str:
    """Return a note if figures of texts use a sample, or cut long responses; "" otherwise."""
    notes = []
    if tables.sample_note:
        notes.append(message("{one:capital}.", one=tables.sample_note))
    if tables.responses["response_tokens"].max() > 2 * EDGE:
        cut = message(
            "Of responses over {most:count} tokens, only the first and the last {edge:count} are "
            "used.",
            most=2 * EDGE,
            edge=EDGE,
        )
        notes.append(cut)
    return sentences(notes)


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView:
    """Return the table of texts that spread, each with its first example."""
    examples = []
    for references in map(list, spreading["examples"]):
        if references:
            step, n = references[0]
            examples.append(_example(addresses, step, n))
        else:
            examples.append(Cell("–"))
    columns: Columns = {
        _NGRAM: [Cell(text, text) for text in spreading["ngram"].astype(str)]
    }
    for column in _SPREAD:
        columns[column] = spreading[column.key]
    columns[_SEEN_IN] = examples
    return table("ngrams", message("Texts that spread through the responses"), columns)
