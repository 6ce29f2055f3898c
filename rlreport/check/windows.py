"""Windows of steps, for checks, tiles and tables alike: the first fifth of a run and the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.thresholds import Trend
from rlreport.figures.ragged import Ints
from rlreport.summarise.steps import window_size
from rlreport.tables import Tables


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive steps: their numbers (ascending), and their rows in the response table."""

    steps: tuple[int, ...]
    rows: slice

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last step, None in an empty run."""
        return (self.steps[0], self.steps[-1]) if self.steps else None


def window(tables: Tables, start: int, stop: int) -> Window:
    """Return the window of the steps at places ``start`` to ``stop`` (not included)."""
    steps = step_numbers(tables)[start:stop]
    if not len(steps):
        return Window((), slice(0, 0))
    of_rows = tables.responses["step"].to_numpy()
    rows = slice(
        int(np.searchsorted(of_rows, steps[0], "left")),
        int(np.searchsorted(of_rows, steps[-1], "right")),
    )
    return Window(tuple(steps.tolist()), rows)


def step_numbers(tables: Tables) -> Ints:
    """Return the run's steps, int64, ascending."""
    return tables.steps["step"].to_numpy(dtype=np.int64)


def first_and_last(tables: Tables, trend: Trend) -> tuple[Window, Window] | None:
    """Return the first and the last window, or None if the run is too short to judge."""
    steps = len(tables.steps)
    if steps < trend.shortest_run:
        return None
    size = window_size(steps, trend.share, trend.least_steps)
    return window(tables, 0, size), window(tables, steps - size, steps)


def last(tables: Tables, trend: Trend) -> Window:
    """Return the last window; a run too short for a trend is one window."""
    steps = len(tables.steps)
    size = (
        steps if steps < trend.shortest_run else window_size(steps, trend.share, trend.least_steps)
    )
    return window(tables, steps - size, steps)


def whole(tables: Tables) -> Window:
    """Return the window of all steps."""
    return window(tables, 0, len(tables.steps))
