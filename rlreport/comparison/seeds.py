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
    LEAST_PAIRS,
    POWER,
    TAIL,
    Effect,
    paired_effect,
)
from rlreport.figures.ragged import Floats

_MOST_FREEDOM = 1000
"""Of Student's distribution, which is normal by then."""


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


def unpaired_over_runs(bases: Sequence[Floats], pooled: Floats, new: Floats) -> Effect:
    """Compare with several runs of BASE on other prompts, means by prompt (prompts,) each.

    ``pooled`` has each prompt of BASE once. Runs that share their prompts say nothing of other
    prompts, so that both errors add up, with the degrees of freedom of Welch and Satterthwaite.
    These trust runs that lie close by chance: the interval is no narrower than that over runs.
    """
    pooled, new = pooled[np.isfinite(pooled)], new[np.isfinite(new)]
    pairs = min(len(pooled), len(new))
    if pairs < LEAST_PAIRS:
        return Effect(pairs=pairs, paired=False)
    between, runs = _one_more([base[np.isfinite(base)] for base in bases])
    parts = [(between**2, runs), *((s.var(ddof=1) / len(s), len(s) - 1) for s in (pooled, new))]
    error = sqrt(sum(square for square, _ in parts))
    value = float(new.mean() - pooled.mean())
    if error == 0:
        return Effect(value, value, value, 0.0, 1.0 if value == 0 else 0.0, pairs, paired=False)
    freedom = int(error**4 / sum(square**2 / count for square, count in parts))
    tests = [(error, min(max(1, freedom), _MOST_FREEDOM)), (between, runs)]
    half = max(_quantile(1 - TAIL, count) * own for own, count in tests)
    mde = half + max(_quantile(POWER, count) * own for own, count in tests)
    p = max(_two_sided(value, own, count) for own, count in tests)
    return Effect(value, value - half, value + half, mde, p, pairs, paired=False)


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
