"""Checks of batches: sizes of groups, the order of prompts, and steps that recur."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import quantities
from rlreport.check.check import ANY_REWARD, Check, Need
from rlreport.check.evidence import Ranking, where_known
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.laws import NOT_OBSERVED, Figure, figures_by_block
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats, Ints
from rlreport.summarise.steps import most_common
from rlreport.text.messages import translatable


class _UnevenGroups(Limits):
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of groups",
        "share whose size is not a multiple of the usual one",
    )


@Check(
    name="groups of different sizes",
    rank=Rank.NOTE,
    charts=("groups",),
    limits=_UnevenGroups,
    title="{share:percent} of groups differ from the usual size of {size} ({low} to {high}).",
    why="A group that lacks responses has another baseline than the trainer's full one.",
    suggestion="See whether rollouts failed, were filtered or are missing in the log.",
    needs_also="group_id",
)
def uneven_groups(check: Check, run: Run) -> Result:
    """Note that groups do not have their usual number of responses, or a multiple of it."""
    sizes = _sizes_of_groups(run)
    usual = most_common(sizes.to_numpy(np.int64))
    if usual is None:
        return check.not_run(check.needs_also)
    is_uneven = _uneven(run, sizes, usual)
    # Of each response, NaN if its group is not judged
    group = run.responses["group"]
    uneven = np.asarray(group.map(is_uneven.astype(np.float64)), np.float64)
    # The first response of a group stands for it, so that each group counts once.
    is_first = ~group.duplicated().to_numpy(bool)
    by_group = np.where(is_first, uneven, np.nan)

    def share_of_uneven(window: Window) -> Figure:
        """Return the share of the groups of a block of steps that are uneven."""
        of_window = by_group[window.rows]
        if not np.isfinite(of_window).any():
            return NOT_OBSERVED
        share = mean(of_window)
        return Figure(share, run.limits.test(_UnevenGroups.share, ">", share).met)

    share = mean(by_group)
    tested = run.limits.test(_UnevenGroups.share, ">", share)
    if not tested.met:
        return Result(tested=(tested,))
    blocks = figures_by_block(run, share_of_uneven, among=np.isfinite(uneven))
    of_uneven = sizes[is_uneven]
    size_of_row = group.map(sizes).to_numpy(np.float64)
    return check.found(
        run,
        Severity.INFO,
        [tested],
        {
            "share": share,
            "size": usual,
            "low": int(of_uneven.min()),
            "high": int(of_uneven.max()),
        },
        Ranking(size_of_row, uneven, highest=False, unit="responses"),
        onset=blocks.onset if blocks.is_violated else None,
        until=blocks.until if blocks.is_violated else None,
        steps=blocks.steps or None,
    )


def _sizes_of_groups(run: Run) -> pd.Series:
    """Return the number of responses of each group with a logged id, indexed by group.

    Several rows of one rollout count once. The last step may not be complete.
    """
    rows = run.responses[["step", "group", "group_hash", "rollout"]]
    is_complete = rows["step"] < run.steps[-1]
    rows = rows[is_complete & (rows["group_hash"] != 0)]
    # Rows of no rollout are one each.
    alone = pd.Series(-1.0 - np.arange(len(rows)), index=rows.index)
    rollout = rows["rollout"].fillna(alone)
    sizes: pd.Series = (
        rows.assign(rollout=rollout).groupby("group")["rollout"].nunique()
    )
    return sizes


def _uneven(run: Run, sizes: pd.Series, usual: int) -> pd.Series:
    """Return which groups do not have a multiple of the usual size, bool, indexed by group.

    The responses of a group may come in several steps: then they are counted together.
    """
    ids = run.responses.groupby("group")["group_hash"].first()[sizes.index]
    total = sizes.groupby(ids).transform("sum")
    return (sizes % usual > 0) & (total % usual > 0)


class _OrderRepeated(Limits):
    steps = Limit(
        5,
        LimitKind.COUNT,
        "steps",
        "consecutive steps with the prompts of earlier ones in the same order",
        translatable("open-instruct#1523: the data loader starts anew after a resume"),
    )
    prompts = Limit(4, LimitKind.COUNT, "prompts", "least number in such a step")


@Check(
    name="prompts that come again in the same order",
    rank=Rank.NOTE,
    needs=(Need("prompt", ("prompt_id",)),),
    charts=("reward",),
    limits=_OrderRepeated,
    title="Steps {start} to {end} have the same prompts as steps {earlier_start} to {earlier_end}, "
    "in the same order.",
    why="The data loader started anew, as after a resume, or each epoch has the same order.",
    suggestion="See whether the run was resumed without its data state, and shuffle each epoch.",
)
def order_repeated(check: Check, run: Run) -> Result:
    """Note that steps have the prompts of earlier steps, in the same order."""
    lags = _lags(run)
    # Where the lag changes, a new stretch of steps begins.
    starts = np.flatnonzero(np.diff(lags, prepend=-1))
    stops = np.append(starts[1:], len(lags))
    lengths = np.where(lags[starts] > 1, stops - starts, 0)
    longest = int(np.argmax(lengths)) if len(lengths) else 0
    length = int(lengths[longest]) if len(lengths) else 0
    tested = run.limits.test(_OrderRepeated.steps, ">=", length)
    if not tested.met:
        return Result(tested=(tested,))
    start = int(starts[longest])
    steps = run.steps[start : int(stops[longest])]
    lag = int(lags[start])
    earlier = run.steps[start - lag :]
    end = int(steps[-1])
    return check.found(
        run,
        Severity.INFO,
        [tested],
        {
            "start": int(steps[0]),
            "end": end,
            "earlier_start": int(earlier[0]),
            "earlier_end": int(earlier[length - 1]),
        },
        onset=int(steps[0]),
        until=None if end == run.steps[-1] else end,
        steps=steps.tolist(),
    )


def _lags(run: Run) -> Ints:
    """Return how many steps ago each step's prompts came in the same order, 0 if never, (S,).

    The last time counts. Steps with few prompts have 0.
    """
    least = run.limits[_OrderRepeated].prompts
    rows = run.responses[["step", "prompt_id"]].drop_duplicates()
    seen: dict[tuple[int, ...], int] = {}
    lags = np.zeros(len(run.steps), np.int64)
    steps = np.searchsorted(run.steps, rows["step"].to_numpy(np.int64))
    bounds = np.searchsorted(steps, np.arange(len(run.steps) + 1))
    prompts = rows["prompt_id"].to_numpy(np.int64)
    for index, (low, high) in enumerate(pairwise(bounds.tolist())):
        order = tuple(prompts[low:high].tolist())
        if len(order) < least:
            continue
        if order in seen:
            lags[index] = index - seen[order]
        seen[order] = index
    return lags


class _RecurringDrops(Limits):
    lost = Limit(
        0.95,
        LimitKind.SHARE,
        "of the reward",
        "what the median drop loses of the level around it, above the lowest reward (warning); "
        "harder tasks may earn less",
        translatable("NeMo-RL#1443: the step after each validation samples nonsense"),
    )
    least = Limit(
        0.3, LimitKind.SHARE, "of the reward", "the same, of the smallest drop"
    )
    times = Limit(4, LimitKind.COUNT, "drops", "least number of drops")
    validated = Limit(
        3, LimitKind.COUNT, "drops", "the same, of drops that follow validations"
    )
    sigmas = Limit(
        6.0, LimitKind.RATIO, "times", "drop over the usual scatter of neighbours"
    )
    kept = Limit(
        0.8,
        LimitKind.SHARE,
        "of steps",
        "share of the steps at that distance which have a drop, and of drops at that distance",
    )


class _Drops(NamedTuple):
    """Steps whose reward is far below that of the steps around them."""

    places: Ints  # index in the series, ascending, int64 (drops,)
    levels: Floats  # median of the steps around each, float64 (drops,)
    lost: Floats  # part of that level above the lowest reward that is lost, (drops,)


# The level around a step is the median of so many steps before and after it
_AROUND = 4
# A distance of two steps is that of two kinds of batches that take turns
_LEAST_DISTANCE = 3


@Check(
    name="drops at equal distances",
    rank=Rank.CAUSE,
    needs=(ANY_REWARD,),
    charts=("reward",),
    limits=_RecurringDrops,
    title={
        "usual": "Once every {distance} steps the reward drops to {low:figure} ({level:figure} in "
        "the steps around), first in steps {at}.",
        "validation": "Once every {distance} steps, right after validation, the reward drops to "
        "{low:figure} ({level:figure} in the steps around), first in steps {at}.",
    },
    statement={
        "usual": "once every {distance} steps the reward drops to {low:short}",
        "validation": "once every {distance} steps, after validation, the reward drops to "
        "{low:short}",
    },
    why="What recurs like this is no chance: the sampler may be wrong after a validation or a "
    "saved checkpoint, or such a batch has other data.",
    suggestion="See what the trainer did right before such a step, and read its responses.",
    of_reward=True,
)
def recurring_drops(check: Check, run: Run) -> Result:
    """Find that the reward drops far in single steps at equal distances."""
    limits = _RecurringDrops
    reward = quantities.reward(run).without_gaps()
    drops = _drops(run, reward)
    steps = reward.steps[drops.places]
    is_validated = _follow_validations(run, steps)
    least = limits.validated if is_validated else limits.times
    count = run.limits.test(least, ">=", len(steps))
    distance = _distance(run, reward, steps) if count.met else None
    if distance is None:
        return Result(tested=(count,))
    usual_loss = float(np.median(drops.lost))
    lost = run.limits.test(limits.lost, ">=", usual_loss)
    severity = Severity.WARNING if lost.met else Severity.INFO
    is_there = np.isin(run.steps[run.step_index], steps)
    rewards = run.column("reward")
    return check.found(
        run,
        severity,
        [count, lost],
        {
            "kind": "validation" if is_validated else "usual",
            "distance": distance,
            "low": float(np.median(reward.values[drops.places])),
            "level": float(np.median(drops.levels)),
            "at": tuple(steps[:_MOST_NAMED].tolist()),
        },
        Ranking(rewards, where_known(rewards, is_there), highest=False),
        series=reward,
        onset=int(steps[0]),
        steps=steps.tolist(),
    )


# So many steps are named
_MOST_NAMED = 4


def _drops(run: Run, reward: Series) -> _Drops:
    """Return the steps whose reward is far below the median of those around them."""
    values = reward.values
    if len(values) < 2:
        nothing = np.empty(0)
        return _Drops(nothing.astype(np.int64), nothing, nothing)
    beyond_ends = np.full(_AROUND, np.nan)
    padded = np.concatenate([beyond_ends, values, beyond_ends])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1)
    levels = np.nanmedian(np.delete(windows, _AROUND, axis=1), axis=1)
    depth = levels - values
    # Half of all steps are nearer to the level around them than this.
    usual = float(np.median(np.abs(depth)))
    room = levels - min(0.0, float(values.min()))
    unknown = np.full(len(values), np.nan)
    lost = np.divide(depth, room, out=unknown, where=room > 0)
    limits = run.limits[_RecurringDrops]
    is_drop = (depth > limits.sigmas * usual) & (lost >= limits.least)
    places = np.flatnonzero(is_drop)
    return _Drops(places, levels[places], lost[places])


def _distance(run: Run, reward: Series, steps: Ints) -> int | None:
    """Return the number of steps from each drop to the next one, None if they are not equal."""
    least = run.limits[_RecurringDrops].kept
    distance = int(np.median(np.diff(steps)))
    if distance < _LEAST_DISTANCE * int(np.diff(reward.steps).min()):
        return None
    # Most drops are at that distance from each other, and most steps there are drops.
    phases = steps % distance
    phase = int(np.bincount(phases).argmax())
    regular = steps[phases == phase]
    is_due = (reward.steps >= regular[0]) & (reward.steps % distance == phase)
    is_kept = len(regular) >= least * max(len(steps), int(is_due.sum()))
    return distance if is_kept else None


def _follow_validations(run: Run, steps: Ints) -> bool:
    """Return whether these steps are the next ones after most validations."""
    validation = quantities.validation(run)
    if validation is None or not len(steps):
        return False
    places = np.searchsorted(run.steps, steps)
    before = run.steps[np.maximum(places - 1, 0)]
    follow = np.isin(before, validation.steps)
    # The run may end with a validation.
    least = run.limits[_RecurringDrops].kept * (len(validation.steps) - 1)
    return len(steps) >= least and bool(follow.all())
