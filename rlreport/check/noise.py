"""Standard errors of means over responses, and of their change between windows.

Responses to one prompt, and responses of one step, are correlated. The error is therefore
estimated from responses (clustered by prompt) and from step means; the larger one counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.check.windows import Trend, Window
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import Tables

FEWEST_CLUSTERS = 10
"""With fewer prompts a cluster-robust variance is itself mostly noise."""

STRONGEST_CORRELATION = 0.9
"""Largest autocorrelation of steps that is assumed."""

BIAS = 6
"""Over the number of differences: how much a trend inflates the estimated autocorrelation."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A window's mean over responses, and how many standard errors it lies from zero."""

    mean: float
    z: float
    responses: int


@dataclass(frozen=True, slots=True)
class Change:
    """Means of two windows and the z of last - first; NaN where a window has no values.

    It rose, or fell, where z reaches ``least``.
    """

    first: float
    last: float
    z: float
    least: float = Trend.z.default

    @property
    def difference(self) -> float:
        """Last - first."""
        return self.last - self.first

    @property
    def rose(self) -> bool:
        """Whether it rose by more than chance."""
        return self.z >= self.least

    @property
    def fell(self) -> bool:
        """Whether it fell by more than chance."""
        return self.z <= -self.least


@dataclass(frozen=True, slots=True)
class _Part:
    """Finite values of a window; contributions are weight * (value - mean) / sum of weights."""

    mean: float
    contributions: Floats
    prompts: NDArray[np.int64]
    steps: NDArray[np.int64]


def mean_of(tables: Tables, values: Floats, window: Window, weights: Floats | None = None) -> Mean:
    """Return the mean of per-response values, float64 (rows,), in a window and its z against zero.

    NaN is skipped; without weights, such as tokens, each response counts once.
    """
    part = _part(tables, values, window, weights)
    if not len(part.contributions):
        return Mean(np.nan, np.nan, 0)
    z = _z(tables, values, weights, part.mean, [part])
    return Mean(part.mean, z, len(part.contributions))


def change(
    tables: Tables,
    values: Floats,
    first: Window,
    last: Window,
    weights: Floats | None = None,
    least: float = Trend.z.default,
) -> Change:
    """Return how the mean of per-response values moved from one window to another.

    A prompt seen in both windows is compared with itself: clustering the difference by
    prompt makes this a paired comparison wherever prompts return.
    """
    before = _part(tables, values, first, weights)
    after = _part(tables, values, last, weights)
    if not len(before.contributions) or not len(after.contributions):
        return Change(before.mean, after.mean, np.nan)
    z = _z(tables, values, weights, after.mean - before.mean, [before, after])
    return Change(before.mean, after.mean, z, least)


def _part(tables: Tables, values: Floats, window: Window, weights: Floats | None) -> _Part:
    inside = values[window.rows]
    scale = np.ones_like(inside) if weights is None else weights[window.rows]
    finite = np.isfinite(inside) & np.isfinite(scale) & (scale > 0)
    inside, scale = inside[finite], scale[finite]
    total = scale.sum()
    mean = float((scale * inside).sum() / total) if len(inside) else np.nan
    contributions = scale * (inside - mean) / total if len(inside) else inside
    prompts = tables.responses["prompt_id"].to_numpy()[window.rows][finite]
    steps = tables.responses["step"].to_numpy()[window.rows][finite]
    return _Part(mean, contributions, prompts, steps)


def _z(
    tables: Tables, values: Floats, weights: Floats | None, difference: float, parts: list[_Part]
) -> float:
    """Return the difference in standard errors, by the more cautious of the two errors."""
    if difference == 0:
        return 0.0
    error = max(_response_error(parts), abs(difference) * 1e-12, np.finfo(float).tiny)
    likely = abs(difference) / error
    noise, freedom = _step_noise(tables, values, weights, parts)
    if freedom >= 1:
        likely = min(likely, abs(deviate(difference, noise, freedom)))
    return float(np.copysign(likely, difference))


def _response_error(parts: list[_Part]) -> float:
    prompts = np.concatenate([part.prompts for part in parts])
    signs = (-1.0, 1.0)[-len(parts) :]
    signed = np.concatenate([s * p.contributions for s, p in zip(signs, parts, strict=True)])
    _, cluster = np.unique(prompts, return_inverse=True)
    clusters = int(cluster.max()) + 1
    if clusters < FEWEST_CLUSTERS:
        cluster, clusters = np.arange(len(signed)), len(signed)
    sums = np.bincount(cluster, signed, minlength=clusters)
    return float(np.sqrt((sums**2).sum() * clusters / max(clusters - 1, 1)))


def _step_noise(
    tables: Tables, values: Floats, weights: Floats | None, parts: list[_Part]
) -> tuple[float, float]:
    """Return the standard error that step means imply, and its degrees of freedom.

    Two estimates, the larger counts: the scatter of step means inside the windows, which
    a trend inside them enlarges, and successive differences over the run (von Neumann
    1941), which see noise but hardly a trend.
    """
    inside = 0.0
    for part in parts:
        _, step = np.unique(part.steps, return_inverse=True)
        sums = np.bincount(step, part.contributions)
        if len(sums) > 1:
            inside += float((sums**2).sum()) * len(sums) / (len(sums) - 1)
    steps, place = np.unique(tables.responses["step"].to_numpy(), return_inverse=True)
    means = means_by(place, len(steps), values, weights)
    steps, means = steps[~np.isnan(means)], means[~np.isnan(means)]
    if len(means) < 3:
        return np.sqrt(inside), len(means) - 1
    jumps = np.diff(means)
    # A trend may turn at its peak, in the middle of the window that the last is compared with.
    peak = int(np.searchsorted(steps, np.median(parts[0].steps)))
    turns = len(parts) == 2 and parts[0].steps[0] > steps[0] and 0 < peak < len(jumps)
    sides = np.split(jumps, [peak] if turns else [])
    jumps = np.concatenate([side - side.mean() for side in sides])
    variance = float((jumps**2).mean())
    rho = float(np.clip(1 + 2 * lag_1(jumps) - BIAS / len(jumps), 0, STRONGEST_CORRELATION))
    sizes = [len(np.unique(part.steps)) for part in parts]
    between = variance / 2 / (1 - rho) * sum(ar1_variance(rho, size) / size for size in sizes)
    return float(np.sqrt(max(inside, between))), 2 * (len(means) - 1) / 3


def lag_1(values: Floats) -> float:
    """Return the lag-1 autocorrelation of differences; where none varies, that of white noise."""
    variance = float((values**2).mean())
    return float((values[1:] * values[:-1]).mean()) / variance if variance > 0 else -0.5


def ar1_variance(rho: float, steps: int) -> float:
    """Return the variance of a mean of AR(1) values, relative to that of independent ones."""
    lag = np.arange(1, steps)
    return 1 + 2 * float(((1 - lag / steps) * rho**lag).sum())


def means_by(place: Ints, size: int, values: Floats, weights: Floats | None = None) -> Floats:
    """Return the mean of the values at each place, float64 (size,), NaN without any.

    ``place`` is int64 and ``values`` float64, of one shape; what is not finite, or weighs
    nothing, does not count.
    """
    scale = np.ones_like(values) if weights is None else weights
    known = np.isfinite(values) & np.isfinite(scale) & (scale > 0)
    total = np.bincount(place[known], scale[known], minlength=size)
    of = np.bincount(place[known], scale[known] * values[known], minlength=size)
    means: Floats = np.divide(of, total, out=np.full(size, np.nan), where=total > 0)
    return means


def deviate(difference: float, error: float, freedom: float) -> float:
    """Return the normal deviate as rare as Student's t = difference / error (Wallace 1959)."""
    t = abs(difference) / max(error, abs(difference) * 1e-12, np.finfo(float).tiny)
    shrink = (8 * freedom + 1) / (8 * freedom + 3)
    return float(np.copysign(shrink * np.sqrt(freedom * np.log1p(t * t / freedom)), difference))


def correlation_inside(
    tables: Tables, x: Floats, y: Floats, window: Window, inside: str = "step"
) -> tuple[float, float]:
    """Return the correlation of x and y inside steps or groups, pooled over a window, and its z.

    Both are centred on the mean of their step, or group, so a trend over steps that they share
    counts for nothing. z is Fisher's: atanh(r) times the root of the degrees of freedom less one.
    NaN where either does not vary.
    """
    step = tables.responses[inside].to_numpy()[window.rows]
    x, y = x[window.rows], y[window.rows]
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = centred(x[finite], step[finite]), centred(y[finite], step[finite])
    scale = float(np.sqrt((x**2).sum() * (y**2).sum()))
    freedom = len(x) - len(np.unique(step[finite])) - 2
    if scale < 1e-12 or freedom < 1:
        return np.nan, np.nan
    r = float((x * y).sum() / scale)
    return r, float(np.arctanh(np.clip(r, -0.999999, 0.999999)) * np.sqrt(freedom))


def centred(values: Floats, step: NDArray[np.int64]) -> Floats:
    """Return values minus the mean of their step; ``step`` is any int64 label, same shape."""
    _, code = np.unique(step, return_inverse=True)
    counts = np.bincount(code)
    means = np.bincount(code, values) / np.maximum(counts, 1)
    return np.asarray(values - means[code], dtype=np.float64)
