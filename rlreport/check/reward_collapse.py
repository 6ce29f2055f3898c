"""``reward_collapse``: the reward rose, then fell."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result, extremes
from rlreport.check.compare import above
from rlreport.check.noise import change
from rlreport.check.thresholds import LMFLOW, Thresholds
from rlreport.check.windows import first_and_last, window
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the best window of the run with the first and with the last."""
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    first, last = windows
    size = len(first.steps)
    means = np.nan_to_num(tables.steps["reward_mean"].to_numpy(dtype=float), nan=-np.inf)
    smooth = np.lib.stride_tricks.sliding_window_view(means, size).mean(axis=1)
    start = int(np.argmax(smooth))
    best = window(tables, start, start + size)
    reward = tables.responses["reward"].to_numpy(dtype=float)
    gain = change(tables, reward, first, best)
    loss = change(tables, reward, best, last)
    z = thresholds.trend.z
    if not (gain.z >= z and loss.z <= -z):
        return None
    lost = -loss.difference / gain.difference
    if not above(lost, thresholds.reward_collapse.lost):
        return None
    steps = tables.steps["step"].to_numpy()
    return CHECK.finding(
        "warning",
        f"The reward rose from {figure(gain.first)} to {figure(gain.last)} around step "
        f"{best.steps[size // 2]}, then fell to {figure(loss.last)}: "
        f"{percent(lost)} of the gain lost",
        steps=steps[start + size :].tolist() or list(last.steps),
        responses=extremes(tables.responses.iloc[last.rows], "reward"),
    )


CHECK = Check(
    id="reward_collapse",
    looks_for="the reward rose, then fell",
    needs=(REWARD,),
    charts=("reward", "reward_distribution"),
    why="What the run had learned is gone; its last checkpoint is worse than an earlier one.",
    suggestion=(
        "Keep the checkpoint of the best window. Lower the learning rate, clip harder or raise "
        "the KL coefficient, and look at KL, entropy and the critic where the fall begins."
    ),
    source=LMFLOW,
    judge=judge,
)
