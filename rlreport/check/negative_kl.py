"""``negative_kl``: sampling makes the KL estimate negative."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import KL, Check, Result
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import mean_of
from rlreport.check.run import Run, Shown


class NegativeKl(Limits):
    """Thresholds of ``negative_kl``."""

    z = Limit(
        -3.0,
        "std errors",
        "warning: mean KL of the last window over its error",
        "TRL FAQ (top-k, min_length); LMFlow post (nearly half negative after a minimum length)",
    )
    mean = Limit(-0.01, "nats", "and the mean is below this, more than rounding")


def judge(run: Run) -> Result:
    """Test the mean KL estimate at the end against zero: a true KL is never below it."""
    kl = run.column("kl_k1")
    found = mean_of(run.tables, kl, run.last)
    mean, z = run.met(NegativeKl.mean, "<", found.mean), run.met(NegativeKl.z, "<=", found.z)
    if not (mean and z):
        return None
    end = kl[run.last.rows]
    series = run.by_step(kl)
    always = run.first is not None and mean_of(run.tables, kl, run.first).mean <= found.mean / 2
    return CHECK.finding(
        run,
        "warning",
        mean + z,
        series=series,
        always=always,
        shown=Shown(kl, highest=False, unit="nats", among=kl < 0),
        steps=run.steps[series < 0].tolist(),
        kl=found.mean,
        share=float((end < 0).sum() / np.isfinite(end).sum()),
    )


CHECK = Check(
    id="negative_kl",
    name="negative KL",
    rank="cause",
    looks_for="sampling makes the KL estimate negative",
    needs=(KL,),
    charts=("kl",),
    judge=judge,
    limits=NegativeKl,
    title="The KL estimate is below zero: {kl:figure} nats a response, negative in "
    "{share:percent} of responses.",
    why="A KL divergence cannot be negative. The tokens were not drawn from the policy whose "
    "log-probabilities are logged, and a KL penalty then pays the policy for nothing.",
    suggestion="Sample with temperature 1, top_k = 0 and top_p = 1, without min_length or forced "
    "tokens, and compute log-probabilities at the same temperature.",
    explains=("reward_collapse", "watched_reward_fall", "reward_stalled", "length_collapse"),
    trend=False,
)
