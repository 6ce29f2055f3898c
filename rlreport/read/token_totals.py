"""Sums over all tokens: by token string and bin of steps, and by place in the response.

Floats that are added in another order differ in their last digits. So the totals of a split
depend on the split alone, and those of splits are added along one aligned binary tree over
all splits in their order (``splits.plant``), whoever scans them and whenever.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, finite_sums
from rlreport.rollout import TokenFigures
from rlreport.text.vocabulary import Hashes, grouped, order_of

SUMS = ("kl", "log_ratio", "abs_log_ratio", "prob", "ref_prob", "abs_value_error")
COUNTS = ("count", "log_ratios", "probs", "ref_probs", "value_errors")
"""Occurrences, and how many of them had a finite log-ratio, probability, …"""

_COUNTED = tuple(SUMS.index(name) for name in ("log_ratio", "prob", "ref_prob", "abs_value_error"))
MOST_TOKENS = 1 << 18
DECILES = 10
_BIN_BITS = 5
MOST_BINS = 1 << _BIN_BITS
_LARGEST = 2.0**40
"""Larger values count as this: k3 may be infinite."""


@dataclass(slots=True)
class TokenTotals:
    """Totals of some splits: one entry per (bin of steps, token), ascending by both.

    A bin is ``step >> shift``, with the smallest shift that leaves at most 32 bins: a finer
    bin lies wholly in one coarser bin.

    Attributes:
        shift: see above.
        steps: int64, distinct steps of the tokens, ascending.
        bins: int64 (E,).
        tokens: uint64 (E,), hash of the token string.
        counts: int64 (5, E), a row for each of COUNTS.
        sums: float64 (6, E), a row for each of SUMS, what is not finite left out.
        tenths: int64 (10,), tokens with a critic's figures by tenth of the response.
        tenth_sums: float64 (3, 10), their summed abs(value - return), value and return.
        dropped: token strings beyond the most that are kept were left out.
    """

    shift: int = 0
    steps: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    bins: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tokens: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    counts: Ints = field(default_factory=lambda: np.zeros((len(COUNTS), 0), dtype=np.int64))
    sums: Floats = field(default_factory=lambda: np.zeros((len(SUMS), 0)))
    tenths: Ints = field(default_factory=lambda: np.zeros(DECILES, dtype=np.int64))
    tenth_sums: Floats = field(default_factory=lambda: np.zeros((3, DECILES)))
    dropped: bool = False


def totals_of(
    steps: Ints, offsets: Ints, ids: NDArray[np.int32], figures: TokenFigures, hashes: Hashes
) -> TokenTotals:
    """Return the totals of some responses' tokens.

    Args:
        steps: int64 (R,), step of each response.
        offsets: int64 (R + 1,), where each one's tokens start.
        ids: int32 (N,), number of each token's string, -1 where none is logged.
        figures: per token, (N,) each.
        hashes: uint64 (V,), of the strings by number.
    """
    totals = TokenTotals()
    value, returns = figures.value, figures.return_
    error = None if figures.value_error is None else np.abs(figures.value_error)
    if value is not None and returns is not None and error is not None:
        totals.tenths, totals.tenth_sums = _tenths(offsets, error, value, returns)
    named = ids >= 0
    if not named.any():
        return totals
    lengths = np.add.reduceat(np.append(named, False), offsets[:-1], dtype=np.int64)
    lengths[offsets[1:] == offsets[:-1]] = 0
    ratio = figures.log_ratio
    magnitude = None if ratio is None else np.abs(ratio)
    sources = [figures.kl, ratio, magnitude, figures.prob, figures.ref_prob, error]
    if not named.all():
        ids = ids[named]
        sources = [None if values is None else values[named] for values in sources]
    totals.steps = np.unique(steps[lengths > 0])
    totals.shift = shift_of(totals.steps)
    bins = np.unique(totals.steps >> totals.shift)
    keys = ids.astype(np.int64)
    if len(bins) > 1:
        of_row = np.searchsorted(bins, steps >> totals.shift) * len(hashes)
        keys += np.repeat(of_row, lengths)
    used, places = _numbered(keys, len(bins) * len(hashes))
    # Numbers of strings mean nothing elsewhere: entries stand in the order of their hashes.
    entry_bins, tokens = bins[used // len(hashes)], hashes[used % len(hashes)]
    order = order_of(_keys(entry_bins, tokens, bins))
    totals.bins, totals.tokens = entry_bins[order], tokens[order]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    places = rank[places]
    count = np.bincount(places, minlength=len(order))
    of_figures = [_finite(places, sources[i], count) for i in _COUNTED]
    totals.counts = np.stack([count, *of_figures])
    totals.sums = np.stack([_sums(places, values, len(order)) for values in sources])
    return totals


def merge_totals(left: TokenTotals, right: TokenTotals) -> TokenTotals:
    """Add the totals of later splits to those of earlier ones."""
    merged = TokenTotals(
        tenths=left.tenths + right.tenths,
        tenth_sums=left.tenth_sums + right.tenth_sums,
        dropped=left.dropped or right.dropped,
        steps=np.union1d(left.steps, right.steps),
    )
    merged.shift = shift_of(merged.steps)
    bins = np.concatenate([part.bins >> (merged.shift - part.shift) for part in (left, right)])
    tokens = np.concatenate([left.tokens, right.tokens])
    order, starts = grouped(_keys(bins, tokens, np.unique(merged.steps >> merged.shift)))
    merged.bins, merged.tokens = bins[order[starts]], tokens[order[starts]]
    keep = _kept(merged)
    entry = np.zeros(len(order), dtype=np.int64)
    entry[starts[1:]] = 1
    place = np.empty_like(entry)
    place[order] = np.cumsum(entry)

    def added(values: NDArray[np.generic]) -> Floats:
        # In this order, so that the left's entries of a bin come first.
        sums: Floats = np.bincount(place, values, len(starts)).astype(np.float64, copy=False)
        return sums if keep is None else sums[keep]

    size = len(starts) if keep is None else len(keep)
    merged.counts = np.empty((len(COUNTS), size), dtype=np.int64)
    merged.sums = np.empty((len(SUMS), size))
    # Row by row: all of both parts at once would be a third copy of each.
    for i in range(len(COUNTS)):
        merged.counts[i] = added(np.concatenate([left.counts[i], right.counts[i]]))
    for i in range(len(SUMS)):
        merged.sums[i] = added(np.concatenate([left.sums[i], right.sums[i]]))
    if keep is not None:
        merged.bins, merged.tokens, merged.dropped = merged.bins[keep], merged.tokens[keep], True
    return merged


def shift_of(steps: Ints) -> int:
    """Return the smallest shift with which ascending distinct steps fall into 32 bins or fewer."""
    shift = 0
    while len(steps) > MOST_BINS:
        steps = np.unique(steps >> 1)
        shift += 1
    return shift


def _kept(merged: TokenTotals) -> Ints | None:
    """Return the entries of the most tokens that are kept, None where there are not more."""
    if len(merged.tokens) <= MOST_TOKENS:
        return None
    found = np.sort(merged.tokens)  # several times as fast as ``np.unique``
    found = found[np.append(True, found[1:] != found[:-1])]
    if len(found) <= MOST_TOKENS:
        return None
    # The smallest hashes are the same choice whatever is merged first.
    return np.flatnonzero(merged.tokens <= found[MOST_TOKENS - 1])


def _keys(bins: Ints, tokens: Hashes, known: Ints) -> Hashes:
    """Return keys that ascend by bin and token; ``known`` are all bins, at most 32, ascending."""
    place = np.searchsorted(known, bins).astype(np.uint64)
    return (place << np.uint64(64 - _BIN_BITS)) | (tokens >> np.uint64(_BIN_BITS))


def _numbered(keys: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, and the place of each key among them."""
    if most > 16 * len(keys):
        return np.unique(keys, return_inverse=True)
    # Marking the keys that occur is cheaper than sorting them.
    seen = np.zeros(most, dtype=bool)
    seen[keys] = True
    used = np.flatnonzero(seen)
    place = np.empty(most, dtype=np.int64)
    place[used] = np.arange(len(used))
    return used, place[keys]


def _finite(places: Ints, values: Floats | None, count: Ints) -> Ints:
    """Count the finite values, of which there are at most ``count``."""
    if values is None:
        return np.zeros_like(count)
    finite = np.isfinite(values)
    return count if finite.all() else np.bincount(places[finite], minlength=len(count))


def _sums(places: Ints, values: Floats | None, size: int) -> Floats:
    if values is None:
        return np.zeros(size)
    if not np.abs(values).max() <= _LARGEST:
        values = np.clip(np.where(np.isnan(values), 0.0, values), -_LARGEST, _LARGEST)
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def _tenths(offsets: Ints, error: Floats, value: Floats, returns: Floats) -> tuple[Ints, Floats]:
    """Sum by tenth of the response: token t of T belongs to tenth floor(10 t / T)."""
    lengths = np.diff(offsets)
    tenths = np.arange(DECILES + 1)
    cuts = offsets[:-1, None] + -(-lengths[:, None] * tenths // DECILES)
    pieces = np.append(cuts[:, :-1].reshape(-1), offsets[-1])
    decile = np.tile(tenths[:-1], len(lengths))
    count, total = finite_sums(error, pieces)
    known = np.isfinite(error)
    if not known.all():
        value, returns = np.where(known, value, np.nan), np.where(known, returns, np.nan)
    figures = [total, *(finite_sums(values, pieces)[1] for values in (value, returns))]
    counts = np.bincount(decile, count, DECILES).astype(np.int64)
    return counts, np.stack([np.bincount(decile, values, DECILES) for values in figures])
