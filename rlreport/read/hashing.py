"""64-bit hashes of whole arrays: the same in every process and on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


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


def order_of(hashes: Hashes) -> NDArray[np.int64]:
    """Return an order that makes hashes ascend, int64 (N,); equal ones keep theirs.

    The low bits give way to the places, so that numbers are sorted rather than places by
    numbers, which NumPy does ten times as fast.
    """
    places = np.arange(len(hashes), dtype=np.uint64)
    low = np.uint64((1 << len(hashes).bit_length()) - 1)
    packed = (hashes & ~low) | places
    packed.sort()
    order = (packed & low).astype(np.int64)
    ordered = hashes[order]
    # Rarely two hashes differ in the lost bits only.
    return order if (ordered[1:] >= ordered[:-1]).all() else np.argsort(hashes, kind="stable")


def row_priorities(
    files: NDArray[np.int64], offsets: NDArray[np.int64], subs: NDArray[np.int64]
) -> Hashes:
    """Give every row a number that looks random and depends on its place in the logs only."""
    place = mix(files.astype(np.uint64)) + offsets.astype(np.uint64)
    return mix(mix(place) + subs.astype(np.uint64))


def grouped(keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a stable order that puts equal keys together, and where each group starts in it.

    Runs that ascend already, as in two tables side by side, are merged rather than sorted.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(fresh)
