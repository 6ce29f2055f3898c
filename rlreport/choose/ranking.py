"""Order of the responses of a step: the most interesting first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
"""Both ends of each of these count as extremes."""

EXTREME_SHARE = 0.5
"""Share of the places that extremes may take; the rest is a sample of all others."""

RECURRING_SHARE = 0.5
"""Share of the sample that prompts of other steps may take, one response each."""


def rank_by_interest(
    responses: pd.DataFrame,
    step: int,
    shown: int,
    *,
    evidence: Iterable[int] = (),
    seed: int = 0,
    recurring: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Return the responses of one step that are shown, the most interesting first.

    First the responses that findings refer to, then the extremes of every metric in turn,
    then a seeded sample of the rest, part of it prompts that other steps sample too.

    Args:
        responses: RESPONSE_COLUMNS of the step's rows, ordered by n.
        step: the step, part of the seed.
        shown: most responses shown.
        evidence: n of the responses that findings refer to.
        seed: seed of the sample.
        recurring: float64 (rows,), what prompts that recur are sampled by, NaN for the others.

    Returns:
        int64 positions into ``responses``, at most ``shown``.
    """
    count = len(responses)
    if count == 1:
        return np.zeros(1, np.int64)
    rank = _extremeness(responses)
    pinned = np.isin(responses["n"].to_numpy(), np.fromiter(evidence, np.int64))
    rank[pinned] = -1
    order = rank.argsort(kind="stable")
    if count <= shown:
        return order
    extremes = max(int(pinned.sum()), int(shown * EXTREME_SHARE))
    first, rest = order[: min(extremes, shown)], order[min(extremes, shown) :]
    random = np.random.default_rng([seed, step % (1 << 63)])
    rest, room = rest[random.permutation(len(rest))], shown - len(first)
    if recurring is not None:
        rest = _recurring_first(rest, recurring, int(room * RECURRING_SHARE))
    return np.concatenate([first, rest[:room]])


def _recurring_first(
    rest: NDArray[np.int64], recurring: NDArray[np.float64], most: int
) -> NDArray[np.int64]:
    """Move one response each of up to ``most`` prompts that recur to the front."""
    _, first = np.unique(recurring[rest], return_index=True)
    chosen = first[~np.isnan(recurring[rest][first])][:most]
    return np.concatenate([rest[chosen], np.delete(rest, chosen)])


def _extremeness(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Return the smallest rank of each response over both ends of every metric, from 0."""
    values = responses[list(METRICS)].to_numpy(np.float64)
    ends = np.hstack([values, -values])
    ranks = ends.argsort(axis=0, kind="stable").argsort(axis=0)
    ranks[np.isnan(ends)] = len(responses)
    smallest: NDArray[np.int64] = ranks.min(axis=1)
    return smallest
