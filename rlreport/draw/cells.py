"""Rows of coloured cells as SVG, such as those of maps of prompts.

Neighbouring cells of a colour in a row are one stroke of a path that the colour has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlreport.figures.ragged import Floats, Ints

# Colours of cells, from the lowest to the highest: the scale of tokens without its first colours,
# which are near to that of a page, as are cells without a response
COLOURS = tuple(f"seq-{number}" for number in range(3, 10))
_CLIPPED = 0.02  # part of the cells at either end of the scale of rewards


class Scale(NamedTuple):
    """The ends of the scale of colours, and whether means of cells are beyond them."""

    low: float
    high: float
    is_clipped: bool

    def parts(self, means: Floats) -> Floats:
        """Return how far along the scale means are, 0 to 1; in the middle if all are equal."""
        if self.low == self.high:
            return np.where(np.isfinite(means), 0.5, np.nan)
        # Divided first: the range of large rewards may be infinite.
        half_range = self.high / 2 - self.low / 2
        return np.clip((means / 2 - self.low / 2) / half_range, 0, 1)

    def colours(self, means: Floats) -> Ints:
        """Return the index in COLOURS of each mean, −1 of NaN."""
        places = np.rint(self.parts(means) * (len(COLOURS) - 1))
        return np.where(np.isfinite(places), places, -1).astype(np.int64)


SHARES = Scale(0.0, 1.0, is_clipped=False)


def scale_of_means(means: Floats) -> Scale:
    """Return the scale that holds most of the means, which are drawable or NaN."""
    means = means[np.isfinite(means)]
    least = float(means.min(initial=np.inf))
    most = float(means.max(initial=-np.inf))
    if not least < most:  # equal, or no value that can be drawn
        level = least if least == most else 0.0
        return Scale(level, level, is_clipped=False)
    low, high = np.quantile(means, [_CLIPPED, 1 - _CLIPPED]).tolist()
    if not low < high:
        low = least
        high = most
    return Scale(low, high, is_clipped=least < low or most > high)


def block(
    indices: Ints, top: int, row_height: int, colours: Sequence[str] = COLOURS
) -> str:
    """Return rows of cells, as wide as their place and ``top`` pixels below the upper edge.

    ``indices``: of the colour of each cell, −1 for none; (R, C).
    """
    rows, columns = indices.shape
    paths = _paths(indices, colours)
    return (
        f'<svg y="{top}" width="100%" height="{rows * row_height}" viewBox="0 0 {columns} {rows}" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges">{paths}</svg>'
    )


def _paths(indices: Ints, colours: Sequence[str]) -> str:
    """Return a path per colour; neighbouring cells of a colour in a row are one stroke."""
    columns = indices.shape[1]
    flat = indices.ravel()
    is_start = np.ones(len(flat), bool)
    is_start[1:] = flat[1:] != flat[:-1]
    is_start[::columns] = True  # a row begins
    starts = np.flatnonzero(is_start)
    lengths = np.diff(starts, append=len(flat))
    paths = []
    for index, colour in enumerate(colours):
        own = flat[starts] == index
        if not own.any():
            continue
        y, x = np.divmod(starts[own], columns)
        length = lengths[own]
        # Relative moves are shorter: from the end of the stroke before
        dx = np.diff(x, prepend=0)
        dx[1:] -= length[:-1]
        dy = np.diff(y, prepend=0)
        moves = np.column_stack([dx, dy, length]).tolist()
        strokes = "".join(f"m{right} {down}h{along}" for right, down, along in moves)
        # Strokes are one row high, and lie in its middle.
        paths.append(f'<path stroke="var(--{colour})" d="M0 .5{strokes}"/>')
    return "".join(paths)
