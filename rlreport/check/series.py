"""The shape of a series: rise, fall, death or dip, and its significance.

Noise is estimated from successive differences, which a trend hardly changes. The model is
independent noise of known std e (sampling) plus an AR(1) process of std a and autocorrelation ρ
around a slow trend: differences have variance 2e² + 2a²(1 − ρ) and lag-1 covariance −e² − a²(1 −
ρ)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import BIAS, MAX_CORRELATION, ar1_variance, deviate, lag_1
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import marked

LMFLOW = marked("LMFlow post on PPO training")
SeriesSource = Literal["rollouts", "metrics"]

MIN_STEPS = 5
"""Shorter series are not judged."""

WINDOW_SHARE, MIN_WINDOW = 0.1, 3
"""Fraction, and minimum number, of the steps in the first, the best and the last window."""

MIN_DRIFT_DIFFERENCES = 20
"""Minimum number of differences to distinguish autocorrelation from a trend."""

MIN_DRIFT = 0.2
"""Drift is assumed if sampling leaves this fraction of the differences' variance unexplained."""

MIN_INDEPENDENT = 0.55
"""Lower bound of ``Noise.independent_steps`` when windows are compared."""

RISE_Z, TREND_Z, SOME_Z = 3.0, 2.6, 1.5
"""Either a window's rise or the slope must be significant; the other must reach ``SOME_Z``."""

EARLY_RISE_Z = 4.5
"""z of the last window against the first three steps, for runs that learn at once."""

FALL_Z, BELOW_Z, DEATH_Z, END_Z, ABRUPT_Z, DIP_Z = 3.5, 4.0, 4.0, 5.0, 6.0, 8.5

DEAD_SHARE = 0.02
"""A dead reward stays within this fraction of its range above the lowest value."""

END_STEPS = (3, 5, 10)
"""Numbers of final steps that are compared with the steps just before them."""

ABRUPT_STEPS = 5
"""A fall within this many steps is abrupt."""


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``; those of a fall apply to every series."""

    lost = Limit(0.35, "of the gain", "reward lost again, relative to its gain", LMFLOW)
    z = Limit(FALL_Z, "std errors", "significance of the loss")
    half = Limit(
        0.5,
        "of the gain",
        "reward lost again, relative to its gain, without trainer metrics",
        LMFLOW,
    )
    dip = Limit(0.15, "of steps", "a fall that recovered lasted longer than this part (warning)")
    spread = Limit(0.5, "std of reward", "loss relative to the std within steps")


@dataclass(frozen=True, slots=True)
class Series:
    """A figure by step.

    Attributes:
        steps: int64 (S,), ascending.
        values: float64 (S,), NaN at steps without a value.
        errors: float64 (S,), standard error of each value, or None if unknown.
        source: ``rollouts`` or ``metrics``.
        name: of the metric, "" for a figure of the rollouts.
    """

    steps: Ints
    values: Floats
    errors: Floats | None = None
    source: SeriesSource = "rollouts"
    name: str = ""

    def without_gaps(self) -> Series:
        """Return the series without the steps that have no value."""
        finite = np.isfinite(self.values)
        errors = None if self.errors is None else self.errors[finite]
        return Series(self.steps[finite], self.values[finite], errors, self.source, self.name)


@dataclass(frozen=True, slots=True)
class Noise:
    """How a step's value scatters around the trend.

    Attributes:
        white: std of the part that is independent from step to step, such as sampling noise.
        drift: std of the part that lasts for several steps.
        rho: lag-1 autocorrelation of the drift.
    """

    white: float
    drift: float = 0.0
    rho: float = 0.0

    @property
    def sigma(self) -> float:
        """Std of one step's value."""
        return float(np.hypot(self.white, self.drift))

    def of_mean(self, steps: int) -> float:
        """Return the standard error of the mean of consecutive steps (exact for AR(1))."""
        drift = self._drift * np.sqrt(ar1_variance(self.rho, steps))
        return float(np.hypot(self.white, drift) / np.sqrt(steps))

    def of_slope(self, steps: int) -> float:
        """Return the standard error of the slope per step of a least-squares line."""
        drift = self._drift * np.sqrt((1 + self.rho) / (1 - self.rho))
        return float(np.hypot(self.white, drift) / np.sqrt((steps**3 - steps) / 12))

    @property
    def independent_steps(self) -> float:
        """Number of independent steps that one step is worth."""
        if not 0 < self.sigma < np.inf:
            return 1.0
        # Shares of the variance, because squares of large rewards overflow.
        white, drift = (self.white / self.sigma) ** 2, (self.drift / self.sigma) ** 2
        return 1 / (white + drift * (1 + self.rho) / (1 - self.rho))

    def deflate(self, z: float) -> float:
        """Return the z of a difference of two windows, reduced for autocorrelation of the steps.

        A real change also looks like autocorrelation, so MIN_INDEPENDENT limits the reduction.
        """
        return z * float(np.sqrt(max(self.independent_steps, MIN_INDEPENDENT)))

    @property
    def _drift(self) -> float:
        """Std of the drift, enlarged because ``rho`` is estimated from few steps."""
        return self.drift * (1 + 0.2 * self.rho)


@dataclass(frozen=True, slots=True)
class Dip:
    """A fall that recovered: indices of its first and last step, mean outside it, lowest mean."""

    start: int
    stop: int
    level: float
    low: float


@dataclass(frozen=True, slots=True)
class Shape:
    """How a series rises and falls; indices refer to the steps that have a value.

    Attributes:
        series: those steps.
        noise: their scatter around the trend.
        window: number of steps in the windows below.
        start, best, end: means of the first window, of the best and of the last.
        best_index: index at which the best window begins.
        rise_z, fall_z: of last − first window, of best − last window, as deviates of a normal
            distribution.
        gained: whether the best window lies above the first by more than chance.
        rose: whether it rose over all steps by more than chance.
        fell: whether it lost ``lost`` of its gain by more than chance, and did not recover.
        dead: index from which it stays at its lowest value, after higher ones; or None.
        below_start: whether it ends further below its start than its best lay above it.
        abrupt: index at which it fell within a few steps, for good; or None.
        late: index from which the end lies below everything before; or None.
        dip: a fall that recovered, or None.
    """

    series: Series
    noise: Noise
    window: int
    start: float
    best: float
    best_index: int
    end: float
    rise_z: float
    fall_z: float
    gained: bool
    rose: bool
    fell: bool
    dead: int | None
    below_start: bool
    abrupt: int | None
    late: int | None
    dip: Dip | None


def running_mean(values: Floats, steps: int) -> Floats:
    """Return the mean of each window of ``steps`` consecutive values."""
    return np.convolve(values, np.ones(steps) / steps, "valid")


def noise_of(series: Series, *, independent: bool = False, whole: bool = False) -> Noise:
    """Return the noise of a series without gaps.

    ``independent`` assumes that steps are independent, as evaluations are. A constant end,
    which says nothing about the noise before it, is left out unless ``whole``.
    """
    values = series.values
    live = len(values)
    while not whole and live > 8 and values[live - 1] == values[-1]:
        live -= 1
    jumps = np.diff(values[:live])
    jumps = jumps - (np.median(jumps) if len(jumps) else 0.0)
    scale = 1.4826 * float(np.median(np.abs(jumps))) or float(np.std(jumps)) if len(jumps) else 0.0
    sampling = 0.0
    if series.errors is not None and np.isfinite(series.errors).any():
        sampling = float(np.sqrt(np.nanmean(series.errors**2)))
    clipped = np.clip(jumps, -3 * scale, 3 * scale)
    if independent or not clipped.any() or len(jumps) < MIN_DRIFT_DIFFERENCES:
        return Noise(max(scale / float(np.sqrt(2)), sampling))
    # Half the variance of differences is that of sampling plus 1 - rho times the drift's.
    half = scale**2 / 2
    white = min(sampling**2, half)
    if half - white < MIN_DRIFT * half:
        return Noise(max(float(np.sqrt(half)), sampling))
    left = -(2 * lag_1(clipped) * half + white) / (half - white)
    left = float(np.clip(left + BIAS / len(jumps), 1 - MAX_CORRELATION, 1))
    return Noise(sampling, float(np.sqrt((half - white) / left)), 1 - left)


def shape_of(
    series: Series, limits: RewardCollapse | None = None, *, independent: bool = False
) -> Shape | None:
    """Return the shape of a series, None if it is too short to judge."""
    series = series.without_gaps()
    y = series.values
    steps, limits = len(y), limits or RewardCollapse({})
    if steps < MIN_STEPS:
        return None
    noise = noise_of(series, independent=independent)
    window = max(MIN_WINDOW, int(steps * WINDOW_SHARE))
    means = running_mean(y, window)
    best_index = int(np.argmax(means))
    start, best, end = float(means[0]), float(means[best_index]), float(means[-1])
    error = noise.of_mean(window) * np.sqrt(2)
    freedom = max(0.8 * steps * noise.independent_steps - 1, steps / 8)
    place = np.arange(steps) - (steps - 1) / 2
    slope = float((place * y).sum() / (place**2).sum())
    trend_z = deviate(slope, noise.of_slope(steps), freedom)
    rise_z = deviate(end - start, error, freedom)
    fall_z = deviate(best - end, error, freedom)
    from_first = np.hypot(noise.of_mean(window), noise.of_mean(MIN_WINDOW))
    early_z = deviate(end - float(y[:MIN_WINDOW].mean()), float(from_first), freedom)
    # By chance alone, the best of many windows lies this many errors above the others.
    luck = np.sqrt(2 * np.log(steps / window))
    gained = bool(best - start > (RISE_Z + luck) * error)
    min_z = limits.z if gained else limits.z + luck
    lost = best - end > limits.lost * (best - start)
    abrupt = _abrupt(series, noise, best, end, limits.lost)
    fell = lost and (fall_z > min_z or -rise_z > BELOW_Z)
    rose = (trend_z > TREND_Z and rise_z > SOME_Z) or (rise_z > RISE_Z and trend_z > SOME_Z)
    return Shape(
        series=series,
        noise=noise,
        window=window,
        start=start,
        best=best,
        best_index=best_index,
        end=end,
        rise_z=rise_z,
        fall_z=fall_z,
        gained=gained,
        rose=bool(rose or early_z > EARLY_RISE_Z),
        fell=bool(fell or abrupt is not None),
        dead=_dead(series, best, best_index, window),
        below_start=bool(-rise_z > BELOW_Z and start - end > max(best - start, (best - end) / 2)),
        abrupt=abrupt,
        late=_late(y, noise, window, start, limits.lost),
        dip=_dip(y, noise, window, best, limits.lost),
    )


def _dead(series: Series, best: float, best_index: int, window: int) -> int | None:
    y = series.values
    steps, low = len(y), float(y.min())
    span = best - low
    alive = np.flatnonzero(y > low + DEAD_SHARE * span)
    at = int(alive[-1]) + 1 if len(alive) else 0
    count = steps - at
    if span <= 0 or not MIN_WINDOW <= count < steps - 2 or best_index >= at:
        return None
    sigma = noise_of(series, whole=True).sigma
    error = sigma * np.hypot(1 / np.sqrt(count), 1 / np.sqrt(window))
    drop = best - float(y[at:].mean())
    return at if drop > DEATH_Z * error and drop > span / 2 else None


def _abrupt(series: Series, noise: Noise, best: float, end: float, part: float) -> int | None:
    """Return the index at which the series fell within a few steps, for good, or None."""
    y = series.values
    means = running_mean(y, 3)
    if len(means) < 2 * ABRUPT_STEPS + 2:
        return None
    falls = means[:-ABRUPT_STEPS] - means[ABRUPT_STEPS:]
    scale = 1.4826 * float(np.median(np.abs(falls - np.median(falls))))
    floor = float(np.hypot(noise.white, noise.drift * np.sqrt(1 - noise.rho)))
    if series.errors is not None and np.isfinite(series.errors).any():
        floor = float(np.nanmedian(series.errors))
    at = int(np.argmax(falls))
    middle = means[at] - falls[at] / 2
    fell = falls[at] > ABRUPT_Z * max(scale, floor * np.sqrt(2 / 3), 1e-12)
    stays = end < middle and bool((means[at + ABRUPT_STEPS :] < middle).all())
    return at + 3 if fell and stays and falls[at] > part * (best - y.min()) else None


def _late(y: Floats, noise: Noise, window: int, start: float, part: float) -> int | None:
    """Return the start of the last 3, 5 or 10 steps if these are lower than all before, or None."""
    for count in END_STEPS:
        if len(y) < 4 * count:
            break
        size = max(window, 2 * count)
        end, before = float(y[-count:].mean()), float(y[-count - size : -count].mean())
        error = np.hypot(noise.of_mean(count), noise.of_mean(size))
        drop = before - end
        enough = drop > max(END_Z * error, (before - start) / 2, part * (before - y.min()))
        if enough and end < running_mean(y[:-count], count).min():
            return len(y) - count
    return None


def _dip(y: Floats, noise: Noise, window: int, best: float, part: float) -> Dip | None:
    """Return the deepest fall that recovered, None if none is deep enough."""
    size = min(window, 10)
    means = running_mean(y, size)
    before, after = np.maximum.accumulate(means), np.maximum.accumulate(means[::-1])[::-1]
    level = np.minimum(before, after)
    depth = level - means
    at = int(np.argmax(depth))
    low = float(y.min())
    deep = max(DIP_Z * noise.of_mean(size), (level[at] - low) / 2, part * (best - low))
    if depth[at] <= deep:
        return None
    shallow = np.flatnonzero(depth <= depth[at] / 2)
    first = int(shallow[shallow < at].max(initial=-1)) + 1
    last = int(shallow[shallow > at].min(initial=len(means))) - 1
    half = size // 2
    return Dip(first + half, last + half, float(level[at]), float(means[at]))
