"""``off_policy_weights``: importance weights of whole responses spread."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Op
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown, median
from rlreport.check.shapes import Figure, judge_figures
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
    ends = {name: median(run.late(series)) for name, series in by_step.items()}
    judged: tuple[tuple[str, Limit[float], Op], ...] = (
        ("ess", OffPolicyWeights.ess, "<"),
        ("mean", OffPolicyWeights.low, "<"),
        ("mean", OffPolicyWeights.high, ">"),
        ("std", OffPolicyWeights.std, ">"),
        ("chi2", OffPolicyWeights.chi2, ">"),
    )
    figures = [Figure(limit, op, by_step[name], ends[name]) for name, limit, op in judged]
    shown = Shown(np.abs(run.column("log_weight")), unit="nats")
    return judge_figures(CHECK, run, figures, shown, **ends)


CHECK = Check(
    id="off_policy_weights",
    name="off-policy importance weights",
    rank="cause",
    looks_for="importance weights of whole responses spread",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("log_weight",)),),
    charts=("mismatch",),
    judge=judge,
    limits=OffPolicyWeights,
    title="Importance weights of whole responses spread: mean {mean:figure}, std {std:figure}, an "
    "effective sample of {ess:percent} of the responses.",
    why="Few responses then carry most of a corrected gradient, and an uncorrected one is biased; "
    "a falling effective sample comes before a collapse.",
    suggestion="Truncate the weights or mask what is far off, sample from fresher weights, and "
    "bring the engines' precision together.",
    explains=(
        "reward_collapse",
        "watched_reward_fall",
        "kl_explosion",
        "entropy_collapse",
        "reward_stalled",
    ),
    trend=False,
)
