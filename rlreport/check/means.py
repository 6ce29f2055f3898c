"""Means of responses in windows of steps, their changes, and the part due to environments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.check.windows import (
    Change,
    Trend,
    Window,
    centred,
    means_by,
    part_of,
    z_of,
)
from rlreport.figures import rounding
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import beyond_rounding, difference, rounded, significant


class MixChanged(Limits):
    """Thresholds of ``mix_changed``."""

    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of the fall",
        "part of a fall of the reward that the mix explains",
    )
    rest = Limit(
        0.1,
        LimitKind.SHARE,
        "of the fall",
        "largest fall at a constant mix, unless it may be chance",
    )


class MixChange(NamedTuple):
    """The change Δ of the mean reward between two windows, split by environment.

    With s the share of an environment in the responses and m its mean reward,
    Δ = Σ m̄ Δs + Σ s̄ Δm, where a bar is the mean of both windows.
    """

    shares: Floats  # s, float64 (2, environments)
    means: Floats  # m, float64 (2, environments)
    mix: float  # Σ m̄ Δs, due to the mix of environments
    within: Floats  # s̄ Δm, due to the rewards within each, float64 (environments,)
    # change of the mean reward with both windows weighted to the same mix
    same_mix: Change
    explains_fall: bool  # whether Δ < 0 is due to the mix: see ``MixChanged``

    @property
    def rest(self) -> float:
        """Σ s̄ Δm, the change that the mix does not explain."""
        return float(self.within.sum())

    @property
    def total(self) -> float:
        """Δ, the change of the mean reward."""
        return self.mix + self.rest

    @property
    def evidence(self) -> float:
        """How much likelier the fall is by the mix alone than by the policy alone.

        The natural logarithm of the likelihood ratio; NaN if the error at the same mix is unknown.
        """
        if not self.same_mix.z:
            return np.nan
        rest = self.same_mix.difference
        error = abs(rest / self.same_mix.z)
        by_mix = min(rest, 0.0) / error  # a rise speaks against no mix
        by_policy = (rest - self.total) / error
        return rounded((by_policy**2 - by_mix**2) / 2)

    @property
    def harder(self) -> int:
        """Index of the environment below the mean whose larger share lowered it most."""
        level = self.means.mean(axis=0)
        above_mean = level - (self.shares * self.means).sum(axis=1).mean()
        rise = self.shares[1] - self.shares[0]
        # The product is the most negative.
        return int(np.argmin(above_mean * np.maximum(rise, 0)))


def change(
    run: Run,
    values: Floats,
    weights: Floats | None = None,
    *,
    first: Window | None = None,
    last: Window | None = None,
    by_step: bool = True,
) -> Change:
    """Return the change of the mean of per-response values from one window to another.

    Errors are clustered by prompt, so a prompt in both windows is compared with itself.

    Args:
        run: the run; without a first window, ``first`` and ``z`` of the change are NaN.
        values: one number per response, float64 (rows,); NaN is left out.
        weights: the weight of each response, float64 (rows,); by default 1.
        first: the earlier window, by default the run's first.
        last: the later window, by default the run's last.
        by_step: whether the scatter of step means counts as noise, too; a jump increases it.
    """
    start = first or run.first
    end = last or run.last
    after = part_of(run.tables, values, end, weights)
    if start is None:  # the run is too short for a first window
        return Change(first=np.nan, last=after.mean, z=np.nan)
    before = part_of(run.tables, values, start, weights)
    # Without tables, ``z_of`` does not estimate the noise of step means.
    tables = run.tables if by_step else None
    z = z_of(tables, values, weights, [before, after])
    return Change(before.mean, after.mean, z, least=run.limits[Trend].z)


def rise(run: Run, values: Floats, *, first: Window | None = None) -> float:
    """Return the last mean minus the first, as the ``difference`` of ``change``, but faster.

    What takes most of the time there is to tell whether it is significant.
    """
    start = first or run.first
    if start is None:
        return np.nan
    before = part_of(run.tables, values, start, weights=None)
    after = part_of(run.tables, values, run.last, weights=None)
    return rounding.change(before.mean, after.mean)


def mix(
    run: Run, first: Window, last: Window, values: Floats | None = None
) -> MixChange | None:
    """Split the change of mean reward by environment; None without environments or rewards.

    Args:
        run: the run with its environments.
        first: the earlier window.
        last: the later window.
        values: what is split instead of the rewards, float64 (rows,). Then the scatter of step
            means does not count as noise: see ``by_step`` of ``change``.
    """
    if run.environments is None:
        return None
    reward = run.column("reward") if values is None else values
    windows = (first.rows, last.rows)
    # The last environment is the pool of those that have no name of their own.
    size = len(run.environments.names) + 1
    # Index of each response's environment, -1 without one or without a reward
    index = np.where(np.isfinite(reward), run.environments.index, -1)
    shares = _shares_of_environments(index, windows, size)
    if shares is None:
        return None
    means = _means_of_environments(index, windows, size, reward)
    mean_of_both = means.mean(axis=0)
    same_mix = change(
        run,
        # Differences between environments are no noise of a mean at the same mix. Responses with
        # the index -1 take the last environment's mean, but have the weight 0.
        reward - mean_of_both[index],
        _weights_to_same_mix(index, windows, shares),
        first=first,
        last=last,
        by_step=values is None,
    )
    by_mix = rounded((mean_of_both * difference(shares[1], shares[0])).sum())
    within = shares.mean(axis=0) * difference(means[1], means[0])
    return MixChange(
        shares=shares,
        means=means,
        mix=by_mix,
        within=within,
        same_mix=same_mix,
        explains_fall=_explains_fall(run, by_mix, float(within.sum()), same_mix),
    )


def _explains_fall(run: Run, by_mix: float, rest: float, same_mix: Change) -> bool:
    """Return whether the mean reward fell mostly because the mix changed.

    Args:
        run: the run, for its thresholds.
        by_mix: the change that is due to the mix, negative for a fall.
        rest: the change that is not.
        same_mix: the change with both windows weighted to the same mix, for its standard error.
    """
    limits = run.limits[MixChanged]
    total = by_mix + rest
    if not total < 0:
        return False
    # Both sides are negative, so "less" is a larger fall.
    is_most = by_mix < limits.share * total
    # The mix explains most of the fall only if the rest surely is the smaller part.
    is_rest_smaller = same_mix.largest_loss < limits.share * -total
    also_falls_at_same_mix = same_mix.fell and rest < limits.rest * total
    return bool(is_most and is_rest_smaller and not also_falls_at_same_mix)


def _shares_of_environments(
    index: Ints, windows: tuple[slice, slice], size: int
) -> Floats | None:
    """Return each environment's share in both windows, float64 (2, size).

    The shares of a window add up to 1. None if a window has no response with a reward.

    Args:
        index: index of each response's environment, -1 for responses to leave out, (rows,).
        windows: the rows of the earlier and of the later window.
        size: the number of environments.
    """
    counts = []
    for rows in windows:
        # Shifted by one, as ``bincount`` takes no -1; its count is then left out.
        of_window = np.bincount(index[rows] + 1, minlength=size + 1)[1:]
        if not of_window.any():
            return None
        counts.append(of_window)
    totals = np.array(counts)
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))


def _means_of_environments(
    index: Ints, windows: tuple[slice, slice], size: int, reward: Floats
) -> Floats:
    """Return each environment's mean reward in both windows, float64 (2, size).

    An environment that one window lacks has the mean of the other window in both, so that it
    counts as unchanged; one that both lack has 0. See ``_shares_of_environments`` for arguments.
    """
    means = []
    for rows in windows:
        # Shifted by one, as labels have to be positive; the mean of -1 is then left out.
        of_window = means_by(index[rows] + 1, size + 1, reward[rows])
        means.append(of_window[1:])
    of_other_window = means[::-1]
    known = np.where(np.isnan(means), of_other_window, means)
    return np.nan_to_num(known)


def _weights_to_same_mix(
    index: Ints, windows: tuple[slice, slice], shares: Floats
) -> Floats:
    """Return weights of responses that give both windows the same shares of environments, (rows,).

    Each environment gets the mean of its two shares. One that a window lacks has weight 0 in both,
    and so has a response outside of the windows.

    Args:
        index: index of each response's environment, -1 for responses to leave out, (rows,).
        windows: the rows of the earlier and of the later window.
        shares: each environment's share in both windows, float64 (2, environments).
    """
    in_both = shares.all(axis=0)
    target = shares.mean(axis=0)
    weights = np.zeros(len(index))
    for rows, share in zip(windows, shares, strict=True):
        zeros = np.zeros(len(target))
        of_environment = np.divide(target, share, out=zeros, where=in_both)
        # Index -1 takes the appended 0.
        weights[rows] = np.append(of_environment, 0.0)[index[rows]]
    return weights


def spread(run: Run, column: str = "reward") -> float:
    """Return the std of a response column around the mean of each step; NaN without values."""
    values = run.column(column)
    finite = np.isfinite(values)
    if not finite.any():
        return np.nan
    deviations = centred(values[finite], run.step_index[finite])
    std = np.sqrt((deviations**2).mean())
    # Of equal values, the std is a rounding error relative to their size: 0 is returned.
    largest = np.abs(values[finite]).max()
    return rounded(float(beyond_rounding(std, largest)))


def series(run: Run, values: Floats, weights: Floats | None = None) -> Series:
    """Return the (weighted) mean of per-response values at each step, with standard errors."""
    errors = sampling_errors(run, values)
    return Series(run.steps, run.by_step(values, weights), errors)


def sampling_errors(run: Run, values: Floats) -> Floats:
    """Return the standard error of each step's mean, float64 (S,), NaN at steps without values.

    The variance inside steps is pooled. Responses to one prompt resemble each other: their mean
    errs by the square root of the design effect more than that of as many independent ones.

    Args:
        run: the run.
        values: one number per response, float64 (rows,); NaN is left out.
    """
    unknown = np.full(len(run.steps), np.nan)
    finite = np.isfinite(values)
    steps = run.step_index[finite]
    counts = np.bincount(steps, minlength=len(run.steps))
    if not len(steps):
        return unknown
    deviations = centred(values[finite], steps)
    of_responses = float((deviations**2).sum())
    if not of_responses < np.inf:  # the squares of huge values overflow
        return unknown
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[finite]
    # The step and the prompt of a response as one number, like two digits
    of_prompt_in_step, _ = pd.factorize(steps * (int(prompts.max()) + 1) + prompts)
    # The same sum, with the responses of a prompt added up before they are squared: larger if they
    # resemble each other. The ratio of both is the design effect, here of at least 1.
    sums = np.bincount(of_prompt_in_step, deviations)
    of_prompts = float((sums**2).sum())
    largest = float(np.abs(values[finite]).max())
    variance = max(of_responses, of_prompts) / len(steps)
    std = beyond_rounding(np.sqrt(variance), largest)
    known = np.where(counts > 0, counts, np.nan)
    return significant(std / np.sqrt(known))


def mean(values: Floats) -> float:
    """Return the mean without NaN values, NaN if no value is finite."""
    if not np.isfinite(values).any():
        return np.nan
    return rounded(float(np.nanmean(values)))


def median(values: Floats) -> float:
    """Return the median without NaN values, NaN if no value is finite."""
    if not np.isfinite(values).any():
        return np.nan
    return rounded(np.nanmedian(values))
