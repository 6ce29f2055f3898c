"""The breaks of a curve: when it went from one level to another, and which levels these are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlreport.check.curve import CHANGED_Z, Curve, Stretch
from rlreport.check.events import EVENT_SHARE, EVENT_Z, Event, EventKind
from rlreport.check.finding import Onset

# Beyond so many standard errors, a larger number says no more
ENOUGH_Z = 20.0
# Least part of the largest value by which a figure has to move
LEAST_MOVE = 0.05
LEAST_SHARE_MOVE = 0.1  # of a share, which moves by as much as its difference
# A change from the first level to the last is most of that from an extreme one
MOSTLY = 0.5
# A piece with fewer values is no level
LEAST_PIECE = 3


@dataclass(frozen=True, slots=True)
class Move:
    """A break of a curve: the interval of its step, and the levels on both sides."""

    step: int
    low: int
    high: int
    before: float
    after: float
    z: float  # the change in standard errors
    until: int | None = None  # last step of a stretch that ended: a valley or a hump
    # 0 to 2: the change as a part of the larger level, weighted by its certainty
    size: float = 0.0

    is_event: bool = True  # whether it is more than a boundary of two pieces
    # steps of the level before, None if it is the first one or the best one of a score
    of_before: tuple[int, int] | None = None

    @property
    def levels(self) -> tuple[float, float]:
        return self.before, self.after

    def distance(self, onset: Onset) -> int:
        """Return the number of steps from its interval to the onset's step, 0 if it is inside."""
        return max(self.low - onset.step, onset.step - self.high, 0)

    def steps_apart(self, onset: Onset) -> int:
        """Return the number of steps to the onset's step itself, 0 for neighbours."""
        return max(self.low - onset.step - 1, onset.step - self.high - 1, 0)


def moves_of(curve: Curve, *, is_score: bool, is_share: bool) -> Iterator[Move]:
    """Yield the breaks of a curve that are large and beyond noise.

    Args:
        curve: the curve.
        is_score: whether high values are good, so that a fall is one from the best level.
        is_share: whether the values are shares, whose differences count.
    """
    of_events = _moves_of_events(curve, is_score=is_score)
    for move in (*of_events, *_moves_of_pieces(curve)):
        size = size_of(move, is_share=is_share)
        if size > 0:
            yield replace(move, size=size)


def _moves_of_events(curve: Curve, *, is_score: bool) -> Iterator[Move]:
    """Yield the events of a curve, and its change from its first level to its last."""
    for event in curve.events:
        if event.kind in (EventKind.FALL, EventKind.CLIMB):
            yield _move_to_the_end(event, curve, is_score=is_score)
        elif event.kind in (EventKind.VALLEY, EventKind.HUMP):
            yield move_of_stretch(event, curve)
    began = curve.departure
    z = abs(curve.changed or 0.0)
    if began is not None and z >= CHANGED_Z:
        before = curve.first.value
        after = curve.last.value
        yield Move(*began, before=before, after=after, z=z)


def _move_to_the_end(event: Event, curve: Curve, *, is_score: bool) -> Move:
    """Return the break of a fall or a climb, with the levels that other outputs print.

    A score falls from its best level. Anything else goes from its first level to its last, unless
    most of the change was to come back from another level.
    """
    is_fall = event.kind is EventKind.FALL
    extreme = curve.highest if is_fall else curve.lowest
    first = curve.first.value
    last = curve.last.value
    whole = last - extreme.value
    is_first = is_score and is_fall
    before = extreme
    if not is_first and (last - first) * whole >= whole**2 * MOSTLY:
        before = curve.first
        is_first = True
    return Move(
        step=event.onset,
        low=event.low,
        high=event.high,
        before=before.value,
        after=last,
        z=abs(event.z or 0.0),
        of_before=None if is_first or before == curve.first else before.steps,
    )


def move_of_stretch(event: Event, curve: Curve) -> Move:
    """Return the break of a valley or a hump, to its lowest or its highest level."""
    return Move(
        step=event.onset,
        low=event.low,
        high=event.high,
        before=event.before,
        after=level_in(event, curve),
        z=abs(event.z or 0.0),
        until=event.until,
    )


def level_in(event: Event, curve: Curve) -> float:
    """Return the lowest level in a valley, or the highest in a hump."""
    steps = (event.onset, event.until)
    is_low = event.kind is EventKind.VALLEY
    return (curve.lowest_in(steps) if is_low else curve.highest_in(steps)).value


def _moves_of_pieces(curve: Curve) -> Iterator[Move]:
    """Yield the boundaries of pieces at which the curve went to another level."""
    span = float(np.ptp(curve.lines)) if curve.pieces else 0.0
    for piece, following in zip(curve.pieces, curve.pieces[1:], strict=False):
        counts = [_count(curve, piece), _count(curve, following)]
        change = abs(following.end - piece.end)
        if min(counts) < LEAST_PIECE or change < EVENT_SHARE * span:
            continue
        error = curve.noise * math.sqrt(sum(1 / count for count in counts))
        z = change / error if error > 0 else ENOUGH_Z
        if z >= EVENT_Z:
            low = piece.steps[1]
            high = following.steps[0]
            yield Move(
                step=high,
                low=low,
                high=high,
                before=piece.end,
                after=following.end,
                z=z,
                is_event=False,
            )


def _count(curve: Curve, piece: Stretch) -> int:
    """Return the number of values of a piece."""
    first, last = piece.steps
    start, stop = np.searchsorted(curve.steps, (first, last + 1))
    return int(stop - start)


def size_of(move: Move, *, is_share: bool = False) -> float:
    """Return the change as a part of the larger level, of a share the change itself; 0 if small.

    It is less if the change is uncertain.
    """
    larger = max(abs(move.before), abs(move.after))
    if not math.isfinite(larger) or larger == 0:
        return 0.0
    change = abs(move.after - move.before)
    least = LEAST_SHARE_MOVE
    if not is_share:
        change /= larger
        least = LEAST_MOVE
    return change * min(move.z / ENOUGH_Z, 1.0) if change >= least else 0.0
