"""``negative_kl``: sampling makes the KL estimate negative."""

from __future__ import annotations

from rlreport.check.check import KL, Check, Result, extremes
from rlreport.check.compare import below
from rlreport.check.noise import mean_of
from rlreport.check.thresholds import NEGATIVE_KL, Thresholds
from rlreport.check.windows import last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Test the mean KL estimate at the end against zero: a true KL is never below it."""
    limits, window = thresholds.negative_kl, last(tables, thresholds.trend)
    kl = tables.responses["kl_k1"]
    found = mean_of(tables, kl.to_numpy(dtype=float), window)
    if not (below(found.mean, limits.mean) and found.z <= limits.z):
        return None
    rows = tables.responses.iloc[window.rows]
    negative = float((rows["kl_k1"] < 0).sum() / rows["kl_k1"].notna().sum())
    means = rows.groupby("step")["kl_k1"].mean()
    return CHECK.finding(
        "warning",
        f"The KL estimate is below zero at the end: {figure(found.mean)} nats a response, "
        f"{figure(abs(found.z))} standard errors under zero; "
        f"{percent(negative)} of responses are negative",
        steps=means.index[means < 0].tolist(),
        responses=extremes(rows[rows["kl_k1"] < 0], "kl_k1"),
    )


CHECK = Check(
    id="negative_kl",
    looks_for="sampling makes the KL estimate negative",
    needs=(KL,),
    charts=("kl",),
    why=(
        "A KL divergence cannot be negative. The tokens were not drawn from the policy whose "
        "log-probabilities are logged, and a KL penalty then pays the policy for nothing."
    ),
    suggestion=(
        "Sample with temperature 1, top_k = 0 and top_p = 1, without min_length or forced tokens, "
        "and compute log-probabilities at the same temperature."
    ),
    source=NEGATIVE_KL,
    judge=judge,
    trend=False,
)
