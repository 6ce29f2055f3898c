"""Checks of groups and prompts: equal rewards, prompts that never win, a reward that stays wide."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.check import REF_REWARD, REWARD, Check, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import RL_BOARD, Limit, Limits, above, at_least
from rlreport.check.run import Ranking, Run, has, mean, met_from_start
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, message

GROUPS = marked("DAPO; TRL frac_reward_zero_std")
RAGEN = marked("RAGEN (reward std falls before the collapse)")

EQUAL = 1e-6
"""Rewards of a group with a smaller population std count as equal."""


class ZeroVarianceGroups(Limits):
    """Thresholds of ``zero_variance_groups``."""

    share = Limit(0.5, "of groups", "have a reward std below 1e-6 in the last window", GROUPS)
    grouped = Limit(0.5, "of responses", "are in a group of two or more, else not checked", GROUPS)


class GroupStdFall(Limits):
    """Thresholds of ``group_std_fall``."""

    ratio = Limit(0.1, "times", "std inside groups against the first ten steps", RAGEN)
    steps = Limit(10, "steps", "number of first and of last steps compared", RAGEN)


class PersistentLosers(Limits):
    """Thresholds of ``persistent_losers``."""

    seen = Limit(5, "responses", "a prompt seen less often is not judged", RL_BOARD)
    share = Limit(0.05, "of prompts", "never beat the reference", RL_BOARD)


def judge_zero_variance(run: Run) -> Result:
    """Count the groups of the last window whose rewards are all equal.

    The severity is info if most of these groups are solved, or if the run learns and groups
    whose responses are all wrong are few or become fewer.
    """
    limits, window = run.limits[ZeroVarianceGroups], len(run.last.steps)
    groups = _groups(run)
    last_groups = groups[groups["step"].isin(run.last.steps)]
    graded = np.isfinite(run.column("reward")[run.last.rows]).sum()
    if last_groups.empty or last_groups["size"].sum() < limits.grouped * graded:
        return ZERO_VARIANCE_GROUPS.not_run("groups: several responses to a prompt in a step")
    if run.has("value_mean"):
        return ZERO_VARIANCE_GROUPS.not_run("a run that learns from groups; this one has a critic")
    share, solved, wrong = last_groups[["equal", "solved", "wrong"]].mean().tolist()
    if not (met := run.met(ZeroVarianceGroups.share, ">", share)):
        return None
    by_step = groups.groupby("step")[["equal", "wrong"]].mean().reindex(run.steps)
    series = by_step["equal"].to_numpy(np.float64)
    before = by_step[:window].mean()
    too_hard = above(wrong, limits.share) and at_least(wrong, before["wrong"])
    harmless = 2 * solved > share or (run.learned and not too_hard)
    among = run.responses["group"].isin(groups.index[groups["equal"]]).to_numpy()
    return ZERO_VARIANCE_GROUPS.finding(
        run,
        "info" if harmless else "warning",
        met,
        series=series,
        always=met_from_start(series, met[0]) or above(before["equal"], limits.share),
        ranking=Ranking(run.column("reward"), highest=False, among=among),
        share=share,
        groups=len(last_groups),
        solved=solved,
        wrong=wrong,
    )


def _groups(run: Run) -> pd.DataFrame:
    """Return a row per group of two or more responses: its size, its step and three flags.

    ``equal``: all rewards are equal. ``solved`` and ``wrong``: they all equal the run's best,
    or lowest, reward; both are False if the run has only one reward.
    """
    rows = run.responses.dropna(subset=["reward"])
    by_group = rows.groupby("group")
    groups = by_group["reward"].agg(["size", "max"])
    groups["equal"] = by_group["reward"].std(ddof=0) < EQUAL
    groups["step"] = by_group["step"].first()
    lowest, best = rows["reward"].min(), rows["reward"].max()
    comparable = groups["equal"] & (best > lowest)
    groups["solved"] = comparable & (groups["max"] >= best)
    groups["wrong"] = comparable & (groups["max"] <= lowest)
    return groups[groups["size"] >= 2]


def _zero_variance_title(facts: Facts) -> str:
    solved, share = (float(str(facts[kind] or 0)) for kind in ("solved", "share"))
    if 2 * solved > share:
        return marked(
            "{share:percent} of {groups:count} groups give no learning signal: {solved:percent} "
            "are solved, and harder prompts would teach more."
        )
    return marked(
        "{share:percent} of {groups:count} groups give no learning signal: in {wrong:percent} "
        "every response earns the lowest reward, in {solved:percent} the best."
    )


ZERO_VARIANCE_GROUPS = Check(
    id="zero_variance_groups",
    name="groups without a learning signal",
    rank="cause",
    looks_for="groups whose responses all earn the same reward",
    needs=(REWARD,),
    charts=("groups",),
    judge=judge_zero_variance,
    limits=ZeroVarianceGroups,
    title=_zero_variance_title,
    why="Where all responses of a group earn the same, their advantages are zero: the group costs "
    "sampling and gives no gradient.",
    suggestion="Sample other groups instead (DAPO's dynamic sampling), choose prompts of medium "
    "difficulty, or use a finer reward.",
    explains=("reward_stalled", "group_std_fall"),
    trend=False,
    needs_also="groups of responses, and no critic",
)


def judge_std_fall(run: Run) -> Result:
    """Compare the std inside groups of the last ten steps with the mean of the first ten.

    In a run that learns or was solved, a fall is a sign of success: severity info.
    """
    limits, steps = run.limits[GroupStdFall], run.tables.steps
    if not has(steps, "group_std_mean") or run.has("value_mean"):
        return GROUP_STD_FALL.not_run(GROUP_STD_FALL.needs_also)
    series = steps["group_std_mean"].to_numpy(np.float64)
    finite = series[np.isfinite(series)]
    if len(finite) < 2 * limits.steps:
        return GROUP_STD_FALL.not_run(
            message("groups in at least {steps} steps", steps=2 * limits.steps)
        )
    start, highest = float(finite[: limits.steps].mean()), float(finite[-limits.steps :].max())
    if not (met := run.met(GroupStdFall.ratio, "<", highest, of=start)):
        return None
    return GROUP_STD_FALL.finding(
        run,
        "info" if run.learned or run.solved else "warning",
        met,
        series=series,
        start=start,
        end=float(finite[-limits.steps :].mean()),
    )


GROUP_STD_FALL = Check(
    id="group_std_fall",
    name="rewards inside groups no longer differ",
    rank="consequence",
    needs=(REWARD,),
    charts=("groups",),
    judge=judge_std_fall,
    limits=GroupStdFall,
    title="The reward's std inside groups fell from {start:figure} to {end:figure}.",
    why="Without differences inside groups there is no gradient, and noise decides.",
    suggestion="Keep the groups with the largest std (RAGEN), or choose prompts of medium "
    "difficulty.",
    explains=("reward_stalled",),
    needs_also="groups of responses, and no critic",
)


def judge_losers(run: Run) -> Result:
    """Count the prompts that never beat the reference and lose on average, if seen often enough."""
    limits = run.limits[PersistentLosers]
    gap = run.column("reward_gap")
    rows = run.responses.assign(gap=gap).dropna(subset=["gap"])
    prompts = rows.groupby("prompt_id")["gap"].agg(["size", "max", "mean"])
    prompts = prompts[prompts["size"] >= limits.seen]
    if prompts.empty:
        return PERSISTENT_LOSERS.not_run(
            message("prompts seen at least {times} times", times=limits.seen)
        )
    losers = prompts[(prompts["max"] <= 0) & (prompts["mean"] < 0)]
    share = len(losers) / len(prompts)
    met = run.met(PersistentLosers.share, ">=", share)
    if losers.empty or not met:
        return None
    worst = losers.sort_values("mean", kind="stable").index[:5]
    among = run.responses["prompt_id"].isin(worst).to_numpy()
    return PERSISTENT_LOSERS.finding(
        run,
        "info",
        met,
        ranking=Ranking(gap, highest=False, among=among),
        steps=run.steps[run.steps_of(among)].tolist(),
        losers=len(losers),
        prompts=len(prompts),
        share=share,
        seen=limits.seen,
    )


PERSISTENT_LOSERS = Check(
    id="persistent_losers",
    name="prompts that never win",
    rank="note",
    looks_for="prompts that never beat the reference",
    needs=(REWARD, REF_REWARD),
    charts=("win_rate",),
    judge=judge_losers,
    limits=PersistentLosers,
    title="{losers:count} of {prompts:count} prompts ({share:percent}) never beat the reference, "
    "each seen at least {seen} times.",
    why="The mean can rise while some prompts are lost for good.",
    suggestion="Open them on the prompts page: they may be mislabelled, or out of reach.",
    trend=False,
    of_reward=True,
)


def judge_sharpening(run: Run) -> Result:
    """Find a reward whose mean rose while its std inside steps did not fall."""
    reward = run.column("reward")
    moved = run.change(reward)
    stds: Floats = np.sqrt(run.by_step((reward - run.by_step(reward)[run.step_index]) ** 2))
    ends = (stds[: len(run.last.steps)], run.last_values(stds))
    before, after = (float(np.sqrt(mean(part**2))) for part in ends)
    if not (moved.rose and before > 0 and at_least(after, before)):
        return None
    return NOT_SHARPENING.finding(
        run,
        "info",
        ranking=Ranking(reward, highest=False),
        start=moved.first,
        end=moved.last,
        std_start=before,
        std_end=after,
    )


NOT_SHARPENING = Check(
    id="not_sharpening",
    name="the reward does not narrow",
    rank="note",
    looks_for="the reward distribution does not narrow",
    needs=(REWARD,),
    charts=("reward_distribution",),
    judge=judge_sharpening,
    title="The reward rose from {start:figure} to {end:figure} but did not narrow: its std inside "
    "a step went from {std_start:figure} to {std_end:figure}.",
    why="A mean that rises while the spread stays often means that part of the prompts gain and "
    "the rest are left behind.",
    suggestion="Look at the lowest responses of the last steps, and at rewards by prompt.",
    source=RL_BOARD,
    of_reward=True,
)
