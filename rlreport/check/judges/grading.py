"""Checks of the grader: equal responses earn equal rewards, and the best one is still earned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import means, progress
from rlreport.check.check import RESPONSE, REWARD, Check
from rlreport.check.evidence import Ranking, where_known
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.laws import (
    LEAST_ROWS,
    BlockFigures,
    Bools,
    Figure,
    blocks,
    figures_by_block,
    found_in_blocks,
)
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.progress import SAME_REWARD
from rlreport.check.run import Run, once_per_run
from rlreport.check.settings import SettingKind, see
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.significance import share_difference_z

# With fewer values, the best reward is simply that of a right answer
LEAST_VALUES = 3
# The first and the last fifth of the blocks say how often the best reward is earned.
END_PARTS = 5
# An inconsistent reward of so few values is no opinion of a judge
MOST_VALUES = 3
# One pair of equal responses with two rewards may be a slip of the log
LEAST_SETS = 2


class _BestRewardGone(Limits):
    loss = Limit(
        0.75,
        LimitKind.SHARE,
        "of that share",
        "loss of the share of responses with the best reward",
    )
    early = Limit(
        0.05,
        LimitKind.SHARE,
        "of responses",
        "least share with the best reward at first",
    )
    z = Limit(4.0, LimitKind.ERRORS, "std errors", "least significance of that loss")


@Check(
    name="best reward no longer earned",
    rank=Rank.CAUSE,
    needs=(REWARD,),
    charts=("reward",),
    limits=_BestRewardGone,
    title="{share:percent} of responses earn the best reward, {before:percent} at first, while the "
    "mean reward rose from {start:figure} to {end:figure}.",
    statement="the best reward is hardly earned any more, though the mean rises",
    why="Doing nothing pays better than trying: the policy avoids penalties and solves less.",
    suggestion="Make the penalty of a failed try smaller, or the reward of a success larger.",
    advice=see(SettingKind.GRADER),
    of_reward=True,
    trend=True,
)
def best_reward_gone(check: Check, run: Run) -> Result:
    """Find that the best reward became rare while the mean reward rose."""
    limits = run.limits[_BestRewardGone]
    reward = run.column("reward")
    is_graded = np.isfinite(reward)
    if len(np.unique(reward[is_graded])) < LEAST_VALUES:
        return check.not_run("a reward of three or more values")
    is_best = np.where(is_graded, reward >= np.nanmax(reward) - SAME_REWARD, np.nan)
    windows = blocks(run, among=is_graded)
    if len(windows) < 2:
        return Result()
    at_an_end = math.ceil(len(windows) / END_PARTS)
    start = _joined(windows[:at_an_end])
    end = _joined(windows[-at_an_end:])
    before = mean(is_best[start.rows])
    share = mean(is_best[end.rows])
    if before < limits.early:
        return Result()
    counts = [int(is_graded[window.rows].sum()) for window in (start, end)]
    z = share_difference_z(before, counts[0], share, counts[1])
    tested = run.limits.test(_BestRewardGone.loss, ">", 1 - share / before)
    # A jump between steps is no noise here.
    rise = means.change(run, reward, first=start, last=end, by_step=False)
    if not (tested.met and z < -limits.z and rise.rose):
        return Result(tested=(tested,))
    losses = [1 - mean(is_best[window.rows]) / before for window in windows]
    by_block = BlockFigures(run, windows, _lasting(losses, limits.loss), False)
    facts = {"share": share, "before": before, "start": rise.first, "end": rise.last}
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        facts,
        _avoiding(reward, is_best),
        onset=by_block.onset,
        steps=by_block.steps,
    )


def _avoiding(reward: Floats, is_best: Floats) -> Ranking:
    """Return how to choose responses with neither the best nor the lowest reward.

    The mean rose with these: they avoid what is punished, and do not solve the task.
    """
    is_lowest = reward <= np.nanmin(reward) + SAME_REWARD
    among = np.where(is_lowest, np.nan, 1 - is_best)
    return Ranking(reward, among, unit="reward")


def _joined(windows: Sequence[Window]) -> Window:
    """Return consecutive windows as one."""
    steps: list[int] = []
    for window in windows:
        steps += window.steps
    start = windows[0].rows.start
    stop = windows[-1].rows.stop
    return Window(tuple(steps), slice(start, stop))


def _lasting(losses: Sequence[float], limit: float) -> tuple[Figure, ...]:
    """Return the losses of blocks; violated are the last one, and those that lead to it."""
    figures = [Figure(losses[-1], is_violated=True)]
    for loss in reversed(losses[:-1]):
        follows = figures[-1].is_violated
        figures.append(Figure(loss, follows and loss > limit))
    return tuple(reversed(figures))


class _GraderInconsistent(Limits):
    share = Limit(
        0.02,
        LimitKind.SHARE,
        "of sets of equal responses",
        "share whose rewards differ",
    )
    spread = Limit(
        0.02,
        LimitKind.RATIO,
        "std of reward",
        "least difference of the rewards of equal responses",
    )


class EqualResponses(NamedTuple):
    """Sets of equal responses to one prompt in one step, two or more each.

    Attributes:
        is_first: which responses are the first of a set, bool (rows,).
        set_of: the number of the set of each response, int64 (rows,); -1 for responses that no
            other one equals.
        spread: highest minus lowest reward of the set of each response, float64 (rows,); NaN
            without a set.
        is_unequal: which responses are in a set whose rewards differ by more than the threshold,
            bool (rows,).
    """

    is_first: Bools
    set_of: Ints
    spread: Floats
    is_unequal: Bools

    @property
    def set_count(self) -> int:
        """The number of sets."""
        return int(self.is_first.sum())

    @property
    def unequal_count(self) -> int:
        """The number of sets whose rewards differ."""
        return int((self.is_first & self.is_unequal).sum())


@Check(
    name="equal responses earn different rewards",
    rank=Rank.CAUSE,
    needs=(REWARD, RESPONSE),
    charts=("reward",),
    limits=_GraderInconsistent,
    title="{sets:count} of {of:count} sets of equal responses to one prompt in one step have "
    "different rewards.",
    statement="equal responses earn different rewards",
    why="The advantage of such a response is noise of the grader, or rewards were mixed up.",
    suggestion="Grade these responses again: time limits, a judge's temperature, state of the "
    "grader.",
    advice=see(SettingKind.GRADER),
    explains=("reward_stalled",),
)
def grader_inconsistent(check: Check, run: Run) -> Result:
    """Find that equal responses to one prompt in one step earn different rewards."""
    limits = run.limits[_GraderInconsistent]
    if np.isfinite(run.column("reward")).sum() < LEAST_ROWS:
        return Result()
    equal = equal_responses(run)
    # One value per set, at its first response
    differs = np.where(equal.is_first, equal.is_unequal.astype(np.float64), np.nan)

    def share_of_sets(window: Window) -> Figure:
        of_window = differs[window.rows]
        count = np.nansum(of_window)
        share = mean(of_window)
        return Figure(share, count >= LEAST_SETS and share > limits.share)

    whole = run.window(0, len(run.steps))
    of_run = share_of_sets(whole)
    tested = run.limits.test(_GraderInconsistent.share, ">", of_run.value)
    if not of_run.is_violated:
        return Result(tested=(tested,) if np.isfinite(of_run.value) else ())
    by_block = figures_by_block(run, share_of_sets)
    if not by_block.is_violated:
        by_block = BlockFigures(run, (whole,), (of_run,), since_first=False)
    return found_in_blocks(
        check,
        by_block,
        (tested,),
        {"sets": equal.unequal_count, "of": equal.set_count},
        Ranking(equal.spread, where_known(equal.spread, equal.is_unequal)),
        severity=Severity.WARNING if _is_rule_based(run) else Severity.INFO,
    )


@once_per_run
def equal_responses(run: Run) -> EqualResponses:
    """Return the sets of equal responses with rewards, and whether their rewards differ.

    Where a prompt was cut in the log, or is a picture, several tasks share its text: sets of which
    one response hits its label and another does not are left out. So are rows that are parts of
    rollouts, and conversations: what follows the text, or what tools did, decides on their reward.
    """
    rows = run.responses
    is_usable = np.isfinite(run.column("reward")) & (run.column("response_chars") > 0)
    rollout = rows["rollout"]
    is_part = rollout.notna() & rollout.duplicated(keep=False)
    is_usable &= ~is_part.to_numpy(bool)
    is_usable &= ~(run.column("turns") > 1)
    keys = ["group", "prompt_id", "response_hash"]
    usable = rows.loc[is_usable, [*keys, "reward", "label_hit"]]
    sets = usable.groupby(keys, sort=False)
    size = sets["reward"].transform("size")
    spread = sets["reward"].transform("max") - sets["reward"].transform("min")
    one_label = ~(sets["label_hit"].transform("nunique") > 1)
    is_set = (size > 1) & one_label
    is_first = is_set & (sets.cumcount() == 0)
    everywhere = pd.DataFrame(
        {
            "first": is_first,
            "set": sets.ngroup().where(is_set),
            "spread": spread.where(is_set),
        }
    )
    everywhere = everywhere.reindex(rows.index)
    spreads = everywhere["spread"].to_numpy(np.float64)
    least = run.limits[_GraderInconsistent].spread * means.spread(run)
    return EqualResponses(
        is_first=everywhere["first"].eq(True).to_numpy(bool),
        set_of=everywhere["set"].fillna(-1).to_numpy(np.int64),
        spread=spreads,
        is_unequal=spreads > least,
    )


def _is_rule_based(run: Run) -> bool:
    """Return whether the reward surely is a rule's, which grades equal responses alike."""
    reward = run.column("reward")
    values = np.unique(reward[np.isfinite(reward)])
    return progress.labels_contained(run) is not None or len(values) <= MOST_VALUES
