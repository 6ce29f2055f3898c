"""Sums by token string and bin of steps, mergeable and of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rlreport.figures.ragged import Floats, Ints
from rlreport.read.exact import excess, group_sums, to_floats
from rlreport.read.hashing import Hashes, order_of

_BIN_BITS = 5
MOST_BINS = 1 << _BIN_BITS
MOST_TOKENS = 1 << 18
SUMS = ("kl", "log_ratio", "abs_log_ratio", "prob", "ref_prob", "abs_value_error")
COUNTS = ("count", "log_ratios", "probs", "ref_probs", "value_errors")
"""Occurrences, and how many of them had *no* finite log-ratio, probability, …"""

ROWS = len(COUNTS) + 2 * len(SUMS)
Rows = list[Ints | None]
"""Counts, then the two parts of each exact sum, int64 (E,) each; None for nothing but zeros.

Most are: missing and very large values are rare.
"""


@dataclass(slots=True)
class TokenTable:
    """One entry per (bin of steps, token); ascending by both once merged.

    A bin is ``step >> shift``, with the smallest shift that leaves at most 32 bins. The
    union of two tables needs at least the shift of each, and a finer bin lies wholly in one
    coarser bin, so that merging in any order gives the same table.

    Attributes:
        shift: see above.
        bins: int64 (E,).
        tokens: uint64 (E,), hash of the token string.
        rows: counts and exact sums of the entries.
        dropped: token strings beyond the most that are kept were left out.
    """

    shift: int = 0
    bins: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tokens: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    rows: Rows = field(default_factory=lambda: [None] * ROWS)
    dropped: bool = False

    def count(self, name: str) -> Ints:
        """Return one of COUNTS, int64 (E,)."""
        return or_zeros(self.rows[COUNTS.index(name)], len(self.bins))

    def sum(self, name: str) -> Floats:
        """Return one of SUMS, float64 (E,)."""
        at = len(COUNTS) + 2 * SUMS.index(name)
        parts = [or_zeros(row, len(self.bins)) for row in self.rows[at : at + 2]]
        return to_floats(np.stack(parts))


def merge_tables(
    tables: list[TokenTable], steps: Ints, strings: int, *, spend: bool = False
) -> TokenTable:
    """Merge tables into one.

    Args:
        tables: any number.
        steps: int64, all distinct steps that went into them, ascending.
        strings: they have no more distinct tokens than this.
        spend: let go of the tables' rows as they are merged.
    """
    tables = [table for table in tables if len(table.bins)]
    if not tables:
        return TokenTable()
    shift = shift_of(steps)
    bins = np.concatenate([table.bins >> (shift - table.shift) for table in tables])
    tokens = np.concatenate([table.tokens for table in tables])
    order, starts = grouped(_keys(bins, tokens, np.unique(steps >> shift)))
    parts = [list(table.rows) for table in tables]
    if spend:
        for table in tables:
            table.rows = [None] * ROWS
    merged = TokenTable(
        shift,
        bins[order[starts]],
        tokens[order[starts]],
        added(parts, [len(table.bins) for table in tables], order, starts),
        any(table.dropped for table in tables),
    )
    if strings > MOST_TOKENS and len(distinct := np.unique(merged.tokens)) > MOST_TOKENS:
        # The smallest hashes are the same choice whatever is merged first.
        keep = merged.tokens <= distinct[MOST_TOKENS - 1]
        merged.bins, merged.tokens = merged.bins[keep], merged.tokens[keep]
        merged.rows = [None if row is None else row[keep] for row in merged.rows]
        merged.dropped = True
    return merged


def _keys(bins: Ints, tokens: Hashes, known: Ints) -> Hashes:
    """Return keys that ascend by bin and token; ``known`` are all bins, at most 32, ascending."""
    place = np.searchsorted(known, bins).astype(np.uint64)
    return (place << np.uint64(64 - _BIN_BITS)) | (tokens >> np.uint64(_BIN_BITS))


def shift_of(steps: Ints) -> int:
    """Return the smallest shift with which ascending distinct steps fall into 32 bins or fewer."""
    shift = 0
    while len(steps) > MOST_BINS:
        steps = steps >> 1
        steps = steps[np.r_[True, steps[1:] != steps[:-1]]]
        shift += 1
    return shift


def grouped(keys: Hashes) -> tuple[Ints, Ints]:
    """Return an order that puts equal keys together, and where each group starts in it."""
    order = order_of(keys)
    ordered = keys[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(fresh)


def added(parts: list[Rows], sizes: list[int], order: Ints, starts: Ints) -> Rows:
    """Put the rows of parts side by side and sum each group; takes the rows out of the parts."""
    added: Rows = []
    groups = _Groups(order, starts)
    for i in range(ROWS):
        row = beside([rows.pop(0) for rows in parts], sizes)
        if row is None:
            added.append(None)
        elif i < len(COUNTS) or (i - len(COUNTS)) % 2 == 0:
            added.append(groups.sums(row))
        else:
            over, low = groups.low_sums(row)
            high = added[-1]
            if over.any():
                high = over if high is None else high + over
            added[-1] = None if high is None or not high.any() else high
            added.append(low)
    return added


class _Groups:
    """Sums groups of entries: mostly of one or two, as tables are merged in pairs."""

    def __init__(self, order: Ints, starts: Ints) -> None:
        sizes = np.diff(starts, append=len(order))
        self._order, self._starts = order, starts
        self._in_pairs = bool(sizes.max() <= 2)
        if self._in_pairs:
            self._firsts = order[starts]
            self._pairs = np.flatnonzero(sizes == 2)
            self._seconds = order[starts[self._pairs] + 1]

    def sums(self, row: Ints) -> Ints:
        """Sum a row, int64 (E,), by group."""
        if not self._in_pairs:
            return np.add.reduceat(row[self._order], self._starts)
        sums = row[self._firsts]
        sums[self._pairs] += row[self._seconds]
        return sums

    def low_sums(self, row: Ints) -> tuple[Ints, Ints]:
        """Sum a row of low parts by group: high and low parts."""
        if not self._in_pairs:
            return group_sums(row[self._order], self._starts)
        sums = self.sums(row)
        return excess(sums), sums


def carry_rows(rows: Rows) -> None:
    """Move what low parts exceed into the high ones, in place."""
    for at in range(len(COUNTS), ROWS, 2):
        low = rows[at + 1]
        if low is not None and (over := excess(low)).any():
            rows[at] = over if (high := rows[at]) is None else high + over


def beside(rows: Sequence[Ints | None], sizes: list[int]) -> Ints | None:
    """Put the same row of several tables side by side."""
    if all(row is None for row in rows):
        return None
    return np.concatenate([or_zeros(row, size) for row, size in zip(rows, sizes, strict=True)])


def or_zeros(row: Ints | None, size: int) -> Ints:
    """Return a row, or the zeros that None stands for."""
    return np.zeros(size, dtype=np.int64) if row is None else row
