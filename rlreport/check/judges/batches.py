"""Checks of how a step's batch is made up: sizes of groups, and the order of prompts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from rlreport.check.check import Check, Need
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Rank, Result, Severity
from rlreport.check.laws import NOT_OBSERVED, Figure, figures_by_block
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.figures.ragged import Ints
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
