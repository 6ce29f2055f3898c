"""``not_sharpening``: the reward distribution does not narrow."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result, extremes
from rlreport.check.compare import at_least
from rlreport.check.noise import change
from rlreport.check.thresholds import RL_BOARD, Thresholds
from rlreport.check.windows import Window, first_and_last
from rlreport.check.words import figure
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the spread of the reward inside a step, where the mean rose."""
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    moved = change(tables, tables.responses["reward"].to_numpy(dtype=float), *windows)
    before, after = (_spread(tables, part) for part in windows)
    if not (moved.z >= thresholds.trend.z and at_least(after, before)):
        return None
    end = windows[1]
    return CHECK.finding(
        "info",
        f"The reward rose from {figure(moved.first)} to {figure(moved.last)} but did not narrow: "
        f"its std inside a step went from {figure(before)} to {figure(after)}",
        steps=end.steps,
        responses=extremes(tables.responses.iloc[end.rows], "reward"),
    )


def _spread(tables: Tables, window: Window) -> float:
    """Return the root mean square over steps of the reward's population std."""
    stds = tables.steps.loc[tables.steps["step"].isin(window.steps), "reward_std"]
    return float(np.sqrt((stds.to_numpy(dtype=float) ** 2).mean())) if len(stds) else np.nan


CHECK = Check(
    id="not_sharpening",
    looks_for="the reward distribution does not narrow",
    needs=(REWARD,),
    charts=("reward_distribution",),
    why=(
        "Training against reverse KL seeks a mode: a mean that rises while the spread stays is "
        "often a part of the prompts gaining and the rest left behind."
    ),
    suggestion="Look at the lowest responses of the last steps, and at rewards by prompt.",
    source=RL_BOARD,
    judge=judge,
)
