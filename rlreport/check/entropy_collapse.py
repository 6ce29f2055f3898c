"""``entropy_collapse``: the policy became certain."""

from __future__ import annotations

from rlreport.check.check import LOGPROBS, Check, Result
from rlreport.check.limits import ENTROPY, Limit, Limits
from rlreport.check.run import Run, Shown


class EntropyCollapse(Limits):
    """Thresholds of ``entropy_collapse``."""

    share = Limit(0.2, "of the first", "warning: mean surprisal against the first window", ENTROPY)
    surprisal = Limit(0.3, "nats", "and mean surprisal in the last window is below", ENTROPY)


def judge(run: Run) -> Result:
    """Compare the mean surprisal per token at the end with the start and with a floor."""
    surprisal, weights = run.column("surprisal_mean"), run.column("logp_tokens")
    moved = run.change(surprisal, weights)
    share = run.met(EntropyCollapse.share, "<", moved.last, of=moved.first)
    least = run.met(EntropyCollapse.surprisal, "<", moved.last)
    if not (share and least and moved.fell):
        return None
    return CHECK.finding(
        run,
        "warning",
        share + least,
        series=run.by_step(surprisal, weights),
        shown=Shown(surprisal, highest=False, unit="nats a token"),
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="entropy_collapse",
    name="entropy collapse",
    rank="consequence",
    looks_for="the policy became certain",
    needs=(LOGPROBS,),
    charts=("surprisal",),
    judge=judge,
    limits=EntropyCollapse,
    title="The policy became certain: entropy (sampled) fell from {start:figure} to {end:figure} "
    "nats a token.",
    clause="entropy (sampled) fell to {end:figure} nats a token",
    why="A policy that samples the same thing every time no longer explores: nothing better can "
    "be found, and groups of responses stop differing.",
    suggestion="Stop earlier, lower the learning rate, add an entropy bonus or clip higher on the "
    "upper side (DAPO), raise the sampling temperature, or use harder prompts.",
    explains=(
        "kl_explosion",
        "diversity_collapse",
        "missing_eos",
        "reward_stalled",
        "watched_reward_fall",
    ),
)
