"""``entropy_explosion``: the policy came apart."""

from __future__ import annotations

from rlreport.check.check import LOGPROBS, Check, Result
from rlreport.check.compare import at_least
from rlreport.check.run import Run
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Ask for a surprisal several times that of the start, while the reward did not rise."""
    limits, z = run.limits.entropy_explosion, run.limits.trend.z
    surprisal, weights = run.column("surprisal_mean"), run.column("logp_tokens")
    moved = run.change(surprisal, weights)
    rose = at_least(moved.last, limits.ratio * moved.first) and at_least(
        moved.difference, limits.rise
    )
    reward = run.change(run.column("reward"))
    if not (rose and moved.z >= z) or reward.z >= z:
        return None
    series = run.by_step(surprisal, weights)
    onset = run.onset(series)
    return CHECK.finding(
        run,
        "critical" if reward.z <= -z else "warning",
        onset=onset,
        thresholds=[
            CHECK.met(run, "ratio", ">=", moved.last / moved.first),
            CHECK.met(run, "rise", ">=", moved.difference),
        ],
        evidence=run.examples(surprisal, onset, unit="nats a token"),
        series=series,
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="entropy_explosion",
    name=marked("entropy explosion"),
    rank="cause",
    looks_for="the policy came apart",
    needs=(LOGPROBS,),
    charts=("surprisal", "kl"),
    judge=judge,
    title=marked(
        "The text comes apart: entropy (sampled) rose from {start:figure} to {end:figure} nats a "
        "token."
    ),
    effect=marked("entropy (sampled) rose to {end:figure} nats a token"),
    why=marked(
        "A policy this uncertain samples tokens that mean nothing: what it had learned, from its "
        "pretraining too, is being lost."
    ),
    suggestion=marked(
        "Lower the entropy bonus or drop it, lower the learning rate, raise the KL coefficient, "
        "and go on from a checkpoint before the rise."
    ),
    source="too large an entropy bonus; threads of TRL and verl",
    explains=(
        *("kl_explosion", "reward_collapse", "missing_eos", "length_collapse", "language_drift"),
        *("diversity_collapse", "reward_stalled", "persistent_losers", "ratio_drift"),
    ),
)
