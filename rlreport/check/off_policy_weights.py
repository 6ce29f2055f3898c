"""``off_policy_weights``: importance weights of whole responses spread."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Op
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, was_so
from rlreport.summarise.steps import sequence_weights
from rlreport.text.messages import marked

ROLLOUT_CORR = marked("verl rollout_corr; VCPO (a falling effective sample precedes collapse)")


class OffPolicyWeights(Limits):
    """Thresholds of ``off_policy_weights``."""

    ess = Limit(0.3, "of responses", "effective sample below this", ROLLOUT_CORR)
    low = Limit(0.5, "", "mean weight below this", ROLLOUT_CORR)
    high = Limit(2.0, "", "mean weight above this", ROLLOUT_CORR)
    std = Limit(1.0, "", "std of the weights above this", ROLLOUT_CORR)
    chi2 = Limit(1.0, "", "mean of squared weights − 1 above this", ROLLOUT_CORR)


JUDGED: tuple[tuple[str, Limit[float], Op], ...] = (
    ("ess", OffPolicyWeights.ess, "<"),
    ("mean", OffPolicyWeights.low, "<"),
    ("mean", OffPolicyWeights.high, ">"),
    ("std", OffPolicyWeights.std, ">"),
    ("chi2", OffPolicyWeights.chi2, ">"),
)
"""Each figure with its limit, and how it lies to it where it is too far off."""


def judge(run: Run) -> Result:
    """Judge the weights w = exp(sum of trainer - sampler logp) by four figures of each step.

    The median of each over the last window's steps counts, so that one step is no finding.
    """
    weight = sequence_weights(run.column("log_weight"))
    mean, square = run.by_step(weight), run.by_step(weight**2)
    by_step = {
        "mean": mean,
        "ess": mean**2 / square,
        "std": np.sqrt(np.maximum(square - mean**2, 0)),
        "chi2": square - 1,
    }
    late = slice(-len(run.last.steps), None)
    end = {
        name: float(np.nanmedian(series[late])) if np.isfinite(series[late]).any() else np.nan
        for name, series in by_step.items()
    }
    found = [(name, met) for name, limit, op in JUDGED for met in run.met(limit, op, end[name])]
    if not found:
        return None
    led, first = found[0]
    series = by_step[led]
    onset = run.onset(series, always=was_so(series, first))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[met for _, met in found],
        evidence=run.examples(np.abs(run.column("log_weight")), onset, unit="nats"),
        series=series,
        more=end,
    )


CHECK = Check(
    id="off_policy_weights",
    name=marked("off-policy importance weights"),
    rank="cause",
    looks_for="importance weights of whole responses spread",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("log_weight",)),),
    charts=("mismatch",),
    judge=judge,
    limits=OffPolicyWeights,
    title=marked(
        "Importance weights of whole responses spread: mean {mean:figure}, std {std:figure}, "
        "an effective sample of {ess:percent} of the responses."
    ),
    why=marked(
        "Few responses then carry most of a corrected gradient, and an uncorrected one is "
        "biased; a falling effective sample comes before a collapse."
    ),
    suggestion=marked(
        "Truncate the weights or mask what is far off, sample from fresher weights, and bring the "
        "engines' precision together."
    ),
    source=ROLLOUT_CORR,
    explains=("reward_collapse", "kl_explosion", "entropy_collapse", "reward_stalled"),
    trend=False,
)
