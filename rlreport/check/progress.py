"""What a run achieved: whether it learned, whether its tasks are solved, where it has no signal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.check import means, quantities
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import ROUNDING, Run, has, once_per_run
from rlreport.figures.ragged import Floats

# A reward with more distinct values is taken for that of a reward model
MAX_RULE_VALUES = 8
# Rewards that differ by no more than this are equal but for rounding
SAME_REWARD = 1e-9

# If right answers rose by less than this part of the reward's rise, the rest is the format
FORMAT_PART = 1 / 3
# Answers are right in so many of the first responses with the lowest reward,
UNPAID = 0.2
# which are at least so many,
LEAST_UNPAID = 30
# and late responses with the best reward still are
RIGHT_AT_LAST = 0.9

# Where a run is solved, the share may be lower by this at its first and last steps, by chance
LOWER_AT_ENDS = 0.02
# These are a tenth of the steps at both ends, and at least three
END_PARTS = 10
LEAST_END = 3


class RewardStalled(Limits):
    """Thresholds of ``reward_stalled``."""

    solved = Limit(
        0.95,
        LimitKind.SHARE,
        "of responses",
        "share with the best reward, in every step: nothing left to learn",
    )


@once_per_run
def learned(run: Run) -> bool:
    """Return whether the reward, its gap to the reference, or a watched score clearly rose.

    A rise that the curve of step means does not show may still show when the responses of the
    first and the last window are compared.
    """
    reward = quantities.reward_course(run)
    watched = quantities.watched_course(run)
    right = quantities.courses(run).get("accuracy")
    for course in (reward, watched, right):
        if course is not None and course.rose:
            return True
    # Rewards of logged responses do not overrule the trainer's own metric.
    if run.first is None or quantities.reward(run).source == "metrics":
        return False
    do_windows_overlap = run.first.steps[-1] >= run.last.steps[0]
    if do_windows_overlap:
        return False
    if means.change(run, run.column("reward_gap")).rose:
        return True
    # Recurring prompts are compared with themselves, and environments at the same mix.
    mix = means.mix(run, run.first, run.last)
    change = mix.same_mix if mix else means.change(run, run.column("reward"))
    return change.rose


@once_per_run
def solved(run: Run) -> bool:
    """Return whether nearly all responses, early and late, earn the run's best reward."""
    reward = run.column("reward")
    if not np.isfinite(reward).any():
        return False
    best = np.nanmax(reward)
    if np.nanmin(reward) == best:  # if all are equal, they may as well be the worst
        return False
    is_best = np.where(np.isfinite(reward), reward == best, np.nan)
    best_share = run.by_step(is_best)
    least = run.limits[RewardStalled].solved
    if mean(best_share) <= least:
        return False
    # The share of the whole run does not show a start below it, nor a loss at the end.
    size = max(len(best_share) // END_PARTS, LEAST_END)
    ends = (best_share[:size], best_share[-size:])
    return all(mean(end) > least - LOWER_AT_ENDS for end in ends)


@once_per_run
def silent(run: Run) -> Floats:
    """Return 1 at steps whose groups all have equal rewards, 0 at others; NaN if unknown, (S,).

    Such a step has no gradient but that of the KL penalty, which may be 0.
    """
    share = _silent_share(run)
    is_silent = np.where(np.isfinite(share), share >= 1 - ROUNDING, np.nan)
    is_silent[is_partly_silent(run)] = np.nan
    # A std of 0 over all rewards of a step means that those of each group are equal, too.
    spread = quantities.series_of(run, "reward_std")
    if spread is not None:
        is_silent[run.align(spread) == 0] = 1.0
    return is_silent


def _silent_share(run: Run) -> Floats:
    """Return the share of groups with equal rewards at each step, NaN if unknown, (S,)."""
    metric = quantities.series_of(run, "zero_variance")
    steps = run.tables.steps
    if metric is not None:
        return run.align(metric)
    if has(steps, "zero_variance_groups"):
        return steps["zero_variance_groups"].to_numpy(np.float64)
    return np.full(len(run.steps), np.nan)


@once_per_run
def is_partly_silent(run: Run) -> NDArray[np.bool_]:
    """Return at which logged steps it is open whether the gradient had groups to come from, (S,).

    A trainer that logs every few steps gives the mean share of groups with equal rewards over
    these, but the gradient norm of the last: in that one, all groups may have been equal.
    """
    metric = quantities.series_of(run, "zero_variance")
    nowhere = np.zeros(len(run.steps), np.bool_)
    if metric is None or len(metric.steps) < 2:
        return nowhere
    interval = np.median(np.diff(metric.steps))
    if interval < 2:
        return nowhere
    share = run.align(metric)
    return (share > 0) & (share < 1 - ROUNDING)


@once_per_run
def verifiable(run: Run) -> bool:
    """Return whether the reward seems rule-based: labels are logged, or it has few values."""
    reward = run.column("reward")
    values = np.unique(reward[np.isfinite(reward)])
    return labels_contained(run) is not None or len(values) <= MAX_RULE_VALUES


@once_per_run
def labels_contained(run: Run) -> float | None:
    """Return the fraction of the best late responses whose final answer is their label.

    These are the responses of the last window that earn its highest reward. None if fewer than
    half of the responses have a label to compare with, or none of the late ones has a reward.
    """
    hit = run.column("label_hit")
    has_label = np.isfinite(hit)
    if 2 * has_label.sum() < len(hit):
        return None
    late = run.last.rows
    reward = np.where(has_label, run.column("reward"), np.nan)[late]
    highest = np.nanmax(reward, initial=-np.inf)
    is_best = reward >= highest - SAME_REWARD
    if not is_best.any():
        return None
    return float((hit[late][is_best] == 1).mean())


def right_of_lowest(run: Run, rows: slice) -> float | None:
    """Return how many of some responses with the run's lowest reward are right by their label.

    None if fewer than ``LEAST_UNPAID`` of them have that reward.
    """
    hit = run.column("label_hit")
    reward = np.where(np.isfinite(hit), run.column("reward"), np.nan)
    lowest = np.nanmin(reward, initial=np.inf)
    of_lowest = hit[rows][reward[rows] <= lowest + SAME_REWARD]
    return mean(of_lowest) if len(of_lowest) >= LEAST_UNPAID else None


@once_per_run
def gained_format(run: Run) -> bool:
    """Return whether most of the reward's rise is the format of answers that were right before.

    The share of right answers then rose by less than a third of what the reward did, as a part of
    its range, and many of the first responses with the lowest reward were right.
    """
    contained = labels_contained(run)
    if run.first is None or contained is None or contained < RIGHT_AT_LAST:
        return False
    hit = run.column("label_hit")
    reward = np.where(np.isfinite(hit), run.column("reward"), np.nan)
    size = np.nanmax(reward) - np.nanmin(reward)
    unpaid = right_of_lowest(run, run.first.rows)
    if not size or unpaid is None or unpaid <= UNPAID:
        return False
    rise = means.change(run, reward)
    hit_of_rewarded = np.where(np.isfinite(reward), hit, np.nan)
    of_hits = means.change(run, hit_of_rewarded)
    share = rise.difference / size
    return rise.rose and of_hits.difference < FORMAT_PART * share
