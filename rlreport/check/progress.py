"""What a run achieved: whether it learned, whether its tasks are solved, where it has no signal."""

from __future__ import annotations

import numpy as np

from rlreport.check import means, quantities
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import ROUNDING, Run, has, once_per_run
from rlreport.figures.ragged import Floats

# A reward with more distinct values is taken for that of a reward model
MAX_RULE_VALUES = 8

# Where a run is solved, the share may be lower by this at its first and last steps, by chance
LOWER_AT_ENDS = 0.02


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
    """Return whether the reward, its gap to the reference, or a watched score clearly rose."""
    reward = quantities.reward_course(run)
    watched = quantities.watched_course(run)
    for course in (reward, watched):
        if course is not None and course.curve.rose:
            return True
    if run.first is None or quantities.reward(run).source == "metrics":
        return False
    if run.first.steps[-1] >= run.last.steps[0]:  # the windows overlap
        return False
    if means.change(run, run.column("reward_gap")).rose:
        return True
    # Recurring prompts are compared with themselves, and environments at the same mix.
    mix = means.mix(run, run.first, run.last)
    change = mix.same_mix if mix else means.change(run, run.column("reward"))
    return change.rose


@once_per_run
def solved(run: Run) -> bool:
    """Return whether nearly all responses, early and late, earn the best of several rewards."""
    reward = run.column("reward")
    if not np.isfinite(reward).any():
        return False
    best = np.nanmax(reward)
    if np.nanmin(reward) == best:
        return False
    is_best = np.where(np.isfinite(reward), reward == best, np.nan)
    share = run.by_step(is_best)
    size = max(len(share) // 10, 3)
    least = run.limits[RewardStalled].solved
    if mean(share) <= least:
        return False
    ends = (share[:size], share[-size:])
    return all(mean(end) > least - LOWER_AT_ENDS for end in ends)


@once_per_run
def silent(run: Run) -> Floats:
    """Return 1 at steps whose groups all have equal rewards, 0 at others; NaN if unknown, (S,).

    Such a step has no gradient but that of the KL penalty, which may be 0.
    """
    metric = quantities.series_of(run, "zero_variance")
    steps = run.tables.steps
    if metric is not None:
        share = run.align(metric)
    elif has(steps, "zero_variance_groups"):
        share = steps["zero_variance_groups"].to_numpy(np.float64)
    else:
        share = np.full(len(run.steps), np.nan)
    is_silent = np.where(np.isfinite(share), share >= 1 - ROUNDING, np.nan)
    spread = quantities.series_of(run, "reward_std")
    if spread is not None:
        is_silent[run.align(spread) == 0] = 1.0
    return is_silent


@once_per_run
def verifiable(run: Run) -> bool:
    """Return whether the reward seems rule-based: labels are logged, or it has few values."""
    reward = run.column("reward")
    values = np.unique(reward[np.isfinite(reward)])
    return labels_contained(run) is not None or len(values) <= MAX_RULE_VALUES


@once_per_run
def labels_contained(run: Run) -> float | None:
    """Return the fraction of the best late responses that contain their label; None if unknown."""
    words = run.tables.words
    if words is None or words.labels is None:
        return None
    labelled = words.labels >= 0  # whether the response contains it: 1 or 0; -1 without
    if 2 * labelled.sum() < len(words.rows):
        return None
    late = (words.rows >= run.last.rows.start) & labelled
    reward = run.column("reward")[words.rows]
    highest = np.nanmax(reward[late], initial=-np.inf)
    best = late & (reward >= highest - 1e-9)
    if not best.any():
        return None
    return float((words.labels[best] == 1).mean())
