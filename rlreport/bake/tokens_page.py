"""The tokens page: which tokens carry the KL, which rose or fell, which texts spread."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from rlreport.bake.addresses import Addresses
from rlreport.bake.numbers import number
from rlreport.bake.views import Cell, ColumnView, RowView, TableView, TokensView
from rlreport.draw.chart import Chart
from rlreport.tables import Tables
from rlreport.text.numbers import Kind

LISTED = 40
LEAST_SUPPORT = 20
"""Occurrences below which a token's mean says little."""

_TOKEN = ColumnView("token", "Token", kind="token")
_COUNT = ColumnView("count", "Count")
_SEEN_IN = ColumnView("example", "Seen in", kind="link", help="a response that holds it")
_KINDS: dict[str, Kind] = {"count": "count", "kl_share": "share"}


def tokens_view(
    tables: Tables, spreading: pd.DataFrame, charts: Sequence[Chart], addresses: Addresses
) -> TokensView:
    """Builds the view of the tokens page.

    Args:
        tables: all tables.
        spreading: n-grams that spread: ``ngram``, ``share_first``, ``share_last``, ``z``,
            ``reward_lift``, ``examples``.
        charts: charts of the page.
        addresses: addresses as seen from the page.
    """
    tokens, ranking = tables.tokens, _Ranking(tables, addresses)
    listed = []
    if len(tokens):
        supported = tokens[tokens["count"] >= min(LEAST_SUPPORT, int(tokens["count"].max()))]
        support = f"Tokens seen at least {LEAST_SUPPORT} times."
        listed = [
            ranking.table(
                "kl-share",
                "Tokens by share of the KL",
                tokens,
                "kl_share",
                [_COUNT, ColumnView("kl_share", "Share of KL"), _mean_kl()],
            ),
            ranking.table(
                "log-ratio",
                "Tokens furthest from the reference",
                supported,
                "abs_log_ratio_mean",
                [
                    _COUNT,
                    ColumnView("abs_log_ratio_mean", "Mean |log-ratio|", "nats"),
                    ColumnView("log_ratio_mean", "Mean log-ratio", "nats", signed=True),
                ],
                support,
            ),
            ranking.table(
                "rising",
                "Tokens whose probability changed most",
                supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)],
                "prob_change",
                [
                    _COUNT,
                    ColumnView("prob_first", "First steps"),
                    ColumnView("prob_last", "Last steps"),
                    ColumnView("prob_change", "Change", signed=True),
                ],
                support + " Mean probability in the first and the last fifth of the steps.",
                by_size=True,
            ),
            ranking.table(
                "value-error",
                "Tokens by the critic's error",
                supported,
                "abs_value_error_mean",
                [_COUNT, ColumnView("abs_value_error_mean", "Mean |value − return|")],
                support,
            ),
        ]
    return TokensView(
        tables=[table for table in listed if table is not None],
        ngrams=_spreading(spreading, addresses),
        charts=list(charts),
        missing="" if len(tokens) else "The log holds no token strings (response_tokens).",
    )


def _mean_kl() -> ColumnView:
    return ColumnView("kl_mean", "Mean KL", "nats")


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
        columns: list[ColumnView],
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
        rows = []
        for i, record in enumerate(top.to_dict("records")):
            cells = [Cell(str(record["token"]), str(record["raw"]), str(record["raw"]))]
            for column in columns:
                kind = _KINDS.get(column.key, "number")
                value = number(float(record[column.key]), kind)
                cells.append(Cell(value.text, value.value, value.exact))
            cells.append(self._example(record))
            rows.append(RowView(f"{table_id}-{i}", cells))
        return TableView(table_id, caption, [_TOKEN, *columns, _SEEN_IN], rows, note)

    def _example(self, token: Mapping[Hashable, Any]) -> Cell:
        if pd.isna(token["example_step"]):
            return Cell("–", None, "in none of the sampled responses")
        step, n, position = (int(token[f"example_{part}"]) for part in ("step", "n", "position"))
        href = self.addresses.response(step, n, position)
        return Cell(f"step {step}, response {n}", float(step), href=href)


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView | None:
    if spreading.empty:
        return None
    columns = [
        ColumnView("ngram", "Text", kind="token"),
        ColumnView("share_first", "First steps", help="share of responses that hold it"),
        ColumnView("share_last", "Last steps", help="share of responses that hold it"),
        ColumnView("z", "z", help="log-odds with a Dirichlet prior, in standard errors"),
        ColumnView("reward_lift", "Reward lift", help="inside a step", signed=True),
        _SEEN_IN,
    ]
    rows = []
    for i, record in enumerate(spreading.to_dict("records")):
        cells = [Cell(str(record["ngram"]), str(record["ngram"]))]
        for key in ("share_first", "share_last", "z", "reward_lift"):
            value = number(float(record[key]), "share" if key.startswith("share") else "number")
            cells.append(Cell(value.text, value.value, value.exact))
        examples = list(record["examples"])
        if examples:
            step, n = examples[0]
            cells.append(
                Cell(f"step {step}, response {n}", float(step), href=addresses.response(step, n))
            )
        else:
            cells.append(Cell("–"))
        rows.append(RowView(str(i), cells))
    return TableView("ngrams", "Texts that spread through the responses", columns, rows)
