"""The extreme responses of a run, and the ranking of a step's responses by interest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.tables import length_column
from rlreport.text.messages import marked, message

# Metrics whose lowest and highest values in a step make a response interesting to show
METRICS = (
    *("reward", "kl_k1", "kl_k3", "response_tokens", "response_chars", "reward_gap", "kl_max"),
    *("surprisal_mean", "log_ratio_mean", "valid_reward", "value_error_mean"),
)

# Fraction of a step's shown responses that have extreme metrics; the others are sampled
EXTREME_SHARE = 0.5

# Maximum fraction of the sampled responses reserved for prompts that occur at several steps
RECURRING_SHARE = 0.5

TOOL_ERRORS = "tool_errors"

# label, metric, "min" or "max", whether to link to the token with the largest KL
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
    """The response with the lowest or highest value of a metric in the run.

    ``row`` is the response's row in the response table, ``token`` the index of the token that links
    lead to, if any. The response with the first tool error of the run is an extreme, too.
    """

    label: str
    metric: str
    row: int
    value: float
    token: int | None = None

    @property
    def at_error(self) -> bool:
        """Whether links should lead to the first tool error of the response."""
        return self.metric == TOOL_ERRORS


def extremes(responses: pd.DataFrame) -> list[Extreme]:
    """Return the responses with the lowest or highest values of metrics in the whole run.

    If several responses have the same value, the latest is taken. Lengths are in characters if
    the log has no tokens. Metrics that are missing or constant are left out. The first response
    with a tool error is the last of the list.
    """
    result = []
    for label, metric, end, at_token in _ENDS:
        column = length_column(responses) if metric == "response_tokens" else metric
        values = responses[column].to_numpy(np.float64)
        finite = values[np.isfinite(values)]
        if not len(finite) or finite.min() == finite.max():
            continue
        value = float(finite.min() if end == "min" else finite.max())
        if end == "min" and metric == "kl_k1" and value >= 0:
            continue
        row = int(np.flatnonzero(values == value)[-1])
        position = responses["kl_max_position"].to_numpy()[row] if at_token else np.nan
        token = None if np.isnan(position) else int(position)
        result.append(Extreme(message(label), column, row, value, token))
    errors = responses[TOOL_ERRORS].to_numpy(np.float64)
    for row in np.flatnonzero(errors > 0)[:1].tolist():
        label = message("First tool error")
        result.append(Extreme(label, TOOL_ERRORS, row, float(errors[row])))
    return result


def rank_by_interest(
    responses: pd.DataFrame,
    step: int,
    shown: int,
    *,
    evidence: Iterable[int] = (),
    seed: int = 0,
    recurring: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Return which responses of a step to show, the most interesting first.

    The order is: responses that findings refer to, extremes of each metric, and a seeded sample of
    the rest, which prefers prompts that occur at several steps.

    Args:
        responses: RESPONSE_COLUMNS of the step's rows, ordered by n.
        step: number of the step, combined with ``seed``.
        shown: maximum number of shown responses.
        evidence: n of the responses that findings refer to.
        seed: seed of the sample.
        recurring: random number of each response's prompt, from ``prompt_sampling_keys``.

    Returns:
        Row positions in ``responses``, int64; all rows if there are at most ``shown``.
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
    leading_count = max(int(pinned.sum()), int(shown * EXTREME_SHARE))
    first, rest = order[: min(leading_count, shown)], order[min(leading_count, shown) :]
    random = np.random.default_rng([seed, step % (1 << 63)])
    rest, room = rest[random.permutation(len(rest))], shown - len(first)
    if recurring is not None:
        # Start the sample with one response to each of some prompts that occur at several steps.
        _, first_of_prompt = np.unique(recurring[rest], return_index=True)
        one_per_prompt = first_of_prompt[~np.isnan(recurring[rest][first_of_prompt])]
        one_per_prompt = one_per_prompt[: int(room * RECURRING_SHARE)]
        rest = np.concatenate([rest[one_per_prompt], np.delete(rest, one_per_prompt)])
    return np.concatenate([first, rest[:room]])


def _extremeness(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Return how extreme each response is: its best rank by any metric, 0 for lowest or highest."""
    values = responses[list(METRICS)].to_numpy(np.float64)
    ends = np.hstack([values, -values])
    ranks = ends.argsort(axis=0, kind="stable").argsort(axis=0)
    ranks[np.isnan(ends)] = len(responses)
    smallest: NDArray[np.int64] = ranks.min(axis=1)
    return smallest
