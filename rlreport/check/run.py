"""Class ``Run``, which checks judge: tables of a run, first and last window of steps, series."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import noise
from rlreport.check.course import course_of
from rlreport.check.finding import (
    Course,
    Example,
    Limit,
    Limits,
    Met,
    Onset,
    Op,
    Quantity,
    SeriesSource,
    Thresholds,
    meets,
)
from rlreport.check.noise import Change, Trend, Window
from rlreport.check.series import MIN_STEPS, SOME_Z, RewardCollapse, Series, Shape, onset, shape_of
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import beyond_rounding, difference, rounded, significant
from rlreport.metrics.roles import in_unit_of, roles_of
from rlreport.summarise.steps import Environments, environments_of, window_size
from rlreport.tables import Tables, length_column
from rlreport.text.messages import message

T = TypeVar("T")

# Examples lie beyond this quantile of the responses before the onset, if these are so many
NORMAL, LEAST_NORMAL = 0.9, 10

MAX_EXAMPLES = 3  # Maximum number of example responses in the evidence of a finding

ROUNDING = 1e-6  # A share that differs from 1 by less than this, as by rounding to float32, is 1

MAX_RULE_VALUES = 8  # A reward with more distinct values is taken for that of a reward model


class Ranking(NamedTuple):
    """How to choose a finding's example responses: those with the highest (or lowest) ``by``.

    ``by``, float64 (rows,), is a figure of each response and ``unit`` its unit. ``token``, float64
    (rows,), is the index of the token to look at, NaN for none. ``among``, bool (rows,), selects
    those that fulfil what the finding claims: only they are examples, and only others are shown as
    earlier responses to the same prompt. Excerpts show the text ``look_for``, or the end if
    ``at_end``. If ``in_last_window``, the claim is one on the last steps, whenever it began.
    """

    by: Floats
    highest: bool = True
    unit: str = ""
    token: Floats | None = None
    among: NDArray[np.bool_] | None = None
    look_for: str = ""
    at_end: bool = False
    in_last_window: bool = False


@dataclass(frozen=True, slots=True)
class LimitedFigure:
    """A figure and its limit: if ``end op limit`` holds, there is a problem."""

    limit: Limit[float]
    op: Op
    series: Floats  # by step, float64 (S,)
    end: float  # its value in the last window
    source: SeriesSource = "rollouts"


class MixChanged(Limits):
    share = Limit(0.5, "of the fall", "part of a fall of the reward that the mix explains")
    rest = Limit(0.1, "of the fall", "largest fall at a constant mix, unless it may be chance")


class MixChange(NamedTuple):
    """The change Δ of the mean reward between two windows, split by environment.

    With s the share of an environment in the responses and m its mean reward,
    Δ = Σ m̄ Δs + Σ s̄ Δm, where a bar is the mean of both windows.
    """

    shares: Floats  # s, float64 (2, environments)
    means: Floats  # m, float64 (2, environments)
    mix: float  # Σ m̄ Δs, due to the mix of environments
    within: Floats  # s̄ Δm, due to the rewards within each, float64 (environments,)
    same_mix: Change  # change of the mean reward with both windows weighted to the same mix
    explains_fall: bool  # whether Δ < 0 is due to the mix: see ``MixChanged``

    @property
    def rest(self) -> float:
        return float(self.within.sum())


class RewardStalled(Limits):
    solved = Limit(
        0.95, "of responses", "share with the best reward, in every step: nothing left to learn"
    )


class Run:
    """The training responses and steps of a run or a part of it, and the thresholds of the checks.

    ``attempted_steps`` are the rows of the step table with a response or a failed rollout. For a
    run too short for a trend, the window ``first`` is None and ``last`` has all steps.
    """

    def __init__(
        self, tables: Tables, limits: Thresholds | None = None, validation: Tables | None = None
    ) -> None:
        self.tables = tables.training()
        self.validation = validation or tables.validation_tables()
        attempted = tables.steps["responses"] + tables.steps["failed_rollouts"] > 0
        self.attempted_steps = tables.steps[attempted]
        self.limits = limits or Thresholds()
        self.steps: Ints = self.tables.steps["step"].to_numpy(np.int64)  # (S,), ascending
        trend = self.limits[Trend]
        count = len(self.steps)
        size = window_size(count, trend.share, trend.least_steps)
        is_short = count < trend.shortest_run
        self.first = None if is_short else self.window(0, size)
        self.last = self.window(0 if is_short else count - size, count)
        self._computed: dict[Callable[[Run], Any], Any] = {}
        # Limit -> the largest value that was compared with it
        self.tested: dict[Limit[Any], Met] = {}

    @property
    def responses(self) -> pd.DataFrame:
        return self.tables.responses

    def once(self, compute: Callable[[Run], T]) -> T:
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return cast("T", self._computed[compute])

    def window(self, start: int, stop: int) -> Window:
        """Return the window of the steps with indices from ``start`` to ``stop`` (exclusive)."""
        first, last = np.searchsorted(self.step_index, (start, stop)).tolist()
        return Window(tuple(self.steps[start:stop].tolist()), slice(first, last))

    @cached_property
    def step_index(self) -> Ints:
        """Index of each response's step in ``steps``, int64 (rows,)."""
        return np.searchsorted(self.steps, self.responses["step"].to_numpy(np.int64))

    @property
    def last_index(self) -> int:
        return len(self.steps) - len(self.last.steps)

    def has(self, column: str) -> bool:
        return has(self.responses, column)

    def column(self, name: str) -> Floats:
        return self.responses[name].to_numpy(dtype=np.float64)

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Role ("kl") -> name of the trainer's metric ("actor/kl_loss"); see ``metrics.roles``."""
        return roles_of(str(name) for name in self.tables.metrics.columns[1:])

    def series_of(self, role: str, least: int = 0) -> Series | None:
        """Return the trainer's metric of a role without gaps, None below ``least`` values."""
        if (name := self.roles.get(role)) is None:
            return None
        metrics = self.tables.metrics
        values = in_unit_of(role, name, metrics[name].to_numpy(np.float64))
        steps = metrics["step"].to_numpy(np.int64)
        series = Series(steps, values, None, "metrics", name).without_gaps()
        return series if len(series.steps) >= least else None

    def series_by_step(self, column: str) -> Series:
        """Return the mean of a response column at each step, with its standard error."""
        values = self.column(column)
        counts = np.bincount(self.step_index[np.isfinite(values)], minlength=len(self.steps))
        errors = self.spread(column) / np.sqrt(np.where(counts > 0, counts, np.nan))
        return Series(self.steps, self.by_step(values), errors)

    def covers(self, series: Series) -> bool:
        """Return whether a metric has half of the run's steps, or without rollouts MIN_STEPS."""
        enough = self.responses.empty and len(series.steps) >= MIN_STEPS
        often = 2 * len(series.steps) >= len(self.steps)
        return enough or (often and not self.tables.metrics_apart)

    def leading_series(self, role: str, column: str) -> Series | None:
        """Return the trainer's metric or, if it does not cover the run, a logged column's mean."""
        metric = self.series_of(role)
        if metric is not None and (self.covers(metric) or not self.has(column)):
            return metric
        return self.series_by_step(column) if self.has(column) else None

    @cached_property
    def reward(self) -> Series:
        """Mean reward by step, see ``leading_series``; NaN without rewards."""
        return self.leading_series("reward", "reward") or self.series_by_step("reward")

    @cached_property
    def courses(self) -> dict[Quantity, Course]:
        """Quantity ("reward", "kl", ...) -> its course over the run, if the quantity is logged."""
        kl = self.leading_series("kl", "kl_k1") or self.series_of("kl_token")
        entropy = self.leading_series("entropy", "surprisal_mean")
        length = self.leading_series("length", self.length)
        # The watched reward of training responses, or of validation responses
        watched = "valid_reward_mean" if self.has("valid_reward") else "validation_reward_mean"
        series: dict[Quantity, tuple[Series | None, str]] = {
            "reward": (self.leading_series("reward", "reward"), "reward_mean"),
            "watched_reward": (self.watched_reward, watched),
            "kl": (kl, "kl_k1_mean"),
            "length": (length, f"{self.length}_mean"),
            "entropy": (entropy, "surprisal_mean"),
        }
        courses: dict[Quantity, Course] = {}
        for quantity, (one, column) in series.items():
            if one is not None and (course := course_of(one, one.name or column, quantity)):
                courses[quantity] = course
        return courses

    @cached_property
    def reward_shape(self) -> Shape | None:
        """Whether and when the reward rose, fell or died; None if the run is too short to judge."""
        return shape_of(self.reward, self.limits[RewardCollapse])

    @cached_property
    def watched_reward(self) -> Series | None:
        """A reward not trained on: ``valid_reward``, or that of validation responses or metrics."""
        if self.has("valid_reward"):
            return self.series_by_step("valid_reward")
        if self.validation is not None and has(self.validation.responses, "reward"):
            return Run(self.validation, self.limits).series_by_step("reward")
        return self.series_of("validation")

    @cached_property
    def watched_shape(self) -> Shape | None:
        """Whether and when ``watched_reward`` rose or fell; None without one or if too short."""
        series = self.watched_reward
        independent = not self.has("valid_reward")
        return None if series is None else shape_of(series, independent=independent)

    def align(self, series: Series) -> Floats:
        """Return the series' value at each step of the run, float64 (S,), NaN where it has none."""
        at = pd.Series(series.values, index=series.steps)
        return np.asarray(at.groupby(level=0).last().reindex(self.steps), dtype=np.float64)

    def last_values(self, series: Floats) -> Floats:
        return series[-len(self.last.steps) :]

    @property
    def length(self) -> str:
        """Name of the column of response lengths: in tokens if they are logged, else characters."""
        return length_column(self.responses)

    @property
    def length_unit(self) -> str:
        return message("tokens") if self.length == "response_tokens" else message("characters")

    def change(
        self,
        values: Floats,
        weights: Floats | None = None,
        *,
        first: Window | None = None,
        last: Window | None = None,
        by_step: bool = True,
    ) -> Change:
        """Return the change of the mean of per-response values from one window to another.

        By default from the run's first window to its last; without a first one, ``first`` and ``z``
        are NaN. Errors are clustered by prompt, so a prompt in both windows is compared with
        itself. Unless ``by_step``, the scatter of step means, which a jump increases, is ignored.
        """
        start = first or self.first
        end = last or self.last
        after = noise.part_of(self.tables, values, end, weights)
        if start is None:
            return Change(np.nan, after.mean, np.nan)
        before = noise.part_of(self.tables, values, start, weights)
        z = noise.z_of(self.tables if by_step else None, values, weights, [before, after])
        return Change(before.mean, after.mean, z, self.limits[Trend].z)

    def change_and_series(
        self, column: str, role: str, weights: Floats | None = None
    ) -> tuple[Change, Series] | None:
        """Return the change and series of a column or, if missing, of a role's metric, or None."""
        if self.has(column):
            values = self.column(column)
            return self.change(values, weights), Series(self.steps, self.by_step(values, weights))
        metric = self.series_of(role, MIN_STEPS)
        return None if metric is None else (metric.change(), metric)

    def figure(
        self, limit: Limit[float], column: str, weights: Floats | None = None, op: Op = ">"
    ) -> LimitedFigure:
        """Return a column's mean, or else the metric of the role of that name; NaN if neither."""
        moved, series = self.change_and_series(column, column, weights) or (None, None)
        if moved is None or series is None:
            return LimitedFigure(limit, op, np.full(len(self.steps), np.nan), np.nan)
        return LimitedFigure(limit, op, self.align(series), moved.last, series.source)

    @cached_property
    def environments(self) -> Environments | None:
        return environments_of(self.tables)

    def mix_change(  # noqa: PLR0914
        self, first: Window, last: Window, values: Floats | None = None
    ) -> MixChange | None:
        """Split the change of mean reward by environment; None without environments or rewards.

        ``values``, float64 (rows,), are split instead of the rewards; a jump of them is no noise.
        """
        if self.environments is None:
            return None
        reward = self.column("reward") if values is None else values
        windows = (first.rows, last.rows)
        index = np.where(np.isfinite(reward), self.environments.index, -1)
        size = len(self.environments.names) + 1
        counts = np.array([np.bincount(index[rows] + 1, minlength=size + 1) for rows in windows])
        if not counts[:, 1:].any(axis=1).all():
            return None
        shares = counts[:, 1:] / counts[:, 1:].sum(axis=1, keepdims=True)
        by = [noise.means_by(index[rows] + 1, size + 1, reward[rows])[1:] for rows in windows]
        # An environment that is missing in one window counts as unchanged.
        means = np.nan_to_num(np.where(np.isnan(by), by[::-1], by))
        mean = means.mean(axis=0)
        share = shares.mean(axis=0)
        weights = np.zeros(len(reward))
        for rows, part in zip(windows, shares, strict=True):
            weight = np.divide(share, part, out=np.zeros(size), where=shares.all(axis=0))
            weights[rows] = np.append(weight, 0.0)[index[rows]]
        same_mix = self.change(
            reward - mean[index], weights, first=first, last=last, by_step=values is None
        )
        mix = rounded((mean * difference(shares[1], shares[0])).sum())
        within = share * difference(means[1], means[0])
        limits = self.limits[MixChanged]
        fall = mix + within.sum()
        remains = same_mix.fell and within.sum() < limits.rest * fall
        # The first part explains most of the fall only if the rest surely is the smaller part.
        is_most = mix < limits.share * fall and same_mix.largest_loss < limits.share * -fall
        explains_fall = bool(fall < 0 and is_most and not remains)
        return MixChange(shares, means, mix, within, same_mix, explains_fall)

    def met(self, limit: Limit[Any], op: Op, value: float, of: float = 1.0) -> list[Met]:
        """Return [Met] if ``value op limit × of``, else []; ``tested`` keeps the highest value."""
        bound: float = getattr(self.limits[limit.owner], limit.key)
        met = Met(limit.key, op, bound, rounded(value / of) if of else np.inf, limit.unit)
        highest = self.tested.get(limit)
        if np.isfinite(met.value) and (highest is None or met.value > highest.value):
            self.tested[limit] = met
        return [met] if meets(op, value, bound * of) else []

    def by_step(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the mean of per-response values in each step, float64 (S,), NaN without any."""
        return noise.means_by(self.step_index, len(self.steps), values, weights)

    def spread(self, column: str = "reward") -> float:
        """Return the std of a response column around the mean of each step; NaN without values."""
        values = self.column(column)
        finite = np.isfinite(values)
        if not finite.any():
            return np.nan
        deviations = noise.centred(values[finite], self.step_index[finite])
        largest = np.abs(values[finite]).max()
        return rounded(float(beyond_rounding(np.sqrt((deviations**2).mean()), largest)))

    def onset(self, series: Floats, *, always: bool = False) -> Onset | None:
        """Return when a series left its baseline; the first step if ``always`` or a short run."""
        if not len(self.steps):
            return None
        if always or self.first is None:
            start = int(self.steps[0])
            return Onset(start, start, start)
        return onset(self.steps, series, end=len(self.last.steps))

    def reward_windows(self, quantity: Quantity = "reward") -> dict[str, float]:
        """Return {"start", "best", "end"}: means of the first, best and last window of a course."""
        course = self.courses[quantity]
        return {"start": course.first.value, "best": course.best.value, "end": course.last.value}

    @cached_property
    def learned(self) -> bool:
        """Whether the reward, its gap to the reference, or a reward not trained on clearly rose."""
        shape = self.reward_shape
        watched = self.watched_shape
        if (shape and shape.rose) or (watched and watched.rose):
            return True
        if self.first is None or self.reward.source == "metrics":
            return False
        if self.first.steps[-1] >= self.last.steps[0]:  # the windows overlap
            return False
        if self.change(self.column("reward_gap")).rose:
            return True
        mix = self.mix_change(self.first, self.last)
        if shape is None or (mix is None and shape.rise_z < SOME_Z):
            return False
        # Recurring prompts are compared with themselves, but steps may be autocorrelated.
        moved = mix.same_mix if mix else self.change(self.column("reward"))
        return moved.rose and shape.noise.deflate(moved.z) >= self.limits[Trend].z

    @cached_property
    def solved(self) -> bool:
        """Whether nearly all responses, early and late, earn the best of two or more rewards."""
        reward = self.column("reward")
        if not np.isfinite(reward).any() or np.nanmin(reward) == np.nanmax(reward):
            return False
        best = self.by_step(np.where(np.isfinite(reward), reward == np.nanmax(reward), np.nan))
        size = max(len(best) // 10, 3)
        ends = (best[:size], best[-size:])
        min_share = self.limits[RewardStalled].solved
        return mean(best) > min_share and all(mean(part) > min_share - 0.02 for part in ends)

    @cached_property
    def silent(self) -> Floats:
        """1 at steps whose groups all have equal rewards, 0 at others, float64 (S,); NaN unknown.

        Such a step has no gradient but that of the KL penalty, which may be 0.
        """
        metric = self.series_of("zero_variance")
        steps = self.tables.steps
        if metric is not None:
            share = self.align(metric)
        elif has(steps, "zero_variance_groups"):
            share = steps["zero_variance_groups"].to_numpy(np.float64)
        else:
            share = np.full(len(self.steps), np.nan)
        silent = np.where(np.isfinite(share), share >= 1 - ROUNDING, np.nan)
        spread = self.series_of("reward_std")
        if spread is not None:
            silent[self.align(spread) == 0] = 1.0
        return silent

    @cached_property
    def verifiable(self) -> bool:
        """Whether the reward seems rule-based: labels are logged, or it has few distinct values."""
        reward = self.column("reward")
        values = np.unique(reward[np.isfinite(reward)])
        return self.labels_contained is not None or len(values) <= MAX_RULE_VALUES

    @cached_property
    def labels_contained(self) -> float | None:
        """Fraction of the best responses of the last window that contain their label, or None."""
        words = self.tables.words
        if words is None or words.labels is None or 2 * (words.labels >= 0).sum() < len(words.rows):
            return None
        late = (words.rows >= self.last.rows.start) & (words.labels >= 0)
        reward = self.column("reward")[words.rows]
        best = late & (reward >= np.nanmax(reward[late], initial=-np.inf) - 1e-9)
        return float((words.labels[best] == 1).mean()) if best.any() else None

    def since(self, onset: Onset | None) -> tuple[int, ...]:
        if onset is None:
            return self.last.steps
        return tuple(self.steps[self.steps >= onset.step].tolist())

    def examples(
        self, ranking: Ranking, onset: Onset | None, until: int | None = None
    ) -> tuple[Example, ...]:
        """Return up to three responses since the onset by ``ranking``, of different prompts first.

        Only responses whose texts were read, and whose ``by`` would have been unusual before the
        onset, are eligible; without an onset, all of the last window or, if none, of the run. Of a
        problem that ended, responses after the step ``until`` are no examples.
        """
        by = significant(ranking.by)
        step, n, prompts = self.responses[["step", "n", "prompt_id"]].to_numpy(np.int64).T
        with_texts = self.responses["has_texts"].to_numpy() == 1
        usable = np.isfinite(by) & with_texts
        if ranking.among is not None:
            usable &= ranking.among
        if ranking.in_last_window:
            after = usable & (step >= self.last.steps[0])
        elif onset is None:
            after = usable & (step >= self.last.steps[0])
            after = after if after.any() else usable
        else:
            after = usable & (step >= onset.step)
            after &= _unusual(by, usable & (step < onset.low), highest=ranking.highest)
        if until is not None:
            after &= step <= until
        rows = np.flatnonzero(after)
        order = rows[np.argsort(-by[rows] if ranking.highest else by[rows], kind="stable")]
        order = order[:400]  # enough to find three different prompts
        _, first_rows = np.unique(prompts[order], return_index=True)
        different = order[np.sort(first_rows)][:MAX_EXAMPLES]
        chosen = dict.fromkeys([*different.tolist(), *order.tolist()])

        contrast = with_texts if ranking.among is None else with_texts & ~ranking.among

        def example(row: int, low: float) -> Example:
            at = np.nan if ranking.token is None else ranking.token[row]
            earlier = np.flatnonzero((prompts == prompts[row]) & (step < low) & contrast)
            return Example(
                int(step[row]),
                int(n[row]),
                int(at) if np.isfinite(at) else None,
                value=float(by[row]) if np.isfinite(by[row]) else None,
                unit=ranking.unit,
                before=example(int(earlier[-1]), -np.inf) if len(earlier) else None,
                look_for=ranking.look_for,
                at_end=ranking.at_end,
            )

        low = onset.low if onset else -np.inf
        return tuple(example(row, low) for row in list(chosen)[:MAX_EXAMPLES])

    def with_texts_since(self, onset: Onset | None) -> int:
        """Return how many responses since the onset (None: in the last window) have texts."""
        late = self.responses["step"].isin(self.since(onset))
        return int((self.responses.loc[late, "has_texts"] == 1).sum())

    def between(self, start: int, stop: int) -> Run:
        """Return the part of the run, and of its validation, with ``start <= step < stop``."""
        validation = self.validation and self.validation.between(start, stop)
        return Run(self.tables.between(start, stop), self.limits, validation)

    def with_gap_as_reward(self) -> Run:
        tables = replace(
            self.tables,
            responses=self.responses.assign(reward=self.responses["reward_gap"]),
            steps=self.tables.steps.assign(reward_mean=self.tables.steps["reward_gap_mean"]),
            metrics=pd.DataFrame({"step": []}),
        )
        return Run(tables, self.limits, self.validation)


def _unusual(by: Floats, normal: NDArray[np.bool_], *, highest: bool) -> NDArray[np.bool_]:
    """Return whether each value is extreme among the ``normal`` ones; True if these are few."""
    if normal.sum() < LEAST_NORMAL:
        return np.ones(len(by), bool)
    bound = np.quantile(by[normal], NORMAL if highest else 1 - NORMAL)
    return by >= bound if highest else by <= bound


def mean(values: Floats) -> float:
    """Return the mean without NaN values, NaN if no value is finite."""
    return rounded(float(np.nanmean(values))) if np.isfinite(values).any() else np.nan


def median(values: Floats) -> float:
    """Return the median without NaN values, NaN if no value is finite."""
    return rounded(np.nanmedian(values)) if np.isfinite(values).any() else np.nan


def met_from_start(series: Floats, met: Met) -> bool:
    """Return whether the median of the first three finite values crosses the limit of ``met``."""
    return meets(met.op, median(series[np.isfinite(series)][:3]), met.limit)


def has(frame: pd.DataFrame, column: str) -> bool:
    """Return whether a table has this column with at least one value that is not missing."""
    return column in frame and bool(pd.notna(frame[column].to_numpy()).any())
