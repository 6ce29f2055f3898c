"""Which sampled responses hold which n-gram: counting by integer keys, a window at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.check.windows import Window
from rlreport.tables import NgramSample, Tables

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
LONGEST = 3
"""Units in an n-gram at most."""

MOST_UNITS = 30_000
"""Distinct units considered at most: keys of three of them and a response fit 63 bits."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A stretch of the sampled responses.

    Attributes:
        rows: int64 (S,), indices into the response table.
        steps: int64 (S,), their steps.
        units: int64 (U,), indices into the vocabulary.
        response: int64 (U,), which of the S each unit belongs to.
    """

    rows: Ints
    steps: Ints
    units: Ints
    response: Ints


def sample_of(tables: Tables, ngrams: NgramSample, window: Window | None = None) -> Sample:
    """Return the sampled responses of a window, or of the run."""
    rows = np.asarray(ngrams.rows, dtype=np.int64)
    offsets = np.asarray(ngrams.offsets, dtype=np.int64)
    low, high = 0, len(rows)
    if window is not None:
        low, high = np.searchsorted(rows, (window.rows.start, window.rows.stop)).tolist()
    units = np.asarray(ngrams.units, dtype=np.int64)[offsets[low] : offsets[high]]
    response = np.repeat(np.arange(high - low), np.diff(offsets[low : high + 1]))
    steps = tables.responses["step"].to_numpy()[rows[low:high]]
    return Sample(rows[low:high], steps, units, response)


def holders(sample: Sample, keys: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys (−1 skipped) and how many responses hold each."""
    held = keys >= 0
    if not held.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = np.sort(keys[held] * len(sample.rows) + sample.response[held])
    first = np.append(True, pairs[1:] != pairs[:-1])
    return np.unique(pairs[first] // len(sample.rows), return_counts=True)


def common_units(sample: Sample, least: float, usable: Bools) -> Ints:
    """Return the usable units that at least ``least`` of the responses hold, ascending.

    An n-gram is held by no more responses than its rarest unit, so n-grams of other units
    need no counting.
    """
    keys = np.where(usable[sample.units], sample.units, -1)
    units, counts = holders(sample, keys)
    enough = counts >= least * len(sample.rows) * (1 - 1e-9)
    units, counts = units[enough], counts[enough]
    if len(units) > MOST_UNITS:
        units = units[np.argsort(-counts, kind="stable")[:MOST_UNITS]]
    return np.sort(units)


def ngram_keys(sample: Sample, places: Ints, base: int, n: int) -> Ints:
    """Return the key of the n-gram that starts at each unit, int64 (U,); −1 where there is none.

    Args:
        sample: the responses.
        places: int64 (V,), number of each vocabulary unit in 0 … base − 1, or −1.
        base: how many units are numbered.
        n: length of the n-grams.
    """
    numbers = places[sample.units]
    keys = numbers.copy()
    for shift in range(1, n):
        if shift >= len(numbers):
            return np.full(len(numbers), -1, np.int64)
        following = np.full(len(numbers), -1, np.int64)
        following[:-shift] = numbers[shift:]
        apart = np.ones(len(numbers), np.bool_)
        apart[:-shift] = sample.response[shift:] != sample.response[:-shift]
        keys = np.where((keys < 0) | (following < 0) | apart, -1, keys * base + following)
    return keys


def counts_of(sample: Sample, places: Ints, base: int, n: int, wanted: Ints) -> Ints:
    """Return how many responses hold each wanted key (ascending), int64 like ``wanted``."""
    if not len(wanted):
        return np.zeros(0, np.int64)
    keys = ngram_keys(sample, places, base, n)
    at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    found, times = holders(sample, np.where(wanted[at] == keys, at, -1))
    counts = np.zeros(len(wanted), np.int64)
    counts[found] = times
    return counts


def occurrences(sample: Sample, places: Ints, base: int, n: int, wanted: Ints) -> tuple[Ints, Ints]:
    """Return how often each response holds each wanted key, and where it first stands.

    Returns:
        int64 (G, S) counts, and int64 (G, S) positions from 0, −1 where it is not held.
    """
    keys = ngram_keys(sample, places, base, n)
    at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    hit = np.flatnonzero(wanted[at] == keys)
    shape = (len(wanted), len(sample.rows))
    cell = at[hit] * len(sample.rows) + sample.response[hit]
    counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    starts = np.searchsorted(sample.response, np.arange(len(sample.rows)))
    position = np.full(shape, -1, np.int64)
    # Backwards, so that the first occurrence is the one written last.
    back = hit[::-1]
    position[at[back], sample.response[back]] = back - starts[sample.response[back]]
    return counts, position
