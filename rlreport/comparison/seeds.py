"""How far NEW is from several runs of BASE, one per seed: runs scatter, and so do prompts.

NEW is treated as one more draw from the distribution of BASE runs. Student's interval for it is
± t(R - 1) · s · √(1 + 1/R) with the standard deviation s of the R runs' means, which includes the
noise of the prompts. The interval over prompts has how differently a change acts on prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from rlreport.comparison.statistics import (
    Effect,
    StandardError,
    paired_effect,
    unpaired_effect,
)
from rlreport.figures.ragged import Floats


def effect_over_runs(
    bases: Sequence[Floats], new: Floats, *, rounding: float = 0.0, seed: int = 0
) -> Effect:
    """Compare with runs of BASE, means by prompt (prompts,) each, the same in all."""
    shared = np.isfinite(np.stack([*bases, new])).all(axis=0)
    runs = [base[shared] for base in bases]
    mean = np.stack(runs).mean(axis=0)
    return paired_effect(mean, new[shared], runs=_one_more(runs), rounding=rounding, seed=seed)


def unpaired_over_runs(
    bases: Sequence[Floats],
    pooled: Floats,
    new: Floats,
    *,
    rounding: float = 0.0,
    seed: int = 0,
) -> Effect:
    """Compare with runs of BASE on other prompts, means by prompt (prompts,) each.

    ``pooled`` has each prompt of BASE once.
    """
    runs = _one_more([base[np.isfinite(base)] for base in bases])
    return unpaired_effect(pooled, new, runs=runs, rounding=rounding, seed=seed)


def _one_more(runs: Sequence[Floats]) -> StandardError | None:
    """Return the error of one more run against the mean of these; None for one run or no prompt."""
    if len(runs) == 1 or not all(map(len, runs)):
        return None
    means = np.array([run.mean() for run in runs])
    return StandardError(float(means.std(ddof=1)) * sqrt(1 + 1 / len(means)), len(means) - 1)
