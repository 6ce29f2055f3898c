"""``failed_rollouts``: rollouts end in errors before the policy speaks."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.compare import above, at_least
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import AGENTS
from rlreport.check.windows import Floats
from rlreport.check.words import marked


def judge(run: Run) -> Result:
    """Look for a rise of the share of rollouts that failed, and for one that is high anyway."""
    steps, limits = run.tables.steps, run.limits.failed_rollouts
    if "failed_rollouts" not in steps or not steps["failed_rollouts"].any():
        return CHECK.not_run(CHECK.needs_also)
    failed = steps["failed_rollouts"].to_numpy(np.float64)
    series: Floats = failed / (failed + steps["responses"].to_numpy(np.float64))
    size = len(run.last.steps)
    last = float(series[-size:].mean())
    first = float(series[: len(run.first.steps)].mean()) if run.first else np.nan
    # Failures come in bursts: what scatters from step to step is the error of a window's mean.
    error = float(np.sqrt(series[-size:].var() / size + series[:size].var() / size))
    rose = at_least(last - first, limits.rise) and last - first >= run.limits.trend.z * error
    high = above(last, limits.share)
    if not (rose or high):
        return None
    met = [CHECK.met(run, "rise", ">=", last - first)] if rose else []
    met += [CHECK.met(run, "share", ">", last)] if high else []
    return CHECK.finding(
        run,
        "warning",
        onset=run.onset(series, always=not rose),
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
    charts=("reward",),
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
    needs_also="rollouts that failed: errors without a response",
)
