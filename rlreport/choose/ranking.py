"""The extreme responses of a run, and the ranking of a step's responses by interest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.tables import length_column
from rlreport.text.messages import marked, message

METRICS = (
    *("reward", "kl_k1", "kl_k3", "response_tokens", "response_chars", "reward_gap", "kl_max"),
    *("surprisal_mean", "log_ratio_mean", "valid_reward", "value_error_mean"),
)
"""Metrics whose lowest and highest values count as extremes."""

EXTREME_SHARE = 0.5
"""Maximum share of extremes among the shown responses; the rest is a sample of the others."""

RECURRING_SHARE = 0.5
"""Maximum share of the sample for prompts that also occur at other steps, one response each."""

TOOL_ERRORS = "tool_errors"

# label, metric, which end, whether the token of the largest KL is the place to look
_ENDS = (
    (marked("Lowest reward"), "reward", "min", False),
    (marked("Highest reward"), "reward", "max", False),
    (marked("Furthest below the reference"), "reward_gap", "min", False),
    (marked("Furthest above the reference"), "reward_gap", "max", False),
    (marked("Largest KL"), "kl_k1", "max", True),
    (marked("Most negative KL"), "kl_k1", "min", False),
    (marked("Largest token KL, k3"), "kl_max", "max", True),
    (marked("Longest"), "response_tokens", "max", False),
    (marked("Shortest"), "response_tokens", "min", False),
    (marked("Highest surprisal"), "surprisal_mean", "max", False),
    (marked("Lowest surprisal"), "surprisal_mean", "min", False),
)


@dataclass(frozen=True, slots=True)
class Extreme:
    """One end of a metric: the row that holds it, and the token to look at."""

    label: str
    metric: str
    row: int
    value: float
    token: int | None = None

    @property
    def at_error(self) -> bool:
        """Whether the first error of a tool is the place to look."""
        return self.metric == TOOL_ERRORS


def extremes(responses: pd.DataFrame) -> list[Extreme]:
    """Return the lowest and highest value of each metric over all responses.

    Ties go to the latest step. Lengths are in characters if the log has no tokens. Metrics that
    are missing or constant are left out. The first response with a tool error is last.
    """
    found = []
    for label, metric, end, at_token in _ENDS:
        column = length_column(responses) if metric == "response_tokens" else metric
        values = responses[column].to_numpy(np.float64)
        known = values[np.isfinite(values)]
        if not len(known) or known.min() == known.max():
            continue
        value = float(known.min() if end == "min" else known.max())
        if end == "min" and metric == "kl_k1" and value >= 0:
            continue
        row = int(np.flatnonzero(values == value)[-1])
        position = responses["kl_max_position"].to_numpy()[row] if at_token else np.nan
        token = None if np.isnan(position) else int(position)
        found.append(Extreme(message(label), column, row, value, token))
    errors = responses[TOOL_ERRORS].to_numpy(np.float64)
    for row in np.flatnonzero(errors > 0)[:1].tolist():
        label = message("First tool error")
        found.append(Extreme(label, TOOL_ERRORS, row, float(errors[row])))
    return found


def rank_by_interest(
    responses: pd.DataFrame,
    step: int,
    shown: int,
    *,
    evidence: Iterable[int] = (),
    seed: int = 0,
    recurring: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Return the responses to show of one step, the most interesting first.

    The order is: responses that findings refer to, extremes of each metric, and a seeded sample of
    the rest, which prefers prompts that other steps sample, too.

    Args:
        responses: RESPONSE_COLUMNS of the step's rows, ordered by n.
        step: the step, part of the seed.
        shown: maximum number of shown responses.
        evidence: n of the responses that findings refer to.
        seed: seed of the sample.
        recurring: float64 (rows,), see ``prompt_sampling_keys``.

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
        # One response each to some prompts that occur at several steps comes first.
        _, first_of_prompt = np.unique(recurring[rest], return_index=True)
        recur = first_of_prompt[~np.isnan(recurring[rest][first_of_prompt])]
        recur = recur[: int(room * RECURRING_SHARE)]
        rest = np.concatenate([rest[recur], np.delete(rest, recur)])
    return np.concatenate([first, rest[:room]])


def _extremeness(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Return for each response its best rank, from 0, over the low and high ends of all metrics."""
    values = responses[list(METRICS)].to_numpy(np.float64)
    ends = np.hstack([values, -values])
    ranks = ends.argsort(axis=0, kind="stable").argsort(axis=0)
    ranks[np.isnan(ends)] = len(responses)
    smallest: NDArray[np.int64] = ranks.min(axis=1)
    return smallest
