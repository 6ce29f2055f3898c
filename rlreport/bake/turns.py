"""The overview's table of turns and tools: where the tokens go, and which tool fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.bake.context import RunContext
from rlreport.bake.pages import Addresses
from rlreport.bake.views import Cell, ColumnView, TableView, number_cell, table
from rlreport.draw.run_charts import tool_label
from rlreport.text.messages import message, plural, span

MOST_TOOLS = 20  # Maximum number of tools in the table, those with the most answers


class _Turns(NamedTuple):
    """A row of the table: all turns of the policy, of one tool, or of other roles in training."""

    name: str
    turns: float  # number of turns, NaN if unknown
    size: float  # total length of these turns in tokens, or in characters if no tokens are logged
    sized: float  # number of turns included in ``size``
    # error rates of the tool over all, over the first and over the last steps
    errors: tuple[float, ...] = (np.nan, np.nan, np.nan)


def turns_table(context: RunContext, addresses: Addresses) -> TableView | None:
    """Return the table of turns in training responses, None if no tools were called."""
    tools, training = context.tables.tools, context.tables.training().responses
    rollouts = training[training["turns"].notna()]
    if tools.empty or rollouts.empty:
        return None
    in_tokens = bool(rollouts["env_tokens"].notna().any() and tools["ranges"].any())
    rows = list(_rows(context, rollouts, in_tokens))
    total = sum(row.size for row in rows)
    unit = message("tokens") if in_tokens else message("characters")
    first, last = context.windows
    columns = [
        ColumnView("who", message("Turns of"), kind="link"),
        ColumnView("turns", message("Turns"), written="count"),
        ColumnView("per_response", message("Turns per response")),
        ColumnView("size", message("Length of a turn"), unit, help=message("mean over turns")),
        ColumnView("share", message("Share of all"), unit, written="share"),
        ColumnView("errors", message("Error rate"), written="share",
                   help=message("share of a tool's answers that are errors")),
        ColumnView("errors_first", message("Error rate at first"), span(first), written="share"),
        ColumnView("errors_last", message("Error rate at last"), span(last), written="share"),
    ]  # fmt: skip
    if first == last:
        del columns[-2:]
    left_out = tools["tool"].nunique() - MOST_TOOLS
    return table(
        "turns",
        message("Turns and tools"),
        columns,
        {
            "who": [Cell(row.name, row.name) for row in rows],
            "turns": [row.turns for row in rows],
            "per_response": [row.turns / len(rollouts) for row in rows],
            "size": [row.size / row.sized if row.sized else np.nan for row in rows],
            "share": [row.size / total if total else np.nan for row in rows],
            **{
                name: [number_cell(row.errors[i], "share", message("no answers")) for row in rows]
                for i, name in enumerate(("errors", "errors_first", "errors_last"))
            },
        },
        hrefs=[
            addresses.responses("min.tool_errors=1") if row.errors[0] > 0 else None for row in rows
        ],
        note=plural(
            "{count} tool that is called less often is not listed.",
            "{count} tools that are called less often are not listed.",
            left_out,
        )
        if left_out > 0
        else "",
    )


def _rows(context: RunContext, rollouts: pd.DataFrame, in_tokens: bool) -> Iterator[_Turns]:
    tools, turns = context.tables.tools, float(rollouts["turns"].sum())
    of_policy = rollouts["response_tokens" if in_tokens else "response_chars"]
    yield _Turns(message("the policy"), turns, float(of_policy.sum()), turns)
    sums = tools.groupby("tool")[["answers", "errors", "chars", "ranges", "tokens"]].sum()
    sums = sums.sort_values("answers", ascending=False, kind="stable")
    windows = [(tools["step"].min(), tools["step"].max()), *context.windows]
    shares = [_error_shares(tools[tools["step"].between(*window)]) for window in windows]
    for name, totals in sums.iloc[:MOST_TOOLS].iterrows():
        yield _Turns(
            tool_label(name),
            totals["answers"],
            totals["tokens" if in_tokens else "chars"],
            totals["ranges" if in_tokens else "answers"],
            tuple(float(share.get(name, np.nan)) for share in shares),
        )
    rest = float(rollouts["env_tokens"].sum() - sums["tokens"].sum()) if in_tokens else 0.0
    if rest > 0:
        yield _Turns(message("others (user, template)"), np.nan, rest, 0.0)


def _error_shares(tools: pd.DataFrame) -> pd.Series:
    sums = tools.groupby("tool")[["answers", "errors"]].sum()
    return sums["errors"] / sums["answers"]
