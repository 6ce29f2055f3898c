"""When a figure left its baseline: one method for all checks.

The baseline of a figure by step is the mean of its first three steps, or of its best window if it
fell from a peak. The series is smoothed over three steps. The onset is the first step from which it
stays beyond the baseline, to the end, by four standard errors and by a tenth of the whole change.
Noise is estimated from successive differences, so a trend does not count as noise. The interval
begins at the first corner of the best ramp (flat, linear, flat; least squares over both corners).
It ends at the first step from which the smoothed series stays beyond a third of the whole change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import Onset
from rlreport.figures.ragged import Floats

BASELINE_STEPS = 3
"""Steps of the baseline."""

SMOOTHING = 3
"""Steps of the running mean."""

MIN_ERRORS = 4.0
MIN_PART = 0.1
LASTING_PART = 1 / 3

MIN_NOISE_STEPS = 9
"""Steps that an estimate of noise needs."""

MAX_CORNERS = 60
"""Corners that the ramp fit tries at most; longer runs are fitted on every k-th step."""

NORMAL_MEDIAN = 0.4549
"""Median of a squared standard normal."""


def onset(
    steps: NDArray[np.int64],
    series: Floats,
    *,
    peak: tuple[int, int] | None = None,
    end: int = BASELINE_STEPS,
) -> Onset | None:
    """Return the step at which a figure left its baseline, or None if it did not.

    ``series``, float64 (S,), is NaN at steps without a value. ``peak`` is the index range of
    the window it fell from, by default the first steps. The mean of the last ``end`` values is
    the level it reached.
    """
    start, stop = peak or (0, 0)
    indices = np.flatnonzero(np.isfinite(series))
    indices = indices[indices >= start]
    if len(indices) < 2:
        return None
    y = series[indices]
    base = int(np.count_nonzero(indices < stop)) if peak else min(BASELINE_STEPS, len(y) - 1)
    base = min(max(base, 1), len(y) - 1)
    level, last = float(y[:base].mean()), float(y[-max(1, min(end, len(y) - base)) :].mean())
    change = last - level
    if change == 0:
        return None
    beyond = np.sign(change) * (smooth(y) - level)
    beyond[: base - 1] = np.minimum(beyond[: base - 1], 0) if peak else beyond[: base - 1]
    error = _noise_so_far(y) * np.sqrt(1 / base + 1 / SMOOTHING)
    whole = abs(change)
    lasting = _first_lasting(beyond > np.maximum(MIN_ERRORS * error, MIN_PART * whole))
    lasting_high = _first_lasting(beyond > LASTING_PART * whole)
    at = min(lasting, lasting_high)
    # The centred mean shows an abrupt change one step early: check the step's own value.
    raw = np.sign(change) * (y - level)
    if at < len(y) - 1 and raw[at] <= MIN_PART * whole:
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
    """Return the std of a series around its trend, from the median squared difference."""
    if len(y) < 3:
        return 0.0
    return float(np.sqrt(np.median(np.diff(y) ** 2) / NORMAL_MEDIAN / 2))


def _noise_so_far(y: Floats) -> Floats:
    """Return the noise of the series up to each step, float64 (S,), at most that of all steps.

    Many figures scatter more as they grow: later noise must not hide an early onset.
    """
    ends = np.unique(np.linspace(min(MIN_NOISE_STEPS, len(y)), len(y), MAX_CORNERS).astype(int))
    levels = np.minimum([noise(y[:end]) for end in ends], noise(y))
    return np.interp(np.arange(1, len(y) + 1), ends, levels)


def _first_lasting(flags: NDArray[np.bool_]) -> int:
    """Return the first index from which all flags are true; at most the last index."""
    false = np.flatnonzero(~flags)
    first = int(false[-1]) + 1 if len(false) else 0
    return min(first, len(flags) - 1)


def _corner(y: Floats, start: int) -> int:
    """Return the index of the first corner of the best flat-linear-flat fit."""
    stride = max(1, -(-len(y) // MAX_CORNERS))
    places = np.arange(0, len(y), stride, dtype=np.float64)
    points = np.arange(len(y), dtype=np.float64)
    low, high = (grid.ravel() for grid in np.meshgrid(places, places, indexing="ij"))
    pairs = (low < high) & (low >= max(start - 1, 0))
    low, high = low[pairs], high[pairs]
    if not len(low):
        return 0
    best, best_low = np.inf, 0.0
    for part in np.array_split(np.arange(len(low)), max(1, len(low) * len(y) // 2_000_000)):
        x = np.clip((points - low[part, None]) / (high - low)[part, None], 0, 1)
        x = x - x.mean(axis=1, keepdims=True)
        of_x = (x * x).sum(axis=1)
        slope = (x * (y - y.mean())).sum(axis=1) / np.maximum(of_x, 1e-12)
        left = ((y - y.mean()) ** 2).sum() - slope**2 * of_x
        place = int(np.argmin(left))
        if left[place] < best - 1e-12:
            best, best_low = float(left[place]), float(low[part][place])
    return int(best_low)
