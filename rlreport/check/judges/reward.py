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
from rlreport.check.course import line_ends
from rlreport.check.evidence import Ranking
from rlreport.check.finding import (
    REFERENCE_REWARD,
    Fact,
    Facts,
    Finding,
    Rank,
    Result,
    Severity,
)
from rlreport.check.limits import RL_BOARD, Limit, LimitKind, Limits
from rlreport.check.means import MixChange
from rlreport.check.noise import TINY, Change, Trend, Window
from rlreport.check.progress import RewardStalled
from rlreport.check.run import Run, once_per_run
from rlreport.check.series import (
    Dip,
    RewardCollapse,
    Shape,
    jump_noise,
    onset,
    running_mean,
)
from rlreport.figures.ragged import Floats, Ints
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
# A fall that recovered is more than a note if it lasted for this many steps
LONG_DIP = 10
# Minimum size of a jump of the reward, in standard errors of a single step's mean reward
EVIDENT = 5.0


@Check(
    name="reward collapse",
    rank=Rank.CONSEQUENCE,
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
    """Find that the reward fell, unless the mix of environments explains it."""
    fall = _fall(run)
    if fall.finding is not None and mix_of_fall(run):
        return replace(fall, finding=None)
    return fall


@once_per_run
def _fall(run: Run) -> Result:
    """Return the result of ``reward_collapse``, without regard to the mix of environments."""
    check = reward_collapse
    shape = quantities.reward_shape(run)
    if shape is None:
        return check.too_short(run, quantities.reward(run))
    is_dead = shape.dead is not None
    has_fallen = shape.below_start or _has_fallen(run, shape)
    since = shape.dead if is_dead or has_fallen else shape.late
    explained = None if is_dead else explanation_of_fall(run)
    if not has_fallen and since is None:
        if explained or shape.dip is None:
            return Result()
        return _judge_dip(check, run, shape, shape.dip)
    facts: Facts = {**quantities.reward_windows(run), "kind": "fell"}
    peak = shape.best_index
    end = shape.end
    if since is not None:
        values = shape.series.values[since:]
        end = float(np.median(values) if is_dead else values.mean())
        facts = {
            **facts,
            "end": end,
            "since": int(shape.series.steps[since]),
            "kind": "dead" if is_dead else "late",
        }
        peak = peak if is_dead else max(since - shape.window, 0)
    severity = Severity.WARNING
    if is_dead or shape.below_start:
        severity = Severity.CRITICAL
    if explained:
        severity = Severity.INFO
    loss_z = max(shape.fall_z, -shape.rise_z)
    return check.found(
        run,
        severity,
        [
            run.limits.test(RewardCollapse.lost, ">", lost_part(shape, end)),
            run.limits.test(RewardCollapse.z, ">", loss_z),
        ],
        {**facts, **(explained or {})},
        Ranking(run.column("reward"), highest=False, unit="reward"),
        series=shape.series,
        onset=onset(
            shape.series.steps, shape.series.values, peak=(peak, peak + shape.window)
        ),
    )


@once_per_run
def mix_of_fall(run: Run) -> MixChange | None:
    """Return the change of the mix of environments if it explains a fall of the reward, or None."""
    shape = quantities.reward_shape(run)
    if run.environments is None or shape is None:
        return None
    fall = _fall(run).finding
    course = quantities.courses(run)["reward"]
    if fall is None and not (course.lost or course.direction < 0):
        return None
    drop = shape.best - shape.end
    if fall is not None and fall.until is not None and shape.dip is not None:
        drop = shape.dip.level - shape.dip.low
    windows = fall_windows(run, fall)
    mix = means.mix(run, *windows)
    # The logged rollouts have to show the fall of the trainer's metric.
    if mix is None or not mix.explains_fall or mix.total >= -drop / 2:
        return None
    splits = [means.mix(run, *windows, values) for values in _text_figures(run)]
    length, finished = [split and split.same_mix for split in splits]
    return None if _are_other_texts(length, finished) else mix


def fall_windows(run: Run, fall: Finding | None) -> tuple[Window, Window]:
    """Return the windows before and after a fall: the best steps and the last, or around a dip."""
    shape = quantities.reward_shape(run)
    assert shape is not None
    steps = shape.series.steps
    dip = shape.dip
    # Indices of both windows in the series, which lacks steps without a reward
    before = shape.peak
    after = (len(steps) - shape.window, len(steps))
    since = fall.facts.get("since") if fall else None
    if fall and fall.until is not None and dip is not None:
        before = (0, dip.start)
        after = (dip.start, dip.stop + 1)
    elif isinstance(since, int):
        after = (int(steps.searchsorted(since)), len(steps))
    return _window_of(run, steps, before), _window_of(run, steps, after)


def _window_of(run: Run, steps: Ints, indices: tuple[int, int]) -> Window:
    """Return the window of the run from the first to the last of these ``steps``."""
    start, stop = indices
    first, last = run.steps.searchsorted([steps[start], steps[stop - 1]])
    return run.window(first, last + 1)


def _judge_dip(check: Check, run: Run, shape: Shape, dip: Dip) -> Result:
    steps = shape.series.steps
    length = dip.stop - dip.start
    since = int(steps[dip.start])
    until = int(steps[dip.stop])
    lasted = run.limits.test(RewardCollapse.dip, ">", (length + 1) / len(steps))
    facts: Facts = {
        "kind": "dip",
        "best": dip.level,
        "low": dip.low,
        "since": since,
        "start": shape.start,
        "end": shape.end,
        "until": until,
    }
    is_long = lasted.met and length >= LONG_DIP
    return check.found(
        run,
        Severity.WARNING if is_long else Severity.INFO,
        [lasted],
        facts,
        Ranking(run.column("reward"), highest=False, unit="reward"),
        series=shape.series,
        onset=since,
        until=until,
    )


def lost_part(shape: Shape, end: float) -> float:
    """Return (best − end) / (best − start) of a series that ends at ``end``; 1 if it never rose."""
    gain = shape.best - shape.start
    return (shape.best - end) / gain if gain > 0 else 1.0


def _has_fallen(run: Run, shape: Shape) -> bool:
    """Return whether the reward lost much of its gain, by more than chance."""
    if shape.series.source == "metrics":
        return shape.fell
    limits = run.limits[RewardCollapse]
    if shape.abrupt is not None:
        lost = lost_part(shape, shape.end)
        return run.limits.test(RewardCollapse.half, ">", lost).met
    steps = len(run.steps)
    size = len(run.last.steps)
    reward = run.column("reward")
    # A step without rewards is not the best.
    by_step = np.nan_to_num(run.by_step(reward), nan=-np.inf)
    start = int(np.argmax(running_mean(by_step, size)))
    best = run.window(start, start + size)
    loss = means.change(run, reward, first=best)
    gain = means.change(run, reward, last=best).difference
    min_loss = max(limits.half * gain, limits.spread * means.spread(run))
    # By chance alone, the best of several windows lies above the others.
    luck = np.sqrt(2 * np.log(steps / size))
    is_significant = -shape.noise.deflate(loss.z) >= loss.least + luck
    return bool(is_significant and -loss.difference > min_loss)


def explanation_of_fall(run: Run) -> dict[str, Fact] | None:
    """Return why a fall of the reward is no loss of the policy, as facts with a ``kind``, or None.

    An explanation holds only if the policy's own loss surely is less than half of the fall: on
    prompts seen before and after, if their texts did not change, or against the frozen reference.
    """
    shape = quantities.reward_shape(run)
    if shape is None:
        return None
    if shape.series.source == "rollouts" and run.first is not None:
        for explain in (_harder_prompts, _lower_reference):
            explained = explain(run, shape)
            if explained is not None:
                return explained
    watched = quantities.watched_shape(run)
    if watched is not None and watched.rose and not watched.fell:
        return {"kind": "watched"}
    return None


def _harder_prompts(run: Run, shape: Shape) -> dict[str, Fact] | None:
    """Return that the reward fell less on prompts seen before and after, or None."""
    sides = _sides_of_fall(run, shape)
    reward = run.column("reward")
    same_prompts = _same_prompt_change(run, reward, sides.late, sides.early)
    if same_prompts is None or _texts_changed(run, sides.late, sides.early):
        return None
    most = same_prompts.change.largest_loss
    if not most < sides.size / 2:
        return None
    return {"kind": "prompts", "shared": same_prompts.prompts, "most": max(most, 0.0)}


def _lower_reference(run: Run, shape: Shape) -> dict[str, Fact] | None:
    """Return that the reward of the frozen reference fell as well, or None."""
    drop = shape.best - shape.end
    best = run.window(*shape.peak)
    reference = means.change(run, run.column("ref_reward"), first=best)
    gap = means.change(run, run.column("reward_gap"), first=best)
    if not (reference.fell and -reference.difference > drop / 2):
        return None
    if not gap.largest_loss < drop / 2:
        return None
    return {"kind": "reference", "most": max(gap.largest_loss, 0.0)}


class _Sides(NamedTuple):
    """Which responses are of the steps after a fall (or in a dip), and which before."""

    late: NDArray[np.bool_]  # (rows,)
    early: NDArray[np.bool_]  # (rows,)
    size: float  # of the fall


def _sides_of_fall(run: Run, shape: Shape) -> _Sides:
    steps = shape.series.steps
    index = np.searchsorted(steps, run.responses["step"].to_numpy(np.int64))
    dip = shape.dip
    if dip is not None and not shape.fell:
        inside = (index >= dip.start) & (index <= dip.stop)
        return _Sides(inside, ~inside, dip.level - dip.low)
    window = shape.window
    best = shape.best_index
    late = index >= len(steps) - 2 * window
    early = (index >= best - window) & (index < best + 2 * window) & ~late
    return _Sides(late, early, shape.best - shape.end)


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
    changes = (after - before).dropna()
    if len(changes) < MIN_SHARED_PROMPTS:
        return None
    start = float(before[changes.index].mean())
    end = float(after[changes.index].mean())
    error = float(changes.std(ddof=1)) / math.sqrt(len(changes))
    z = (end - start) / max(error, TINY)
    of_mean = Change(start, end, z, run.limits[Trend].z)
    return _SamePrompts(len(changes), of_mean)


def _mean_by_prompt(run: Run, values: Floats, among: NDArray[np.bool_]) -> pd.Series:
    rows = np.isfinite(values) & among
    prompts = run.responses["prompt_id"].to_numpy()[rows]
    return pd.Series(values[rows]).groupby(prompts).mean()


def _texts_changed(run: Run, late: NDArray[np.bool_], early: NDArray[np.bool_]) -> bool:
    """Return whether responses to the same prompts doubled, halved, or came to be cut off."""
    length, finished = [
        _same_prompt_change(run, values, late, early) for values in _text_figures(run)
    ]
    return _are_other_texts(length and length.change, finished and finished.change)


def _text_figures(run: Run) -> tuple[Floats, Floats]:
    """Return the logarithm of each response's length, and whether it finished (NaN if unknown)."""
    length = np.log(np.maximum(run.column(run.length), 1.0))
    if not run.has("finished"):
        return length, np.full(len(length), np.nan)
    return length, run.column("finished")


def _are_other_texts(length: Change | None, finished: Change | None) -> bool:
    """Return whether texts surely changed, by their log length and the share that finished."""
    if length is not None and abs(length.difference) >= math.log(OTHER_LENGTH):
        return length.rose or length.fell
    if finished is None or not finished.fell:
        return False
    return -finished.difference >= OTHER_ENDINGS


@Check(
    name="no gain in reward",
    rank=Rank.NOTE,
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
    """Note that the reward did not rise, or is not above that of the reference."""
    shape = quantities.reward_shape(run)
    is_short = run.first is None or shape is None
    if is_short and not REF_REWARD.is_available(run):
        return check.too_short(run, quantities.reward(run))
    gap = run.column("reward_gap")
    facts = None
    if shape is not None and not _has_reason(run):
        facts = _facts_of_no_gain(run)
    else:
        end = gap[run.last.rows]
        facts = _facts_against_reference(end[np.isfinite(end)])
    if facts is None:
        return Result()
    by = gap if np.isfinite(gap).any() else run.column("reward")
    return check.found(run, Severity.INFO, (), facts, Ranking(by, highest=False))


def _has_reason(run: Run) -> bool:
    """Return whether a run learned, or has a reason not to."""
    if progress.learned(run) or progress.solved(run):
        return True
    return mix_of_fall(run) is not None


def _facts_of_no_gain(run: Run) -> Facts:
    windows = quantities.reward_windows(run)
    loss = windows["start"] - windows["end"]
    course = quantities.courses(run)["reward"]
    fell = loss > 0 and (course.direction < 0 or course.lost)
    source = quantities.reward(run).source
    return {"kind": "fell" if fell else "flat", "series_from": source, **windows}


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
        Ranking(reward, highest=size > 0, unit=unit),
        onset=step,
    )


def _is_by_policy(run: Run, reward: Floats, jump: _Jump) -> bool:
    """Return whether a jump of the policy's reward may be due to the policy or the mix of tasks."""
    shape = quantities.reward_shape(run)
    lowest_before = np.nanmin(reward[run.step_index < jump.at])
    if shape is not None and shape.dead is not None:
        return True
    if shape is not None and shape.below_start and jump.after < lowest_before:
        return True
    if not _exceeds_noise(run, reward, jump):
        return True
    if _others_jump(run, jump.at, run.limits[_RewardShift].still):
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
    noise = jump_noise(values) * np.sqrt(1 / at + 1 / (count - at))
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
    first, last = line_ends(values)
    count = len(values)
    return abs(change(first, last)) * count / (count - 1)


def _exceeds_noise(run: Run, reward: Floats, jump: _Jump) -> bool:
    """Return whether a jump of the reward is at least EVIDENT standard errors of a step's mean."""
    inside = pd.Series(reward - run.by_step(reward)[run.step_index])
    # Responses to one prompt are correlated. Steps with only one prompt are judged by responses.
    prompts = run.responses["prompt_id"].to_numpy()
    sums = inside.groupby([run.step_index, prompts]).sum()
    by_prompt = (sums**2).groupby(level=0).sum()
    by_response = (inside**2).groupby(run.step_index).sum()
    squares = np.maximum(by_prompt, by_response)
    counts = inside.groupby(run.step_index).count()
    errors = np.asarray(np.sqrt(squares) / counts)
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
