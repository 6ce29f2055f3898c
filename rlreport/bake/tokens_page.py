"""The tokens page: which tokens carry the KL, which rose or fell, which texts spread."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from rlreport.bake.addresses import Addresses
from rlreport.bake.views import Cell, ColumnView, TableView, number_column, table
from rlreport.columns import TOKEN
from rlreport.draw.chart import Chart
from rlreport.read.sample_parts import EDGE
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, sentences, span

LISTED = 40
LEAST_SUPPORT = 20
"""Occurrences below which a token's mean says little."""

_TOKEN = ColumnView("token", message("Token"), kind="token")
_TEXT = ColumnView("ngram", message("Text"), kind="token")
_SEEN_IN = ColumnView(
    "example", message("Seen in"), kind="link", help=message("a response that holds it")
)


def tokens_view(
    tables: Tables,
    spreading: pd.DataFrame,
    charts: Sequence[Chart],
    windows: tuple[tuple[int, int], tuple[int, int]],
    addresses: Addresses,
) -> dict[str, Any]:
    """Return the view of the tokens page.

    Args:
        tables: all tables.
        spreading: n-grams that spread: ``ngram``, ``share_first``, ``share_last``, ``z``,
            ``reward_lift``, ``examples``.
        charts: charts of the page.
        windows: first and last step of the run's first window and of its last.
        addresses: addresses as seen from the page.
    """
    missing = message("The log holds no token strings (response_tokens).")
    return {
        "tables": list(_rankings(tables.tokens, windows, addresses)),
        "ngrams": _spreading(spreading, addresses),
        "charts": charts,
        "summary": sentences(["" if len(tables.tokens) else missing, sampling(tables)]),
    }


def _rankings(
    tokens: pd.DataFrame,
    windows: tuple[tuple[int, int], tuple[int, int]],
    addresses: Addresses,
) -> Iterator[TableView]:
    if tokens.empty:
        return
    least = min(LEAST_SUPPORT, int(tokens["count"].max()))
    supported = tokens[tokens["count"] >= least]
    in_both = supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)]
    support = plural("Tokens seen at least once.", "Tokens seen at least {count} times.", least)
    first, last = map(span, windows)
    means = message("Mean probability within {first} and within {last}.", first=first, last=last)
    for name, caption, rows, by, shown, note in (
        (
            "kl-share",
            message("Tokens by share of the KL, k3"),
            tokens,
            "kl_share",
            ("kl_share", "kl_mean"),
            "",
        ),
        (
            "log-ratio",
            message("Tokens furthest from the reference"),
            supported,
            "abs_log_ratio_mean",
            ("abs_log_ratio_mean", "log_ratio_mean"),
            support,
        ),
        (
            "rising",
            message("Tokens whose probability changed most"),
            in_both,
            "prob_change",
            ("prob_first", "prob_last", "prob_change"),
            sentences([support, means]),
        ),
        (
            "value-error",
            message("Tokens by the critic's error"),
            supported,
            "abs_value_error_mean",
            ("abs_value_error_mean",),
            support,
        ),
    ):
        size = rows[by].abs()
        if not size.max() > 0:
            continue
        ranked = rows.assign(_size=size)[size.notna()]
        top = ranked.sort_values(["_size", "raw"], ascending=[False, True]).head(LISTED)
        columns = [TOKEN[column] for column in ("count", *shown)]
        yield table(
            name,
            caption,
            [_TOKEN, *map(number_column, columns), _SEEN_IN],
            {
                **{c.name: top[c.name].astype(float).tolist() for c in columns},
                "token": map(Cell, top["token"].astype(str), top["raw"], top["raw"]),
                "example": [_example(token, addresses) for token in top.to_dict("records")],
            },
            ids=[f"{name}-{place}" for place in range(len(top))],
            note=note,
        )


def _example(token: Mapping[Hashable, Any], addresses: Addresses) -> Cell:
    if pd.isna(token["example_step"]):
        return Cell("–", None, message("in none of the sampled responses"))
    at = token["example_position"]
    position = None if pd.isna(at) else int(at)
    return _response(int(token["example_step"]), int(token["example_n"]), addresses, position)


def _response(step: int, n: int, addresses: Addresses, token: int | None = None) -> Cell:
    text = message("step {step}, response {n}", step=step, n=n)
    return Cell(text, float(step), href=addresses.response(step, n, token))


def sampling(tables: Tables) -> str:
    """Say which responses figures of texts and tokens come from; "" if it is all of all."""
    longest = tables.responses["response_tokens"].max()
    return sentences(
        [
            message("{one:capital}.", one=tables.sample_note) if tables.sample_note else "",
            message("Of a longer response the first and the last {count:count} tokens.", count=EDGE)
            if longest > 2 * EDGE
            else "",
        ]
    )


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView | None:
    if spreading.empty:
        return None
    held = message("share of responses that hold it")
    columns = [
        _TEXT,
        ColumnView("share_first", message("First steps"), help=held, written="share"),
        ColumnView("share_last", message("Last steps"), help=held, written="share"),
        ColumnView("z", "z", help=message("how clearly its share rose, in standard errors")),
        ColumnView("reward_lift", message("Reward lift"), help=message("inside a step")),
        _SEEN_IN,
    ]
    examples = [
        _response(places[0][0], places[0][1], addresses) if places else Cell("–")
        for places in map(list, spreading["examples"])
    ]
    texts = [Cell(text, text) for text in spreading["ngram"].astype(str)]
    return table(
        "ngrams",
        message("Texts that spread through the responses"),
        columns,
        {**spreading, "ngram": texts, "example": examples},
        ids=range(len(spreading)),
    )
