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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, hypot, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import (
    change,
    difference,
    exact_product,
    rounded,
    significant,
)
from rlreport.figures.significance import holm

LEVEL = 0.95
POWER = 0.8
# Where no effect on the reward is shown, its parts are shown at this level only: each table of them
# would give false alarms of its own otherwise
LEVEL_OF_PARTS = 0.99
LEAST_PROMPTS = 3  # Minimum number of prompts for an interval
# With fewer pairs no permutation test can reach p = 0.05: 2 of 2**6 signs have p = 0.03
LEAST_PAIRS_FOR_VERDICT = 6
# and unpaired, with fewer prompts per side: 2 of 70 assignments of 4 and 4 have p = 0.03
LEAST_PROMPTS_FOR_VERDICT = 4

PERMUTATIONS = 2000
# Up to this many nonzero values, all permutations are enumerated instead of sampled
MAX_ENUMERATED = 14
# Maximum number of values to permute; more are first summed up in this many groups
_MAX_VALUES = 1024
# In permutation tests, a side with more than this many times the other's prompts is cut: otherwise
# one group of its prompts (see _MAX_VALUES) could be as large as the whole other side
_MAX_RATIO = 16

RESAMPLES = 2000
_PATH_RESAMPLES = 400  # of rewards at equal KL, whose interpolation is slow
_GRID_POINTS = 21  # Number of values of √KL at which rewards are compared
_GROUPS = 512  # more prompts are resampled in this many groups
_BLOCK = 1_024  # steps that are resampled at a time
_TINY = 1e-12  # smaller differences and errors are rounding
_TAIL = (1 - LEVEL) / 2


class StandardError(NamedTuple):
    """A standard error and its degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference NEW - BASE with its 95% interval."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    # minimum detectable effect with 80% power; NaN if there are too few prompts to detect any
    mde: float = np.nan
    # two-sided p-value, the largest of the permutation test and the t-tests
    p: float = 1.0
    # number of prompts that both sides have; if unpaired, of prompts of the smaller side
    pairs: int = 0
    # whether only prompts that both sides have are compared, each with itself
    paired: bool = True

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def paired_effect(base: Floats, new: Floats) -> Effect:
    """Return the mean difference NEW - BASE over the prompts that all runs have.

    ``base`` and ``new`` are means, (runs, prompts) or (prompts,), NaN where a run lacks the prompt.
    Fewer than LEAST_PROMPTS give no interval. The permutation test flips signs of differences.
    """
    base = np.atleast_2d(base)
    new = np.atleast_2d(new)
    # Which prompts all runs have, (prompts,)
    shared = np.isfinite(np.vstack([base, new])).all(axis=0)
    base = base[:, shared]
    new = new[:, shared]
    differences = difference(new.mean(axis=0), base.mean(axis=0))  # (prompts,)
    pairs = len(differences)
    if pairs == 0:
        return Effect()
    mean = rounded(differences.mean())
    if pairs < LEAST_PROMPTS:
        return Effect(mean, pairs=pairs)
    effect = Effect(mean, p=sign_flip_p(differences), pairs=pairs)
    # The interval has to cover the variation between prompts and that between runs.
    errors = [_error_of_mean(differences)]
    between_runs = _error_between_runs(base.mean(axis=1), new.mean(axis=1))
    if between_runs is not None:
        errors.append(between_runs)
    return _with_interval(effect, errors)


def unpaired_effect(base: Sequence[pd.Series], new: Sequence[pd.Series]) -> Effect:
    """Return the difference of the sides' means, for sides with different prompts.

    ``base`` and ``new`` have the means by prompt of each run, indexed by prompt. With fewer than
    LEAST_PROMPTS on a side, all is NaN. Runs with the same prompts do not show how much prompts
    vary, so the variance between prompts and that between runs are added. The permutation test
    exchanges prompts between the sides.
    """
    base = [run.dropna() for run in base]
    new = [run.dropna() for run in new]
    base_prompts = _means_by_prompt(base)
    new_prompts = _means_by_prompt(new)
    count = min(len(base_prompts), len(new_prompts))
    if count < LEAST_PROMPTS:
        return Effect(pairs=count, paired=False)
    effect = Effect(
        change(float(base_prompts.mean()), float(new_prompts.mean())),
        p=relabel_p(base_prompts, new_prompts),
        pairs=count,
        paired=False,
    )
    parts = [_error_of_mean(base_prompts), _error_of_mean(new_prompts)]
    base_means = np.array([run.mean() for run in base])
    new_means = np.array([run.mean() for run in new])
    between_runs = _error_between_runs(base_means, new_means)
    if between_runs is None:
        return _with_interval(effect, [_welch(parts)])
    # If runs agree by chance, the interval must not become narrower than the one over runs.
    return _with_interval(effect, [_welch([*parts, between_runs]), between_runs])


def _means_by_prompt(runs: Sequence[pd.Series]) -> Floats:
    """Return the mean over runs of each prompt that any of them has."""
    means = pd.concat(runs).groupby(level=0).mean()
    return np.asarray(means, dtype=np.float64)


def _error_between_runs(base: Floats, new: Floats) -> StandardError | None:
    """Return the standard error of the sides' difference over runs, None for one run on each side.

    ``base`` and ``new`` are the means of a side's runs, (runs,).
    """
    if len(base) > 1 and len(new) > 1:
        return _welch([_error_of_mean(base), _error_of_mean(new)])
    if len(base) == len(new) == 1:
        return None
    # The other side's run is one more draw: s · √(1 + 1/R), which is s · √(1/R) times √(R + 1).
    runs = base if len(base) > 1 else new
    of_mean = _error_of_mean(runs)
    return StandardError(of_mean.error * sqrt(len(runs) + 1), of_mean.freedom)


def _error_of_mean(values: Floats) -> StandardError:
    error = float(values.std(ddof=1)) / sqrt(len(values))
    return StandardError(error, len(values) - 1)


def _welch(parts: Sequence[StandardError]) -> StandardError:
    """Return the standard error of a sum, with Welch-Satterthwaite degrees of freedom."""
    total = hypot(*(part.error for part in parts))
    if total == 0:
        return StandardError(total, 1.0)
    shares = sum((part.error / total) ** 4 / part.freedom for part in parts)
    return StandardError(total, 1 / shares)


def _with_interval(effect: Effect, errors: Sequence[StandardError]) -> Effect:
    """Return the effect with its interval and p, of the most cautious of all tests.

    ``effect`` has the value, and the p of its permutation test. Each standard error gives a t-test
    and its interval: the widest interval and the largest p count.
    """
    from scipy.special import stdtrit

    value = 0.0 if abs(effect.value) <= _TINY else effect.value
    error = np.array([one.error for one in errors])
    freedom = np.array([one.freedom for one in errors])
    # ``stdtrit(freedom, q)`` is the quantile q of Student's t.
    half_width = float((error * stdtrit(freedom, 1 - _TAIL)).max())
    # An effect is detected with probability POWER if it exceeds the half-width by this much.
    power_margin = float((error * stdtrit(freedom, POWER)).max())
    p = max(effect.p, _largest_t_test_p(value, error, freedom))
    low = value - half_width
    high = value + half_width
    # A test that does not reject moves the limit next to 0 to it, so that the two agree.
    if p > 1 - LEVEL:
        low = min(low, 0.0)
        high = max(high, 0.0)
    min_pairs = LEAST_PAIRS_FOR_VERDICT if effect.paired else LEAST_PROMPTS_FOR_VERDICT
    mde = half_width + power_margin if effect.pairs >= min_pairs else np.nan
    figures = significant([value, low, high, mde, p])
    value, low, high, mde, p = figures.tolist()
    return Effect(value, low, high, mde, p, effect.pairs, effect.paired)


def _largest_t_test_p(value: float, error: Floats, freedom: Floats) -> float:
    """Return the largest two-sided p of the t-tests of ``value``, one for each standard error."""
    from scipy.special import stdtr

    p_values = 2 * stdtr(freedom, -abs(value) / np.maximum(error, _TINY))
    # Without variance, any difference is certain.
    p_values = np.where(error > _TINY, p_values, 0.0 if value else 1.0)
    return float(p_values.max())


def p_of_parts(parts: Sequence[Effect], whole: Effect) -> list[float]:
    """Return the p-values of effects that explain another one, corrected for their number.

    They are Holm's and, like all others, to be compared with 1 - LEVEL. If the whole effect is not
    shown they are multiplied by (1 - LEVEL) / (1 - LEVEL_OF_PARTS), so that runs that do not differ
    are told apart by parts alone in 1% of cases, not in 5% for each table (Wiens 2003).
    """
    factor = 1.0 if whole.is_shown else (1 - LEVEL) / (1 - LEVEL_OF_PARTS)
    p_values = holm([part.p for part in parts])
    return [min(1.0, significant(factor * p).item()) for p in p_values]


def sign_flip_p(differences: Floats) -> float:
    """Return the two-sided p-value of the sign-flip test of paired differences (Fisher 1935).

    With one binary response per prompt this is McNemar's exact test. For few nonzero values all
    signs are enumerated; for more, random signs are sampled and the observed ones are included in
    the sample, so that the test keeps its level (Phipson & Smyth 2010).
    """
    # A difference of 0 adds the same with either sign.
    values = differences[differences != 0]
    if len(values) <= MAX_ENUMERATED:
        signs = 1 - 2 * _subsets(len(values))  # -1 in the subset, else +1
    else:
        # Values of one group get the same sign, so that their sum is enough.
        groups = np.arange(len(values)) % _MAX_VALUES
        values = np.bincount(groups, values)
        signs = _signs(len(values))
    return _two_sided(exact_product(signs, values), values.sum())


def relabel_p(base: Floats, new: Floats) -> float:
    """Return the two-sided p-value for a random assignment of the prompts to the two sides.

    With one binary response per prompt this is Fisher's exact test. Assignments are enumerated or
    sampled as in ``sign_flip_p``. Which side is BASE makes no difference to p.
    """
    max_size = _MAX_RATIO * min(len(base), len(new))
    base = base[:max_size]
    new = new[:max_size]
    # Sums of groups of prompts are permuted; with few prompts, a group is one prompt.
    group_size = ceil((len(base) + len(new)) / _MAX_VALUES)
    groups = [_group_sums(side, group_size) for side in (base, new)]
    # Labels are drawn for the smaller side, so that swapped sides have the same ones.
    groups.sort(key=lambda side: (len(side), side.tolist()))
    size = len(groups[0])
    pooled = np.concatenate(groups)
    # Subtracting the mode does not change the test, and leaves fewer nonzero values.
    values, counts = np.unique(pooled, return_counts=True)
    pooled = pooled - values[counts.argmax()]
    observed = pooled[:size].sum()
    nonzero_values = pooled[pooled != 0]
    if len(nonzero_values) > MAX_ENUMERATED:
        # The first ``size`` of ``pooled`` are those of one side, as in the first row of labels.
        labels = _labels(len(pooled), size)
        return _two_sided(exact_product(labels, pooled), observed)
    # Each subset of the nonzero values that this side may get gives one sum of it.
    subsets = _subsets(len(nonzero_values))
    sums = exact_product(subsets, nonzero_values)
    # Probability that it gets exactly k given nonzero values: zeros fill the rest of it.
    zero_count = len(pooled) - len(nonzero_values)
    assignments = comb(len(pooled), size)
    probabilities = np.zeros(len(nonzero_values) + 1)
    for k in range(min(size, len(nonzero_values)) + 1):
        probabilities[k] = comb(zero_count, size - k) / assignments
    subset_sizes = subsets.sum(axis=1).astype(np.int64)
    return _two_sided(sums, observed, probabilities[subset_sizes])


def _group_sums(values: Floats, group_size: int) -> Floats:
    """Return the sums of adjacent values; a last group that is not full is left out."""
    whole = len(values) // group_size * group_size
    groups = values[:whole].reshape(-1, group_size)
    return np.asarray(groups.sum(axis=1))


def _subsets(count: int) -> Floats:
    """Return all subsets of ``count`` values, (2**count, count): 1 in the subset, else 0."""
    # Row i has the binary digits of i.
    bits = np.arange(2**count)[:, None] >> np.arange(count)
    return (bits % 2).astype(np.float64)


@lru_cache(maxsize=2)
def _signs(count: int) -> Floats:
    """Return random signs, (PERMUTATIONS + 1, count); the first row is all +1, as observed."""
    random = np.random.default_rng(0)
    signs = random.choice([-1.0, 1.0], (PERMUTATIONS + 1, count))
    signs[0] = 1
    return signs


@lru_cache(maxsize=2)
def _labels(count: int, size: int) -> Floats:
    """Return random choices of ``size`` of ``count`` values: 1 for chosen ones, else 0.

    The shape is (PERMUTATIONS + 1, count).
    The first row is the observed one: the first ``size`` values.
    """
    observed = (np.arange(count) < size).astype(np.float64)
    labels = np.tile(observed, (PERMUTATIONS + 1, 1))
    random = np.random.default_rng(0)
    labels[1:] = random.permuted(labels[1:], axis=1)
    return labels


def _two_sided(sums: Floats, observed: float, weights: Floats | None = None) -> float:
    """Return twice the smaller tail probability of the observed sum among the permuted sums.

    ``weights`` are the probabilities of ``sums``; None if all are equally likely.
    """
    # Sums that are equal but for rounding count as equal to the observed one.
    rounding = 1e-9 * np.abs(sums).max()
    upper = float(np.average(sums >= observed - rounding, weights=weights))
    lower = float(np.average(sums <= observed + rounding, weights=weights))
    return min(1.0, 2 * min(upper, lower))


def shrunk(differences: Floats, errors: Floats) -> Floats:
    """Shrink the differences of prompts, (prompts,), towards their mean, noisy ones more.

    ``errors`` are their standard errors, (prompts,). This is the normal-normal empirical Bayes
    estimate (Efron & Morris 1975), which prevents prompts with few responses from coming first by
    chance.
    """
    if len(differences) < 2:
        return differences
    mean = differences.mean()
    noise = np.square(errors)
    # Variance of the true differences: what noise does not account for
    signal = max(0.0, differences.var() - noise.mean())
    total = signal + noise
    # Without noise and without differences there is nothing to shrink.
    reliability = np.where(total > _TINY, signal / np.maximum(total, _TINY), 1.0)
    return significant(mean + reliability * (differences - mean))


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
    """Return the difference of rewards NEW - BASE at each of ``steps``, with a 95% band.

    ``base`` and ``new`` have one row per response: ``pair``, ``step`` and ``reward``. ``steps`` is
    ascending. If ``paired``, only prompts that both sides have at a step are compared, otherwise
    the means of the step. The band is the difference ± q · its standard error over resampled
    prompts, where q is the 95% quantile of the largest |t| of all steps (Montiel Olea &
    Plagborg-Møller 2019). So the whole curve is within the band in 95% of cases.
    """
    pairs = np.union1d(base["pair"].to_numpy(), new["pair"].to_numpy())
    if paired:
        differences = _differences_by_prompt(base, new)
        prompt_counts = _prompts_by_step(differences, steps)

        def mean(steps: Ints, resamples: int) -> _ResampledCurve:
            return _resampled_curve(
                differences, pairs, steps, seed=seed, resamples=resamples
            )

    else:
        # The band needs enough prompts on both sides; NaN (none) is the minimum of any two.
        prompt_counts = np.minimum(
            _prompts_by_step(base, steps), _prompts_by_step(new, steps)
        )

        def mean(steps: Ints, resamples: int) -> _ResampledCurve:
            base_curve = _resampled_curve(
                base, pairs, steps, seed=seed, resamples=resamples
            )
            # Another seed, as the prompts of the two sides are drawn independently
            new_curve = _resampled_curve(
                new, pairs, steps, seed=seed + 1, resamples=resamples
            )
            return _ResampledCurve(
                observed=new_curve.observed - base_curve.observed,
                resampled=new_curve.resampled - base_curve.resampled,
            )

    curve = mean(steps, 0).observed
    # Resampling so few prompts would give a band that is much too narrow; for one, of width 0.
    has_band = prompt_counts >= LEAST_PROMPTS
    width = np.full(len(steps), np.nan)
    width[has_band] = _band_width(mean, steps[has_band])
    observed = np.where(np.abs(curve) <= _TINY, 0.0, curve)
    return Band(
        significant(observed),
        significant(observed - width),
        significant(observed + width),
    )


def _differences_by_prompt(base: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each prompt that both sides have at a step: ``pair``, ``step``, ``reward``.

    ``reward`` is the difference of the means, NEW - BASE.
    """
    by = ["pair", "step"]
    base_means = _finite(base).groupby(by)["reward"].mean().to_frame("base")
    new_means = _finite(new).groupby(by)["reward"].mean().rename("new")
    both = base_means.join(new_means, how="inner")
    both = both.assign(reward=difference(both["new"], both["base"]))
    return both[["reward"]].reset_index()


def _prompts_by_step(side: pd.DataFrame, steps: Ints) -> Floats:
    """Return the number of prompts with a reward at each of ``steps``, NaN for none."""
    counts = _finite(side).groupby("step")["pair"].nunique()
    return np.asarray(counts.reindex(steps), dtype=np.float64)


def _band_width(mean: Callable[[Ints, int], _ResampledCurve], steps: Ints) -> Floats:
    """Return the distance of the simultaneous 95% band from the curve, (steps,).

    One factor is multiplied with the standard error of each step. It is the quantile of the
    largest |t| of a resample, so that 95% of resampled curves are in the band at every step.

    ``mean`` returns the curve at some of the steps with a number of resamples.
    """
    errors: list[Floats] = []
    largest_t = np.full(RESAMPLES, np.nan)
    for block in _blocks(steps):
        curve = mean(block, RESAMPLES)
        # (resamples, steps); NaN in resamples without any prompt of the step, which the means and
        # maxima below skip.
        deviations = pd.DataFrame(curve.resampled - curve.observed)
        standard_error = (deviations**2).mean() ** 0.5
        t = deviations.abs() / standard_error.where(standard_error > _TINY)
        largest_t = np.fmax(largest_t, t.max(axis=1).to_numpy(np.float64))
        errors.append(standard_error.to_numpy(np.float64))
    largest = pd.Series(largest_t)
    factor = float(largest.quantile(LEVEL)) if largest.notna().any() else 0.0
    return np.concatenate(errors) * factor


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
    # Different seeds, as the prompts of the two sides are drawn independently
    base_paths = _reward_by_distance(base, reward, seed=0)
    new_paths = _reward_by_distance(new, reward, seed=1)
    # The first path is the observed one, the others are resampled.
    base_path = next(base_paths)
    new_path = next(new_paths)
    base_distances = base_path.index
    new_distances = new_path.index
    low = max(base_distances.min(), new_distances.min())
    high = min(base_distances.max(), new_distances.max())
    if not high - low > _TINY:  # NaN if a side has no step
        return None
    grid = np.linspace(low, high, _GRID_POINTS)
    observed = _mean_gap(base_path, new_path, grid)
    resampled = np.array(
        [
            _mean_gap(base_path, new_path, grid)
            for base_path, new_path in zip(base_paths, new_paths, strict=True)
        ]
    )
    if not np.isfinite(resampled).any():
        return None
    lower, upper = np.nanquantile(resampled, [_TAIL, 1 - _TAIL]).tolist()
    # The common range as a fraction of the range that either run reached
    farthest = max(base_distances.max(), new_distances.max())
    nearest = min(base_distances.min(), new_distances.min())
    overlap = (high - low) / (farthest - nearest)
    return EqualKL(*significant([observed, lower, upper, overlap]).tolist())


def _reward_by_distance(
    side: pd.DataFrame, reward: str, seed: int
) -> Iterator[pd.Series]:
    """Yield mean rewards of steps, indexed by √KL: the observed ones, then each resample.

    ``reward`` is the name of the column.
    """
    pairs = np.unique(side["pair"].to_numpy())
    steps = np.unique(side["step"].to_numpy(np.int64))
    # The same seed: each resample draws the same prompts for both figures.
    count = _PATH_RESAMPLES
    rewards = _resampled_curve(
        side, pairs, steps, seed=seed, resamples=count, column=reward
    )
    kls = _resampled_curve(
        side, pairs, steps, seed=seed, resamples=count, column="kl_k1"
    )
    yield _rewards_over_root_kl(rewards.observed, kls.observed)
    for i in range(count):
        yield _rewards_over_root_kl(rewards.resampled[i], kls.resampled[i])


def _rewards_over_root_kl(rewards: Floats, kls: Floats) -> pd.Series:
    """Return rewards indexed by √KL, ascending; those at equal distances are averaged."""
    path = pd.Series(rewards, np.sqrt(np.maximum(kls, 0.0)))
    return path.dropna().groupby(level=0).mean()


def _mean_gap(base: pd.Series, new: pd.Series, grid: Floats) -> float:
    """Return the mean difference of the rewards of two paths at the distances ``grid``."""
    gap = _rewards_at(new, grid) - _rewards_at(base, grid)
    return float(gap.mean())


def _rewards_at(path: pd.Series, grid: Floats) -> Floats:
    """Return the rewards of a path, interpolated at the distances ``grid``; NaN if it is empty."""
    if path.empty:
        return np.full(len(grid), np.nan)
    distances = path.index.to_numpy()
    return np.asarray(np.interp(grid, distances, path.to_numpy()))


class _ResampledCurve(NamedTuple):
    """The mean of a figure at each step; NaN at steps without data."""

    observed: Floats  # (steps,)
    resampled: Floats  # (resamples, steps), each from as many prompts drawn at random


def _resampled_curve(
    side: pd.DataFrame,
    pairs: np.ndarray,
    steps: Ints,
    *,
    seed: int,
    resamples: int,
    column: str = "reward",
) -> _ResampledCurve:
    """Return the mean of a column of ``side`` at each of ``steps``, observed and resampled.

    ``pairs`` are the prompts to draw from, ascending and distinct like ``steps``. They are drawn
    with replacement, in at most _GROUPS groups that stay together. There are up to RESAMPLES
    resamples.
    """
    side = _finite(side[side["step"].isin(steps)], column)
    parts = [
        _resampled_block(
            side, pairs, block, seed=seed, resamples=resamples, column=column
        )
        for block in _blocks(steps)
    ]
    return _ResampledCurve(
        np.concatenate([part.observed for part in parts]),
        np.concatenate([part.resampled for part in parts], axis=1),
    )


def _blocks(steps: Ints) -> list[Ints]:
    """Cut steps into parts of up to _BLOCK, so that memory does not grow with their number."""
    return np.array_split(steps, max(1, ceil(len(steps) / _BLOCK)))


def _resampled_block(
    side: pd.DataFrame,
    pairs: np.ndarray,
    steps: Ints,
    *,
    seed: int,
    resamples: int,
    column: str,
) -> _ResampledCurve:
    """Return what ``_resampled_curve`` does, of few steps."""
    side = side[side["step"].isin(steps)]
    group = np.searchsorted(pairs, side["pair"].to_numpy()) % _GROUPS
    step_index = np.searchsorted(steps, side["step"].to_numpy())
    shape = (min(len(pairs), _GROUPS), len(steps))
    sums = np.zeros(shape)
    counts = np.zeros(shape)
    # ``add.at`` adds up the values of equal indices, which ``sums[…] += …`` would not.
    np.add.at(sums, (group, step_index), side[column].to_numpy())
    np.add.at(counts, (group, step_index), 1)
    weights = _bootstrap_weights(len(sums), seed)[:resamples]
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 at a step without data
        observed = sums.sum(axis=0) / counts.sum(axis=0)
        # Whole counts add up exactly in any order; sums of a figure do not, so that a plain
        # product would depend on the machine.
        resampled = exact_product(weights, sums) / (weights @ counts)
    return _ResampledCurve(observed, resampled)


def _finite(side: pd.DataFrame, column: str = "reward") -> pd.DataFrame:
    finite: pd.DataFrame = side[np.isfinite(side[column].to_numpy(np.float64))]
    return finite


@lru_cache(maxsize=8)
def _bootstrap_weights(count: int, seed: int) -> Floats:
    """Return how often each of ``count`` groups is drawn, (RESAMPLES, count)."""
    random = np.random.default_rng([seed, count])
    draws = random.multinomial(count, [1 / count] * count, RESAMPLES)
    return draws.astype(np.float64)
