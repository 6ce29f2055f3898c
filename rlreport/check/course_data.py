"""Data classes of the course of a quantity: windows, phases, the series it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Quantity = Literal["reward", "watched_reward", "kl", "length", "entropy"]
PhaseKind = Literal["rise", "flat", "fall", "dead", "recovery"]
SeriesSource = Literal["rollouts", "metrics"]


@dataclass(frozen=True, slots=True)
class WindowMean:
    """The mean of consecutive values, and the first and last step that they cover."""

    value: float
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch (first step, last step), and both ends of the line fitted to its values."""

    kind: PhaseKind
    steps: tuple[int, int]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a series changed over a run: first, best and last window, gain and loss, and phases."""

    # int64 and float64 (n,), the steps with a value and their values
    steps: NDArray[np.int64] = field(repr=False, compare=False)
    values: NDArray[np.float64] = field(repr=False, compare=False)
    window: int  # number of values in a window
    error: float  # standard error of the difference of two windows
    source: SeriesSource
    column: str  # in ``data/steps.csv`` or, of the trainer's metrics, in ``data/metrics.csv``
    lower_is_better: bool
    first: WindowMean
    best: WindowMean  # the earliest of equals
    last: WindowMean
    phases: tuple[Phase, ...]  # none of a single value
    direction: int  # 1 if the last window lies above the first beyond noise, -1 if below, else 0
    gained: bool  # whether the best window is better than the first one beyond noise and luck
    lost: bool  # whether the best window is better than the last one beyond noise and luck
    # whether the best window is better than the last one beyond luck alone
    slipped: bool

    @property
    def is_single(self) -> bool:
        """Whether there is only one value, which has no course."""
        return len(self.values) == 1

    @property
    def settled_since(self) -> int | None:
        """First step of the last phase if it is flat or dead, but not the only phase, else None."""
        if len(self.phases) < 2:
            return None
        end = self.phases[-1]
        return end.steps[0] if end.kind in ("flat", "dead") else None
