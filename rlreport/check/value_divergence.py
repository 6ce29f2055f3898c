"""``value_divergence``: the critic does not follow the returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check.check import Check, Need, Result, extremes
from rlreport.check.compare import above, below
from rlreport.check.thresholds import CRITIC, Thresholds
from rlreport.check.windows import first_and_last
from rlreport.check.words import figure
from rlreport.tables import Tables


@dataclass(frozen=True, slots=True)
class Fit:
    """Population variances over all tokens of some responses."""

    value: float
    returns: float
    error: float


def fit(responses: pd.DataFrame) -> Fit:
    """Pool the critic's figures of responses into variances over all their tokens."""
    rows = responses[responses["value_tokens"] > 0]
    weights = rows["value_tokens"].to_numpy(dtype=float)
    return Fit(*(_variance(rows, name, weights) for name in ("value", "return", "value_error")))


def _variance(
    rows: pd.DataFrame, name: str, weights: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    means = rows[f"{name}_mean"].to_numpy(dtype=float)
    inside = rows[f"{name}_m2"].to_numpy(dtype=float)
    finite = np.isfinite(means) & np.isfinite(inside)
    if not finite.any():
        return np.nan
    means, inside, weights = means[finite], inside[finite], weights[finite]
    centre = (weights * means).sum() / weights.sum()
    return float((inside.sum() + (weights * (means - centre) ** 2).sum()) / weights.sum())


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Judge the critic's fit over the last window, all tokens pooled.

    Where returns hardly vary any more there is nothing to follow, and a ratio of two small
    variances says nothing: their variance counts as no less than a part of the run's.
    """
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    limits, end = thresholds.value_divergence, windows[1]
    rows = tables.responses.iloc[end.rows]
    found = fit(rows)
    scale = max(found.returns, limits.floor * fit(tables.responses).returns)
    if not np.isfinite(scale) or scale <= 0 or not np.isfinite(found.error):
        return None
    explained = 1 - found.error / scale
    spread = float(np.sqrt(found.value / scale))
    by_step = [
        1 - step.error / scale
        for _, group in rows.groupby("step")
        if np.isfinite((step := fit(group)).error)
    ]
    middle = float(np.median(by_step))
    bad = below(explained, limits.explained) and below(middle, limits.explained)
    weak = below(explained, limits.weak) and below(middle, limits.weak)
    wide = above(spread, limits.spread)
    if not (weak or wide):
        return None
    if bad or wide:
        title = (
            f"The critic does not follow the returns: explained variance {figure(explained)} at "
            f"the end, std of values {figure(spread)} × that of the returns"
        )
    else:
        title = f"The critic is weak: explained variance {figure(explained)} at the end"
    sized = rows.assign(size=rows["value_error_mean"].abs())
    return CHECK.finding(
        "warning" if bad or wide else "info",
        title,
        steps=end.steps,
        responses=extremes(sized, "size", highest=True),
    )


CHECK = Check(
    id="value_divergence",
    looks_for="the critic does not follow the returns",
    needs=(Need("values and token_rewards", ("value_error_m2", "return_m2")),),
    charts=("explained_variance", "value"),
    why=(
        "Advantages are returns less values: a critic that is worse than a constant adds noise to "
        "every update and can point it the wrong way."
    ),
    suggestion=(
        "Warm the critic up before the policy moves, lower its learning rate, clip values, "
        "normalise returns, or start it from the reward model."
    ),
    source=CRITIC,
    judge=judge,
)
