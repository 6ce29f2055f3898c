"""Statistics of differences between runs: intervals of effects, bands of curves, p-values.

Responses to the same prompt are correlated, so prompts are the sampling unit everywhere. Intervals
of effects are Student's over prompts. They exclude 0 only if a permutation test rejects as well,
because that test keeps its level with few prompts, rare events and heavy tails. Bands of curves
are bootstrapped over prompts. More than 512 prompts are first assigned to 512 groups, which are
resampled as a whole; this bounds memory.

With several runs on both sides, Welch's interval over the runs' means is taken as well. With
several on one side, the other run is treated as one more draw from their distribution: its interval
is ± t(R - 1) · s · √(1 + 1/R), where s is the standard deviation of the R runs' means. The wider of
the intervals over runs and over prompts is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, hypot, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change, difference, exact_product, rounded, significant

LEVEL = 0.95
POWER = 0.8
LEAST_PROMPTS = 3  # Minimum number of prompts for an interval
# With fewer pairs (or unpaired, fewer prompts per side) no permutation test can reach p = 0.05
LEAST_PAIRS_FOR_VERDICT, LEAST_PROMPTS_FOR_VERDICT = 6, 4

PERMUTATIONS = 2000
# Up to this many nonzero values, all permutations are enumerated instead of sampled
MAX_ENUMERATED = 14
# Maximum number of values to permute; more are first summed up in this many groups
_MAX_VALUES = 1024
# In permutation tests, a side with more than this many times the other's prompts is cut
_MAX_RATIO = 16

RESAMPLES, _PATH_RESAMPLES = 2000, 400
_GROUPS = 512
_TINY = 1e-12
_TAIL = (1 - LEVEL) / 2

StandardError = tuple[float, float]  # A standard error and its degrees of freedom


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference NEW - BASE with its 95% interval."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    # minimum detectable effect with 80% power; NaN if there are too few prompts to detect any
    mde: float = np.nan
    p: float = 1.0  # two-sided p-value, the largest of the permutation test and the t-tests
    # number of prompts that both sides have; if unpaired, of prompts of the smaller side
    pairs: int = 0
    paired: bool = True  # whether only prompts that both sides have are compared, each with itself


def paired_effect(base: Floats, new: Floats) -> Effect:
    """Return the mean difference NEW - BASE over the prompts that all runs have.

    ``base`` and ``new`` are means, (runs, prompts) or (prompts,), NaN where a run lacks the prompt.
    Fewer than LEAST_PROMPTS give no interval. The permutation test flips signs of differences.
    """
    base, new = np.atleast_2d(base), np.atleast_2d(new)
    shared = np.isfinite(base).all(axis=0) & np.isfinite(new).all(axis=0)
    base, new = base[:, shared], new[:, shared]
    moved = difference(new.mean(axis=0), base.mean(axis=0))
    pairs = len(moved)
    if pairs < LEAST_PROMPTS:
        return Effect(rounded(moved.mean()) if pairs else np.nan, pairs=pairs)
    effect = Effect(rounded(moved.mean()), p=sign_flip_p(moved), pairs=pairs)
    between_runs = _error_between_runs(base.mean(axis=1), new.mean(axis=1))
    errors = [_error_of_mean(moved), *between_runs]
    return _with_interval(effect, errors)


def unpaired_effect(base: Sequence[pd.Series], new: Sequence[pd.Series]) -> Effect:
    """Return the difference of the sides' means, for sides with different prompts.

    ``base`` and ``new`` have the means by prompt of each run, indexed by prompt; with fewer than
    LEAST_PROMPTS on a side, all is NaN. The variance between runs is added to that between prompts,
    which runs with the same prompts do not show. The permutation test exchanges prompts.
    """
    sides = [[run.dropna() for run in runs] for runs in (base, new)]
    old, current = (pd.concat(runs).groupby(level=0).mean().to_numpy(np.float64) for runs in sides)
    pairs = min(len(old), len(current))
    if pairs < LEAST_PROMPTS:
        return Effect(pairs=pairs, paired=False)
    between_runs = _error_between_runs(*(np.array([run.mean() for run in runs]) for runs in sides))
    # If runs agree by chance, the interval must not become narrower than the one over runs.
    errors = [_welch([_error_of_mean(old), _error_of_mean(current), *between_runs]), *between_runs]
    value = change(float(old.mean()), float(current.mean()))
    p = relabel_p(old, current)
    return _with_interval(Effect(value, p=p, pairs=pairs, paired=False), errors)


def _error_between_runs(base: Floats, new: Floats) -> list[StandardError]:
    """Return [standard error of the sides' difference over runs], [] for one run on each side.

    ``base`` and ``new`` are the means of a side's runs, (runs,).
    """
    several = [runs for runs in (base, new) if len(runs) > 1]
    parts = [(float(runs.std(ddof=1)) / sqrt(len(runs)), len(runs) - 1) for runs in several]
    if len(several) == 1:  # the other run is one more draw
        ((error, freedom),) = parts
        return [(error * sqrt(len(several[0]) + 1), freedom)]
    return [_welch(parts)] if parts else []


def _error_of_mean(values: Floats) -> StandardError:
    return float(values.std(ddof=1)) / sqrt(len(values)), len(values) - 1


def _welch(parts: Sequence[StandardError]) -> StandardError:
    """Return the standard error of a sum, with Welch-Satterthwaite degrees of freedom."""
    total = hypot(*(error for error, _ in parts))
    shares = sum((error / total) ** 4 / freedom for error, freedom in parts) if total else 1.0
    return total, 1 / shares


def _with_interval(effect: Effect, errors: Sequence[StandardError]) -> Effect:
    from scipy.special import stdtr, stdtrit

    value = 0.0 if abs(effect.value) <= _TINY else effect.value
    error, freedom = np.array(errors).T
    half, power = (float((error * stdtrit(freedom, q)).max()) for q in (1 - _TAIL, POWER))
    min_pairs = LEAST_PAIRS_FOR_VERDICT if effect.paired else LEAST_PROMPTS_FOR_VERDICT
    no_variance_p = 0.0 if value else 1.0
    p_values = 2 * stdtr(freedom, -abs(value) / np.maximum(error, _TINY))
    p = max(effect.p, float(np.where(error > _TINY, p_values, no_variance_p).max()))
    low = value - half
    high = value + half
    if p > 1 - LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    mde = half + power if effect.pairs >= min_pairs else np.nan
    value, low, high, mde, p = significant([value, low, high, mde, p]).tolist()
    return Effect(value, low, high, mde, p, effect.pairs, effect.paired)


def sign_flip_p(moved: Floats) -> float:
    """Return the two-sided p-value of the sign-flip test of paired differences (Fisher 1935).

    With one binary response per prompt this is McNemar's exact test. For few nonzero values all
    signs are enumerated; for more, random signs are sampled and the observed ones are included in
    the sample, so that the test keeps its level (Phipson & Smyth 2010).
    """
    differences = moved[moved != 0]
    if len(differences) <= MAX_ENUMERATED:
        signs = 1 - 2 * _subsets(len(differences))
    else:
        differences = np.bincount(np.arange(len(differences)) % _MAX_VALUES, differences)
        signs = _signs(len(differences))
    return _two_sided(exact_product(signs, differences), differences.sum())


def relabel_p(base: Floats, new: Floats) -> float:
    """Return the two-sided p-value for a random assignment of the prompts to the two sides.

    With one binary response per prompt this is Fisher's exact test. Assignments are enumerated or
    sampled as in ``sign_flip_p``.
    """
    base, new = (side[: _MAX_RATIO * min(len(base), len(new))] for side in (base, new))
    cell_size = -(-(len(base) + len(new)) // _MAX_VALUES)
    base, new = (
        side[: len(side) // cell_size * cell_size].reshape(-1, cell_size).sum(axis=1)
        for side in (base, new)
    )
    size = len(new)
    pooled = np.concatenate([new, base])
    # Subtracting the mode does not change the test, and leaves fewer nonzero values.
    values, counts = np.unique(pooled, return_counts=True)
    pooled = pooled - values[counts.argmax()]
    observed = pooled[:size].sum()
    nonzero_values = pooled[pooled != 0]
    if len(nonzero_values) > MAX_ENUMERATED:
        return _two_sided(exact_product(_labels(len(pooled), size), pooled), observed)
    subsets = _subsets(len(nonzero_values))
    zero_count = len(pooled) - len(nonzero_values)
    ways = [comb(zero_count, size - k) if k <= size else 0 for k in range(len(nonzero_values) + 1)]
    shares = np.array([way / comb(len(pooled), size) for way in ways])
    sums = exact_product(subsets, nonzero_values)
    chosen = subsets.sum(axis=1).astype(np.int64)
    return _two_sided(sums, observed, shares[chosen])


def _subsets(count: int) -> Floats:
    return ((np.arange(2**count)[:, None] >> np.arange(count)) % 2).astype(np.float64)


@lru_cache(maxsize=2)
def _signs(count: int) -> Floats:
    """Return random signs, (PERMUTATIONS + 1, count); the first row is all +1, as observed."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (PERMUTATIONS + 1, count))
    signs[0] = 1
    return signs


@lru_cache(maxsize=2)
def _labels(count: int, size: int) -> Floats:
    labels = np.tile((np.arange(count) < size).astype(np.float64), (PERMUTATIONS + 1, 1))
    labels[1:] = np.random.default_rng(0).permuted(labels[1:], axis=1)
    return labels


def _two_sided(sums: Floats, observed: float, weights: Floats | None = None) -> float:
    """Return twice the smaller tail probability of the observed sum among the permuted sums."""
    rounding = 1e-9 * np.abs(sums).max()
    tails = sums >= observed - rounding, sums <= observed + rounding
    return min(1.0, 2 * min(float(np.average(tail, weights=weights)) for tail in tails))


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple testing (Holm 1979), in the same order."""
    values = pd.Series(p, dtype=np.float64).sort_values(kind="stable")
    corrected = (values * np.arange(len(p), 0, -1)).clip(upper=1.0).cummax()
    return corrected.sort_index().tolist()


def shrunk(moved: Floats, error: Floats) -> Floats:
    """Shrink the prompts' differences ``moved``, (prompts,), towards their mean, noisy ones more.

    ``error`` is the standard error of each. This is the normal-normal empirical Bayes estimate
    (Efron & Morris 1975), which prevents prompts with few responses from coming first by chance.
    """
    if len(moved) < 2:
        return moved
    mean = moved.mean()
    noise = np.square(error)
    signal = max(0.0, moved.var() - noise.mean())
    reliability = np.where(signal + noise > _TINY, signal / np.maximum(signal + noise, _TINY), 1.0)
    return significant(mean + reliability * (moved - mean))


class Band(NamedTuple):
    """A difference per step and its simultaneous band, (steps,) each; NaN at steps without data.

    ``low`` and ``high`` are also NaN at steps with fewer than LEAST_PROMPTS prompts on a side.
    """

    difference: Floats
    low: Floats
    high: Floats


def difference_band(
    base: pd.DataFrame,
    new: pd.DataFrame,
    steps: Ints,
    *,
    paired: bool,
    seed: int = 0,
) -> Band:
    """Return the reward of NEW - BASE at each of ``steps`` with a simultaneous 95% band.

    ``base`` and ``new`` have one row per response: ``pair``, ``step`` and ``reward``. ``steps`` is
    ascending. If ``paired``, only prompts that both sides have at a step are compared, otherwise
    the means of the step. The band is the difference ± q · its standard error over resampled
    prompts, where q is the 95% quantile of the largest |t| of all steps (Montiel Olea &
    Plagborg-Møller 2019). So the whole curve is within the band in 95% of cases.
    """
    prompts = np.union1d(base["pair"].to_numpy(), new["pair"].to_numpy())
    if paired:
        means = [_finite(side).groupby(["pair", "step"])["reward"].mean() for side in (base, new)]
        both = means[0].to_frame("base").join(means[1].rename("new"), how="inner")
        moved = both.assign(reward=difference(both["new"], both["base"]))
        sides = [moved[["reward"]].reset_index()]
        observed, resampled = _resampled_curve(sides[0], prompts, steps, seed)
    else:
        sides = [_finite(base), _finite(new)]
        old, old_resampled = _resampled_curve(base, prompts, steps, seed)
        current, current_resampled = _resampled_curve(new, prompts, steps, seed + 1)
        observed = current - old
        resampled = current_resampled - old_resampled
    # NaN at steps missing on one side, and in resamples without any prompt of the step.
    deviations = pd.DataFrame(resampled - observed)
    counts = [side.groupby("step")["pair"].nunique().reindex(steps).to_numpy() for side in sides]
    # Resampling so few prompts would give a band that is much too narrow, for one of width 0.
    error = ((deviations**2).mean() ** 0.5).where(np.min(counts, axis=0) >= LEAST_PROMPTS)
    largest = (deviations.abs() / error.where(error > _TINY)).max(axis=1)
    factor = float(largest.quantile(LEVEL)) if largest.notna().any() else 0.0
    width = (error * factor).to_numpy(np.float64)
    observed = np.where(np.abs(observed) <= _TINY, 0.0, observed)
    return Band(*map(significant, (observed, observed - width, observed + width)))


class EqualKL(NamedTuple):
    """Reward NEW - BASE at equal KL, its 95% interval, and the fraction of √KL that runs share."""

    effect: float
    low: float
    high: float
    overlap: float


def at_equal_kl(base: pd.DataFrame, new: pd.DataFrame, reward: str) -> EqualKL | None:
    """Compare rewards at equal KL to the reference policy; None if the ranges of KL do not overlap.

    ``base`` and ``new`` have one row per response: ``pair``, ``step``, ``kl_k1`` and the column
    ``reward``. The mean reward of a step is a function of √max(KL, 0), in which it is initially
    about linear (Gao et al. 2022). Both runs' functions are interpolated linearly, and their
    difference is averaged over their common range. The interval comes from resampled prompts.
    """
    paths = [_reward_by_distance(side, reward, seed) for seed, side in enumerate((base, new))]
    ends = [(path[0].index.min(), path[0].index.max()) for path in paths]
    low = max(first for first, _ in ends)
    high = min(last for _, last in ends)
    if not high - low > _TINY:
        return None
    grid = np.linspace(low, high, 21)
    gaps = np.array([(_along(after, grid) - _along(before, grid)).mean()
                     for before, after in zip(*paths, strict=True)])  # fmt: skip
    if not np.isfinite(gaps[1:]).any():
        return None
    lower, upper = np.nanquantile(gaps[1:], [_TAIL, 1 - _TAIL]).tolist()
    span = max(last for _, last in ends) - min(first for first, _ in ends)
    return EqualKL(*significant([gaps[0], lower, upper, (high - low) / span]).tolist())


def _reward_by_distance(side: pd.DataFrame, reward: str, seed: int) -> list[pd.Series]:
    """Return mean rewards of steps, indexed by √KL: the observed ones, then each resample."""
    prompts = np.unique(side["pair"].to_numpy())
    steps = np.unique(side["step"].to_numpy(np.int64))
    rewards, kls = (
        np.vstack([observed, resampled[:_PATH_RESAMPLES]])
        for observed, resampled in (
            _resampled_curve(side, prompts, steps, seed, column) for column in (reward, "kl_k1")
        )
    )
    return [
        pd.Series(values, np.sqrt(np.maximum(kl, 0.0))).dropna().groupby(level=0).mean()
        for values, kl in zip(rewards, kls, strict=True)
    ]


def _along(path: pd.Series, grid: Floats) -> Floats:
    if path.empty:
        return np.full(len(grid), np.nan)
    return np.asarray(np.interp(grid, path.index.to_numpy(), path.to_numpy()))


def _resampled_curve(
    side: pd.DataFrame, prompts: np.ndarray, steps: Ints, seed: int, column: str = "reward"
) -> tuple[Floats, Floats]:
    side = _finite(side[side["step"].isin(steps)], column)
    group = np.searchsorted(prompts, side["pair"].to_numpy()) % _GROUPS
    index = group, np.searchsorted(steps, side["step"].to_numpy())
    sums, counts = np.zeros((2, min(len(prompts), _GROUPS), len(steps)))
    np.add.at(sums, index, side[column].to_numpy())
    np.add.at(counts, index, 1)
    weights = _bootstrap_weights(len(sums), seed)
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = exact_product(weights, sums) / (weights @ counts)
        return sums.sum(axis=0) / counts.sum(axis=0), resampled


def _finite(side: pd.DataFrame, column: str = "reward") -> pd.DataFrame:
    finite: pd.DataFrame = side[np.isfinite(side[column].to_numpy(np.float64))]
    return finite


@lru_cache(maxsize=8)
def _bootstrap_weights(count: int, seed: int) -> Floats:
    draws = np.random.default_rng([seed, count]).multinomial(count, [1 / count] * count, RESAMPLES)
    return draws.astype(np.float64)
