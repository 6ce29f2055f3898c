"""The table of tokens: which carry the KL, and whose probability rose or fell."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import TOKEN_COLUMNS
from rlreport.figures.ragged import Floats
from rlreport.summarise.grouped import ratio
from rlreport.summarise.steps import window_size
from rlreport.tables import NgramSample
from rlreport.text.tokens import detect_style, token_text

_EXAMPLE = ("example_step", "example_n", "example_position")


def token_table(
    sums: pd.DataFrame, responses: pd.DataFrame, sample: NgramSample | None = None
) -> pd.DataFrame:
    """Summarises the scan's sums by token.

    Args:
        sums: one row per (bin of steps, raw token) as in ``Scan.tokens``.
        responses: RESPONSE_COLUMNS.
        sample: units of a sample of the responses, for examples.

    Returns:
        TOKEN_COLUMNS, by falling share of the KL; empty without token strings.
    """
    if sums.empty:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    token = pd.Categorical(sums["token"]).remove_unused_categories()
    codes, strings = token.codes.astype(np.int64), token.categories

    def total(name: str, rows: NDArray[np.bool_] | None = None) -> Floats:
        values = sums[name].to_numpy(np.float64)
        values = values if rows is None else np.where(rows, values, 0.0)
        return np.bincount(codes, values, len(strings)).astype(np.float64)

    def mean(name: str, count: str, rows: NDArray[np.bool_] | None = None) -> Floats:
        return ratio(total(name, rows), total(count, rows))

    # Sums by token are of training alone, and so are the steps that windows are cut of.
    steps = np.unique(responses.loc[responses["validation"] == 0, "step"].to_numpy())
    first, last = _windows(sums["bin_start"].to_numpy(), sums["bin_stop"].to_numpy(), steps)
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
    examples = _examples(sample, responses).reindex(raw)
    for name in examples.columns:
        table[name] = examples[name].array
    table = table.sort_values(["kl_share", "count", "raw"], ascending=[False, False, True])
    columns = [c.name for c in TOKEN_COLUMNS]
    return table[columns].astype({c.name: c.dtype for c in TOKEN_COLUMNS}).reset_index(drop=True)


def _examples(sample: NgramSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """The sampled response with the largest KL that holds each token, the earliest on a tie.

    Returns:
        _EXAMPLE by raw token.
    """
    if sample is None or sample.unit != "token":
        return pd.DataFrame(columns=_EXAMPLE, dtype="Int64")
    row = np.full(len(sample.vocabulary), -1, np.int64)
    position = np.full(len(sample.vocabulary), -1, np.int64)
    kl = np.nan_to_num(responses["kl_k1"].to_numpy()[sample.rows], nan=-np.inf)
    # What is written last stays: the largest KL, and of its tokens the first.
    for i in np.argsort(-kl, kind="stable")[::-1].tolist():
        units = sample.units[sample.offsets[i] : sample.offsets[i + 1]][::-1]
        row[units] = sample.rows[i]
        position[units] = np.arange(len(units) - 1, -1, -1)
    found = (responses["step"].to_numpy()[row], responses["n"].to_numpy()[row], position)
    table = pd.DataFrame(
        dict(zip(_EXAMPLE, found, strict=True)),
        index=pd.Index(sample.vocabulary, dtype=object),
        dtype="Int64",
    )
    # The sample holds sampled tokens alone: among others, their place is not known.
    if "env_tokens" in responses:
        between = responses["env_tokens"].to_numpy()[row] > 0
        table["example_position"] = table["example_position"].mask(between)
    # Strings that differ only beyond what is kept of them are one.
    return table[(row >= 0) & ~table.index.duplicated()]


def _windows(
    starts: NDArray[np.int64], stops: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows whose bin of steps lies wholly in the first window, and in the last, bool each.

    A run whose windows would overlap has none.
    """
    size = window_size(len(steps))
    if 2 * size > len(steps):
        nothing = np.zeros(len(starts), bool)
        return nothing, nothing
    return stops <= steps[size - 1], starts >= steps[-size]
