"""``zero_variance_groups``: groups that teach nothing."""

from __future__ import annotations

from rlreport.check.check import REWARD, Check, Result, extremes, has
from rlreport.check.compare import above
from rlreport.check.noise import change
from rlreport.check.thresholds import GROUPS, Thresholds
from rlreport.check.windows import first_and_last, last
from rlreport.check.words import percent
from rlreport.tables import Tables

ALIKE = 1e-6
"""Population standard deviation of the reward below which a group's responses are alike."""


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Count the groups of the last window whose rewards are all alike.

    Groups that are alike because all responses earn the best reward, after the reward
    rose, are a task that is learned: worth knowing, nothing wrong.
    """
    limits, end = thresholds.zero_variance_groups, last(tables, thresholds.trend)
    rows = tables.responses.iloc[end.rows].dropna(subset=["reward"])
    by_group = rows.groupby("group")["reward"]
    groups = by_group.agg(["size", "max"]).assign(std=by_group.std(ddof=0))
    groups = groups[groups["size"] >= 2]
    if groups["size"].sum() < limits.grouped * max(len(rows), 1):
        return CHECK.not_run("groups: several responses to a prompt in a step")
    if has(tables.responses, "value_mean"):
        return CHECK.not_run("a run that learns from groups; this one has a critic")
    alike = groups[groups["std"] < ALIKE]
    share = len(alike) / len(groups)
    if not above(share, limits.share):
        return None
    solved = float((alike["max"] >= tables.responses["reward"].max()).sum()) / len(groups)
    learned = not above(share - solved, limits.share) and _rose(tables, thresholds)
    shown = rows[rows["group"].isin(alike.index)]
    firsts = shown[~shown["group"].duplicated()]
    return CHECK.finding(
        "info" if learned else "warning",
        f"{percent(share)} of {len(groups):,} groups at the end have no variance in reward, "
        f"{percent(solved)} because every response earns the best reward",
        steps=shown["step"].unique().tolist(),
        responses=extremes(firsts, "reward"),
    )


def _rose(tables: Tables, thresholds: Thresholds) -> bool:
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return False
    reward = tables.responses["reward"].to_numpy(dtype=float)
    return change(tables, reward, *windows).z >= thresholds.trend.z


CHECK = Check(
    id="zero_variance_groups",
    looks_for="groups that teach nothing",
    needs=(REWARD,),
    charts=("groups",),
    why=(
        "The advantage is the reward less its group's mean: where all responses earn the same it "
        "is zero, so the group costs sampling and gives no gradient."
    ),
    suggestion=(
        "Drop such groups and sample others (DAPO's dynamic sampling), choose prompts of middling "
        "difficulty, sample more responses a prompt, or use a finer reward."
    ),
    source=GROUPS,
    judge=judge,
    trend=False,
    needs_also="groups of responses, and no critic",
)
