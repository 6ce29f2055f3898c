"""``engine_mismatch``: sampler and trainer disagree on the same tokens."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result, extremes
from rlreport.check.compare import above
from rlreport.check.ratio_drift import token_mean
from rlreport.check.thresholds import MISMATCH, Thresholds
from rlreport.check.windows import last
from rlreport.check.words import figure
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the two engines' probabilities of the same tokens by three measures."""
    limits, end = thresholds.engine_mismatch, last(tables, thresholds.trend)
    rows = tables.responses.iloc[end.rows]
    weights = rows["mismatch_tokens"].to_numpy(dtype=float)
    ratio, k3, prob = (
        token_mean(rows[column].to_numpy(dtype=float), weights)
        for column in ("mismatch_ratio", "mismatch_k3", "mismatch_prob")
    )
    if not (above(ratio, limits.ratio) or above(k3, limits.k3) or above(prob, limits.prob)):
        return None
    return CHECK.finding(
        "warning",
        f"Sampler and trainer disagree on the same tokens: mean exp|Δ logp| {figure(ratio)}, "
        f"k3 {figure(k3)} nats, |Δ prob| {figure(prob)}",
        steps=end.steps,
        responses=extremes(rows, "mismatch_k3", highest=True),
    )


CHECK = Check(
    id="engine_mismatch",
    looks_for="sampler and trainer disagree on the same tokens",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("mismatch_k3",)),),
    charts=("mismatch",),
    why=(
        "The trainer believes that it learns on-policy and does not: the bias grows with length "
        "and has ended runs that looked well."
    ),
    suggestion=(
        "Use the same precision, kernels and weights in both engines, check that weights are "
        "synchronised before sampling, or correct with truncated importance weights."
    ),
    source=MISMATCH,
    judge=judge,
    trend=False,
)
