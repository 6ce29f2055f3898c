"""Smooth lines of noisy curves: moving averages, and the running median of long ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Floats

# Decay factors of the moving averages offered to readers
SMOOTHING = (0.6, 0.9)
# A noisy curve of up to LONG values is drawn as the moving average of the first factor. Of more, it
# is noise still, and with a larger factor it would come late: their line is a running median over
# this part of the values, which keeps sharp falls, and logged values are dots, not a thin line.
LONG = 150
MEDIAN_PART = 1 / 24
LEAST_SMOOTHED = 10  # Minimum number of values of a curve that can be smoothed
MEDIAN = "median"  # field of rows with the running median


def smoothed(values: Floats, factor: float) -> Floats:
    """Return the exponential moving average of values; weights decay by ``factor`` per value.

    As in TensorBoard, weights are normalized so that the average does not start near 0 (Kingma
    and Ba (2015), section 3). Missing values are skipped and stay missing.
    """
    finite = pd.Series(values).dropna()
    averages = finite.ewm(alpha=1 - factor).mean()
    return averages.reindex(range(len(values))).to_numpy(dtype=np.float64)


def median_window(values: Floats) -> int:
    """Return the number of values of the running median of a long curve, which is odd."""
    return 2 * round(float(np.isfinite(values).sum()) * MEDIAN_PART / 2) + 1


def running_median(values: Floats) -> Floats:
    """Return the running median of a long curve, averaged over a third of its window.

    Windows are centred, and shorter at the ends. Missing values are skipped and stay missing.
    """
    finite = pd.Series(values).dropna()
    window = median_window(values)
    third = max(window // 3, 1)
    medians = finite.rolling(window, min_periods=1, center=True).median()
    means = medians.rolling(third, min_periods=1, center=True).mean()
    return means.reindex(range(len(values))).to_numpy(dtype=np.float64)


def is_sparse(values: Floats) -> bool:
    """Return whether most finite values have a gap before the next one; lines then bridge gaps."""
    finite = np.isfinite(values)
    adjacent_pairs = (finite[1:] & finite[:-1]).sum()
    # Each value but the last has a next one.
    pairs = finite.sum() - 1
    return bool(2 * adjacent_pairs < pairs)


def average_field(factor: float) -> str:
    """Return the field of rows with the moving average of a decay factor: 0.6 -> "ema_6"."""
    return f"ema_{factor * 10:.0f}"
