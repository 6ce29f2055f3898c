"""How far NEW is from several runs of BASE, one a seed: the scatter of runs beside that of prompts.

NEW is one run more, which scatters as those of BASE do. Student's interval for one more draw,
± t(R - 1) · s · √(1 + 1/R) with the standard deviation s of the R runs' means, knows of the runs
and of their own prompts' noise; that over prompts knows how differently a change acts on prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import atan2, cos, pi, sin, sqrt

import numpy as np

from rlreport.comparison.statistics import (
    POWER,
    TAIL,
    Effect,
    paired_effect,
)
from rlreport.figures.ragged import Floats


def effect_over_runs(bases: Sequence[Floats], new: Floats, *, seed: int = 0) -> Effect:
    """Compare with several runs of BASE, means by prompt (prompts,) each, the same in all.

    Both intervals hold the noise of the prompts, so that the wider one counts.
    """
    effect = paired_effect(np.stack(bases).mean(axis=0), new, seed=seed)
    if not np.isfinite(effect.low):
        return effect
    shared = np.isfinite(np.stack([*bases, new])).all(axis=0)
    error, freedom = _one_more([base[shared] for base in bases])
    half = _quantile(1 - TAIL, freedom) * error
    return replace(
        effect,
        low=min(effect.low, effect.value - half),
        high=max(effect.high, effect.value + half),
        mde=max(effect.mde, half + _quantile(POWER, freedom) * error),
        p=max(effect.p, _two_sided(effect.value, error, freedom)),
    )


def _one_more(runs: Sequence[Floats]) -> tuple[float, int]:
    """Return the standard error of one more run against the mean of these, and its freedom."""
    means = np.array([run.mean() for run in runs])
    return float(means.std(ddof=1) * np.sqrt(1 + 1 / len(means))), len(means) - 1


def _two_sided(difference: float, error: float, freedom: int) -> float:
    """Return the two-sided p of Student's t (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = atan2(abs(difference), error * sqrt(freedom))
    odd = freedom % 2
    total, term = 0.0, cos(angle) if odd else 1.0
    for power in range(2 + odd, freedom + 1, 2):
        total, term = total + term, term * cos(angle) ** 2 * (power - 1) / power
    inside = sin(angle) * total
    return max(0.0, 1 - (2 / pi * (angle + inside) if odd else inside))


def _quantile(share: float, freedom: int) -> float:
    """Return the t below which this share, more than a half, of Student's distribution lies."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        above = _two_sided(middle, 1.0, freedom) > 2 * (1 - share)
        low, high = (middle, high) if above else (low, middle)
    return high
