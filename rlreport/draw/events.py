"""Events of curves, such as a fall, as labelled vertical rules on their charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rlreport.check.course import SCORES, Course
from rlreport.check.events import Event, EventKind
from rlreport.check.spread_curves import TextSpread
from rlreport.draw.rules import PlacedRules
from rlreport.draw.theme import PADDING, RIGHT, WIDTH
from rlreport.text.messages import message

# Maximum number of events on a chart, the largest
MOST_EVENTS = 3
# Mean width of a character of a label; of what is free beside it, at both sides together, and
# least distance of two rules: in pixels
_CHARACTER_WIDTH = 5.6
_GAP = 8
_RULE_GAP = 8

Side = Literal["before", "after"]
# On which side of its onset a curve leaves room at the top of the plot
_SIDES: dict[EventKind, Side] = {
    EventKind.FALL: "after",
    EventKind.VALLEY: "after",
    EventKind.DEAD: "after",
    EventKind.CLIMB: "before",
    EventKind.HUMP: "before",
    EventKind.ABOVE: "before",
}
_OTHER_SIDES: dict[Side, Side] = {"before": "after", "after": "before"}


@dataclass(frozen=True, slots=True)
class DrawnEvent:
    """An event to mark on the chart of its curve."""

    step: int  # of the onset
    words: str  # label at the rule, such as "fell at 42"
    side: Side  # of the rule on which the label should be
    size: float  # the change of the level, as a part of the range of the curve

    def named(self, curve: str) -> DrawnEvent:
        """Return the event with the name of its curve, for a chart of several."""
        words = message("{curve}: {event}", curve=curve, event=self.words)
        return replace(self, words=words)


def events_to_draw(course: Course) -> tuple[DrawnEvent, ...]:
    """Return the events of a course, without spikes and what another event tells, too."""
    lines = course.curve.lines
    span = float(lines.max() - lines.min())
    drawn = []
    for event in course.events:
        if event.kind not in _SIDES or _is_told(event, course):
            continue
        change = abs(event.level - event.before)
        # What is beyond a limit counts more than any change.
        is_first = event.kind is EventKind.ABOVE or span == 0
        size = math.inf if is_first else change / span
        words = _words(event, course)
        drawn.append(DrawnEvent(event.onset, words, _SIDES[event.kind], size))
    return tuple(drawn)


def spread_to_draw(spread: TextSpread) -> tuple[DrawnEvent, ...]:
    """Return the onset of a text that spread, the text of the largest share first."""
    onset = spread.onset
    if onset is None:
        return ()
    rise = spread.curve.highest.value - spread.curve.first.value
    words = message("rose at {step:count}", step=onset.step)
    return (DrawnEvent(onset.step, words, "before", rise),)


def _is_told(event: Event, course: Course) -> bool:
    """Return whether another event of the course tells the same, or its word would be wrong.

    The end of a valley is a climb, that of a hump a fall. Of a score the fall counts, of any other
    quantity the hump, whose label has both ends. Only a score is dead.
    """
    is_score = course.quantity in SCORES
    curve = course.curve
    match event.kind:
        case EventKind.DEAD:
            return not is_score
        case EventKind.CLIMB:
            return _ends_with(curve.valley, event, course)
        case EventKind.FALL:
            return not is_score and _ends_with(curve.hump, event, course)
        case EventKind.HUMP:
            return is_score and _ends_with(event, curve.fall, course)
    return False


def _ends_with(stretch: Event | None, change: Event | None, course: Course) -> bool:
    """Return whether a valley or a hump ends with a change: it begins in it or right after it."""
    if stretch is None or change is None:
        return False
    later = course.steps[course.steps > stretch.until]
    end = int(later[0]) if len(later) else stretch.until
    return stretch.onset <= change.onset <= end


def _words(event: Event, course: Course) -> str:
    """Return the label of an event, with the steps of one that ended."""
    onset = event.onset
    until = event.until
    match event.kind:
        case EventKind.FALL:
            return message("fell at {step:count}", step=onset)
        case EventKind.CLIMB:
            return message("rose at {step:count}", step=onset)
        case EventKind.VALLEY:
            return message("valley {from_:count}–{to:count}", from_=onset, to=until)
        case EventKind.HUMP:
            return message("hump {from_:count}–{to:count}", from_=onset, to=until)
        case EventKind.DEAD:
            return message("dead from {step:count}", step=onset)
    if math.isnan(event.before):  # it is so from the first step on
        return message("above the limit")
    if until < int(course.steps[-1]):
        return message(
            "above the limit {from_:count}–{to:count}", from_=onset, to=until
        )
    return message("above the limit from {step:count}", step=onset)


class Rule(NamedTuple):
    """A vertical rule, and the text beside it."""

    step: int
    words: str
    side: Side  # of the rule on which the text is

    def row(self, place: float) -> dict[str, Any]:
        """Return the rule as a row of the data of a chart, at a place on its axis."""
        return {"step": place, "event": self.words, "side": self.side}


def rules_of(
    curves: Sequence[tuple[str, Sequence[DrawnEvent]]],
    extent: tuple[float, float],
    run_rules: PlacedRules | None = None,
) -> tuple[Rule, ...]:
    """Return the rules of the largest events on an axis, from left to right.

    An event is left out if its label would cover that of a larger one or of a rule of the run, or
    its rule nearly would.

    Args:
        curves: the name and the events of each curve of a chart; the labels of all but the first
            name their curve.
        extent: first and last step of the axis.
        run_rules: the rules of the run, which are on all charts.
    """
    low, high = extent
    # The chart may be drawn with any width: labels fit into the narrowest.
    width = min(WIDTH["third"], WIDTH["half"]) - PADDING["left"] - RIGHT
    named = list(curves[0][1])
    for name, events in curves[1:]:
        named += [event.named(name) for event in events]
    on_axis = [event for event in named if low <= event.step <= high]
    on_axis.sort(key=lambda event: -event.size)
    rules: list[Rule] = []
    places: list[float] = []
    taken: list[tuple[float, float]] = []
    if run_rules is not None:
        places += run_rules.places(width)
        taken += run_rules.rooms(width)
    for event in on_axis[:MOST_EVENTS]:
        place = (event.step - low) / (high - low) * width
        if any(abs(place - other) < _RULE_GAP for other in places):
            continue
        length = len(event.words) * _CHARACTER_WIDTH + _GAP
        for side in (event.side, _OTHER_SIDES[event.side]):
            start = place if side == "after" else place - length
            room = (start, start + length)
            is_inside = start >= 0 and start + length <= width
            if is_inside and _is_free(room, taken):
                places.append(place)
                taken.append(room)
                rules.append(Rule(event.step, event.words, side))
                break
    return tuple(sorted(rules, key=lambda rule: rule.step))


def _is_free(room: tuple[float, float], taken: Iterable[tuple[float, float]]) -> bool:
    start, end = room
    return all(end <= left or right <= start for left, right in taken)
