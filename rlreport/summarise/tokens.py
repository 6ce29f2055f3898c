"""The table of tokens, and bigrams by step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import TOKEN_COLUMNS
from rlreport.figures.grouped import ratio
from rlreport.figures.ragged import Floats, row_ends
from rlreport.figures.rounding import difference
from rlreport.read.rollouts import EDGE
from rlreport.summarise.steps import rounded_columns, window_size
from rlreport.tables import GAP, RowRole, TextSample, TokenSample
from rlreport.text.tokens import detect_style, token_text

USED = ("prompt_id", "step", "n", "validation", "reward", "ref_reward", "kl_k1")


_EXAMPLE = ("example_step", "example_n", "example_position")


def token_table(sample: TokenSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return the token table (TOKEN_COLUMNS) by descending share of KL; empty without a sample."""
    if sample is None:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    texts = sample.texts
    count = len(texts.vocabulary)
    step = responses["step"].to_numpy()[texts.rows]
    first, last = (
        np.repeat(rows, np.diff(texts.offsets)) for rows in _windows(responses, step)
    )

    everything = np.ones(len(texts.units), bool)

    def mean(
        values: NDArray[np.float32], rows: NDArray[np.bool_] = everything
    ) -> Floats:
        logged = rows & ~np.isnan(values)
        tokens = texts.units[logged]
        total = np.bincount(tokens, values[logged], count).astype(np.float64)
        return ratio(total, np.bincount(tokens, minlength=count))

    kl = np.bincount(texts.units, np.where(np.isnan(sample.kl), 0.0, sample.kl), count)
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
            "count_first": np.bincount(texts.units[first], minlength=count),
            "count_last": np.bincount(texts.units[last], minlength=count),
            "prob_first": mean(sample.prob, first),
            "prob_last": mean(sample.prob, last),
            "abs_value_error_mean": mean(np.abs(sample.value_error)),
        }
    )
    table["prob_change"] = difference(table["prob_last"], table["prob_first"])
    table = rounded_columns(table)
    examples = _examples(texts, responses).reindex(raw)
    for name in examples.columns:
        table[name] = examples[name].array
    table = table[(table["count"] > 0) & (table["raw"] != GAP)]
    table = table.sort_values(
        ["kl_share", "count", "raw"], ascending=[False, False, True]
    )
    columns = [c.name for c in TOKEN_COLUMNS]
    return (
        table[columns]
        .astype({c.name: c.dtype for c in TOKEN_COLUMNS})
        .reset_index(drop=True)
    )


def step_bigrams(texts: TextSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return ``step`` and the numbers of its ``bigrams`` and of ``distinct`` ones, as columns."""
    if texts is None:
        return pd.DataFrame({"step": [], "bigrams": [], "distinct": []}, dtype=np.int64)
    step = responses["step"].to_numpy()[texts.rows]
    step_of_unit = np.repeat(step, np.diff(texts.offsets))
    pairs = texts.units[:-1].astype(np.int64) << 32 | texts.units[1:]
    inside = np.ones(len(texts.units), bool)
    inside[row_ends(texts.offsets)] = False
    if GAP in texts.vocabulary:
        gap = texts.units == texts.vocabulary.index(GAP)
        inside &= ~gap & ~np.append(gap[1:], False)
    is_pair = inside[:-1]
    steps = np.unique(step)
    starts = np.searchsorted(step_of_unit[:-1][is_pair], steps[1:])
    parts = np.split(pairs[is_pair], starts)  # of each step, which may be empty
    distinct = [len(np.unique(part)) for part in parts]
    return pd.DataFrame(
        {"step": steps, "bigrams": [*map(len, parts)], "distinct": distinct}
    )


def _examples(sample: TextSample, responses: pd.DataFrame) -> pd.DataFrame:
    """Return columns _EXAMPLE by token: its first place in the response with the largest KL."""
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
    columns = (
        responses["step"].to_numpy()[row],
        responses["n"].to_numpy()[row],
        position,
    )
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
    steps = np.unique(
        responses.loc[responses["validation"] == RowRole.TRAINING, "step"].to_numpy()
    )
    size = window_size(len(steps))
    if 2 * size > len(steps):
        return np.zeros(len(step), bool), np.zeros(len(step), bool)
    return step <= steps[size - 1], step >= steps[-size]
