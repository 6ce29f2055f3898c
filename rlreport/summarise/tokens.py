"""Tokens of the sample: shares of the KL and changes of probability; bigrams by step."""

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
    """Return TOKEN_COLUMNS of the sampled responses, sorted by descending share of the KL.

    Empty without token strings (``sample`` is None).
    """
    if sample is None:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    texts = sample.texts
    count = len(texts.vocabulary)
    step = responses["step"].to_numpy()[texts.rows]
    first, last = (np.repeat(own, np.diff(texts.offsets)) for own in _windows(responses, step))

    def total(values: NDArray[np.float32], rows: NDArray[np.bool_]) -> Floats:
        held = rows & ~np.isnan(values)
        weights = values[held].astype(np.float64)
        return np.bincount(texts.units[held], weights, count).astype(np.float64)

    def mean(values: NDArray[np.float32], rows: NDArray[np.bool_] | None = None) -> Floats:
        rows = np.ones(len(values), bool) if rows is None else rows
        held = rows & ~np.isnan(values)
        return ratio(total(values, rows), np.bincount(texts.units[held], minlength=count))

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
    """Return ``step``, ``bigrams`` and ``distinct`` bigrams of each step's sampled responses."""
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
        own = np.sort(pairs[units][inside[units][: len(pairs[units])]])
        distinct = np.count_nonzero(own[1:] != own[:-1]) + min(len(own), 1)
        rows.append((number, len(own), distinct))
    return pd.DataFrame(rows, columns=["step", "bigrams", "distinct"])


def _examples(sample: TextSample, responses: pd.DataFrame) -> pd.DataFrame:
    """Return _EXAMPLE by raw token: its place in the sampled response with the largest KL."""
    row, position = np.full((2, len(sample.vocabulary)), -1, np.int64)
    kl = np.nan_to_num(responses["kl_k1"].to_numpy()[sample.rows], nan=-np.inf)
    tokens = responses["response_tokens"].to_numpy()[sample.rows]
    # The last assignment wins: the response with the largest KL, and its first occurrence.
    for i in np.argsort(-kl, kind="stable")[::-1].tolist():
        units = sample.units[sample.offsets[i] : sample.offsets[i + 1]]
        places = np.arange(len(units))
        if tokens[i] > len(units):  # of a long response the middle is left out
            places[EDGE:] += int(tokens[i]) - len(units)
        row[units[::-1]] = sample.rows[i]
        position[units[::-1]] = places[::-1]
    found = (responses["step"].to_numpy()[row], responses["n"].to_numpy()[row], position)
    table = pd.DataFrame(
        dict(zip(_EXAMPLE, found, strict=True)),
        index=pd.Index(sample.vocabulary, dtype=object),
        dtype="Int64",
    )
    # The sample contains sampled tokens only; positions among all tokens are unknown.
    between = responses["env_tokens"].to_numpy()[row] > 0
    table["example_position"] = table["example_position"].mask(between)
    return table[row >= 0]


def _windows(
    responses: pd.DataFrame, step: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the rows in the first and the last window of training, none if these overlap."""
    steps = np.unique(responses.loc[responses["validation"] == 0, "step"].to_numpy())
    size = window_size(len(steps))
    if 2 * size > len(steps):
        return np.zeros(len(step), bool), np.zeros(len(step), bool)
    return step <= steps[size - 1], step >= steps[-size]
