"""The page of tokens and of texts that spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from rlreport.columns import TOKEN
from rlreport.draw.chart import Chart
from rlreport.pages.context import RunContext
from rlreport.pages.page import Addresses
from rlreport.pages.table import Cell, ColumnView, TableView, number_columns_of, table
from rlreport.read.rollouts import EDGE
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, sentences, span

TOKENS_SHOWN = 40
# Minimum number of times a token must occur for a table of token means to list it
LEAST_SUPPORT = 20

Windows = tuple[tuple[int, int], tuple[int, int]]

# Id, caption and columns of each table of tokens
_RANKINGS = (
    (
        "kl-share",
        message("Tokens with the largest share of the KL"),
        ("kl_share", "kl_mean"),
    ),
    (
        "log-ratio",
        message("Tokens furthest from the reference"),
        ("abs_log_ratio_mean", "log_ratio_mean"),
    ),
    (
        "rising",
        message("Tokens whose probability changed most"),
        ("prob_first", "prob_last", "prob_change"),
    ),
    ("value-error", message("Tokens by the critic's error"), ("abs_value_error_mean",)),
)

_TOKEN = ColumnView("token", message("Token"), kind="token")
_NGRAM = ColumnView("ngram", message("Text"), kind="token")
_SHARE = message("share of responses that contain it")
_SPREAD = (
    ColumnView("share_first", message("First steps"), help=_SHARE, written="share"),
    ColumnView("share_last", message("Last steps"), help=_SHARE, written="share"),
    ColumnView(
        "z",
        "z",
        help=message("significance of the rise of its share, in standard errors"),
    ),
    ColumnView(
        "reward_lift",
        message("Reward lift"),
        help=message("gain over others in the step"),
    ),
)
_SEEN_IN = ColumnView(
    "example",
    message("Seen in"),
    kind="link",
    help=message("a response that contains it"),
)


def tokens_view(
    context: RunContext, charts: Sequence[Chart], addresses: Addresses
) -> dict[str, Any]:
    tables = context.tables
    spreading = context.spreading.table
    missing = message("The log has no token strings (response_tokens).")
    return {
        "tables": list(_rankings(tables.tokens, context.windows, addresses)),
        "ngrams": _spreading(spreading, addresses) if len(spreading) else None,
        "charts": charts,
        "summary": sentences(["" if len(tables.tokens) else missing, sampling(tables)]),
    }


def _rankings(
    tokens: pd.DataFrame, windows: Windows, addresses: Addresses
) -> Iterator[TableView]:
    if tokens.empty:
        return
    least = min(LEAST_SUPPORT, int(tokens["count"].max()))
    supported = tokens[tokens["count"] >= least]
    in_both = supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)]
    support = plural(
        "Tokens seen at least once.", "Tokens seen at least {count} times.", least
    )
    first, last = map(span, windows)
    means = message(
        "Mean probability within {first} and within {last}.", first=first, last=last
    )
    for name, caption, figure_names in _RANKINGS:
        rows = {"kl-share": tokens, "rising": in_both}.get(name, supported)
        note = {"kl-share": "", "rising": sentences([support, means])}.get(
            name, support
        )
        size = rows["prob_change" if name == "rising" else figure_names[0]].abs()
        if not size.max() > 0:
            continue
        ranked = rows.assign(_size=size)[size.notna()]
        top = ranked.sort_values(["_size", "raw"], ascending=[False, True]).head(
            TOKENS_SHOWN
        )
        columns = [TOKEN[column] for column in ("count", *figure_names)]
        examples = zip(
            top["example_step"], top["example_n"], top["example_position"], strict=True
        )
        yield table(
            name,
            caption,
            {
                _TOKEN: map(Cell, top["token"].astype(str), top["raw"], top["raw"]),
                **number_columns_of(top, columns),
                _SEEN_IN: [_example(addresses, *example) for example in examples],
            },
            ids=[f"{name}-{rank}" for rank in range(len(top))],
            note=note,
        )


def _example(
    addresses: Addresses, step: float, n: float, token: float | None = None
) -> Cell:
    if pd.isna(step):
        return Cell("–", None, message("in none of the sampled responses"))
    position = None if token is None or pd.isna(token) else int(token)
    text = message("step {step}, response {n}", step=int(step), n=int(n))
    return Cell(
        text, float(step), href=addresses.response(int(step), int(n), token=position)
    )


def sampling(tables: Tables) -> str:
    """Return a note if figures of texts use a sample, or cut long responses; "" otherwise."""
    sample = (
        message("{one:capital}.", one=tables.sample_note) if tables.sample_note else ""
    )
    cut = message(
        "Of responses over {most:count} tokens, only the first and the last {edge:count} are used.",
        most=2 * EDGE,
        edge=EDGE,
    )
    longest = tables.responses["response_tokens"].max()
    return sentences([sample, cut if longest > 2 * EDGE else ""])


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView:
    examples = [
        _example(addresses, *references[0]) if references else Cell("–")
        for references in map(list, spreading["examples"])
    ]
    texts = [Cell(text, text) for text in spreading["ngram"].astype(str)]
    return table(
        "ngrams",
        message("Texts that spread through the responses"),
        {_NGRAM: texts, **{c: spreading[c.key] for c in _SPREAD}, _SEEN_IN: examples},
    )
