"""Checks for a reward that fell or did not rise, and for a change of the reward function."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means, progress, quantities
from rlreport.check.check import ANY_REWARD, REF_REWARD, REWARD, Check
from rlreport.check.course import Course
from rlreport.check.curve import CHANGED_Z, paired_z, read_curve
from rlreport.check.events import Event
from rlreport.check.evidence import Ranking, nearer
from rlreport.check.fall import (
    DECISIVE,
    MIX,
    Sides,
    are_other_texts,
    mix_at_fall,
    mix_of_fall,
    sides_of_fall,
    text_figures,
)
from rlreport.check.finding import (
    REFERENCE_REWARD,
    Fact,
    Facts,
    Finding,
    LogText,
    Onset,
    Rank,
    Result,
    Severity,
)
from rlreport.check.judges.metrics import is_fall_disputed
from rlreport.check.limits import LMFLOW, RL_BOARD, Limit, LimitKind, Limits
from rlreport.check.progress import RewardStalled
from rlreport.check.run import Run, event_onset, once_per_run, onset_of
from rlreport.check.settings import SettingKind, also, higher, if_logged, lower, see
from rlreport.check.windows import Change, Trend
from rlreport.figures.ragged import Floats
from rlreport.text.labels import ANSWER_MARKS
from rlreport.text.messages import format_message, span, translatable

NEAR = 5  # Number of steps on each side of a jump that count as next to it
# The form of answers changes if the share with a mark of the answer does by so much
OTHER_FORM = 0.25
# A jump is sudden, not a slope, if this fraction of it happens within the steps next to it
SUDDEN = 0.6
# In a sudden jump, the level of NEAR steps on each side differs from all on that side by at most
# this part of the jump, and so does their rise
STRAY = 0.5
NEW = 0.8  # The prompts changed if this fraction of the responses after a jump have new prompts
MIN_SIDE = 3  # Minimum number of steps on each side of a jump
# Minimum number of prompts with early and late responses for a mean change on the same prompts
MIN_SHARED_PROMPTS = 8
# A fall that recovered is more than a note if it lasted for this many steps
LONG_DIP = 10
# Minimum size of a jump of the reward, in standard errors of a single step's mean reward
EVIDENT = 5.0


class RewardCollapse(Limits):
    """Thresholds of ``reward_collapse``, which also judge each environment."""

    lost = Limit(
        0.35,
        LimitKind.SHARE,
        "of the gain",
        "reward lost again, relative to its gain",
        LMFLOW,
    )
    z = Limit(CHANGED_Z, LimitKind.ERRORS, "std errors", "significance of the loss")
    dip = Limit(
        0.15,
        LimitKind.SHARE,
        "of steps",
        "a fall that recovered lasted longer than this part (warning)",
    )


def _collapse_statement(facts: Facts) -> str:
    """Return the clause on a fall of the reward, with its steps where these have an end."""
    kind = str(facts["kind"])
    steps = None
    if kind == "dip":
        steps = (facts["since"], facts["until"])
    elif kind == "dead":
        steps = (facts["began"], facts["since"])
        if facts["began"] == facts["since"]:
            kind = "dead at once"
    return format_message(_COLLAPSES[kind], {**facts, "in_steps": span(steps)})


_COLLAPSES = {
    "dead": translatable(
        "the reward falls from {best:short} to {end:short} in {in_steps} and stays there"
    ),
    "dead at once": translatable(
        "the reward falls from {best:short} to {end:short} at {in_steps} and stays there"
    ),
    "fell": translatable("the reward falls from {best:short} to {end:short}"),
    "dip": translatable(
        "the reward falls from {best:short} to {low:short} in {in_steps} and recovers"
    ),
    "prompts": translatable(
        "the reward falls from {best:short} to {end:short}, as the prompts become harder"
    ),
    "reference": translatable(
        "the reward falls from {best:short} to {end:short}, as that of the reference does"
    ),
    "watched": translatable(
        "the reward falls from {best:short} to {end:short}, while validation rises"
    ),
    MIX: translatable(
        "the reward falls from {best:short} to {end:short} as more {environment:quoted} comes in"
    ),
}


# Many updates on one batch are far from the policy that sampled it.
_AFTER_FALL = (
    *if_logged(*lower(SettingKind.EPOCHS)),
    *lower(SettingKind.STEP_SIZE),
    *higher(SettingKind.KL),
)


@Check(
    name="reward collapse",
    rank=Rank.CONSEQUENCE,
    needs=(ANY_REWARD,),
    charts=("reward", "reward_distribution"),
    limits=RewardCollapse,
    title={
        "dead": "The reward stays near {end:figure} from step {since} on, after {best:figure} at "
        "its best.",
        "fell": "The reward fell from {best:figure} to {end:figure}; it had started at "
        "{start:figure}.",
        "dip": "The reward fell from {best:figure} to {low:figure} in steps {since} to {until} and "
        "recovered.",
        "prompts": "The reward fell from {best:figure} to {end:figure}, but on {shared:count} "
        "prompts seen before and after by at most {most:figure}: the prompts became harder.",
        "reference": "The reward fell from {best:figure} to {end:figure}, but so did that of the "
        "frozen reference: the gap to it fell by at most {most:figure}.",
        "watched": "The reward fell from {best:figure} to {end:figure}, but validation rose.",
        MIX: "The reward fell from {best:figure} to {end:figure} when the share of "
        "{environment:quoted} rose from {share_start:percent} to {share:percent}. A harder mix and "
        "a worse policy are both possible: at the same mix, the loss is at most {most:figure}.",
    },
    statement=_collapse_statement,
    why="What the run had learned may be gone; compare later checkpoints with an earlier one.",
    suggestion="Lower the learning rate, or raise the KL coefficient.",
    advice={"dead": _AFTER_FALL, "fell": _AFTER_FALL, "dip": _AFTER_FALL},
    otherwise="Go back to a checkpoint before the fall.",
    suggestions={
        MIX: translatable(
            "Compare rewards before and after within each environment before changing settings."
        )
    },
    explains=(
        "length_collapse",
        "diversity_collapse",
        "entropy_collapse",
        "missing_eos",
        "kl_explosion",
        "reward_stalled",
        "constant_reward",
        "watched_reward_fall",
        "zero_variance_groups",
        "group_std_fall",
        "unclosed_thinking",
        "language_drift",
        "template_collapse",
        "loops",
    ),
    of_reward=True,
)
def reward_collapse(check: Check, run: Run) -> Result:
    """Find that the reward fell, unless the mix of environments explains it."""
    fall = _fall(run)
    if fall.finding is None:
        return fall
    if mix_of_fall(run):
        return replace(fall, finding=None)
    return replace(fall, finding=_doubted_by_mix(fall.finding, run))


def _doubted_by_mix(finding: Finding, run: Run) -> Finding:
    """Return a fall that is less serious if the mix, which changed, may explain it as well.

    It is a note if the mix is the far likelier reason. A loss at the same mix is no such doubt.
    """
    mix = mix_at_fall(run)
    if finding.facts["kind"] != "fell" or mix is None or mix.same_mix.fell:
        return finding
    if not mix.evidence > -DECISIVE or finding.severity is Severity.INFO:
        return finding
    assert run.environments is not None
    labels = run.environments.labels
    is_pooled = mix.harder == len(labels) - 1  # a label of ours, not of the log
    name = labels[mix.harder]
    is_note = mix.evidence >= DECISIVE
    facts: Facts = {
        "kind": MIX,
        "environment": name if is_pooled else LogText(name),
        "share_start": float(mix.shares[0, mix.harder]),
        "share": float(mix.shares[1, mix.harder]),
        "most": max(mix.same_mix.largest_loss, 0.0),
    }
    return replace(
        finding,
        severity=Severity.INFO if is_note else Severity.WARNING,
        rank=Rank.NOTE if is_note else finding.rank,
        facts={**finding.facts, **facts},
    )


@once_per_run
def _fall(run: Run) -> Result:
    """Return the result of ``reward_collapse``, without regard to the mix of environments."""
    check = reward_collapse
    course = quantities.reward_course(run)
    if course is None:
        return check.too_short(run, quantities.reward(run))
    fall = course.fall
    death = quantities.death(run)
    explained = None if death else explanation_of_fall(run)
    if fall is None and death is None:
        if explained or course.curve.valley is None:
            return Result()
        return _judge_dip(check, run, course, course.curve.valley)
    # Without a fall as an event, the reward went gradually from its best level to its last.
    best = course.top.value
    onset = onset_of(course.curve)
    z = abs(course.curve.changed or 0.0)
    if fall is not None:
        best = fall.before
        onset = event_onset(fall)
        z = abs(fall.z or z)
    end = course.last.value
    lost = run.limits.test(RewardCollapse.lost, ">", lost_part(course, end))
    is_sure = run.limits.test(RewardCollapse.z, ">", z)
    if death is None and not (lost.met and is_sure.met):
        return Result(tested=(lost, is_sure))
    severity = Severity.WARNING
    if death is not None or _is_below_start(course):
        severity = Severity.CRITICAL
    if explained or is_fall_disputed(run, "reward"):
        severity = Severity.INFO
    return check.found(
        run,
        severity,
        [lost, is_sure],
        {**_facts_of_fall(course, death, onset), **(explained or {})},
        _fallen(run, best, end),
        series=quantities.reward(run),
        onset=onset,
    )


def _facts_of_fall(course: Course, death: Event | None, onset: Onset | None) -> Facts:
    """Return the facts of a reward that fell or, with ``death``, stays constant since then."""
    facts: Facts = {**quantities.levels_of(course), "kind": "fell"}
    if death is None:
        return facts
    began = death.onset if onset is None else min(onset.step, death.onset)
    return {
        **facts,
        "kind": "dead",
        # The last level, as the first steps of the dead piece may still fall
        "end": course.last.value,
        "since": death.onset,
        "began": began,
    }


def _fallen(run: Run, before: float, end: float) -> Ranking:
    """Return how to choose responses with a reward nearer to ``end`` than to that before."""
    reward = run.column("reward")
    return Ranking(reward, nearer(reward, end, before), highest=False, unit="reward")


def _is_below_start(course: Course) -> bool:
    """Return whether it ends further below its start than its best was above its start."""
    gain = course.top.value - course.first.value
    loss = course.first.value - course.last.value
    return course.curve.fell and loss > gain


def lost_part(course: Course, end: float) -> float:
    """Return (best − end) / (best − start) of a course that ends at ``end``; 1 if it never rose."""
    gain = course.top.value - course.first.value
    return (course.top.value - end) / gain if gain > 0 else 1.0


def _judge_dip(check: Check, run: Run, course: Course, valley: Event) -> Result:
    """Return the finding of a reward that fell and recovered, a note if that was short."""
    inside = (course.steps >= valley.onset) & (course.steps <= valley.until)
    count = int(np.count_nonzero(inside))
    lasted = run.limits.test(RewardCollapse.dip, ">", count / len(course.steps))
    low = course.curve.lowest_in((valley.onset, valley.until)).value
    facts: Facts = {
        **quantities.levels_of(course),
        "kind": "dip",
        "best": valley.before,
        "low": low,
        "since": valley.onset,
        "until": valley.until,
    }
    is_long = lasted.met and count >= LONG_DIP
    return check.found(
        run,
        Severity.WARNING if is_long else Severity.INFO,
        [lasted],
        facts,
        _fallen(run, valley.before, low),
        series=quantities.reward(run),
        onset=event_onset(valley),
        until=valley.until,
    )


def explanation_of_fall(run: Run) -> dict[str, Fact] | None:
    """Return why a fall of the reward is no loss of the policy, as facts with a ``kind``, or None.

    An explanation holds only if the policy's own loss surely is less than half of the fall: on
    prompts seen before and after, if their texts did not change, or against the frozen reference.
    """
    if quantities.reward_course(run) is None:
        return None
    sides = sides_of_fall(run)
    from_rollouts = quantities.reward(run).source == "rollouts"
    if from_rollouts and run.first is not None and sides is not None:
        for explain in (_harder_prompts, _lower_reference):
            explained = explain(run, sides)
            if explained is not None:
                return explained
    watched = quantities.watched_course(run)
    if watched is not None and watched.curve.rose and not watched.lost:
        return {"kind": "watched"}
    return None


def _harder_prompts(run: Run, sides: Sides) -> dict[str, Fact] | None:
    """Return that prompts became harder, or None.

    Then the reward surely fell by less than half as much on prompts seen before and after.
    """
    early = _is_in(run, sides.before)
    late = _is_in(run, sides.after)
    reward = run.column("reward")
    same_prompts = _same_prompt_change(run, reward, late, early)
    if same_prompts is None or _texts_changed(run, late, early):
        return None
    loss = same_prompts.change.largest_loss
    if not loss < sides.size / 2:
        return None
    return {"kind": "prompts", "shared": same_prompts.prompts, "most": max(loss, 0.0)}


def _is_in(run: Run, steps: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which responses are of these steps, (rows,)."""
    of_rows = run.responses["step"].to_numpy(np.int64)
    return (of_rows >= steps[0]) & (of_rows <= steps[1])


def _lower_reference(run: Run, sides: Sides) -> dict[str, Fact] | None:
    """Return that the reward of the frozen reference fell as well, by most of the fall, or None.

    The policy surely lost less than half of the fall against it.
    """
    before = run.window_of(sides.before)
    after = run.window_of(sides.after)
    reference = means.change(run, run.column("ref_reward"), first=before, last=after)
    gap = means.change(run, run.column("reward_gap"), first=before, last=after)
    if not (reference.fell and -reference.difference > sides.size / 2):
        return None
    if not gap.largest_loss < sides.size / 2:
        return None
    return {"kind": "reference", "most": max(gap.largest_loss, 0.0)}


class _SamePrompts(NamedTuple):
    """The change of a mean on the prompts that have early and late responses."""

    prompts: int  # how many there are
    change: Change  # its z is that of the mean over prompts


def _same_prompt_change(
    run: Run,
    values: Floats,
    late: NDArray[np.bool_],
    early: NDArray[np.bool_] | None = None,
) -> _SamePrompts | None:
    """Return the mean change on prompts with early and late responses; None if they are few.

    Without ``early``, that is all that is not late.
    """
    if early is None:
        early = ~late
    before = _mean_by_prompt(run, values, early)
    after = _mean_by_prompt(run, values, late)
    shared = (after - before).dropna().index
    if len(shared) < MIN_SHARED_PROMPTS:
        return None
    pairs = (before[shared].to_numpy(), after[shared].to_numpy())
    start = float(pairs[0].mean())
    end = float(pairs[1].mean())
    of_mean = Change(start, end, paired_z(*pairs), run.limits[Trend].z)
    return _SamePrompts(len(shared), of_mean)


def _mean_by_prompt(run: Run, values: Floats, among: NDArray[np.bool_]) -> pd.Series:
    rows = np.isfinite(values) & among
    prompts = run.responses["prompt_id"].to_numpy()[rows]
    return pd.Series(values[rows]).groupby(prompts).mean()


def _texts_changed(run: Run, late: NDArray[np.bool_], early: NDArray[np.bool_]) -> bool:
    """Return whether responses to the same prompts doubled, halved, or came to be cut off."""
    length, finished = [
        _same_prompt_change(run, values, late, early) for values in text_figures(run)
    ]
    return are_other_texts(length and length.change, finished and finished.change)


_NO_RISE = translatable(
    "The reward did not clearly rise: {start:figure} at first, {end:figure} at the end."
)
# The prompts are not too hard if so many late responses with the lowest reward are right
MOSTLY_RIGHT = 0.5


@Check(
    name="no gain in reward",
    rank=Rank.NOTE,
    needs=(ANY_REWARD,),
    charts=("reward", "win_rate"),
    limits=RewardStalled,
    title={
        "flat": _NO_RISE,
        "unpaid": _NO_RISE,
        "fell": "The reward fell: {start:figure} at first, {end:figure} at the end.",
        "reference": "The policy beats the reference in {wins:percent} of responses and loses in "
        "{losses:percent}.",
    },
    why="The run spent its compute, but the policy is no better by the reward it was trained on.",
    suggestion="Try a higher learning rate, and prompts that are solved sometimes, but not always.",
    advice=also(*higher(SettingKind.STEP_SIZE)),
    before_setting="Choose prompts that are solved sometimes, but not always.",
    suggestions={
        "unpaid": translatable(
            "Show the answer format in the prompt, as most unpaid answers are right."
        )
    },
    source=RL_BOARD,
    of_reward=True,
)
def reward_stalled(check: Check, run: Run) -> Result:
    """Note that the reward did not rise, or is not above that of the reference."""
    course = quantities.reward_course(run)
    is_short = run.first is None or course is None
    if is_short and not REF_REWARD.is_available(run):
        return check.too_short(run, quantities.reward(run))
    gap = run.column("reward_gap")
    facts = None
    if course is not None and not is_short and not _has_reason(run):
        facts = _facts_of_no_gain(run, course)
    else:
        end = gap[run.last.rows]
        facts = _facts_against_reference(end[np.isfinite(end)])
    if facts is None:
        return Result()
    return check.found(run, Severity.INFO, (), facts, _not_better(run, facts))


def _not_better(run: Run, facts: Facts) -> Ranking:
    """Return how to choose responses that earn no more than the first, or than the reference."""
    by = run.column("reward")
    level = facts.get("start")
    if facts["kind"] == "reference":
        by = run.column("reward_gap")
        level = 0.0
    assert isinstance(level, float)
    return Ranking.beyond(by, "<=", level)


def _has_reason(run: Run) -> bool:
    """Return whether a run learned, or has a reason not to."""
    if progress.learned(run) or progress.solved(run):
        return True
    return mix_of_fall(run) is not None


def _facts_of_no_gain(run: Run, course: Course) -> Facts:
    source = quantities.reward(run).source
    kind = "flat"
    if course.lost and course.last.value < course.first.value:
        kind = "fell"
    elif (progress.right_of_lowest(run, run.last.rows) or 0.0) > MOSTLY_RIGHT:
        kind = "unpaid"
    return {"kind": kind, "series_from": source, **quantities.levels_of(course)}


def _facts_against_reference(gap: Floats) -> Facts | None:
    """Return how often the policy beats the reference, by known gaps of rewards; None if often."""
    if not len(gap):
        return None
    wins = float(np.mean(gap > 0))
    losses = float(np.mean(gap < 0))
    if wins > losses:
        return None
    return {"kind": "reference", "wins": wins, "losses": losses}


class _RewardShift(Limits):
    z = Limit(
        6.0,
        LimitKind.ERRORS,
        "std errors",
        "jump of the reference's reward at one step (warning)",
    )
    spread = Limit(
        0.25,
        LimitKind.VALUE,
        "std of reward",
        "size of the jump, relative to the std inside a step",
    )
    still = Limit(
        4.0,
        LimitKind.ERRORS,
        "std errors",
        "jump of length, KL, … that excludes it (without reference)",
    )


@Check(
    name="change of the reward function",
    rank=Rank.CAUSE,
    needs=(REWARD,),
    charts=("reward",),
    limits=_RewardShift,
    title={
        "prompts": "The prompts changed at step {at}: the mean reward went from {before:figure} to "
        "{after:figure}, but on {shared:count} prompts seen before and after it changed by "
        "{same:figure}.",
        "new_prompts": "The prompts changed at step {at}: the mean reward went from "
        "{before:figure} to {after:figure}, and {new:percent} of responses since then have prompts "
        "not seen before.",
        "reference": "The frozen reference's mean reward changed from {before:figure} to "
        "{after:figure} at step {at}: the scoring changed, not the policy.",
        "reward": "The mean reward changed from {before:figure} to {after:figure} at step {at}, "
        "while length, KL and entropy did not move.",
    },
    statement="the reward function changed",
    event=True,
    why="If the scoring changed, rewards before and after it are not comparable: checks then use "
    "the gap to the reference or, without one, only the longer part of the run.",
    suggestion="Find what changed at this step: the reward model, a penalty, a scale, the data.",
    advice=see(SettingKind.GRADER),
    explains=("reward_collapse", "reward_stalled"),
    trend=True,
)
def reward_shift(check: Check, run: Run) -> Result:
    """Find that the reward jumps at one step although the policy does not change."""
    # The reference is frozen, so its reward jumps only with the reward function. Without it, the
    # policy's reward must jump at a step at which length, KL, surprisal and distinct-2 do not.
    by_reference = run.has("ref_reward")
    column = "ref_reward" if by_reference else "reward"
    reward = run.column(column)
    jump = _find_jump(run.by_step(reward))
    if jump is None or not jump.sudden:
        return Result()
    size = jump.after - jump.before
    z = run.limits.test(_RewardShift.z, ">=", jump.z)
    spread = max(means.spread(run, column), abs(size) * 1e-3)
    large = run.limits.test(_RewardShift.spread, ">=", abs(size), of=spread)
    nothing = Result(tested=(z, large))
    if not (z.met and large.met and abs(size) > 1e-9):
        return nothing
    if not by_reference and _is_by_policy(run, reward, jump):
        return nothing
    changed = _changed_prompts(run, reward, jump)
    step = int(run.steps[jump.at])
    facts: Facts = {
        "before": jump.before,
        "after": jump.after,
        "at": step,
        "kind": "reference" if by_reference else "reward",
    }
    unit = REFERENCE_REWARD if by_reference else "reward"
    return check.found(
        run,
        Severity.INFO if changed else Severity.WARNING,
        [z, large],
        {**facts, **(changed or {})},
        Ranking(
            reward,
            nearer(reward, jump.after, jump.before),
            highest=size > 0,
            unit=unit,
        ),
        onset=step,
    )


def _is_by_policy(run: Run, reward: Floats, jump: _Jump) -> bool:
    """Return whether a jump of the policy's reward may be due to the policy or the mix of tasks."""
    lowest_before = np.nanmin(reward[run.step_index < jump.at])
    if quantities.death(run) is not None:
        return True
    course = quantities.reward_course(run)
    is_below = course is not None and _is_below_start(course)
    if is_below and jump.after < lowest_before:
        return True
    if not _exceeds_noise(run, reward, jump):
        return True
    if _others_jump(run, jump.at, run.limits[_RewardShift].still):
        return True
    if _form_changes(run, jump.at):
        return True
    before = run.window(0, jump.at)
    after = run.window(jump.at, len(run.steps))
    mix = means.mix(run, before, after)
    return mix is not None and abs(mix.mix) > abs(mix.rest)


class _Jump(NamedTuple):
    """The change between the two levels that fit a series best."""

    at: int  # index of the first value after it
    before: float  # mean of the values before it
    after: float  # mean of the values after it
    z: float  # its size in standard errors
    sudden: bool  # see ``_find_jump``


def _find_jump(series: Floats) -> _Jump | None:
    """Return the jump between the two levels that fit a series best, None if it is too short.

    A jump is sudden if most of it happens between neighbouring steps (a slope does not), and if
    both sides stay near their means (a recovery from a dip does not).
    """
    indices = np.flatnonzero(np.isfinite(series))
    values = series[indices]
    if len(values) < 2 * MIN_SIDE:
        return None
    at = _best_cut(values)
    before = float(values[:at].mean())
    after = float(values[at:].mean())
    size = abs(after - before)
    count = len(values)
    curve = read_curve(np.arange(count), values)
    assert curve is not None
    noise = curve.noise * np.sqrt(1 / at + 1 / (count - at))
    # Without noise, z is at most 1000: rounding errors are no noise.
    z = size / max(noise, size * 1e-3, 1e-12)
    sudden = size > 0 and _is_sudden(values, at, before, after)
    return _Jump(int(indices[at]), before, after, z, sudden)


def _best_cut(values: Floats) -> int:
    """Return the index that divides values into the two most different levels."""
    count = len(values)
    sizes = np.arange(1, count)  # number of values before each cut
    sums = np.cumsum(values)[:-1]
    difference = (values.sum() - sums) / (count - sizes) - sums / sizes
    between = difference**2 * sizes * (count - sizes) / count
    return MIN_SIDE + int(np.argmax(between[MIN_SIDE - 1 : count - MIN_SIDE]))


def _is_sudden(values: Floats, at: int, before: float, after: float) -> bool:
    """Return whether a jump happens next to ``at``, and both sides stay near their means."""
    left = values[max(0, at - NEAR) : at]
    right = values[at : at + NEAR]
    left_mean = float(left.mean())
    right_mean = float(right.mean())
    steep = float(right[:2].mean() - left[-2:].mean())
    local = right_mean - left_mean
    # The smaller change, in the direction of the jump
    smaller = min(steep, local) if after > before else max(steep, local)
    stray = max(
        abs(left_mean - before),
        abs(right_mean - after),
        _trend(left),
        _trend(right),
    )
    size = after - before
    return bool(smaller / size >= SUDDEN and stray <= STRAY * abs(size))


def _trend(values: Floats) -> float:
    """Return how far a line through the values rises or falls, with one step more."""
    count = len(values)
    places = np.arange(count) - (count - 1) / 2
    slope = float((places * values).sum() / (places**2).sum())
    return abs(slope) * count


def _exceeds_noise(run: Run, reward: Floats, jump: _Jump) -> bool:
    """Return whether a jump of the reward is at least EVIDENT standard errors of a step's mean."""
    errors = means.sampling_errors(run, reward)
    before = errors[max(0, jump.at - NEAR) : jump.at]
    after = errors[jump.at : jump.at + NEAR]
    error = math.hypot(_root_mean_square(before), _root_mean_square(after))
    return abs(jump.after - jump.before) >= EVIDENT * error


def _root_mean_square(values: Floats) -> float:
    return math.sqrt(np.nanmean(values**2))


def _others_jump(run: Run, at: int, still: float) -> bool:
    """Return whether length, KL, entropy or diversity jump at the same step."""
    names = (
        "response_tokens_mean",
        "response_chars_mean",
        "kl_k1_mean",
        "surprisal_mean",
        "distinct_2",
        "duplicate_rate",
    )
    first = max(0, at - NEAR)
    near = run.tables.steps[first : at + NEAR]
    for name in names:
        jump = _find_jump(near[name].to_numpy(np.float64))
        if jump is None or not jump.sudden:
            continue
        if jump.at + first == at and jump.z >= still:
            return True
    return False


def _form_changes(run: Run, at: int) -> bool:
    """Return whether responses begin or cease to mark their final answer at a step.

    A format that the reward asks for, once learned, spreads within a few steps.
    """
    marks = run.responses["answer_format"].to_numpy(np.int64)
    before = run.window(max(0, at - NEAR), at).rows
    after = run.window(at, min(at + NEAR, len(run.steps))).rows
    for bit in range(len(ANSWER_MARKS)):
        has_mark = ((marks >> bit) & 1).astype(np.float64)
        change = means.mean(has_mark[after]) - means.mean(has_mark[before])
        if abs(change) >= OTHER_FORM:
            return True
    return False


def _changed_prompts(run: Run, reward: Floats, jump: _Jump) -> dict[str, Fact] | None:
    """Return why a jump is due to other prompts, as facts with a ``kind``; None if it is not."""
    same_prompts = _same_prompt_change(run, reward, run.step_index >= jump.at)
    if same_prompts is not None:
        same = same_prompts.change.difference
        if abs(same) >= abs(jump.after - jump.before) / 2:
            return None
        return {"kind": "prompts", "shared": same_prompts.prompts, "same": same}
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    first = int(np.searchsorted(run.step_index, jump.at))
    before = prompts[:first]
    groups = run.responses[:first].groupby(["prompt_id", "step"]).ngroups
    is_recurring = len(np.unique(before)) < NEW * groups
    new = float((~np.isin(prompts[first:], before)).mean())
    return {"kind": "new_prompts", "new": new} if is_recurring and new >= NEW else None
