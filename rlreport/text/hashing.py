"""64-bit hashes of whole arrays, the same in every process and on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(values: Hashes) -> Hashes:
    """Scatter 64-bit numbers (the finaliser of SplitMix64, Steele et al. 2014); a bijection."""
    mixed = values + _GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def pair_hashes(left: Hashes, right: Hashes) -> Hashes:
    """Hash ordered pairs of hashes."""
    return mix(left * _GOLDEN + right)
