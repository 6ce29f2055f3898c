"""The first and the last window of a run, a fifth of its steps each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.limits import Limit, Limits
from rlreport.figures.ragged import Ints
from rlreport.summarise.steps import LEAST_WINDOW, WINDOW_SHARE, window_size
from rlreport.tables import Tables


class Trend(Limits):
    """Thresholds of windows and of the changes between them."""

    share = Limit(WINDOW_SHARE, "of steps", "size of the first and of the last window")
    least_steps = Limit(LEAST_WINDOW, "steps", "least size of a window")
    shortest_run = Limit(5, "steps", "a shorter run is too short to judge")
    z = Limit(3.0, "std errors", "least significance of a difference of means")


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive steps: their numbers, ascending, and their rows of the response table."""

    steps: tuple[int, ...]
    rows: slice

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last step, None for an empty window."""
        return (self.steps[0], self.steps[-1]) if self.steps else None


def window(tables: Tables, start: int, stop: int) -> Window:
    """Return the window of the steps with indices from ``start`` to ``stop`` (exclusive)."""
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


def size_of_window(steps: int, trend: Trend) -> int:
    """Return the number of steps in each window, 0 if the run is too short to judge."""
    long = steps >= trend.shortest_run
    return window_size(steps, trend.share, trend.least_steps) if long else 0


def first_and_last(tables: Tables, trend: Trend) -> tuple[Window | None, Window]:
    """Return the first and the last window; of a short run, None and the window of all steps."""
    steps = len(tables.steps)
    if size := size_of_window(steps, trend):
        return window(tables, 0, size), window(tables, steps - size, steps)
    return None, whole(tables)


def whole(tables: Tables) -> Window:
    """Return the window of all steps."""
    return window(tables, 0, len(tables.steps))
