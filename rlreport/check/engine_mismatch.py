"""``engine_mismatch``: sampler and trainer disagree on the same tokens."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import MISMATCH, Limit, Limits
from rlreport.check.run import Run, was_so
from rlreport.text.messages import marked


class EngineMismatch(Limits):
    """Thresholds of ``engine_mismatch``."""

    ratio = Limit(1.05, "", "mean exp|trainer - sampler| of a token", MISMATCH)
    k3 = Limit(1e-3, "nats", "mean k3 of a token, trainer against sampler", MISMATCH)
    prob = Limit(0.01, "", "mean |trainer - sampler| probability of a token", MISMATCH)


MEASURES = (
    (EngineMismatch.k3, "mismatch_k3"),
    (EngineMismatch.prob, "mismatch_prob"),
    (EngineMismatch.ratio, "mismatch_ratio"),
)


def judge(run: Run) -> Result:
    """Compare the two engines' probabilities of the same tokens by three measures."""
    weights = run.column("mismatch_tokens")
    end = {limit.key: run.change(run.column(name), weights).last for limit, name in MEASURES}
    found = [(name, met) for limit, name in MEASURES for met in run.met(limit, ">", end[limit.key])]
    if not found:
        return None
    led, first = found[0]
    series = run.by_step(run.column(led), weights)
    onset = run.onset(series, always=was_so(series, first))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[met for _, met in found],
        evidence=run.examples(run.column("mismatch_k3"), onset, unit="nats a token"),
        series=series,
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
    limits=EngineMismatch,
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
