"""``failed_rollouts``: rollouts end in errors before the policy speaks."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.compare import above, at_least
from rlreport.check.finding import Onset
from rlreport.check.onset import onset
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import AGENTS
from rlreport.figures.ragged import Floats
from rlreport.summarise.steps import window_size
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Look for a rise of the share of rollouts that failed, and for one that is high anyway."""
    limits, trend = run.limits.failed_rollouts, run.limits.trend
    # Steps in which every rollout failed count here, though no other check can judge them.
    failed = run.tried["failed_rollouts"].to_numpy(np.float64)
    if not failed.any():
        return CHECK.not_run(CHECK.needs_also)
    steps = run.tried["step"].to_numpy(np.int64)
    series: Floats = failed / (failed + run.tried["responses"].to_numpy(np.float64))
    long = len(steps) >= trend.shortest_run
    size = window_size(len(steps), trend.share, trend.least_steps) if long else len(steps)
    last = float(series[-size:].mean())
    first = float(series[:size].mean()) if long else np.nan
    # Failures come in bursts: what scatters from step to step is the error of a window's mean.
    error = float(np.sqrt(series[-size:].var() / size + series[:size].var() / size))
    rose = at_least(last - first, limits.rise) and last - first >= trend.z * error
    high = above(last, limits.share)
    if not (rose or high):
        return None
    met = [CHECK.met(run, "rise", ">=", last - first)] if rose else []
    met += [CHECK.met(run, "share", ">", last)] if high else []
    start = int(steps[0])
    begun = (
        onset(steps, series, end=size)
        if rose or first <= limits.share
        else Onset(start, start, start)
    )
    return CHECK.finding(
        run,
        "warning",
        onset=begun,
        steps=steps[steps >= (begun.step if begun else steps[-size])].tolist(),
        thresholds=met,
        series=series,
        share=last,
        before=first if np.isfinite(first) else None,
    )


CHECK = Check(
    id="failed_rollouts",
    name=marked("failed rollouts"),
    rank="cause",
    looks_for="rollouts end in errors before the policy speaks",
    needs=(),
    charts=("failed_rollouts",),
    judge=judge,
    title=marked(
        "{share:percent} of rollouts failed before the policy spoke ({before:percent} before)."
    ),
    why=marked(
        "What is left to learn from is what did not fail: fewer responses, and not a fair sample "
        "of the tasks."
    ),
    suggestion=marked(
        "Read the errors; repeat rollouts whose environment failed, and do not give them a reward."
    ),
    source=AGENTS,
    explains=("reward_stalled", "reward_collapse"),
    trend=False,
    whole_run=True,
    needs_also="rollouts that failed: errors without a response",
)
