"""Which sampled responses hold which n-gram: counting by integer keys, a window at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import Tables, TextSample

Bools = NDArray[np.bool_]
LONGEST = 3
"""Units in an n-gram at most."""

PRIOR = 20.0
"""Weight of the Dirichlet prior, in responses."""

MOST_UNITS = 30_000
"""Distinct units considered at most: keys of three of them and a response fit 63 bits."""


MOST_AT_ONCE = 1 << 19
"""Units looked at side by side, so that memory does not grow with the length of responses."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A stretch of the sampled responses.

    Attributes:
        rows: int64 (S,), indices into the response table.
        steps: int64 (S,), their steps.
        offsets: int64 (S + 1,), where each response's units start, from 0.
        units: int32 (U,), indices into the vocabulary, −1 for what is not in it.
    """

    rows: Ints
    steps: Ints
    offsets: Ints
    units: NDArray[np.int32]

    @property
    def response(self) -> Ints:
        """Which of the S each unit belongs to, int64 (U,)."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.offsets))

    def between(self, start: int, stop: int) -> Sample:
        """Return some consecutive responses."""
        offsets = self.offsets[start : stop + 1]
        units = self.units[offsets[0] : offsets[-1]]
        return Sample(self.rows[start:stop], self.steps[start:stop], offsets - offsets[0], units)

    def parts(self) -> Iterator[tuple[int, Sample]]:
        """Yield consecutive parts of about MOST_AT_ONCE units, each with its first response."""
        start = 0
        while start < len(self.rows):
            most = self.offsets[start] + MOST_AT_ONCE
            stop = int(np.searchsorted(self.offsets, most, side="right")) - 1
            stop = max(stop, start + 1)
            yield start, self.between(start, stop)
            start = stop


def sample_of(tables: Tables, ngrams: TextSample, window: Window | None = None) -> Sample:
    """Return the sampled responses of a window, or of the run."""
    rows = np.asarray(ngrams.rows, dtype=np.int64)
    offsets = np.asarray(ngrams.offsets, dtype=np.int64)
    steps = tables.responses["step"].to_numpy()[rows]
    units = np.asarray(ngrams.units, dtype=np.int32)
    low, high = 0, len(rows)
    if window is not None:
        low, high = np.searchsorted(rows, (window.rows.start, window.rows.stop)).tolist()
    return Sample(rows, steps, offsets, units).between(low, high)


def holders(sample: Sample, keys_of: Callable[[Sample], Ints]) -> tuple[Ints, Ints]:
    """Return the distinct keys and how many responses hold each, int64 (K,) each.

    ``keys_of`` gives the key of each unit of a part of the sample, int64; −1 for none.
    """
    found: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for _, part in sample.parts():
        keys = keys_of(part)
        held = keys >= 0
        pairs = np.sort(keys[held] * len(part.rows) + part.response[held])
        first = np.ones(len(pairs), np.bool_)
        first[1:] = pairs[1:] != pairs[:-1]
        found.append(np.unique(pairs[first] // len(part.rows), return_counts=True))
    keys, inverse = np.unique(np.concatenate([k for k, _ in found]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, inverse, np.concatenate([c for _, c in found]))
    return keys, counts


def least_holders(sample: Sample, share: float) -> float:
    """Return how many responses of a sample are a share of them, or a hair's breadth less."""
    return share * len(sample.rows) * (1 - 1e-9)


def common_units(sample: Sample, least: float, usable: Bools) -> Ints:
    """Return the usable units that at least ``least`` of the responses hold, ascending.

    An n-gram is held by no more responses than its rarest unit, so n-grams of other units
    need no counting.
    """

    def usable_units(part: Sample) -> Ints:
        return np.where(usable[part.units], part.units.astype(np.int64), -1)

    units, counts = holders(sample, usable_units)
    enough = counts >= least_holders(sample, least)
    units, counts = units[enough], counts[enough]
    if len(units) > MOST_UNITS:
        units = units[np.argsort(-counts, kind="stable")[:MOST_UNITS]]
    return np.sort(units)


def ngram_keys(sample: Sample, places: Ints, base: int, n: int) -> Ints:
    """Return the key of the n-gram that starts at each unit, int64 (U,); −1 where there is none.

    ``places``, int64 (V,), numbers each vocabulary unit in 0 … base − 1; −1 leaves it out.
    """
    numbers = places[sample.units]
    response = sample.response
    keys = numbers.copy()
    for shift in range(1, n):
        if shift >= len(numbers):
            return np.full(len(numbers), -1, np.int64)
        following = np.full(len(numbers), -1, np.int64)
        following[:-shift] = numbers[shift:]
        apart = np.ones(len(numbers), np.bool_)
        apart[:-shift] = response[shift:] != response[:-shift]
        keys = np.where((keys < 0) | (following < 0) | apart, -1, keys * base + following)
    return keys


def counts_of(sample: Sample, places: Ints, base: int, n: int, wanted: Ints) -> Ints:
    """Return how many responses hold each wanted key (ascending), int64 like ``wanted``."""
    if not len(wanted):
        return np.zeros(0, np.int64)

    def wanted_keys(part: Sample) -> Ints:
        at, hit = _found(ngram_keys(part, places, base, n), wanted)
        return np.where(hit, at, -1)

    found, times = holders(sample, wanted_keys)
    counts = np.zeros(len(wanted), np.int64)
    counts[found] = times
    return counts


def occurrences(sample: Sample, places: Ints, base: int, n: int, wanted: Ints) -> tuple[Ints, Ints]:
    """Return how often each response holds each wanted key, and where it first stands.

    Returns:
        int64 (G, S) counts, and int64 (G, S) positions from 0, −1 where it is not held.
    """
    shape = (len(wanted), len(sample.rows))
    counts = np.zeros(shape, np.int64)
    position = np.full(shape, -1, np.int64)
    for start, part in sample.parts():
        at, found = _found(ngram_keys(part, places, base, n), wanted)
        # Backwards, so that the first occurrence is the one written last.
        hit = np.flatnonzero(found)[::-1]
        response = part.response[hit]
        np.add.at(counts, (at[hit], start + response), 1)
        position[at[hit], start + response] = hit - part.offsets[response]
    return counts, position


def log_odds_z(after: Floats, of_after: int, before: Floats, of_before: int) -> Floats:
    """Return the z of the log-odds ratio with an informative Dirichlet prior.

    Monroe, Colaresi and Quinn 2008, "Fightin' Words", equations 15, 19 and 22, on counts of
    responses: the prior of an n-gram is its share of both samples, worth ``PRIOR`` responses.
    """
    share = (after + before + 0.5) / (of_after + of_before + 1)
    prior = PRIOR * share
    odds = np.log((after + prior) / (of_after + PRIOR - after - prior))
    odds -= np.log((before + prior) / (of_before + PRIOR - before - prior))
    z: Floats = odds / np.sqrt(1 / (after + prior) + 1 / (before + prior))
    return z


def _found(keys: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Return where each key stands, or would, among the wanted ones, and whether it does."""
    at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    return at, wanted[at] == keys
