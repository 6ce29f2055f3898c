"""Rules of the run on all charts over the steps: the onset, and the checkpoint to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlreport.draw.theme import LIGHT

# Width of the narrowest plot, in pixels: that of a phone
NARROWEST = 298
# Opacity of a rule on charts that the lead finding does not refer to, where it has no label
QUIET = 0.3
# Baseline of the first line of labels inside a plot, in pixels from its top; those of the next
# lines are LINE_HEIGHT below each other
FIRST_LINE = 9
LINE_HEIGHT = 13
# Mean width of a character of a label, and what is free beside it, in pixels
_CHARACTER_WIDTH = 5.6
_GAP = 8


@dataclass(frozen=True, slots=True)
class RunRule:
    """A vertical rule, with its label and perhaps an interval."""

    step: int
    words: str
    colour: str  # name of a colour of the theme
    dashed: bool
    # first and last step of an interval to shade, None without one
    within: tuple[int, int] | None = None
    # whether there is a line at the step; the edge of an interval may be enough
    has_line: bool = True
    # what the chart in words says of it, "" for its label
    described: str = ""


def label_sides(places: Sequence[tuple[float, str]]) -> list[int]:
    """Return −1 for labels before their rule and 1 for those after it: of two, they face away.

    A label that the narrowest plot has no room for is on the other side. ``places``: where each
    rule is on the axis, 0 to 1, and its label.
    """
    sides = [1 if part < 0.6 else -1 for part, _ in places]
    if len(places) == 2:
        left, right = sorted(range(2), key=lambda index: places[index][0])
        sides[left] = -1
        sides[right] = 1
    for index, (part, words) in enumerate(places):
        room = part if sides[index] < 0 else 1 - part
        if room < length_of(words) / NARROWEST:
            sides[index] = 1 if part < 0.5 else -1
    return sides


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def length_of(words: str) -> float:
    """Return the width of a label with what is free beside it, in pixels."""
    return len(words) * _CHARACTER_WIDTH + _GAP


def _first_free(
    lines: Sequence[Sequence[tuple[float, float]]], room: tuple[float, float]
) -> int:
    """Return the first of some lines whose labels leave a room free, their number if none does."""
    for number, line in enumerate(lines):
        if not any(_overlap(room, one) for one in line):
            return number
    return len(lines)


@dataclass(frozen=True, slots=True)
class PlacedRules:
    """The rules of the run on one chart."""

    rules: tuple[RunRule, ...]
    extent: tuple[float, float]  # first and last step of the axis
    labelled: bool  # whether the lead finding refers to the chart

    @classmethod
    def on_axis(
        cls,
        rules: Sequence[RunRule],
        extent: tuple[float, float],
        *,
        labelled: bool,
    ) -> PlacedRules:
        """Return those of the rules that are on an axis."""
        low, high = extent
        inside = tuple(rule for rule in rules if low <= rule.step <= high)
        return cls(inside, extent, labelled)

    def part(self, step: float) -> float:
        """Return where a step is on the axis, 0 to 1."""
        low, high = self.extent
        return (step - low) / (high - low)

    @property
    def _lines(self) -> list[tuple[RunRule, int, int]]:
        """Each rule with the side of its label, and the first line in which it covers no other."""
        places = [(self.part(rule.step), rule.words) for rule in self.rules]
        lines: list[list[tuple[float, float]]] = []  # what labels take of each line
        placed = []
        for rule, (part, words), side in zip(
            self.rules, places, label_sides(places), strict=True
        ):
            length = length_of(words) / NARROWEST
            room = (part, part + length) if side > 0 else (part - length, part)
            number = _first_free(lines, room)
            if number == len(lines):
                lines.append([])
            lines[number].append(room)
            placed.append((rule, side, number))
        return placed

    @property
    def depth(self) -> int:
        """Pixels at the top of the plot that labels take, 0 without labels."""
        if not self.labelled or not self.rules:
            return 0
        return FIRST_LINE + 4 + LINE_HEIGHT * max(line for *_, line in self._lines)

    def places(self, width: float) -> list[float]:
        """Return where the rules are on a plot of this width, in pixels."""
        return [width * self.part(rule.step) for rule in self.rules]

    def rooms(self, width: float) -> list[tuple[float, float]]:
        """Return the left and the right end of each label in the first line, in pixels."""
        rooms: list[tuple[float, float]] = []
        if not self.labelled:
            return rooms
        for rule, side, line in self._lines:
            place = width * self.part(rule.step)
            length = length_of(rule.words)
            if line == 0:
                rooms.append(
                    (place, place + length) if side > 0 else (place - length, place)
                )
        return rooms

    @property
    def descriptions(self) -> list[str]:
        """What the rules stand for, for the chart in words."""
        if not self.labelled:
            return []
        return [rule.described or rule.words for rule in self.rules]

    def layers(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the layers of the design ``curves`` for rules."""
        low, high = self.extent
        intervals = []
        for rule in self.rules:
            if rule.within is not None and self.labelled:
                start, end = rule.within
                place = {"from": max(start, low), "to": min(end, high)}
                intervals.append(place | {"colour": LIGHT[rule.colour]})
        lines = [
            {
                "step": rule.step,
                "colour": LIGHT[rule.colour],
                "dashed": int(rule.dashed),
                "opacity": 1 if self.labelled else QUIET,
            }
            for rule in self.rules
            if rule.has_line
        ]
        labels = []
        if self.labelled:
            for rule, side, line in self._lines:
                label = {
                    "step": rule.step,
                    "label": rule.words,
                    "side": "after" if side > 0 else "before",
                    "place": FIRST_LINE + LINE_HEIGHT * line,
                    "colour": LIGHT[rule.colour],
                }
                labels.append(label)
        return {"interval": intervals, "rule": lines, "rule_label": labels}
