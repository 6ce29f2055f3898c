"""Fit a series by straight pieces, and estimate its noise from what the fit leaves over.

Rules R1 to R3 of docs/checks.md, "How a curve is read": weighted least squares with one line for
each piece, by dynamic programming (Bellman 1961), as many pieces as pay for themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rlreport.check.prepared import Prepared, constant_ends
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import first_least, rounded

MAX_PIECES = 6
# Fewest values of a piece; of evaluations, and below 9 values
LEAST_PIECE = 3
LEAST_SHORT = 2
FEW_VALUES = 9

# Long series: this many values at both ends are points of their own, the others share buckets
EDGE = 40
BUCKETS = 200
# Fewer points, where only the noise is asked for
COARSE_EDGE = 10
COARSE_BUCKETS = 40

# Local noise is that of this many values on both sides, or a 20th of all, shrunk to the noise of
# all values, which weighs as much as this many
LOCAL = 10
LOCAL_SHARE = 20
LOCAL_UNIT = 1e-9
PASSES = 3
# Noise of a constant end, relative to the rest
QUIET = 0.1

# Noise that slowly drifts is an AR(1) process with at most this lag-1 autocorrelation
MAX_RHO = 0.9
# With fewer values it is not estimated but assumed
SHORT = 12
SHORT_RHO = 0.4
# From this many values on, it is told from white noise
LONG = 50
# Noise of a few values is taken for twice the sampling error, with the weight of four values.
# Evaluations repeat their prompts: once
PRIOR_RATIO = 2.0
PRIOR_FREEDOM = 4.0

# Number of pieces -> share of the variance (R²) that so many pieces explain in 1% of AR(1) series
# without a trend, with an autocorrelation of 0.9 and 30, 60, 100 and 300 values
CLEAR_LENGTHS = (30, 60, 100, 300)
CLEAR = {
    2: (0.90, 0.88, 0.78, 0.55),
    3: (0.95, 0.93, 0.87, 0.68),
    4: (0.97, 0.95, 0.92, 0.75),
    5: (0.98, 0.96, 0.94, 0.80),
}
CLEAR_VALUES = 20

# Residuals are compared in this part of the variance: smaller differences are rounding errors
COST_UNIT = 1e-10
TINY = 1e-300


class Sums:
    """Squared residuals of lines through any stretch of weighted values."""

    def __init__(self, x: Floats, y: Floats, weights: Floats) -> None:
        x = x - x.mean()
        y = y - y.mean()
        # Sums of the values before each place, from 0 to the number of values: float64 (6, n + 1)
        self._before = np.zeros((6, len(x) + 1))
        np.cumsum(weights, out=self._before[0, 1:])
        products = (x, y, x * x, x * y, y * y)
        for row, product in enumerate(products, start=1):
            np.cumsum(weights * product, out=self._before[row, 1:])

    def of_halves(self, start: int, cuts: slice, stop: int) -> Floats:
        """Return the squared residuals of two lines, to each of these cuts and from there on."""
        at_cuts = self._before[:, cuts]
        first = _of_line(at_cuts - self._before[:, [start]])
        return first + _of_line(self._before[:, [stop]] - at_cuts)

    def of_all(self) -> Floats:
        """Return the squared residuals of one line through each stretch: (stop, start).

        They mean nothing where a stretch stops before it starts.
        """
        return _of_line(self._before[:, :, None] - self._before[:, None, :])


def _of_line(sums: Floats) -> Floats:
    """Return the weighted squared residuals of lines through stretches of values.

    Args:
        sums: of the weights, x, y, x², xy and y² in each stretch, float64 (6, ...).
    """
    weight, x, y, xx, xy, yy = sums
    weight = np.maximum(weight, 1e-12)
    spread_x = xx - x * x / weight
    spread_y = yy - y * y / weight
    common = xy - x * y / weight
    nothing = np.zeros_like(common)
    explained = np.divide(common**2, spread_x, out=nothing, where=spread_x > 1e-3)
    return np.asarray(np.maximum(spread_y - explained, 0.0))


@dataclass(frozen=True, slots=True)
class Noise:
    """The scatter of values around the fit, as white noise and an AR(1) process together."""

    sigma: float  # standard deviation of a value, where the noise is as usual
    local: Floats  # float64 (n,), the noise at each value relative to ``sigma``
    rho: float  # lag-1 autocorrelation of the AR(1) process
    drift: float  # share of the variance that is the AR(1) process
    freedom: float  # degrees of freedom of its estimate

    def inflation(self, count: int) -> float:
        """Return the variance of a mean of ``count`` values over that of independent ones."""
        return 1 + self.drift * (ar1_variance(self.rho, count) - 1)

    def of_mean(self, start: int, stop: int) -> float:
        """Return the standard error of the mean of the values from ``start`` to ``stop``."""
        count = stop - start
        squares = self.local[start:stop] ** 2
        around = math.sqrt(float(squares.mean()))
        return rounded(self.sigma * around * math.sqrt(self.inflation(count) / count))


@dataclass(frozen=True, slots=True)
class Fit:
    """Where the pieces of a series begin, and its noise."""

    # index of the first value of each piece, then the number of values
    cuts: tuple[int, ...]
    lines: Floats  # float64 (n,), the line of its piece at each value
    noise: Noise
    is_clear: bool  # whether it explains more than slow noise ever does
    sums: Sums


class _Option(NamedTuple):
    """A fit by a number of pieces."""

    pieces: int
    cuts: list[int]
    lines: Floats
    price: float  # what is minimized over the number of pieces
    explained: float  # R²
    variance: float  # of the residuals, in units of the local noise


def ar1_variance(rho: float, count: int) -> float:
    """Return the variance of the mean of AR(1) values over that of as many independent ones."""
    if count >= 200:  # the sum below has nearly reached its limit
        return (1 + rho) / (1 - rho)
    lag = np.arange(1, count)
    return 1 + 2 * float(((1 - lag / count) * rho**lag).sum())


def deviate(moved: float, error: float, freedom: float) -> float:
    """Return the z that is as unlikely as Student's t = ``moved`` / error (Wallace 1959)."""
    if moved == 0:
        return 0.0
    t = abs(moved) / max(error, abs(moved) * 1e-9, 1e-300)
    shrink = (8 * freedom + 1) / (8 * freedom + 3)
    unlikely = math.log1p(min(t, 1e9) ** 2 / freedom)
    z = shrink * math.sqrt(freedom * unlikely)
    return rounded(math.copysign(z, moved))


def fit_pieces(prepared: Prepared, *, coarse: bool = False) -> Fit:
    """Return the straight pieces of a series of at least two values.

    Args:
        prepared: the series.
        coarse: whether a long series is fitted by fewer points, seven times as fast.
    """
    values = prepared.values
    count = len(values)
    head, tail = (0, 0) if prepared.is_evaluation else constant_ends(values)
    search = _Search(prepared, values[head : count - tail], coarse=coarse)
    best, local = search.best()
    noise = search.noise(best, local)
    if not (head or tail):
        sums = _sums(values, noise.local)
        return Fit(tuple(best.cuts), best.lines, noise, search.is_clear, sums)
    cuts = [cut + head for cut in best.cuts]
    if head:
        cuts.insert(0, 0)
    if tail:
        cuts.append(count)
    quiet = (np.full(head, QUIET), np.full(tail, QUIET))
    local = np.concatenate([quiet[0], noise.local, quiet[1]])
    ends = (values[:head], values[count - tail :])
    lines = np.concatenate([ends[0], best.lines, ends[1]])
    whole = Noise(noise.sigma, local, noise.rho, noise.drift, noise.freedom)
    return Fit(tuple(cuts), lines, whole, search.is_clear, _sums(values, local))


def _sums(values: Floats, local: Floats) -> Sums:
    places = np.arange(len(values), dtype=np.float64)
    return Sums(places, values, 1 / local**2)


class _Search:
    """The search for the pieces of values without constant ends."""

    def __init__(self, prepared: Prepared, values: Floats, *, coarse: bool) -> None:
        self.values = values
        self.count = len(values)
        self.error = prepared.error
        self.is_evaluation = prepared.is_evaluation
        self.is_clear = False
        self.span = float(np.ptp(values))
        deviations = values - values.mean()
        self.total = float((deviations**2).sum())
        # Below this the scatter is that of rounding, not noise.
        largest = float(np.abs(values).max())
        self.floor = max(self.error, 1e-3 * self.span, 1e-12 * largest, 1e-150)
        few = self.is_evaluation or self.count < FEW_VALUES
        self.least = LEAST_SHORT if few else LEAST_PIECE
        self.most = self._most_pieces()
        self.edges = _edges(self.count, coarse=coarse)

    def _most_pieces(self) -> int:
        if self.is_evaluation:
            most = self.count // 4
        elif self.error:
            most = (self.count + 1) // 3
        else:
            most = self.count // 6
        return max(1, min(MAX_PIECES, most))

    def best(self) -> tuple[_Option, Floats]:
        """Return the best fit, and the local noise by which its values were weighted."""
        local = np.ones(self.count)
        for _ in range(PASSES):
            best = self._best_of(self._options(local))
            if best.variance <= self.floor**2:
                break
            local = self._local_noise(best)
        return best, local

    def _options(self, local: Floats) -> list[_Option]:
        """Return the best fit by each number of pieces, fewest first."""
        weights = 1 / local**2
        places = np.arange(self.count, dtype=np.float64)
        starts = self.edges[:-1]
        weight = np.add.reduceat(weights, starts)
        x = np.add.reduceat(weights * places, starts) / weight
        y = np.add.reduceat(weights * self.values, starts) / weight
        of_points_sums = Sums(x, y, weight)
        found = _cheapest_cuts(of_points_sums, len(x), self.least, self.most)
        whole = Sums(places, self.values, weights)
        options = []
        for of_points in found:
            cuts = [int(self.edges[cut]) for cut in of_points]
            if len(x) < self.count:
                cuts = self._refined(cuts, whole)
            options.append(self._option(cuts, local, weights))
        return options

    def _refined(self, cuts: list[int], sums: Sums) -> list[int]:
        """Return cuts between buckets moved to the best value, one after the other."""
        refined = list(cuts)
        for place in range(1, len(cuts) - 1):
            start = refined[place - 1]
            stop = refined[place + 1]
            # The best value is in a bucket next to the cut, or in the one after that.
            reach = 2 * self.count // BUCKETS + LEAST_PIECE
            first = max(start + LEAST_PIECE, refined[place] - reach)
            last = min(stop - LEAST_PIECE, refined[place] + reach)
            if first <= last:
                both = sums.of_halves(start, slice(first, last + 1), stop)
                refined[place] = first + first_least(both)
        return refined

    def _option(self, cuts: list[int], local: Floats, weights: Floats) -> _Option:
        """Return the fit with these cuts; ``weights`` are 1 / ``local``²."""
        pieces = len(cuts) - 1
        lines = _lines(self.values, weights, cuts)
        residuals = self.values - lines
        scaled = residuals / local
        squares = max(float((scaled**2).sum()), TINY)
        variance = self._variance(squares, self._freedom(pieces))
        lag = float((scaled[1:] * scaled[:-1]).sum()) / squares
        rho = min(max(lag, 0.0), MAX_RHO)
        # The variance of the innovations: slow noise buys no pieces.
        innovations = max(variance * (1 - rho**2), self.floor**2 / 4)
        price = self.count * math.log(innovations)
        price += (pieces - 1) * _price_of_piece(self.count)
        explained = 1 - float((residuals**2).sum()) / max(self.total, TINY)
        return _Option(pieces, cuts, lines, price, explained, variance)

    def _freedom(self, pieces: int) -> int:
        """Return how many values are left over: a piece has two coefficients and a place."""
        return max(self.count - 3 * pieces + 1, 1)

    def _variance(self, squares: float, freedom: float) -> float:
        """Return the variance of residuals; of a few values, shrunk to the sampling error."""
        if not self.error or self.count >= SHORT:
            return squares / freedom
        ratio = 1.0 if self.is_evaluation else PRIOR_RATIO
        prior = PRIOR_FREEDOM * (self.error * ratio) ** 2
        return (squares + prior) / (freedom + PRIOR_FREEDOM)

    def _best_of(self, options: list[_Option]) -> _Option:
        """Return the fit to use, and note whether it is a clear one (``is_clear``)."""
        best = options[0]
        for option in options[1:]:
            if option.price < best.price - 1e-9:
                best = option
        self.is_clear = False
        if self.is_evaluation or self.count < CLEAR_VALUES:
            return best
        for option in options:
            if self._is_clear(option):
                self.is_clear = True
                return option if option.pieces > best.pieces else best
        return best

    def _is_clear(self, option: _Option) -> bool:
        """Return whether a fit explains more than in 99% of slow AR(1) series."""
        if option.pieces not in CLEAR:
            return False
        limits = CLEAR[option.pieces]
        needed = np.interp(math.log(self.count), np.log(CLEAR_LENGTHS), limits)
        return bool(option.explained >= needed)

    def _local_noise(self, best: _Option) -> Floats:
        """Return the noise around each value, relative to that of all of them."""
        reach = max(LOCAL, self.count // LOCAL_SHARE)
        squares = np.append(0.0, np.cumsum((self.values - best.lines) ** 2))
        places = np.arange(self.count)
        starts = np.maximum(places - reach, 0)
        stops = np.minimum(places + reach + 1, self.count)
        inside = squares[stops] - squares[starts] + LOCAL * best.variance
        around = np.sqrt(inside / (stops - starts + LOCAL))
        relative = np.maximum(around, self.floor) / math.sqrt(best.variance)
        # Its last digits depend on the machine.
        return np.asarray(np.rint(relative / LOCAL_UNIT) * LOCAL_UNIT)

    def noise(self, best: _Option, local: Floats) -> Noise:
        """Return the noise that the best fit leaves over."""
        count = self.count
        pieces = best.pieces
        sampling = self.error**2
        is_short = count < SHORT
        largest = float(np.abs(self.values).max())
        least = (1e-9 * self.span) ** 2
        variance = max(best.variance, sampling, least, 1e-30 * largest**2, TINY)
        scaled = (self.values - best.lines) / local
        rho, drift = self._autocorrelation(scaled, pieces, variance)
        noise = Noise(0.0, local, rho, drift, 0.0)
        inflation = noise.inflation(count)
        freedom = float(self._freedom(pieces))
        if sampling and is_short:
            freedom += PRIOR_FREEDOM
        elif count > 3 * pieces:
            # Lines follow slow noise: what is left over is smaller than the noise.
            left = count - 3 * pieces + 1
            followed = left - 2 * pieces * (inflation - 1)
            variance *= min(left / max(followed, count / 6), 4.0)
        sigma = math.sqrt(variance)
        if sampling:
            local = np.maximum(local, self.error / sigma)
        return Noise(rounded(sigma), local, rho, drift, max(freedom / inflation, 2.0))

    def _autocorrelation(
        self, residuals: Floats, pieces: int, variance: float
    ) -> tuple[float, float]:
        """Return the lag-1 autocorrelation of drifting noise, and its share of the variance."""
        count = self.count
        sampling = self.error**2
        if self.is_evaluation or count < 3:
            return 0.0, 0.0
        if count < SHORT:
            return (0.0, 0.0) if sampling else (SHORT_RHO, 1.0)
        squares = max(float((residuals**2).sum()), TINY)
        if self.span == 0:
            return 0.0, 0.0
        # A fit takes away part of the autocorrelation; without sampling errors, and unless the
        # fit is clear, one standard error is added for caution.
        caution = 0.0 if sampling or self.is_clear else 1 / math.sqrt(count)
        lags = []
        for lag in (1, 2):
            raw = float((residuals[lag:] * residuals[:-lag]).sum()) / squares
            bias = (2 + 4 * max(raw, 0.0)) * pieces / count
            lags.append(raw + bias + caution)
        beyond_sampling = max(1 - sampling / variance, 0.2)
        rho = min(max(lags[0] / beyond_sampling, 0.0), MAX_RHO)
        drift = beyond_sampling
        is_clear = lags[0] > 3 / math.sqrt(count) and lags[1] > 0
        if count >= LONG and is_clear:
            # Of white noise plus AR(1), both lags have the same share, and their ratio is rho.
            least = rho if sampling else min(max(lags[0], 0.0), MAX_RHO)
            ratio = lags[1] / lags[0]
            rho = min(max(ratio, lags[0], least), MAX_RHO)
            drift = min(lags[0] / rho, 1.0)
        return rounded(rho), rounded(drift)


def _edges(count: int, *, coarse: bool) -> Ints:
    """Return where each point to fit begins, then ``count``: a value, or a bucket of them."""
    edge = COARSE_EDGE if coarse else EDGE
    buckets = COARSE_BUCKETS if coarse else BUCKETS
    if count <= 2 * edge + buckets:
        return np.arange(count + 1)
    middle = np.linspace(edge, count - edge, buckets + 1).astype(np.int64)
    last = np.arange(count - edge + 1, count + 1)
    return np.concatenate([np.arange(edge), middle, last])


def _cheapest_cuts(sums: Sums, count: int, least: int, most: int) -> list[list[int]]:
    """Return for 1, 2, … ``most`` pieces the cuts with the least squared residuals."""
    # Row: where a piece stops; column: where it starts
    costs = sums.of_all()
    # As whole numbers, whose sums are exact: of equal fits the earliest cut is taken anywhere.
    total = max(float(costs[count, 0]), TINY)
    costs = np.rint(costs / (total * COST_UNIT))
    places = np.arange(count + 1)
    costs[places[:, None] - places < least] = np.inf
    cheapest = costs[:, 0]  # of the first j points, by one piece
    origins: list[Ints] = []
    found = []
    for pieces in range(1, most + 1):
        if pieces > 1:
            totals = cheapest + costs
            origins.append(np.argmin(totals, axis=1))
            cheapest = totals[places, origins[-1]]
        if not np.isfinite(cheapest[count]):
            break
        cuts = [count]
        for origin in reversed(origins):
            cuts.append(int(origin[cuts[-1]]))
        found.append([0, *reversed(cuts)])
    return found


def _price_of_piece(count: int) -> float:
    """Return what a further piece costs: the highest of ``count`` chi-squares of 3 parameters."""
    log = math.log(count)
    of_log = math.log(math.log(max(count, 3)))
    return min(4 * log, 2 * log + 3 * of_log + 4)


def _lines(values: Floats, weights: Floats, cuts: list[int]) -> Floats:
    """Return the weighted least-squares line of each piece at its values."""
    lines = np.empty(len(values))
    for start, stop in pairwise(cuts):
        weight = weights[start:stop]
        places = np.arange(stop - start, dtype=np.float64)
        places -= (weight * places).sum() / weight.sum()
        spread = float((weight * places**2).sum())
        slope = 0.0
        if spread > 0:
            slope = float((weight * places * values[start:stop]).sum()) / spread
        mean = float((weight * values[start:stop]).sum() / weight.sum())
        lines[start:stop] = mean + slope * places
    return lines
