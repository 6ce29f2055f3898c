"""A reward that jumps at one step and stays: what tells it from learning, and what explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlreport.check.noise import centred, means_by
from rlreport.check.onset import noise
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats

NEAR = 5
"""Steps on each side over which a jump is told from a slope."""

SUDDEN = 0.6
"""Part of the whole difference that lies between the steps next to a jump."""

STRAY = 0.5
"""Part of the difference by which the steps next to a jump may lie off their side's mean."""

LEAST_SIDE = 3
"""Steps that each side of a jump has at least."""

FLAT = 0.5
"""Part of the difference by which either side may move within its NEAR steps."""

EVIDENT = 4.0
"""Without a reference: errors of a single step's mean that the jump is larger than at least."""

LEAST_PROMPTS = 8
"""Prompts seen on both sides, from which the change of the reward itself can be told."""

MOST_TOLD = 1000.0
"""Errors, or std, of a jump that are told at most: without noise it has no end of them."""

NEW = 0.8
"""Share of the responses after a jump whose prompts are new, if the prompts changed."""


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
    near = right - left
    step = float(y[at : at + 2].mean() - y[max(0, at - 2) : at].mean())
    error = noise(y) * np.sqrt(1 / at + 1 / (n - at))
    size = abs(after - before)
    z = size / max(error, size * 1e-3, 1e-12) if size else 0.0
    sudden = min(step / (after - before), near / (after - before)) >= SUDDEN if size else False
    # What comes back from a dip jumps too, but not from where it had been before.
    apart = max(abs(left - before), abs(right - after))
    moving = max(_moving(y[max(0, at - NEAR) : at]), _moving(y[at : at + NEAR]))
    flat = apart <= STRAY * size and moving <= FLAT * size
    return Jump(int(known[at]), before, after, z, bool(sudden and flat))


def _moving(side: Floats) -> float:
    """Return how far the straight line through one side of a jump goes, as a magnitude."""
    place = np.arange(len(side)) - (len(side) - 1) / 2
    slope = (place * side).sum() / max(float((place**2).sum()), 1.0)
    return float(abs(slope) * len(side))


def evident(run: Run, reward: Floats, found: Jump) -> bool:
    """Say whether the means of two single steps tell a jump from fast learning.

    A step's mean errs as those near the jump do, on its side: near a ceiling all err little.
    """
    known = np.isfinite(reward)
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[known]
    place, inside = run.place[known], centred(reward[known], run.place[known])
    # Responses to one prompt are alike: a step has as many draws as prompts.
    _, cluster = np.unique(place * (prompts.max() + 1) + prompts, return_inverse=True)
    sums = np.bincount(cluster, inside)
    step = np.zeros(len(sums), np.int64)
    step[cluster] = place
    sizes = np.bincount(place)
    squares = np.bincount(step, sums**2, minlength=len(sizes))
    with np.errstate(invalid="ignore"):  # steps without rewards
        errors = np.sqrt(squares) / sizes
    at = found.place
    sides = (errors[max(0, at - NEAR) : at], errors[at : at + NEAR])
    error = math.hypot(*(float(np.nanmedian(side)) for side in sides))
    return abs(found.after - found.before) >= EVIDENT * error


def others_jump(run: Run, found: Jump, still: float) -> bool:
    """Say whether length, KL, surprisal or distinct-2 jump at the same step."""
    names = ("response_tokens_mean", "response_chars_mean", "kl_k1_mean", "surprisal_mean")
    others = (
        jump(run.tables.steps[name].to_numpy(np.float64), found.place)
        for name in (*names, "distinct_2", "duplicate_rate")
    )
    return any(other is not None and other.sudden and other.z >= still for other in others)


def prompts_changed(run: Run, reward: Floats, found: Jump) -> bool:
    """Say whether the prompts explain the jump: those on both sides earn what they earned."""
    prompts = run.responses["prompt_id"].to_numpy(np.int64)
    known = np.isfinite(reward)
    late = run.place >= found.place
    both = np.intersect1d(prompts[known & late], prompts[known & ~late])
    if len(both) >= LEAST_PROMPTS:
        _, code = np.unique(prompts, return_inverse=True)
        sides = (known & late, known & ~late)
        after, before = (means_by(code[s], int(code.max()) + 1, reward[s]) for s in sides)
        own = float(np.nanmean(after - before))
        return abs(own) < abs(found.after - found.before) / 2
    first = int(np.searchsorted(run.place, found.place))
    fresh = ~np.isin(prompts[first:], prompts[:first])
    # Prompts that never return say nothing; prompts that used to, and now are others, do.
    groups = len(np.unique(np.stack([prompts[:first], run.place[:first]]), axis=1).T)
    returned = len(np.unique(prompts[:first])) < NEW * groups
    return bool(returned and fresh.mean() >= NEW)
