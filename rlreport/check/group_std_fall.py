"""``group_std_fall``: rewards inside groups no longer differ."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.compare import below
from rlreport.check.run import Run, has
from rlreport.check.thresholds_of_turns import RAGEN
from rlreport.text.messages import marked, message


def judge(run: Run) -> Result:
    """Compare the std inside groups of the last ten steps with the mean of the first ten.

    Where the reward rose it is how success looks, and told as info.
    """
    limits, steps = run.limits.group_std_fall, run.tables.steps
    if not has(steps, "group_std_mean") or run.has("value_mean"):
        return CHECK.not_run(CHECK.needs_also)
    series = steps["group_std_mean"].to_numpy(np.float64)
    known = series[np.isfinite(series)]
    if len(known) < 2 * limits.steps:
        return CHECK.not_run(message("groups in at least {steps} steps", steps=2 * limits.steps))
    start, end = float(known[: limits.steps].mean()), float(known[-limits.steps :].max())
    if not below(end, limits.ratio * start):
        return None
    rose = run.first is not None and run.change(run.column("reward")).z >= run.limits.trend.z
    return CHECK.finding(
        run,
        "info" if rose else "warning",
        onset=run.onset(series),
        thresholds=[CHECK.met(run, "ratio", "<", end / start)],
        series=series,
        start=start,
        end=float(known[-limits.steps :].mean()),
    )


CHECK = Check(
    id="group_std_fall",
    name=marked("rewards inside groups no longer differ"),
    rank="consequence",
    looks_for="rewards inside groups no longer differ",
    needs=(REWARD,),
    charts=("groups",),
    judge=judge,
    title=marked("The reward's std inside groups fell from {start:figure} to {end:figure}."),
    why=marked(
        "Advantages are what differs inside a group: without it there is no gradient, and noise "
        "decides; in agent runs it comes before a collapse."
    ),
    suggestion=marked(
        "Keep the groups of largest std and drop the rest (RAGEN), or choose prompts of middling "
        "difficulty."
    ),
    source=RAGEN,
    explains=("reward_stalled",),
    needs_also="groups of responses, and no critic",
)
