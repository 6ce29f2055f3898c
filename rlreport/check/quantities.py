"""Series of a run's quantities, such as the reward and the KL: logged by step or by response."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlreport.check import means, parts
from rlreport.check.course import HELD_OUT, Course, Quantity, course_of
from rlreport.check.curve import Excursion
from rlreport.check.events import Event, EventKind
from rlreport.check.limits import Limit, LimitKind, Op
from rlreport.check.prepared import Kind
from rlreport.check.run import Run, has, once_per_run
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.summed_parts import summed_parts
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import in_unit_of
from rlreport.tables import ends_early


@dataclass(frozen=True, slots=True)
class LimitedFigure:
    """A figure by step and its limit: where ``figure op limit`` holds for long, it is a problem."""

    limit: Limit[float]
    op: Op
    series: Series
    # the figure of each response, float64 (rows,), if it is logged, and its unit
    of_rows: Floats | None = None
    unit: str = ""

    def excursion(self, run: Run) -> Excursion | None:
        """Return where the figure is beyond its limit for long, None if nowhere."""
        curve = self.series.curve
        if curve is None:
            return None
        bound = run.limits.value(self.limit)
        is_share = self.limit.kind is LimitKind.SHARE
        return curve.excursion(bound, self.op, is_share=is_share)

    def level(self, excursion: Excursion | None) -> float:
        """Return its level in the excursion or, without one, at the end; NaN without values."""
        if excursion is not None:
            return excursion.level
        curve = self.series.curve
        return curve.last.value if curve is not None else math.nan


# Roles whose metrics are positive and may span decades
SIZES = ("kl", "kl_token", "grad_norm")


# Roles whose metrics are shares, and so lie between 0 and 1...
SHARES = (
    "clip_fraction",
    "truncated",
    "zero_variance",
    "loops",
    "failed",
    "dropped",
    "turn_limit",
    "tool_errors",
)
# ... up to this error of rounding
SHARE_ERROR = 1e-3


def is_no_share(values: Floats) -> NDArray[np.bool_]:
    """Return which values cannot be shares, bool (n,)."""
    return (values < -SHARE_ERROR) | (values > 1 + SHARE_ERROR)


def series_of(run: Run, role: str, least: int = 0) -> Series | None:
    """Return the trainer's metric of a role, without the steps at which it has no value.

    Args:
        run: the run; without a metric of this role, the result is None. Nor is one used that
            should be a share, but has a value that no share can have.
        role: such as "kl"; see ``metrics.roles``, which also converts it to the role's unit.
        least: with fewer values, the result is None.
    """
    name = run.roles.get(role)
    if name is None:
        return None
    metrics = run.tables.metrics
    values = in_unit_of(role, name, metrics[name].to_numpy(np.float64))
    if role in SHARES and is_no_share(values).any():
        return None
    steps = metrics["step"].to_numpy(np.int64)
    kind = Kind.EVALUATIONS if role == "validation" else Kind.SERIES
    if role in SIZES:
        kind = Kind.SIZE
    series = Series(steps, values, None, "metrics", name, kind).without_gaps()
    return series if len(series.steps) >= least else None


def series_by_step(
    run: Run, column: str, weights: Floats | None = None, kind: Kind = Kind.SERIES
) -> Series:
    """Return the (weighted) mean of a response column at each step, with its standard error."""
    series = means.series(run, run.column(column), weights)
    return replace(series, kind=kind)


def covers(run: Run, series: Series) -> bool:
    """Return whether a metric has half of the run's steps, or without rollouts MIN_STEPS.

    One that ends early does not, as after a crash that left the metrics of a checkpoint.
    """
    is_often = 2 * len(series.steps) >= len(run.steps)
    if run.responses.empty:
        return is_often or len(series.steps) >= MIN_STEPS
    end = int(series.steps.max(initial=-1))
    return is_often and not ends_early(end, run.steps) and not run.tables.metrics_apart


def leading_series(
    run: Run, role: str, column: str, weights: Floats | None = None
) -> Series | None:
    """Return the trainer's metric or, if it does not cover the run, a logged column's mean.

    Without the column, the metric need not cover the run. None without either.

    Args:
        run: the run.
        role: what the metric is.
        column: the column of responses.
        weights: the weight of each response in the column's mean, float64 (rows,); by default 1.
    """
    metric = series_of(run, role)
    if metric is not None and (covers(run, metric) or not run.has(column)):
        return metric
    if not run.has(column):
        return None
    kind = Kind.SIZE if role in SIZES else Kind.SERIES
    return series_by_step(run, column, weights, kind)


@once_per_run
def entropy(run: Run) -> Series | None:
    """Return the entropy per token: the trainer's, or the mean surprisal over all tokens.

    The mean is that of ``surprisal_mean`` in the table of steps. None if neither is logged.
    """
    weights = run.column("logp_tokens") if run.has("logp_tokens") else None
    return leading_series(run, "entropy", "surprisal_mean", weights)


def figure_of(run: Run, column: str, weights: Floats | None = None) -> Series | None:
    """Return a column's mean at each step or, if it is missing, the metric of the role so called.

    Args:
        run: the run; with neither, the result is None.
        column: the column of responses, and the role of the metric.
        weights: the weight of each response, float64 (rows,); by default 1.
    """
    if run.has(column):
        return series_by_step(run, column, weights)
    return series_of(run, column)


def mean_length(run: Run, series: Series) -> Floats | None:
    """Return the mean number of tokens of a response at the steps of a series, None if unknown."""
    if run.has("response_tokens"):
        lengths = series_by_step(run, "response_tokens")
    else:
        logged = series_of(run, "length")
        if logged is None:
            return None
        lengths = logged
    finite = np.isfinite(lengths.values) & (lengths.values > 0)
    if not finite.any():
        return None
    return np.interp(series.steps, lengths.steps[finite], lengths.values[finite])


@once_per_run
def reward(run: Run) -> Series:
    """Return the mean reward by step, see ``leading_series``; NaN without rewards."""
    leading = leading_series(run, "reward", "reward")
    return leading or series_by_step(run, "reward")


@once_per_run
def validation(run: Run) -> Series | None:
    """Return the trainer's evaluations, else the mean reward of validation responses, or None."""
    metric = series_of(run, "validation")
    if metric is not None:
        return metric
    if run.validation is None or not has(run.validation.responses, "reward"):
        return None
    part = Run(run.validation, run.limits)
    return series_by_step(part, "reward", kind=Kind.EVALUATIONS)


# Largest part of the responses of some steps that ``--score`` may have given no reward
MOST_UNSCORED = 0.05


@once_per_run
def second_reward(run: Run) -> Series | None:
    """Return ``valid_reward``, a reward of training responses that is not trained on, or None.

    It is None, too, where ``is_scored_in_part``.
    """
    if not run.has("valid_reward") or is_scored_in_part(run):
        return None
    return series_by_step(run, "valid_reward")


@once_per_run
def is_scored_in_part(run: Run) -> bool:
    """Return whether the user's function gave too many responses of some steps no reward.

    A function that fails often fails on the answers that are wrong, such as those without a box, so
    the mean of the others is too high. A logged second reward may be that of a random part.
    """
    if run.tables.rescoring is None or not len(run.steps):
        return False
    count = len(run.steps)
    is_missing = ~np.isfinite(run.column("valid_reward"))
    missing = np.bincount(run.step_index, is_missing, minlength=count)
    responses = np.bincount(run.step_index, minlength=count)
    window = np.ones(len(run.last.steps))  # as long as those that are compared
    of_window = np.convolve(responses, window, "valid")
    most = MOST_UNSCORED * of_window
    return bool((np.convolve(missing, window, "valid") > most).any())


def _summed_parts(run: Run) -> dict[str, Series]:
    """Return metric -> series of metrics that are parts as the reward is their weighted sum.

    They are searched where names tell fewer than two parts.
    """
    total = reward(run)
    named = parts.series_of_metrics(run)
    if total.source != "metrics" or len(named) > 1 or run.tables.reward_parts:
        return {}
    metrics = run.tables.metrics
    steps = metrics["step"].to_numpy(np.int64)
    found: dict[str, Series] = {}
    for metric in summed_parts(metrics, total, run.roles.values()):
        values = metrics[metric].to_numpy(np.float64)
        one = Series(steps, values, None, "metrics", metric)
        found[parts.part_name(metric) or metric] = one.without_gaps()
    return found


# Logged numbers may be near the largest float64; charts ask for parts outside of the checks.
@once_per_run
@np.errstate(over="ignore", invalid="ignore")
def reward_parts(run: Run) -> dict[str, Series]:
    """Return name -> series of the logged parts of the reward, those of rollouts first.

    Of a part that both log, it is the trainer's metric if that covers the run. A metric that is
    the whole reward under the name of its only part, or under one of its own, is none.
    """
    found = parts.series_of_rollouts(run)
    total = reward(run)
    metrics = parts.series_of_metrics(run) | _summed_parts(run)
    for name, metric in metrics.items():
        leads = covers(run, metric)
        if name not in found:
            # The only part that varies is a copy, too.
            may_be_copy = len(metrics) == 1 or parts.named_whole(name)
            leads = not (may_be_copy and parts.is_copy(metric, total))
        if leads:
            found[name] = metric
    return found


@once_per_run
def components(run: Run) -> dict[str, Series]:
    """Return the parts of the reward that should rise: no penalties, no copies of the reward."""
    total = reward(run)
    return {
        name: series
        for name, series in reward_parts(run).items()
        if parts.is_component(name) and not parts.is_copy(series, total)
    }


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part of the reward, under the name that the log gives it."""

    name: str
    series: Series


@once_per_run
def accuracy(run: Run) -> NamedPart | None:
    """Return the part of the reward that tells how many answers are right, None without.

    It stands in for validation where there is none, nor a second reward.
    """
    if validation(run) is not None or second_reward(run) is not None:
        return None
    right = []
    for name, series in components(run).items():
        varies = len(series.steps) > 1 and np.nanmax(series.values) > np.nanmin(
            series.values
        )
        is_alike = parts.is_copy(series, reward(run), parts.ALIKE)
        if parts.tells_right(name) and varies and not is_alike:
            right.append(NamedPart(name, series))
    return min(right, key=lambda part: len(part.name), default=None)


@once_per_run
def courses(run: Run) -> dict[Quantity, Course]:
    """Return quantity ("reward", "kl", ...) -> its course over the run, of those logged."""
    length = run.length
    kl = leading_series(run, "kl", "kl_k1") or series_of(run, "kl_token")
    right = accuracy(run)
    # Each series, and the column of its values unless it is a metric with a name
    logged: dict[Quantity, tuple[Series | None, str]] = {
        "reward": (leading_series(run, "reward", "reward"), "reward_mean"),
        "validation": (validation(run), "validation_reward_mean"),
        "second_reward": (second_reward(run), "valid_reward_mean"),
        "accuracy": (right.series, right.name) if right else (None, ""),
        "kl": (kl, "kl_k1_mean"),
        "length": (leading_series(run, "length", length), f"{length}_mean"),
        "entropy": (entropy(run), "surprisal_mean"),
    }
    found: dict[Quantity, Course] = {}
    for quantity, (series, column) in logged.items():
        if series is None:
            continue
        course = course_of(series, series.name or column, quantity)
        if course is not None:
            found[quantity] = course
    if right is not None and "accuracy" in found:
        found["accuracy"] = replace(found["accuracy"], name=right.name)
    return found


def reward_course(run: Run) -> Course | None:
    """Return the course of the reward, None if it has too few values to have one."""
    return _judged(courses(run).get("reward"))


def watched_course(run: Run) -> Course | None:
    """Return the course of a score that is not trained on, None without one or if too short.

    That is validation or, without it, the second reward.
    """
    for quantity in HELD_OUT:
        if quantity in courses(run):
            return _judged(courses(run)[quantity])
    return None


def _judged(course: Course | None) -> Course | None:
    """Return a course of which it can be said whether it changed, else None."""
    if course is None or course.curve.changed is None:
        return None
    return course


# A score is dead within this part of its scale above the worst value
DEAD_SHARE = 0.03


@once_per_run
def death(run: Run) -> Event | None:
    """Return that the reward, else a watched score, ends at its worst value and stays there.

    The worst value is 0, or the lowest of all steps (of all responses, if the series is theirs) if
    that is lower. A score that settles above it is not dead.
    """
    course = reward_course(run) or watched_course(run)
    dead = course.curve.event(EventKind.DEAD) if course is not None else None
    if course is None or dead is None or course.curve.fall is None:
        return None
    values = [0.0, float(course.values.min())]
    if course.source == "rollouts" and course.quantity == "reward":
        values.append(float(np.nanmin(run.column("reward"))))
    worst = min(values)
    scale = course.top.value - worst
    return dead if dead.level - worst <= DEAD_SHARE * scale else None


def levels_of(course: Course) -> dict[str, float]:
    """Return {"start", "best", "end"}: the first, best and last level of a course."""
    return {
        "start": course.first.value,
        "best": course.top.value,
        "end": course.last.value,
    }
