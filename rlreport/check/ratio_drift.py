"""``ratio_drift``: updates are too large."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result, extremes, has
from rlreport.check.compare import above, below
from rlreport.check.thresholds import RATIO, Thresholds
from rlreport.check.windows import Floats, Window, last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables

TRAINER_RATIO = "val/ratio"
"""TRL's own mean ratio, read where the rollouts hold only one set of log-probabilities."""


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the mean ratio of new to old probability, and its tails, with PPO's clip range."""
    limits, end = thresholds.ratio_drift, last(tables, thresholds.trend)
    rows = tables.responses.iloc[end.rows]
    weights = rows["ratio_tokens"].to_numpy(dtype=float)
    if np.nansum(weights) > 0:
        mean = token_mean(rows["ratio_mean"].to_numpy(dtype=float), weights)
        outside = token_mean(rows["ratio_outside"].to_numpy(dtype=float), weights)
    elif has(tables.metrics, TRAINER_RATIO):
        mean, outside = _trainer_ratio(tables, end), np.nan
    else:
        return CHECK.not_run("old and new logprobs of the same tokens")
    if not (below(mean, limits.low) or above(mean, limits.high) or above(outside, limits.outside)):
        return None
    title = f"Updates are too large: new over old probability is {figure(mean)} on average"
    if np.isfinite(outside):
        title += f", and {percent(outside)} of tokens lie outside 1 ± 0.2"
    return CHECK.finding(
        "warning", title, steps=end.steps, responses=extremes(rows, "ratio_outside", highest=True)
    )


def token_mean(values: Floats, weights: Floats) -> float:
    """Return the mean over tokens of per-response means; float64 arrays of equal shape."""
    finite = np.isfinite(values) & (weights > 0)
    if not finite.any():
        return np.nan
    return float(np.average(values[finite], weights=weights[finite]))


def _trainer_ratio(tables: Tables, end: Window) -> float:
    metrics = tables.metrics[tables.metrics["step"].isin(end.steps)]
    return float(metrics[TRAINER_RATIO].mean())


CHECK = Check(
    id="ratio_drift",
    looks_for="updates are too large",
    needs=(),
    charts=("mismatch",),
    why=(
        "PPO trusts its data only near the policy that sampled it; past the clip range most "
        "tokens give no gradient, and the rest give a wrong one."
    ),
    suggestion=(
        "Lower the learning rate, take fewer epochs over each batch, use larger mini-batches, and "
        "check that both log-probabilities are taken at the same temperature."
    ),
    source=RATIO,
    judge=judge,
    trend=False,
    needs_also="old and new logprobs of the same tokens, or the trainer's val/ratio",
)
