"""Check of logged advantages against those that follow from rewards in their groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import progress
from rlreport.check.check import FAILURES, REWARD, Check, Need
from rlreport.check.curve import LEAST_LEVEL
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Onset, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean, median
from rlreport.check.run import Run
from rlreport.check.windows import TINY, Trend, correlation_within
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats, Ints
from rlreport.summarise.steps import FAR, advantage_fit, most_common, typical
from rlreport.text.messages import translatable

LOGGED = "advantage_logged_mean"
GRPO = translatable("DeepSeekMath (GRPO); TRL and verl: (r − μ) / (σ + ε)")
# The mean advantage of groups is 0 if it is below this part of their size
CENTRED = 0.01


class _AdvantageMismatch(Limits):
    sign = Limit(
        -0.5,
        LimitKind.VALUE,
        "",
        "correlation of logged advantages with recomputed ones",
        GRPO,
    )
    own = Limit(
        0.5,
        LimitKind.VALUE,
        "",
        "that correlation, if advantages fit other rows or fitted before",
    )
    other = Limit(
        0.8,
        LimitKind.VALUE,
        "",
        "correlation with the neighbouring row, or with the own row before",
    )
    offset = Limit(
        0.25,
        LimitKind.SHARE,
        "of their size",
        "mean advantage of groups (RMS) if it was 0 before",
        GRPO,
    )
    far = Limit(
        FAR,
        LimitKind.RATIO,
        "times",
        "an advantage that its reward does not explain, over the median",
    )


class _Advantages(NamedTuple):
    """The advantages of a run beside those computed from its rewards."""

    usual: Floats  # as logged, NaN for those that are far too large, (rows,)
    size: float  # typical size of the logged ones
    recomputed: Floats  # (rows,)
    error: Floats  # size of what rewards do not explain, (rows,)
    fit: Floats  # correlation of logged and recomputed ones by step, (S,)
    offset: Floats  # mean advantage of groups over their size by step, (S,)
    far: Floats  # largest unexplained advantage over the typical one by step, (S,)


class _Fault(NamedTuple):
    """What may be wrong with advantages; ``at`` is the index of its first step, None if unknown."""

    tested: Tested
    holds: bool
    at: int | None = None


@Check(
    name="advantages that do not follow from rewards",
    rank=Rank.CAUSE,
    needs=(REWARD, Need("advantages", (LOGGED,))),
    charts=("advantages",),
    limits=_AdvantageMismatch,
    title={
        "sign": "Logged advantages have the opposite sign of those computed from rewards "
        "(correlation {own:figure}).",
        "other": "Logged advantages fit the reward of the neighbouring row (correlation "
        "{other:figure}), not that of their own ({own:figure}).",
        "own": "Logged advantages no longer follow from rewards: correlation {own:figure}.",
        "offset": "The mean advantage of a group is no longer 0, but {offset:percent} of the usual "
        "size of advantages.",
        "far": "Advantages reach {most:figure} ({ratio:figure} × the median), not due to rewards.",
    },
    statement={
        "sign": "advantages have the wrong sign",
        "other": "advantages fit the reward of the neighbouring row",
        "own": "advantages do not follow from rewards",
        "offset": "the mean advantage of a group is not 0",
        "far": "an advantage is {ratio:short} times the median",
    },
    why="Advantages decide which responses are reinforced: wrong ones train against the reward.",
    suggestion="Recompute a step's advantages: look at sign, baseline, groups and order of rows.",
    explains=FAILURES,
    needs_also="one advantage per response, no critic and no token_rewards",
    trend=True,
)
def advantage_mismatch(check: Check, run: Run) -> Result:
    """Find that logged advantages are not those that follow from rewards in their groups."""
    if run.has("value_mean") or run.has("rlhf_reward"):
        return check.not_run(check.needs_also)
    bounds = run.limits[_AdvantageMismatch]
    advantages = _advantages(run)
    # Correlations of the logged advantages: with those of their own rows, and of other rows
    own, z = correlation_within(
        run.tables, advantages.usual, advantages.recomputed, run.last
    )
    other = np.nan
    # In groups of two, the neighbour's advantage is the opposite of the own.
    if abs(own) < bounds.own:
        other = _correlation_with_neighbours(run, advantages)
    offset = mean(run.last_values(advantages.offset))
    ratio = float(np.fmax.reduce(advantages.far))  # the largest of all steps
    faults = _faults(run, advantages, own=own, other=other, offset=offset, ratio=ratio)
    if not z <= -run.limits[Trend].z:  # nor if z is NaN
        del faults["sign"]
    tested = tuple(fault.tested for fault in faults.values())
    kind = next((kind for kind, fault in faults.items() if fault.holds), "")
    if not kind:
        return Result(tested=tested)
    onset, severity = _onset_and_severity(run, advantages, faults[kind])
    facts: Facts = {
        "kind": kind,
        "own": own,
        "other": other,
        "offset": offset,
        "ratio": ratio,
        "most": ratio * advantages.size,
    }
    is_wrong = advantages.error > advantages.size / 2
    ranking = Ranking(advantages.error, unit="from the expected value", among=is_wrong)
    return check.found(
        run, severity, [faults[kind].tested], facts, ranking, onset=onset
    )


def _onset_and_severity(
    run: Run, advantages: _Advantages, fault: _Fault
) -> tuple[Onset | None, Severity]:
    """Return when a fault began, and how serious it is."""
    if fault.at is not None:
        step = int(run.steps[fault.at])
        return Onset(step, step, step), Severity.WARNING
    # Advantages of the wrong sign, or of the wrong row
    fit_at_start = median(advantages.fit[: len(run.last.steps)])
    from_start = fit_at_start < run.limits[_AdvantageMismatch].own
    onset = run.onset(advantages.fit, always=from_start)
    # In a run that learns with them from the start, the log is wrong rather than the trainer.
    if from_start and progress.learned(run):
        return onset, Severity.INFO
    return onset, Severity.CRITICAL


def _advantages(run: Run) -> _Advantages:
    """Return the logged advantages of a run, and how far rewards explain them."""
    columns = {
        name: run.responses[name].to_numpy() for name in ("reward", "group", LOGGED)
    }
    steps = Grouped.by(run.step_index)
    recomputed, fit = advantage_fit(columns, steps)
    logged = columns[LOGGED]
    size = typical(logged)
    usual = np.where(np.abs(logged) > FAR * size, np.nan, logged)
    # Recomputed ones have an arbitrary scale: bring them to the size of the logged ones.
    expected = recomputed * size / typical(recomputed)
    error = np.abs(logged - expected)
    # A large advantage that its reward explains for the most part is not far.
    is_far = error > FAR / 2 * size
    far = np.where(is_far, np.abs(logged) / size, np.nan)
    return _Advantages(
        usual=usual,
        size=size,
        recomputed=recomputed,
        error=error,
        fit=fit,
        offset=_offsets(columns["group"], usual, steps),
        far=steps.max(far),
    )


def _correlation_with_neighbours(run: Run, advantages: _Advantages) -> float:
    """Return the best correlation with what a row before or after should have.

    Rows are shifted inside of steps, and inside of groups. NaN if no correlation is significant.
    """
    recomputed = pd.Series(advantages.recomputed)
    least_z = run.limits[Trend].z
    best = np.nan
    for label in (run.step_index, run.responses["group"].to_numpy()):
        of_label = recomputed.groupby(label)
        for distance in (1, -1):
            neighbour = np.asarray(of_label.shift(distance), np.float64)
            correlation, z = correlation_within(
                run.tables, advantages.usual, neighbour, run.last
            )
            if z >= least_z:
                best = np.fmax(best, correlation)
    return float(best)


def _faults(
    run: Run,
    advantages: _Advantages,
    *,
    own: float,
    other: float,
    offset: float,
    ratio: float,
) -> dict[str, _Fault]:
    """Return what may be wrong, by the kind of the finding; the first that holds is told.

    Args:
        run: the run.
        advantages: its advantages.
        own: their correlation with those recomputed from the rewards of their rows.
        other: their best correlation with those of neighbouring rows.
        offset: mean advantage of groups over the size of advantages, in the last window.
        ratio: the largest advantage that its reward does not explain, over the usual size.
    """
    limits = _AdvantageMismatch
    bounds = run.limits[_AdvantageMismatch]
    # The fit falls from a good one to a bad one; negated, it rises.
    broken = _jump(-advantages.fit, low=-bounds.other, high=-bounds.own)
    moved = _jump(advantages.offset, low=CENTRED, high=bounds.offset)
    # Where rewards do not explain advantages anyway, a large one is no fault.
    first_far = None
    if median(advantages.fit) > bounds.other:
        first_far = int(np.argmax(advantages.far > bounds.far))
    sign = run.limits.test(limits.sign, "<", own)
    neighbour = run.limits.test(limits.other, ">", other)
    unlike = run.limits.test(limits.own, "<", own)
    off_centre = run.limits.test(limits.offset, ">", offset)
    too_large = run.limits.test(limits.far, ">", ratio)
    return {
        "sign": _Fault(sign, sign.met),
        "other": _Fault(neighbour, neighbour.met),
        "own": _Fault(unlike, unlike.met and broken is not None, broken),
        "offset": _Fault(off_centre, off_centre.met and moved is not None, moved),
        "far": _Fault(too_large, too_large.met and first_far is not None, first_far),
    }


def _offsets(group: Ints, advantages: Floats, steps: Grouped) -> Floats:
    """Return by step the RMS mean advantage of groups of usual size over the RMS advantage.

    Args:
        group: the label of each response's group, (rows,).
        advantages: as logged, (rows,), NaN for those to leave out.
        steps: the responses of each step.
    """
    groups = pd.Series(advantages).groupby(group)
    # Of each response's group
    size = groups.transform("count").to_numpy(np.float64)
    mean_of_group = groups.transform("mean").to_numpy(np.float64)
    # If some of a group are not logged, the mean of the others need not be 0.
    is_complete = size == most_common(size[size > 1])
    of_groups = steps.mean(np.where(is_complete, mean_of_group**2, np.nan))
    of_responses = steps.mean(advantages**2)
    return np.sqrt(of_groups / np.fmax(of_responses, TINY))


def _jump(series: Floats, low: float, high: float) -> int | None:
    """Return the index, not near an end, where a series jumps from ``low`` to above ``high``.

    All values before it are at most ``low``, and all from it on are above ``high``; NaN does not
    count. None if the series does not jump.
    """
    highest_before = np.fmax.accumulate(series)
    lowest_after = np.fmin.accumulate(series[::-1])[::-1]
    # Between each value and the next
    jumps = (highest_before[:-1] <= low) & (lowest_after[1:] > high)
    if not jumps.any():
        return None
    at = int(np.argmax(jumps)) + 1
    return at if LEAST_LEVEL <= at <= len(series) - LEAST_LEVEL else None
