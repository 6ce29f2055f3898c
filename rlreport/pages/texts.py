"""The page of texts that spread, and of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote

import numpy as np
import pandas as pd

from rlreport.check.spread_curves import TextSpread
from rlreport.columns import TOKEN
from rlreport.draw.chart import Chart
from rlreport.pages.charts import drawn_charts, spreads_of
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
from rlreport.text.clean import shortened
from rlreport.text.messages import message, plural, sentences, span

TOKENS_SHOWN = 40
# Minimum number of times a token must occur for a table of token means to list it
LEAST_SUPPORT = 20

# What the rankings of tokens need, as a line of Python that logs it
_TOKEN_WRITER = (
    'RolloutWriter("rollouts").write(step=step, prompt=prompt, response=response, reward=reward, '
    "response_tokens=tokens, logprobs=logprobs, ref_logprobs=ref_logprobs)"
)
_NONE = Cell("–")

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
_TEXT = ColumnView("ngram", message("Text"), kind="token")
_SPREAD = (
    ColumnView(
        "first",
        message("First"),
        help=message(
            "share of responses that contain it: the first level of its curve"
        ),
        written="share",
        term="texts.first",
    ),
    ColumnView(
        "peak",
        message("Peak"),
        help=message("share of responses that contain it: the highest level"),
        written="share",
        term="texts.peak",
    ),
    ColumnView(
        "peak_at",
        message("Peak at"),
        kind="link",
        help=message("the steps whose mean is the highest level"),
        term="texts.peak_at",
    ),
    ColumnView(
        "last",
        message("Last"),
        help=message("share of responses that contain it: the last level"),
        written="share",
        term="texts.last",
    ),
    ColumnView(
        "last_at",
        message("Last at"),
        kind="link",
        help=message("the steps whose mean is the last level"),
        term="texts.last_at",
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
_SEARCH = ColumnView(
    "search",
    message("Responses with it"),
    kind="link",
    help=message("the list of responses, searched for the text"),
)
TEXT_SHOWN = 60  # Maximum number of characters of a text in the table


@dataclass(frozen=True, slots=True)
class TextsView:
    """What the page of texts shows."""

    summary: str  # what figures of texts and tokens are computed from
    spread: str  # how many texts spread, and how many of them stay
    charts: Sequence[Chart]
    texts: TableView | None  # texts that spread
    tokens: str  # why there are no tables of tokens, "" if there are
    advice: str  # a line of Python that would log tokens, "" if they are logged
    tables: list[TableView]  # rankings of tokens


def texts_view(report: RunReport, addresses: Addresses) -> TextsView:
    """Return what the page of texts shows; without token strings, only texts that spread."""
    run = report.run
    tables = run.tables
    rankings = list(_rankings(tables.tokens, run.windows, addresses))
    spreads = spreads_of(report)
    missing = ""
    if tables.tokens.empty:
        missing = message(
            "The log has no token strings (response_tokens), so tokens are not compared. "
            "Log them with:"
        )
    elif not rankings:
        missing = message(
            "The log has no log-probabilities of tokens, so they are not compared. Log them with:"
        )
    return TextsView(
        summary=sampling_note(tables),
        spread=_summary(list(spreads.values())),
        charts=drawn_charts(report).texts,
        texts=_spreading(report, addresses) if spreads else None,
        tokens=missing,
        advice=_TOKEN_WRITER if missing else "",
        tables=rankings,
    )


PAGE = Page("texts", message("Texts"), texts_view, has_responses)


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


def searchable(text: str) -> str:
    """Normalize a text for searching, as the function of this name in ``list/query.js`` does."""
    return re.sub(r"\s+", " ", text.lower())


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


def _summary(spreads: Sequence[TextSpread]) -> str:
    """Return how many texts spread, and how many of them died out."""
    if not spreads:
        return message("No text became far more frequent in the responses.")
    spread = plural(
        "{count} text became far more frequent.",
        "{count} texts became far more frequent.",
        len(spreads),
    )
    gone = sum(one.has_died_out for one in spreads)
    if not gone:
        return spread
    died_out = plural(
        "{count} of them died out before the end.",
        "{count} of them died out before the end.",
        gone,
    )
    return sentences([spread, died_out])


def _spreading(report: RunReport, addresses: Addresses) -> TableView:
    """Return the table of texts that spread, those that died out last."""
    spreads = spreads_of(report)
    table_of_run = report.run.spreading.table
    # ``spreads`` lacks a text without a share at any step.
    rows = table_of_run[table_of_run["ngram"].isin(spreads)]
    gone = np.array([spreads[text].has_died_out for text in rows["ngram"]], bool)
    rows = pd.concat([rows[~gone], rows[gone]])
    curves = [spreads[text].curve for text in rows["ngram"]]
    examples = []
    searches = []
    for text, kind, references in zip(
        rows["ngram"], rows["kind"], rows["examples"], strict=True
    ):
        examples.append(_example(addresses, *references[0]) if references else _NONE)
        searches.append(_search(report, addresses, text, kind, references))
    columns: Columns = {
        _TEXT: [
            Cell(
                shortened(text, TEXT_SHOWN),
                text,
                text if len(text) > TEXT_SHOWN else "",
            )
            for text in rows["ngram"]
        ]
    }
    levels = {
        "first": [curve.first for curve in curves],
        "peak": [curve.highest for curve in curves],
        "last": [curve.last for curve in curves],
    }
    for column in _SPREAD:
        level, _, at = column.key.partition("_")
        if level not in levels:
            columns[column] = rows[column.key]
        elif at:
            columns[column] = [_steps_cell(one.steps) for one in levels[level]]
        else:
            columns[column] = [one.value for one in levels[level]]
    columns[_SEEN_IN] = examples
    columns[_SEARCH] = searches
    badges = [[message("died out")] if is_gone else [] for is_gone in sorted(gone)]
    return table(
        "ngrams",
        message("Texts that spread through the responses"),
        columns,
        badges=badges,
        note=message(
            "First, peak and last are levels of the curve: means over the steps beside them."
        ),
    )


def _steps_cell(steps: tuple[int, int]) -> Cell:
    first, _ = steps
    return Cell(span(steps), float(first))


def _search(
    report: RunReport,
    addresses: Addresses,
    text: str,
    kind: str,
    references: Sequence[tuple[int, int]],
) -> Cell:
    """Return a link to the responses that contain a text.

    There is none if the search would not find it, as it is the name of a structure, such as lists,
    or has words between its own.
    """
    wanted = text.removesuffix("*") if kind == "stem" else text
    places = report.run.tables.responses
    rollouts = report.run.rollouts
    for step, n in references:
        is_example = (places["step"] == step) & (places["n"] == n)
        row = int(np.flatnonzero(is_example)[0])
        try:
            (index,) = rollouts.indices([row])
        except LookupError:
            continue
        response = rollouts.text("response", int(index)) or ""
        if not report.run.options.redact and searchable(wanted) in searchable(response):
            address = addresses.responses(f"q={quote(wanted, safe='')}&in=response")
            return Cell(message("search"), wanted, href=address)
    return _NONE
