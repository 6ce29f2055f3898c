"""``entropy_explosion``: the policy came apart."""

from __future__ import annotations

from rlreport.check.check import LOGPROBS, Check, Result
from rlreport.check.limits import ENTROPY, Limit, Limits
from rlreport.check.run import Run, Shown


class EntropyExplosion(Limits):
    """Thresholds of ``entropy_explosion``."""

    ratio = Limit(3.0, "times", "warning: mean surprisal against the first window", ENTROPY)
    rise = Limit(1.0, "nats", "and mean surprisal rose by this", ENTROPY)


def judge(run: Run) -> Result:
    """Ask for a surprisal several times that of the start, while the reward did not rise."""
    surprisal, weights = run.column("surprisal_mean"), run.column("logp_tokens")
    moved, reward = run.change(surprisal, weights), run.change(run.column("reward"))
    ratio = run.met(EntropyExplosion.ratio, ">=", moved.last, of=moved.first)
    rise = run.met(EntropyExplosion.rise, ">=", moved.difference)
    if not (ratio and rise and moved.rose) or reward.rose:
        return None
    return CHECK.finding(
        run,
        "critical" if reward.fell else "warning",
        ratio + rise,
        series=run.by_step(surprisal, weights),
        shown=Shown(surprisal, unit="nats a token"),
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="entropy_explosion",
    name="entropy explosion",
    rank="cause",
    looks_for="the policy came apart",
    needs=(LOGPROBS,),
    charts=("surprisal", "kl"),
    judge=judge,
    limits=EntropyExplosion,
    title="The text comes apart: entropy (sampled) rose from {start:figure} to {end:figure} nats "
    "a token.",
    clause="entropy (sampled) rose to {end:figure} nats a token",
    why="A policy this uncertain samples tokens that mean nothing: what it had learned, from its "
    "pretraining too, is being lost.",
    suggestion="Lower the entropy bonus or drop it, lower the learning rate, raise the KL "
    "coefficient, and go on from a checkpoint before the rise.",
    source="too large an entropy bonus; threads of TRL and verl",
    explains=(
        *(
            "kl_explosion",
            "reward_collapse",
            "watched_reward_fall",
            "missing_eos",
            "length_collapse",
            "language_drift",
        ),
        *("diversity_collapse", "reward_stalled", "persistent_losers", "ratio_drift"),
    ),
)
