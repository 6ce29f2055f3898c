"""``engine_mismatch``: sampler and trainer disagree on the same tokens."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Fact
from rlreport.check.limits import MISMATCH, Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.check.shapes import Figure, judge_figures


class EngineMismatch(Limits):
    """Thresholds of ``engine_mismatch``."""

    ratio = Limit(1.05, "", "mean exp|trainer - sampler| of a token", MISMATCH)
    k3 = Limit(1e-3, "nats", "mean k3 of a token, trainer against sampler", MISMATCH)
    prob = Limit(0.01, "", "mean |trainer - sampler| probability of a token", MISMATCH)


def judge(run: Run) -> Result:
    """Compare the two engines' probabilities of the same tokens by three measures."""
    weights = run.column("mismatch_tokens")
    figures = [
        Figure(limit, ">", run.by_step(values, weights), run.change(values, weights).last)
        for limit in (EngineMismatch.k3, EngineMismatch.prob, EngineMismatch.ratio)
        for values in [run.column(f"mismatch_{limit.key}")]
    ]
    ends: dict[str, Fact] = {figure.limit.key: figure.end for figure in figures}
    shown = Shown(run.column("mismatch_k3"), unit="nats a token")
    return judge_figures(CHECK, run, figures, shown, **ends)


CHECK = Check(
    id="engine_mismatch",
    name="sampler and trainer disagree",
    rank="cause",
    looks_for="sampler and trainer disagree on the same tokens",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("mismatch_k3",)),),
    charts=("mismatch",),
    judge=judge,
    limits=EngineMismatch,
    title="Sampler and trainer disagree on the same tokens: exp|Δ logp| {ratio:figure}, k3 "
    "{k3:figure} nats, |Δ prob| {prob:figure} on average.",
    why="The trainer believes that it learns on-policy and does not: the bias grows with length "
    "and has ended runs that looked well.",
    suggestion="Use the same precision, kernels and weights in both engines, check that weights "
    "are synchronised before sampling, or correct with truncated importance weights.",
    explains=(
        *(
            "reward_collapse",
            "watched_reward_fall",
            "kl_explosion",
            "entropy_collapse",
            "length_collapse",
        ),
        *("diversity_collapse", "missing_eos", "reward_stalled", "ratio_drift", "negative_kl"),
    ),
    trend=False,
)
