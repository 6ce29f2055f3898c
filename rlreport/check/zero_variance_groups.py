"""``zero_variance_groups``: groups that teach nothing."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.limits import Limit, Limits, above
from rlreport.check.run import Run, Shown, was_so
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked

GROUPS = marked("DAPO; TRL frac_reward_zero_std")


class ZeroVarianceGroups(Limits):
    """Thresholds of ``zero_variance_groups``."""

    share = Limit(0.5, "of groups", "have a reward std below 1e-6 in the last window", GROUPS)
    grouped = Limit(0.5, "of responses", "are in a group of two or more, else not checked", GROUPS)


ALIKE = 1e-6
"""Population standard deviation of the reward below which a group's responses are alike."""


def judge(run: Run) -> Result:
    """Count the groups of the last window whose rewards are all alike.

    Groups that are alike because all responses earn the best reward, after the reward
    rose, are a task that is learned: worth knowing, nothing wrong.
    """
    limits = run.limits[ZeroVarianceGroups]
    rows = run.responses.dropna(subset=["reward"])
    by_group = rows.groupby("group")["reward"]
    groups = by_group.agg(["size", "max"]).assign(
        std=by_group.std(ddof=0), step=rows.groupby("group")["step"].first()
    )
    groups = groups[groups["size"] >= 2]
    late = groups[groups["step"] >= run.last.steps[0]] if run.last.steps else groups
    in_window = int((rows["step"] >= run.last.steps[0]).sum()) if run.last.steps else 0
    if late["size"].sum() < limits.grouped * max(in_window, 1):
        return CHECK.not_run("groups: several responses to a prompt in a step")
    if run.has("value_mean"):
        return CHECK.not_run("a run that learns from groups; this one has a critic")
    share = float((late["std"] < ALIKE).mean())
    if not (met := run.met(ZeroVarianceGroups.share, ">", share)):
        return None
    alike = late[late["std"] < ALIKE]
    solved = float((alike["max"] >= run.responses["reward"].max()).sum()) / len(late)
    rose = run.change(run.column("reward")).rose
    learned = not above(share - solved, limits.share) and rose
    by_step = (groups["std"] < ALIKE).astype(float).groupby(groups["step"]).mean()
    series: Floats = np.asarray(by_step.reindex(run.steps), dtype=np.float64)
    among = run.responses["group"].isin(groups.index[groups["std"] < ALIKE]).to_numpy()
    return CHECK.finding(
        run,
        "info" if learned else "warning",
        met,
        series=series,
        always=was_so(series, met[0]),
        shown=Shown(run.column("reward"), highest=False, among=among),
        share=share,
        groups=len(late),
        solved=solved,
    )


CHECK = Check(
    id="zero_variance_groups",
    name="groups that teach nothing",
    rank="cause",
    needs=(REWARD,),
    charts=("groups",),
    judge=judge,
    limits=ZeroVarianceGroups,
    title="{share:percent} of {groups:count} groups have no variance in reward, {solved:percent} "
    "because every response earns the best reward.",
    why="The advantage is the reward less its group's mean: where all responses earn the same it "
    "is zero, so the group costs sampling and gives no gradient.",
    suggestion="Drop such groups and sample others (DAPO's dynamic sampling), choose prompts of "
    "middling difficulty, sample more responses a prompt, or use a finer reward.",
    explains=("reward_stalled",),
    trend=False,
    needs_also="groups of responses, and no critic",
)
