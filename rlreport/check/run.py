"""Class ``Run``, which checks judge: tables of a run, its columns, first and last window of steps.

What is computed from it is in modules of their own: ``means`` (changes between windows),
``quantities`` (series of the reward, the KL and others), ``progress`` (what the run achieved) and
``evidence`` (which responses show a finding).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from rlreport.check.curve import Curve, Op
from rlreport.check.events import Event
from rlreport.check.finding import Onset
from rlreport.check.limits import Thresholds
from rlreport.check.series import Series
from rlreport.check.windows import Trend, Window, means_by
from rlreport.figures.ragged import Floats, Ints
from rlreport.metrics.roles import roles_of
from rlreport.summarise.environments import Environments, environments_of
from rlreport.summarise.steps import window_size
from rlreport.tables import Tables, length_column
from rlreport.text.messages import message
from rlreport.text.secrets import Scalar

T = TypeVar("T")

ROUNDING = 1e-6  # A share that differs from 1 by less than this, as by rounding to float32, is 1


class Run:
    """The training responses and steps of a run or a part of it, and the thresholds of the checks.

    A column of responses is float64 (rows,), NaN where a response has no value; a figure by step
    is float64 (S,), one value for each of ``steps``.

    Attributes:
        tables: the tables of training responses; those of validation are in ``validation``.
        attempted_steps: the rows of the step table with a response or a failed rollout.
        limits: the thresholds of all checks: ``run.limits[KlExplosion].warn``.
        settings: dotted name -> value of the run's configuration; empty if it is unknown.
        steps: the numbers of the steps, int64 (S,), ascending.
        first: the first window of steps, None for a run that is too short for a trend.
        last: the last window of steps; all steps of a run that is too short.
    """

    def __init__(
        self,
        tables: Tables,
        limits: Thresholds | None = None,
        validation: Tables | None = None,
        settings: Mapping[str, Scalar] = MappingProxyType({}),
    ) -> None:
        self.tables = tables.training()
        self.validation = validation or tables.validation_tables()
        attempted = tables.steps["responses"] + tables.steps["failed_rollouts"] > 0
        self.attempted_steps = tables.steps[attempted]
        self.limits = limits or Thresholds()
        self.settings = settings
        self.steps: Ints = self.tables.steps["step"].to_numpy(np.int64)
        trend = self.limits[Trend]
        count = len(self.steps)
        size = window_size(count, trend.share, trend.least_steps)
        is_short = count < trend.shortest_run
        self.first = None if is_short else self.window(0, size)
        self.last = self.window(0 if is_short else count - size, count)
        self._computed: dict[Callable[[Run], Any], Any] = {}

    @property
    def responses(self) -> pd.DataFrame:
        """The table of training responses, in the order of their steps."""
        return self.tables.responses

    def once(self, compute: Callable[[Run], T]) -> T:
        """Return ``compute(run)``, which is computed only the first time."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return cast("T", self._computed[compute])

    def window(self, start: int, stop: int) -> Window:
        """Return the window of the steps with indices from ``start`` to ``stop`` (exclusive)."""
        first, last = np.searchsorted(self.step_index, (start, stop)).tolist()
        steps = self.steps[start:stop].tolist()
        return Window(tuple(steps), slice(first, last))

    def window_of(self, steps: tuple[int, int]) -> Window:
        """Return the window from the first to the last of these steps, both included."""
        first, last = steps
        start, stop = np.searchsorted(self.steps, (first, last + 1)).tolist()
        return self.window(start, stop)

    @cached_property
    def step_index(self) -> Ints:
        """Index of each response's step in ``steps``, int64 (rows,)."""
        return np.searchsorted(self.steps, self.responses["step"].to_numpy(np.int64))

    @property
    def last_index(self) -> int:
        """Index in ``steps`` of the first step of the last window."""
        return len(self.steps) - len(self.last.steps)

    def has(self, column: str) -> bool:
        """Return whether responses have this column with at least one value."""
        return has(self.responses, column)

    def column(self, name: str) -> Floats:
        """Return a column of the responses, float64 (rows,), NaN where there is no value."""
        return self.responses[name].to_numpy(dtype=np.float64)

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """Role ("kl") -> name of the trainer's metric ("actor/kl_loss"); see ``metrics.roles``."""
        names = map(str, self.tables.metrics.columns[1:])
        return roles_of(names, self.tables.metric_roles)

    @property
    def length(self) -> str:
        """Name of the column of response lengths: in tokens if they are logged, else characters."""
        return length_column(self.responses)

    @property
    def length_unit(self) -> str:
        """Unit of the column ``length``, as a message."""
        if self.length == "response_tokens":
            return message("tokens")
        return message("characters")

    @cached_property
    def environments(self) -> Environments | None:
        """The environment of each response, None unless the log names them."""
        return environments_of(self.tables)

    def by_step(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the mean of per-response values in each step, float64 (S,), NaN without any."""
        return means_by(self.step_index, len(self.steps), values, weights)

    def align(self, series: Series) -> Floats:
        """Return the series' value at each step of the run, float64 (S,), NaN where it has none."""
        values = pd.Series(series.values, index=series.steps)
        last_of_step = values.groupby(level=0).last()
        return np.asarray(last_of_step.reindex(self.steps), dtype=np.float64)

    def last_values(self, series: Floats) -> Floats:
        """Return the part of a figure by step that lies in the last window."""
        return series[-len(self.last.steps) :]

    def onset(self, series: Series | Floats, *, always: bool = False) -> Onset | None:
        """Return when a figure left its first level for its last, None if both are equal.

        Args:
            series: the figure by step, float64 (S,), or a series with steps of its own.
            always: whether it was so from the first step on, which is then the onset, as it is
                of a run too short for a change.
        """
        if not len(self.steps):
            return None
        if always or self.first is None:
            return self.from_start()
        return onset_of(self._series(series).curve)

    def onset_beyond(
        self,
        series: Series | Floats,
        limit: float,
        op: Op = ">",
        *,
        is_share: bool = False,
    ) -> Onset | None:
        """Return when a figure went beyond a limit for long; None if that has no date.

        A figure that stays around its limit has none. One that went there gradually may have
        begun to do so before it was beyond the limit.

        Args:
            series: the figure by step, float64 (S,), or a series with steps of its own.
            limit: the limit.
            op: how a figure beyond it compares with it.
            is_share: see ``curve.excursion_of``.
        """
        curve = self._series(series).curve
        if curve is None:
            return None
        excursion = curve.excursion(limit, op, is_share=is_share)
        if excursion is None:
            return None
        step = excursion.steps[0]
        if excursion.from_start:
            start = int(curve.steps[0])
            return Onset(start, start, start)
        if not excursion.is_dated:
            return None
        began = curve.departure
        low = step
        if began is not None and began.step <= step:
            low = min(began.low, step)
        return Onset(step, low, step)

    def from_start(self) -> Onset:
        """Return the onset of what was so from the first step on."""
        start = int(self.steps[0])
        return Onset(start, start, start)

    def _series(self, series: Series | Floats) -> Series:
        if isinstance(series, Series):
            return series
        return Series(self.steps, series)

    def since(self, onset: Onset | None) -> tuple[int, ...]:
        """Return the steps since an onset; without one, those of the last window."""
        if onset is None:
            return self.last.steps
        return tuple(self.steps[self.steps >= onset.step].tolist())

    def between(self, start: int, stop: int) -> Run:
        """Return the part of the run, and of its validation, with ``start <= step < stop``."""
        validation = self.validation and self.validation.between(start, stop)
        tables = self.tables.between(start, stop)
        return Run(tables, self.limits, validation, self.settings)

    def with_gap_as_reward(self) -> Run:
        """Return the run with the reward minus that of the reference policy as its reward."""
        steps = self.tables.steps
        tables = replace(
            self.tables,
            responses=self.responses.assign(reward=self.responses["reward_gap"]),
            steps=steps.assign(reward_mean=steps["reward_gap_mean"]),
            metrics=pd.DataFrame({"step": []}),
        )
        return Run(tables, self.limits, self.validation, self.settings)


def onset_of(curve: Curve | None) -> Onset | None:
    """Return when a curve left its first level for its last, None if both are equal."""
    if curve is None or curve.departure is None:
        return None
    return Onset(*curve.departure)


def fall_onset(curve: Curve) -> Onset | None:
    """Return when a curve fell to its last level or, without such an event, left its first one."""
    return event_onset(curve.fall) or onset_of(curve)


def event_onset(event: Event | None) -> Onset | None:
    """Return when an event of a curve began, None without one."""
    if event is None:
        return None
    return Onset(event.onset, event.low, event.high)


def once_per_run(compute: Callable[[Run], T]) -> Callable[[Run], T]:
    """Decorate a function of a run, so that it computes its result once for each run."""

    @wraps(compute)
    def computed(run: Run) -> T:
        return run.once(compute)

    return computed


def has(frame: pd.DataFrame, column: str) -> bool:
    """Return whether a table has this column with at least one value that is not missing."""
    return column in frame and bool(pd.notna(frame[column].to_numpy()).any())
