"""``group_std_fall``: rewards inside groups no longer differ."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, has
from rlreport.text.messages import marked, message

RAGEN = marked("RAGEN (reward std falls before the collapse)")


class GroupStdFall(Limits):
    """Thresholds of ``group_std_fall``."""

    ratio = Limit(0.1, "times", "std inside groups against the first ten steps", RAGEN)
    steps = Limit(10, "steps", "that are compared, and that it lasts", RAGEN)


def judge(run: Run) -> Result:
    """Compare the std inside groups of the last ten steps with the mean of the first ten.

    Where the reward rose it is how success looks, and told as info.
    """
    limits, steps = run.limits[GroupStdFall], run.tables.steps
    if not has(steps, "group_std_mean") or run.has("value_mean"):
        return CHECK.not_run(CHECK.needs_also)
    series = steps["group_std_mean"].to_numpy(np.float64)
    known = series[np.isfinite(series)]
    if len(known) < 2 * limits.steps:
        return CHECK.not_run(message("groups in at least {steps} steps", steps=2 * limits.steps))
    start, end = float(known[: limits.steps].mean()), float(known[-limits.steps :].max())
    if not (met := run.met(GroupStdFall.ratio, "<", end, of=start)):
        return None
    rose = run.change(run.column("reward")).rose
    return CHECK.finding(
        run,
        "info" if rose else "warning",
        met,
        series=series,
        start=start,
        end=float(known[-limits.steps :].mean()),
    )


CHECK = Check(
    id="group_std_fall",
    name="rewards inside groups no longer differ",
    rank="consequence",
    needs=(REWARD,),
    charts=("groups",),
    judge=judge,
    limits=GroupStdFall,
    title="The reward's std inside groups fell from {start:figure} to {end:figure}.",
    why="Advantages are what differs inside a group: without it there is no gradient, and noise "
    "decides; in agent runs it comes before a collapse.",
    suggestion="Keep the groups of largest std and drop the rest (RAGEN), or choose prompts of "
    "middling difficulty.",
    explains=("reward_stalled",),
    needs_also="groups of responses, and no critic",
)
