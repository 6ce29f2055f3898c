"""``entropy_collapse``: the policy became certain."""

from __future__ import annotations

from rlreport.check.check import LOGPROBS, Check, Result
from rlreport.check.compare import below
from rlreport.check.run import Run
from rlreport.check.thresholds import ENTROPY
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Compare the mean surprisal per token at the end with the start and with a floor."""
    limits = run.limits.entropy_collapse
    surprisal, weights = run.column("surprisal_mean"), run.column("logp_tokens")
    moved = run.change(surprisal, weights)
    fell = below(moved.last, limits.share * moved.first) and below(moved.last, limits.surprisal)
    if not (fell and moved.z <= -run.limits.trend.z):
        return None
    series = run.by_step(surprisal, weights)
    onset = run.onset(series)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[
            CHECK.met(run, "share", "<", moved.last / moved.first),
            CHECK.met(run, "surprisal", "<", moved.last),
        ],
        evidence=run.examples(surprisal, onset, highest=False, unit="nats a token"),
        series=series,
        start=moved.first,
        end=moved.last,
    )


CHECK = Check(
    id="entropy_collapse",
    name=marked("entropy collapse"),
    rank="consequence",
    looks_for="the policy became certain",
    needs=(LOGPROBS,),
    charts=("surprisal",),
    judge=judge,
    title=marked(
        "The policy became certain: entropy (sampled) fell from {start:figure} to {end:figure} "
        "nats a token."
    ),
    effect=marked("entropy (sampled) fell to {end:figure} nats a token"),
    why=marked(
        "A policy that samples the same thing every time no longer explores: nothing better can "
        "be found, and groups of responses stop differing."
    ),
    suggestion=marked(
        "Stop earlier, lower the learning rate, add an entropy bonus or clip higher on the upper "
        "side (DAPO), raise the sampling temperature, or use harder prompts."
    ),
    source=ENTROPY,
    explains=("kl_explosion", "diversity_collapse", "missing_eos", "reward_stalled"),
)
