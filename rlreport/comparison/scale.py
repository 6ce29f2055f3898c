"""Whether the rewards of two sides can be compared: their scale, and whose means they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.means import Means, effect_on
from rlreport.comparison.statistics import Effect
from rlreport.figures.rounding import rounded

REFERENCE = "ref_reward"
TRAINER_REWARD = f"{TRAINER}reward"

# The rewards of the reference differ if this is rarer by chance...
_MOST_P = 0.01
# ... and the difference is at least this part of the effect, and of what its rewards vary by
_LEAST_SHARE = 0.1
# Means differ by more than rounding and weights of prompts if by this part of the range of rewards
_SAMPLED_SHARE = 0.01


class Levels(NamedTuple):
    """A mean of BASE and of NEW in their windows."""

    base: float
    new: float


class PartNames(NamedTuple):
    """Names of the parts of the reward that only one side logs."""

    base: list[str]
    new: list[str]


def reference_levels(means: Means, effect: Effect) -> Levels | None:
    """Return what the reference's responses earn if they earn another reward in NEW than in BASE.

    The reference and the prompts are the same on both sides, so that its rewards differ only if
    the rewards are computed differently. None if they do not, or if that is not known.
    """
    if not effect.paired or not means.have(REFERENCE):
        return None
    of_reference = effect_on(means, REFERENCE, paired=True)
    base_table = _earned_by_reference(means.bases)
    new_table = _earned_by_reference(means.news)
    shared = base_table.index.intersection(new_table.index)
    base = base_table.loc[shared].mean(axis=1)
    new = new_table.loc[shared].mean(axis=1)
    # It is NaN only of a single prompt.
    spread = max(base.std(), new.std(), abs(effect.value))
    is_large = abs(of_reference.value) >= _LEAST_SHARE * spread
    if not of_reference.is_shown or of_reference.p >= _MOST_P or not is_large:
        return None
    return Levels(rounded(base.mean()), rounded(new.mean()))


def _earned_by_reference(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the reference's rewards on the prompts that all of some runs have, a column a run."""
    columns = [run[REFERENCE] for run in runs]
    return pd.concat(columns, axis=1, join="inner").dropna()


def levels_of_trainer(
    inside: Sequence[pd.DataFrame], trainer: Sequence[pd.DataFrame], base_count: int
) -> Levels | None:
    """Return the trainer's mean rewards in the windows if they are others than of the responses.

    They are others where only a sample of a step's responses is logged.

    Args:
        inside: the responses of each run in its window, the BASE runs first.
        trainer: the trainer's metrics there, likewise.
        base_count: number of BASE runs.
    """
    if not all(TRAINER_REWARD in metrics for metrics in trainer):
        return None
    of_trainer = [metrics[TRAINER_REWARD].mean() for metrics in trainer]
    logged = [frame.groupby("step")["reward"].mean().mean() for frame in inside]
    rewards = pd.concat([frame["reward"] for frame in inside])
    least = _SAMPLED_SHARE * (rewards.max() - rewards.min())
    differences = np.abs(np.subtract(of_trainer, logged))
    if not np.isfinite(differences).all() or not (differences > least).any():
        return None
    base = float(np.mean(of_trainer[:base_count]))
    new = float(np.mean(of_trainer[base_count:]))
    return Levels(rounded(base), rounded(new))


def parts_that_differ(frames: Sequence[pd.DataFrame], base_count: int) -> PartNames:
    """Return the reward parts that all runs of a side log and no run of the other side does.

    Without parts on one side nothing is returned: it may log none.
    """
    names = [_logged_parts(frame) for frame in frames]
    if not all(names):
        return PartNames([], [])
    bases = names[:base_count]
    news = names[base_count:]
    return PartNames(
        sorted(set.intersection(*bases).difference(*news)),
        sorted(set.intersection(*news).difference(*bases)),
    )


def _logged_parts(frame: pd.DataFrame) -> set[str]:
    """Return the names of the reward parts of which a table has any value."""
    return {
        str(column).removeprefix(PART)
        for column in frame
        if str(column).startswith(PART) and frame[column].notna().any()
    }
