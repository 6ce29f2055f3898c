"""``ratio_drift``: updates are too large."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown, mean
from rlreport.check.shapes import Figure, judge_figures
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
    weights, logged = run.column("ratio_tokens"), run.trainers(TRAINER_RATIO)
    tail = run.column("ratio_outside")
    outside = np.nan
    if np.nansum(weights[run.last.rows]) > 0:
        ratio = run.column("ratio_mean")
        at_end, outside = run.change(ratio, weights).last, run.change(tail, weights).last
        series, tails = run.by_step(ratio, weights), run.by_step(tail, weights)
    elif logged is not None:
        series = tails = logged
        at_end = mean(run.late(logged))
    else:
        return CHECK.not_run("old and new logprobs of the same tokens")
    figures = [
        Figure(RatioDrift.low, "<", series, at_end),
        Figure(RatioDrift.high, ">", series, at_end),
        Figure(RatioDrift.outside, ">", tails, outside),
    ]
    shown = Shown(tail, unit="of tokens")
    return judge_figures(CHECK, run, figures, shown, ratio=at_end, outside=outside)


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
    name="updates are too large",
    rank="cause",
    charts=("mismatch",),
    judge=judge,
    limits=RatioDrift,
    title=title,
    why="PPO trusts its data only near the policy that sampled it; past the clip range most "
    "tokens give no gradient, and the rest give a wrong one.",
    suggestion="Lower the learning rate, take fewer epochs over each batch, use larger "
    "mini-batches, and check that both log-probabilities are taken at the same temperature.",
    explains=(
        *(
            "reward_collapse",
            "watched_reward_fall",
            "kl_explosion",
            "entropy_collapse",
            "length_collapse",
        ),
        *("diversity_collapse", "missing_eos", "reward_stalled"),
    ),
    trend=False,
    needs_also="old and new logprobs of the same tokens, or the trainer's val/ratio",
)
