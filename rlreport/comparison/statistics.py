"""How far two runs differ: effects by prompt with intervals, curves with one band for all steps.

Responses to one prompt are alike, so the prompt is the unit of evidence everywhere. The interval
of an effect is Student's over prompts, and it excludes 0 only if a permutation test rejects as
well: that test holds its level with few prompts, rare events and heavy tails too.

NEW is treated as one more draw from the distribution of several BASE runs: Student's interval for
it is ± t(R - 1) · s · √(1 + 1/R), s the standard deviation of the R runs' means, noise of the
prompts included. The interval over prompts adds how differently a change acts on prompts.

Curves are bootstrapped over prompts. More than 512 prompts are first put into 512 groups, which
are drawn whole: groups of independent prompts are independent, and memory stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, sqrt
from typing import NamedTuple

import numpy as np

from rlreport.comparison.permutation import relabel_p, sign_flip_p
from rlreport.figures.ragged import Floats, Ints

RESAMPLES = 2000
LEVEL = 0.95
POWER = 0.8
LEAST_PAIRS = 3
"""Prompts below which there is no interval."""
LEAST_PAIRS_FOR_VERDICT, LEAST_PROMPTS_FOR_VERDICT = 6, 4
"""Pairs, or prompts on each side, below which no permutation test reaches p = 0.05."""

StandardError = tuple[float, float]
"""A standard error and its degrees of freedom."""

_GROUPS = 512
_PATHS = 400
_TINY = 1e-12
TAIL = (1 - LEVEL) / 2


@dataclass(frozen=True, slots=True)
class Cells:
    """Sum and number of a figure's values by prompt and step of one run, (C,) each, ascending."""

    prompts: Ints
    steps: Ints
    sums: Floats
    counts: Floats
    shape: tuple[int, int]

    @classmethod
    def of(cls, prompts: Ints, steps: Ints, values: Floats, shape: tuple[int, int]) -> Cells:
        """Add up values, (N,) each: number of the prompt, number of the step, value.

        A negative number leaves the response out, as do values that are not finite.
        """
        used = np.isfinite(values) & (prompts >= 0) & (steps >= 0)
        keys, cells = np.unique(prompts[used] * shape[1] + steps[used], return_inverse=True)
        sums = np.bincount(cells, values[used], len(keys)).astype(np.float64)
        counts = np.bincount(cells, minlength=len(keys)).astype(np.float64)
        return cls(keys // shape[1], keys % shape[1], sums, counts, shape)

    def by_group_and_step(self) -> tuple[Floats, Floats]:
        """Return sums and counts, (groups, steps) each."""
        place = self.prompts, self.steps
        return _grouped(*place, self.sums, self.shape), _grouped(*place, self.counts, self.shape)


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference NEW - BASE with its 95% interval.

    Attributes:
        value: the difference, NaN where nothing can be compared.
        low, high: its interval.
        mde: the smallest difference that would be found in 80% of such comparisons; NaN where
            so few prompts can show none.
        p: two-sided, the largest of all tests.
        pairs: prompts on both sides, or the smaller side's prompts where unpaired.
        paired: whether it comes from prompts that both sides have.
    """

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    mde: float = np.nan
    p: float = 1.0
    pairs: int = 0
    paired: bool = True


def paired_effect(base: Floats, new: Floats, *, rounding: float = 0.0, seed: int = 0) -> Effect:
    """Compare means by prompt, (prompts,) each, NaN where a side lacks the prompt.

    Signs of the prompts' differences are flipped in the permutation test. ``base`` may be
    (runs, prompts) of several runs of BASE; a difference of at most ``rounding`` is none.
    """
    runs = np.atleast_2d(base)
    shared = np.isfinite(runs).all(axis=0) & np.isfinite(new)
    difference = new[shared] - runs[:, shared].mean(axis=0)
    pairs = len(difference)
    if pairs < LEAST_PAIRS:
        return Effect(float(difference.mean()) if pairs else np.nan, pairs=pairs)
    errors = [_error_of_mean(difference), *_one_more(runs[:, shared])]
    p = sign_flip_p(difference, seed)
    return _effect(float(difference.mean()), errors, p, rounding, pairs, paired=True)


def unpaired_effect(
    base: Floats,
    new: Floats,
    *,
    runs: Sequence[Floats] = (),
    rounding: float = 0.0,
    seed: int = 0,
) -> Effect:
    """Compare means by prompt, (prompts of that side,) each, where the prompts are others.

    The errors of both sides add up, and that of ``runs`` of BASE, means by prompt each: runs that
    share their prompts show nothing about other prompts. ``base`` has each prompt once; the
    permutation test moves prompts between the sides.
    """
    base, new = base[np.isfinite(base)], new[np.isfinite(new)]
    pairs = min(len(base), len(new))
    if pairs < LEAST_PAIRS:
        return Effect(pairs=pairs, paired=False)
    several = _one_more([run[np.isfinite(run)] for run in runs])
    # Runs that lie close by chance do not make the interval narrower than that over runs.
    errors = [_welch([_error_of_mean(base), _error_of_mean(new), *several]), *several]
    value = float(new.mean() - base.mean())
    p = relabel_p(base, new, seed)
    return _effect(value, errors, p, rounding, pairs, paired=False)


def _one_more(runs: Sequence[Floats] | Floats) -> list[StandardError]:
    """Return the error of one more run against the mean of several; none of a single run."""
    if len(runs) < 2:
        return []
    means = np.array([run.mean() for run in runs])
    return [(float(means.std(ddof=1)) * sqrt(1 + 1 / len(means)), len(means) - 1)]


def _error_of_mean(values: Floats) -> StandardError:
    return float(values.std(ddof=1)) / sqrt(len(values)), len(values) - 1


def _welch(parts: Sequence[StandardError]) -> StandardError:
    """Return the error of a sum, with the degrees of freedom of Welch and Satterthwaite."""
    total = hypot(*(error for error, _ in parts))
    shares = sum((error / total) ** 4 / freedom for error, freedom in parts) if total else 1.0
    return total, 1 / shares


def _effect(
    value: float,
    errors: Sequence[StandardError],
    permutation_p: float,
    rounding: float,
    pairs: int,
    *,
    paired: bool,
) -> Effect:
    """Return the widest of Student's intervals; 0 is in it unless the permutation test rejects."""
    from scipy.special import stdtr, stdtrit

    value = 0.0 if abs(value) <= rounding else value
    error, freedom = np.array(errors).T
    half, power = (float((error * stdtrit(freedom, q)).max()) for q in (1 - TAIL, POWER))
    enough = pairs >= (LEAST_PAIRS_FOR_VERDICT if paired else LEAST_PROMPTS_FOR_VERDICT)
    certain = 1.0 if abs(value) <= _TINY else 0.0
    students = 2 * stdtr(freedom, -abs(value) / np.maximum(error, _TINY))
    p = max(permutation_p, float(np.where(error > _TINY, students, certain).max()))
    low, high = value - half, value + half
    if p > 1 - LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    return Effect(value, low, high, half + power if enough else np.nan, p, pairs, paired)


class Band(NamedTuple):
    """A difference by step with one band for all steps, (steps,) each; NaN where nothing is."""

    difference: Floats
    low: Floats
    high: Floats


def difference_band(
    base: Cells, new: Cells, *, paired: bool, rounding: float = 0.0, seed: int = 0
) -> Band:
    """Return NEW - BASE by step with a simultaneous 95% band.

    Prompts are resampled; the band is the difference ± q · its standard error, q the 95%
    quantile of the largest |t| over the steps, so that it misses the curve anywhere in 5 % of
    runs (max-|t|; Montiel Olea & Plagborg-Møller 2019). The cells have the same steps; ``paired``
    compares prompts, the same in both, that a step has on both sides, else the steps' means. A
    difference of at most ``rounding`` is none.
    """
    if paired:
        difference, resampled = _paired_curve(base, new, seed)
    else:
        known, drawn = _curve(*base.by_group_and_step(), seed)
        known_new, drawn_new = _curve(*new.by_group_and_step(), seed + 1)
        difference, resampled = known_new - known, drawn_new - drawn
    # A step may be missing, or be drawn in no resample: it has no error then.
    off = resampled - difference
    drawn_at = np.isfinite(off)
    times = np.where(drawn_at.any(axis=0), drawn_at.sum(axis=0), np.nan)
    error = np.sqrt(np.where(drawn_at, np.square(off), 0.0).sum(axis=0) / times)
    usable = np.isfinite(difference) & (error > _TINY)
    difference = np.where(np.abs(difference) <= rounding, 0.0, difference)
    factor = 0.0
    if usable.any():
        largest = np.fmax.reduce(np.abs(off[:, usable]) / error[usable], axis=1)
        factor = float(np.quantile(largest[np.isfinite(largest)], LEVEL))
    width = np.where(np.isfinite(difference), factor * error, np.nan)
    return Band(difference, difference - width, difference + width)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): they hold for all at once."""
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(np.asarray(p)[order] * factors, 1.0))
    return corrected.tolist()


def shrunk(difference: Floats, error: Floats) -> Floats:
    """Draw differences by prompt, (prompts,), towards their mean by as much as is noise in them.

    The normal-normal empirical Bayes estimate (Efron & Morris 1975), so that a prompt with two
    responses does not head the list by luck; ``error`` is their standard error. NaN stays NaN.
    """
    known = np.isfinite(difference)
    if known.sum() < 2:
        return difference
    mean = float(difference[known].mean())
    noise = np.square(np.where(np.isfinite(error), error, 0.0))
    signal = max(0.0, float(difference[known].var() - noise[known].mean()))
    total = signal + noise
    kept = np.where(total > _TINY, signal / np.maximum(total, _TINY), 1.0)
    return np.asarray(mean + kept * (difference - mean))


@dataclass(frozen=True, slots=True)
class EqualKL:
    """Reward at the same KL: the difference, its interval, and the share of KL both runs reach."""

    effect: float
    low: float
    high: float
    overlap: float


def at_equal_kl(
    base: tuple[Cells, Cells], new: tuple[Cells, Cells], *, seed: int = 0
) -> EqualKL | None:
    """Compare rewards where both runs are as far from the reference; None without an overlap.

    Each run, cells of reward and KL, is a path of its steps' mean reward over √max(KL, 0), on
    which reward is about linear at first (Gao et al. 2022). Over the range that both paths cover
    the difference of their straight-line interpolations is averaged; prompts are resampled, each
    run's apart.
    """
    paths = [_reward_by_distance(side, seed + i) for i, side in enumerate((base, new))]
    if not all(len(path[0][0]) for path in paths):
        return None
    reach = [(path[0][0].min(), path[0][0].max()) for path in paths]
    low, high = max(r[0] for r in reach), min(r[1] for r in reach)
    span = max(r[1] for r in reach) - min(r[0] for r in reach)
    if not high - low > _TINY or span <= 0:
        return None
    grid = np.linspace(low, high, 21)

    def mean_gap(number: int) -> float:
        if not all(len(path[number][0]) for path in paths):
            return float("nan")
        curves = [_interpolated(*path[number], grid) for path in paths]
        return float((curves[1] - curves[0]).mean())

    gaps = np.array([mean_gap(number) for number in range(len(paths[0]))])
    known = gaps[1:][np.isfinite(gaps[1:])]
    if not len(known):
        return None
    ends = np.quantile(known, [TAIL, 1 - TAIL])
    return EqualKL(float(gaps[0]), float(ends[0]), float(ends[1]), float((high - low) / span))


def _reward_by_distance(side: tuple[Cells, Cells], seed: int) -> list[tuple[Floats, Floats]]:
    """Return (distance, reward) by step: as observed, then with resampled prompts."""
    (reward, rewards), (kl, kls) = (cells.by_group_and_step() for cells in side)
    weights = np.vstack([np.ones(len(reward)), _resampled(len(reward), seed)[:_PATHS]])
    with np.errstate(invalid="ignore", divide="ignore"):
        gained = (weights @ reward) / (weights @ rewards)
        distance = np.sqrt(np.maximum((weights @ kl) / (weights @ kls), 0.0))
    known = np.isfinite(distance) & np.isfinite(gained)
    return [(d[k], g[k]) for d, g, k in zip(distance, gained, known, strict=True)]


def _interpolated(distance: Floats, reward: Floats, grid: Floats) -> Floats:
    """Return the reward along a path at the grid's distances; of steps at one distance the mean."""
    order = np.argsort(distance, kind="stable")
    at, groups = np.unique(distance[order], return_inverse=True)
    mean = np.bincount(groups, reward[order]) / np.bincount(groups)
    return np.asarray(np.interp(grid, at, mean))


def _paired_curve(base: Cells, new: Cells, seed: int) -> tuple[Floats, Floats]:
    """Return the mean difference of prompts that a step has on both sides, and resampled ones."""
    steps = base.shape[1]
    keys = [cells.prompts * steps + cells.steps for cells in (base, new)]
    both, left, right = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    gap = new.sums[right] / new.counts[right] - base.sums[left] / base.counts[left]
    prompts, step = both // steps, both % steps
    gaps = _grouped(prompts, step, gap, base.shape)
    counts = _grouped(prompts, step, np.ones(len(gap)), base.shape)
    return _curve(gaps, counts, seed)


def _curve(sums: Floats, counts: Floats, seed: int) -> tuple[Floats, Floats]:
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = _resampled(len(sums), seed)
        observed = sums.sum(axis=0) / counts.sum(axis=0)
        return observed, (weights @ sums) / (weights @ counts)


def _grouped(prompts: Ints, steps: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """Add up by group of prompts and step: (groups, steps)."""
    groups = min(shape[0], _GROUPS)
    size = groups * shape[1]
    total = np.bincount((prompts % groups) * shape[1] + steps, values, size)
    return total.astype(np.float64).reshape(groups, -1)


@lru_cache(maxsize=8)
def _resampled(count: int, seed: int) -> Floats:
    """Return how often each of ``count`` is drawn, float64 (RESAMPLES, count)."""
    drawn = np.random.default_rng([seed, count]).multinomial(count, [1 / count] * count, RESAMPLES)
    return drawn.astype(np.float64)
