"""Events of a curve: falls, climbs, valleys and humps, and when they began.

Rules R7 and R8 of docs/checks.md, "How a curve is read".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.fit import Fit, deviate
from rlreport.check.pieces import Piece
from rlreport.check.prepared import Prepared
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded

# Fewest values with which a series has events
FEWEST_VALUES = 5
# Least z of an event; of evaluations, and of fits that explain more than noise ever does, less
EVENT_Z = 4.0
CLEAR_EVENT_Z = 3.3
# An event has this part of the range of the fit
EVENT_SHARE = 0.2
# A level has at least three values, and this part of all
LEAST_VALUES = 3
LEAST_SHARE = 0.02
# Values that are nearer to a level than this part of the event belong to it
NEAR = 0.25
# In this part of all pairs, the value near the top is above the one near the bottom
ORDERED = 0.75
# Tops are equal within this many standard errors
EQUAL_Z = 2.0
# The onset is the first step so far from the level before, with so much of the rest as far
LEFT = 0.25
LASTING = 0.9
# Likelihood ratio of the interval of the onset: 99% of chi-square with one degree of freedom
PROFILE = 6.63
# Values far from the low side may stand together by chance with this probability
CHANCE = 0.01
# Sides with fewer values say little about how common such values are
SPARSE_VALUES = 12

# Evaluations: all since the onset are below all before it, three on each side, by four errors
SEPARATE_VALUES = 3
SEPARATE_ERRORS = 4.0
# Where that is unknown, by so much of their scatter, in an order as unlikely as this
SEPARATE_SCATTER = 2.5
SEPARATE_CHANCE = 0.005


class EventKind(StrEnum):
    """What happened to a curve or, of the last kind, to a quantity that has a limit."""

    FALL = "fall"  # from its best level to its last
    CLIMB = "climb"
    VALLEY = "valley"  # down and up again
    HUMP = "hump"
    DEAD = "dead"  # it stays at its lowest value
    SPIKE = "spike"  # a single value
    ABOVE = "above"  # beyond the limit of a check for long; see ``Course.above``


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a curve; ``before`` and ``level`` are in the unit of the log."""

    kind: EventKind
    onset: int  # the step
    # the interval of steps in which the onset may lie
    low: int
    high: int
    until: int  # the last step of it
    # the level from which it went, NaN if it was so from the first step on
    before: float
    level: float  # the level to which it went
    z: float | None  # its size in standard errors, None if it has none


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prepared series, its fit, and the pieces of the fit."""

    prepared: Prepared
    fit: Fit
    pieces: tuple[Piece, ...]
    lines: Floats  # float64 (n,), flat where a piece is

    @property
    def count(self) -> int:
        return len(self.prepared)

    @property
    def span(self) -> float:
        return float(np.ptp(self.lines))

    @property
    def least_level(self) -> float:
        """Return how many values a level in the middle has at least."""
        return max(LEAST_VALUES, LEAST_SHARE * self.count)

    def is_level(self, piece: Piece) -> bool:
        """Return whether a piece is long enough for a level, or at an end of the series."""
        if piece.is_jump:
            return False
        at_end = piece.start == 0 or piece.stop == self.count
        return at_end or len(piece) >= self.least_level


class Departure(NamedTuple):
    """The step at which a series left a level, and the interval in which that may lie."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a piece; its value is upside down for climbs and humps."""

    index: int
    value: float
    error: float
    piece: Piece


class _Candidate(NamedTuple):
    """A change from one end of a piece to another, upside down for climbs and humps."""

    top: _End
    bottom: _End
    level: float  # the value from which it went
    stretch: Ints  # the indices at which it lasts


def events_of(fitted: Fitted) -> tuple[Event, ...]:
    """Return the events of a series, in the order of ``EventKind``."""
    found = []
    if fitted.count >= FEWEST_VALUES:
        for kind in (EventKind.FALL, EventKind.CLIMB, EventKind.VALLEY, EventKind.HUMP):
            event = _Events(fitted, kind).found()
            if event is not None:
                found.append(event)
    # What did not fall is not dead.
    if any(event.kind is EventKind.FALL for event in found):
        found += _dead(fitted)
    return (*found, *_spikes(fitted))


class _Events:
    """The search for the events of one kind."""

    def __init__(self, fitted: Fitted, kind: EventKind) -> None:
        self.fitted = fitted
        self.kind = kind
        self.to_the_end = kind in (EventKind.FALL, EventKind.CLIMB)
        # Climbs and humps are falls and valleys of the series upside down.
        self.sign = 1 if kind in (EventKind.FALL, EventKind.VALLEY) else -1
        self.values = self.sign * fitted.prepared.values
        self.lines = self.sign * fitted.lines
        self.is_evaluation = fitted.prepared.is_evaluation
        self.ends = self._ends()

    def _ends(self) -> list[_End]:
        ends = []
        for piece in self.fitted.pieces:
            usable = self.is_evaluation and not piece.is_jump
            if not usable and not self.fitted.is_level(piece):
                continue
            for index, value in (
                (piece.start, piece.first),
                (piece.stop - 1, piece.last),
            ):
                ends.append(_End(index, self.sign * value, piece.error, piece))
        return ends

    def found(self) -> Event | None:
        if not self.to_the_end:
            return self._largest_valley()
        for candidate in self._falls():
            event = self._event(candidate)
            if event is not None:
                return event
        return self._separate_evaluations()

    def _falls(self) -> Iterator[_Candidate]:
        """Yield the falls to the last level, from each top that is as high as the highest."""
        bottom = self.ends[-1]
        highest = max(self.ends, key=lambda end: end.value)
        for top in self.ends[:-1]:
            error = math.hypot(top.error, highest.error)
            if top.value >= highest.value - EQUAL_Z * error:
                stretch = np.arange(top.index, self.fitted.count)
                yield _Candidate(top, bottom, top.value, stretch)

    def _largest_valley(self) -> Event | None:
        best: tuple[float, Event] | None = None
        for place in range(1, len(self.ends) - 1):
            candidate = self._valley(place)
            event = candidate and self._event(candidate)
            if candidate is None or event is None:
                continue
            depth = candidate.level - candidate.bottom.value
            area = len(candidate.stretch) * depth
            if best is None or area > best[0]:
                best = (area, event)
        return best[1] if best else None

    def _valley(self, place: int) -> _Candidate | None:
        """Return the valley whose bottom is the end at ``place``, None if it is none."""
        bottom = self.ends[place]
        before = [end.value for end in self.ends[: place + 1]]
        after = [end.value for end in self.ends[place:]]
        level = min(max(before), max(after))
        if level <= bottom.value:
            return None
        inside = np.flatnonzero(self.lines < (bottom.value + level) / 2)
        stretch = _stretch_around(bottom.index, inside)
        if stretch is None:
            return None
        if len(stretch) < self.fitted.least_level and not self.is_evaluation:
            return None
        # The last end that is as high, before it goes down
        as_high = [end for end in self.ends[: place + 1] if end.value >= level]
        top = as_high[-1]
        return _Candidate(top, bottom, level, stretch)

    def _event(self, candidate: _Candidate) -> Event | None:
        """Return the event if it is larger than noise, else None."""
        noise = self.fitted.fit.noise
        top = candidate.top
        bottom = candidate.bottom
        drop = candidate.level - bottom.value
        error = math.hypot(top.error, bottom.error)
        if top.piece is bottom.piece:
            # Both ends of a line: the variance of its whole rise is 12, that of an end 4.
            error = top.error * math.sqrt(3)
        z = deviate(drop, error, noise.freedom)
        lenient = self.is_evaluation or self.fitted.fit.is_clear
        if z < (CLEAR_EVENT_Z if lenient else EVENT_Z):
            return None
        if drop < EVENT_SHARE * self.fitted.span:
            return None
        if self.to_the_end and candidate.level - self._last_level() < drop / 2:
            return None
        if not self._is_ordered(candidate):
            return None
        return self._dated(candidate, z)

    def _last_level(self) -> float:
        """Return the mean of the last values, which has to confirm half of a fall."""
        count = 1 if self.is_evaluation else min(LEAST_VALUES, self.fitted.count)
        return float(self.values[-count:].mean())

    def _is_ordered(self, candidate: _Candidate) -> bool:
        """Return whether values near the top lie above those near the bottom, in most pairs."""
        bottom = candidate.bottom
        drop = candidate.level - bottom.value
        above = self.lines[: bottom.index] >= candidate.level - NEAR * drop
        high = self.values[: bottom.index][above]
        # Single values that are high here and there are no level.
        at_top = _stretch_around(candidate.top.index, np.flatnonzero(above))
        below = self.lines[candidate.stretch] <= bottom.value + NEAR * drop
        low = self.values[candidate.stretch][below]
        least = 1 if self.is_evaluation else LEAST_VALUES
        # The first value of a run may be a level: that of the base model.
        least_high = 1 if candidate.top.index == 0 else least
        if at_top is None or len(at_top) < least_high or len(low) < least:
            return False
        if _ordered_pairs(high, low) < ORDERED:
            return False
        middle = bottom.value + drop / 2
        if self._stand_together_by_chance(high, low, middle):
            return False
        return not self._stand_together_by_chance(-low, -high, -middle)

    def _stand_together_by_chance(
        self, side: Floats, other: Floats, middle: float
    ) -> bool:
        """Return whether the values of a side are as common on the other, only scattered.

        A few jumps in a row look like a level: how likely are so many of them in a row, where a
        share of the other side is as far?
        """
        if self.is_evaluation or len(other) < SPARSE_VALUES:
            return False
        from scipy.special import bdtrc  # loaded only where values jump to and fro

        count = self.fitted.count
        share = (np.count_nonzero(other >= middle) + 1) / (len(other) + 2)
        beyond = np.count_nonzero(side >= middle)
        # At least so many of so many, anywhere in the series
        chance = bdtrc(max(beyond - 1, 0), len(side), share) if beyond else 1.0
        return bool(chance * count / len(side) > CHANCE)

    def _dated(self, candidate: _Candidate, z: float) -> Event:
        """Return a fall or a rise as an event, with when it began."""
        prepared = self.fitted.prepared
        until = self.fitted.count if self.to_the_end else candidate.bottom.index + 1
        began = _departure(
            self.fitted,
            start=candidate.top.index,
            stop=until,
            before=self.sign * candidate.level,
            after=self.sign * candidate.bottom.value,
        )
        return Event(
            kind=self.kind,
            onset=began.step,
            low=began.low,
            high=began.high,
            until=int(prepared.until[candidate.stretch[-1]]),
            before=prepared.in_units(self.sign * candidate.top.value),
            level=prepared.in_units(self.sign * candidate.bottom.value),
            z=self.sign * -z,
        )

    def _separate_evaluations(self) -> Event | None:
        """Return the fall of evaluations that all lie below all before it, None without."""
        if not self.is_evaluation:
            return None
        count = self.fitted.count
        # The lowest so far, and the highest from here on
        floor = np.minimum.accumulate(self.values)
        ceiling = np.maximum.accumulate(self.values[::-1])[::-1]
        for at in range(SEPARATE_VALUES, count - SEPARATE_VALUES + 1):
            if floor[at - 1] <= ceiling[at]:
                continue
            before = self.values[:at]
            after = self.values[at:]
            if self._is_far_apart(before, after):
                return self._step_down(at, before, after)
        return None

    def _is_far_apart(self, before: Floats, after: Floats) -> bool:
        """Return whether two groups of evaluations, one above the other, differ beyond chance.

        Where their sampling error is not known, their scatter stands for it, and the order alone
        has to be unlikely.
        """
        drop = float(before.mean() - after.mean())
        if drop <= EVENT_SHARE * float(np.ptp(self.values)):
            return False
        error = self.fitted.prepared.error
        if error > 0:
            return drop > SEPARATE_ERRORS * error
        inside = np.concatenate([before - before.mean(), after - after.mean()])
        scatter = math.sqrt(float((inside**2).sum()) / (len(inside) - 2))
        orders = math.comb(len(inside), len(after))
        return drop > SEPARATE_SCATTER * scatter and orders >= 1 / SEPARATE_CHANCE

    def _step_down(self, at: int, before: Floats, after: Floats) -> Event:
        """Return the fall from the mean of the evaluations before index ``at`` to that after."""
        prepared = self.fitted.prepared
        high = float(before.mean())
        low = float(after.mean())
        step = int(prepared.steps[at])
        sigma = prepared.error or self.fitted.fit.noise.sigma
        error = sigma * math.sqrt(1 / len(before) + 1 / len(after))
        return Event(
            kind=self.kind,
            onset=step,
            low=int(prepared.steps[at - 1]),
            high=step,
            until=int(prepared.until[-1]),
            before=prepared.in_units(self.sign * high),
            level=prepared.in_units(self.sign * low),
            z=-self.sign * deviate(high - low, error, self.fitted.count - 2),
        )


def departure_of(fitted: Fitted) -> Departure | None:
    """Return when a series left its first level for its last, None if both are equal."""
    before = float(fitted.lines[0])
    after = float(fitted.lines[-1])
    if before == after:
        return None
    return _departure(fitted, start=0, stop=fitted.count, before=before, after=after)


def _departure(
    fitted: Fitted, *, start: int, stop: int, before: float, after: float
) -> Departure:
    """Return when the lines left the level ``before``, at ``start``, for the level ``after``.

    The onset is the first value a quarter of the way, of which 90% of what follows, to ``stop``,
    is at least as far. Its interval begins where the unbroken change that leads there may begin.
    """
    steps = fitted.prepared.steps
    sign = 1 if after > before else -1
    least = before + sign * LEFT * abs(after - before)
    past = sign * fitted.lines[start:stop] > sign * least
    # The share of values from each one on that are past it
    remaining = np.arange(len(past), 0, -1)
    share = np.cumsum(past[::-1])[::-1] / remaining
    lasting = np.flatnonzero(past & (share >= LASTING))
    onset = start + int(lasting[0]) if len(lasting) else start
    knot = _knot_before(fitted, onset, start, sign)
    low, high = _interval(fitted, knot)
    step = int(steps[onset])
    return Departure(step, min(low, int(steps[knot])), max(high, step))


def _knot_before(fitted: Fitted, onset: int, start: int, sign: int) -> int:
    """Return where the pieces that lead to the onset without a break begin."""
    knot = onset
    leading = [p for p in fitted.pieces if sign * (p.last - p.first) > 0]
    for piece in reversed(leading):
        # A jump happens at its second value.
        first = piece.start + piece.is_jump
        leads = first <= knot < piece.stop or (piece.stop == knot and first < knot)
        if leads and first >= start:
            knot = first
    return knot


def _interval(fitted: Fitted, knot: int) -> tuple[int, int]:
    """Return the steps between which a knot may lie, by profile likelihood."""
    steps = fitted.prepared.steps
    fit = fitted.fit
    if knot not in fit.cuts[1:-1]:
        return int(steps[max(knot - 1, 0)]), int(steps[knot])
    place = fit.cuts.index(knot)
    start = fit.cuts[place - 1]
    stop = fit.cuts[place + 1]
    tried = np.arange(start + 1, stop)
    squares = fit.sums.of_halves(start, slice(start + 1, stop), stop)
    at_knot = squares[knot - start - 1]
    around = max(fit.noise.local[knot], fit.noise.local[knot - 1])
    variance = (fit.noise.sigma * around) ** 2 * fit.noise.inflation(stop - start)
    likely = tried[squares <= at_knot + PROFILE * max(variance, 1e-300)]
    # A change begins between two steps.
    first = max(likely[0] - 1, 0)
    return int(steps[first]), int(steps[likely[-1]])


def _stretch_around(index: int, inside: Ints) -> Ints | None:
    """Return the consecutive indices of ``inside`` around one of them, None if it is not."""
    gaps = np.flatnonzero(np.diff(inside) > 1) + 1
    for stretch in np.split(inside, gaps):
        if len(stretch) and stretch[0] <= index <= stretch[-1]:
            return stretch
    return None


def _ordered_pairs(high: Floats, low: Floats) -> float:
    """Return the share of pairs whose first is above the second, a half for equal ones."""
    ordered = np.sort(high)
    below: NDArray[np.int64] = np.searchsorted(ordered, low, "left")
    not_above = np.searchsorted(ordered, low, "right")
    return 1 - float((below + not_above).mean()) / 2 / len(high)


def _dead(fitted: Fitted) -> list[Event]:
    """Return the event of a series that stays constant at its end, if it does."""
    end = fitted.pieces[-1] if fitted.pieces else None
    if end is None or end.kind != "dead":
        return []
    prepared = fitted.prepared
    step = int(prepared.steps[end.start])
    before = max(piece.first for piece in fitted.pieces[:-1])
    return [
        Event(
            kind=EventKind.DEAD,
            onset=step,
            low=int(prepared.steps[max(end.start - 1, 0)]),
            high=step,
            until=int(prepared.until[-1]),
            before=prepared.in_units(before),
            level=prepared.in_units(end.last),
            z=None,
        )
    ]


def _spikes(fitted: Fitted) -> list[Event]:
    prepared = fitted.prepared
    events = []
    for index in prepared.spikes.tolist():
        step = int(prepared.steps[index])
        both = prepared.raw[index - 1] + prepared.raw[index + 1]
        neighbours = rounded(both / 2)
        value = float(prepared.raw[index])
        events.append(
            Event(EventKind.SPIKE, step, step, step, step, neighbours, value, None)
        )
    return events
