"""``engine_mismatch``: sampler and trainer disagree on the same tokens."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above
from rlreport.check.run import Run, began
from rlreport.check.thresholds import MISMATCH
from rlreport.text.messages import marked

MEASURES = (("k3", "mismatch_k3"), ("prob", "mismatch_prob"), ("ratio", "mismatch_ratio"))


def judge(run: Run) -> Result:
    """Compare the two engines' probabilities of the same tokens by three measures."""
    limits, weights = run.limits.engine_mismatch, run.column("mismatch_tokens")
    series = {key: run.by_step(run.column(name), weights) for key, name in MEASURES}
    end = {key: run.change(run.column(name), weights).last for key, name in MEASURES}
    met = [key for key, _ in MEASURES if above(end[key], getattr(limits, key))]
    if not met:
        return None
    led = series[met[0]]
    onset = run.onset(led, always=above(began(led), getattr(limits, met[0])))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[CHECK.met(run, key, ">", end[key]) for key in met],
        evidence=run.examples(run.column("mismatch_k3"), onset, unit="nats a token"),
        series=led,
        more=end,
    )


CHECK = Check(
    id="engine_mismatch",
    name=marked("sampler and trainer disagree"),
    rank="cause",
    looks_for="sampler and trainer disagree on the same tokens",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("mismatch_k3",)),),
    charts=("mismatch",),
    judge=judge,
    title=marked(
        "Sampler and trainer disagree on the same tokens: exp|Δ logp| {ratio:figure}, k3 "
        "{k3:figure} nats, |Δ prob| {prob:figure} on average."
    ),
    why=marked(
        "The trainer believes that it learns on-policy and does not: the bias grows with length "
        "and has ended runs that looked well."
    ),
    suggestion=marked(
        "Use the same precision, kernels and weights in both engines, check that weights are "
        "synchronised before sampling, or correct with truncated importance weights."
    ),
    source=MISMATCH,
    explains=(
        *("reward_collapse", "kl_explosion", "entropy_collapse", "length_collapse"),
        *("diversity_collapse", "missing_eos", "reward_stalled", "ratio_drift", "negative_kl"),
    ),
    trend=False,
)
