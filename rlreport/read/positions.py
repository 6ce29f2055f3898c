"""Critic figures by position in the response."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlreport.figures.ragged import Floats, Ints, finite_sums
from rlreport.read.exact import binned_sums, carry

DECILES = 10


@dataclass(slots=True)
class PositionTable:
    """Critic figures by tenth of the response: counts int64 (10,), sums int64 (3, 2, 10)."""

    counts: Ints = field(default_factory=lambda: np.zeros(DECILES, dtype=np.int64))
    sums: Ints = field(default_factory=lambda: np.zeros((3, 2, DECILES), dtype=np.int64))

    def add(self, offsets: Ints, value: Floats, returns: Floats) -> None:
        """Add rows of tokens, float64 (N,) each.

        Token t of T belongs to tenth floor(10 t / T).
        """
        lengths = np.diff(offsets)
        tenths = np.arange(DECILES + 1)
        cuts = offsets[:-1, None] + -(-lengths[:, None] * tenths // DECILES)
        pieces = np.append(cuts[:, :-1].reshape(-1), offsets[-1])
        decile = np.tile(tenths[:-1], len(lengths))
        count, error = finite_sums(np.abs(value - returns), pieces)
        self.counts += np.bincount(decile, count, DECILES).astype(np.int64)
        whole = count == np.diff(pieces)
        if not whole.all():
            known = np.isfinite(value - returns)
            value, returns = np.where(known, value, np.nan), np.where(known, returns, np.nan)
        figures = (error, finite_sums(value, pieces)[1], finite_sums(returns, pieces)[1])
        for i, values in enumerate(figures):
            self.sums[i] += binned_sums(decile, values, DECILES)
        carry(self.sums)

    def update(self, other: PositionTable) -> None:
        """Add another table."""
        self.counts += other.counts
        self.sums += other.sums
        carry(self.sums)
