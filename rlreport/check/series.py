"""Detect whether and when a series rose, fell, dipped or died (stayed at its lowest value).

Noise is estimated from successive differences, which a trend hardly changes. The model of a value
is a slow trend, plus independent noise of known std e (sampling), plus an AR(1) process of std a
and autocorrelation ρ. Then successive differences have the variance 2e² + 2a²(1 − ρ) and the lag-1
covariance −e² − a²(1 − ρ)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rlreport.check.course_data import SeriesSource
from rlreport.check.finding import Onset
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.noise import (
    BIAS,
    MAX_CORRELATION,
    Change,
    Trend,
    ar1_variance,
    deviate,
    lag_1,
)
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change, difference, rounded, settled, significant
from rlreport.text.messages import translatable

LMFLOW = translatable("LMFlow post on PPO training")

MIN_STEPS = 5  # Minimum number of values that a series needs to be judged
# Length of the first, best and last window: fraction of the steps, and minimum number of steps
SHAPE_WINDOW_SHARE, MIN_WINDOW = 0.1, 3
# Autocorrelation is estimated only from at least this many successive differences
MIN_DRIFT_DIFFERENCES = 20
# Noise counts as autocorrelated if sampling leaves this part of its variance unexplained
MIN_DRIFT = 0.2
# Smallest value of ``Noise.independent_steps`` with which ``Noise.deflate`` reduces a z
MIN_INDEPENDENT = 0.55

# A series rose if z > RISE_Z (last - first window) or TREND_Z (slope), the other z > SOME_Z
RISE_Z = 3.0
TREND_Z = 2.6
SOME_Z = 1.5
# A series also rose if z (last window - first three steps) exceeds this: some runs learn early
EARLY_RISE_Z = 4.5
# Minimum z of each kind of fall: any, to below the start, to the lowest value for good (death),
# only in the last steps, within a few steps, and followed by a recovery (dip)
FALL_Z = 3.5
BELOW_Z = 4.0
DEATH_Z = 4.0
END_Z = 5.0
ABRUPT_Z = 6.0
DIP_Z = 8.5
# A dead series stays within this fraction of (best - lowest value) above its lowest value
DEAD_SHARE = 0.02
# The means of the last 3, 5 and 10 steps are compared with the steps just before them
END_STEPS = (3, 5, 10)
ABRUPT_STEPS = 5  # A fall within this many steps is abrupt

# Number of steps in the baseline, and in the running mean that smooths the series
BASELINE_STEPS = SMOOTHING = 3
# From the onset on, a series is MIN_ERRORS standard errors and MIN_PART of its total change away
# from its baseline. The interval in which the onset may lie ends at LASTING_PART of the change
MIN_ERRORS = 4.0
MIN_PART = 0.1
LASTING_PART = 1 / 3
# The noise of a part of a series is estimated from at least this many steps (if it has them)
MIN_NOISE_STEPS = 9
# Maximum number of positions of a corner (start of a change) to try, and of steps to fit
MAX_CORNERS, MAX_POINTS = 60, 600
# Median of x² if x is standard normal; turns a median square into a variance
NORMAL_MEDIAN = 0.4549


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``. ``shape_of`` uses ``lost`` and ``z`` for all series."""

    lost = Limit(
        0.35,
        LimitKind.SHARE,
        "of the gain",
        "reward lost again, relative to its gain",
        LMFLOW,
    )
    z = Limit(FALL_Z, LimitKind.ERRORS, "std errors", "significance of the loss")
    half = Limit(
        0.5,
        LimitKind.SHARE,
        "of the gain",
        "reward lost again, relative to its gain, without trainer metrics",
        LMFLOW,
    )
    dip = Limit(
        0.15,
        LimitKind.SHARE,
        "of steps",
        "a fall that recovered lasted longer than this part (warning)",
    )
    spread = Limit(
        0.5, LimitKind.VALUE, "std of reward", "loss relative to the std within steps"
    )


@dataclass(frozen=True, slots=True)
class Series:
    """One number per step, such as the mean reward."""

    steps: Ints  # int64 (S,), ascending
    values: Floats  # float64 (S,), NaN at steps without a value
    errors: Floats | None = (
        None  # float64 (S,), standard error of each value, or None if unknown
    )
    # whether it was computed from ``rollouts`` or logged in the trainer's ``metrics``
    source: SeriesSource = "rollouts"
    name: str = ""  # name of the metric, "" if it was computed from rollouts

    def without_gaps(self) -> Series:
        """Return the series without the steps whose value is NaN or infinite."""
        finite = np.isfinite(self.values)
        errors = None if self.errors is None else self.errors[finite]
        return Series(
            self.steps[finite], self.values[finite], errors, self.source, self.name
        )

    def change(self, first: int | None = None) -> Change:
        """Return the change of the mean from the ``first`` values (or fifth) to the last fifth."""
        values = self.values
        size = max(MIN_WINDOW, int(len(values) * Trend.share.default))
        start = min(first or size, len(values))
        noise = noise_of(self)
        error = float(np.hypot(noise.of_mean(start), noise.of_mean(size)))
        before = rounded(values[:start].mean())
        after = rounded(values[-size:].mean())
        z = deviate(change(before, after), error, max(len(values) / 2, 1))
        return Change(before, after, z)


class Noise(NamedTuple):
    """The noise of a series: the scatter of its values around the trend."""

    white: float  # std of the part that is independent from step to step, such as sampling noise
    drift: float = (
        0.0  # std of the autocorrelated part (AR(1)), which lasts for several steps
    )
    rho: float = 0.0  # lag-1 autocorrelation of the drift

    @property
    def sigma(self) -> float:
        """Std of one step's value around the trend: of both parts of the noise together."""
        return float(np.hypot(self.white, self.drift))

    def of_mean(self, steps: int) -> float:
        """Return the standard error of the mean of ``steps`` consecutive values."""
        drift = self._drift * np.sqrt(ar1_variance(self.rho, steps))
        return rounded(np.hypot(self.white, drift) / np.sqrt(steps))

    def of_slope(self, steps: int) -> float:
        """Return the standard error of a least-squares line's slope through ``steps`` values."""
        drift = self._drift * np.sqrt((1 + self.rho) / (1 - self.rho))
        return rounded(np.hypot(self.white, drift) / np.sqrt((steps**3 - steps) / 12))

    @property
    def independent_steps(self) -> float:
        """How many independent steps one step is worth: 1 without autocorrelation, else less."""
        if not 0 < self.sigma < np.inf:
            return 1.0
        # Shares of the variance, because squares of large rewards overflow.
        white = (self.white / self.sigma) ** 2
        drift = (self.drift / self.sigma) ** 2
        return 1 / (white + drift * (1 + self.rho) / (1 - self.rho))

    def deflate(self, z: float) -> float:
        """Reduce the z of a difference between two windows, because steps are autocorrelated.

        A real change also looks like autocorrelation, so MIN_INDEPENDENT limits the reduction.
        """
        return z * float(np.sqrt(max(self.independent_steps, MIN_INDEPENDENT)))

    @property
    def _drift(self) -> float:
        """``drift``, slightly increased because ``rho`` is estimated from few steps."""
        return self.drift * (1 + 0.2 * self.rho)


class Dip(NamedTuple):
    """A fall of a series from which it recovered."""

    # indices of the first and of the last value of the fall
    start: int
    stop: int
    level: float  # running mean from which it fell and to which it returned (the lower of the two)
    low: float  # lowest running mean in between


@dataclass(frozen=True, slots=True)
class Shape:
    """How a series rises and falls. Indices are those of ``series``, which has no gaps."""

    series: Series  # the series without steps that have no value
    noise: Noise  # noise of the series around its trend
    window: int  # number of steps in the first, the best and the last window
    # means of the first, the best and the last window
    start: float
    best: float
    best_index: int  # index at which the best window begins
    end: float
    # z of (last − first window), and of (best − last window)
    rise_z: float
    fall_z: float
    gained: bool  # whether the best window lies above the first by more than chance
    rose: bool  # whether the series rose over all steps by more than chance
    fell: bool  # whether best - end is more than ``lost`` times (best - start), beyond chance
    dead: (
        int | None
    )  # index from which it stays at its lowest value to the end; or None
    below_start: bool  # whether it ends further below its start than its best was above its start
    abrupt: (
        int | None
    )  # index at which it fell within a few steps and stayed low; or None
    late: (
        int | None
    )  # index from which the last 3, 5 or 10 steps lie below all before; or None
    dip: Dip | None  # the deepest fall that recovered, or None

    @property
    def peak(self) -> tuple[int, int]:
        """Index range of the best window, as (start, stop)."""
        return self.best_index, self.best_index + self.window


def running_mean(values: Floats, steps: int) -> Floats:
    """Return the mean of each window of ``steps`` consecutive values; empty if too few values.

    It is rounded, so that of windows with equal values none is the best by the order of a sum.
    """
    if len(values) < steps:
        return np.empty(0)
    return significant(sliding_window_view(values, steps).mean(axis=1))


def noise_of(
    series: Series, *, independent: bool = False, whole: bool = False
) -> Noise:
    """Estimate the noise of a series without gaps.

    ``independent`` assumes that there is no autocorrelation, as between evaluations. Unless
    ``whole``, repetitions of the last value after the eighth value are ignored: they have no noise.
    """
    values = series.values
    live = len(values)
    while not whole and live > 8 and values[live - 1] == values[-1]:
        live -= 1
    jumps = difference(values[1:live], values[: live - 1])
    jumps = difference(jumps, np.median(jumps) if len(jumps) else 0.0)
    scale = _scatter(jumps)
    sampling = 0.0
    if series.errors is not None and np.isfinite(series.errors).any():
        sampling = float(np.sqrt(np.nanmean(series.errors**2)))
    clipped = np.clip(jumps, -3 * scale, 3 * scale)
    if independent or not clipped.any() or len(jumps) < MIN_DRIFT_DIFFERENCES:
        return Noise(max(scale / float(np.sqrt(2)), sampling))
    # Half the variance of differences is e² + a²(1 − ρ), with e the sampling error.
    half = scale**2 / 2
    white = min(sampling**2, half)
    if half - white < MIN_DRIFT * half:
        return Noise(max(float(np.sqrt(half)), sampling))
    left = -(2 * lag_1(clipped) * half + white) / (half - white)
    left = float(np.clip(left + BIAS / len(jumps), 1 - MAX_CORRELATION, 1))
    return Noise(sampling, float(np.sqrt((half - white) / left)), 1 - left)


def _scatter(jumps: Floats) -> float:
    """Return a robust std of jumps, from which their median has been subtracted.

    If most are 0, the std of the others counts, of three or more without the largest: it would
    take one fall of the whole series for its usual scatter.
    """
    sizes = np.sort(np.abs(jumps[jumps != 0]))
    if not len(sizes):
        return 0.0
    if 2 * len(sizes) > len(jumps):
        return 1.4826 * float(np.median(np.abs(jumps)))
    usual = sizes[:-1] if len(sizes) > 2 else sizes
    return rounded(np.sqrt((usual * usual).sum() / len(jumps)))


def shape_of(  # noqa: PLR0914
    series: Series, limits: RewardCollapse | None = None, *, independent: bool = False
) -> Shape | None:
    """Return how a series rises and falls, None below MIN_STEPS values; see also ``noise_of``."""
    series = series.without_gaps()
    y = series.values
    steps, limits = len(y), limits or RewardCollapse({})
    if steps < MIN_STEPS:
        return None
    noise = noise_of(series, independent=independent)
    window = max(MIN_WINDOW, int(steps * SHAPE_WINDOW_SHARE))
    means = running_mean(y, window)
    best_index = int(np.argmax(means))
    start = float(means[0])
    best = float(means[best_index])
    end = float(means[-1])
    error = noise.of_mean(window) * np.sqrt(2)
    freedom = max(0.8 * steps * noise.independent_steps - 1, steps / 8)
    x = np.arange(steps) - (steps - 1) / 2
    slope = float(settled((x * y).sum(), np.abs(x * y).max()) / (x**2).sum())
    trend_z = deviate(slope, noise.of_slope(steps), freedom)
    rise_z = deviate(change(start, end), error, freedom)
    fall_z = deviate(change(end, best), error, freedom)
    from_first = np.hypot(noise.of_mean(window), noise.of_mean(MIN_WINDOW))
    early = rounded(y[:MIN_WINDOW].mean())
    early_z = deviate(change(early, end), float(from_first), freedom)
    # By chance alone, the best of many windows lies this many standard errors above the others.
    luck = np.sqrt(2 * np.log(steps / window))
    gained = bool(best - start > (RISE_Z + luck) * error)
    min_z = limits.z if gained else limits.z + luck
    has_loss = best - end > limits.lost * (best - start)
    abrupt = _abrupt_fall_index(series, noise, best, end, limits.lost)
    fell = has_loss and (fall_z > min_z or -rise_z > BELOW_Z)
    rose = (trend_z > TREND_Z and rise_z > SOME_Z) or (
        rise_z > RISE_Z and trend_z > SOME_Z
    )
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
        dead=_death_index(series, best, best_index, window),
        below_start=bool(
            -rise_z > BELOW_Z and start - end > max(best - start, (best - end) / 2)
        ),
        abrupt=abrupt,
        late=_late_fall_index(y, noise, window, start, limits.lost),
        dip=_find_dip(y, noise, window, best, limits.lost),
    )


def _death_index(
    series: Series, best: float, best_index: int, window: int
) -> int | None:
    """Return the index from which a series that fell stays near its lowest value, or None."""
    y = series.values
    steps = len(y)
    low = float(y.min())
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


def _abrupt_fall_index(
    series: Series, noise: Noise, best: float, end: float, part: float
) -> int | None:
    y = series.values
    means = running_mean(y, 3)
    if len(means) < 2 * ABRUPT_STEPS + 2:
        return None
    falls = difference(means[:-ABRUPT_STEPS], means[ABRUPT_STEPS:])
    scale = 1.4826 * float(np.median(np.abs(difference(falls, np.median(falls)))))
    floor = float(np.hypot(noise.white, noise.drift * np.sqrt(1 - noise.rho)))
    if series.errors is not None and np.isfinite(series.errors).any():
        floor = float(np.nanmedian(series.errors))
    at = int(np.argmax(falls))
    middle = means[at] - falls[at] / 2
    fell = falls[at] > ABRUPT_Z * max(scale, floor * np.sqrt(2 / 3), 1e-12)
    stays = end < middle and bool((means[at + ABRUPT_STEPS :] < middle).all())
    return at + 3 if fell and stays and falls[at] > part * (best - y.min()) else None


def _late_fall_index(
    y: Floats, noise: Noise, window: int, start: float, part: float
) -> int | None:
    """Return where the last 3, 5 or 10 steps begin if they lie far below all before, or None."""
    for count in END_STEPS:
        if len(y) < 4 * count:
            break
        size = max(window, 2 * count)
        end = float(y[-count:].mean())
        before = float(y[-count - size : -count].mean())
        error = np.hypot(noise.of_mean(count), noise.of_mean(size))
        drop = before - end
        is_large = drop > max(
            END_Z * error, (before - start) / 2, part * (before - y.min())
        )
        if is_large and end < running_mean(y[:-count], count).min():
            return len(y) - count
    return None


def _find_dip(
    y: Floats, noise: Noise, window: int, best: float, part: float
) -> Dip | None:
    """Return the deepest fall from which the series recovered, or None if no fall is deep."""
    size = min(window, 10)
    means = running_mean(y, size)
    before = np.maximum.accumulate(means)
    after = np.maximum.accumulate(means[::-1])[::-1]
    level = np.minimum(before, after)
    depth = difference(level, means)
    at = int(np.argmax(depth))
    low = float(y.min())
    min_depth = max(
        DIP_Z * noise.of_mean(size), (level[at] - low) / 2, part * (best - low)
    )
    if depth[at] <= min_depth:
        return None
    shallow = np.flatnonzero(depth <= depth[at] / 2)
    first = int(shallow[shallow < at].max(initial=-1)) + 1
    last = int(shallow[shallow > at].min(initial=len(means))) - 1
    half = size // 2
    return Dip(first + half, last + half, float(level[at]), float(means[at]))


def onset(
    steps: Ints,
    series: Floats,
    *,
    peak: tuple[int, int] | None = None,
    end: int = BASELINE_STEPS,
) -> Onset | None:
    """Return when a series left its baseline, None below two values or if it did not change.

    ``series``, float64 (S,), is NaN at steps without a value. The baseline is the mean of the first
    three values or, if given, of those in the index range ``peak``; values before it are ignored.
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
    level = rounded(y[:base].mean())
    last = rounded(y[-max(1, min(end, len(y) - base)) :].mean())
    moved = change(level, last)
    total_change = abs(moved)
    sign = np.sign(moved)
    if total_change == 0:
        return None
    distance = sign * difference(smooth(y), level)
    if peak:
        distance[: base - 1] = np.minimum(distance[: base - 1], 0)
    error = _cumulative_noise(y) * np.sqrt(1 / base + 1 / SMOOTHING)
    lasting_high = _first_lasting(distance > LASTING_PART * total_change)
    at = _first_lasting(
        distance > np.maximum(MIN_ERRORS * error, MIN_PART * total_change)
    )
    at = min(at, lasting_high)
    # The centred mean shows an abrupt change one step early: check the step's own value.
    if at < len(y) - 1 and sign * change(level, y[at]) <= MIN_PART * total_change:
        at += 1
    corner = min(_corner(y, base if peak else 0), at)
    numbers = steps[indices]
    return Onset(
        int(numbers[at]), int(numbers[corner]), int(numbers[max(at, lasting_high)])
    )


def smooth(y: Floats) -> Floats:
    """Return the centred running mean over three values, two at both ends, or all if shorter."""
    if len(y) < SMOOTHING:
        return np.full(len(y), rounded(y.mean()))
    inner = running_mean(y, SMOOTHING)
    return np.concatenate([running_mean(y[:2], 2), inner, running_mean(y[-2:], 2)])


def jump_noise(y: Floats) -> float:
    """Return the std around the trend, from the median squared difference of successive values."""
    return (
        float(np.sqrt(np.median(np.diff(y) ** 2) / NORMAL_MEDIAN / 2))
        if len(y) > 2
        else 0.0
    )


def _cumulative_noise(y: Floats) -> Floats:
    """Return the std of the noise in the series up to each step, float64 (S,).

    Many series become noisier as they grow, and later noise must not hide an early onset. The
    estimate never exceeds the noise of the whole series.
    """
    ends = np.unique(
        np.linspace(min(MIN_NOISE_STEPS, len(y)), len(y), MAX_CORNERS).astype(int)
    )
    levels = np.minimum([jump_noise(y[:end]) for end in ends], jump_noise(y))
    return np.interp(np.arange(1, len(y) + 1), ends, levels)


def _first_lasting(flags: NDArray[np.bool_]) -> int:
    false = np.flatnonzero(~flags)
    return min(int(false[-1]) + 1 if len(false) else 0, len(flags) - 1)


def _corner(y: Floats, start: int) -> int:
    """Fit a flat, a sloped and a flat line; return where (>= start - 1) the slope starts."""
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
    explained = (x * y).sum(axis=1) ** 2 / np.maximum((x * x).sum(axis=1), 1e-12)
    # Among equal fits, take the first.
    return int(low[np.argmax(significant(explained))])
