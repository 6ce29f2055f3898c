"""Compare means over the responses of two windows of steps, and test whether they differ.

Most findings compare the first and the last fifth of the steps. Responses to one prompt, and
responses of one step, are correlated. The standard error is therefore estimated twice, from
responses (clustered by prompt) and from the noise of the curve of step means, and the larger
estimate is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.fit import deviate, fit_pieces
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.prepared import Kind, prepare
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import (
    beyond_rounding,
    change,
    difference,
    rounded,
    significant,
)
from rlreport.summarise.steps import LEAST_WINDOW, WINDOW_SHARE
from rlreport.tables import Tables

# Minimum number of prompts for standard errors clustered by prompt; with fewer they are noise
MIN_CLUSTERS = 10
# Fewest steps from which the noise of step means is estimated
LEAST_STEPS = 3
# Weight of the Dirichlet prior in ``log_odds_z``: it counts as much as this many responses
PRIOR = 20.0

TINY = float(np.finfo(float).tiny)


class Trend(Limits):
    """Thresholds that checks share: window sizes, the shortest run judged, and the minimum z."""

    share = Limit(
        WINDOW_SHARE,
        LimitKind.SHARE,
        "of steps",
        "size of the first and of the last window",
    )
    least_steps = Limit(
        LEAST_WINDOW, LimitKind.COUNT, "steps", "least size of a window"
    )
    shortest_run = Limit(
        5, LimitKind.COUNT, "steps", "runs with fewer steps are not judged"
    )
    z = Limit(
        3.0,
        LimitKind.ERRORS,
        "std errors",
        "least significance of a difference of means",
    )


class Window(NamedTuple):
    """A range of consecutive steps: their numbers, and the rows of their responses."""

    steps: tuple[int, ...]
    rows: slice

    @property
    def span(self) -> tuple[int, int] | None:
        return (self.steps[0], self.steps[-1]) if self.steps else None


class Change(NamedTuple):
    """Means of a number in two windows, NaN without values, and the z of their difference."""

    first: float
    last: float
    z: float
    least: float = Trend.z.default  # least |z| of a significant difference

    @property
    def difference(self) -> float:
        return change(self.first, self.last)

    @property
    def largest_loss(self) -> float:
        """The upper bound of ``first - last``, ``least`` standard errors above it; NaN unknown."""
        error = abs(self.difference / self.z) if self.z else 0.0
        return self.least * error - self.difference

    @property
    def rose(self) -> bool:
        return self.z >= self.least

    @property
    def fell(self) -> bool:
        return self.z <= -self.least


class WindowPart(NamedTuple):
    """The (weighted) mean of a window's finite values, and the prompt and step of each value."""

    mean: float
    contributions: Floats  # of each value: weight * (value - mean) / sum of weights
    prompts: Ints
    steps: Ints


def part_of(
    tables: Tables, values: Floats, window: Window, weights: Floats | None
) -> WindowPart:
    selected = values[window.rows]
    scale = np.ones_like(selected) if weights is None else weights[window.rows]
    valid = _valid_mask(selected, scale)
    selected = selected[valid]
    scale = scale[valid]
    total = scale.sum()
    parts = scale * selected
    mean = (
        float(beyond_rounding(parts.sum(), np.abs(parts).sum()) / total)
        if len(parts)
        else np.nan
    )
    labels = tables.responses[["prompt_id", "step"]].iloc[window.rows][valid]
    contributions = selected
    if len(selected):
        contributions = scale * difference(selected, mean) / total
    return WindowPart(
        mean=rounded(mean),
        contributions=contributions,
        prompts=labels["prompt_id"].to_numpy(np.int64),
        steps=labels["step"].to_numpy(np.int64),
    )


def _valid_mask(values: Floats, weights: Floats) -> NDArray[np.bool_]:
    return np.isfinite(values) & np.isfinite(weights) & (weights > 0)


def z_of(
    tables: Tables | None,
    values: Floats,
    weights: Floats | None,
    parts: list[WindowPart],
) -> float:
    """Return the z of the mean of one part, or of the second mean minus the first; NaN if unknown.

    It is the smaller |z| of two tests: by responses and, with ``tables``, by step means.
    """
    moved = change(parts[0].mean if len(parts) == 2 else 0.0, parts[-1].mean)
    if moved == 0 or np.isnan(moved):
        return moved
    z = abs(moved) / max(_response_error(parts), abs(moved) * 1e-12, TINY)
    if tables is not None:
        error, freedom = _step_noise(tables, values, weights, parts)
        if freedom >= 1:
            z = min(z, abs(deviate(moved, error, freedom)))
    return rounded(np.copysign(z, moved))


def _response_error(parts: list[WindowPart]) -> float:
    """Return the standard error of ``z_of``, clustered by prompt if there are MIN_CLUSTERS."""
    contributions = [part.contributions for part in parts]
    contributions[0] = contributions[0] * (-1 if len(parts) == 2 else 1)
    signed = np.concatenate(contributions)
    _, cluster = np.unique(
        np.concatenate([p.prompts for p in parts]), return_inverse=True
    )
    clusters = int(cluster.max()) + 1
    if clusters < MIN_CLUSTERS:
        cluster = np.arange(len(signed))
        clusters = len(signed)
    sums = np.bincount(cluster, signed, minlength=clusters)
    return float(np.sqrt((sums**2).sum() * clusters / max(clusters - 1, 1)))


def _step_noise(
    tables: Tables, values: Floats, weights: Floats | None, parts: list[WindowPart]
) -> tuple[float, float]:
    """Return the standard error by the noise of step means, and its degrees of freedom."""
    steps, step_index = np.unique(
        tables.responses["step"].to_numpy(), return_inverse=True
    )
    means = means_by(step_index, len(steps), values, weights)
    prepared = prepare(steps, means, None, Kind.SERIES)
    if len(prepared) < LEAST_STEPS:
        return 0.0, 0.0
    noise = fit_pieces(prepared, coarse=True).noise
    variance = 0.0
    for part in parts:
        start, stop = np.searchsorted(
            prepared.steps, (part.steps.min(), part.steps.max() + 1)
        ).tolist()
        if start < stop:
            variance += noise.of_mean(start, stop) ** 2
    return prepared.scale * math.sqrt(variance), noise.freedom


def means_by(
    group: Ints, size: int, values: Floats, weights: Floats | None = None
) -> Floats:
    """Return the (weighted) mean of finite values by index ``group``, (size,), NaN without any.

    It is rounded to 10 significant digits.
    """
    scale = np.ones_like(values) if weights is None else weights
    valid = _valid_mask(values, scale)
    total = np.bincount(group[valid], scale[valid], minlength=size)
    parts = scale[valid] * values[valid]
    sums = beyond_rounding(
        np.bincount(group[valid], parts, minlength=size),
        np.bincount(group[valid], np.abs(parts), minlength=size),
    )
    means: Floats = np.divide(sums, total, out=np.full(size, np.nan), where=total > 0)
    return significant(means)


def correlation_within(
    tables: Tables, x: Floats, y: Floats, window: Window, column: str = "step"
) -> tuple[float, float]:
    """Return the correlation of x and y within steps, pooled over a window, and its z.

    x and y are centred on the mean of their step, or of another ``column`` such as "group", so a
    trend over steps has no effect. z is Fisher's: atanh(r) times the square root of the degrees
    of freedom minus one. Both are NaN if x or y does not vary or values are too few.
    """
    step = tables.responses[column].to_numpy()[window.rows]
    x = x[window.rows]
    y = y[window.rows]
    finite = np.isfinite(x) & np.isfinite(y)
    x = centred(x[finite], step[finite])
    y = centred(y[finite], step[finite])
    scale = float(np.sqrt((x**2).sum() * (y**2).sum()))
    freedom = len(x) - len(np.unique(step[finite])) - 2
    if scale < 1e-12 or freedom < 1:
        return np.nan, np.nan
    r = rounded((x * y).sum() / scale)
    return r, rounded(np.arctanh(np.clip(r, -0.999999, 0.999999)) * np.sqrt(freedom))


def centred(values: Floats, step: Ints) -> Floats:
    """Return each value minus the mean of its step; ``step`` may be any int64 group label."""
    _, code = np.unique(step, return_inverse=True)
    means = np.bincount(code, values) / np.maximum(np.bincount(code), 1)
    return np.asarray(values - means[code], dtype=np.float64)


def log_odds_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the log-odds ratio of each n-gram, with an informative Dirichlet prior.

    ``after`` and ``before`` count the responses that contain the n-gram, out of ``of_after`` and
    ``of_before`` responses. The prior is the n-gram's share of both together, with the weight of
    ``PRIOR`` responses. Monroe, Colaresi, Quinn 2008, "Fightin' Words", equations 15, 19 and 22.
    Of n-grams that most responses contain on both sides, it is too large: see ``share_z``.
    """
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    odds = np.log((after + prior) / (of_after + PRIOR - after - prior))
    odds -= np.log((before + prior) / (of_before + PRIOR - before - prior))
    return significant(odds / np.sqrt(1 / (after + prior) + 1 / (before + prior)))


def share_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the difference of two shares, with their pooled variance."""
    share = (after + before + 0.5) / (of_after + of_before + 1)
    error = np.sqrt(share * (1 - share) * (1 / of_after + 1 / of_before))
    return significant(difference(after / of_after, before / of_before) / error)
