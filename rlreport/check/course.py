"""The course of a quantity over a run: its first, best and last window, and its phases.

All outputs print these numbers; ``Run.courses`` chooses the series from which they are computed.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from rlreport.check.finding import Course, Phase, PhaseKind, Quantity, WindowMean
from rlreport.check.series import Noise, Series, noise_of, running_mean
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change, rounded, settled, significant

# Window of evaluations and of other series: minimum number of values
MIN_EVALUATIONS, MIN_VALUES = 1, 3
MAX_WINDOW = 10  # maximum number of values in a window, which is a 20th of the values otherwise

# The last window differs from the first beyond noise if it is this many standard errors away
CLAIM_Z = 3.0
# The best window is better than another if it is above chance by this many standard errors
BEST_Z = 2.0

MAX_PHASES = 5
# A further phase has to reduce the squared residuals by this times ln(n) noise variances
PHASE_PRICE = 4.0
# A phase is flat if it changes by less than this many standard errors, or this part of the range
FLAT_Z, FLAT_SHARE = 3.0, 0.08
DEAD_SHARE = 0.03  # A dead phase lies within this part of the range above the lowest value
SPIKE_Z = 4.0  # Values further from the running median, in standard errors, are spikes
MAX_POINTS = 300  # Longer series are averaged to this many points to find phases


def window_size(count: int, minimum: int) -> int:
    """Return a 20th of ``count``, from ``minimum`` to 10, but at most a third; at least 1."""
    return min(max(minimum, min(MAX_WINDOW, int(count / 20 + 0.5))), max(1, count // 3))


def course_of(series: Series, column: str, quantity: Quantity = "reward") -> Course | None:  # noqa: PLR0914
    """Return the course of a series (of "kl", low is best), None if it has no values.

    By chance alone, the best of n / w windows of w values is √(2 ln(n / w)) standard errors better.
    ``gained`` and ``lost`` demand BEST_Z standard errors more. A loss of BEST_Z standard errors
    from the best end of a phase to the last end also sets ``lost``, except for "watched_reward".
    """
    series = series.without_gaps()
    y = series.values
    steps = series.steps
    if not len(y):
        return None
    # Evaluations repeat the same prompts and are far apart, so they are not autocorrelated.
    evaluated = quantity == "watched_reward"
    lower_is_better = quantity == "kl"
    size = window_size(len(y), MIN_EVALUATIONS if evaluated else MIN_VALUES)
    means = running_mean(y, size)
    best_index = int(np.argmin(means) if lower_is_better else np.argmax(means))

    def part(start: int) -> WindowMean:
        return WindowMean(float(means[start]), (int(steps[start]), int(steps[start + size - 1])))

    first = part(0)
    best = part(best_index)
    last = part(len(y) - size)
    noise = noise_of(series, independent=evaluated)
    error = noise.of_mean(size) * math.sqrt(2)
    luck = math.sqrt(2 * math.log(len(y) / size)) * error
    margin = BEST_Z * error + luck
    sign = -1 if lower_is_better else 1
    moved = change(first.value, last.value)
    is_score = not lower_is_better
    # A single value neither rises nor stays.
    phases = phases_of(steps, y, noise, size, is_score=is_score) if len(y) > 1 else ()
    # The ends of phases are means of many values, so the best of them is not best by luck.
    ends = [sign * end for phase in phases for end in (phase.start, phase.end)]
    fell = bool(ends) and not evaluated and max(ends) - ends[-1] > BEST_Z * error
    return Course(
        steps=steps,
        values=y,
        window=size,
        error=error,
        source=series.source,
        column=column,
        lower_is_better=lower_is_better,
        first=first,
        best=best,
        last=last,
        phases=phases,
        direction=int(np.sign(moved)) if abs(moved) > CLAIM_Z * error else 0,
        gained=sign * change(first.value, best.value) > margin,
        lost=sign * change(last.value, best.value) > margin or fell,
        slipped=sign * change(last.value, best.value)
        > (luck / math.sqrt(2) if evaluated else luck),
    )


def best_index(course: Course, onset: int) -> int:
    """Return the end index of the latest window near the best; before step ``onset`` if any."""
    means = running_mean(course.values, course.window)
    is_best = means >= course.best.value - course.error / math.sqrt(2)
    indices = np.flatnonzero(is_best) + course.window - 1
    before = indices[course.steps[indices] < onset]
    return int((before if len(before) else indices)[-1])


def phases_of(  # noqa: PLR0914
    steps: Ints, values: Floats, noise: Noise, window: int, *, is_score: bool = True
) -> tuple[Phase, ...]:
    """Cut a series without NaN into at most MAX_PHASES straight pieces of over ``window`` values.

    The pieces minimize the squared residuals of one line per piece, plus PHASE_PRICE · ln(n) noise
    variances for each further piece; equal neighbours are merged. Only a score has the kinds
    "recovery" (a rise after a fall) and "dead" (flat near the lowest value, after a fall).
    """
    size = -(-len(values) // MAX_POINTS)  # values averaged to one point
    starts = np.arange(0, len(values), size)
    points = significant(np.add.reduceat(values, starts) / np.diff(starts, append=len(values)))
    smooth = running_mean(points, min(MIN_VALUES, len(points)))
    low = float(smooth.min())
    span = float(np.ptp(smooth))
    if not 0 < span < np.inf:
        flat = rounded(points.mean())
        return (Phase("flat", (int(steps[0]), int(steps[-1])), flat, flat),)
    sigma = max(noise.of_mean(size), 1e-9 * span)
    shortest = max(2, -(-(window + 1) // size))
    # A spike of up to three points must not bend the lines: the running median replaces it.
    median = pd.Series(points).rolling(2 * MIN_VALUES + 1, center=True, min_periods=1).median()
    points = np.where(abs(points - median) > SPIKE_Z * sigma, median, points)
    cuts = _cuts((points - low) / sigma, shortest)
    phases: list[Phase] = []
    fallen = False
    for start, stop in pairwise(cuts):
        piece = points[start:stop]
        count = stop - start
        first, last = line_ends(piece)
        # A slope through n points has the variance 12 σ² / n³, its whole rise 12 σ² / n.
        error = sigma * math.sqrt(12 / count)
        if abs(last - first) < max(FLAT_Z * error, FLAT_SHARE * span):
            first = last = rounded(piece.mean())
        # Lines overshoot curves, so a drop between two pieces is one of the points themselves.
        before = points[max(start - MIN_VALUES, 0) : start].mean() if start else first
        drop = before - points[start : start + MIN_VALUES].mean()
        fallen = fallen or last < first or drop > max(FLAT_Z * sigma, FLAT_SHARE * span)
        kind: PhaseKind = "rise" if last > first else "fall" if last < first else "flat"
        if is_score and fallen and kind == "rise":
            kind = "recovery"
            fallen = False
        elif is_score and fallen and kind == "flat" and first - low < DEAD_SHARE * span:
            kind = "dead"
        until = int(steps[min(stop * size, len(steps)) - 1])
        phase = Phase(kind, (int(steps[starts[start]]), until), first, last)
        previous = phases[-1] if phases else None
        if previous and previous.kind == kind and (kind != "flat" or previous.end == first):
            phases[-1] = Phase(kind, (previous.steps[0], until), previous.start, last)
        else:
            phases.append(phase)
    return tuple(phases)


def line_ends(values: Floats) -> tuple[float, float]:
    """Return the first and the last value of the line with the least squared residuals."""
    count = len(values)
    x = np.arange(count) - (count - 1) / 2
    mean = float(values.mean())
    rise = float((x * (values - mean)).sum() / (x * x).sum()) * (count - 1) if count > 1 else 0.0
    rise = float(settled(rise, mean))
    return rounded(mean - rise / 2), rounded(mean + rise / 2)


def _cuts(points: Floats, shortest: int) -> list[int]:
    """Return the starts of the best pieces, then len(points), for points with noise of std 1."""
    count = len(points)
    residuals = _residuals(points)
    lengths = np.subtract.outer(np.arange(count + 1), np.arange(count + 1)).T
    residuals[lengths < shortest] = np.inf
    # costs[k][j]: squared residuals of the first j points, cut into k + 1 pieces at best
    costs = [residuals[0]]
    origins = []
    for _ in range(MAX_PHASES - 1):
        totals = costs[-1][:, None] + residuals
        origins.append(np.argmin(totals, axis=0))
        costs.append(totals.min(axis=0))
    prices = PHASE_PRICE * np.log(count) * np.arange(MAX_PHASES)
    cuts = [count]
    for origin in reversed(origins[: int(np.argmin([cost[count] for cost in costs] + prices))]):
        cuts.append(int(origin[cuts[-1]]))
    return [0, *reversed(cuts)]


def _residuals(points: Floats) -> Floats:
    """Return at [i, j] the sum of squared residuals of a line through points i to j - 1."""
    x = np.arange(len(points), dtype=np.float64)
    y = points - points.mean()

    def sums(values: Floats) -> Floats:
        ends = np.append(0.0, np.cumsum(values))
        return np.asarray(ends[None, :] - ends[:, None])

    count = np.maximum(sums(np.ones_like(x)), 1)
    sum_x = sums(x)
    sum_y = sums(y)
    var_x = sums(x * x) - sum_x**2 / count
    cov = sums(x * y) - sum_x * sum_y / count
    var_y = sums(y * y) - sum_y**2 / count
    explained = np.divide(cov**2, var_x, out=np.zeros_like(cov), where=var_x > 0.1)
    return np.maximum(var_y - explained, 0.0)
