"""``length_hacking``: length buys reward."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.compare import at_least
from rlreport.check.finding import Facts
from rlreport.check.noise import within_step_correlation
from rlreport.check.run import Run
from rlreport.check.thresholds import CONTRACT
from rlreport.check.windows import whole
from rlreport.text.messages import marked, told


def judge(run: Run) -> Result:
    """Ask for longer responses and, inside a step, for more reward to the longer ones.

    The correlation is taken over the last window or, where length has run into its limit
    and no longer varies, over the whole run: either shows what was paid for.
    """
    limits = run.limits.length_hacking
    length, reward = run.column(run.length), run.column("reward")
    moved = run.change(length)
    if not (at_least(moved.last, limits.ratio * moved.first) and moved.z >= run.limits.trend.z):
        return None
    parts = (run.last, whole(run.tables))
    paid, z = max(
        (within_step_correlation(run.tables, reward, length, part) for part in parts),
        key=lambda found: (found[0] == found[0], found[0]),
    )
    if not (at_least(paid, limits.correlation) and z >= run.limits.trend.z):
        return None
    rewards = run.change(reward)
    if rewards.z <= -run.limits.trend.z:
        return None
    series = run.by_step(length)
    onset = run.onset(series)
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[
            CHECK.met(run, "ratio", ">=", moved.last / moved.first),
            CHECK.met(run, "correlation", ">=", paid),
        ],
        evidence=run.examples(length, onset, unit=run.length_unit, at_end=True),
        series=series,
        start=moved.first,
        end=moved.last,
        unit=run.length_unit,
        correlation=paid,
        reward_start=rewards.first if np.isfinite(rewards.first) else None,
        reward_end=rewards.last if np.isfinite(rewards.last) else None,
    )


def title(facts: Facts) -> str:
    """Return how responses grew, and that it pays."""
    if facts["unit"] == "tokens":
        return told(
            "Responses grew from {start:figure} to {end:figure} tokens and carried the reward "
            "from {reward_start:figure} to {reward_end:figure}: inside a step the longer ones earn "
            "more (correlation {correlation:figure}).",
            facts,
        )
    return told(
        "Responses grew from {start:figure} to {end:figure} characters and carried the reward "
        "from {reward_start:figure} to {reward_end:figure}: inside a step the longer ones earn "
        "more (correlation {correlation:figure}).",
        facts,
    )


CHECK = Check(
    id="length_hacking",
    name=marked("length hacking"),
    rank="cause",
    looks_for="length buys reward",
    needs=(REWARD,),
    charts=("length", "reward"),
    judge=judge,
    title=title,
    effect=marked("responses grew from {start:figure} to {end:figure} {unit}"),
    why=marked(
        "Longer text scores higher whatever it says, so the policy pads instead of improving."
    ),
    suggestion=marked(
        "Take length out of the reward: normalise or penalise it, retrain the reward model on "
        "pairs of equal length, or penalise responses cut off at the limit."
    ),
    source=CONTRACT,
    explains=(
        *("kl_explosion", "missing_eos", "diversity_collapse", "entropy_collapse"),
        *("not_sharpening", "reward_part_dominance", "persistent_losers"),
    ),
    of_reward=True,
)
