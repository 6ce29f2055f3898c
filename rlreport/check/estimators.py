"""Whether advantages follow from the rewards of their group, whatever estimator made them.

No formula has to fit for advantages to be correct: there are too many estimators. But those with a
baseline of the group have a mean of 0 in it, and those with any other baseline give responses of
one group with the same reward the same advantage. Advantages that do neither, and that no usual
formula gives, do not belong to the groups that they stand in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.windows import TINY
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import beyond_rounding
from rlreport.summarise.steps import NO_VARIANCE, most_common

Bools = NDArray[np.bool_]

# Advantages are the same if they differ by less than this part of their RMS
APART = 0.02
# A formula fits an advantage within this part of the RMS of all, and this part of itself
NEAR = 0.05
NEAR_ITSELF = 0.02
# Groups of the most common size are complete if at most this share is larger
LARGER = 0.05
# A formula explains advantages if it fits this share of those that are not 0
FITTED = 0.9


@dataclass(frozen=True, slots=True)
class Batch:
    """Responses with a reward and a logged advantage; all arrays are (rows,).

    Attributes:
        reward: the rewards.
        advantage: the logged advantages.
        group: the label of each response's group.
        step: the label of each response's step.
    """

    reward: Floats
    advantage: Floats
    group: Ints
    step: Ints

    @classmethod
    def of(cls, reward: Floats, advantage: Floats, group: Ints, step: Ints) -> Batch:
        """Return a batch of the responses that have both numbers; labels become indices."""
        known = np.isfinite(reward) & np.isfinite(advantage)
        _, groups = np.unique(group[known], return_inverse=True)
        _, steps = np.unique(step[known], return_inverse=True)
        return cls(reward[known], advantage[known], groups, steps)

    @property
    def size(self) -> float:
        """The RMS of the advantages; 0 without any."""
        return rms(self.advantage)

    @property
    def has_signal(self) -> Bools:
        """Which advantages are not 0 but for rounding, (rows,)."""
        return np.abs(self.advantage) > NO_VARIANCE * self.size

    @property
    def trained(self) -> Bools:
        """Which groups have two responses or more and an advantage that is not 0, (groups,)."""
        signals = np.bincount(self.group, self.has_signal)
        return (signals > 0) & (np.bincount(self.group) > 1)


class Misfit(NamedTuple):
    """How far the advantages of a batch are from following the rewards of their groups."""

    groups: int  # number of groups with an advantage that is not 0
    offset: float  # RMS of the means of groups over the RMS of advantages
    apart: float  # share of groups in which equal rewards have different advantages
    fitted: float  # share of advantages that the best usual formula gives
    correlation: float  # of advantages and rewards within groups


def misfit(batch: Batch, usual: int | None) -> Misfit:
    """Return how far advantages are from following the rewards of their groups.

    Args:
        batch: the responses.
        usual: the size of complete groups, see ``usual_size``.
    """
    count = int(batch.trained.sum())
    if not count:
        return Misfit(0, np.nan, np.nan, np.nan, np.nan)
    fits = (fit(batch, formula) for formula in _formulas(batch))
    return Misfit(
        groups=count,
        offset=_offset(batch, usual),
        apart=float(groups_apart(batch)[batch.trained].mean()),
        fitted=max(fits),
        correlation=_correlation(
            _within(batch.group, batch.advantage), _within(batch.group, batch.reward)
        ),
    )


def _correlation(x: Floats, y: Floats) -> float:
    """Return the correlation of values of mean 0; NaN if one of them is 0 throughout."""
    scale = float(np.linalg.norm(x) * np.linalg.norm(y))
    if not scale > TINY:
        return np.nan
    return float(np.clip((x * y).sum() / scale, -1, 1))


def usual_size(sizes: Ints) -> int | None:
    """Return the size of complete groups, None if it is not known which ones are complete.

    Where responses are dropped at random, larger groups than the most common ones remain.

    Args:
        sizes: the number of responses of each group of two or more.
    """
    usual = most_common(sizes)
    if usual is None:
        return None
    is_larger = (sizes > usual) & (sizes % usual > 0)
    return usual if is_larger.mean() <= LARGER else None


def _offset(batch: Batch, usual: int | None) -> float:
    """Return the RMS of the means of complete groups over that of their advantages.

    If some responses of a group are not logged, the mean of the others need not be 0: such groups
    are left out. NaN without complete ones.
    """
    sizes = np.bincount(batch.group)
    is_complete = batch.trained & (sizes == usual)
    if not is_complete.any():
        return np.nan
    means = _means(batch.group, batch.advantage)[is_complete]
    squares = _means(batch.group, batch.advantage**2)[is_complete]
    of_all = max(float(squares.mean()), TINY)
    return math.sqrt(float((means**2).mean()) / of_all)


def groups_apart(batch: Batch) -> Bools:
    """Return in which groups two equal rewards have different advantages, bool (groups,).

    An advantage of 0 may be that of a response that the trainer masked: it is left out.
    """
    at = np.flatnonzero(batch.has_signal)
    # Responses of a group with the same reward become adjacent, their advantages ascending.
    keys = (batch.advantage[at], batch.reward[at], batch.group[at])
    at = at[np.lexsort(keys)]
    group = batch.group[at]
    reward = batch.reward[at]
    is_same = (np.diff(group) == 0) & (np.diff(reward) == 0)
    gap = np.diff(batch.advantage[at])
    is_apart = np.zeros(int(batch.group.max(initial=-1)) + 1, bool)
    is_apart[group[1:][is_same & (gap > APART * batch.size)]] = True
    return is_apart


def fit(batch: Batch, formula: Floats) -> float:
    """Return the share of advantages that are a constant times a formula; NaN without any.

    Args:
        batch: the responses. Advantages of 0 are left out.
        formula: what the formula gives for each, (rows,).
    """
    is_used = batch.has_signal
    advantage = batch.advantage[is_used]
    given = formula[is_used]
    is_large = np.abs(given) > TINY
    if not is_large.any():
        return 0.0
    slope = np.median(advantage[is_large] / given[is_large])
    allowed = NEAR * batch.size + NEAR_ITSELF * np.abs(advantage)
    return float((np.abs(advantage - slope * given) <= allowed).mean())


def fits_neighbours(batch: Batch, neighbours: Ints) -> bool:
    """Return whether advantages are those of GRPO over other groups than their own.

    Args:
        batch: the responses.
        neighbours: the label of the other group of each, (rows,).
    """
    _, codes = np.unique(neighbours, return_inverse=True)
    other = Batch(batch.reward, batch.advantage, codes, batch.step)
    return max(fit(other, formula) for formula in _of_groups(other)) >= FITTED


def _formulas(batch: Batch) -> Iterator[Floats]:
    """Yield what usual estimators give for each response, but for a constant factor."""
    yield from _of_groups(batch)
    for _, formula in without_groups(batch):
        yield formula
    yield _divided(_centred(batch), _stds(batch.step, batch.reward)[batch.step])


def without_groups(batch: Batch) -> Iterator[tuple[str, Floats]]:
    """Yield what estimators give that know no groups, with the name of their baseline."""
    yield "none", batch.reward
    of_step = batch.reward - _means(batch.step, batch.reward)[batch.step]
    yield "step", of_step
    yield "step", _divided(of_step, _stds(batch.step, batch.reward)[batch.step])


def tells_baselines(batch: Batch) -> bool:
    """Return whether rewards tell a baseline of groups from that of steps, or from none.

    They do if the mean rewards of groups differ within steps, and rewards differ within groups.
    """
    of_groups = _means(batch.group, batch.reward)[batch.group]
    of_step = _means(batch.step, batch.reward)[batch.step]
    size = rms(batch.reward)
    between = float(np.abs(of_groups - of_step).mean())
    within = float(np.abs(batch.reward - of_groups).mean())
    return min(between, within) > APART * size


def rms(values: Floats) -> float:
    """Return the RMS of values, 0 without any."""
    return math.sqrt(float((values**2).mean())) if len(values) else 0.0


def _of_groups(batch: Batch) -> Iterator[Floats]:
    """Yield r − μ of the group, the same over both kinds of σ, and leave-one-out."""
    centred = _centred(batch)
    count = np.bincount(batch.group)[batch.group].astype(np.float64)
    std = _stds(batch.group, batch.reward)[batch.group]
    others = np.maximum(count - 1, 1)
    yield centred
    yield _divided(centred, std)
    yield _divided(centred, std * np.sqrt(count / others))
    yield centred * count / others


def _centred(batch: Batch) -> Floats:
    """Return rewards minus the mean of their group, (rows,)."""
    mean = _means(batch.group, batch.reward)[batch.group]
    return beyond_rounding(batch.reward - mean, mean)


def _means(codes: Ints, values: Floats) -> Floats:
    """Return the mean of each group of values, (groups,)."""
    return np.bincount(codes, values) / np.maximum(np.bincount(codes), 1)


def _stds(codes: Ints, values: Floats) -> Floats:
    """Return the population std of each group of values, (groups,)."""
    means = _means(codes, values)
    squares = _means(codes, (values - means[codes]) ** 2)
    return beyond_rounding(np.sqrt(squares), means)


def _divided(values: Floats, std: Floats) -> Floats:
    """Return values over a std, 0 where that is 0."""
    nothing = np.zeros(len(values))
    return np.divide(values, std, out=nothing, where=std > 0)


def correlation_beside_reward(batch: Batch, other: Floats) -> tuple[float, float]:
    """Return the correlation of advantages with another figure, and its z.

    Both are taken within groups, and less what they owe to the reward: what is left of the
    correlation is due to a term of the advantage that is not in the reward.

    Args:
        batch: the responses.
        other: the figure, such as the KL, (rows,); NaN where it is unknown.
    """
    known = np.isfinite(other)
    group = batch.group[known]
    reward = _within(group, batch.reward[known])
    advantage = _without(_within(group, batch.advantage[known]), reward)
    figure = _without(_within(group, other[known]), reward)
    r = _correlation(advantage, figure)
    freedom = int(known.sum()) - len(np.unique(group)) - 3
    if freedom < 1:
        return r, np.nan
    # The arctanh of 1 is infinite.
    z = np.arctanh(np.clip(r, -0.999999, 0.999999)) * np.sqrt(freedom)
    return r, float(z)


def _within(group: Ints, values: Floats) -> Floats:
    """Return values minus the mean of their group, (rows,)."""
    means = _means(group, values)
    return beyond_rounding(values - means[group], means[group])


def _without(values: Floats, known: Floats) -> Floats:
    """Return what is left of values of mean 0 when their multiple of ``known`` is taken away."""
    square = float((known**2).sum())
    if not square > TINY:
        return values
    return values - known * float((values * known).sum()) / square
