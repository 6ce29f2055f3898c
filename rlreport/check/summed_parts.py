"""Metrics whose weighted sum the reward is: its parts, whatever they are called.

A loop of one's own logs ``reward_mean`` beside ``answer_rate`` and ``format_rate``, and no name
says that the first is 0.9 times the second plus 0.1 times the third. The numbers say so: other
metrics of a run do not add up to its reward at every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from rlreport.check import parts
from rlreport.check.series import Series
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import is_known_key, without_prefixes

# The sum may leave this part of the variance of the reward's changes: rounding, a small penalty
UNEXPLAINED = 0.01
# Terms of a sum, and the changes that are needed for each and for the sum: chance explains less
MOST_TERMS = 4
CHANGES_PER_TERM = 10
# Metrics among which terms are searched: more cost time, and may add up by chance
MOST_CANDIDATES = 100

_MEAN = re.compile(r"(?:mean|avg|average)[_/]|[_/](?:mean|avg|average)")


def summed_parts(
    metrics: pd.DataFrame, total: Series, in_use: Iterable[str]
) -> list[str]:
    """Return the metrics of which the reward is a weighted sum, those with a positive weight.

    None are returned if fewer than two of them have one: a single metric is a copy of the reward.

    Args:
        metrics: ``step``, and a column per metric.
        total: the reward.
        in_use: metrics with a role, which are no terms.
    """
    at = metrics["step"].to_numpy(np.int64)
    _, in_metrics, in_total = np.intersect1d(
        at, total.steps, assume_unique=True, return_indices=True
    )
    rewards = total.values[in_total]
    candidates = _candidates(metrics.iloc[in_metrics], total, in_use)
    if candidates.shape[1] < 2 or candidates.shape[1] > MOST_CANDIDATES:
        return []
    values = candidates.to_numpy(np.float64)
    finite = np.isfinite(rewards) & np.isfinite(values).all(axis=1)
    # Changes from step to step, as trends that metrics share are no evidence of a sum
    changes = np.diff(values[finite], axis=0)
    of_reward = np.diff(rewards[finite])
    terms = _terms(changes, of_reward)
    if len(terms) < 2:
        return []
    return [str(candidates.columns[term]) for term in sorted(terms)]


def _candidates(
    metrics: pd.DataFrame, total: Series, in_use: Iterable[str]
) -> pd.DataFrame:
    """Return the columns of metrics that may be terms: logged with the reward, and varying."""
    used = {"step", *in_use}
    kept: list[str] = []
    for name in map(str, metrics.columns):
        plain = _MEAN.sub("", without_prefixes(name))
        if name in used or is_known_key(name) or not parts.is_component(plain):
            continue
        values = metrics[name].to_numpy(np.float64)
        finite = np.isfinite(values)
        # What is logged at a few steps, such as evaluations, is no term.
        is_rare = 2 * finite.sum() < len(values)
        if is_rare or not finite.any() or not np.ptp(values[finite]) > 0:
            continue
        series = Series(metrics["step"].to_numpy(np.int64), values)
        if not parts.is_copy(series, total):
            kept.append(name)
    return metrics[kept]


def _terms(x: Floats, y: Floats) -> list[int]:
    """Return the columns of x with a positive weight in y, [] if y is no sum of a few columns.

    Columns are added one by one, each the one that explains most of what is left.

    Args:
        x: float64 (n, columns).
        y: float64 (n,).
    """
    norms = np.sqrt((x * x).sum(axis=0))
    of_y = float(y @ y)
    if not 0 < of_y < np.inf or not np.isfinite(norms).all():
        return []
    directions = x / np.where(norms > 0, norms, np.inf)
    chosen: list[int] = []
    rest = y
    most = min(MOST_TERMS, len(y) // CHANGES_PER_TERM - 1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(np.abs(directions.T @ rest))))
        weights = np.linalg.pinv(x[:, chosen]) @ y
        rest = y - x[:, chosen] @ weights
        if float(rest @ rest) <= UNEXPLAINED * of_y:
            return [
                one for one, weight in zip(chosen, weights, strict=True) if weight > 0
            ]
    return []
