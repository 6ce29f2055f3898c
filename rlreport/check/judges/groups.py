"""Checks of rewards (grades) by group and by prompt, such as missing grades or equal rewards."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.check import (
    FAILURES,
    REWARD,
    Check,
    Need,
    Result,
    RiseOrShare,
)
from rlreport.check.finding import Facts, Finding, Limit, Limits, Severity, meets
from rlreport.check.judges.hacking import reward_hacking_token
from rlreport.check.judges.text import length_hacking
from rlreport.check.noise import TINY, Trend, correlation_within
from rlreport.check.run import ROUNDING, Ranking, Run, has, mean, median, met_from_start
from rlreport.check.series import MIN_WINDOW, Series, running_mean
from rlreport.figures.ragged import Floats, Ints
from rlreport.read.notes import Missing
from rlreport.summarise.steps import FAR, Grouped, advantage_fit, most_common, passes_of, typical
from rlreport.text.messages import format_message, message, sentences, translatable

GROUPS = translatable("DAPO; TRL frac_reward_zero_std")
RAGEN = translatable("RAGEN (reward std falls before the collapse)")

WINDOW = 3  # Number of steps in the running mean of the share of missing grades
MIN_SHARE = 0.05  # A step with a smaller share of responses without a grade is never considered bad
EQUAL = 1e-6  # Rewards of a group are equal if their population std is smaller than this


class _MissingGrades(Limits):
    window = Limit(
        0.3, "of responses", "share without a grade in any three consecutive steps (warning)"
    )
    part = Limit(0.1, "of steps", "steps with many missing grades (fewer count at the end)")


def _missing_title(facts: Facts) -> str:
    lines = [
        translatable(
            "{missing:count} of {responses:count} responses ({share:percent}) have no grade and "
            "are left out of all reward figures: {null:count} null, {judge_failed:count} judge "
            "failed, {masked:count} masked, {error:count} grader errors."
        )
    ]
    if "window" in facts:
        lines.append(translatable("In steps {low} to {high}, {window:percent} were not graded."))
    if facts["groups"]:
        lines.append(
            translatable(
                "Groups graded only in part: {groups:count}, of which {silent:count} have fewer "
                "than two grades and give no learning signal."
            )
        )
    return sentences(format_message(line, facts) for line in lines)


@Check(
    name="missing grades",
    rank="note",
    charts=("reward",),
    limits=_MissingGrades,
    title=_missing_title,
    statement="rewards are missing",
    why="A failed grade that counts as 0 gives the others of its group an unearned advantage.",
    suggestion="Grade again, or mask these responses in the loss; look at the judge's time limits.",
    whole_run=True,
)
def missing_grades(check: Check, run: Run) -> Result:
    kinds = run.responses["missing_grade"].to_numpy()
    missing = kinds > 0
    if not missing.any():
        return None
    by_step = run.by_step(missing.astype(np.float64))
    failed = run.by_step((missing & (kinds != Missing.MASKED)).astype(np.float64))
    size = min(WINDOW, len(failed))
    windows = running_mean(failed, size)
    at = int(np.argmax(windows))
    met = run.met(_MissingGrades.window, ">", float(windows[at]))
    bad_steps = failed > max(float(failed.max()) / 2, MIN_SHARE)
    many = float(bad_steps.mean()) > run.limits[_MissingGrades].part
    steps = run.steps[bad_steps if met and bad_steps.any() else by_step > 0]
    since = int(steps[0])
    last = int(steps[-1])
    grades = run.responses.assign(graded=~missing).groupby("group")["graded"].agg(["size", "sum"])
    partial = grades[(grades["sum"] < grades["size"]) & (grades["size"] > 1)]
    facts: Facts = {kind.name.lower(): int((kinds == kind).sum()) for kind in Missing}
    facts = {**facts, "missing": int(missing.sum()), "responses": len(missing)}
    facts = {**facts, "groups": len(partial), "silent": int((partial["sum"] < 2).sum())}
    facts = {**facts, "share": float(missing.mean())}
    if met:
        low = int(run.steps[at])
        high = int(run.steps[at + size - 1])
        facts = {**facts, "window": float(windows[at]), "low": low, "high": high}
    return check.finding(
        run,
        "warning" if met and (many or bad_steps[-size:].any()) else "info",
        met,
        facts,
        Ranking(-run.step_index.astype(np.float64), among=missing),
        onset=since,
        until=last if last < run.steps[-1] else None,
        steps=steps[:200].tolist(),
    )


class _ZeroVarianceGroups(RiseOrShare):
    share = Limit(
        0.5,
        "of groups",
        "share of groups whose rewards are equal (std below 1e-6), last window",
        GROUPS,
    )
    grouped = Limit(
        0.5, "of responses", "share in a group of two or more; below it not checked", GROUPS
    )


@Check(
    name="groups without a learning signal",
    rank="cause",
    needs=(Need("reward", ("reward",), ("zero_variance",)),),
    charts=("groups",),
    limits=_ZeroVarianceGroups,
    title={
        "share": "{share:percent} of groups give no learning signal ({before:percent} at the "
        "start).",
        "solved": "{equal:count} of the last {groups:count} groups give no learning signal; "
        "{best:count} are solved, and harder prompts would teach more.",
        "best": "{equal:count} of the last {groups:count} groups give no learning signal: in "
        "{best:count}, all responses earn the best reward.",
        "mixed": "{equal:count} of the last {groups:count} groups give no learning signal: in "
        "{lowest:count} all responses earn the lowest reward, in {best:count} the best.",
        "wrong": "{equal:count} of the last {groups:count} groups give no learning signal: in "
        "{lowest:count}, all responses earn the lowest reward.",
        "between": "{equal:count} of the last {groups:count} groups give no learning signal: their "
        "responses earn equal rewards, neither the lowest nor the best.",
        "constant": "{equal:count} of the last {groups:count} groups give no learning signal: all "
        "responses of the run earn the same reward.",
    },
    statement=lambda facts: (
        translatable("{equal:count} of {groups:count} groups give no learning signal")
        if "equal" in facts
        else translatable("{share:percent} of groups give no learning signal")
    ),
    why="If all responses of a group earn the same reward, its advantages and gradient are zero.",
    suggestion="Sample other groups instead (DAPO), choose other prompts, or use a finer reward.",
    explains=("reward_stalled", "group_std_fall", "dropped_groups"),
    needs_also="groups of responses, and no critic",
)
def zero_variance_groups(check: Check, run: Run) -> Result:  # noqa: PLR0914
    if not run.has("reward") and "explained_variance" not in run.roles:
        # A note if the run learns, or most of these groups are solved.
        is_note = run.learned or _are_solved_by_metrics(run)
        severity: Severity = "info" if is_note else "warning"
        return check.judge_metric(run, "zero_variance", severity=severity, facts={"kind": "share"})
    limits = run.limits[_ZeroVarianceGroups]
    window = len(run.last.steps)
    groups = _groups(run)
    last_groups = groups[groups["step"].isin(run.last.steps)]
    graded = np.isfinite(run.column("reward"))
    min_grouped = limits.grouped * graded[run.last.rows].sum()
    if last_groups.empty or last_groups["size"].sum() < min_grouped:
        return check.not_run("groups (several responses to a prompt in a step)")
    if run.has("value_mean"):
        return check.not_run("a run that learns from groups; this one has a critic")
    share, wrong = last_groups[["equal", "wrong"]].mean().tolist()
    if not (met := run.met(_ZeroVarianceGroups.share, ">", share)):
        return None
    by_step = groups.groupby("step")[["equal", "wrong"]].mean().reindex(run.steps)
    series = by_step["equal"].to_numpy(np.float64)
    before = by_step[:window].mean()
    too_hard = meets(">", wrong, limits.share) and meets(">=", wrong, before["wrong"])
    always = met_from_start(series, met[0]) or meets(">", before["equal"], limits.share)
    onset = run.onset(series, always=always)
    if onset is not None and onset.step == run.steps[-1]:
        onset = None  # a single step is too short for an onset
    kind = _kind_of(run, last_groups)
    equal, best, lowest = map(int, last_groups[["equal", "best", "wrong"]].sum())
    facts: Facts = {"share": share, "groups": len(last_groups), "kind": kind}
    facts = {**facts, "equal": equal, "best": best, "lowest": lowest}
    severity = "info" if kind == "solved" or (run.learned and not too_hard) else "warning"
    return check.finding(run, severity, met, facts, _ranking(run, groups, kind), onset=onset)


def _are_solved_by_metrics(run: Run) -> bool:
    """Return whether most groups of equal rewards must be solved, by the mean reward of each step.

    The best reward is known only if step means reach exactly the same highest value repeatedly,
    which means of a bounded reward do where all responses earn the bound. The mean reward, from 0
    for the lowest to 1 for the best, is at most 1 − u if a share u of groups earns the lowest.
    """
    zero_variance = run.series_of("zero_variance")
    reward = run.reward.values
    reward = reward[np.isfinite(reward)]
    if zero_variance is None or not len(reward):
        return False
    lowest = float(reward.min())
    best = float(reward.max())
    reached = np.isclose(reward, best, rtol=ROUNDING, atol=0.0)
    if best == lowest or reached.sum() < MIN_WINDOW:
        return False
    level = (mean(run.last_values(run.align(run.reward))) - lowest) / (best - lowest)
    equal = mean(run.last_values(run.align(zero_variance)))
    return 1 - level < equal / 2


def _groups(run: Run) -> pd.DataFrame:
    """Return the groups of two or more graded responses: whether rewards are equal, and which.

    Of groups with ``equal`` rewards, ``best`` earn the run's best reward and ``wrong`` its lowest;
    ``solved`` are those of the best whose responses are not known to be incorrect.
    """
    rows = run.responses.dropna(subset=["reward"])
    by_group = rows.groupby("group")
    groups = by_group["reward"].agg(["size", "max"])
    groups["equal"] = by_group["reward"].std(ddof=0) < EQUAL
    groups["step"] = by_group["step"].first()
    lowest = rows["reward"].min()
    best = rows["reward"].max()
    comparable = groups["equal"] & (best > lowest)
    groups["best"] = comparable & (groups["max"] >= best)
    groups["solved"] = groups["best"] & ~(by_group["correct"].min() < 1)
    groups["wrong"] = comparable & (groups["max"] <= lowest)
    return groups[groups["size"] >= 2]


def _kind_of(run: Run, last_groups: pd.DataFrame) -> str:
    """Return the key of the title, which says what most groups of equal rewards earn."""
    rewards = run.column("reward")
    if np.ptp(rewards[np.isfinite(rewards)]) == 0:
        return "constant"
    counts = last_groups[["equal", "best", "solved", "wrong"]].sum()
    if 2 * counts["solved"] > counts["equal"] and not _is_hacked(run):
        return "solved"
    if counts["best"] and counts["wrong"]:
        return "mixed"
    if counts["best"]:
        return "best"
    return "wrong" if counts["wrong"] else "between"


def _is_hacked(run: Run) -> bool:
    """Return whether the best reward may be earned without solving the task."""
    results = (check.run(run) for check in (reward_hacking_token, length_hacking))
    return any(isinstance(one, Finding) and one.severity != "info" for one in results)


def _ranking(run: Run, groups: pd.DataFrame, kind: str) -> Ranking:
    """Select responses of the last groups that show what the title of this kind says of them."""
    column = {"solved": "solved", "best": "best", "wrong": "wrong"}.get(kind, "equal")
    among = run.responses["group"].isin(groups.index[groups[column]]).to_numpy()
    highest = kind in ("solved", "best")
    return Ranking(run.column("reward"), highest, "reward", among=among, in_last_window=True)


class _GroupStdFall(Limits):
    ratio = Limit(0.1, "times", "std within groups relative to the first ten steps", RAGEN)
    steps = Limit(10, "steps", "number of first and of last steps compared", RAGEN)


@Check(
    name="rewards within groups no longer differ",
    rank="consequence",
    needs=(REWARD,),
    charts=("groups",),
    limits=_GroupStdFall,
    title="The reward's std within groups fell from {start:figure} to {end:figure}.",
    statement="the reward's std within groups falls to {end:short} ({start:short} at the start)",
    why="Without differences within groups there is no learning signal, only noise.",
    suggestion="Keep groups with the largest std (RAGEN), or choose prompts of medium difficulty.",
    explains=("reward_stalled",),
    needs_also="groups of responses, and no critic",
    trend=True,
)
def group_std_fall(check: Check, run: Run) -> Result:
    size = run.limits[_GroupStdFall].steps
    steps = run.tables.steps
    if not has(steps, "group_std_mean") or run.has("value_mean"):
        return check.not_run(check.needs_also)
    series = steps["group_std_mean"].to_numpy(np.float64)
    finite = series[np.isfinite(series)]
    if len(finite) < 2 * size:
        return check.not_run(message("groups in at least {steps} steps", steps=2 * size))
    start = float(finite[:size].mean())
    last = finite[-size:]
    if not (met := run.met(_GroupStdFall.ratio, "<", float(last.max()), of=start)):
        return None
    severity: Severity = "info" if run.learned or run.solved else "warning"
    facts = {"start": start, "end": float(last.mean())}
    return check.finding(run, severity, met, facts, series=series)


@Check(
    name="sharpening, not learning",
    rank="note",
    needs=(Need("correct, or a reward of two values", ("correct",)),),
    charts=("pass_at_k",),
    title="pass@{k} fell from {start:figure} to {end:figure} while pass@1 rose from "
    "{one_start:figure} to {one_end:figure}: sharpening, not learning.",
    why="Right answers become more frequent, but fewer prompts have any: the policy narrows.",
    suggestion="Evaluate checkpoints by pass@k, and keep entropy up: a KL penalty, more prompts.",
    source=translatable("Yue et al. 2025, arXiv 2504.13837"),
    needs_also="groups of responses",
    trend=True,
)
def sharpening(check: Check, run: Run) -> Result:
    k, at_1, at_k = passes_of(run.responses)
    if k == 1:
        return check.not_run(check.needs_also)
    one = run.change(at_1)
    several = run.change(at_k)
    if not (one.rose and several.fell):
        return None
    facts: Facts = {"k": k, "start": several.first, "end": several.last}
    facts = {**facts, "one_start": one.first, "one_end": one.last}
    return check.finding(run, "info", (), facts, series=run.by_step(at_k))


LOGGED = "advantage_logged_mean"
GRPO = translatable("DeepSeekMath (GRPO); TRL and verl: (r − μ) / (σ + ε)")
CENTRED = 0.01  # The mean advantage of groups is 0 if it is below this part of their size


class _AdvantageMismatch(Limits):
    sign = Limit(-0.5, "", "correlation of logged advantages with recomputed ones", GRPO)
    own = Limit(0.5, "", "that correlation, if advantages fit other rows or fitted before")
    other = Limit(0.8, "", "correlation with the neighbouring row, or with the own row before")
    offset = Limit(0.25, "of their size", "mean advantage of groups (RMS) if it was 0 before", GRPO)
    far = Limit(FAR, "times", "an advantage that its reward does not explain, over the median")


@Check(
    name="advantages that do not follow from rewards",
    rank="cause",
    needs=(REWARD, Need("advantages", (LOGGED,))),
    charts=("advantages",),
    limits=_AdvantageMismatch,
    title={
        "sign": "Logged advantages have the opposite sign of those computed from rewards "
        "(correlation {own:figure}).",
        "other": "Logged advantages fit the reward of the neighbouring row (correlation "
        "{other:figure}), not that of their own ({own:figure}).",
        "own": "Logged advantages no longer follow from rewards: correlation {own:figure}.",
        "offset": "The mean advantage of a group is no longer 0, but {offset:percent} of the usual "
        "size of advantages.",
        "far": "Advantages reach {most:figure} ({ratio:figure} × the median), not due to rewards.",
    },
    statement={
        "sign": "advantages have the wrong sign",
        "other": "advantages fit the reward of the neighbouring row",
        "own": "advantages do not follow from rewards",
        "offset": "the mean advantage of a group is not 0",
        "far": "an advantage is {ratio:short} times the median",
    },
    why="Advantages decide which responses are reinforced: wrong ones train against the reward.",
    suggestion="Recompute a step's advantages: look at sign, baseline, groups and order of rows.",
    explains=FAILURES,
    needs_also="one advantage per response, no critic and no token_rewards",
    trend=True,
)
def advantage_mismatch(check: Check, run: Run) -> Result:  # noqa: PLR0914
    if run.has("value_mean") or run.has("rlhf_reward"):
        return check.not_run(check.needs_also)
    limits = _AdvantageMismatch
    bounds = run.limits[_AdvantageMismatch]
    least = run.limits[Trend].z
    column = {name: run.responses[name].to_numpy() for name in ("reward", "group", LOGGED)}
    steps = Grouped.by(run.step_index)
    logged = column[LOGGED]
    group = column["group"]
    recomputed, fit = advantage_fit(column, steps)
    size = typical(logged)
    usual = np.where(np.abs(logged) > FAR * size, np.nan, logged)
    own, z = correlation_within(run.tables, usual, recomputed, run.last)
    other = np.nan
    if abs(own) < bounds.own:  # in groups of two, the neighbour's is the opposite of the own
        labels = [pd.Series(recomputed).groupby(label) for label in (run.step_index, group)]
        shifted = [np.asarray(rows.shift(by), np.float64) for rows in labels for by in (1, -1)]
        pairs = [correlation_within(run.tables, usual, one, run.last) for one in shifted]
        other = max((r for r, z in pairs if z >= least), default=np.nan)
    offset = _offsets(group, usual, steps)
    error = np.abs(logged - recomputed * size / typical(recomputed))
    far = steps.max(np.where(error > FAR / 2 * size, np.abs(logged) / size, np.nan))
    ratio = float(np.fmax.reduce(far))
    end = mean(run.last_values(offset))
    broken = _jump(-fit, -bounds.other, -bounds.own)
    moved = _jump(offset, CENTRED, bounds.offset)
    first = int(np.argmax(far > bounds.far)) if median(fit) > bounds.other else None
    # Kind -> thresholds met, and the index at which it began, if that is known
    kinds = {
        "sign": (run.met(limits.sign, "<", own) if z <= -least else [], None),
        "other": (run.met(limits.other, ">", other), None),
        "own": (run.met(limits.own, "<", own) if broken else [], broken),
        "offset": (run.met(limits.offset, ">", end) if moved else [], moved),
        "far": ([] if first is None else run.met(limits.far, ">", ratio), first),
    }
    kind = next((kind for kind, (met, _) in kinds.items() if met), "")
    if not kind:
        return None
    met, at = kinds[kind]
    always = at is None and median(fit[: len(run.last.steps)]) < bounds.own
    onset = run.onset(fit, always=always) if at is None else int(run.steps[at])
    # In a run that learns with them from the start, the log is wrong rather than the trainer.
    severity: Severity = "critical" if at is None else "warning"
    severity = "info" if always and run.learned else severity
    facts: Facts = {"kind": kind, "own": own, "other": other, "offset": end, "ratio": ratio}
    facts = {**facts, "most": ratio * size}
    ranking = Ranking(error, unit="from the expected value", among=error > size / 2)
    return check.finding(run, severity, met, facts, ranking, onset=onset)


def _offsets(group: Ints, advantages: Floats, steps: Grouped) -> Floats:
    """Return by step the RMS mean advantage of groups of usual size over the RMS advantage."""
    groups = pd.Series(advantages).groupby(group)
    size, means = (groups.transform(name).to_numpy(np.float64) for name in ("count", "mean"))
    complete = size == most_common(size[size > 1])
    squares = steps.mean(np.where(complete, means**2, np.nan))
    return np.sqrt(squares / np.fmax(steps.mean(advantages**2), TINY))


def _jump(series: Floats, low: float, high: float) -> int | None:
    """Return the index, not near an end, where a series jumps from ``low`` to above ``high``."""
    before = np.fmax.accumulate(series)
    after = np.fmin.accumulate(series[::-1])[::-1]
    at = np.flatnonzero((before[:-1] <= low) & (after[1:] > high)) + 1
    return int(at[0]) if len(at) and MIN_WINDOW <= at[0] <= len(series) - MIN_WINDOW else None


class _DroppedGroups(RiseOrShare):
    share = Limit(0.5, "of responses", "share that the trainer dropped, last window", GROUPS)
    rise = Limit(0.1, "of responses", "rise of that share since the first window")
    kept = Limit(2.0, "std errors", "significance of the rise of the mean reward of kept responses")
    gap = Limit(0.25, "std of reward", "rise of that mean beyond that of all responses")


@Check(
    name="responses that the trainer dropped",
    rank="cause",
    needs=(
        Need("reward", ("reward",), ("dropped",)),
        Need("a mark of dropped responses (is_filtered, effective)", ("dropped",), ("dropped",)),
    ),
    charts=("dropped", "kept_reward"),
    limits=_DroppedGroups,
    title={
        "hidden": "The mean reward of kept responses rose from {kept_start:figure} to "
        "{kept_end:figure}, but that of all fell from {all_start:figure} to {all_end:figure}: the "
        "trainer dropped {share:percent} of them, {before:percent} at the start.",
        "many": "The trainer dropped {share:percent} of responses, {before:percent} at the start.",
    },
    statement={
        "hidden": "the reward rises only because responses are dropped",
        "many": "the trainer drops {share:percent} of responses",
    },
    why="The policy learns nothing from dropped responses, and the trainer's mean omits them.",
    suggestion="Look at dropped responses, and choose prompts of medium difficulty.",
    explains=("reward_stalled",),
    trend=True,
)
def dropped_groups(check: Check, run: Run) -> Result:
    limits = _DroppedGroups
    dropped = run.column("dropped")
    every = np.fmax(run.column("reward"), run.column("masked_reward"))
    kept = np.where(dropped == 0, every, np.nan)
    if (figure := run.change_and_series("dropped", "dropped")) is None:
        return None
    (share, by_step), (of_kept, of_all) = figure, map(run.change, (kept, every))
    gap = of_kept.difference - of_all.difference
    hidden = [
        *run.met(limits.kept, ">", of_kept.z),
        *run.met(limits.gap, ">=", gap, of=run.spread()),
    ]
    many = [*run.met(limits.share, ">", share.last), *run.met(limits.rise, ">=", share.difference)]
    if len(hidden) == 2 and of_all.fell:
        kind = "hidden"
        met = hidden
        by_step = Series(run.steps, run.by_step(kept) - run.by_step(every))
    elif len(many) == 2 and share.rose:
        kind = "many"
        met = many
    else:
        return None
    facts: Facts = {"kind": kind, "share": share.last, "before": share.first}
    facts = {**facts, "kept_start": of_kept.first, "kept_end": of_kept.last}
    facts = {**facts, "all_start": of_all.first, "all_end": of_all.last}
    ranking = Ranking(every, highest=False, unit="reward", among=dropped == 1)
    learns = run.learned if by_step.source == "metrics" else of_all.rose
    severity: Severity = "info" if learns else "warning"
    return check.finding(run, severity, met, facts, ranking, series=by_step)
