"""Checks of what rewards are made of: the function changed in mid-run, or one part rules."""

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
from rlreport.check.run import Run, Shown
from rlreport.check.shapes import own_change
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked


class RewardShift(Limits):
    """Thresholds of ``reward_shift``."""

    z = Limit(6.0, "std errors", "warning: jump of the reference's reward at one step")
    spread = Limit(0.25, "std of reward", "least jump, of the std inside a step")
    still = Limit(4.0, "std errors", "without a reference: nothing else jumps by this at that step")


class RewardPartDominance(Limits):
    """Thresholds of ``reward_part_dominance``."""

    share = Limit(
        0.75, "of the reward", "info: its variance inside steps, or its gain, from one part"
    )


NEAR = 5
"""Steps on each side over which a jump is told from a slope."""

SUDDEN = 0.6
"""Part of the whole difference that lies between the steps next to a jump."""

STRAY = 0.5
"""Part of the difference by which the steps next to a jump may lie off their side, or move."""

NEW = 0.8
"""Share of the responses after a jump whose prompts are new, if the prompts changed."""

LEAST_SIDE = 3
"""Steps that each side of a jump has at least."""

EVIDENT = 5.0
"""Without a reference: errors of a single step's mean that the jump is larger than at least."""


@dataclass(frozen=True, slots=True)
class Jump:
    """The best split of a series in two: its place, both means, and how far beyond noise."""

    place: int
    before: float
    after: float
    z: float
    sudden: bool


def jump(series: Floats, place: int | None = None) -> Jump | None:
    """Return the best two-segment split of a series, or the split at a place.

    Noise is judged by the median of squared successive differences, which a jump does not
    touch; a slope is no jump: most of the difference must lie between neighbouring steps.
    """
    known = np.flatnonzero(np.isfinite(series))
    y, n = series[known], len(known)
    if n < 2 * LEAST_SIDE:
        return None
    sizes = np.arange(1, n)
    sums = np.cumsum(y)[:-1]
    difference = (y.sum() - sums) / (n - sizes) - sums / sizes
    between = difference**2 * sizes * (n - sizes) / n
    between[: LEAST_SIDE - 1] = between[n - LEAST_SIDE :] = -1
    at = int(np.argmax(between)) + 1 if place is None else int(np.searchsorted(known, place))
    if not LEAST_SIDE <= at <= n - LEAST_SIDE:
        return None
    before, after = float(y[:at].mean()), float(y[at:].mean())
    left, right = float(y[max(0, at - NEAR) : at].mean()), float(y[at : at + NEAR].mean())
    step = float(y[at : at + 2].mean() - y[max(0, at - 2) : at].mean())
    error = noise(y) * np.sqrt(1 / at + 1 / (n - at))
    size = abs(after - before)
    z = size / max(error, size * 1e-3, 1e-12)
    near = min(step, right - left, key=lambda d: d * np.sign(after - before))
    sudden = size > 0 and near / (after - before) >= SUDDEN
    # What comes back from a dip jumps too, but not from where it had been before.
    apart = max(abs(left - before), abs(right - after))
    moving = max(_moving(y[max(0, at - NEAR) : at]), _moving(y[at : at + NEAR]))
    flat = apart <= STRAY * size and moving <= STRAY * size
    return Jump(int(known[at]), before, after, z, bool(sudden and flat))


def _moving(side: Floats) -> float:
    """Return how far the straight line through one side of a jump goes, as a magnitude."""
    place = np.arange(len(side)) - (len(side) - 1) / 2
    return float(abs((place * side).sum() / (place**2).sum()) * len(side))


def _evident(run: Run, reward: Floats, found: Jump) -> bool:
    """Say whether the means of two single steps tell a jump from fast learning.

    A step's mean errs as those near the jump do, on its side: near a ceiling all err little.
    """
    inside = pd.Series(reward - run.by_step(reward)[run.place])
    # Responses to one prompt are alike: a step has as many draws as prompts.
    sums = inside.groupby([run.place, run.responses["prompt_id"].to_numpy()]).sum()
    squares = (sums**2).groupby(level=0).sum()
    errors = np.asarray(np.sqrt(squares) / inside.groupby(run.place).count())
    at = found.place
    sides = (errors[max(0, at - NEAR) : at], errors[at : at + NEAR])
    error = math.hypot(*(float(np.nanmedian(side)) for side in sides))
    return abs(found.after - found.before) >= EVIDENT * error


def _others_jump(run: Run, found: Jump, still: float) -> bool:
    """Say whether length, KL, surprisal or distinct-2 jump at the same step."""
    names = ("response_tokens_mean", "response_chars_mean", "kl_k1_mean", "surprisal_mean")
    others = (
        jump(run.tables.steps[name].to_numpy(np.float64), found.place)
        for name in (*names, "distinct_2", "duplicate_rate")
    )
    return any(other is not None and other.sudden and other.z >= still for other in others)


def _prompts_changed(run: Run, reward: Floats, found: Jump) -> bool:
    """Say whether the prompts explain the jump: those on both sides earn what they earned.

    Where prompts returned before the jump and none of them does after it, others came.
    """
    own = own_change(run, reward, run.place >= found.place)
    if own is not None:
        return abs(own) < abs(found.after - found.before) / 2
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    first = int(np.searchsorted(run.place, found.place))
    groups = run.responses[:first].groupby(["prompt_id", "step"]).ngroups
    returned = len(np.unique(prompts[:first])) < NEW * groups
    return bool(returned and (~np.isin(prompts[first:], prompts[:first])).mean() >= NEW)


def judge_shift(run: Run) -> Result:
    """Look for a step at which the frozen reference's reward jumps, and stays.

    Without a reference: the reward jumps while length, KL, surprisal and distinct-2 do not. Where
    prompts seen on both sides earn what they earned, the prompts changed: a note.
    """
    referenced = run.has("ref_reward")
    column = "ref_reward" if referenced else "reward"
    reward = run.column(column)
    series = run.by_step(reward)
    found = jump(series)
    if found is None or not found.sudden:
        return None
    size = found.after - found.before
    z = run.met(RewardShift.z, ">=", found.z)
    far = run.met(RewardShift.spread, ">=", abs(size), of=max(run.spread(column), abs(size) * 1e-3))
    if not (z and far and abs(size) > 1e-9):
        return None
    if not referenced:
        shape, still = run.reward_shape, run.limits[RewardShift].still
        worst = found.after < np.nanmin(reward[run.place < found.place])
        died = shape is not None and (shape.dead is not None or (shape.below_start and worst))
        if died or not _evident(run, reward, found) or _others_jump(run, found, still):
            return None
    changed = _prompts_changed(run, reward, found)
    step = int(run.steps[found.place])
    return REWARD_SHIFT.finding(
        run,
        "info" if changed else "warning",
        z + far,
        series=series,
        onset=Onset(step, step, step),
        shown=Shown(reward, highest=size > 0),
        before=found.before,
        after=found.after,
        at=step,
        referenced=referenced,
        prompts_changed=changed,
    )


def shift_title(facts: Facts) -> str:
    """Return what jumped, when, and what changed."""
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
    title=shift_title,
    why="Rewards before and after are not comparable. The other checks of the reward judge its "
    "gap to the reference, or the longer part of the run.",
    suggestion="Find what changed at this step: the reward model, a penalty, a scale, the data. "
    "Score an earlier checkpoint again.",
    explains=("reward_collapse", "reward_stalled", "persistent_losers", "not_sharpening"),
)


def judge_parts(run: Run) -> Result:
    """Share the reward's variance inside steps, and its gain, among its parts.

    A part's share of the variance is its covariance with the reward over the reward's
    variance; the shares of parts that add up to the reward add up to one.
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
    late = run.place >= len(run.steps) - len(run.last.steps)

    def shares(part: Floats) -> tuple[float, float]:
        known = np.isfinite(reward) & np.isfinite(part) & late
        y, x = (centred(values[known], run.place[known]) for values in (reward, part))
        varied = float((y * y).sum())
        of_gain = run.change(part).difference / gain.difference if gain.rose else np.nan
        return float((x * y).sum()) / varied if varied > 1e-12 else np.nan, of_gain

    found = {name: shares(part) for name, part in parts.items()}
    highest = {name: float(np.nanmax([*both, -1.0])) for name, both in found.items()}
    name = max(highest, key=highest.__getitem__)
    if not (met := run.met(RewardPartDominance.share, ">", highest[name])):
        return None
    of_variance, of_gain = found[name]
    return REWARD_PART_DOMINANCE.finding(
        run,
        "info",
        met,
        shown=Shown(parts[name]),
        part=name,
        of_variance=of_variance,
        of_gain=of_gain,
    )


def parts_title(facts: Facts) -> str:
    """Return which part dominates, and what."""
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
    title=parts_title,
    why="The other parts of the reward hardly steer the policy: it learns this one alone.",
    suggestion="Weigh the parts so that their spreads inside a step are alike.",
    source="rewardspy",
    needs_also="reward_parts, two or more",
    of_reward=True,
)
