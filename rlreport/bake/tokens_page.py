"""The tokens page: which tokens carry the KL, which rose or fell, which texts spread."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from rlreport.bake.addresses import Addresses
from rlreport.bake.views import (
    Cell,
    ColumnView,
    RowView,
    TableView,
    TokensView,
    number_cell,
    number_column,
)
from rlreport.columns import TOKEN
from rlreport.draw.chart import Chart
from rlreport.read.sample_parts import EDGE
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, sentences, span

LISTED = 40
LEAST_SUPPORT = 20
"""Occurrences below which a token's mean says little."""

_TOKEN = ColumnView("token", message("Token"), kind="token")
_SEEN_IN = ColumnView(
    "example", message("Seen in"), kind="link", help=message("a response that holds it")
)


def tokens_view(
    tables: Tables,
    spreading: pd.DataFrame,
    charts: Sequence[Chart],
    windows: tuple[tuple[int, int], tuple[int, int]],
    addresses: Addresses,
) -> TokensView:
    """Builds the view of the tokens page.

    Args:
        tables: all tables.
        spreading: n-grams that spread: ``ngram``, ``share_first``, ``share_last``, ``z``,
            ``reward_lift``, ``examples``.
        charts: charts of the page.
        windows: first and last step of the run's first window and of its last.
        addresses: addresses as seen from the page.
    """
    first, last = map(span, windows)
    tokens, ranking = tables.tokens, _Ranking(tables, addresses)
    listed = []
    if len(tokens):
        least = min(LEAST_SUPPORT, int(tokens["count"].max()))
        supported = tokens[tokens["count"] >= least]
        support = plural("Tokens seen at least once.", "Tokens seen at least {count} times.", least)
        listed = [
            ranking.table(
                "kl-share",
                message("Tokens by share of the KL, k3"),
                tokens,
                "kl_share",
                ("kl_share", "kl_mean"),
            ),
            ranking.table(
                "log-ratio",
                message("Tokens furthest from the reference"),
                supported,
                "abs_log_ratio_mean",
                ("abs_log_ratio_mean", "log_ratio_mean"),
                support,
            ),
            ranking.table(
                "rising",
                message("Tokens whose probability changed most"),
                supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)],
                "prob_change",
                ("prob_first", "prob_last", "prob_change"),
                sentences(
                    [
                        support,
                        message(
                            "Mean probability within {first} and within {last}.",
                            first=first,
                            last=last,
                        ),
                    ]
                ),
                by_size=True,
            ),
            ranking.table(
                "value-error",
                message("Tokens by the critic's error"),
                supported,
                "abs_value_error_mean",
                ("abs_value_error_mean",),
                support,
            ),
        ]
    return TokensView(
        tables=[table for table in listed if table is not None],
        ngrams=_spreading(spreading, addresses),
        charts=list(charts),
        summary=sentences(
            [
                "" if len(tokens) else message("The log holds no token strings (response_tokens)."),
                sampling(tables),
            ]
        ),
    )


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


class _Ranking:
    """Tables of tokens, each row with a response that holds the token."""

    def __init__(self, tables: Tables, addresses: Addresses) -> None:
        self.tables = tables
        self.addresses = addresses

    def table(
        self,
        table_id: str,
        caption: str,
        tokens: pd.DataFrame,
        by: str,
        shown: Sequence[str],
        note: str = "",
        *,
        by_size: bool = False,
    ) -> TableView | None:
        """The LISTED tokens with the largest ``by`` (in magnitude with ``by_size``)."""
        known = tokens[tokens[by].notna()]
        if known.empty or not known[by].abs().max() > 0:
            return None
        key = known[by].abs() if by_size else known[by]
        ranked = known.assign(_key=key).sort_values(["_key", "raw"], ascending=[False, True])
        top = ranked.head(LISTED)
        columns = [TOKEN[name] for name in ("count", *shown)]
        rows = []
        for i, record in enumerate(top.to_dict("records")):
            cells = [Cell(str(record["token"]), str(record["raw"]), str(record["raw"]))]
            cells += [number_cell(float(record[c.name]), c.kind) for c in columns]
            cells.append(self._example(record))
            rows.append(RowView(f"{table_id}-{i}", cells))
        return TableView(
            table_id, caption, [_TOKEN, *map(number_column, columns), _SEEN_IN], rows, note
        )

    def _example(self, token: Mapping[Hashable, Any]) -> Cell:
        if pd.isna(token["example_step"]):
            return Cell("–", None, message("in none of the sampled responses"))
        step, n = int(token["example_step"]), int(token["example_n"])
        at = token["example_position"]
        position = None if pd.isna(at) else int(at)
        href = self.addresses.response(step, n, position)
        return Cell(_place(step, n), float(step), href=href)


def _place(step: int, n: int) -> str:
    return message("step {step}, response {n}", step=step, n=n)


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView | None:
    if spreading.empty:
        return None
    columns = [
        ColumnView("ngram", message("Text"), kind="token"),
        ColumnView(
            "share_first", message("First steps"), help=message("share of responses that hold it")
        ),
        ColumnView(
            "share_last", message("Last steps"), help=message("share of responses that hold it")
        ),
        ColumnView("z", "z", help=message("how clearly its share rose, in standard errors")),
        ColumnView("reward_lift", message("Reward lift"), help=message("inside a step")),
        _SEEN_IN,
    ]
    rows = []
    for i, record in enumerate(spreading.to_dict("records")):
        cells = [Cell(str(record["ngram"]), str(record["ngram"]))]
        for key in ("share_first", "share_last", "z", "reward_lift"):
            share = key.startswith("share")
            cells.append(number_cell(float(record[key]), "share" if share else "number"))
        examples = list(record["examples"])
        if examples:
            step, n = examples[0]
            cells.append(Cell(_place(step, n), float(step), href=addresses.response(step, n)))
        else:
            cells.append(Cell("–"))
        rows.append(RowView(str(i), cells))
    return TableView("ngrams", message("Texts that spread through the responses"), columns, rows)
