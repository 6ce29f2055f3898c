"""Find the onset of a problem: the step at which a series of numbers left its initial level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import Onset
from rlreport.figures.ragged import Floats, Ints

# Number of steps in the baseline, and in the running mean that smooths the series
BASELINE_STEPS = SMOOTHING = 3

# From the onset on, a series is MIN_ERRORS standard errors and MIN_PART of its total change away
# from its baseline. The interval in which the onset may lie ends at LASTING_PART of the change
MIN_ERRORS, MIN_PART, LASTING_PART = 4.0, 0.1, 1 / 3

# The noise of a part of a series is estimated from at least this many steps (if it has them)
MIN_NOISE_STEPS = 9

# Maximum number of positions of a corner (start of a change) to try, and of steps to fit
MAX_CORNERS, MAX_POINTS = 60, 600

# Median of x² if x is standard normal; turns a median square into a variance
NORMAL_MEDIAN = 0.4549


def onset(
    steps: Ints, series: Floats, *, peak: tuple[int, int] | None = None, end: int = BASELINE_STEPS
) -> Onset | None:
    """Return the step at which a series left its baseline, or None if its level did not change.

    ``series``, float64 (S,), is NaN at steps without a value. The baseline is the mean of the
    first three values, or of those in the index range ``peak`` if the series fell from a peak.
    The total change is the mean of the last ``end`` values minus the baseline. The onset is the
    first step from which on the smoothed series stays at least MIN_ERRORS standard errors, and at
    least MIN_PART of the total change, away from the baseline. Its uncertainty interval starts
    where a least-squares fit (``_corner``) begins to rise, and ends at the first step from which
    on the series stays at least LASTING_PART of the total change away.
    """
    start, stop = peak or (0, 0)
    indices = np.flatnonzero(np.isfinite(series))
    indices = indices[indices >= start]
    if len(indices) < 2:
        return None
    y = series[indices]
    base = int(np.count_nonzero(indices < stop)) if peak else BASELINE_STEPS
    base = min(max(base, 1), len(y) - 1)
    level, last = float(y[:base].mean()), float(y[-max(1, min(end, len(y) - base)) :].mean())
    total_change, sign = abs(last - level), np.sign(last - level)
    if total_change == 0:
        return None
    distance = sign * (smooth(y) - level)
    if peak:
        distance[: base - 1] = np.minimum(distance[: base - 1], 0)
    error = _cumulative_noise(y) * np.sqrt(1 / base + 1 / SMOOTHING)
    lasting_high = _first_lasting(distance > LASTING_PART * total_change)
    at = _first_lasting(distance > np.maximum(MIN_ERRORS * error, MIN_PART * total_change))
    at = min(at, lasting_high)
    # The centred mean shows an abrupt change one step early: check the step's own value.
    if at < len(y) - 1 and sign * (y[at] - level) <= MIN_PART * total_change:
        at += 1
    corner = min(_corner(y, base if peak else 0), at)
    numbers = steps[indices]
    return Onset(int(numbers[at]), int(numbers[corner]), int(numbers[max(at, lasting_high)]))


def smooth(y: Floats) -> Floats:
    """Return the centred running mean over three values, over two at both ends."""
    if len(y) < SMOOTHING:
        return np.full(len(y), y.mean())
    kernel = np.ones(SMOOTHING)
    return np.convolve(y, kernel, "same") / np.convolve(np.ones_like(y), kernel, "same")


def noise(y: Floats) -> float:
    """Return the std of a series around its trend, from the squares of successive differences."""
    return float(np.sqrt(np.median(np.diff(y) ** 2) / NORMAL_MEDIAN / 2)) if len(y) > 2 else 0.0


def _cumulative_noise(y: Floats) -> Floats:
    """Return the std of the noise in the series up to each step, float64 (S,).

    Many series become noisier as they grow, and later noise must not hide an early onset. The
    estimate never exceeds the noise of the whole series.
    """
    ends = np.unique(np.linspace(min(MIN_NOISE_STEPS, len(y)), len(y), MAX_CORNERS).astype(int))
    levels = np.minimum([noise(y[:end]) for end in ends], noise(y))
    return np.interp(np.arange(1, len(y) + 1), ends, levels)


def _first_lasting(flags: NDArray[np.bool_]) -> int:
    false = np.flatnonzero(~flags)
    return min(int(false[-1]) + 1 if len(false) else 0, len(flags) - 1)


def _corner(y: Floats, start: int) -> int:
    """Fit a series by a flat, a sloped and a flat line; return the index where the slope starts."""
    corners = np.arange(0, len(y), -(-len(y) // MAX_CORNERS))
    points = np.arange(0, len(y), -(-len(y) // MAX_POINTS))
    low, high = (grid.ravel() for grid in np.meshgrid(corners, corners, indexing="ij"))
    pairs = (low < high) & (low >= max(start - 1, 0))
    low, high = low[pairs], high[pairs]
    if not len(low):
        return 0
    x = np.clip((points - low[:, None]) / (high - low)[:, None], 0, 1)
    x -= x.mean(axis=1, keepdims=True)
    y = y[points] - y[points].mean()
    explained = (x @ y) ** 2 / np.maximum((x * x).sum(axis=1), 1e-12)
    # Among equal fits, take the first.
    return int(low[np.argmax(explained >= explained.max() - 1e-12)])
