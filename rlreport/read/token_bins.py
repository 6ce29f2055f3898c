"""Sums by token of one bin of steps, in dense arrays by token number."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.exact import MOST_ADDED, binned_sums
from rlreport.read.measure import PerToken
from rlreport.read.token_entries import TokenEntries
from rlreport.read.token_table import COUNTS, ROWS, Rows, carry_rows

_LEAST_ROOM = 1 << 15


class NumpyBin:
    """Counts and sums by token number; rows that hold nothing are not there."""

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

    def add_all(self, other: NumpyBin) -> None:
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


def bin_sums(places: Ints, figures: PerToken, size: int) -> Ints:
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
