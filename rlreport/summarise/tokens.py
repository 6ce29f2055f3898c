"""Summarise the sampled tokens: KL and probability per token string, bigrams per step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import TOKEN_COLUMNS
from rlreport.figures.ragged import Floats, row_ends
from rlreport.read.sample_parts import EDGE
from rlreport.summarise.grouped import ratio
from rlreport.summarise.steps import window_size
from rlreport.tables import GAP, TextSample, TokenSample
from rlreport.text.tokens import detect_style, token_text

_EXAMPLE = ("example_step", "example_n", "example_position")


def token_table(sample: TokenSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one row per distinct token string, by descending share of the total KL.

    It has TOKEN_COLUMNS. If ``sample`` is None, as for logs without token strings, it is empty.
    """
    if sample is None:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    texts = sample.texts
    count = len(texts.vocabulary)
    step = responses["step"].to_numpy()[texts.rows]
    first, last = (np.repeat(rows, np.diff(texts.offsets)) for rows in _windows(responses, step))

    def total(values: NDArray[np.float32], rows: NDArray[np.bool_]) -> Floats:
        logged = rows & ~np.isnan(values)
        weights = values[logged].astype(np.float64)
        return np.bincount(texts.units[logged], weights, count).astype(np.float64)

    def mean(values: NDArray[np.float32], rows: NDArray[np.bool_] | None = None) -> Floats:
        rows = np.ones(len(values), bool) if rows is None else rows
        logged = rows & ~np.isnan(values)
        return ratio(total(values, rows), np.bincount(texts.units[logged], minlength=count))

    everything = np.ones(len(texts.units), bool)
    kl = total(sample.kl, everything)
    raw = np.asarray(texts.vocabulary, dtype=object)
    style = detect_style(raw)
    table = pd.DataFrame(
        {
            "token": [token_text(token, style) for token in texts.vocabulary],
            "raw": raw,
            "count": np.bincount(texts.units, minlength=count),
            "kl_share": kl / kl.sum() if kl.sum() > 0 else np.full(count, np.nan),
            "kl_mean": mean(sample.kl),
            "log_ratio_mean": mean(sample.log_ratio),
            "abs_log_ratio_mean": mean(np.abs(sample.log_ratio)),
            "prob_mean": mean(sample.prob),
            "ref_prob_mean": mean(sample.ref_prob),
            "count_first": np.bincount(texts.units[first], minlength=count),
            "count_last": np.bincount(texts.units[last], minlength=count),
            "prob_first": mean(sample.prob, first),
            "prob_last": mean(sample.prob, last),
            "abs_value_error_mean": mean(np.abs(sample.value_error)),
        }
    )
    table["prob_change"] = table["prob_last"] - table["prob_first"]
    examples = _examples(texts, responses).reindex(raw)
    for name in examples.columns:
        table[name] = examples[name].array
    table = table[(table["count"] > 0) & (table["raw"] != GAP)]
    table = table.sort_values(["kl_share", "count", "raw"], ascending=[False, False, True])
    columns = [c.name for c in TOKEN_COLUMNS]
    return table[columns].astype({c.name: c.dtype for c in TOKEN_COLUMNS}).reset_index(drop=True)


def step_bigrams(texts: TextSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return, per step, the number of bigrams in the sampled texts and of distinct ones."""
    if texts is None:
        return pd.DataFrame({"step": [], "bigrams": [], "distinct": []}, dtype=np.int64)
    step = responses["step"].to_numpy()[texts.rows]
    pairs = texts.units[:-1].astype(np.int64) << 32 | texts.units[1:]
    inside = np.ones(len(texts.units), bool)
    inside[row_ends(texts.offsets)] = False
    if GAP in texts.vocabulary:
        gap = texts.units == texts.vocabulary.index(GAP)
        inside &= ~gap & ~np.append(gap[1:], False)
    steps, starts = np.unique(step, return_index=True)
    rows = []
    for number, start, stop in zip(
        steps.tolist(), starts.tolist(), [*starts[1:].tolist(), len(step)], strict=True
    ):
        units = slice(int(texts.offsets[start]), int(texts.offsets[stop]))
        step_pairs = np.sort(pairs[units][inside[units][: len(pairs[units])]])
        distinct = np.count_nonzero(step_pairs[1:] != step_pairs[:-1]) + min(len(step_pairs), 1)
        rows.append((number, len(step_pairs), distinct))
    return pd.DataFrame(rows, columns=["step", "bigrams", "distinct"])


def _examples(sample: TextSample, responses: pd.DataFrame) -> pd.DataFrame:
    """Find an example of each token: its first place in the response with the largest KL."""
    row, position = np.full((2, len(sample.vocabulary)), -1, np.int64)
    kl = np.nan_to_num(responses["kl_k1"].to_numpy()[sample.rows], nan=-np.inf)
    tokens = responses["response_tokens"].to_numpy()[sample.rows]
    # The last assignment wins: the response with the largest KL, and its first occurrence.
    for i in np.argsort(-kl, kind="stable")[::-1].tolist():
        units = sample.units[sample.offsets[i] : sample.offsets[i + 1]]
        positions = np.arange(len(units))
        if tokens[i] > len(units):  # the sample omits the middle of a long response
            positions[EDGE:] += int(tokens[i]) - len(units)
        row[units[::-1]] = sample.rows[i]
        position[units[::-1]] = positions[::-1]
    columns = (responses["step"].to_numpy()[row], responses["n"].to_numpy()[row], position)
    table = pd.DataFrame(
        dict(zip(_EXAMPLE, columns, strict=True)),
        index=pd.Index(sample.vocabulary, dtype=object),
        dtype="Int64",
    )
    # The sample lacks environment tokens, so positions among all tokens are unknown.
    has_env_tokens = responses["env_tokens"].to_numpy()[row] > 0
    table["example_position"] = table["example_position"].mask(has_env_tokens)
    return table[row >= 0]


def _windows(
    responses: pd.DataFrame, step: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows are in the run's first steps and in its last; no row if these overlap."""
    steps = np.unique(responses.loc[responses["validation"] == 0, "step"].to_numpy())
    size = window_size(len(steps))
    if 2 * size > len(steps):
        return np.zeros(len(step), bool), np.zeros(len(step), bool)
    return step <= steps[size - 1], step >= steps[-size]
