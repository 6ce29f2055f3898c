"""Standard errors of means over responses, and of their changes between windows.

Responses to one prompt, and responses of one step, are correlated. The error is therefore estimated
from responses (clustered by prompt) and from step means; the larger one is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.check.windows import Trend, Window
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import Tables

MIN_CLUSTERS = 10
"""With fewer prompts a cluster-robust variance is itself mostly noise."""

MAX_CORRELATION = 0.9
"""Upper bound of the estimated autocorrelation of steps."""

BIAS = 6
"""A trend inflates the estimated autocorrelation by this over the number of differences."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over a window's responses, its z against zero, and the number of responses."""

    mean: float
    z: float
    responses: int


@dataclass(frozen=True, slots=True)
class Change:
    """The means of two windows and the z of their difference; NaN for a window without values.

    The change is significant if |z| reaches ``least``.
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
        """Whether the mean rose by more than chance."""
        return self.z >= self.least

    @property
    def fell(self) -> bool:
        """Whether the mean fell by more than chance."""
        return self.z <= -self.least


@dataclass(frozen=True, slots=True)
class _Part:
    """The finite values of a window; contributions are weight * (value - mean) / sum of weights."""

    mean: float
    contributions: Floats
    prompts: NDArray[np.int64]
    steps: NDArray[np.int64]


def mean_of(tables: Tables, values: Floats, window: Window, weights: Floats | None = None) -> Mean:
    """Return the mean of per-response values, float64 (rows,), in a window, and its z against zero.

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
    """Return the change of the mean of per-response values from one window to another.

    Errors are clustered by prompt, so prompts that occur in both windows make this a paired
    comparison.
    """
    before = _part(tables, values, first, weights)
    after = _part(tables, values, last, weights)
    if not len(before.contributions) or not len(after.contributions):
        return Change(before.mean, after.mean, np.nan)
    z = _z(tables, values, weights, after.mean - before.mean, [before, after])
    return Change(before.mean, after.mean, z, least)


def _part(tables: Tables, values: Floats, window: Window, weights: Floats | None) -> _Part:
    selected = values[window.rows]
    scale = np.ones_like(selected) if weights is None else weights[window.rows]
    finite = np.isfinite(selected) & np.isfinite(scale) & (scale > 0)
    selected, scale = selected[finite], scale[finite]
    total = scale.sum()
    mean = float((scale * selected).sum() / total) if len(selected) else np.nan
    contributions = scale * (selected - mean) / total if len(selected) else selected
    prompts = tables.responses["prompt_id"].to_numpy()[window.rows][finite]
    steps = tables.responses["step"].to_numpy()[window.rows][finite]
    return _Part(mean, contributions, prompts, steps)


def _z(
    tables: Tables, values: Floats, weights: Floats | None, difference: float, parts: list[_Part]
) -> float:
    """Return the difference in standard errors, using the larger of the two estimates."""
    if difference == 0:
        return 0.0
    error = max(_response_error(parts), abs(difference) * 1e-12, np.finfo(float).tiny)
    z = abs(difference) / error
    noise, freedom = _step_noise(tables, values, weights, parts)
    if freedom >= 1:
        z = min(z, abs(deviate(difference, noise, freedom)))
    return float(np.copysign(z, difference))


def _response_error(parts: list[_Part]) -> float:
    prompts = np.concatenate([part.prompts for part in parts])
    signs = (-1.0, 1.0)[-len(parts) :]
    signed = np.concatenate([s * p.contributions for s, p in zip(signs, parts, strict=True)])
    _, cluster = np.unique(prompts, return_inverse=True)
    clusters = int(cluster.max()) + 1
    if clusters < MIN_CLUSTERS:
        cluster, clusters = np.arange(len(signed)), len(signed)
    sums = np.bincount(cluster, signed, minlength=clusters)
    return float(np.sqrt((sums**2).sum() * clusters / max(clusters - 1, 1)))


def _step_noise(
    tables: Tables, values: Floats, weights: Floats | None, parts: list[_Part]
) -> tuple[float, float]:
    """Return the standard error estimated from step means, and its degrees of freedom.

    It is the larger of two estimates: the scatter of step means inside the windows, which a
    trend increases, and successive differences over the run (von Neumann 1941), which a trend
    hardly changes.
    """
    variance = 0.0
    for part in parts:
        _, step = np.unique(part.steps, return_inverse=True)
        sums = np.bincount(step, part.contributions)
        if len(sums) > 1:
            variance += float((sums**2).sum()) * len(sums) / (len(sums) - 1)
    steps, place = np.unique(tables.responses["step"].to_numpy(), return_inverse=True)
    means = means_by(place, len(steps), values, weights)
    steps, means = steps[~np.isnan(means)], means[~np.isnan(means)]
    if len(means) < 3:
        return np.sqrt(variance), len(means) - 1
    jumps = np.diff(means)
    # A trend may turn at its peak, in the middle of the window that the last is compared with.
    peak = int(np.searchsorted(steps, np.median(parts[0].steps)))
    turns = len(parts) == 2 and parts[0].steps[0] > steps[0] and 0 < peak < len(jumps)
    sides = np.split(jumps, [peak] if turns else [])
    jumps = np.concatenate([side - side.mean() for side in sides])
    rho = float(np.clip(1 + 2 * lag_1(jumps) - BIAS / len(jumps), 0, MAX_CORRELATION))
    sizes = [len(np.unique(part.steps)) for part in parts]
    between = float((jumps**2).mean()) / 2 / (1 - rho)
    between *= sum(ar1_variance(rho, size) / size for size in sizes)
    return float(np.sqrt(max(variance, between))), 2 * (len(means) - 1) / 3


def lag_1(differences: Floats) -> float:
    """Return the lag-1 autocorrelation of differences, −0.5 (white noise) if all are zero."""
    variance = float((differences**2).mean())
    products = differences[1:] * differences[:-1]
    return float(products.mean()) / variance if variance > 0 else -0.5


def ar1_variance(rho: float, steps: int) -> float:
    """Return the variance of a mean of AR(1) values, relative to that of independent ones."""
    lag = np.arange(1, steps)
    return 1 + 2 * float(((1 - lag / steps) * rho**lag).sum())


def means_by(group: Ints, size: int, values: Floats, weights: Floats | None = None) -> Floats:
    """Return the mean of the values of each group, float64 (size,), NaN for empty groups.

    ``group`` is int64 and ``values`` float64, of one shape. Values that are not finite, or have
    no positive weight, do not count.
    """
    scale = np.ones_like(values) if weights is None else weights
    valid = np.isfinite(values) & np.isfinite(scale) & (scale > 0)
    total = np.bincount(group[valid], scale[valid], minlength=size)
    sums = np.bincount(group[valid], scale[valid] * values[valid], minlength=size)
    means: Floats = np.divide(sums, total, out=np.full(size, np.nan), where=total > 0)
    return means


def deviate(difference: float, error: float, freedom: float) -> float:
    """Return the normal deviate as unlikely as Student's t = difference / error (Wallace 1959)."""
    t = abs(difference) / max(error, abs(difference) * 1e-12, np.finfo(float).tiny)
    shrink = (8 * freedom + 1) / (8 * freedom + 3)
    return float(np.copysign(shrink * np.sqrt(freedom * np.log1p(t * t / freedom)), difference))


def correlation_within(
    tables: Tables, x: Floats, y: Floats, window: Window, column: str = "step"
) -> tuple[float, float]:
    """Return the correlation of x and y inside steps, pooled over a window, and its z.

    Both are centred on the mean of their step (or group, if that is ``column``), so a shared
    trend over steps has no effect. z is Fisher's: atanh(r) times the square root of the degrees
    of freedom minus one. NaN if either does not vary.
    """
    step = tables.responses[column].to_numpy()[window.rows]
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
    """Return the values minus the mean of their step; ``step`` may be any int64 label."""
    _, code = np.unique(step, return_inverse=True)
    counts = np.bincount(code)
    means = np.bincount(code, values) / np.maximum(counts, 1)
    return np.asarray(values - means[code], dtype=np.float64)
