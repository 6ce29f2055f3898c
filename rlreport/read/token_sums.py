"""Collect sums by token, batch by batch, while a process scans."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.hashing import Hashes
from rlreport.read.measure import PerToken
from rlreport.read.token_bins import NumpyBin, bin_sums
from rlreport.read.token_entries import TokenEntries
from rlreport.read.token_table import TokenTable, shift_of
from rlreport.read.vocabulary import Ids

_MOST_HELD = 1 << 20
_DENSE_CELLS = 1 << 18


class TokenSums:
    """Collects a table batch by batch, with tokens by their number in a vocabulary.

    Batches follow each other in few bins, so the latest bins are kept as dense arrays by
    token number, which takes no sorting; the others as sparse entries.
    """

    def __init__(self) -> None:
        self._steps: set[int] = set()
        self._shift = 0
        self._dense: dict[int, NumpyBin] = {}
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
        rows = bin_sums(dense[keys], figures, len(used))
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

    def _bin(self, number: int, vocabulary: int) -> NumpyBin:
        known = self._dense.pop(number, None)
        if known is None:
            self._flush(max(2, _DENSE_CELLS // vocabulary) - 1)
            self._join()
            known = NumpyBin(vocabulary)
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
