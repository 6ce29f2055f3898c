"""The course of a quantity: its curve, where it is logged, and which direction is better.

All outputs print the numbers of these courses; ``quantities.courses`` chooses the series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rlreport.check.curve import CHANGED_Z, LEAST_TREND, SECOND_Z, Curve, Level
from rlreport.check.events import EVENT_SHARE, Event, EventKind
from rlreport.check.prepared import Kind
from rlreport.check.series import Series, SeriesSource
from rlreport.figures.ragged import Floats, Ints

Quantity = Literal[
    "reward", "validation", "second_reward", "accuracy", "kl", "length", "entropy"
]
# Scores that the policy is not trained on: the first that is logged stands for the others
HELD_OUT: tuple[Quantity, ...] = ("validation", "second_reward")
# The same and, where neither is logged, the part of the reward that tells what is right
WATCHED: tuple[Quantity, ...] = (*HELD_OUT, "accuracy")
SCORES: tuple[Quantity, ...] = ("reward", *WATCHED)

# Words in the names of columns whose values are shares of right answers, maybe in percent
_OF_PERCENTAGES = ("acc", "percent", "pct", "rate", "pass", "solve")

# A trend of all values is told as probable from this z on
TREND_Z = 3.0
# The best level is better than another beyond noise if it is so many standard errors above it
BEST_Z = 2.0


@dataclass(frozen=True, slots=True)
class Course:
    """How a quantity changed over a run."""

    quantity: Quantity | None  # None for any other figure
    curve: Curve
    source: SeriesSource
    # in ``data/steps.csv`` or, of the trainer's metrics, in ``data/metrics.csv``; that of a part of
    # the reward in rollouts is one of ``data/responses.csv.gz``
    column: str
    name: str = ""  # of a part of the reward, else ""
    # that it is above the limit of its check for long, None if it is not; ``judge`` adds it, as a
    # series alone has no limit
    above: Event | None = None

    def is_of(self, source: SeriesSource, column: str) -> bool:
        """Return whether its values are this column of the rollouts' means or of the metrics."""
        return self.source == source and self.column == column

    @property
    def lower_is_better(self) -> bool | None:
        """Whether low values are better; None where no direction is, as of a length."""
        if self.quantity in SCORES:
            return False
        return True if self.quantity == "kl" else None

    @property
    def steps(self) -> Ints:
        return self.curve.steps

    @property
    def values(self) -> Floats:
        return self.curve.values

    @property
    def first(self) -> Level:
        return self.curve.first

    @property
    def last(self) -> Level:
        return self.curve.last

    @property
    def best(self) -> Level | None:
        """The best level, None where no direction is better."""
        if self.lower_is_better is None:
            return None
        return self.curve.lowest if self.lower_is_better else self.curve.highest

    @property
    def top(self) -> Level:
        """The best level; of a quantity without a better direction, the highest."""
        return self.best or self.curve.highest

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened to it, in the order of ``EventKind``."""
        if self.above is None:
            return self.curve.events
        return (*self.curve.events, self.above)

    @property
    def unit(self) -> str:
        """The unit "%" if values and column's name are those of percentages, else none."""
        if self.name:
            return ""  # parts are in units of the reward
        top = float(self.values.max(initial=0.0))
        is_named = any(word in self.column.lower() for word in _OF_PERCENTAGES)
        return "%" if 1.5 < top <= 100 and is_named else ""

    @property
    def is_single(self) -> bool:
        """Whether there is only one value, which has no course."""
        return len(self.curve) == 1

    @property
    def direction(self) -> int:
        """1 if it rose from its first level to its last, −1 if it fell, 0 if that is not clear."""
        return self.curve.direction

    @property
    def probable(self) -> int:
        """1 if it probably rose, −1 if it probably fell, 0 if neither.

        Both ends tell, if the trend of all values does not contradict them, or else the trend.
        """
        curve = self.curve
        trend = curve.trend
        if curve.probably_rose and (trend >= SECOND_Z or len(curve) < LEAST_TREND):
            return 1
        if curve.probably_fell and (trend <= -SECOND_Z or len(curve) < LEAST_TREND):
            return -1
        return int(trend >= TREND_Z) - int(trend <= -TREND_Z)

    @property
    def rose(self) -> bool:
        """Whether it rose: surely from its first level to its last or, so far, to its best one."""
        return self.curve.rose or (self.gained and self.curve.probably_rose)

    @property
    def gained(self) -> bool:
        """Whether the best level is better than the first one beyond noise."""
        return self._is_better_than(self.first, CHANGED_Z)

    @property
    def lost(self) -> bool:
        """Whether it is worse at the end than at its best."""
        return self.fall is not None

    @property
    def fall(self) -> Event | None:
        """The fall to the end, as an event or as the change from the first level to the last.

        A change by a small part of the range, beside a valley for instance, is no fall.
        """
        curve = self.curve
        if curve.fall is not None or not curve.fell or curve.departure is None:
            return curve.fall
        span = curve.highest.value - curve.lowest.value
        if curve.first.value - curve.last.value < EVENT_SHARE * span:
            return None
        began = curve.departure
        return Event(
            kind=EventKind.FALL,
            onset=began.step,
            low=began.low,
            high=began.high,
            until=int(curve.steps[-1]),
            before=curve.first.value,
            level=curve.last.value,
            z=curve.changed,
        )

    @property
    def slipped(self) -> bool:
        """Whether the last level is worse than the best one, by more than noise or luck alone."""
        if self.lost:
            return True
        if self.curve.kind is not Kind.EVALUATIONS:
            return self._is_better_than(self.last, BEST_Z)
        loss = self.top.value - self.last.value
        return loss > self._luck * self.last.se and loss > 0

    def _is_better_than(self, level: Level, least_z: float) -> bool:
        sign = -1 if self.lower_is_better else 1
        better = sign * (self.top.value - level.value)
        error = math.hypot(self.top.se, level.se)
        return better > (least_z + self._luck) * error and better > 0

    @property
    def _luck(self) -> float:
        """By how many standard errors the best of many evaluations is better by chance alone."""
        if self.curve.kind is not Kind.EVALUATIONS:
            return 0.0  # its levels are those of pieces, which are not chosen for their values
        return math.sqrt(2 * math.log(max(len(self.curve), 1)))


def course_of(
    series: Series, column: str, quantity: Quantity | None = None
) -> Course | None:
    """Return the course of a series, None if it has no values.

    Args:
        series: the values.
        column: the name of their column in the exported tables.
        quantity: what they are, None for any other figure.
    """
    curve = series.curve
    if curve is None:
        return None
    return Course(quantity, curve, series.source, column)
