"""The table of tokens: which carry the KL, and whose probability rose or fell."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.summarise.grouped import Floats, Grouped
from rlreport.tables import TOKEN_COLUMNS
from rlreport.text.tokens import detect_style, token_text

WINDOW_SHARE = 0.2
LEAST_WINDOW = 3
"""First and last window: a fifth of the steps, at least three, as the health checks take them."""


def token_table(sums: pd.DataFrame, steps: NDArray[np.int64]) -> pd.DataFrame:
    """Summarises the scan's sums by token.

    Args:
        sums: one row per (bin of steps, raw token) as in ``Scan.tokens``.
        steps: int64, step of each response (any order).

    Returns:
        TOKEN_COLUMNS, by falling share of the KL; empty without token strings.
    """
    if sums.empty:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    codes, strings = pd.factorize(sums["token"], sort=True)
    order = np.lexsort((sums["bin_start"].to_numpy(), codes))
    column = {name: sums[name].to_numpy()[order] for name in sums.columns if name != "token"}
    tokens = Grouped.by(codes[order])

    def total(name: str, rows: NDArray[np.bool_] | None = None) -> Floats:
        values = column[name].astype(np.float64)
        return tokens.sum(values if rows is None else np.where(rows, values, 0.0))

    def mean(name: str, count: str, rows: NDArray[np.bool_] | None = None) -> Floats:
        seen = total(count, rows)
        nothing = np.full(len(seen), np.nan)
        found: Floats = np.divide(total(name, rows), seen, out=nothing, where=seen > 0)
        return found

    first, last = _windows(column["bin_start"], column["bin_stop"], np.unique(steps))
    kl = total("kl")
    raw = np.asarray(strings, dtype=object)
    style = detect_style(raw)
    table = pd.DataFrame(
        {
            "token": [token_text(token, style) for token in raw],
            "raw": raw,
            "count": total("count"),
            "kl_share": kl / kl.sum() if kl.sum() > 0 else np.full(len(kl), np.nan),
            "kl_mean": mean("kl", "log_ratios"),
            "log_ratio_mean": mean("log_ratio", "log_ratios"),
            "abs_log_ratio_mean": mean("abs_log_ratio", "log_ratios"),
            "prob_mean": mean("prob", "probs"),
            "ref_prob_mean": mean("ref_prob", "ref_probs"),
            "count_first": total("count", first),
            "count_last": total("count", last),
            "prob_first": mean("prob", "probs", first),
            "prob_last": mean("prob", "probs", last),
            "abs_value_error_mean": mean("abs_value_error", "value_errors"),
        }
    )
    table["prob_change"] = table["prob_last"] - table["prob_first"]
    table = table.sort_values(["kl_share", "count", "raw"], ascending=[False, False, True])
    columns = [c.name for c in TOKEN_COLUMNS]
    return table[columns].astype({c.name: c.dtype for c in TOKEN_COLUMNS}).reset_index(drop=True)


def _windows(
    starts: NDArray[np.int64], stops: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows whose bin of steps lies wholly in the first window, and in the last, bool each.

    A run whose windows would overlap has none.
    """
    size = max(LEAST_WINDOW, int(len(steps) * WINDOW_SHARE))
    if 2 * size > len(steps):
        nothing = np.zeros(len(starts), bool)
        return nothing, nothing
    return stops <= steps[size - 1], starts >= steps[-size]
