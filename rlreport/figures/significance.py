"""How likely differences are by chance: of shares, of a normal variable, of many tests at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Floats


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple testing (Holm 1979), in the same order."""
    values = pd.Series(p, dtype=np.float64).sort_values(kind="stable")
    # The smallest of m p-values is multiplied by m, the next one by m - 1, and so on; none becomes
    # smaller than the one before it.
    multiplied = values * np.arange(len(p), 0, -1)
    corrected = multiplied.clip(upper=1.0).cummax()
    return corrected.sort_index().tolist()  # the index is the position in ``p``


def two_sided_p(z: float) -> float:
    """Return the chance that a standard normal variable is at least as far from 0 as ``z``."""
    return math.erfc(abs(z) / math.sqrt(2))


def share_difference_z(first: float, of_first: int, last: float, of_last: int) -> float:
    """Return by how many standard errors the share ``last`` of n differs from ``first`` of n.

    Shares of 0 and 1 would have an error of 0; with half a success and half a failure added they
    have one (Agresti and Caffo 2000 add one each).
    """
    error = math.sqrt(_share_variance(first, of_first) + _share_variance(last, of_last))
    return (last - first) / error


def _share_variance(share: float, count: int) -> float:
    smoothed = (share * count + 0.5) / (count + 1)
    return smoothed * (1 - smoothed) / count


def log_factorials(most: int) -> Floats:
    """Return the natural logarithms of 0!, 1!, …, ``most``!, (most + 1,).

    SciPy has them, too, but takes as long to import as small logs take to read and judge.
    """
    factors = np.maximum(np.arange(most + 1), 1)
    return np.cumsum(np.log(factors))


def binomial_tail(least: int, trials: int, share: float) -> float:
    """Return the chance of ``least`` or more successes in ``trials``; 0 < ``share`` < 1 succeed."""
    successes = np.arange(least, trials + 1)
    failures = trials - successes
    factorials = log_factorials(trials)
    orders = factorials[trials] - factorials[successes] - factorials[failures]
    logs = successes * math.log(share) + failures * math.log1p(-share)
    return float(np.exp(orders + logs).sum())
