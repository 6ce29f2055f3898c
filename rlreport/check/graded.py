"""How answers were graded: rewards against labels, parts of the reward, equal responses.

The checks in ``judges.labels`` and ``judges.grading`` say whether something is wrong with it. Here
are the counts and the responses behind them, for readers who look at the grader themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rlreport.check.judges.grading import equal_responses
from rlreport.check.judges.labels import LEAST_ROWS, MOST_BLOCKS, labelled
from rlreport.check.laws import Bools, blocks
from rlreport.check.progress import SAME_REWARD
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats, Ints


class Outcome(StrEnum):
    """What a response earned, and whether its final answer is its label."""

    BEST_RIGHT = "best_right"
    BEST_WRONG = "best_wrong"
    LOW_RIGHT = "low_right"
    LOW_WRONG = "low_wrong"
    OTHER = "other"  # neither the best reward of the run nor the lowest
    # Of a run in which all earn the same, which is neither the best reward nor the lowest
    RIGHT = "right"
    WRONG = "wrong"


Kind = TypeVar("Kind", bound=StrEnum)


class BlockCounts(NamedTuple, Generic[Kind]):
    """How many responses of some steps are of which kind, such as which outcome they have.

    Attributes:
        steps: the first and the last of these steps.
        rows: the slice of the steps' responses in the table of training responses.
        known: how many of them are of a known kind: have a reward, and a label to compare with.
        counts: how many of these are of each kind.
    """

    steps: tuple[int, int]
    rows: slice
    known: int
    counts: dict[Kind, int]


class EqualSets(NamedTuple):
    """Equal responses to one prompt in one step, as sets of two or more.

    Attributes:
        set_count: the number of sets.
        unequal_count: the number of sets whose rewards differ.
        rows: the rows, in the table of training responses, of the responses in these sets, int64.
        set_of: the number of the set of each of them, int64.
        rewards: their rewards, float64.
    """

    set_count: int
    unequal_count: int
    rows: Ints
    set_of: Ints
    rewards: Floats


def outcomes(run: Run) -> dict[Outcome, Bools]:
    """Return which responses have each outcome, bool (rows,) each; none has two.

    Responses without a reward or a label to compare with have none.
    """
    of = labelled(run)
    right = of.hit == 1
    wrong = of.hit == 0
    low, high = reward_range(run)
    if not high - low > SAME_REWARD:
        return {Outcome.RIGHT: right, Outcome.WRONG: wrong}
    return {
        Outcome.BEST_RIGHT: of.is_best & right,
        Outcome.BEST_WRONG: of.is_best & wrong,
        Outcome.LOW_RIGHT: of.is_low & right,
        Outcome.LOW_WRONG: of.is_low & wrong,
        Outcome.OTHER: of.is_known & ~of.is_best & ~of.is_low,
    }


def reward_range(run: Run) -> tuple[float, float]:
    """Return the lowest and the highest reward of the run, both NaN without rewards."""
    reward = run.column("reward")
    finite = reward[np.isfinite(reward)]
    if not len(finite):
        return np.nan, np.nan
    return float(finite.min()), float(finite.max())


def outcomes_by_block(run: Run) -> list[BlockCounts[Outcome]]:
    """Return the outcomes in blocks of steps, see ``counts_by_block``."""
    return counts_by_block(run, labelled(run).is_known, outcomes(run))


def counts_by_block(
    run: Run, is_known: Bools, of_run: Mapping[Kind, Bools]
) -> list[BlockCounts[Kind]]:
    """Return counts in blocks of steps, if there are several, and last in the whole run.

    The blocks are those of the checks of labels. Without known responses, there is nothing.

    Args:
        run: the run.
        is_known: which responses are of a known kind, bool (rows,).
        of_run: which of them are of each kind, bool (rows,) each.
    """
    if not is_known.any():
        return []
    windows = blocks(run, among=is_known, least_rows=LEAST_ROWS, most=MOST_BLOCKS)
    whole = run.window(0, len(run.steps))
    several = windows if len(windows) > 1 else ()
    return [_in_block(window, is_known, of_run) for window in (*several, whole)]


def _in_block(
    window: Window, is_known: Bools, of_run: Mapping[Kind, Bools]
) -> BlockCounts[Kind]:
    counts = {kind: int(rows[window.rows].sum()) for kind, rows in of_run.items()}
    steps = (window.steps[0], window.steps[-1])
    return BlockCounts(steps, window.rows, int(is_known[window.rows].sum()), counts)


def equal_sets(run: Run) -> EqualSets:
    """Return the sets of equal responses; the check ``grader_inconsistent`` counts the same."""
    equal = equal_responses(run)
    rows = np.flatnonzero(equal.is_unequal)
    return EqualSets(
        set_count=equal.set_count,
        unequal_count=equal.unequal_count,
        rows=rows,
        set_of=equal.set_of[rows],
        rewards=run.column("reward")[rows],
    )


def rows_of_all(run: Run, rows: Ints, steps_of_all: Ints) -> Ints:
    """Return which rows of the table of all responses these training responses are, int64.

    Args:
        run: the run, whose responses are those of training.
        rows: rows of its responses.
        steps_of_all: the step of each response in the table of all, ascending.
    """
    responses = run.responses.iloc[rows]
    # A step's responses follow each other, numbered from 0 by ``n``.
    first_of_step = np.searchsorted(steps_of_all, responses["step"].to_numpy(np.int64))
    return np.asarray(first_of_step + responses["n"].to_numpy(np.int64), np.int64)
