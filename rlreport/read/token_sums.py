"""Collect sums by token, batch by batch, while a process scans."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.exact import MOST_ADDED, binned_sums
from rlreport.read.hashing import Hashes
from rlreport.read.measure import PerToken
from rlreport.read.token_entries import TokenEntries
from rlreport.read.token_table import (
    COUNTS,
    ROWS,
    Rows,
    TokenTable,
    carry_rows,
    shift_of,
)
from rlreport.read.vocabulary import Ids

_MOST_HELD = 1 << 20
_DENSE_CELLS = 1 << 18
_LEAST_ROOM = 1 << 15


class TokenSums:
    """Collects a table batch by batch, with tokens by their number in a vocabulary.

    Batches follow each other in few bins, so the latest bins are kept as dense arrays by
    token number, which takes no sorting; the others as sparse entries.
    """

    def __init__(self) -> None:
        self._steps: set[int] = set()
        self._shift = 0
        self._dense: dict[int, _Dense] = {}
        self._sparse = TokenEntries()
        self._most_held = _MOST_HELD

    def add(self, steps: Ints, lengths: Ints, ids: Ids, figures: PerToken, vocabulary: int) -> None:
        """Add tokens.

        Args:
            steps: int64 (R,), step of each row.
            lengths: int64 (R,), tokens of each row; their sum is N > 0.
            ids: int32 (N,), number of each token's string.
            figures: per token.
            vocabulary: more than the largest number.
        """
        self._see(steps[lengths > 0])
        keys = ids.astype(np.int64)
        bins, rank = np.unique(steps >> self._shift, return_inverse=True)
        if len(bins) > 1:
            keys += np.repeat(rank * vocabulary, lengths)
        # Numbering the keys that occur is cheaper than sorting them.
        seen = np.zeros(len(bins) * vocabulary, dtype=bool)
        seen[keys] = True
        used = np.flatnonzero(seen)
        dense = np.empty(len(seen), dtype=np.int64)
        dense[used] = np.arange(len(used))
        rows = _summed(dense[keys], figures, len(used))
        cuts = np.searchsorted(used, np.arange(len(bins) + 1) * vocabulary)
        for i, number in enumerate(bins.tolist()):
            part = slice(cuts[i], cuts[i + 1])
            here = used[part] - i * vocabulary
            self._bin(number, vocabulary).add(here, rows[:, part])

    def table(self, hashes: Hashes) -> tuple[TokenTable, Ints]:
        """Return the table, its entries in any order, and the token number of each entry.

        ``hashes`` are the vocabulary's.
        """
        self._flush(0)
        entries, self._sparse = self._sparse, TokenEntries()
        return entries.table(self._shift, hashes), entries.ids

    def _see(self, steps: Ints) -> None:
        fresh = set(steps.tolist()) - self._steps
        if not fresh:
            return
        self._steps |= fresh
        shift = shift_of(np.array(sorted(self._steps), dtype=np.int64))
        if shift > self._shift:
            self._coarsen(shift - self._shift)
            self._shift = shift

    def _coarsen(self, by: int) -> None:
        self._sparse.coarsen(by)
        finer, self._dense = self._dense, {}
        for number, bin_ in finer.items():
            coarser = self._dense.setdefault(number >> by, bin_)
            if coarser is not bin_:
                coarser.add_all(bin_)

    def _bin(self, number: int, vocabulary: int) -> _Dense:
        known = self._dense.pop(number, None)
        if known is None:
            self._flush(max(2, _DENSE_CELLS // vocabulary) - 1)
            self._join()
            known = _Dense(vocabulary)
        # The latest comes last, so that the one used longest ago is flushed first.
        self._dense[number] = known
        return known

    def _flush(self, keep: int) -> None:
        while len(self._dense) > keep:
            number = next(iter(self._dense))
            self._dense.pop(number).flush(number, self._sparse)

    def _join(self) -> None:
        if len(self._sparse) > self._most_held:
            self._sparse.join()
            # What cannot be joined further must not be tried again with every batch.
            self._most_held = max(_MOST_HELD, len(self._sparse) + _MOST_HELD // 2)


class _Dense:
    """Counts and sums of one bin by token number; rows that hold nothing are not there."""

    def __init__(self, vocabulary: int) -> None:
        # Room to grow costs no memory before it is used.
        self._size = max(_LEAST_ROOM, 2 * vocabulary)
        self._rows: Rows = [None] * ROWS
        self._added = 0

    def add(self, ids: Ints, rows: Ints) -> None:
        """Add to distinct tokens, ascending: int64 (K,) and (ROWS, K)."""
        if len(ids) and ids[-1] >= self._size:
            self._grow(2 * int(ids[-1]))
        for i, part in enumerate(rows):
            # Most rows are for rare cases, such as missing or very large values.
            if part.any():
                self._row(i)[ids] += part
        self._added += 1
        if self._added == MOST_ADDED - 1:
            self._carry()

    def add_all(self, other: _Dense) -> None:
        """Add another bin."""
        self._carry()
        other._carry()
        if other._size > self._size:
            self._grow(other._size)
        for i, part in enumerate(other._rows):
            if part is not None:
                self._row(i)[: other._size] += part
        self._carry()

    def flush(self, number: int, entries: TokenEntries) -> None:
        """Add what is not empty to the entries, as bin ``number``."""
        ids = np.flatnonzero(self._row(0))
        rows = [None if row is None else row[ids] for row in self._rows]
        carry_rows(rows)
        entries.append(number, ids, rows)

    def _carry(self) -> None:
        carry_rows(self._rows)
        self._added = 1

    def _row(self, i: int) -> Ints:
        row = self._rows[i]
        if row is None:
            row = self._rows[i] = np.zeros(self._size, dtype=np.int64)
        return row

    def _grow(self, size: int) -> None:
        self._rows = [
            None if row is None else np.pad(row, (0, size - self._size)) for row in self._rows
        ]
        self._size = size


def _summed(places: Ints, figures: PerToken, size: int) -> Ints:
    """Return counts and sums, int64 (ROWS, size), of tokens by place."""
    ratio = figures.log_ratio
    error = None
    if figures.value is not None and figures.return_ is not None:
        error = np.abs(figures.value - figures.return_)
    magnitude = None if ratio is None else np.abs(ratio)
    sources = (figures.kl, ratio, magnitude, figures.prob, figures.ref_prob, error)
    rows = np.zeros((ROWS, size), dtype=np.int64)
    rows[0] = np.bincount(places, minlength=size)
    for i, values in enumerate((ratio, figures.prob, figures.ref_prob, error), start=1):
        if values is None:
            rows[i] = rows[0]
        elif not (finite := np.isfinite(values)).all():
            rows[i] = np.bincount(places[~finite], minlength=size)
    for i, values in enumerate(sources):
        if values is not None:
            at = len(COUNTS) + 2 * i
            rows[at : at + 2] = binned_sums(places, values, size)
    return rows
