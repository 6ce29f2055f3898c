"""The onset of a finding: the step at which a figure left its baseline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import Onset
from rlreport.figures.ragged import Floats, Ints

BASELINE_STEPS = SMOOTHING = 3
"""Steps of the baseline of an onset, and of the running mean."""

MIN_ERRORS, MIN_PART, LASTING_PART = 4.0, 0.1, 1 / 3
"""From its onset a figure exceeds the baseline by this many errors and fractions of its change."""

MIN_NOISE_STEPS = 9
"""Minimum number of steps for an estimate of noise."""

MAX_CORNERS, MAX_POINTS = 60, 600
"""Maximum number of corners that the ramp fit tries, and of steps on which it is fitted."""

NORMAL_MEDIAN = 0.4549
"""Median of a squared standard normal."""


def onset(
    steps: Ints, series: Floats, *, peak: tuple[int, int] | None = None, end: int = BASELINE_STEPS
) -> Onset | None:
    """Return the step at which a figure left its baseline, or None if it did not.

    The baseline is the mean of the first three steps, or of the window with the index range
    ``peak`` if the figure fell from it. The onset is the first step from which the smoothed
    series stays beyond the baseline, to the end, by MIN_ERRORS and by MIN_PART of the change
    to the mean of the last ``end`` values. The interval begins at the first corner of the best
    ramp, and ends at the first step from which the series stays beyond LASTING_PART.
    ``series``, float64 (S,), is NaN at steps without a value.
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
    whole, sign = abs(last - level), np.sign(last - level)
    if whole == 0:
        return None
    beyond = sign * (smooth(y) - level)
    if peak:
        beyond[: base - 1] = np.minimum(beyond[: base - 1], 0)
    error = _noise_so_far(y) * np.sqrt(1 / base + 1 / SMOOTHING)
    lasting_high = _first_lasting(beyond > LASTING_PART * whole)
    at = _first_lasting(beyond > np.maximum(MIN_ERRORS * error, MIN_PART * whole))
    at = min(at, lasting_high)
    # The centred mean shows an abrupt change one step early: check the step's own value.
    if at < len(y) - 1 and sign * (y[at] - level) <= MIN_PART * whole:
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
    return float(np.sqrt(np.median(np.diff(y) ** 2) / NORMAL_MEDIAN / 2)) if len(y) > 2 else 0.0


def _noise_so_far(y: Floats) -> Floats:
    """Return the noise of the series up to each step, float64 (S,).

    Many figures become noisier as they grow; later noise must not hide an early onset. The
    estimate never exceeds the noise of the whole series.
    """
    ends = np.unique(np.linspace(min(MIN_NOISE_STEPS, len(y)), len(y), MAX_CORNERS).astype(int))
    levels = np.minimum([noise(y[:end]) for end in ends], noise(y))
    return np.interp(np.arange(1, len(y) + 1), ends, levels)


def _first_lasting(flags: NDArray[np.bool_]) -> int:
    """Return the first index from which all flags are true; at most the last index."""
    false = np.flatnonzero(~flags)
    return min(int(false[-1]) + 1 if len(false) else 0, len(flags) - 1)


def _corner(y: Floats, start: int) -> int:
    """Return the index of the first corner of the best flat-linear-flat fit (least squares)."""
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
