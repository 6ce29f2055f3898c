"""Places of the names of curves: in the plot, beside the ends of their lines, where no line is.

``static/js/charts/names.js`` does the same where readers zoom; ``tests/data/name_places.json``
holds both together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from rlreport.draw.rules import NARROWEST, length_of
from rlreport.figures.ragged import Floats

GAP = 13  # least vertical distance of two names, in pixels
# Pixels from a line to the baseline of a name above and below it
ABOVE = 6
BELOW = 13
# Pixels that letters take above and below their baseline
ASCENT = 9
DESCENT = 3
# Most pixels between the end of a line and its name
MOST_AWAY = 40
# A name is below its line rather than above if that falls by so many pixels in this last part
FALLING_PIXELS = 8
FALLING_PART = 0.12


class NamedLine(NamedTuple):
    """A line with its name, which is at the right edge of the plot."""

    name: str
    x: Floats  # float64 (n,), ascending from 0 to 1
    y: Floats  # float64 (n,), pixels from the lower end of the plot


_Span = tuple[float, float]


def name_places(lines: Sequence[NamedLine], height: float) -> list[float] | None:
    """Return the baseline of each name in pixels from the lower end, None without room for all.

    ``height``: of the plot, without what other labels take at its top.
    """
    found = None
    least = len(lines) + 1
    for chosen in product(*(list(_candidates(line, lines, height)) for line in lines)):
        places = [place for place, _ in chosen]
        cost = sum(not is_first for _, is_first in chosen)
        if cost < least and _are_apart(places):
            found = places
            least = cost
    return found


def _are_apart(places: Sequence[float]) -> bool:
    return all(above - below >= GAP for below, above in pairwise(sorted(places)))


def _candidates(
    line: NamedLine, lines: Sequence[NamedLine], height: float
) -> Iterator[tuple[float, bool]]:
    """Yield the places for the name above and below a line, and whether it is the better one."""
    start = 1 - length_of(line.name) / NARROWEST
    spans = [_span(one, start) for one in lines]
    low, high = _span(line, start)
    near = line.y[np.searchsorted(line.x, 1 - FALLING_PART) :]
    end = float(line.y[-1])
    falls = len(near) > 0 and float(near[0]) - end > FALLING_PIXELS
    above = (_raised(high + ABOVE, spans), not falls)
    below = (_lowered(low - BELOW, spans), falls)
    for place, is_better in (above, below):
        is_inside = DESCENT <= place <= height - ASCENT
        if is_inside and abs(place - end) <= MOST_AWAY:
            yield place, is_better


def _span(line: NamedLine, start: float) -> _Span:
    """Return the lowest and the highest place of a line from ``start`` on."""
    inside = line.y[line.x >= start]
    at_start = np.interp(start, line.x, line.y)
    at_end = line.y[-1]
    values = [float(at_start), float(at_end), *inside.tolist()]
    return min(values), max(values)


def _raised(place: float, spans: Sequence[_Span]) -> float:
    """Return the next baseline from a place upwards at which a name covers no line."""
    for span in sorted(spans):
        if _covers(place, span):
            place = span[1] + ABOVE
    return place


def _lowered(place: float, spans: Sequence[_Span]) -> float:
    for span in sorted(spans, key=lambda span: -span[1]):
        if _covers(place, span):
            place = span[0] - BELOW
    return place


def _covers(place: float, span: _Span) -> bool:
    return place - DESCENT < span[1] and place + ASCENT > span[0]
