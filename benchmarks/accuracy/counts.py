"""Shares of runs with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from scipy.stats import binomtest

from benchmarks.accuracy.measure import Seen


@dataclass(frozen=True)
class Counts:
    """Of ``runs`` runs, in how many something was so."""

    hits: int
    runs: int

    @classmethod
    def of(cls, results: Sequence[object]) -> Self:
        """Return how many of some results are true."""
        return cls(sum(map(bool, results)), len(results))

    def __str__(self) -> str:
        if not self.runs:
            return "–"
        return f"{self.hits} of {self.runs}"

    @property
    def share(self) -> float:
        """The share of the runs."""
        return self.hits / self.runs

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95% interval of the share (Wilson 1927)."""
        found = binomtest(self.hits, self.runs).proportion_ci(method="wilson")
        return float(found.low), float(found.high)

    @property
    def interval(self) -> str:
        """The 95% interval of the share, in percent."""
        low, high = self.bounds
        return f"{100 * low:.0f}–{100 * high:.0f}%"

    @property
    def percent(self) -> str:
        """The share in percent."""
        return f"{100 * self.share:.0f}%"


def found_at(seen: Sequence[Seen], key: str, strength: float) -> Counts:
    """Return in how many runs of a family and strength the fault was found."""
    return Counts.of(
        [one.found for one in seen if one.key == key and one.strength == strength]
    )
