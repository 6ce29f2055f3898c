"""``stale_rollouts``: responses were sampled by a policy that is long gone."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import PRIME_RL
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Compare the mean lag of the last window with the steps that asynchronous training bears."""
    lag, limit = run.column("lag"), run.limits.stale_rollouts.lag
    moved = run.change(lag)
    if not above(moved.last, limit):
        return None
    series = run.by_step(lag)
    onset = run.onset(series, always=above(moved.first, limit))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[CHECK.met(run, "lag", ">", moved.last)],
        evidence=run.examples(lag, onset, unit="steps"),
        series=series,
        lag=moved.last,
    )


CHECK = Check(
    id="stale_rollouts",
    name=marked("stale rollouts"),
    rank="cause",
    looks_for="responses were sampled by a policy that is long gone",
    needs=(Need("policy_version", ("lag",)),),
    charts=("lag", "reward"),
    judge=judge,
    title=marked(
        "Responses were sampled {lag:figure} steps before the step that learns from them."
    ),
    why=marked(
        "The policy learns from texts that it would no longer write: importance weights spread, "
        "and clipping discards most of the gradient."
    ),
    suggestion=marked(
        "Give sampling more machines or training fewer, update the sampler more often, or drop "
        "rollouts over a limit of steps."
    ),
    source=PRIME_RL,
    explains=("off_policy_weights", "ratio_drift", "reward_collapse", "entropy_collapse"),
    trend=False,
)
