"""``reward_part_dominance``: one part of the reward carries it all."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import centred
from rlreport.check.run import Run, Shown
from rlreport.text.messages import marked


class RewardPartDominance(Limits):
    """Thresholds of ``reward_part_dominance``."""

    share = Limit(
        0.75, "of the reward", "info: its variance inside steps, or its gain, from one part"
    )


def judge(run: Run) -> Result:
    """Share the reward's variance inside steps, and its gain, among its parts.

    A part's share of the variance is its covariance with the reward over the reward's
    variance; the shares of parts that add up to the reward add up to one.
    """
    extras = run.tables.extras
    parts = {
        name: extras[name].to_numpy(np.float64)
        for name in run.tables.reward_parts
        if name in extras and pd.api.types.is_numeric_dtype(extras[name])
    }
    parts = {name: part for name, part in parts.items() if np.isfinite(part).any()}
    if len(parts) < 2:
        return CHECK.not_run("reward_parts, two or more")
    reward = run.column("reward")
    gain = run.change(reward)
    rose = gain.rose
    found = []
    for name, part in parts.items():
        known = np.isfinite(reward) & np.isfinite(part) & (run.place >= _start(run))
        y, x = (centred(values[known], run.place[known]) for values in (reward, part))
        varied = float((y * y).sum())
        of_variance = float((x * y).sum()) / varied if varied > 1e-12 else np.nan
        of_gain = run.change(part).difference / gain.difference if rose else np.nan
        found.append((name, of_variance, of_gain))
    name, of_variance, of_gain = max(found, key=lambda f: float(np.nanmax([f[1], f[2], -1.0])))
    met = run.met(RewardPartDominance.share, ">", float(np.nanmax([of_variance, of_gain, -1.0])))
    if not met:
        return None
    return CHECK.finding(
        run,
        "info",
        met,
        shown=Shown(parts[name]),
        part=name,
        of_variance=of_variance,
        of_gain=of_gain,
    )


def _start(run: Run) -> int:
    return len(run.steps) - len(run.last.steps)


def title(facts: Facts) -> str:
    """Return which part dominates, and what."""
    if facts["of_gain"] is None:
        return marked(
            "The part {part:quoted} holds {of_variance:percent} of the reward's variance inside "
            "steps."
        )
    return marked(
        "The part {part:quoted} holds {of_variance:percent} of the reward's variance inside steps "
        "and {of_gain:percent} of its gain."
    )


CHECK = Check(
    id="reward_part_dominance",
    name="one part dominates the reward",
    rank="note",
    looks_for="one part of the reward carries it all",
    needs=(REWARD,),
    charts=("reward",),
    judge=judge,
    limits=RewardPartDominance,
    title=title,
    why="The other parts of the reward hardly steer the policy: it learns this one alone.",
    suggestion="Weigh the parts so that their spreads inside a step are alike.",
    source="rewardspy",
    needs_also="reward_parts, two or more",
    of_reward=True,
)
