"""``failed_rollouts``: rollouts end in errors before the policy speaks."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Onset
from rlreport.check.limits import AGENTS, CONTRACT, Limit
from rlreport.check.noise import Change
from rlreport.check.onset import onset
from rlreport.check.run import Run
from rlreport.check.shapes import RiseOrShare, rise_or_share
from rlreport.check.windows import Trend, size_of_window
from rlreport.figures.ragged import Floats


class FailedRollouts(RiseOrShare):
    """Thresholds of ``failed_rollouts``."""

    rise = Limit(0.2, "of rollouts", "rise of the share since the first window", CONTRACT)
    share = Limit(0.5, "of rollouts", "failed in the last window", CONTRACT)


def judge(run: Run) -> Result:
    """Look for a rise of the share of rollouts that failed, and for one that is high anyway."""
    trend = run.limits[Trend]
    # Steps in which every rollout failed count here, though no other check can judge them.
    failed = run.tried["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return CHECK.not_run(CHECK.needs_also)
    steps = run.tried["step"].to_numpy(np.int64)
    series: Floats = failed / (failed + run.tried["responses"].to_numpy(np.float64))
    long = size_of_window(len(steps), trend)
    size = long or len(steps)
    last = float(series[-size:].mean())
    first = float(series[:size].mean()) if long else np.nan
    # Failures come in bursts: what scatters from step to step is the error of a window's mean.
    error = float(np.sqrt(series[-size:].var() / size + series[:size].var() / size))
    moved = Change(first, last, (last - first) / error if error else np.inf, trend.z)
    rise, met = rise_or_share(run, moved, FailedRollouts)
    if not met:
        return None
    start = int(steps[0])
    always = not (rise or first <= run.limits[FailedRollouts].share)
    begun = Onset(start, start, start) if always else onset(steps, series, end=size)
    return CHECK.finding(
        run,
        "warning",
        met,
        series=series,
        onset=begun,
        dated=False,
        steps=steps[steps >= (begun.step if begun else steps[-size])].tolist(),
        share=last,
        before=first,
    )


CHECK = Check(
    id="failed_rollouts",
    name="failed rollouts",
    rank="cause",
    looks_for="rollouts end in errors before the policy speaks",
    charts=("failed_rollouts",),
    judge=judge,
    limits=FailedRollouts,
    title="{share:percent} of rollouts failed before the policy spoke ({before:percent} before).",
    why="What is left to learn from is what did not fail: fewer responses, and not a fair sample "
    "of the tasks.",
    suggestion="Read the errors; repeat rollouts whose environment failed, and do not give them a "
    "reward.",
    source=AGENTS,
    explains=("reward_stalled", "reward_collapse", "watched_reward_fall"),
    trend=False,
    whole_run=True,
    needs_also="rollouts that failed: errors without a response",
)
