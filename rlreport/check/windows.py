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
        """The first and the last step, None for a window without steps."""
        return (self.steps[0], self.steps[-1]) if self.steps else None


class Change(NamedTuple):
    """Means of a number in two windows, NaN without values, and the z of their difference."""

    first: float
    last: float
    z: float
    least: float = Trend.z.default  # least |z| of a significant difference

    @property
    def difference(self) -> float:
        """The last mean minus the first."""
        return change(self.first, self.last)

    @property
    def largest_loss(self) -> float:
        """The upper bound of ``first - last``, ``least`` standard errors above it; NaN unknown."""
        # As z is the difference over its standard error. Both are 0 for equal means.
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
    """Return the (weighted) mean of a window's values, and what its standard error needs.

    Args:
        tables: the tables of the responses.
        values: one number per response, float64 (rows,); what is not finite is left out.
        window: the steps whose responses count.
        weights: the weight of each response, float64 (rows,), by default 1; those of weight 0 are
            left out.
    """
    in_window = values[window.rows]
    weight = np.ones_like(in_window) if weights is None else weights[window.rows]
    valid = _valid_mask(in_window, weight)
    in_window = in_window[valid]
    weight = weight[valid]
    total = weight.sum()
    mean = np.nan
    contributions = in_window  # empty if the window has no value
    if len(in_window):
        parts = weight * in_window
        # Parts of both signs that cancel leave a rounding error, which counts as 0.
        sum_of_parts = beyond_rounding(parts.sum(), np.abs(parts).sum())
        mean = float(sum_of_parts / total)
        contributions = weight * difference(in_window, mean) / total
    prompts = tables.responses["prompt_id"].to_numpy(np.int64)
    steps = tables.responses["step"].to_numpy(np.int64)
    return WindowPart(
        mean=rounded(mean),
        contributions=contributions,
        prompts=prompts[window.rows][valid],
        steps=steps[window.rows][valid],
    )


def _valid_mask(values: Floats, weights: Floats) -> NDArray[np.bool_]:
    """Return which values count: those that are finite and have a weight above 0."""
    return np.isfinite(values) & np.isfinite(weights) & (weights > 0)


def z_of(
    tables: Tables | None,
    values: Floats,
    weights: Floats | None,
    parts: list[WindowPart],
) -> float:
    """Return the z of the mean of one part, or of the second mean minus the first; NaN if unknown.

    It is the smaller |z| of two tests: by responses and, with ``tables``, by step means.

    Args:
        tables: the tables of the responses, None to test by responses only.
        values: one number per response of the run, float64 (rows,).
        weights: the weight of each response, float64 (rows,); by default 1.
        parts: one part, or the parts of the earlier and of the later window.
    """
    compared = parts[0].mean if len(parts) == 2 else 0.0
    moved = change(compared, parts[-1].mean)
    if moved == 0 or np.isnan(moved):
        return moved  # which then is the z, too
    # Values without any scatter have an error of 0: z stays finite.
    z = abs(moved) / max(_response_error(parts), abs(moved) * 1e-12, TINY)
    if tables is not None:
        error, freedom = _step_noise(tables, values, weights, parts)
        if freedom >= 1:  # fewer steps do not tell their noise
            z = min(z, abs(deviate(moved, error, freedom)))
    return rounded(np.copysign(z, moved))


def _response_error(parts: list[WindowPart]) -> float:
    """Return the standard error of a mean or of a difference of means, from its responses.

    It is the root of the sum of squared contributions, those of a prompt added up first: so a
    prompt in both windows is compared with itself. With fewer than MIN_CLUSTERS prompts, each
    response stands for itself. See ``z_of`` for ``parts``.
    """
    contributions = [part.contributions for part in parts]
    if len(parts) == 2:
        contributions[0] = -contributions[0]  # the earlier mean is subtracted
    signed = np.concatenate(contributions)
    prompts = np.concatenate([part.prompts for part in parts])
    _, cluster = np.unique(prompts, return_inverse=True)
    clusters = int(cluster.max()) + 1
    if clusters < MIN_CLUSTERS:
        cluster = np.arange(len(signed))
        clusters = len(signed)
    sums = np.bincount(cluster, signed, minlength=clusters)
    variance = (sums**2).sum() * clusters / max(clusters - 1, 1)
    return float(np.sqrt(variance))


def _step_noise(
    tables: Tables, values: Floats, weights: Floats | None, parts: list[WindowPart]
) -> tuple[float, float]:
    """Return the standard error by the noise of step means, and its degrees of freedom.

    The noise is what straight pieces leave over of the curve of step means, so a trend is none.
    Both are 0 for fewer than LEAST_STEPS steps. See ``z_of`` for the arguments.
    """
    steps, step_index = np.unique(
        tables.responses["step"].to_numpy(), return_inverse=True
    )
    means = means_by(step_index, len(steps), values, weights)
    prepared = prepare(steps, means, errors=None, kind=Kind.SERIES)
    if len(prepared) < LEAST_STEPS:
        return 0.0, 0.0
    noise = fit_pieces(prepared, coarse=True).noise
    variance = 0.0
    for part in parts:
        bounds = (part.steps.min(), part.steps.max() + 1)
        start, stop = np.searchsorted(prepared.steps, bounds).tolist()
        if start < stop:
            variance += noise.of_mean(start, stop) ** 2
    # The noise of the fit is in its own units.
    return prepared.scale * math.sqrt(variance), noise.freedom


def means_by(
    group: Ints, size: int, values: Floats, weights: Floats | None = None
) -> Floats:
    """Return the (weighted) mean of the finite values of each group, float64 (size,).

    It is rounded to 10 significant digits, and NaN for a group without values.

    Args:
        group: index of each value's group, from 0 to ``size`` - 1.
        size: the number of groups.
        values: float64, as many as ``group`` has.
        weights: the weight of each value, by default 1; those of weight 0 are left out.
    """
    weight = np.ones_like(values) if weights is None else weights
    valid = _valid_mask(values, weight)
    group = group[valid]
    weight = weight[valid]
    total = np.bincount(group, weight, minlength=size)
    parts = weight * values[valid]
    # Parts of both signs that cancel leave a rounding error, which counts as 0.
    sums = beyond_rounding(
        np.bincount(group, parts, minlength=size),
        np.bincount(group, np.abs(parts), minlength=size),
    )
    unknown = np.full(size, np.nan)
    means: Floats = np.divide(sums, total, out=unknown, where=total > 0)
    return significant(means)


def correlation_within(
    tables: Tables, x: Floats, y: Floats, window: Window, column: str = "step"
) -> tuple[float, float]:
    """Return the correlation of x and y within steps, pooled over a window, and its z.

    x and y are centred on the mean of their step, or of another ``column`` such as "group", so a
    trend over steps has no effect. z is Fisher's: atanh(r) times the square root of the degrees
    of freedom minus one. Both are NaN if x or y does not vary or values are too few.
    """
    label = tables.responses[column].to_numpy()[window.rows]
    x = x[window.rows]
    y = y[window.rows]
    finite = np.isfinite(x) & np.isfinite(y)
    label = label[finite]
    x = centred(x[finite], label)
    y = centred(y[finite], label)
    squares_of_x = (x**2).sum()
    squares_of_y = (y**2).sum()
    scale = float(np.sqrt(squares_of_x * squares_of_y))
    # The mean of each label takes one degree of freedom.
    freedom = len(x) - len(np.unique(label)) - 2
    if scale < 1e-12 or freedom < 1:
        return np.nan, np.nan
    r = rounded((x * y).sum() / scale)
    below_one = np.clip(r, -0.999999, 0.999999)  # the arctanh of 1 is infinite
    return r, rounded(np.arctanh(below_one) * np.sqrt(freedom))


def centred(values: Floats, step: Ints) -> Floats:
    """Return each value minus the mean of its step; ``step`` may be any int64 group label."""
    return centred_by(values, group_index(step))


def group_index(label: Ints) -> Ints:
    """Return the index of each label among the distinct ones, from 0, int64 (rows,)."""
    _, index = np.unique(label, return_inverse=True)
    return index


def centred_by(values: Floats, index: Ints) -> Floats:
    """Return each value minus the mean of its group, given the index of the group, from 0."""
    means = np.bincount(index, values) / np.maximum(np.bincount(index), 1)
    return np.asarray(values - means[index], dtype=np.float64)


def log_odds_z(
    after: Floats | int, of_after: int, before: Floats | int, of_before: int
) -> Floats:
    """Return the z of the log-odds ratio of each n-gram, with an informative Dirichlet prior.

    ``after`` and ``before`` count the responses that contain the n-gram, out of ``of_after`` and
    ``of_before`` responses. The prior is the n-gram's share of both together, with the weight of
    ``PRIOR`` responses. Monroe, Colaresi, Quinn 2008, "Fightin' Words", equations 15, 19 and 22.
    Of n-grams that most responses contain on both sides, it is too large: see ``share_z``.
    """
    # Of both together; half a response more, as the share of an n-gram must not be 0 or 1
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    with_after = after + prior
    with_before = before + prior
    without_after = of_after + PRIOR - after - prior
    without_before = of_before + PRIOR - before - prior
    odds = np.log(with_after / without_after)
    odds -= np.log(with_before / without_before)
    error = np.sqrt(1 / with_after + 1 / with_before)
    return significant(odds / error)


def share_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the difference of two shares, with their pooled variance.

    Arguments are those of ``log_odds_z``.
    """
    # Of both together; half a response more, as an error of 0 cannot be divided by
    share = (after + before + 0.5) / (of_after + of_before + 1)
    error = np.sqrt(share * (1 - share) * (1 / of_after + 1 / of_before))
    rise = difference(after / of_after, before / of_before)
    return significant(rise / error)
