"""Checks of rewards (grades) by group and by prompt, such as missing grades or equal rewards."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means, progress, quantities
from rlreport.check.check import REWARD, Check, Need, RiseOrShare
from rlreport.check.curve import LEAST_LEVEL
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.fit import deviate
from rlreport.check.judges.hacking import reward_hacking_token
from rlreport.check.judges.length import length_hacking
from rlreport.check.laws import blocks
from rlreport.check.limits import Limit, LimitKind, Limits, Tested, meets
from rlreport.check.means import mean
from rlreport.check.quantities import LimitedFigure
from rlreport.check.run import ROUNDING, Run, fall_onset, has
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import SettingKind, also, enabled, higher, see
from rlreport.check.windows import Change
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change
from rlreport.read.grades import Missing
from rlreport.summarise.steps import passes_of
from rlreport.text.messages import format_message, message, sentences, translatable

GROUPS = translatable("DAPO; TRL frac_reward_zero_std")
RAGEN = translatable("RAGEN (reward std falls before the collapse)")

WINDOW = 3  # Number of steps in the running mean of the share of missing grades
MIN_SHARE = 0.05  # A step with a smaller share of responses without a grade is never considered bad
MAX_STEPS = 200  # Maximum number of steps that a finding names
# Rewards of a group are equal if their population std is smaller than this
EQUAL = 1e-6


class _MissingGrades(Limits):
    window = Limit(
        0.3,
        LimitKind.SHARE,
        "of responses",
        "share without a grade in any three consecutive steps (warning)",
    )
    part = Limit(
        0.1,
        LimitKind.SHARE,
        "of steps",
        "steps with many missing grades (fewer count at the end)",
    )
    counted = Limit(
        0.02,
        LimitKind.SHARE,
        "of responses",
        "share with a reward whose parts are all null, in any tenth of the run (warning)",
        translatable("trl#5775: all reward functions returned None, and the sum was 0"),
    )


def _missing_title(facts: Facts) -> str:
    """Return the title: all missing grades, the worst steps if they warn, and groups concerned."""
    lines = [
        translatable(
            "{missing:count} of {responses:count} responses ({share:percent}) have no grade and "
            "are left out of all reward figures: {null:count} null, {judge_failed:count} judge "
            "failed, {masked:count} masked, {error:count} grader errors."
        )
    ]
    if facts["parts"]:
        lines.append(
            translatable(
                "{parts:count} have a reward of 0, but all of its parts are null: the trainer "
                "counted a missing grade as 0."
            )
        )
    if "window" in facts:
        lines.append(
            translatable("In steps {low} to {high}, {window:percent} were not graded.")
        )
    if facts["groups"]:
        lines.append(
            translatable(
                "Groups graded only in part: {groups:count}, of which {silent:count} have fewer "
                "than two grades and give no learning signal."
            )
        )
    return sentences(format_message(line, facts) for line in lines)


def _missing_statement(facts: Facts) -> str:
    if facts.get("parts"):
        return translatable("missing grades count as rewards of 0")
    return translatable("rewards are missing")


@Check(
    name="missing grades",
    rank=Rank.NOTE,
    charts=("reward",),
    limits=_MissingGrades,
    title=_missing_title,
    statement=_missing_statement,
    why="A failed grade that counts as 0 gives the others of its group an unearned advantage.",
    suggestion="Grade again, or mask these responses in the loss; look at the judge's time limits.",
    advice=see(SettingKind.GRADER),
    whole_run=True,
)
def missing_grades(check: Check, run: Run) -> Result:
    """Note responses without a grade; warn if they are many in any three steps."""
    kinds = run.responses["missing_grade"].to_numpy()  # of ``Missing``, 0 with a grade
    missing = kinds > 0
    if not missing.any():
        return Result()
    # What the trainer masked on purpose is no failure.
    has_failed = missing & (kinds != Missing.MASKED)
    failed = run.by_step(has_failed.astype(np.float64))
    size = min(WINDOW, len(failed))
    # The mean of each window of ``size`` steps, by its first step
    running_mean = pd.Series(failed).rolling(size).mean().to_numpy()
    windows = running_mean[size - 1 :]
    worst = int(np.argmax(windows))
    share = run.limits.test(_MissingGrades.window, ">", float(windows[worst]))
    bad_steps = failed > max(float(failed.max()) / 2, MIN_SHARE)
    are_many = float(bad_steps.mean()) > run.limits[_MissingGrades].part
    # Few bad steps are serious only if the run ends with them: they may go on.
    is_serious = share.met and (are_many or bad_steps[-size:].any())
    counted = run.limits.test(
        _MissingGrades.counted, ">", _largest_share(run, kinds == Missing.PARTS)
    )
    facts = _facts_of_missing_grades(run, kinds)
    if share.met:
        facts = {
            **facts,
            "window": float(windows[worst]),
            "low": int(run.steps[worst]),
            "high": int(run.steps[worst + size - 1]),
        }
    concerned = run.by_step(missing.astype(np.float64)) > 0
    if share.met and bad_steps.any() and not counted.met:
        concerned = bad_steps
    steps = run.steps[concerned]
    last = int(steps[-1])
    return check.found(
        run,
        Severity.WARNING if is_serious or counted.met else Severity.INFO,
        [share, counted],
        facts,
        # The first responses show how it began.
        Ranking(-run.step_index.astype(np.float64), missing),
        onset=int(steps[0]),
        until=last if last < run.steps[-1] else None,
        steps=steps[:MAX_STEPS].tolist(),
    )


def _largest_share(run: Run, counts: NDArray[np.bool_]) -> float:
    """Return the largest share of any block of steps that ``counts``, bool (rows,), marks."""
    windows = blocks(run) or (run.window(0, len(run.steps)),)
    return max(mean(counts[window.rows].astype(np.float64)) for window in windows)


def _facts_of_missing_grades(run: Run, kinds: Ints) -> Facts:
    """Return how many responses and groups lack grades, by kind (``Missing``) of the responses."""
    missing = kinds > 0
    by_group = run.responses.assign(graded=~missing).groupby("group")["graded"]
    grades = by_group.agg(["size", "sum"])  # responses, and those with a grade
    is_partial = (grades["sum"] < grades["size"]) & (grades["size"] > 1)
    partial = grades[is_partial]
    counts: dict[str, int] = {}
    for kind in Missing:
        counts[kind.name.lower()] = int((kinds == kind).sum())
    return {
        **counts,
        "missing": int(missing.sum()),
        "responses": len(missing),
        "groups": len(partial),
        "silent": int((partial["sum"] < 2).sum()),
        "share": float(missing.mean()),
    }


# Settings that name the estimator of advantages, by the last part of their names
_ESTIMATORS = ("adv_estimator", "advantage_estimator", "loss_type")
# Values of such settings whose baseline is not the mean of the group, so that a group of equal
# rewards has a gradient, too: verl, OpenRLHF, slime, NeMo-RL and ROLL
_NOT_OF_GROUPS = (
    "gae",
    "ppo",
    "reinforce",
    "reinforce_plus_plus",
    "remax",
    "no_baseline",
)


class _ZeroVarianceGroups(RiseOrShare):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of groups",
        "share of groups whose rewards are equal (std below 1e-6)",
        GROUPS,
    )
    grouped = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share in a group of two or more; below it not checked",
        GROUPS,
    )


# More responses to a prompt are less often all equal
_RESAMPLE_OR_MORE = enabled(SettingKind.GROUP_FILTER) + higher(SettingKind.GROUP_SIZE)


def _equal_groups_clause(facts: Facts) -> str:
    """Return the clause, with numbers of groups if they still lack a signal at the end."""
    if "equal" in facts:
        return translatable(
            "{equal:count} of {groups:count} groups give no learning signal"
        )
    if facts["kind"] == "past":
        return translatable(
            "{share:percent} of groups gave no learning signal in steps {low} to {high}"
        )
    return translatable("{share:percent} of groups give no learning signal")


@Check(
    name="groups without a learning signal",
    rank=Rank.CAUSE,
    needs=(Need("reward", ("reward",), ("zero_variance", "reward_std")),),
    charts=("groups",),
    limits=_ZeroVarianceGroups,
    title={
        "share": "{share:percent} of groups give no learning signal ({before:percent} at the "
        "start).",
        "past": "{share:percent} of groups gave no learning signal in steps {low} to {high} "
        "({before:percent} at the start, {after:percent} at the end).",
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
        "never": "No group gives a learning signal: at all {steps:count} steps, the rewards within "
        "groups are equal (standard deviation 0).",
    },
    statement=_equal_groups_clause,
    why="If all responses of a group earn the same reward, its advantages and gradient are zero.",
    suggestion="Sample other groups instead (DAPO), choose other prompts, or use a finer reward.",
    advice={
        "share": enabled(SettingKind.GROUP_FILTER) + higher(SettingKind.GROUP_SIZE),
        "past": enabled(SettingKind.GROUP_FILTER) + higher(SettingKind.GROUP_SIZE),
        "mixed": enabled(SettingKind.GROUP_FILTER) + higher(SettingKind.GROUP_SIZE),
        "wrong": enabled(SettingKind.GROUP_FILTER) + higher(SettingKind.GROUP_SIZE),
        "solved": enabled(SettingKind.GROUP_FILTER),
        "best": enabled(SettingKind.GROUP_FILTER),
        "between": see(SettingKind.GRADER),
        "constant": see(SettingKind.GRADER),
        "never": see(SettingKind.GRADER),
    },
    otherwise="Choose prompts of medium difficulty, or use a finer reward.",
    explains=("reward_stalled", "group_std_fall", "dropped_groups"),
    needs_also="groups of responses, and no critic",
)
def zero_variance_groups(check: Check, run: Run) -> Result:
    """Find that most late groups have equal rewards, and tell which rewards these are."""
    if _has_other_baseline(run):
        return check.not_run(
            "a run that learns from groups; this one has no group baseline"
        )
    # Only a run with a critic has an explained variance; it does not learn from groups.
    if not run.has("reward") and "explained_variance" not in run.roles:
        # A note if the run learns, or most of these groups are solved.
        is_note = progress.learned(run) or _are_solved_by_metrics(run)
        severity = Severity.INFO if is_note else Severity.WARNING
        if "zero_variance" not in run.roles:
            return _judge_spread(check, run, severity)
        return check.judge_metric(
            run, "zero_variance", severity=severity, facts={"kind": "share"}
        )
    groups = _groups(run)
    last_groups = groups[groups["step"].isin(run.last.steps)]
    graded = np.isfinite(run.column("reward"))[run.last.rows].sum()
    # A few prompts that happen to recur do not make groups.
    min_grouped = run.limits[_ZeroVarianceGroups].grouped * graded
    if last_groups.empty or last_groups["size"].sum() < min_grouped:
        return check.not_run("groups (several responses to a prompt in a step)")
    if run.has("value_mean"):
        return check.not_run("a run that learns from groups; this one has a critic")
    return _judge_equal_groups(check, run, groups, last_groups)


def _judge_spread(check: Check, run: Run, severity: Severity) -> Result:
    """Judge the standard deviation of rewards, which is 0 only if those of each group are equal.

    How many groups are equal it does not tell; but if it is 0 at all steps, all are.
    """
    spread = quantities.series_of(run, "reward_std")
    if spread is None or len(spread.steps) < MIN_STEPS:
        return check.not_run(check.needs_also)
    if (spread.values > EQUAL).any():
        return check.not_run(check.needs_also)
    tested = run.limits.test(_ZeroVarianceGroups.share, ">", 1.0)
    facts: Facts = {
        "kind": "never",
        "share": 1.0,
        "before": 1.0,
        "steps": len(spread.steps),
        "series_from": "metrics",
    }
    return check.found(run, severity, [tested], facts, onset=run.from_start())


def _has_other_baseline(run: Run) -> bool:
    """Return whether the configuration says that advantages are not relative to a group."""
    return any(
        str(value).lower().replace("+", "_plus") in _NOT_OF_GROUPS
        for name, value in run.settings.items()
        if name.rpartition(".")[2] in _ESTIMATORS
    )


def _judge_equal_groups(
    check: Check, run: Run, groups: pd.DataFrame, last_groups: pd.DataFrame
) -> Result:
    """Judge the share of groups with equal rewards.

    Args:
        check: the check.
        run: the run.
        groups: its groups, see ``_groups``.
        last_groups: those of the last window.
    """
    limit = run.limits[_ZeroVarianceGroups].share
    by_step = groups.groupby("step")[["equal", "wrong"]].mean()
    shares = by_step.reindex(run.steps)
    series = Series(run.steps, shares["equal"].to_numpy(np.float64))
    figure = LimitedFigure(_ZeroVarianceGroups.share, ">", series)
    excursion = figure.excursion(run)
    level = figure.level(excursion)
    tested = run.limits.test(_ZeroVarianceGroups.share, ">", level)
    if excursion is None or series.curve is None:
        return Result(tested=(tested,))
    facts: Facts = {"share": level, "before": series.curve.first.value}
    if excursion.lasts:
        kind = _kind_of(run, last_groups)
        counts = last_groups[["equal", "best", "wrong"]].sum()
        facts = {
            **facts,
            "groups": len(last_groups),
            "equal": int(counts["equal"]),
            "best": int(counts["best"]),
            "lowest": int(counts["wrong"]),
        }
        # Even a run that learns has too hard prompts if it gets most of them wrong, and no fewer.
        wrong = float(last_groups["wrong"].mean())
        wrong_before = float(shares["wrong"][: len(run.last.steps)].mean())
        is_too_hard = meets(">", wrong, limit) and meets(">=", wrong, wrong_before)
        is_note = kind == "solved" or (progress.learned(run) and not is_too_hard)
    else:
        kind = "past"
        is_note = True  # it became better
        facts = {
            **facts,
            "low": excursion.steps[0],
            "high": excursion.steps[1],
            "after": series.curve.last.value,
        }
    facts = {"kind": kind, **facts}
    return check.found(
        run,
        Severity.INFO if is_note else Severity.WARNING,
        [tested],
        facts,
        _ranking(run, groups, kind),
        onset=run.onset_beyond(series, tested.bound, is_share=True),
        until=None if excursion.lasts else excursion.steps[1],
    )


def _are_solved_by_metrics(run: Run) -> bool:
    """Return whether most groups of equal rewards must be solved, by the mean reward of each step.

    The best reward is known only if step means reach exactly the same highest value repeatedly,
    which means of a bounded reward do where all responses earn the bound.
    """
    zero_variance = quantities.series_of(run, "zero_variance")
    reward = quantities.reward(run)
    values = reward.values[np.isfinite(reward.values)]
    if zero_variance is None or not len(values):
        return False
    lowest = float(values.min())
    best = float(values.max())
    reached_best = np.isclose(values, best, rtol=ROUNDING, atol=0.0)
    if best == lowest or reached_best.sum() < LEAST_LEVEL:
        return False
    end = mean(run.last_values(run.align(reward)))
    level = (end - lowest) / (best - lowest)  # 0 for the lowest reward, 1 for the best
    share_of_equal = mean(run.last_values(run.align(zero_variance)))
    # Each group that earns the lowest reward takes its share from the level: the mean is 1 - u
    # at most if a share u of groups does.
    most_of_lowest = 1 - level
    return most_of_lowest < share_of_equal / 2


def _groups(run: Run) -> pd.DataFrame:
    """Return the groups of two or more graded responses: whether rewards are equal, and which.

    Of groups with ``equal`` rewards, ``best`` earn the run's best reward and ``wrong`` its lowest;
    ``solved`` are those of the best whose responses are not known to be incorrect.
    """
    columns = run.responses[["group", "step", "reward", "correct"]]
    rows = columns.dropna(subset=["reward"])
    by_group = rows.groupby("group")
    groups = by_group["reward"].agg(["size", "max"])
    groups["equal"] = by_group["reward"].std(ddof=0) < EQUAL
    groups["step"] = by_group["step"].first()
    lowest = rows["reward"].min()
    best = rows["reward"].max()
    # If the run has one reward only, it is neither the best nor the lowest.
    is_comparable = groups["equal"] & (best > lowest)
    groups["best"] = is_comparable & (groups["max"] >= best)
    # NaN, of a response that is not known to be correct or not, is not below 1.
    groups["solved"] = groups["best"] & ~(by_group["correct"].min() < 1)
    groups["wrong"] = is_comparable & (groups["max"] <= lowest)
    return groups[groups["size"] >= 2]


def _kind_of(run: Run, last_groups: pd.DataFrame) -> str:
    """Return the key of the title, which says what the last groups of equal rewards earn.

    It is "solved" if most of them are; else it names the best and the lowest reward ("best",
    "wrong", "mixed" for both) if any of them earns it.
    """
    rewards = run.column("reward")
    if np.ptp(rewards[np.isfinite(rewards)]) == 0:  # of the whole run
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
    for check in (reward_hacking_token, length_hacking):
        finding = check.run(run).finding
        if finding is not None and finding.severity is not Severity.INFO:
            return True
    return False


def _ranking(run: Run, groups: pd.DataFrame, kind: str) -> Ranking:
    """Select responses of the last groups that show what the title of this kind says of them."""
    # Kinds that are columns of ``groups``, too; the others tell of all groups of equal rewards.
    is_meant = groups[kind if kind in ("solved", "best", "wrong") else "equal"]
    if kind == "mixed":
        is_meant = groups["best"] | groups["wrong"]
    if kind == "between":
        is_meant = groups["equal"] & ~groups["best"] & ~groups["wrong"]
    # Responses without a group, or alone in it, say nothing.
    among = run.responses["group"].map(is_meant.astype(np.float64))
    return Ranking(
        run.column("reward"),
        np.asarray(among, np.float64),
        highest=kind in ("solved", "best"),
        unit="reward",
        # The share may have been high before; counts are those of the last groups.
        in_last_window=kind != "past",
    )


class _GroupStdFall(Limits):
    ratio = Limit(
        0.1,
        LimitKind.RATIO,
        "times",
        "std within groups relative to the level before",
        RAGEN,
    )
    steps = Limit(
        20,
        LimitKind.COUNT,
        "steps",
        "runs with fewer steps with groups are not judged",
        RAGEN,
    )


@Check(
    name="rewards within groups no longer differ",
    rank=Rank.CONSEQUENCE,
    needs=(REWARD,),
    charts=("groups",),
    limits=_GroupStdFall,
    title="The reward's std within groups fell from {start:figure} to {end:figure}.",
    statement="the reward's std within groups falls to {end:short} ({start:short} at the start)",
    why="Without differences within groups there is no learning signal, only noise.",
    suggestion="Keep groups with the largest std (RAGEN), or choose prompts of medium difficulty.",
    advice=_RESAMPLE_OR_MORE,
    otherwise="Choose prompts of medium difficulty.",
    explains=("reward_stalled",),
    needs_also="groups of responses, and no critic",
    trend=True,
)
def group_std_fall(check: Check, run: Run) -> Result:
    """Find that the std of rewards within groups became a small part of that at the start."""
    steps = run.tables.steps
    if not has(steps, "group_std_mean") or run.has("value_mean"):
        return check.not_run(check.needs_also)
    least = run.limits[_GroupStdFall].steps
    values = steps["group_std_mean"].to_numpy(np.float64)
    series = Series(steps["step"].to_numpy(np.int64), values)
    curve = series.curve
    if curve is None or len(curve) < least:
        needs = message("groups in at least {steps} steps", steps=least)
        return check.not_run(needs)
    # The std may have risen before it fell.
    start = curve.before_fall
    end = curve.last.value
    ratio = run.limits.test(_GroupStdFall.ratio, "<", end, of=start)
    if not ratio.met or not curve.has_fallen:
        return Result(tested=(ratio,))
    # A policy that gets all prompts right has no differences left.
    is_note = progress.learned(run) or progress.solved(run)
    return check.found(
        run,
        Severity.INFO if is_note else Severity.WARNING,
        [ratio],
        {"start": start, "end": end},
        _with_small_std(run, ratio.bound * start),
        onset=fall_onset(curve),
    )


def _with_small_std(run: Run, most: float) -> Ranking:
    """Return how to choose responses of groups whose rewards have a std below ``most``."""
    graded = run.responses[["group", "reward"]].dropna()
    rewards = graded.groupby("group")["reward"]
    std = rewards.std(ddof=0)[rewards.size() > 1]
    of_rows = np.asarray(run.responses["group"].map(std), np.float64)
    return Ranking.beyond(of_rows, "<", most)


class _Sharpening(Limits):
    z = Limit(
        2.6,
        LimitKind.ERRORS,
        "std errors",
        "significance of the fall of pass@k on prompts of both halves",
        translatable("Yue et al. 2025, arXiv 2504.13837"),
    )


# Fewer prompts that both halves of a run have are not compared
LEAST_PROMPTS = 10


@Check(
    name="sharpening, not learning",
    rank=Rank.NOTE,
    limits=_Sharpening,
    needs=(Need("correct, or a reward of two values", ("correct",)),),
    charts=("pass_at_k",),
    title="pass@{k} fell from {start:figure} to {end:figure} while pass@1 rose from "
    "{one_start:figure} to {one_end:figure}: sharpening, not learning.",
    why="Right answers become more frequent, but fewer prompts have any: the policy narrows.",
    suggestion="Evaluate checkpoints by pass@k, and keep entropy up: a KL penalty, more prompts.",
    advice=also(*higher(SettingKind.KL)),
    before_setting="Evaluate checkpoints by pass@k, and keep entropy up.",
    needs_also="groups of responses",
    trend=True,
)
def sharpening(check: Check, run: Run) -> Result:
    """Note that pass@1 rose while pass@k fell."""
    # One value per group, at its first response; k is the usual size of a group.
    k, pass_at_1, pass_at_k = passes_of(run.responses)
    if k == 1:
        return check.not_run(check.needs_also)
    of_one: _ChangeOfPrompts | Change | None = _change_of_prompts(run, pass_at_1)
    of_several: _ChangeOfPrompts | Change | None = _change_of_prompts(run, pass_at_k)
    tested: tuple[Tested, ...] = ()
    if of_one is not None and of_several is not None:
        tested = (run.limits.test(_Sharpening.z, ">=", -of_several.z),)
        has_narrowed = tested[0].met and of_one.last > of_one.first
    else:  # prompts do not recur
        of_one = means.change(run, pass_at_1)
        of_several = means.change(run, pass_at_k)
        has_narrowed = of_one.rose and of_several.fell
    if not has_narrowed:
        return Result(tested=tested)
    facts: Facts = {
        "k": k,
        "start": of_several.first,
        "end": of_several.last,
        "one_start": of_one.first,
        "one_end": of_one.last,
    }
    onset = run.onset(run.by_step(pass_at_k))
    by_group = pd.Series(pass_at_k).groupby(run.responses["group"].to_numpy())
    of_rows = np.asarray(by_group.transform("max"), np.float64)
    never_right = Ranking.beyond(of_rows, "<=", 0.0)
    return check.found(run, Severity.INFO, tested, facts, never_right, onset=onset)


class _ChangeOfPrompts(NamedTuple):
    """A figure of the same prompts in both halves of a run: means, and the z of their change."""

    first: float
    last: float
    z: float


def _change_of_prompts(run: Run, values: Floats) -> _ChangeOfPrompts | None:
    """Return how a figure of responses changed on the prompts of both halves, None with too few.

    Only the same prompts are compared: those of a step may be harder than those of another one.
    """
    is_late = run.step_index >= len(run.steps) / 2
    table = pd.DataFrame({"prompt": run.responses["prompt_id"], "value": values})
    early = table[~is_late].groupby("prompt")["value"].mean()
    late = table[is_late].groupby("prompt")["value"].mean()
    both = pd.DataFrame({"early": early, "late": late}).dropna()
    if len(both) < LEAST_PROMPTS:
        return None
    rise = both["late"] - both["early"]
    error = float(rise.std(ddof=1)) / math.sqrt(len(rise))
    z = deviate(float(rise.mean()), error, len(rise) - 1)
    first = float(both["early"].mean())
    last = float(both["late"].mean())
    return _ChangeOfPrompts(first, last, z)


class _DroppedGroups(RiseOrShare):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share that the trainer dropped at the end",
        GROUPS,
    )
    rise = Limit(
        0.1,
        LimitKind.SHARE,
        "of responses",
        "rise of that share, last level minus first",
    )
    kept = Limit(
        2.0,
        LimitKind.ERRORS,
        "std errors",
        "significance of the rise of the mean reward of kept responses",
    )
    gap = Limit(
        0.25,
        LimitKind.VALUE,
        "std of reward",
        "rise of that mean beyond that of all responses",
    )


@Check(
    name="responses that the trainer dropped",
    rank=Rank.CAUSE,
    needs=(
        Need("reward", ("reward",), ("dropped",)),
        Need(
            "a mark of dropped responses (is_filtered, effective)",
            ("dropped",),
            ("dropped",),
        ),
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
    advice={"many": higher(SettingKind.GROUP_SIZE)},
    otherwise="Choose prompts of medium difficulty.",
    explains=("reward_stalled",),
    trend=True,
)
def dropped_groups(check: Check, run: Run) -> Result:
    """Find that the trainer drops many responses, or that the reward rises only by that."""
    dropped = run.column("dropped")
    # Dropped responses have no reward, but their masked one; ``fmax`` takes what is no NaN.
    rewards = np.fmax(run.column("reward"), run.column("masked_reward"))
    kept_rewards = np.where(dropped == 0, rewards, np.nan)
    series = quantities.figure_of(run, "dropped")
    if series is None or series.curve is None:
        return Result()
    curve = series.curve
    share = curve.last.value
    before = curve.first.value
    of_kept = means.change(run, kept_rewards)
    of_all = means.change(run, rewards)
    gap = of_kept.difference - of_all.difference
    # The reward rises because responses are dropped...
    hidden = (
        run.limits.test(_DroppedGroups.kept, ">", of_kept.z),
        run.limits.test(_DroppedGroups.gap, ">=", gap, of=means.spread(run)),
    )
    # ... or they are just many.
    many = (
        run.limits.test(_DroppedGroups.share, ">", share),
        run.limits.test(_DroppedGroups.rise, ">=", change(before, share)),
    )
    severity = Severity.WARNING
    if of_all.fell and all(test.met for test in hidden):
        kind = "hidden"
        tested = hidden
        # Dated by the difference that dropping makes to the mean reward
        gap_by_step = run.by_step(kept_rewards) - run.by_step(rewards)
        series = Series(run.steps, gap_by_step)
    elif curve.rose and all(test.met for test in many):
        kind = "many"
        tested = many
        # The trainer's metric does not say which responses were dropped: ask the curves instead.
        learns = of_all.rose
        if series.source == "metrics":
            learns = progress.learned(run)
        if learns:
            severity = Severity.INFO
    else:
        return Result(tested=hidden + many)
    facts: Facts = {
        "kind": kind,
        "share": share,
        "before": before,
        "kept_start": of_kept.first,
        "kept_end": of_kept.last,
        "all_start": of_all.first,
        "all_end": of_all.last,
    }
    return check.found(
        run,
        severity,
        tested,
        facts,
        Ranking(rewards, dropped, highest=False, unit="reward"),
        series=series,
        onset=run.onset(series),
    )
