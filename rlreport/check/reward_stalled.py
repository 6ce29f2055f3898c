"""``reward_stalled``: no gain over the start, or none over the reference."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REF_REWARD, REWARD, Check, Result
from rlreport.check.finding import Fact, Facts, Met
from rlreport.check.limits import RL_BOARD, Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.text.messages import marked


class RewardStalled(Limits):
    """Thresholds of ``reward_stalled``."""

    z = Limit(2.0, "std errors", "info: gain of the last window over the first", RL_BOARD)


def judge(run: Run) -> Result:
    """Look for a gain since the first window, and for more wins than losses at the end."""
    if run.first is None and not REF_REWARD.met(run):
        return CHECK.too_short(run)
    reward, gap = run.column("reward"), run.column("reward_gap")
    facts: dict[str, Fact] = {}
    met: list[Met] = []
    if not run.short:
        moved = run.change(reward)
        if met := run.met(RewardStalled.z, "<", moved.z):
            facts |= {"start": moved.first, "end": moved.last}
    end = gap[run.last.rows]
    end = end[np.isfinite(end)]
    if len(end) and np.mean(end > 0) <= np.mean(end < 0):
        facts |= {"wins": float(np.mean(end > 0)), "losses": float(np.mean(end < 0))}
    if not facts:
        return None
    by = gap if np.isfinite(gap).any() else reward
    return CHECK.finding(run, "info", met, shown=Shown(by, highest=False), more=facts)


def title(facts: Facts) -> str:
    """Return what was not gained."""
    if "wins" not in facts:
        return marked("The reward did not rise: {start:figure} at first, {end:figure} at the end.")
    if "start" not in facts:
        return marked(
            "The policy beats the reference in {wins:percent} of responses and loses in "
            "{losses:percent}."
        )
    return marked(
        "The reward did not rise: {start:figure} at first, {end:figure} at the end, where the "
        "policy beats the reference in {wins:percent} of responses and loses in "
        "{losses:percent}."
    )


CHECK = Check(
    id="reward_stalled",
    name="no gain in reward",
    rank="note",
    looks_for="no gain over the start, or none over the reference",
    needs=(REWARD,),
    charts=("reward", "win_rate"),
    judge=judge,
    limits=RewardStalled,
    title=title,
    why="The run cost its compute and the policy is no better by its own reward.",
    suggestion="Look at the spread of the reward inside a step and inside groups: without "
    "differences there is nothing to learn. Then try a higher learning rate, a lower KL "
    "coefficient or easier prompts.",
    trend=False,
    of_reward=True,
)
