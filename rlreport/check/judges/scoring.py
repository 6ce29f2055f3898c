"""Checks of the reward function: it changed during the run, or one part of it dominates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check.check import REWARD, Check, Result
from rlreport.check.finding import Facts, Onset
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import centred
from rlreport.check.onset import noise
from rlreport.check.run import Ranking, Run
from rlreport.check.shapes import same_prompt_change
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked


class RewardShift(Limits):
    """Thresholds of ``reward_shift``."""

    z = Limit(6.0, "std errors", "warning: jump of the reference's reward at one step")
    spread = Limit(0.25, "std of reward", "least jump, of the std inside a step")
    still = Limit(4.0, "std errors", "without a reference: no other figure jumps by this")


class RewardPartDominance(Limits):
    """Thresholds of ``reward_part_dominance``."""

    share = Limit(
        0.75, "of the reward", "info: its variance inside steps, or its gain, from one part"
    )


NEAR = 5
"""Steps on each side of a jump that are compared."""

SUDDEN = 0.6
"""Part of the difference that has to lie between the steps next to a jump, else it is a slope."""

STRAY = 0.5
"""Steps next to a jump may differ from their side's mean, or trend, by this part of the jump."""

NEW = 0.8
"""The prompts changed if this share of the responses after a jump have new prompts."""

MIN_SIDE = 3
"""Fewest steps on each side of a jump."""

EVIDENT = 5.0
"""Standard errors of a single step's mean that a jump must exceed, without a reference."""


@dataclass(frozen=True, slots=True)
class Jump:
    """The best split of a series in two: its index, both means, and its z."""

    place: int
    before: float
    after: float
    z: float
    sudden: bool


def jump(series: Floats, place: int | None = None) -> Jump | None:
    """Return the best split of a series in two segments, or the split at ``place``.

    Noise is the median squared successive difference, which a jump hardly changes. A split is
    ``sudden`` if most of the difference lies between neighbouring steps, unlike a slope.
    """
    indices = np.flatnonzero(np.isfinite(series))
    y, n = series[indices], len(indices)
    if n < 2 * MIN_SIDE:
        return None
    sizes = np.arange(1, n)
    sums = np.cumsum(y)[:-1]
    difference = (y.sum() - sums) / (n - sizes) - sums / sizes
    between = difference**2 * sizes * (n - sizes) / n
    between[: MIN_SIDE - 1] = between[n - MIN_SIDE :] = -1
    at = int(np.argmax(between)) + 1 if place is None else int(np.searchsorted(indices, place))
    if not MIN_SIDE <= at <= n - MIN_SIDE:
        return None
    before, after = float(y[:at].mean()), float(y[at:].mean())
    left, right = (
        float(y[max(0, at - NEAR) : at].mean()),
        float(y[at : at + NEAR].mean()),
    )
    step = float(y[at : at + 2].mean() - y[max(0, at - 2) : at].mean())
    error = noise(y) * np.sqrt(1 / at + 1 / (n - at))
    size = abs(after - before)
    z = size / max(error, size * 1e-3, 1e-12)
    local = min(step, right - left, key=lambda d: d * np.sign(after - before))
    sudden = size > 0 and local / (after - before) >= SUDDEN
    # A recovery from a dip is sudden too, but does not start at the earlier level.
    distance = max(abs(left - before), abs(right - after))
    moving = max(_moving(y[max(0, at - NEAR) : at]), _moving(y[at : at + NEAR]))
    flat = distance <= STRAY * size and moving <= STRAY * size
    return Jump(int(indices[at]), before, after, z, bool(sudden and flat))


def _moving(side: Floats) -> float:
    """Return the absolute rise of the straight line through one side of a jump."""
    place = np.arange(len(side)) - (len(side) - 1) / 2
    return float(abs((place * side).sum() / (place**2).sum()) * len(side))


def _exceeds_noise(run: Run, reward: Floats, split: Jump) -> bool:
    """Return whether a jump exceeds the noise of single steps, unlike fast learning.

    Noise is taken from the steps next to the jump: near a ceiling it is smaller.
    """
    inside = pd.Series(reward - run.by_step(reward)[run.step_index])
    # Responses to one prompt are correlated; a step of one prompt has no more than responses.
    sums = inside.groupby([run.step_index, run.responses["prompt_id"].to_numpy()]).sum()
    by_prompt = (sums**2).groupby(level=0).sum()
    by_response = (inside**2).groupby(run.step_index).sum()
    squares = np.maximum(by_prompt, by_response)
    errors = np.asarray(np.sqrt(squares) / inside.groupby(run.step_index).count())
    at = split.place
    sides = (errors[max(0, at - NEAR) : at], errors[at : at + NEAR])
    error = math.hypot(*(math.sqrt(np.nanmean(side**2)) for side in sides))
    return abs(split.after - split.before) >= EVIDENT * error


def _others_jump(run: Run, split: Jump, still: float) -> bool:
    """Return whether length, KL, surprisal or distinct-2 jump at the same step."""
    names = ("response_tokens_mean", "response_chars_mean", "kl_k1_mean", "surprisal_mean")
    others = (
        jump(run.tables.steps[name].to_numpy(np.float64), split.place)
        for name in (*names, "distinct_2", "duplicate_rate")
    )
    return any(other is not None and other.sudden and other.z >= still for other in others)


def _prompts_changed(run: Run, reward: Floats, split: Jump) -> bool:
    """Return whether other prompts explain the jump: prompts on both sides earn the same as before.

    Without such prompts: those before the jump recurred, and nearly all after it are new.
    """
    difference = same_prompt_change(run, reward, run.step_index >= split.place)
    if difference is not None:
        return abs(difference) < abs(split.after - split.before) / 2
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    first = int(np.searchsorted(run.step_index, split.place))
    groups = run.responses[:first].groupby(["prompt_id", "step"]).ngroups
    returned = len(np.unique(prompts[:first])) < NEW * groups
    return bool(returned and (~np.isin(prompts[first:], prompts[:first])).mean() >= NEW)


def judge_shift(run: Run) -> Result:
    """Find a step from which the frozen reference earns a different reward.

    Without a reference: the reward jumps while length, KL, surprisal and distinct-2 do not. The
    severity is info if only the prompts changed, that is, prompts on both sides earn the same.
    """
    referenced = run.has("ref_reward")
    column = "ref_reward" if referenced else "reward"
    reward = run.column(column)
    series = run.by_step(reward)
    split = jump(series)
    if split is None or not split.sudden:
        return None
    size = split.after - split.before
    z = run.met(RewardShift.z, ">=", split.z)
    spread = max(run.spread(column), abs(size) * 1e-3)
    large = run.met(RewardShift.spread, ">=", abs(size), of=spread)
    if not (z and large and abs(size) > 1e-9):
        return None
    if not referenced:
        shape, limit = run.reward_shape, run.limits[RewardShift].still
        new_low = split.after < np.nanmin(reward[run.step_index < split.place])
        died = shape is not None and (shape.dead is not None or (shape.below_start and new_low))
        if died or not _exceeds_noise(run, reward, split) or _others_jump(run, split, limit):
            return None
    changed = _prompts_changed(run, reward, split)
    step = int(run.steps[split.place])
    return REWARD_SHIFT.finding(
        run,
        "info" if changed else "warning",
        z + large,
        series=series,
        onset=Onset(step, step, step),
        ranking=Ranking(reward, highest=size > 0),
        before=split.before,
        after=split.after,
        at=step,
        referenced=referenced,
        prompts_changed=changed,
    )


def _shift_title(facts: Facts) -> str:
    if facts["prompts_changed"]:
        return marked(
            "The prompts changed at step {at}: mean reward went from {before:figure} to "
            "{after:figure}, but not that of prompts seen on both sides."
        )
    if facts["referenced"]:
        return marked(
            "The frozen reference's mean reward jumped from {before:figure} to {after:figure} at "
            "step {at}: the scoring changed, not the policy."
        )
    return marked(
        "The mean reward jumped from {before:figure} to {after:figure} at step {at}, while "
        "length, KL and entropy did not move."
    )


REWARD_SHIFT = Check(
    id="reward_shift",
    name="the reward function changed",
    rank="cause",
    looks_for="the reward function, or the prompts, changed in mid-run",
    needs=(REWARD,),
    charts=("reward",),
    judge=judge_shift,
    limits=RewardShift,
    title=_shift_title,
    why="Rewards before and after are not comparable. The other checks of the reward judge its "
    "gap to the reference, or the longer part of the run.",
    suggestion="Find what changed at this step: the reward model, a penalty, a scale, the data. "
    "Score an earlier checkpoint again.",
    explains=("reward_collapse", "reward_stalled", "persistent_losers", "not_sharpening"),
)


def judge_parts(run: Run) -> Result:
    """Find a part of the reward that holds most of its variance inside steps, or of its gain.

    A part's share of the variance is its covariance with the reward over the reward's variance.
    Shares of parts that add up to the reward add up to one.
    """
    extras = run.tables.extras
    names = [name for name in run.tables.reward_parts if name in extras]
    numbers = [name for name in names if pd.api.types.is_numeric_dtype(extras[name])]
    parts = {name: extras[name].to_numpy(np.float64) for name in numbers}
    parts = {name: part for name, part in parts.items() if np.isfinite(part).any()}
    if len(parts) < 2:
        return REWARD_PART_DOMINANCE.not_run("reward_parts, two or more")
    reward = run.column("reward")
    gain = run.change(reward)
    in_last_window = run.step_index >= len(run.steps) - len(run.last.steps)

    def shares(part: Floats) -> tuple[float, float]:
        finite = np.isfinite(reward) & np.isfinite(part) & in_last_window
        y, x = (centred(values[finite], run.step_index[finite]) for values in (reward, part))
        variance = float((y * y).sum())
        of_gain = run.change(part).difference / gain.difference if gain.rose else np.nan
        return float((x * y).sum()) / variance if variance > 1e-12 else np.nan, of_gain

    shares_of = {name: shares(part) for name, part in parts.items()}
    highest = {name: float(np.nanmax([*both, -1.0])) for name, both in shares_of.items()}
    name = max(highest, key=highest.__getitem__)
    if not (met := run.met(RewardPartDominance.share, ">", highest[name])):
        return None
    of_variance, of_gain = shares_of[name]
    return REWARD_PART_DOMINANCE.finding(
        run,
        "info",
        met,
        ranking=Ranking(parts[name]),
        part=name,
        of_variance=of_variance,
        of_gain=of_gain,
    )


def _parts_title(facts: Facts) -> str:
    if facts["of_gain"] is None:
        return marked(
            "The part {part:quoted} holds {of_variance:percent} of the reward's variance inside "
            "steps."
        )
    return marked(
        "The part {part:quoted} holds {of_variance:percent} of the reward's variance inside steps "
        "and {of_gain:percent} of its gain."
    )


REWARD_PART_DOMINANCE = Check(
    id="reward_part_dominance",
    name="one part dominates the reward",
    rank="note",
    looks_for="one part of the reward carries it all",
    needs=(REWARD,),
    charts=("reward",),
    judge=judge_parts,
    limits=RewardPartDominance,
    title=_parts_title,
    why="The other parts of the reward hardly steer the policy: it learns this one alone.",
    suggestion="Weigh the parts so that their spreads inside a step are alike.",
    source="rewardspy",
    needs_also="reward_parts, two or more",
    of_reward=True,
)
