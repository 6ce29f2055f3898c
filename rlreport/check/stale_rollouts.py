"""``stale_rollouts``: responses were sampled by a policy that is long gone."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown


class StaleRollouts(Limits):
    """Thresholds of ``stale_rollouts``."""

    lag = Limit(8.0, "steps", "mean lag of the last window", "prime-rl: max_off_policy_steps is 8")


def judge(run: Run) -> Result:
    """Compare the mean lag of the last window with the steps that asynchronous training bears."""
    lag = run.column("lag")
    moved = run.change(lag)
    if not (met := run.met(StaleRollouts.lag, ">", moved.last)):
        return None
    return CHECK.finding(
        run,
        "warning",
        met,
        series=run.by_step(lag),
        always=bool(run.met(StaleRollouts.lag, ">", moved.first)),
        shown=Shown(lag, unit="steps"),
        lag=moved.last,
    )


CHECK = Check(
    id="stale_rollouts",
    name="stale rollouts",
    rank="cause",
    looks_for="responses were sampled by a policy that is long gone",
    needs=(Need("policy_version", ("lag",)),),
    charts=("lag", "reward"),
    judge=judge,
    limits=StaleRollouts,
    title="Responses were sampled {lag:figure} steps before the step that learns from them.",
    why="The policy learns from texts that it would no longer write: importance weights spread, "
    "and clipping discards most of the gradient.",
    suggestion="Give sampling more machines or training fewer, update the sampler more often, or "
    "drop rollouts over a limit of steps.",
    explains=(
        "off_policy_weights",
        "ratio_drift",
        "reward_collapse",
        "watched_reward_fall",
        "entropy_collapse",
    ),
    trend=False,
)
