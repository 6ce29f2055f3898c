"""``off_policy_weights``: importance weights of whole responses spread."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, below
from rlreport.check.finding import Met
from rlreport.check.run import Run
from rlreport.check.thresholds_of_turns import ROLLOUT_CORR
from rlreport.summarise.steps import sequence_weights
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Judge the weights w = exp(sum of trainer - sampler logp) by four figures of each step.

    The median of each over the last window's steps counts, so that one step is no finding.
    """
    limits, weight = run.limits.off_policy_weights, sequence_weights(run.column("log_weight"))
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
    met: list[Met] = []
    led = ""
    for name, key, op in (
        ("ess", "ess", "<"),
        ("mean", "low", "<"),
        ("mean", "high", ">"),
        ("std", "std", ">"),
        ("chi2", "chi2", ">"),
    ):
        if (above if op == ">" else below)(end[name], getattr(limits, key)):
            met.append(CHECK.met(run, key, op, end[name]))
            led = led or name
    if not met:
        return None
    # What was so in the first three steps was so from the start.
    opening = by_step[led][:3]
    always = bool(
        np.isfinite(opening).any()
        and (below if met[0].op == "<" else above)(float(np.nanmean(opening)), met[0].limit)
    )
    onset = run.onset(by_step[led], always=always)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(np.abs(run.column("log_weight")), onset, unit="nats"),
        series=by_step[led],
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
