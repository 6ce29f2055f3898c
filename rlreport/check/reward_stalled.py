"""``reward_stalled``: no gain over the start, or none over the reference."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REF_REWARD, REWARD, Check, Result, extremes
from rlreport.check.noise import change
from rlreport.check.thresholds import RL_BOARD, Thresholds
from rlreport.check.windows import first_and_last, last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Look for a gain since the first window, and for more wins than losses at the end."""
    windows = first_and_last(tables, thresholds.trend)
    if windows is None and not REF_REWARD.met(tables):
        return CHECK.too_short(tables, thresholds)
    said = []
    if windows is not None:
        moved = change(tables, tables.responses["reward"].to_numpy(dtype=float), *windows)
        if moved.z < thresholds.reward_stalled.z:
            said.append(
                f"The reward did not rise: {figure(moved.first)} at the start, "
                f"{figure(moved.last)} at the end (z {figure(moved.z)})"
            )
    end = last(tables, thresholds.trend)
    rows = tables.responses.iloc[end.rows]
    both = rows.dropna(subset=["reward", "ref_reward"])
    if len(both):
        gap = (both["reward"] - both["ref_reward"]).to_numpy()
        wins, losses = float(np.mean(gap > 0)), float(np.mean(gap < 0))
        if wins <= losses:
            said.append(
                f"{'the' if said else 'The'} policy beats the reference in {percent(wins)} of "
                f"responses at the end and loses in {percent(losses)}"
            )
    if not said:
        return None
    return CHECK.finding(
        "info",
        "; ".join(said),
        steps=end.steps,
        responses=extremes(both if len(both) else rows, "reward"),
    )


CHECK = Check(
    id="reward_stalled",
    looks_for="no gain over the start, or none over the reference",
    needs=(REWARD,),
    charts=("reward", "win_rate"),
    why="The run cost its compute and the policy is no better by its own reward.",
    suggestion=(
        "Look at the spread of the reward inside a step and inside groups: without differences "
        "there is nothing to learn. Then try a higher learning rate, a lower KL coefficient or "
        "easier prompts."
    ),
    source=RL_BOARD,
    judge=judge,
    trend=False,
)
