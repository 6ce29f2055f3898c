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
from rlreport.summarise.characters import Characters, whole_characters
from rlreport.summarise.steps import rounded_columns, window_size
from rlreport.tables import GAP, RowRole, TextSample, TokenSample

USED = ("prompt_id", "step", "n", "validation", "reward", "ref_reward", "kl_k1")


def token_table(sample: TokenSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return the token table (TOKEN_COLUMNS) by descending share of KL; empty without a sample.

    Tokens that are pieces of a character are one row where they stand next to each other, see
    ``whole_characters``: its count is that of the character, and its share of the KL is the sum
    over all its pieces.
    """
    dtypes = {column.name: column.dtype for column in TOKEN_COLUMNS}
    if sample is None:
        return pd.DataFrame({c: pd.Series(dtype=dtypes[c]) for c in dtypes})
    characters = whole_characters(sample)
    merged = characters.sample
    texts = merged.texts
    # At each place of the sample, the index of its token in the vocabulary
    units = texts.units
    count = len(texts.vocabulary)
    lengths = np.diff(texts.offsets)
    in_first, in_last = _windows(responses, texts)
    # Which places are in texts of the first window, and of the last
    first = np.repeat(in_first, lengths)
    last = np.repeat(in_last, lengths)

    def mean(
        values: NDArray[np.float32], among: NDArray[np.bool_] | None = None
    ) -> Floats:
        """Return the mean of values of places, per token; ``among``: of these places only."""
        is_logged = ~np.isnan(values)
        if among is not None:
            is_logged &= among
        tokens = units[is_logged]
        total = np.bincount(tokens, values[is_logged], count).astype(np.float64)
        return ratio(total, np.bincount(tokens, minlength=count))

    raw = np.asarray(texts.vocabulary, dtype=object)
    units_of_pieces = np.repeat(units, characters.sizes)
    table = pd.DataFrame(
        {
            "token": characters.names,
            "raw": raw,
            "count": np.bincount(units, minlength=count),
            "kl_share": _kl_shares(units_of_pieces, sample.kl, count),
            "kl_mean": mean(merged.kl),
            "log_ratio_mean": mean(merged.log_ratio),
            "abs_log_ratio_mean": mean(np.abs(merged.log_ratio)),
            "count_first": np.bincount(units[first], minlength=count),
            "count_last": np.bincount(units[last], minlength=count),
            "prob_first": mean(merged.prob, first),
            "prob_last": mean(merged.prob, last),
        }
    )
    table["abs_value_error_mean"] = mean(np.abs(merged.value_error))
    table["prob_change"] = difference(table["prob_last"], table["prob_first"])
    table = rounded_columns(table)
    examples = _examples(characters, sample.texts, responses).reindex(raw)
    for name in examples.columns:
        table[name] = examples[name].array
    table = table[(table["count"] > 0) & (table["raw"] != GAP)]
    order = ["kl_share", "count", "raw"]
    table = table.sort_values(order, ascending=[False, False, True])
    return table[list(dtypes)].astype(dtypes).reset_index(drop=True)


def _kl_shares(units: NDArray[np.int32], kl: NDArray[np.float32], count: int) -> Floats:
    """Return the share of each unit in the sum of the KL, NaN without any.

    ``units`` is the one that each token belongs to, ``kl`` the token's own.
    """
    known = np.where(np.isnan(kl), 0.0, kl)
    sums = np.bincount(units, known, count)
    total = sums.sum()
    if total <= 0:
        return np.full(count, np.nan)
    shares: Floats = sums / total
    return shares


def step_bigrams(texts: TextSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return ``step`` and the numbers of its ``bigrams`` and of ``distinct`` ones, as columns.

    A bigram is a pair of adjacent units of a text; no pair extends over GAP, where a text was cut.
    """
    if texts is None:
        return pd.DataFrame({"step": [], "bigrams": [], "distinct": []}, dtype=np.int64)
    step = responses["step"].to_numpy()[texts.rows]
    step_of_unit = np.repeat(step, np.diff(texts.offsets))
    # A pair of units as one number: the first unit in the upper 32 bits
    upper = texts.units[:-1].astype(np.int64) << 32
    pairs = upper | texts.units[1:]
    # Units that have a next one in the same text, neither being a GAP
    has_next = np.ones(len(texts.units), bool)
    has_next[row_ends(texts.offsets)] = False
    if GAP in texts.vocabulary:
        is_gap = texts.units == texts.vocabulary.index(GAP)
        is_before_gap = np.append(is_gap[1:], False)
        has_next &= ~(is_gap | is_before_gap)
    is_pair = has_next[:-1]
    # Texts are in the order of steps: the pairs of a step are adjacent.
    steps = np.unique(step)
    starts = np.searchsorted(step_of_unit[:-1][is_pair], steps[1:])
    parts = np.split(pairs[is_pair], starts)  # of each step, which may be empty
    distinct = [len(np.unique(part)) for part in parts]
    counts = [len(part) for part in parts]
    return pd.DataFrame({"step": steps, "bigrams": counts, "distinct": distinct})


def _examples(
    characters: Characters, original: TextSample, responses: pd.DataFrame
) -> pd.DataFrame:
    """Return the place of each token: the first one in the response with the largest KL.

    Columns ``example_step``, ``example_n`` and ``example_position``, by token. ``original`` has
    the tokens that ``characters`` merges, of which a position is an index.
    """
    sample = characters.sample.texts
    # For each token the row of its response, −1 for none, and the position in it
    row = np.full(len(sample.vocabulary), -1, np.int64)
    position = row.copy()
    logged_kl = responses["kl_k1"].to_numpy()[sample.rows]
    kl = np.nan_to_num(logged_kl, nan=-np.inf)
    tokens = responses["response_tokens"].to_numpy()[sample.rows]
    # The last assignment wins: the response with the largest KL, and its first occurrence.
    for i in np.argsort(-kl, kind="stable")[::-1].tolist():
        of_text = slice(sample.offsets[i], sample.offsets[i + 1])
        units = sample.units[of_text]
        start, stop = original.offsets[i : i + 2].tolist()
        positions = characters.starts[of_text] - start
        if tokens[i] > stop - start:  # the sample omits the middle of a long response
            positions[positions >= EDGE] += int(tokens[i]) - (stop - start)
        row[units[::-1]] = sample.rows[i]
        position[units[::-1]] = positions[::-1]
    table = pd.DataFrame(
        {
            "example_step": responses["step"].to_numpy()[row],
            "example_n": responses["n"].to_numpy()[row],
            "example_position": position,
        },
        index=pd.Index(sample.vocabulary, dtype=object),
        dtype="Int64",
    )
    # The sample lacks environment tokens, so positions among all tokens are unknown.
    has_env_tokens = responses["env_tokens"].to_numpy()[row] > 0
    table["example_position"] = table["example_position"].mask(has_env_tokens)
    return table[row >= 0]


def _windows(
    responses: pd.DataFrame, texts: TextSample
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which texts are of the first window of the run, and which of the last, bool (T,).

    A window is a number of steps, see ``window_size``. In a short run, no text is in any.
    """
    step = responses["step"].to_numpy()[texts.rows]
    is_training = responses["validation"] == RowRole.TRAINING
    steps = np.unique(responses.loc[is_training, "step"].to_numpy())
    size = window_size(len(steps))
    if 2 * size > len(steps):  # they would overlap
        return np.zeros(len(step), bool), np.zeros(len(step), bool)
    return step <= steps[size - 1], step >= steps[-size]
