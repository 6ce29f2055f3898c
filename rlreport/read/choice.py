"""Choose the responses whose texts and tokens are read, from the response table alone.

Chosen are a sample for statistics of texts and tokens, the extremes of every metric in the run (and
at each step, unless there are too many steps), the first response with a tool error, and one
response to each of the first prompts. Checks and pages quote only chosen responses.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.read.kept_rows import Hashes
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.rollouts import EDGE
from rlreport.read.tables import MAX_PROMPTS, mix
from rlreport.tables import RowRole

_CHARS_PER_WORD = 3
_BYTES_PER_CHAR = 2  # of UTF-8, roughly, in mixed languages

# Metrics whose lowest and highest values in a step make a response interesting to show
METRICS = (
    "reward",
    "kl_k1",
    "kl_k3",
    "response_tokens",
    "response_chars",
    "reward_gap",
    "kl_max",
    "surprisal_mean",
    "log_ratio_mean",
    "valid_reward",
    "value_error_mean",
)


class Choice(NamedTuple):
    """The chosen rows of the response table, int64 (R,) ascending."""

    rows: Ints
    # (R,), which are in the sample for figures of texts and tokens
    sample: NDArray[np.bool_]


def choose_rows(
    responses: pd.DataFrame, file_names: Sequence[str], limits: ReadLimits = LIMITS
) -> Choice:
    """Choose the responses whose texts and tokens are used, and those of them to sample.

    ``file_names`` are those of the log files, by their number in column ``file``.
    """
    sample = sampled_rows(responses, file_names, limits)
    rank = _step_ranks(responses)
    chosen = np.zeros(len(responses), np.bool_)
    chosen[sample] = True
    # Pages show the first error of a tool as an example.
    tool_errors = responses["tool_errors"].to_numpy(np.float64)
    chosen[np.flatnonzero(tool_errors > 0)[:1]] = True
    chosen[_extremes_of_run(responses)] = True
    text_bytes = _bytes_of_texts(responses)
    per_step = _rows_per_step(chosen, rank, text_bytes, limits)
    chosen[rank < per_step] = True
    chosen[_first_of_prompts(responses["prompt_id"].to_numpy(), chosen)] = True
    rows = np.flatnonzero(chosen)
    return Choice(rows, np.isin(rows, sample))


def _first_of_prompts(prompts: Ints, chosen: NDArray[np.bool_]) -> Ints:
    """Return the first row of each of the prompts to show that has no chosen row yet.

    ``prompts`` are the prompts of all rows, numbered by first appearance: shown are those with
    numbers below MAX_PROMPTS.
    """
    numbers, first_rows = np.unique(prompts, return_index=True)
    lacks_row = ~np.isin(numbers, prompts[chosen])
    lacks_row[MAX_PROMPTS:] = False
    rows: Ints = first_rows[lacks_row]
    return rows


def _extremes_of_run(responses: pd.DataFrame) -> list[int]:
    """Return the rows with the lowest and the highest value of each of METRICS.

    Of a column without a finite value, it is the last row.
    """
    rows = []
    for name in METRICS:  # one after the other, to save memory
        values = responses[name].to_numpy(np.float64)
        rows.append(_last_lowest(values))
        rows.append(_last_lowest(-values))
    return rows


def _last_lowest(values: Floats) -> int:
    """Return the row of the lowest finite value; of equal ones, and without one, the last."""
    comparable = np.where(np.isfinite(values), values, np.inf)
    # Of equal extremes, the latest, as ``pages.plan.extremes`` does: the first from the end.
    from_end = int(comparable[::-1].argmin())
    return len(values) - 1 - from_end


def _rows_per_step(
    chosen: NDArray[np.bool_], rank: Ints, text_bytes: Floats, limits: ReadLimits
) -> int:
    """Return how many responses of each step to choose, by ``rank`` from 0, besides ``chosen``.

    It is ``limits.extremes``, halved until the responses fit into the limits: 0 if there are too
    many steps. If all responses fit, all are chosen.
    """
    if len(rank) <= limits.chosen and text_bytes.sum() <= limits.chosen_bytes:
        return len(rank)
    per_step = limits.extremes
    while per_step > 0:
        wanted = chosen | (rank < per_step)
        # Room is left for a response to each prompt, which are chosen last.
        has_room = wanted.sum() <= limits.chosen - MAX_PROMPTS
        if has_room and text_bytes[wanted].sum() <= limits.chosen_bytes:
            break
        per_step //= 2
    return per_step


def _step_ranks(responses: pd.DataFrame) -> Ints:
    """Return the rank of each response in its step by ``extremeness``, from 0, int64 (R,)."""
    ranks = np.zeros(len(responses), np.int64)
    columns = [responses[name].to_numpy(np.float64) for name in METRICS]
    for rows in responses.groupby("step").indices.values():
        values = np.column_stack([column[rows] for column in columns])
        order = extremeness(values).argsort(kind="stable")
        ranks[rows[order]] = np.arange(len(rows))
    return ranks


def extremeness(values: Floats) -> Ints:
    """Return each row's smallest rank from either end of any column, 0 for an extreme, (R,).

    ``values`` are (R, columns). NaN ranks behind all values.
    """
    ends = np.hstack([values, -values])
    # Sorting the order of a column gives the rank of each row in it.
    ranks = ends.argsort(axis=0, kind="stable").argsort(axis=0)
    ranks[np.isnan(ends)] = len(values)
    smallest: Ints = ranks.min(axis=1)
    return smallest


def _bytes_of_texts(responses: pd.DataFrame) -> Floats:
    lengths = responses[["response_chars", "ref_response_chars"]].to_numpy(np.float64)
    sizes: Floats = _BYTES_PER_CHAR * np.nansum(lengths, axis=1)
    return sizes


def sampled_rows(
    responses: pd.DataFrame, file_names: Sequence[str], limits: ReadLimits = LIMITS
) -> Ints:
    """Return the rows of the response table to sample for text statistics, ascending, int64.

    Logs within the limits ``sampled`` and ``sampled_tokens`` are sampled whole. Otherwise take k
    training responses per step, in random but repeatable order (by a hash of their location),
    keeping responses of the same group together. k is the largest power of two that respects both
    limits, so a growing run rarely changes its sample. If even k = 1 is too many, take one response
    of every m-th step, with m a power of two.
    """
    cost = _cost(responses)
    if _fits(cost, limits):
        return np.arange(len(responses))
    rows = np.flatnonzero(responses["validation"].to_numpy() == RowRole.TRAINING)
    locations = responses[["step", "group", "file", "offset", "sub"]]
    rows = rows[_order_in_steps(locations.iloc[rows], file_names)]
    step = responses["step"].to_numpy()[rows]
    rank_in_step = pd.Series(step).groupby(step).cumcount().to_numpy()
    ordinal_of_step = np.unique(step, return_inverse=True)[1]
    per_step = limits.sampled
    every = 1
    while True:
        is_chosen = (rank_in_step < per_step) & (ordinal_of_step % every == 0)
        chosen = rows[is_chosen]
        if _fits(cost[chosen], limits):
            return np.sort(chosen)
        if per_step > 1:
            per_step //= 2
        else:
            every *= 2


def _order_in_steps(responses: pd.DataFrame, file_names: Sequence[str]) -> Ints:
    """Return the indices of responses by step, in a step at random, but group by group.

    A group comes where its first response would. So the first k responses of a step are of whole
    groups, except for the last of them.
    """
    step = responses["step"].to_numpy()
    group = responses["group"].to_numpy()
    priority = _priorities(responses, file_names)
    _, first, member = np.unique(group, return_index=True, return_inverse=True)
    priority_of_group = priority[first][member]
    # ``lexsort`` sorts by its last key first.
    order: Ints = np.lexsort((priority, group, priority_of_group, step))
    return order


def _fits(cost: Floats, limits: ReadLimits) -> bool:
    return len(cost) <= limits.sampled and cost.sum() <= limits.sampled_tokens


def _cost(responses: pd.DataFrame) -> Floats:
    """Return the number of tokens (or estimated words) that a sample takes of each response."""
    tokens = responses["response_tokens"].to_numpy(np.float64)
    words = responses["response_chars"].to_numpy(np.float64) / _CHARS_PER_WORD
    return np.minimum(np.where(np.isnan(tokens), words, tokens), 2 * EDGE)


def _priorities(responses: pd.DataFrame, file_names: Sequence[str]) -> Hashes:
    """Return a hash of where each response is in the logs, (R,): its file's name, not number."""
    names = np.array(
        [xxhash.xxh3_64_intdigest(os.fsencode(n)) for n in file_names], np.uint64
    )
    file, offset, sub = (
        responses[name].to_numpy() for name in ("file", "offset", "sub")
    )
    hash_of_object = mix(mix(names[file]) + offset.astype(np.uint64))
    return mix(hash_of_object + sub.astype(np.uint64))
