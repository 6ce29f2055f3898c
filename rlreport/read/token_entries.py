"""Sums by bin of steps and token on their way to a table, in arrays that grow."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.hashing import Hashes, pair_hashes
from rlreport.read.token_table import ROWS, Rows, TokenTable, added, grouped

_LEAST_ROOM = 1 << 14


class TokenEntries:
    """Entries in any order, tokens by their number in a vocabulary; some may be for the same.

    The arrays grow in place, so that nothing is held twice.
    """

    def __init__(self) -> None:
        self._size = 0
        self._bins = np.zeros(0, dtype=np.int64)
        self._ids = np.zeros(0, dtype=np.int64)
        self._rows: Rows = [None] * ROWS

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> Ints:
        """Number of each entry's token, int64 (E,)."""
        return self._ids[: self._size]

    def append(self, number: int, ids: Ints, rows: Rows) -> None:
        """Add entries of one bin."""
        start, self._size = self._size, self._size + len(ids)
        self._make_room()
        here = slice(start, self._size)
        self._bins[here] = number
        self._ids[here] = ids
        for i, row in enumerate(rows):
            if row is None:
                continue
            known = self._rows[i]
            if known is None:
                known = self._rows[i] = np.zeros(len(self._ids), dtype=np.int64)
            known[here] = row

    def coarsen(self, by: int) -> None:
        """Halve the number of bins, so many times."""
        self._bins >>= by

    def join(self) -> None:
        """Make one entry of those for the same bin and token."""
        bins, ids, rows = self._bins[: self._size], self.ids, self._own_rows()
        order, starts = grouped(pair_hashes(bins.astype(np.uint64), ids.astype(np.uint64)))
        chosen = order[starts]
        self._rows = added([rows], [self._size], order, starts)
        self._bins, self._ids, self._size = bins[chosen], ids[chosen], len(chosen)

    def table(self, shift: int, hashes: Hashes) -> TokenTable:
        """Return them as a table; ``hashes`` are the vocabulary's. They are its arrays then."""
        if not self._size:
            return TokenTable()
        return TokenTable(shift, self._bins[: self._size], hashes[self.ids], self._own_rows())

    def _own_rows(self) -> Rows:
        rows, self._rows = self._rows, [None] * ROWS
        return [None if row is None else row[: self._size] for row in rows]

    def _make_room(self) -> None:
        if self._size > len(self._ids):
            room = max(_LEAST_ROOM, self._size + self._size // 2)
            for array in (self._bins, self._ids, *self._rows):
                if array is not None:
                    array.resize(room, refcheck=False)
