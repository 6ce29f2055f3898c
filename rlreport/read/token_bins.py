"""Sums by token of one bin of steps, in dense arrays by token number: in NumPy, or compiled."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from rlreport import native
from rlreport.figures.ragged import Ints
from rlreport.read.exact import MOST_ADDED, binned_sums, settled
from rlreport.read.measure import PerToken
from rlreport.read.token_entries import TokenEntries
from rlreport.read.token_table import COUNTS, ROWS, SUMS, Rows, carry_rows
from rlreport.read.vocabulary import Ids

_LEAST_ROOM = 1 << 15
_COMMON = 8
"""Numbers of a token that lie side by side: its occurrences and low parts, to fill 64 bytes."""

_MISSING = len(COUNTS) - 1
_RARE = _MISSING + len(SUMS)


class TokenBin(Protocol):
    """What is added to one bin."""

    def add_all(self, other: Any) -> None:
        """Add another bin of the same kind."""

    def flush(self, number: int, entries: TokenEntries) -> None:
        """Add what is not empty to the entries, as bin ``number``."""


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


class CompiledBin:
    """Twin of ``NumpyBin``; a token's counts and sums lie side by side, in one line of cache.

    Values beyond eight and missing ones, which are rare, are counted apart.
    """

    def __init__(self, vocabulary: int) -> None:
        room = max(_LEAST_ROOM, vocabulary + vocabulary // 4)
        self._common = np.zeros((room, _COMMON), dtype=np.int64)
        self._rare: Ints | None = None

    def add(self, rows: Ints, offsets: Ints, ids: Ids, figures: PerToken, vocabulary: int) -> None:
        """Add the tokens of some rows, int64 (K,), of those that ``offsets`` cuts."""
        assert native.scan is not None
        if vocabulary > len(self._common):
            self._grow(vocabulary + vocabulary // 4)
        sources = (figures.kl, figures.log_ratio, figures.prob, figures.ref_prob)
        given = (offsets, ids, *sources, figures.value, figures.return_, self._common)
        done = native.scan.sum_tokens(rows, *given, self._rare)
        if done < len(rows):
            native.scan.sum_tokens(rows[done:], *given, self._made_rare())

    def add_all(self, other: CompiledBin) -> None:
        """Add another bin."""
        size = len(other._common)
        if size > len(self._common):
            self._grow(size)
        self._common[:size] += other._common
        if other._rare is not None:
            self._made_rare()[:size] += other._rare

    def flush(self, number: int, entries: TokenEntries) -> None:
        """Add what is not empty to the entries, as bin ``number``."""
        ids = np.flatnonzero(self._common[:, 0])
        common = np.ascontiguousarray(self._common[ids].T)
        rare = None if self._rare is None else np.ascontiguousarray(self._rare[ids].T)
        rows: Rows = [common[0]]
        rows += [None] * _MISSING if rare is None else [*rare[:_MISSING]]
        for i in range(len(SUMS)):
            sixteens = np.zeros_like(common[0]) if rare is None else rare[_MISSING + i]
            rows += settled(sixteens, common[1 + i])
        entries.append(
            number, ids, [row if row is not None and row.any() else None for row in rows]
        )

    def _grow(self, size: int) -> None:
        more = ((0, size - len(self._common)), (0, 0))
        self._common = np.pad(self._common, more)
        if self._rare is not None:
            self._rare = np.pad(self._rare, more)

    def _made_rare(self) -> Ints:
        if self._rare is None:
            self._rare = np.zeros((len(self._common), _RARE), dtype=np.int64)
        return self._rare


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
