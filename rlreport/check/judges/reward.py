"""Checks for a reward that fell or did not rise, and for a change of the reward function."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import ANY_REWARD, REF_REWARD, REWARD, Check, Result
from rlreport.check.course import line_ends
from rlreport.check.finding import (
    REFERENCE_REWARD,
    RL_BOARD,
    Fact,
    Facts,
    Finding,
    Limit,
    Limits,
    Severity,
)
from rlreport.check.noise import TINY, Change, Trend, Window
from rlreport.check.run import MixChange, Ranking, RewardStalled, Run
from rlreport.check.series import (
    Dip,
    RewardCollapse,
    Shape,
    jump_noise,
    onset,
    running_mean,
)
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import change

NEAR = 5  # Number of steps on each side of a jump that count as next to it
# A jump is sudden, not a slope, if this fraction of it happens within the steps next to it
SUDDEN = 0.6
# In a sudden jump, the level of NEAR steps on each side differs from all on that side by at most
# this part of the jump, and so does their rise
STRAY = 0.5
NEW = 0.8  # The prompts changed if this fraction of the responses after a jump have new prompts
MIN_SIDE = 3  # Minimum number of steps on each side of a jump
# Minimum number of prompts with early and late responses for a mean change on the same prompts
MIN_SHARED_PROMPTS = 8
# The texts changed if responses to the same prompts become longer or shorter by this factor, or if
# this share less of them finishes: then harder prompts are not the only reason for a fall
OTHER_LENGTH = 2.0
OTHER_ENDINGS = 0.2
# Minimum size of a jump of the reward, in standard errors of a single step's mean reward
EVIDENT = 5.0


@Check(
    name="reward collapse",
    rank="consequence",
    needs=(ANY_REWARD,),
    charts=("reward", "reward_distribution"),
    limits=RewardCollapse,
    title={
        "dead": "The reward stays near {end:figure} from step {since} on, after {best:figure} at "
        "its best.",
        "late": "The reward fell from {best:figure} to {end:figure} in the last steps, from step "
        "{since} on.",
        "fell": "The reward fell from {best:figure} to {end:figure}; it had started at "
        "{start:figure}.",
        "dip": "The reward fell from {best:figure} to {low:figure} in steps {since} to {until} and "
        "recovered.",
        "prompts": "The reward fell from {best:figure} to {end:figure}, but on {shared:count} "
        "prompts seen before and after by at most {most:figure}: the prompts became harder.",
        "reference": "The reward fell from {best:figure} to {end:figure}, but so did that of the "
        "frozen reference: the gap to it fell by at most {most:figure}.",
        "watched": "The reward fell from {best:figure} to {end:figure}, but validation rose.",
    },
    statement={
        "dead": "the reward collapses and stays near {end:short}",
        "late": "the reward falls to {end:short}",
        "fell": "the reward falls to {end:short}",
        "dip": "the reward falls to {low:short} and recovers",
        "prompts": "the reward falls to {end:short}, as the prompts become harder",
        "reference": "the reward falls to {end:short}, as that of the reference does",
        "watched": "the reward falls to {end:short}, while validation rises",
    },
    why="What the run had learned may be gone; compare later checkpoints with an earlier one.",
    suggestion="Go back to a checkpoint before the fall; lower the learning rate or raise the KL "
    "coefficient.",
    explains=(
        "length_collapse",
        "diversity_collapse",
        "entropy_collapse",
        "missing_eos",
        "kl_explosion",
        "reward_stalled",
        "watched_reward_fall",
        "zero_variance_groups",
        "group_std_fall",
        "unclosed_thinking",
        "language_drift",
        "template_collapse",
        "loops",
    ),
    of_reward=True,
    trend=True,
)
def reward_collapse(check: Check, run: Run) -> Result:
    fall = run.once(_fall)
    return None if isinstance(fall, Finding) and run.once(mix_of_fall) else fall


def _fall(run: Run) -> Result:
    """Return the result of ``reward_collapse``, without regard to the mix of environments."""
    check = reward_collapse
    shape = run.reward_shape
    if shape is None:
        return check.too_short(run, run.reward)
    dead = shape.dead is not None
    fell = shape.below_start or _has_fallen(run, shape)
    since = shape.dead if dead or fell else shape.late
    explained = None if dead else explanation_of_fall(run)
    if not fell and since is None:
        return None if explained or shape.dip is None else _judge_dip(check, run, shape, shape.dip)
    severity: Severity = "critical" if dead or shape.below_start else "warning"
    facts: Facts = {**run.reward_windows(), "kind": "fell"}
    peak = shape.best_index
    end = shape.end
    if since is not None:
        values = shape.series.values[since:]
        step = int(shape.series.steps[since])
        end = float(np.median(values) if dead else values.mean())
        facts = {**facts, "end": end, "since": step, "kind": "dead" if dead else "late"}
        peak = peak if dead else max(since - shape.window, 0)
    met = run.met(RewardCollapse.lost, ">", lost_part(shape, end))
    met += run.met(RewardCollapse.z, ">", max(shape.fall_z, -shape.rise_z))
    return check.finding(
        run,
        "info" if explained else severity,
        met,
        {**facts, **(explained or {})},
        Ranking(run.column("reward"), False, "reward"),
        series=shape.series,
        onset=onset(shape.series.steps, shape.series.values, peak=(peak, peak + shape.window)),
    )


def mix_of_fall(run: Run) -> MixChange | None:
    """Return the change of the mix of environments if it explains a fall of the reward, or None."""
    fall = run.once(_fall)
    shape = run.reward_shape
    if run.environments is None or shape is None:
        return None
    course = run.courses["reward"]
    drop = shape.best - shape.end
    if not isinstance(fall, Finding):
        fall = None
        if not (course.lost or course.direction < 0):
            return None
    elif fall.until is not None and shape.dip is not None:
        drop = shape.dip.level - shape.dip.low
    windows = fall_windows(run, fall)
    mix = run.mix_change(*windows)
    # The logged rollouts have to show the fall of the trainer's metric.
    if mix is None or not mix.explains_fall or mix.mix + mix.rest >= -drop / 2:
        return None
    splits = [run.mix_change(*windows, values) for values in _text_figures(run)]
    has_other_texts = _are_other_texts(*(split and split.same_mix for split in splits))
    return None if has_other_texts else mix


def fall_windows(run: Run, fall: Finding | None) -> tuple[Window, Window]:
    """Return the windows before and after a fall: the best steps and the last, or around a dip."""
    shape = run.reward_shape
    assert shape is not None
    steps = shape.series.steps
    dip = shape.dip
    first, stop = shape.peak
    late = len(steps) - shape.window
    end = len(steps)
    if fall and fall.until is not None and dip is not None:
        first = 0
        stop = dip.start
        late = dip.start
        end = dip.stop + 1
    elif fall and isinstance(since := fall.facts.get("since"), int):
        late = int(steps.searchsorted(since))
    low, high = run.steps.searchsorted([steps[[first, late]], steps[[stop - 1, end - 1]]])
    return run.window(low[0], high[0] + 1), run.window(low[1], high[1] + 1)


def _judge_dip(check: Check, run: Run, shape: Shape, dip: Dip) -> Result:
    steps = shape.series.steps
    length = dip.stop - dip.start
    since = int(steps[dip.start])
    until = int(steps[dip.stop])
    met = run.met(RewardCollapse.dip, ">", (length + 1) / len(steps))
    facts: Facts = {"kind": "dip", "best": dip.level, "low": dip.low, "since": since}
    facts = {**facts, "start": shape.start, "end": shape.end, "until": until}
    return check.finding(
        run,
        "warning" if met and length >= 10 else "info",
        met,
        facts,
        Ranking(run.column("reward"), False, "reward"),
        series=shape.series,
        onset=since,
        until=until,
    )


def lost_part(shape: Shape, end: float) -> float:
    """Return (best − end) / (best − start) of a series that ends at ``end``; 1 if it never rose."""
    gain = shape.best - shape.start
    return (shape.best - end) / gain if gain > 0 else 1.0


def _has_fallen(run: Run, shape: Shape) -> bool:
    if shape.series.source == "metrics":
        return shape.fell
    limits = run.limits[RewardCollapse]
    steps = len(run.steps)
    size = len(run.last.steps)
    if shape.abrupt is not None:
        return bool(run.met(RewardCollapse.half, ">", lost_part(shape, shape.end)))
    reward = run.column("reward")
    means = running_mean(np.nan_to_num(run.by_step(reward), nan=-np.inf), size)
    start = int(np.argmax(means))
    best = run.window(start, start + size)
    loss = run.change(reward, first=best)
    gain = run.change(reward, last=best).difference
    min_loss = max(limits.half * gain, limits.spread * run.spread())
    # By chance alone, the best of several windows lies above the others.
    luck = np.sqrt(2 * np.log(steps / size))
    significant = -shape.noise.deflate(loss.z) >= loss.least + luck
    return bool(significant and -loss.difference > min_loss)


def explanation_of_fall(run: Run) -> dict[str, Fact] | None:
    """Return why a fall of the reward is no loss of the policy, as facts with a ``kind``, or None.

    An explanation holds only if the policy's own loss surely is less than half of the fall: on
    prompts seen before and after, if their texts did not change, or against the frozen reference.
    """
    shape = run.reward_shape
    if shape is None:
        return None
    watched = run.watched_shape
    validated: dict[str, Fact] | None = None
    if watched is not None and watched.rose and not watched.fell:
        validated = {"kind": "watched"}
    if shape.series.source == "metrics" or run.first is None:
        return validated
    drop = shape.best - shape.end
    late, early, size = _sides_of_fall(run, shape)
    same_prompts = _same_prompt_change(run, run.column("reward"), late, early)
    if same_prompts is not None and not _texts_changed(run, late, early):
        shared, change = same_prompts
        if change.largest_loss < size / 2:
            return {"kind": "prompts", "shared": shared, "most": max(change.largest_loss, 0.0)}
    best = run.window(*shape.peak)
    reference, gap = (run.change(run.column(c), first=best) for c in ("ref_reward", "reward_gap"))
    if -reference.difference > drop / 2 and reference.fell and gap.largest_loss < drop / 2:
        return {"kind": "reference", "most": max(gap.largest_loss, 0.0)}
    return validated


def _sides_of_fall(run: Run, shape: Shape) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Return which responses are of the steps after a fall or in a dip, which before, its size."""
    index = np.searchsorted(shape.series.steps, run.responses["step"].to_numpy(np.int64))
    if shape.dip is not None and not shape.fell:
        inside = (index >= shape.dip.start) & (index <= shape.dip.stop)
        return inside, ~inside, shape.dip.level - shape.dip.low
    window = shape.window
    first = shape.best_index
    late = index >= len(shape.series.steps) - 2 * window
    early = (index >= first - window) & (index < first + 2 * window) & ~late
    return late, early, shape.best - shape.end


def _same_prompt_change(
    run: Run, values: Floats, late: NDArray[np.bool_], early: NDArray[np.bool_] | None = None
) -> tuple[int, Change] | None:
    """Return the number of prompts with early and late responses, and their mean change.

    None if they are too few. The standard error is that of the mean over prompts.
    """
    prompts, early = run.responses["prompt_id"].to_numpy(), ~late if early is None else early
    sides = (np.isfinite(values) & part for part in (late, early))
    after, before = (pd.Series(values[side]).groupby(prompts[side]).mean() for side in sides)
    changes = (after - before).dropna()
    if len(changes) < MIN_SHARED_PROMPTS:
        return None
    start = float(before[changes.index].mean())
    end = float(after[changes.index].mean())
    error = float(changes.std(ddof=1)) / math.sqrt(len(changes))
    return len(changes), Change(start, end, (end - start) / max(error, TINY), run.limits[Trend].z)


def _texts_changed(run: Run, late: NDArray[np.bool_], early: NDArray[np.bool_]) -> bool:
    """Return whether responses to the same prompts doubled, halved, or came to be cut off."""
    length, finished = _text_figures(run)
    changes = [_same_prompt_change(run, values, late, early) for values in (length, finished)]
    return _are_other_texts(*(change and change[1] for change in changes))


def _text_figures(run: Run) -> tuple[Floats, Floats]:
    """Return the logarithm of each response's length, and whether it finished (NaN if unknown)."""
    length = np.log(np.maximum(run.column(run.length), 1.0))
    finished = run.column("finished") if run.has("finished") else np.full(len(length), np.nan)
    return length, finished


def _are_other_texts(length: Change | None, finished: Change | None) -> bool:
    if length is not None and abs(length.difference) >= math.log(OTHER_LENGTH):
        return length.rose or length.fell
    return finished is not None and finished.fell and -finished.difference >= OTHER_ENDINGS


@Check(
    name="no gain in reward",
    rank="note",
    needs=(ANY_REWARD,),
    charts=("reward", "win_rate"),
    limits=RewardStalled,
    title={
        "flat": "The reward did not clearly rise: {start:figure} at first, {end:figure} at the "
        "end.",
        "fell": "The reward fell: {start:figure} at first, {end:figure} at the end.",
        "reference": "The policy beats the reference in {wins:percent} of responses and loses in "
        "{losses:percent}.",
    },
    why="The run spent its compute, but the policy is no better by the reward it was trained on.",
    suggestion="If no other finding explains it, try easier prompts, a higher learning rate or a "
    "lower KL coefficient.",
    source=RL_BOARD,
    of_reward=True,
)
def reward_stalled(check: Check, run: Run) -> Result:
    if (run.first is None or run.reward_shape is None) and not REF_REWARD.is_available(run):
        return check.too_short(run, run.reward)
    gap = run.column("reward_gap")
    end = gap[run.last.rows]
    end = end[np.isfinite(end)]
    facts: Facts
    shape = run.reward_shape
    if shape is not None and not run.learned and not run.solved and not run.once(mix_of_fall):
        windows = run.reward_windows()
        loss = windows["start"] - windows["end"]
        course = run.courses["reward"]
        kind = "fell" if loss > 0 and (course.direction < 0 or course.lost) else "flat"
        facts = {"kind": kind, "series_from": run.reward.source, **windows}
    elif len(end) and np.mean(end > 0) <= np.mean(end < 0):
        wins = float(np.mean(end > 0))
        losses = float(np.mean(end < 0))
        facts = {"kind": "reference", "wins": wins, "losses": losses}
    else:
        return None
    by = gap if np.isfinite(gap).any() else run.column("reward")
    return check.finding(run, "info", (), facts, Ranking(by, highest=False))


class _RewardShift(Limits):
    z = Limit(6.0, "std errors", "jump of the reference's reward at one step (warning)")
    spread = Limit(0.25, "std of reward", "size of the jump, relative to the std inside a step")
    still = Limit(4.0, "std errors", "jump of length, KL, … that excludes it (without reference)")


@Check(
    name="change of the reward function",
    rank="cause",
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
    explains=("reward_collapse", "reward_stalled"),
    trend=True,
)
def reward_shift(check: Check, run: Run) -> Result:
    # The reference is frozen, so its reward jumps only with the reward function. Without it, the
    # policy's reward must jump at a step at which length, KL, surprisal and distinct-2 do not.
    kind = "reference" if run.has("ref_reward") else "reward"
    column = "ref_reward" if kind == "reference" else "reward"
    reward = run.column(column)
    jump = _find_jump(run.by_step(reward))
    if jump is None or not jump.sudden:
        return None
    size = jump.after - jump.before
    z = run.met(_RewardShift.z, ">=", jump.z)
    spread = max(run.spread(column), abs(size) * 1e-3)
    large = run.met(_RewardShift.spread, ">=", abs(size), of=spread)
    if not (z and large and abs(size) > 1e-9):
        return None
    if kind == "reward":
        shape = run.reward_shape
        limit = run.limits[_RewardShift].still
        new_low = jump.after < np.nanmin(reward[run.step_index < jump.at])
        died = shape is not None and (shape.dead is not None or (shape.below_start and new_low))
        if died or not _exceeds_noise(run, reward, jump) or _others_jump(run, jump.at, limit):
            return None
    sides = run.window(0, jump.at), run.window(jump.at, len(run.steps))
    mix = run.mix_change(*sides) if column == "reward" else None
    if mix and abs(mix.mix) > abs(mix.rest):
        return None
    changed = _changed_prompts(run, reward, jump)
    step = int(run.steps[jump.at])
    facts: Facts = {"before": jump.before, "after": jump.after, "at": step, "kind": kind}
    return check.finding(
        run,
        "info" if changed else "warning",
        z + large,
        {**facts, **(changed or {})},
        Ranking(reward, size > 0, REFERENCE_REWARD if kind == "reference" else "reward"),
        onset=step,
    )


class _Jump(NamedTuple):
    """The change between the two levels that fit a series best."""

    at: int  # index of the first value after it
    before: float  # mean of the values before it
    after: float  # mean of the values after it
    z: float  # its size in standard errors
    sudden: bool  # see ``_find_jump``


def _find_jump(series: Floats) -> _Jump | None:  # noqa: PLR0914
    """Return the jump between the two levels that fit a series best, None if it is too short.

    A jump is sudden if most of it happens between neighbouring steps (a slope does not), and if
    both sides stay near their means (a recovery from a dip does not).
    """
    indices = np.flatnonzero(np.isfinite(series))
    y = series[indices]
    n = len(indices)
    if n < 2 * MIN_SIDE:
        return None
    sizes = np.arange(1, n)
    sums = np.cumsum(y)[:-1]
    difference = (y.sum() - sums) / (n - sizes) - sums / sizes
    between = difference**2 * sizes * (n - sizes) / n
    at = MIN_SIDE + int(np.argmax(between[MIN_SIDE - 1 : n - MIN_SIDE]))
    before = float(y[:at].mean())
    after = float(y[at:].mean())
    size = abs(after - before)
    z = size / max(jump_noise(y) * np.sqrt(1 / at + 1 / (n - at)), size * 1e-3, 1e-12)
    sides = y[max(0, at - NEAR) : at], y[at : at + NEAR]
    left, right = (float(side.mean()) for side in sides)
    near = float(sides[1][:2].mean() - sides[0][-2:].mean())
    local = min(near, right - left, key=lambda d: d * np.sign(after - before))
    trends = (_trend(side) for side in sides)
    stray = max(abs(left - before), abs(right - after), *trends)
    sudden = size > 0 and local / (after - before) >= SUDDEN and stray <= STRAY * size
    return _Jump(int(indices[at]), before, after, z, bool(sudden))


def _trend(values: Floats) -> float:
    """Return how far a line through the values rises or falls, with one step more."""
    first, last = line_ends(values)
    return abs(change(first, last)) * len(values) / (len(values) - 1)


def _exceeds_noise(run: Run, reward: Floats, jump: _Jump) -> bool:
    """Return whether a jump of the reward is at least EVIDENT standard errors of a step's mean."""
    inside = pd.Series(reward - run.by_step(reward)[run.step_index])
    # Responses to one prompt are correlated. Steps with only one prompt are judged by responses.
    sums = inside.groupby([run.step_index, run.responses["prompt_id"].to_numpy()]).sum()
    by_prompt = (sums**2).groupby(level=0).sum()
    by_response = (inside**2).groupby(run.step_index).sum()
    squares = np.maximum(by_prompt, by_response)
    errors = np.asarray(np.sqrt(squares) / inside.groupby(run.step_index).count())
    at = jump.at
    sides = (errors[max(0, at - NEAR) : at], errors[at : at + NEAR])
    error = math.hypot(*(math.sqrt(np.nanmean(side**2)) for side in sides))
    return abs(jump.after - jump.before) >= EVIDENT * error


def _others_jump(run: Run, at: int, still: float) -> bool:
    names = ("response_tokens_mean", "response_chars_mean", "kl_k1_mean", "surprisal_mean")
    first = max(0, at - NEAR)
    near = run.tables.steps[[*names, "distinct_2", "duplicate_rate"]][first : at + NEAR]
    jumps = [_find_jump(near[name].to_numpy(np.float64)) for name in near]
    return any(jump and jump.sudden and jump.at + first == at and jump.z >= still for jump in jumps)


def _changed_prompts(run: Run, reward: Floats, jump: _Jump) -> dict[str, Fact] | None:
    """Return why a jump is due to other prompts, as facts with a ``kind``; None if it is not."""
    same_prompts = _same_prompt_change(run, reward, run.step_index >= jump.at)
    if same_prompts is not None:
        shared, change = same_prompts
        if abs(change.difference) >= abs(jump.after - jump.before) / 2:
            return None
        return {"kind": "prompts", "shared": shared, "same": change.difference}
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    first = int(np.searchsorted(run.step_index, jump.at))
    groups = run.responses[:first].groupby(["prompt_id", "step"]).ngroups
    recurring = len(np.unique(prompts[:first])) < NEW * groups
    new = float((~np.isin(prompts[first:], prompts[:first])).mean())
    return {"kind": "new_prompts", "new": new} if recurring and new >= NEW else None
