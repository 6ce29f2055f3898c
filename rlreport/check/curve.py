"""Read a curve: its levels, whether it changed, its pieces and events, and when they began.

This is the only reading of a series: checks, the verdict's sentence, tiles, charts, the comparison
and the index ask it. The rules, R0 to R10, are in docs/checks.md, "How a curve is read".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rlreport.check.events import (
    LEAST_SHARE,
    LEAST_VALUES,
    Departure,
    Event,
    EventKind,
    Fitted,
    departure_of,
    events_of,
)
from rlreport.check.fit import deviate, fit_pieces
from rlreport.check.pieces import Piece, PieceKind, pieces_of
from rlreport.check.prepared import Kind, Prepared, prepare
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change, rounded, significant

# A level is the mean of a 20th of the values, of 3 to 10 of them, at most a third of all
LEVEL_SHARE = 1 / 20
LEAST_LEVEL = 3
MOST_LEVEL = 10
# Values that change by more than this many standard deviations are no level
TREND_Z = 3.0
# A series rose or fell from this z on, and probably from this one
CHANGED_Z = 3.3
PROBABLY_Z = 2.2
# The weaker of two tests of a change may not be below this; of evaluations, not below its negative
SECOND_Z = 1.0
# Fewest values through which a trend is drawn, and the largest autocorrelation of its residuals
LEAST_TREND = 8
MOST_ALIKE = 0.9
# Fewest values that are judged without sampling errors; and with them
FEW = 5
FEW_WITH_ERRORS = 3
# The best level is the earliest of those that are equal within this many standard errors
# An excursion is dated if its level is beyond the limit by this factor, or, of shares, by this
# part of what lies beyond it
CLEARLY_BEYOND = 1.5
CLEARLY_BEYOND_SHARE = 0.25

Op = Literal[">", ">=", "<", "<="]


@dataclass(frozen=True, slots=True)
class Level:
    """The mean of consecutive values, as logged."""

    value: float
    steps: tuple[int, int]  # the first and the last step
    se: float  # standard error of the value, NaN if unknown
    count: int = 1  # number of values
    without: tuple[int, ...] = ()  # steps whose values are spikes, and left out


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a curve as others see it: its steps, and its line at both ends."""

    kind: PieceKind
    steps: tuple[int, int]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Excursion:
    """The stretch of steps in which most values are beyond a limit."""

    steps: tuple[int, int]
    level: float  # the median of its values
    # the level before it, None if it is there from the first steps on
    before: float | None
    is_dated: bool  # whether it is clearly beyond the limit, so that its first step means something
    lasts: bool  # whether it goes on until the end
    count: int  # number of values in it

    @property
    def from_start(self) -> bool:
        return self.before is None


@dataclass(frozen=True, slots=True)
class Curve:
    """What a series of values did.

    Attributes:
        steps: int64 (n,), the steps with a finite value.
        values: float64 (n,), the values as logged.
        first: the first level; of evaluations, the first value, that of the base model.
        last: the last level.
        highest: the highest level: the end of a piece or a whole flat one, or an end of the run.
        lowest: the lowest level.
        changed: the z of the last level minus the first; None for too few values.
        pieces: the straight pieces of the series, in order; jumps between two are left out.
        events: what happened, in the order of ``EventKind``.
    """

    steps: Ints
    values: Floats
    kind: Kind
    first: Level
    last: Level
    highest: Level
    lowest: Level
    changed: float | None
    pieces: tuple[Stretch, ...]
    events: tuple[Event, ...]
    departure: Departure | None  # when it left its first level for its last
    # standard deviation of a value around the pieces, NaN of a single value
    noise: float

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rose(self) -> bool:
        return self.changed is not None and self.changed >= CHANGED_Z

    @property
    def fell(self) -> bool:
        return self.changed is not None and self.changed <= -CHANGED_Z

    @property
    def probably_rose(self) -> bool:
        return self.changed is not None and self.changed >= PROBABLY_Z

    @property
    def probably_fell(self) -> bool:
        return self.changed is not None and self.changed <= -PROBABLY_Z

    @property
    def trend(self) -> float:
        """The z of the trend of all values, see ``trend_z``."""
        return trend_z(self.values)

    @property
    def ends_rising(self) -> bool:
        """Whether its last piece rises, and the last third of its values does."""
        if not self.pieces or self.pieces[-1].kind is not PieceKind.RISE:
            return False
        third = self.values[-max(len(self) // 3, LEAST_TREND) :]
        return trend_z(third) >= PROBABLY_Z

    @property
    def direction(self) -> int:
        """1 if the series rose, −1 if it fell, 0 if that is not clear."""
        return int(self.rose) - int(self.fell)

    @property
    def is_flat(self) -> bool:
        return [piece.kind for piece in self.pieces] == [PieceKind.FLAT]

    @property
    def settled_since(self) -> int | None:
        """First step of the last piece if it is level, but not the only one, else None."""
        if len(self.pieces) < 2:
            return None
        end = self.pieces[-1]
        is_level = end.kind in (PieceKind.FLAT, PieceKind.DEAD)
        return end.steps[0] if is_level else None

    def event(self, kind: EventKind) -> Event | None:
        """Return the event of a kind, the first of spikes; None without one."""
        for event in self.events:
            if event.kind is kind:
                return event
        return None

    def means(self, count: int) -> Floats:
        """Return the mean of each ``count`` consecutive values, in order; empty if too few."""
        if count > len(self.values):
            return np.empty(0)
        return significant(sliding_window_view(self.values, count).mean(axis=1))

    def lowest_in(self, steps: tuple[int, int]) -> Level:
        """Return the lowest level among these steps.

        If the lowest level of all is not there, it is the lowest mean of as many consecutive values
        as a level has, whose error is not known, as it was chosen for its value.
        """
        return self._extreme_in(steps, self.lowest, -1)

    def highest_in(self, steps: tuple[int, int]) -> Level:
        """Return the highest level among these steps; see ``lowest_in``."""
        return self._extreme_in(steps, self.highest, 1)

    def _extreme_in(self, steps: tuple[int, int], of_all: Level, sign: int) -> Level:
        """Return the level that is highest (``sign`` 1) or lowest (−1) among these steps."""
        if steps[0] <= of_all.steps[0] and of_all.steps[1] <= steps[1]:
            return of_all
        # The values from ``start`` to before ``stop`` are of these steps.
        start = int(np.searchsorted(self.steps, steps[0]))
        stop = int(np.searchsorted(self.steps, steps[1], side="right"))
        count = 1
        if self.kind is not Kind.EVALUATIONS:
            count = min(level_width(len(self)), max(stop - start, 1))
        # A mean is numbered by its first value; there is at least one, also without a value.
        first = min(start, len(self) - count)
        last = max(stop - count, first)
        means = self.means(count)[first : last + 1]
        index = int(np.argmax(sign * means))
        of_mean = self.steps[first + index : first + index + count]
        span = (int(of_mean[0]), int(of_mean[-1]))
        return Level(float(means[index]), span, math.nan, count)

    def mean_in(self, steps: tuple[int, int]) -> float:
        """Return the mean of the values from the first to the last of these steps, NaN if none."""
        inside = (self.steps >= steps[0]) & (self.steps <= steps[1])
        return _mean(self.values[inside]) if inside.any() else math.nan

    def mean_before(self, step: int) -> float:
        """Return the mean of the values before a step, as many as a level has; NaN if none."""
        before = self.values[self.steps < step]
        before = before[-level_width(len(self)) :]
        return _mean(before) if len(before) else math.nan

    @property
    def lines(self) -> Floats:
        """The line of its piece at each step, float64 (n,); the values themselves without any."""
        lines = self.values.copy()
        for piece in self.pieces:
            start, stop = np.searchsorted(
                self.steps, (piece.steps[0], piece.steps[1] + 1)
            ).tolist()
            lines[start:stop] = np.linspace(piece.start, piece.end, stop - start)
        return lines

    @property
    def fall(self) -> Event | None:
        return self.event(EventKind.FALL)

    @property
    def has_fallen(self) -> bool:
        """Whether it fell, from its first level or from a higher one."""
        return self.fell or self.fall is not None

    @property
    def before_fall(self) -> float:
        """The level from which it fell to its last one; without a fall, the first level."""
        return self.first.value if self.fall is None else self.fall.before

    @property
    def top(self) -> Level:
        """The same as it is printed: the highest level or, without a fall, the first one."""
        return self.first if self.fall is None else self.highest

    @property
    def climb(self) -> Event | None:
        return self.event(EventKind.CLIMB)

    @property
    def valley(self) -> Event | None:
        return self.event(EventKind.VALLEY)

    @property
    def hump(self) -> Event | None:
        return self.event(EventKind.HUMP)

    def excursion(
        self, limit: float, op: Op = ">", *, is_share: bool = False
    ) -> Excursion | None:
        """Return where the series is beyond a limit for long; see ``excursion_of``."""
        return excursion_of(self.steps, self.values, limit, op, is_share=is_share)


def trend_z(values: Floats) -> float:
    """Return the slope of the line through values over its standard error; 0 if they are too few.

    It says more than both ends where single values are few and noisy. Residuals that resemble
    their neighbours count for less (lag-1 autocorrelation).
    """
    count = len(values)
    if count < LEAST_TREND:
        return 0.0
    x = np.arange(count) - (count - 1) / 2
    y = values - values.mean()
    squares = float(x @ x)
    slope = float(x @ y) / squares
    residuals = y - slope * x
    total = float(residuals @ residuals)
    if not (math.isfinite(total) and total > 0):
        return 0.0
    error = math.sqrt(total / (count - 2) / squares)
    alike = float(residuals[1:] @ residuals[:-1]) / total
    alike = min(max(alike, 0.0), MOST_ALIKE)
    error *= math.sqrt((1 + alike) / (1 - alike))
    return rounded(slope / error)


def read_curve(
    steps: Ints,
    values: Floats,
    *,
    errors: Floats | None = None,
    kind: Kind = Kind.SERIES,
    coarse: bool = False,
) -> Curve | None:
    """Return what a series of values did, None if none of them is finite.

    Args:
        steps: int64 (n,), ascending.
        values: float64 (n,), NaN or infinite where there is none.
        errors: float64 (n,), the standard error of each value, such as the standard deviation
            inside a step over the root of the number of its responses; None if unknown.
        kind: what the values are.
        coarse: whether a long series is read faster, with onsets less exact.
    """
    prepared = prepare(steps, values, errors, kind)
    finite = np.isfinite(values)
    count = len(prepared)
    if not count:
        return None
    given = (steps[finite], values[finite])
    if count == 1:
        return _of_one_value(prepared, *given)
    fit = fit_pieces(prepared, coarse=coarse)
    pieces, lines = pieces_of(prepared, fit)
    fitted = Fitted(prepared, fit, pieces, lines)
    levels = _Levels(fitted, *given)
    return Curve(
        steps=given[0],
        values=given[1],
        kind=kind,
        first=levels.first_level,
        last=levels.last_level,
        highest=levels.extreme(1),
        lowest=levels.extreme(-1),
        changed=_changed(levels),
        pieces=tuple(
            _stretch(prepared, piece) for piece in pieces if not piece.is_jump
        ),
        events=events_of(fitted),
        departure=departure_of(fitted),
        noise=rounded(fit.noise.sigma * prepared.scale),
    )


def _of_one_value(prepared: Prepared, steps: Ints, values: Floats) -> Curve:
    """Return the curve of a single value, which is its only level."""
    step = int(prepared.steps[0])
    known = prepared.errors is not None and np.isfinite(prepared.errors[0])
    error = (
        float(prepared.errors[0]) if known and prepared.errors is not None else math.nan
    )
    steps_of_value = (step, int(prepared.until[0]))
    level = Level(float(prepared.raw[0]), steps_of_value, error)
    return Curve(
        steps=steps,
        values=values,
        kind=prepared.kind,
        first=level,
        last=level,
        highest=level,
        lowest=level,
        changed=None,
        pieces=(),
        events=(),
        departure=None,
        noise=math.nan,
    )


def _stretch(prepared: Prepared, piece: Piece) -> Stretch:
    first_step = int(prepared.steps[piece.start])
    last_step = int(prepared.until[piece.stop - 1])
    return Stretch(
        kind=piece.kind,
        steps=(first_step, last_step),
        start=prepared.in_units(piece.first),
        end=prepared.in_units(piece.last),
    )


def level_width(count: int) -> int:
    """Return of how many values a level is the mean, in a series of ``count``."""
    twentieth = int(count * LEVEL_SHARE + 0.5)
    usual = max(LEAST_LEVEL, min(MOST_LEVEL, twentieth))
    return min(usual, max(1, count // 3))


class _Levels:
    """The levels of a fitted series: where they lie, and their values as logged."""

    def __init__(self, fitted: Fitted, steps: Ints, values: Floats) -> None:
        self.fitted = fitted
        self.given = (steps, values)
        self.values = fitted.prepared.values
        self.count = fitted.count
        self.width = self._width()
        local = fitted.fit.noise.local
        width = self._width_without_trend(self.values, float(local[0]))
        self.first = (0, width)
        width = self._width_without_trend(self.values[::-1], float(local[-1]))
        self.last = (self.count - width, self.count)

    def _width(self) -> int:
        """Return the number of values of a level."""
        if self.fitted.prepared.is_evaluation:
            return 1
        return level_width(self.count)

    def _width_without_trend(self, values: Floats, local: float) -> int:
        """Return how many values at the start of ``values`` have no trend beyond their noise."""
        width = self.width
        sigma = self.fitted.fit.noise.sigma * min(local, 1.0)
        while width > 1:
            places = np.arange(width) - (width - 1) / 2
            squares = float((places**2).sum())
            slope = float((places * values[:width]).sum()) / squares
            allowed = TREND_Z * sigma / math.sqrt(squares)
            if abs(slope) <= allowed + 1e-12:
                break
            width -= 1
        return width

    def confirmed(self, width: int) -> int:
        """Return how many values at an end confirm a level of ``width`` values: at least one more.

        From three values on, a level confirms itself.
        """
        return width if width >= LEAST_LEVEL else min(width + 1, self.width)

    @cached_property
    def first_level(self) -> Level:
        return self.level(*self.first)

    @cached_property
    def last_level(self) -> Level:
        return self.level(*self.last)

    def level(self, start: int, stop: int) -> Level:
        """Return the plain mean of the logged values of a stretch, without its spikes."""
        prepared = self.fitted.prepared
        usual, without = self._usual_values(start, stop)
        value = _mean(usual)
        error = self.fitted.fit.noise.of_mean(start, stop)
        # An error of logarithms is relative to the value.
        error *= abs(value) if prepared.is_log else prepared.scale
        first_step = int(prepared.steps[start])
        last_step = int(prepared.until[stop - 1])
        return Level(
            value=value,
            steps=(first_step, last_step),
            se=rounded(error),
            count=len(usual),
            without=tuple(without.tolist()),
        )

    def _usual_values(self, start: int, stop: int) -> tuple[Floats, Ints]:
        """Return the logged values of a stretch without its spikes, and the steps of these."""
        prepared = self.fitted.prepared
        steps, values = self.given
        bounds = (prepared.steps[start], prepared.until[stop - 1] + 1)
        rows = slice(*np.searchsorted(steps, bounds).tolist())
        steps = steps[rows]
        values = values[rows]
        if not len(prepared.spikes):
            return values, steps[:0]
        is_spike = np.isin(steps, prepared.steps[prepared.spikes])
        if is_spike.all():
            return values, steps[:0]
        return values[~is_spike], steps[is_spike]

    def mean(self, start: int, stop: int) -> float:
        """Return the mean of a stretch in the units of the fit."""
        return float(self.values[start:stop].mean())

    def error(self, start: int, stop: int) -> float:
        return self.fitted.fit.noise.of_mean(start, stop)

    def extreme(self, sign: int) -> Level:
        """Return the highest level (``sign`` 1) or the lowest (−1)."""
        if self.fitted.prepared.is_evaluation:
            at = int(np.argmax(sign * self.fitted.prepared.raw))
            found = self.level(at, at + 1)
        else:
            found = self.level(*self._extreme_stretch(sign))
        candidates = [found, self.first_level, self.last_level]
        return max(candidates, key=lambda level: sign * level.value)

    def _extreme_stretch(self, sign: int) -> tuple[int, int]:
        """Return the end of a piece, or the flat piece, with the highest (lowest) plain mean.

        Fitted ends of steep pieces would lie beyond the values that readers can recompute.
        """
        stretches = []
        for piece in self.fitted.pieces:
            if not self.fitted.is_level(piece):
                continue
            if piece.is_level:
                stretches.append((piece.start, piece.stop))
                continue
            width = min(self.width, piece.stop - piece.start)
            stretches.append((piece.start, piece.start + width))
            stretches.append((piece.stop - width, piece.stop))
        return max(stretches, key=lambda ends: sign * self._value(*ends))

    def _value(self, start: int, stop: int) -> float:
        """Return the value of the level of a stretch."""
        usual, _ = self._usual_values(start, stop)
        return _mean(usual)


def _mean(values: Floats) -> float:
    """Return the mean of finite values, whose sum need not be finite."""
    scale = float(np.abs(values).max()) or 1.0
    return rounded(float((values / scale).mean()) * scale)


def _changed(levels: _Levels) -> float | None:
    """Return the z of the last level minus the first, None for too few values (R6).

    Both levels and the ends of the fit are compared. The larger z counts if the other points in
    the same direction.
    """
    fitted = levels.fitted
    prepared = fitted.prepared
    if levels.count < FEW:
        return _changed_by_errors(prepared)
    by_levels = _changed_by_levels(levels)
    by_fit = _changed_by_fit(fitted)
    larger = max(by_levels, by_fit, key=abs)
    other = min(by_levels, by_fit, key=abs)
    sign = math.copysign(1.0, larger)
    # Lines through few evaluations bend: their ends may say a little else.
    lenient = prepared.is_evaluation and larger == by_levels
    least = -SECOND_Z if lenient else SECOND_Z
    if other * sign > least:
        return larger
    return rounded(sign * min(abs(larger), SECOND_Z))


def _changed_by_errors(prepared: Prepared) -> float | None:
    """Return the z of three or four values by their sampling errors, None if these are unknown."""
    if prepared.errors is None or len(prepared) < FEW_WITH_ERRORS:
        return None
    first = prepared.errors[0]
    last = prepared.errors[-1]
    # The errors themselves are estimated: twice the variance is demanded.
    error = math.sqrt(2) * math.hypot(first, last)
    moved = change(float(prepared.raw[0]), float(prepared.raw[-1]))
    if not math.isfinite(error):
        return None
    if moved == 0:
        return 0.0
    return rounded(moved / max(error, abs(moved) * 1e-9))


def _changed_by_levels(levels: _Levels) -> float:
    """Return the z of the change, the smaller one with and without each level's extreme value."""
    values = levels.values
    freedom = levels.fitted.fit.noise.freedom
    moved = change(levels.mean(*levels.first), levels.mean(*levels.last))
    if moved == 0:
        return 0.0
    errors = (levels.error(*levels.first), levels.error(*levels.last))
    error = math.hypot(*errors)
    z = deviate(moved, error, freedom)
    sign = math.copysign(1.0, moved)
    first = levels.first
    last = levels.last
    if not levels.fitted.prepared.error:
        # One or two values say little, unless their error is known: the next one confirms them.
        first = (0, levels.confirmed(first[1]))
        last = (levels.count - levels.confirmed(last[1] - last[0]), levels.count)
    head = np.sort(sign * values[slice(*first)])
    tail = np.sort(sign * values[slice(*last)])
    # The claim has to hold without the value of each level that supports it most.
    if len(head) > 1:
        head = head[1:]
    if len(tail) > 1:
        tail = tail[:-1]
    without_extremes = change(float(head.mean()), float(tail.mean()))
    guarded = max(without_extremes, 0.0)
    return sign * min(abs(z), deviate(guarded, error, freedom))


def _changed_by_fit(fitted: Fitted) -> float:
    """Return the z of the end of the last piece minus the start of the first."""
    first = fitted.pieces[0]
    last = fitted.pieces[-1]
    error = math.hypot(first.error, last.error)
    if len(fitted.pieces) == 1:
        # Both ends of a line: the variance of its whole rise is 12, that of an end 4.
        error = first.error * math.sqrt(3)
    return deviate(change(first.first, last.last), error, fitted.fit.noise.freedom)


def excursion_of(
    steps: Ints,
    values: Floats,
    limit: float,
    op: Op = ">",
    *,
    is_share: bool = False,
) -> Excursion | None:
    """Return the stretch with the largest surplus of values beyond a limit, None if it is short.

    The surplus is the number of values beyond the limit minus that of the others (R9). It has to
    be three, or 2% of the values; all of fewer than three. For ``op`` "<" and "<=", values below
    the limit are beyond it.

    Args:
        steps: int64 (n,), ascending.
        values: float64 (n,), NaN where there is none.
        limit: the limit.
        op: how a value that is beyond it compares with the limit.
        is_share: whether the values are shares, which end at 1 (or at 0).
    """
    finite = np.isfinite(values)
    steps = steps[finite]
    values = values[finite]
    count = len(values)
    if not count:
        return None
    beyond = _is_beyond(values, limit, op)
    surplus = np.append(0, np.cumsum(np.where(beyond, 1, -1)))
    lowest = np.minimum.accumulate(surplus)
    gain = surplus - lowest
    stop = int(np.argmax(gain))
    if gain[stop] < max(min(LEAST_VALUES, count), LEAST_SHARE * count):
        return None
    start = int(np.flatnonzero(surplus[:stop] == lowest[stop])[-1])
    level = rounded(float(np.median(values[start:stop])))
    mean = _mean(values[start:stop])
    if is_share and _is_beyond(np.array([mean]), limit, op)[0]:
        level = mean  # of shares of few, the median may be 0 or 1
    width = level_width(count)
    before = None
    if start >= LEAST_VALUES:
        before = _mean(values[max(start - width, 0) : start])
    end = values[-width:]
    at_end = _mean(end) if is_share else float(np.median(end))
    is_beyond_at_end = bool(_is_beyond(np.array([at_end]), limit, op)[0])
    # What ended within less than a level's length of the end may go on.
    is_near_end = count - stop < max(LEAST_VALUES, LEVEL_SHARE * count)
    return Excursion(
        steps=(int(steps[start]), int(steps[stop - 1])),
        level=level,
        before=before,
        is_dated=_is_far_from(before, level, limit)
        or _is_clearly_beyond(level, limit, op, is_share=is_share),
        lasts=is_near_end or is_beyond_at_end,
        count=stop - start,
    )


def _is_beyond(values: Floats, limit: float, op: Op) -> np.ndarray:
    if op == ">":
        return values > limit
    if op == ">=":
        return values >= limit
    if op == "<":
        return values < limit
    return values <= limit


def _is_far_from(before: float | None, level: float, limit: float) -> bool:
    """Return whether a level is further beyond a limit than the limit is from the level before."""
    if before is None:
        return False
    return abs(level - before) >= CLEARLY_BEYOND * abs(limit - before)


def _is_clearly_beyond(level: float, limit: float, op: Op, *, is_share: bool) -> bool:
    is_upper = op in (">", ">=")
    if is_share:
        room = 1 - limit if is_upper else limit
        beyond = level - limit if is_upper else limit - level
        return beyond >= CLEARLY_BEYOND_SHARE * room
    if is_upper:
        return level >= CLEARLY_BEYOND * limit
    return CLEARLY_BEYOND * level <= limit


def paired_z(before: Floats, after: Floats) -> float:
    """Return the z of the mean difference of values of the same prompts (R10); NaN below two.

    Args:
        before: float64 (n,), one value of each prompt.
        after: float64 (n,), that of the same prompt later.
    """
    changes = after - before
    changes = changes[np.isfinite(changes)]
    count = len(changes)
    if count < 2:
        return math.nan
    error = float(changes.std(ddof=1)) / math.sqrt(count)
    return deviate(float(changes.mean()), error, count - 1)
