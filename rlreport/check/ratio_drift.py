"""``ratio_drift``: updates are too large."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.compare import above, below
from rlreport.check.finding import Facts
from rlreport.check.run import Run, has
from rlreport.check.thresholds import RATIO
from rlreport.text.messages import marked, told

TRAINER_RATIO = "val/ratio"
"""TRL's own mean ratio, read where the rollouts hold only one set of log-probabilities."""


def judge(run: Run) -> Result:
    """Compare the mean ratio of new to old probability, and its tails, with PPO's clip range."""
    limits, metrics = run.limits.ratio_drift, run.tables.metrics
    weights = run.column("ratio_tokens")
    outside = np.nan
    if np.nansum(weights[run.last.rows]) > 0:
        ratio, tail = run.column("ratio_mean"), run.column("ratio_outside")
        mean, outside = run.change(ratio, weights).last, run.change(tail, weights).last
        series, tails = run.by_step(ratio, weights), run.by_step(tail, weights)
    elif has(metrics, TRAINER_RATIO):
        logged = metrics.set_index("step")[TRAINER_RATIO].reindex(run.steps)
        series = tails = logged.to_numpy(np.float64)
        mean = float(logged.iloc[-len(run.last.steps) :].mean())
    else:
        return CHECK.not_run("old and new logprobs of the same tokens")
    met = []
    if below(mean, limits.low):
        met.append(CHECK.met(run, "low", "<", mean))
    if above(mean, limits.high):
        met.append(CHECK.met(run, "high", ">", mean))
    if above(outside, limits.outside):
        met.append(CHECK.met(run, "outside", ">", outside))
        series = series if len(met) > 1 else tails
    if not met:
        return None
    start = float(np.nanmean(series[:3])) if np.isfinite(series[:3]).any() else np.nan
    value, limit = met[0].value, met[0].limit
    always = above(start, limit) if value > limit else below(start, limit)
    onset = run.onset(series, always=always)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(run.column("ratio_outside"), onset, unit="of tokens"),
        series=series,
        ratio=mean,
        outside=outside if np.isfinite(outside) else None,
    )


def title(facts: Facts) -> str:
    """Return the mean ratio and its tails."""
    if facts["outside"] is None:
        return told(
            "Updates are too large: new over old probability is {ratio:figure} on average.", facts
        )
    return told(
        "Updates are too large: new over old probability is {ratio:figure} on average, and "
        "{outside:percent} of tokens lie outside 1 ± 0.2.",
        facts,
    )


CHECK = Check(
    id="ratio_drift",
    name=marked("updates are too large"),
    rank="cause",
    looks_for="updates are too large",
    needs=(),
    charts=("mismatch",),
    judge=judge,
    title=title,
    why=marked(
        "PPO trusts its data only near the policy that sampled it; past the clip range most "
        "tokens give no gradient, and the rest give a wrong one."
    ),
    suggestion=marked(
        "Lower the learning rate, take fewer epochs over each batch, use larger mini-batches, and "
        "check that both log-probabilities are taken at the same temperature."
    ),
    source=RATIO,
    explains=(
        *("reward_collapse", "kl_explosion", "entropy_collapse", "length_collapse"),
        *("diversity_collapse", "missing_eos", "reward_stalled"),
    ),
    trend=False,
    needs_also="old and new logprobs of the same tokens, or the trainer's val/ratio",
)
