"""The times of a run as data; ``summarise.times`` reads them from the log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pandas as pd

from rlreport.system.timestamps import date_text


class Phase(NamedTuple):
    """A part of a step, such as ``gen``: its median duration in seconds, and the metric."""

    name: str
    seconds: float
    metric: str

    def as_json(self) -> dict[str, Any]:
        seconds = _rounded(self.seconds)
        return {"name": self.name, "seconds_per_step": seconds, "from": self.metric}


class Throughput(NamedTuple):
    """Median tokens per second, of one GPU if ``per_gpu``, and the metric."""

    tokens_per_second: float
    per_gpu: bool
    metric: str

    def as_json(self) -> dict[str, Any]:
        median = _rounded(self.tokens_per_second)
        return {"median": median, "per_gpu": self.per_gpu, "from": self.metric}


class SlowStep(NamedTuple):
    """A step that took far longer than others."""

    step: int
    first: int  # the step itself; if the log skips steps, the first that it stands for
    seconds: float  # of each of these steps
    factor: float  # of the median


# A step is slow if it took this many times the median
SLOW = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times of a run; None or empty where the log does not tell.

    Attributes:
        start: when the first step that has a time was logged, in seconds since 1970.
        end: the same of the last one.
        is_utc: False if the log does not tell the time zone: then both are local times.
        seconds: from ``start`` to ``end``; without these, the run time as the log counts it.
        pause_seconds: the part of it that lies in pauses, see ``summarise.times``.
        by_step: ``step``, ``time`` (since 1970, NaN if unknown) and ``seconds`` (of this step, NaN
            if unknown, or after a pause or resumption). If the log skips steps, it is the mean of
            those since the last row.
        step_seconds: median of these durations.
        step_source: metric that has the durations; "" if they are differences of times.
        phases: parts of a step, the longest first. They may overlap, and be parts of each other.
        by_phase: ``step``, and the seconds of each phase by its name.
        by_rollout: ``step``, and seconds of generation: ``mean`` and ``slowest`` of its rollouts;
            empty if the trainer does not log both.
        throughput: metrics of tokens per second, by name.
        turn_seconds: mean duration of a turn, median over responses.
    """

    start: float | None = None
    end: float | None = None
    is_utc: bool = True
    seconds: float | None = None
    pause_seconds: float = 0.0
    by_step: pd.DataFrame = field(default_factory=pd.DataFrame, compare=False)
    step_seconds: float | None = None
    step_source: str = ""
    phases: tuple[Phase, ...] = ()
    by_phase: pd.DataFrame = field(default_factory=pd.DataFrame, compare=False)
    by_rollout: pd.DataFrame = field(default_factory=pd.DataFrame, compare=False)
    throughput: tuple[Throughput, ...] = ()
    turn_seconds: float | None = None

    def __bool__(self) -> bool:
        """Return whether anything is known."""
        known = (self.seconds, self.start, self.step_seconds, self.turn_seconds)
        logged = any(value is not None for value in known)
        return logged or bool(self.phases or self.throughput)

    @property
    def slow_steps(self) -> list[SlowStep]:
        """The steps that took at least SLOW times the median, in order."""
        if not self.step_seconds or "seconds" not in self.by_step:
            return []
        rows = self.by_step[["step", "seconds"]]
        first = rows["step"]
        if not self.step_source:  # differences of times
            first = first.shift(fill_value=int(first.iloc[0]) - 1) + 1
        slow = rows["seconds"] >= SLOW * self.step_seconds
        return [
            SlowStep(int(step), int(start), seconds, seconds / self.step_seconds)
            for step, start, seconds in zip(
                rows.loc[slow, "step"].tolist(),
                first[slow].tolist(),
                rows.loc[slow, "seconds"].tolist(),
                strict=True,
            )
        ]

    def without_names(self) -> Times:
        """Return the times without the names of metrics."""
        return replace(
            self,
            step_source="metric" if self.step_source else "",
            phases=(),
            by_phase=pd.DataFrame(),
            throughput=tuple(one._replace(metric="") for one in self.throughput),
        )

    def as_json(self) -> dict[str, Any] | None:
        """Return the times as ``report.json`` has them, None if nothing is known."""
        if not self:
            return None
        return {
            "start": self.date(self.start),
            "end": self.date(self.end),
            "seconds": _rounded(self.seconds),
            "pause_seconds": _rounded(self.pause_seconds),
            "seconds_per_step": _rounded(self.step_seconds),
            "seconds_per_step_from": self.step_source or None,
            "phases": [phase.as_json() for phase in self.phases],
            "tokens_per_second": [one.as_json() for one in self.throughput],
            "seconds_per_turn": _rounded(self.turn_seconds),
        }

    def date(self, time: float | None) -> str | None:
        """Return ``start`` or ``end`` as a date, such as ``2026-11-02T10:00:00Z``."""
        return None if time is None else date_text(time, is_utc=self.is_utc)


def _rounded(value: float | None) -> float | None:
    """Return a number with six digits."""
    return None if value is None else float(f"{value:.6g}")
