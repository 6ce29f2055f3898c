"""Permutation tests: exact for any number of prompts and any distribution of a figure.

Both put the observed sum among the sums of all arrangements that are as likely if the runs do not
differ. Few moving values are enumerated, more are sampled; the observed arrangement is one of the
sample, so that the test holds its level either way (Phipson & Smyth 2010).
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from rlreport.figures.ragged import Floats

SAMPLED = 2000
MAX_ENUMERATED = 14
"""Moving values up to which all arrangements are enumerated."""
_MAX_VALUES = 1024
"""Values that are moved one by one; more are added up in cells, which are moved whole."""
_MAX_RATIO = 16
"""More prompts of the larger side than this multiple of the smaller add next to nothing."""


def sign_flip_p(difference: Floats, seed: int) -> float:
    """Return the two-sided p of paired differences under random signs (Fisher 1935).

    With one binary response per prompt this is McNemar's exact test.
    """
    moving = difference[difference != 0]
    if len(moving) <= MAX_ENUMERATED:
        kept = _subsets(len(moving))
    else:
        moving = np.bincount(np.arange(len(moving)) % _MAX_VALUES, moving)
        kept = _signs(len(moving), seed)
    return _two_sided(kept @ moving, np.full(len(kept), 1 / len(kept)), moving)


def relabel_p(base: Floats, new: Floats, seed: int) -> float:
    """Return the two-sided p of two sets of prompts when prompts change sides at random.

    With one binary response per prompt this is Fisher's exact test.
    """
    base, new = (side[: _MAX_RATIO * min(len(base), len(new))] for side in (base, new))
    cell_size = -(-(len(base) + len(new)) // _MAX_VALUES)
    base, new = (
        side[: len(side) // cell_size * cell_size].reshape(-1, cell_size).sum(axis=1)
        for side in (base, new)
    )
    size, pooled = len(new), np.concatenate([new, base])
    # Subtracting the commonest value does not change the test, and leaves fewer values to move.
    values, counts = np.unique(pooled, return_counts=True)
    pooled = pooled - values[counts.argmax()]
    moving = pooled[pooled != 0]
    if len(moving) > MAX_ENUMERATED:
        kept = _labels(len(pooled), size, seed)
        weights = np.full(len(kept), 1 / len(kept))
        return _two_sided(kept @ pooled, weights, pooled[:size])
    kept, still = _subsets(len(moving)), len(pooled) - len(moving)
    ways = [comb(still, size - k) if k <= size else 0 for k in range(len(moving) + 1)]
    shares = np.array([way / comb(len(pooled), size) for way in ways])
    return _two_sided(kept @ moving, shares[kept.sum(axis=1).astype(np.int64)], pooled[:size])


def _subsets(count: int) -> Floats:
    """Return 1 for members and 0 for others of all subsets, (2**count, count)."""
    return ((np.arange(2**count)[:, None] >> np.arange(count)) % 2).astype(np.float64)


@lru_cache(maxsize=2)
def _signs(count: int, seed: int) -> Floats:
    """Return 1 for a kept and 0 for a flipped sign, (SAMPLED + 1, count); first, all kept."""
    kept = np.random.default_rng(seed).integers(0, 2, (SAMPLED + 1, count)).astype(np.float64)
    kept[0] = 1
    return kept


@lru_cache(maxsize=2)
def _labels(count: int, size: int, seed: int) -> Floats:
    """Return 1 for NEW and 0 for BASE, (SAMPLED + 1, count); first, as observed."""
    labels = np.tile((np.arange(count) < size).astype(np.float64), (SAMPLED + 1, 1))
    labels[1:] = np.random.default_rng(seed).permuted(labels[1:], axis=1)
    return labels


def _two_sided(sums: Floats, weights: Floats, observed: Floats) -> float:
    """Return twice the weight of the smaller tail of the sums, the observed sum included."""
    total, rounding = observed.sum(), 1e-9 * np.abs(sums).max()
    upper, lower = weights[sums >= total - rounding], weights[sums <= total + rounding]
    return min(1.0, 2 * float(min(upper.sum(), lower.sum())))
