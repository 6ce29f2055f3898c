"""``ratio_drift``: updates are too large."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, has, was_so
from rlreport.text.messages import marked

RATIO = marked("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")


class RatioDrift(Limits):
    """Thresholds of ``ratio_drift``."""

    low = Limit(0.5, "", "mean exp(new - old) below this", RATIO)
    high = Limit(2.0, "", "mean exp(new - old) above this", RATIO)
    outside = Limit(0.3, "of tokens", "have a ratio outside 1 ± 0.2", RATIO)


TRAINER_RATIO = "val/ratio"
"""TRL's own mean ratio, read where the rollouts hold only one set of log-probabilities."""


def judge(run: Run) -> Result:
    """Compare the mean ratio of new to old probability, and its tails, with PPO's clip range."""
    metrics, weights = run.tables.metrics, run.column("ratio_tokens")
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
    met = run.met(RatioDrift.low, "<", mean) + run.met(RatioDrift.high, ">", mean)
    series = series if met else tails
    met += run.met(RatioDrift.outside, ">", outside)
    if not met:
        return None
    onset = run.onset(series, always=was_so(series, met[0]))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(run.column("ratio_outside"), onset, unit="of tokens"),
        series=series,
        ratio=mean,
        outside=outside,
    )


def title(facts: Facts) -> str:
    """Return the mean ratio and its tails."""
    if facts["outside"] is None:
        return marked(
            "Updates are too large: new over old probability is {ratio:figure} on average."
        )
    return marked(
        "Updates are too large: new over old probability is {ratio:figure} on average, and "
        "{outside:percent} of tokens lie outside 1 ± 0.2."
    )


CHECK = Check(
    id="ratio_drift",
    name=marked("updates are too large"),
    rank="cause",
    looks_for="updates are too large",
    needs=(),
    charts=("mismatch",),
    judge=judge,
    limits=RatioDrift,
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
