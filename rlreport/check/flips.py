"""Flips: responses that the second reward grades otherwise than the reward.

A reward with few distinct values, as rules have, grades answers: its highest value in the run is
right, all others are wrong. Of other rewards, what flips is a response's rank in the run.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.graded import BlockCounts, counts_by_block
from rlreport.check.laws import Bools
from rlreport.check.progress import MAX_RULE_VALUES, SAME_REWARD
from rlreport.check.run import Run, once_per_run
from rlreport.figures.ragged import Floats

# The effect is that on the last steps, this part of all
LAST = 0.1
# A response whose rank moves by less of the run's responses is no flip
LEAST_RANKS = 0.1


class Flip(StrEnum):
    """What a response is by the reward, and by the second reward."""

    BOTH_RIGHT = "both_right"
    LOST = "lost"  # right, but wrong by the second reward
    WON = "won"  # wrong, but right by the second reward
    BOTH_WRONG = "both_wrong"


class Effect(NamedTuple):
    """The means of both rewards over the responses of the last steps that have both."""

    steps: tuple[int, int]  # first and last
    rows: int
    reward: float
    second: float


class Flips(NamedTuple):
    """Both rewards of a run's training responses; arrays are (rows,).

    Attributes:
        reward: the reward, NaN in responses without both rewards.
        second: the second reward, NaN in the same responses.
        right: the values of either reward that count as right, None if ranks are compared.
        of: which responses are which flip; without right values LOST and WON only.
        moved: by which part of the run's responses the rank is higher by the second reward.
    """

    reward: Floats
    second: Floats
    right: tuple[float, float] | None
    of: dict[Flip, Bools]
    moved: Floats

    @property
    def is_known(self) -> Bools:
        """Which responses have both rewards."""
        return np.isfinite(self.reward)

    @property
    def agreement(self) -> float:
        """The share of responses that both rewards grade alike, or the correlation of their ranks.

        NaN without responses, and for ranks if all have the same.
        """
        known = self.is_known
        if self.right is not None:
            alike = self.of[Flip.BOTH_RIGHT] | self.of[Flip.BOTH_WRONG]
            return float(alike[known].mean()) if known.any() else math.nan
        ranks = pd.DataFrame({"x": self.reward, "y": self.second})[known].rank()
        return float(ranks["x"].corr(ranks["y"])) if len(ranks) > 1 else math.nan


@once_per_run
def flips(run: Run) -> Flips:
    """Return what the second reward changes; no response has both rewards without it."""
    reward = run.column("reward")
    second = run.column("valid_reward")
    known = np.isfinite(reward) & np.isfinite(second)
    reward = np.where(known, reward, np.nan)
    second = np.where(known, second, np.nan)
    moved = _ranks(second) - _ranks(reward)
    right = _right_values(reward[known], second[known])
    if right is None:
        of = {Flip.LOST: moved <= -LEAST_RANKS, Flip.WON: moved >= LEAST_RANKS}
        return Flips(reward, second, None, of, moved)
    was = reward >= right[0] - SAME_REWARD
    now = second >= right[1] - SAME_REWARD
    of = {
        Flip.BOTH_RIGHT: known & was & now,
        Flip.LOST: known & was & ~now,
        Flip.WON: known & ~was & now,
        Flip.BOTH_WRONG: known & ~was & ~now,
    }
    return Flips(reward, second, right, of, moved)


def _right_values(reward: Floats, second: Floats) -> tuple[float, float] | None:
    """Return the highest value of each reward, None if one of them does not grade answers.

    Both do if they have the same highest value, or two values each. If one has only values that the
    other has, too, both have one scale: a reward that is always 0 is always wrong if the other is 0
    or 1.
    """
    values = np.unique(reward)
    others = np.unique(second)
    if not len(values) or max(len(values), len(others)) > MAX_RULE_VALUES:
        return None
    both = np.union1d(values, others)
    if len(both) == 1:  # neither tells right from wrong
        return None
    if len(both) == max(len(values), len(others)):
        return float(both[-1]), float(both[-1])
    is_same = abs(values[-1] - others[-1]) <= SAME_REWARD
    if is_same or len(values) == len(others) == 2:
        return float(values[-1]), float(others[-1])
    return None


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value as a part of all, equal ones with their mean, NaN without.

    Where all values are the same, none has a rank.
    """
    if np.unique(values[np.isfinite(values)]).size < 2:
        return np.full(len(values), np.nan)
    return np.asarray(pd.Series(values).rank(pct=True), np.float64)


def effect(run: Run) -> Effect | None:
    """Return the means of both rewards over the last steps, None if no response there has both."""
    found = flips(run)
    count = max(1, math.ceil(LAST * len(run.steps)))
    window = run.window(len(run.steps) - count, len(run.steps))
    known = found.is_known[window.rows]
    if not known.any():
        return None
    return Effect(
        (window.steps[0], window.steps[-1]),
        int(known.sum()),
        float(found.reward[window.rows][known].mean()),
        float(found.second[window.rows][known].mean()),
    )


def flips_by_block(run: Run) -> list[BlockCounts[Flip]]:
    """Return how many responses of some steps are which flip, as ``outcomes_by_block`` does."""
    found = flips(run)
    return counts_by_block(run, found.is_known, found.of)
