"""Distinct bigrams: exactly inside a response, by a mergeable sketch inside a step."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Floats, Ints, offsets_of, row_ends
from rlreport.read.hashing import Hashes, pair_hashes
from rlreport.read.vocabulary import Ids

_LARGEST = np.uint64(0xFFFFFFFFFFFFFFFF)
_BUDGET = 1 << 19
_FEWEST, _MOST = 256, 16384


def row_bigrams(ids: Ids, offsets: Ints, hashes: Hashes) -> tuple[Ints, Floats, Hashes, Ints]:
    """Return the bigrams of each row, the distinct share of them, and what is distinct.

    Args:
        ids: int32 (N,), numbers of the units of R rows.
        offsets: int64 (R + 1,).
        hashes: uint64, of the units by number.

    Returns:
        the number of bigrams of each row and the share of distinct ones (NaN without any),
        (R,); the distinct hashes, in any order, and the row of each.
    """
    pairs, pair_offsets = bigram_hashes(hashes[ids], offsets)
    return np.diff(pair_offsets), *distinct_by_row(pairs, pair_offsets)


def bigram_hashes(units: Hashes, offsets: Ints) -> tuple[Hashes, Ints]:
    """Return the hashes of all neighbouring pairs inside rows, and their row offsets.

    Args:
        units: uint64 (N,), hashes of the units of R rows.
        offsets: int64 (R + 1,).
    """
    pairs = pair_hashes(units[:-1], units[1:])
    inside = np.ones(len(units), dtype=bool)
    inside[row_ends(offsets)] = False
    return pairs[inside[:-1]], offsets_of(np.maximum(np.diff(offsets) - 1, 0))


def distinct_by_row(pairs: Hashes, offsets: Ints) -> tuple[Floats, Hashes, Ints]:
    """Return distinct / all of each row (NaN without any), the distinct hashes, and their rows."""
    lengths = np.diff(offsets)
    distinct = np.zeros(len(lengths), dtype=np.int64)
    kept: list[Hashes] = []
    owners: list[Ints] = []
    # Rows of like length are padded to one width and sorted side by side: a power of two, or
    # three quarters of one, so that little is wasted.
    widths = 1 << np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    widths -= np.where(4 * lengths <= 3 * widths, widths // 4, 0)
    widths[lengths == 0] = 0
    for width in sorted(set(widths[widths > 0].tolist())):
        rows = np.flatnonzero(widths == width)
        grid = np.full((len(rows), width), _LARGEST, dtype=np.uint64)
        filled = np.arange(width) < lengths[rows][:, None]
        if len(rows) == len(lengths):
            grid[filled] = pairs
        else:
            places = offsets[rows][:, None] + np.arange(width)
            grid[filled] = pairs[places[filled]]
        grid.sort(axis=1)
        fresh = np.ones(grid.shape, dtype=bool)
        np.not_equal(grid[:, 1:], grid[:, :-1], out=fresh[:, 1:])
        fresh &= grid != _LARGEST
        distinct[rows] = fresh.sum(axis=1)
        kept.append(grid[fresh])
        owners.append(np.repeat(rows, distinct[rows]))
    share = np.where(lengths > 0, distinct / np.maximum(lengths, 1), np.nan)
    if not kept:
        return share, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    return share, np.concatenate(kept), np.concatenate(owners)


class BigramSketch:
    """The k smallest distinct bigram hashes of every step.

    With up to k distinct bigrams in a step their number is exact; beyond, the k-th smallest
    of hashes spread evenly tells how many there must be (k minimum values; Bar-Yossef et al.
    2002), within about 1/sqrt(k). k depends on the number of steps only, and never grows
    with it, so merging is associative.
    """

    def __init__(self) -> None:
        self.by_step: dict[int, Hashes] = {}
        self._pending: dict[int, list[Hashes]] = {}
        self._held: dict[int, int] = {}

    def add(self, steps: Ints, hashes: Hashes, present: Ints) -> None:
        """Add hashes, uint64 (M,), with the step of each, int64 (M,).

        ``present`` are the steps of all rows: one may have no bigram.
        """
        for step in set(present.tolist()):
            if step not in self.by_step:
                self.by_step[step] = np.zeros(0, dtype=np.uint64)
        if not len(steps):
            return
        # Rows of a step mostly lie together: take runs rather than sort.
        starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
        stops = np.append(starts[1:], len(steps))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            self._add(int(steps[start]), hashes[start:stop])
        size = self.size
        for step, held in list(self._held.items()):
            if held > 4 * size:
                self._settle(step, size)

    def _add(self, step: int, hashes: Hashes) -> None:
        known = self.by_step.get(step)
        if known is not None and len(known) >= self.size:
            hashes = hashes[hashes < known[self.size - 1]]
        if len(hashes):
            self._pending.setdefault(step, []).append(hashes)
            self._held[step] = self._held.get(step, 0) + len(hashes)

    def _settle(self, step: int, size: int) -> None:
        parts = self._pending.pop(step, [])
        self._held.pop(step, None)
        everything = np.concatenate([self.by_step[step], *parts])
        wanted = 1.5 * size
        while 2 * wanted < len(everything):
            # Hashes are spread evenly, so the smallest lie below a bound that can be told;
            # only if most of them are equal there are too few.
            bound = np.uint64(wanted / len(everything) * 2.0**64)
            smallest = _distinct(everything[everything < bound])
            if len(smallest) >= size:
                self.by_step[step] = smallest[:size].copy()
                return
            wanted *= 2
        self.by_step[step] = _distinct(everything)[:size].copy()

    @property
    def size(self) -> int:
        """Hashes kept per step."""
        return self.size_for(len(self.by_step))

    @staticmethod
    def size_for(steps: int) -> int:
        """Return how many hashes per step are kept in a run of so many steps."""
        return min(_MOST, max(_FEWEST, _BUDGET // max(1, steps)))

    def settled(self) -> dict[int, Hashes]:
        """Return step -> its k smallest hashes, ascending."""
        size = self.size
        for step in list(self._pending):
            self._settle(step, size)
        # A step of few additions may still hold more than is kept now that there are more steps.
        for step, held in self.by_step.items():
            if len(held) > size:
                self.by_step[step] = held[:size].copy()
        return self.by_step

    def update(self, other: dict[int, Hashes]) -> None:
        """Add another sketch's settled hashes."""
        for step in other:
            self.by_step.setdefault(step, np.zeros(0, dtype=np.uint64))
        for step, hashes in other.items():
            self._add(step, hashes)

    @staticmethod
    def estimate(hashes: Hashes, size: int) -> float:
        """Return the number of distinct bigrams that the k smallest hashes stand for."""
        if len(hashes) < size:
            return float(len(hashes))
        return (size - 1) / (float(hashes[size - 1]) / 2.0**64)


def _distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes, ascending."""
    ordered = np.sort(hashes)
    fresh = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]
