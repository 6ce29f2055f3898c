"""Random healthy runs to plant faults in: curves, noise, sizes, and what is logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.family import Random

Floats = NDArray[np.float64]

SIZES = ((2, 8), (4, 4), (4, 8), (8, 4), (8, 8), (16, 4))
"""Prompts a step, responses a prompt."""


@dataclass(frozen=True)
class Sizes:
    """So many steps, prompts a step and responses a prompt; steps are counted from 1."""

    steps: int
    prompts: int
    group: int

    @property
    def responses(self) -> int:
        """Responses of a step."""
        return self.prompts * self.group

    @property
    def time(self) -> Floats:
        """How much of the run is over at each step, from 0 to 1, (steps,)."""
        return np.linspace(0.0, 1.0, self.steps)


def random_sizes(random: Random, least: int = 30, most: int = 120) -> Sizes:
    """Return a usual size; short runs are more frequent than long ones."""
    steps = int(np.exp(random.uniform(np.log(least), np.log(most))))
    prompts, group = SIZES[random.integers(len(SIZES))]
    return Sizes(steps, prompts, group)


def _saturating(time: Floats, pace: float) -> Floats:
    return (1 - np.exp(-time / pace)) / (1 - np.exp(-1 / pace))


def _late(time: Floats, pace: float) -> Floats:
    return 1 / (1 + np.exp(-(time - 0.5) / (0.05 + pace / 5)))


def _linear(time: Floats, pace: float) -> Floats:
    return np.asarray(time)


def _two_stages(time: Floats, pace: float) -> Floats:
    first = np.clip(time / 0.25, 0, 1)
    second = np.clip((time - 0.5) / 0.3, 0, 1)
    return 0.5 * first + 0.5 * second


CURVES: tuple[Callable[[Floats, float], Floats], ...] = (
    _saturating,
    _late,
    _linear,
    _two_stages,
)


def learning_curve(random: Random, sizes: Sizes) -> Floats:
    """Return how much of its gain a run has made at each step, about 0 to 1, (steps,)."""
    shape = CURVES[random.integers(len(CURVES))]
    return shape(sizes.time, random.uniform(0.1, 0.5))


def wander(random: Random, steps: int, deviation: float) -> Floats:
    """Return noise that neighbouring steps share, as batches and updates make it, (steps,)."""
    rho = random.choice([0.0, 0.5, 0.8])
    innovations = random.normal(0, deviation * np.sqrt(1 - rho**2), steps)
    values = np.empty(steps)
    level = random.normal(0, deviation)
    for step in range(steps):
        level = rho * level + innovations[step]
        values[step] = level
    return values


def begins(
    random: Random, sizes: Sizes, low: float = 0.3, high: float = 0.6
) -> tuple[int, int]:
    """Return the indices of the steps at which a change begins and is complete."""
    start = int(random.uniform(low, high) * sizes.steps)
    width = int(random.uniform(0.02, 0.2) * sizes.steps)
    return start, start + max(width, 1)


def rise_between(sizes: Sizes, start: int, stop: int) -> Floats:
    """Return a change from 0 before the index ``start`` to 1 from ``stop`` on, (steps,)."""
    steps = np.arange(sizes.steps)
    return np.interp(steps, [start, stop], [0.0, 1.0])


def onset_between(start: int, stop: int) -> tuple[int, int]:
    """Return the steps at which a change between two indices may be said to begin.

    From one step before the first that differs, to the middle of the change and two more: there it
    is half as large as it becomes.
    """
    return max(1, start), (start + stop) // 2 + 1 + 2


def lengths(random: Random, by_step: Floats, each: int) -> Floats:
    """Return numbers of tokens around a mean of each step, (steps × each,)."""
    spread = random.uniform(0.2, 0.5)
    means = np.repeat(by_step, each)
    drawn = means * np.exp(random.normal(-(spread**2) / 2, spread, means.size))
    return np.maximum(np.round(drawn), 1.0)
