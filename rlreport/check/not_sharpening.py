"""``not_sharpening``: the reward distribution does not narrow."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.limits import RL_BOARD, at_least
from rlreport.check.run import Run, Shown, mean


def judge(run: Run) -> Result:
    """Compare the spread of the reward inside a step, where the mean rose."""
    reward = run.column("reward")
    moved = run.change(reward)
    squares = (reward - run.by_step(reward)[run.place]) ** 2
    stds, size = np.sqrt(run.by_step(squares)), len(run.last.steps)
    before, after = (float(np.sqrt(mean(part**2))) for part in (stds[:size], run.late(stds)))
    if not (moved.rose and before > 0 and at_least(after, before)):
        return None
    return CHECK.finding(
        run,
        "info",
        shown=Shown(reward, highest=False),
        start=moved.first,
        end=moved.last,
        std_start=before,
        std_end=after,
    )


CHECK = Check(
    id="not_sharpening",
    name="the reward does not narrow",
    rank="note",
    looks_for="the reward distribution does not narrow",
    needs=(REWARD,),
    charts=("reward_distribution",),
    judge=judge,
    title="The reward rose from {start:figure} to {end:figure} but did not narrow: its std inside "
    "a step went from {std_start:figure} to {std_end:figure}.",
    why="Training against reverse KL seeks a mode: a mean that rises while the spread stays is "
    "often a part of the prompts gaining and the rest left behind.",
    suggestion="Look at the lowest responses of the last steps, and at rewards by prompt.",
    source=RL_BOARD,
    of_reward=True,
)
