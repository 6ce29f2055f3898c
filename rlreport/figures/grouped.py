"""Sums and shares by group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import beyond_rounding

Kind = TypeVar("Kind", bound=np.generic)

# Least product of the norms of two series' deviations, of which a correlation is computed
_LEAST_SCALE = 1e-12


@dataclass(frozen=True, slots=True)
class Grouped:
    """A division of R rows into G groups of consecutive rows.

    Arguments of its methods have a value per row, (R,); results have one per group, (G,).

    Attributes:
        starts: the first row of each group, int64 (G,).
        size: number of rows R.
    """

    starts: Ints
    size: int

    @classmethod
    def by(cls, *keys: NDArray[np.generic]) -> Grouped:
        """Group adjacent rows that have equal values in every key; each key has shape (R,)."""
        # Whether a row is the first of its group
        is_first = np.zeros(len(keys[0]), bool)
        is_first[:1] = True  # a slice, as there may be no row
        for key in keys:
            differs = key[1:] != key[:-1]
            is_first[1:] |= differs
        return cls(np.flatnonzero(is_first), len(is_first))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> Ints:
        """Number of rows of each group, int64."""
        return np.diff(self.starts, append=self.size)

    @property
    def codes(self) -> Ints:
        """Index of each row's group, int64 (R,)."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    def first(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return the value of each group's first row."""
        return np.asarray(values[self.starts])

    def last(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Return the value of each group's last row."""
        return np.asarray(values[self.starts + self.counts - 1])

    def sum(self, values: Floats) -> Floats:
        """Return the sum per group, with NaN as 0; infinite if it overflows."""
        known = np.where(np.isnan(values), 0.0, values)
        return np.add.reduceat(known, self.starts)

    def finite(self, values: Floats) -> Ints:
        """Return the number of values that are not NaN, per group."""
        is_known = ~np.isnan(values)
        return np.add.reduceat(is_known.astype(np.int64), self.starts)

    def mean(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the mean per group of the values that are not NaN; NaN if there is none.

        With ``weights`` (R,), it is the weighted mean over rows with a value and a weight > 0.
        """
        if weights is None:
            return ratio(self._total(values), self.finite(values))
        # A row without a value must not count in the sum of weights either.
        weights = np.where(np.isnan(values), 0.0, weights)
        # A value without weight may be infinite, which times 0 would be NaN.
        weighted = np.where(weights > 0, values, 0.0) * weights
        return ratio(self._total(weighted), self.sum(weights))

    def _total(self, values: Floats) -> Floats:
        """Return the sum per group; 0 where values cancel but for rounding errors."""
        return beyond_rounding(self.sum(values), self.sum(np.abs(values)))

    def std(self, values: Floats) -> Floats:
        """Return the population standard deviation per group (two-pass); NaN values are skipped.

        It is 0 where only rounding makes the values of a group differ from their mean.
        """
        mean = self.mean(values)
        deviation = values - mean[self.codes]
        return beyond_rounding(np.sqrt(self.mean(deviation * deviation)), mean)

    def pooled_variance(self, counts: Floats, means: Floats, m2: Floats) -> Floats:
        """Return the population variance per group of samples pooled over its rows.

        Each row has the count, mean and M2 (sum of squared deviations) of its sample. See
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance".
        """
        weights = np.nan_to_num(counts, nan=0.0)  # rows without a sample are left out
        mean = self.mean(means, weights)
        deviation = np.where(weights > 0, means, 0.0) - mean[self.codes]
        # Squared deviations of the rows' means from that of the group, and within each row
        between = np.where(weights > 0, deviation * deviation * weights, 0.0)
        within = np.where(weights > 0, m2, 0.0)
        variance = ratio(self.sum(between + within), self.sum(weights))
        # 0 where only rounding makes values differ from their mean
        std = beyond_rounding(np.sqrt(variance), mean)
        return np.where(std == 0, 0.0, variance)

    def min(self, values: Floats) -> Floats:
        """Return the lowest value per group, without NaN; NaN if there is none."""
        lowest = pd.Series(values).groupby(self.codes).min()
        return np.asarray(lowest, np.float64)

    def max(self, values: Floats) -> Floats:
        """Return the highest value per group, without NaN; NaN if there is none."""
        highest = pd.Series(values).groupby(self.codes).max()
        return np.asarray(highest, np.float64)

    def quantile(self, values: Floats, part: float) -> Floats:
        """Return quantile ``part`` (0 to 1) per group, interpolated linearly; skip NaN values."""
        quantiles = pd.Series(values).groupby(self.codes).quantile(part)
        return np.asarray(quantiles, np.float64)

    def share(self, mask: NDArray[np.bool_], among: NDArray[np.bool_]) -> Floats:
        """Return per group the share of rows ``among`` that have ``mask``; NaN without rows."""
        return self.mean(np.where(among, mask.astype(np.float64), np.nan))

    def correlation(self, x: Floats, y: Floats) -> Floats:
        """Return Pearson's r per group over rows where x and y are finite; NaN if undefined."""
        is_finite = np.isfinite(x) & np.isfinite(y)
        # Means and sums below skip NaN.
        x = np.where(is_finite, x, np.nan)
        y = np.where(is_finite, y, np.nan)
        dx = x - self.mean(x)[self.codes]
        dy = y - self.mean(y)[self.codes]
        scale = np.sqrt(self.sum(dx * dx) * self.sum(dy * dy))
        # A smaller scale is an error of rounding: x or y is constant.
        scale = np.where(scale > _LEAST_SCALE, scale, 0.0)
        return ratio(self.sum(dx * dy), scale)


def ratio(top: Floats, bottom: NDArray[np.generic]) -> Floats:
    """Return ``top / bottom`` with NaN where ``bottom`` is 0."""
    bottom = np.asarray(bottom, np.float64)
    nothing = np.full(len(top), np.nan)
    return np.asarray(np.divide(top, bottom, out=nothing, where=bottom != 0))
