"""Series of a run's quantities, such as the reward and the KL: logged by step or by response."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check import means
from rlreport.check.course import course_of
from rlreport.check.course_data import Course, Quantity, SeriesSource
from rlreport.check.limits import Limit, Op
from rlreport.check.noise import Change
from rlreport.check.run import Run, has, once_per_run
from rlreport.check.series import MIN_STEPS, RewardCollapse, Series, Shape, shape_of
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import in_unit_of


@dataclass(frozen=True, slots=True)
class LimitedFigure:
    """A figure and its limit: if ``end op limit`` holds, there is a problem."""

    limit: Limit[float]
    op: Op
    series: Floats  # by step, float64 (S,)
    end: float  # its value in the last window
    source: SeriesSource = "rollouts"


def series_of(run: Run, role: str, least: int = 0) -> Series | None:
    """Return the trainer's metric of a role, without the steps at which it has no value.

    Args:
        run: the run; without a metric of this role, the result is None.
        role: such as "kl"; see ``metrics.roles``, which also converts it to the role's unit.
        least: with fewer values, the result is None.
    """
    name = run.roles.get(role)
    if name is None:
        return None
    metrics = run.tables.metrics
    values = in_unit_of(role, name, metrics[name].to_numpy(np.float64))
    steps = metrics["step"].to_numpy(np.int64)
    series = Series(steps, values, None, "metrics", name).without_gaps()
    return series if len(series.steps) >= least else None


def series_by_step(run: Run, column: str) -> Series:
    """Return the mean of a response column at each step, with its standard error."""
    values = run.column(column)
    steps = run.step_index[np.isfinite(values)]
    counts = np.bincount(steps, minlength=len(run.steps))
    known_counts = np.where(counts > 0, counts, np.nan)
    errors = means.spread(run, column) / np.sqrt(known_counts)
    return Series(run.steps, run.by_step(values), errors)


def covers(run: Run, series: Series) -> bool:
    """Return whether a metric has half of the run's steps, or without rollouts MIN_STEPS."""
    enough = run.responses.empty and len(series.steps) >= MIN_STEPS
    often = 2 * len(series.steps) >= len(run.steps)
    return enough or (often and not run.tables.metrics_apart)


def leading_series(run: Run, role: str, column: str) -> Series | None:
    """Return the trainer's metric or, if it does not cover the run, a logged column's mean.

    Without the column, the metric need not cover the run. None without either.
    """
    metric = series_of(run, role)
    if metric is not None and (covers(run, metric) or not run.has(column)):
        return metric
    return series_by_step(run, column) if run.has(column) else None


def change_and_series(
    run: Run, column: str, role: str, weights: Floats | None = None
) -> tuple[Change, Series] | None:
    """Return the change and series of a column or, if it is missing, of the trainer's metric.

    Args:
        run: the run; with neither, the result is None.
        column: the column of responses.
        role: the role of the metric; with fewer than MIN_STEPS values, it does not count.
        weights: the weight of each response, float64 (rows,); by default 1.
    """
    if run.has(column):
        values = run.column(column)
        series = Series(run.steps, run.by_step(values, weights))
        return means.change(run, values, weights), series
    metric = series_of(run, role, MIN_STEPS)
    return None if metric is None else (metric.change(), metric)


def figure(
    run: Run,
    limit: Limit[float],
    column: str,
    weights: Floats | None = None,
    op: Op = ">",
) -> LimitedFigure:
    """Return a column's mean, or else the metric of the role of that name; NaN if neither.

    Args:
        run: the run.
        limit: what the figure is to be compared with.
        column: the column of responses, and the role of the metric.
        weights: the weight of each response, float64 (rows,); by default 1.
        op: how a figure that is a problem compares with the limit.
    """
    found = change_and_series(run, column, column, weights)
    if found is None:
        unknown = np.full(len(run.steps), np.nan)
        return LimitedFigure(limit, op, unknown, np.nan)
    change, series = found
    return LimitedFigure(limit, op, run.align(series), change.last, series.source)


@once_per_run
def reward(run: Run) -> Series:
    """Return the mean reward by step, see ``leading_series``; NaN without rewards."""
    leading = leading_series(run, "reward", "reward")
    return leading or series_by_step(run, "reward")


@once_per_run
def watched_reward(run: Run) -> Series | None:
    """Return a reward not trained on: ``valid_reward``, or that of validation, or None."""
    if run.has("valid_reward"):
        return series_by_step(run, "valid_reward")
    if run.validation is not None and has(run.validation.responses, "reward"):
        return series_by_step(Run(run.validation, run.limits), "reward")
    return series_of(run, "validation")


@once_per_run
def reward_shape(run: Run) -> Shape | None:
    """Return whether and when the reward rose, fell or died; None if the run is too short."""
    return shape_of(reward(run), run.limits[RewardCollapse])


@once_per_run
def watched_shape(run: Run) -> Shape | None:
    """Return whether and when ``watched_reward`` rose or fell; None without one or if too short."""
    series = watched_reward(run)
    if series is None:
        return None
    return shape_of(series, independent=not run.has("valid_reward"))


@once_per_run
def courses(run: Run) -> dict[Quantity, Course]:
    """Return quantity ("reward", "kl", ...) -> its course over the run, of those logged."""
    # The watched reward of training responses, or of validation responses
    in_training = run.has("valid_reward")
    watched = "valid_reward_mean" if in_training else "validation_reward_mean"
    length = run.length
    kl = leading_series(run, "kl", "kl_k1") or series_of(run, "kl_token")
    # Each series, and the column of its values unless it is a metric with a name
    logged: dict[Quantity, tuple[Series | None, str]] = {
        "reward": (leading_series(run, "reward", "reward"), "reward_mean"),
        "watched_reward": (watched_reward(run), watched),
        "kl": (kl, "kl_k1_mean"),
        "length": (leading_series(run, "length", length), f"{length}_mean"),
        "entropy": (
            leading_series(run, "entropy", "surprisal_mean"),
            "surprisal_mean",
        ),
    }
    found: dict[Quantity, Course] = {}
    for quantity, (series, column) in logged.items():
        if series is None:
            continue
        course = course_of(series, series.name or column, quantity)
        if course is not None:
            found[quantity] = course
    return found


def reward_windows(run: Run, quantity: Quantity = "reward") -> dict[str, float]:
    """Return {"start", "best", "end"}: means of the first, best and last window of a course."""
    course = courses(run)[quantity]
    return {
        "start": course.first.value,
        "best": course.best.value,
        "end": course.last.value,
    }
