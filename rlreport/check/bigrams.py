"""Distinct bigrams of two windows, compared at equal counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.ngram_counts import sample_of
from rlreport.check.noise import deviate
from rlreport.check.run import Run
from rlreport.check.windows import Window, whole
from rlreport.figures.ragged import Floats, Ints, row_ends
from rlreport.tables import Tables, TextSample

DRAWS = 8
"""Samples of responses averaged, so that no single draw decides."""

MOST_BIGRAMS = 20_000
"""Bigrams in a sample at most: enough to tell, and quick however long the responses."""

FEWEST_IN_STEP = 20
"""A step with fewer bigrams says nothing about its diversity."""


@dataclass(frozen=True, slots=True)
class DistinctFall:
    """distinct-2 of both windows over as many bigrams, the share lost and its z."""

    first: float
    last: float
    bigrams: int
    z: float

    @property
    def share(self) -> float:
        """Share of the first window's distinct-2 that is lost."""
        return 1 - self.last / self.first


def distinct_fall(tables: Tables, first: Window, last: Window, least: int) -> DistinctFall | None:
    """Compare the windows' distinct-2, or return None if either has fewer bigrams than ``least``.

    The more bigrams, the fewer of them are new: whole responses are drawn, seeded, from
    each window until both hold as many. Chance is judged by step, again at equal counts.
    """
    if tables.ngrams is None:
        return None
    before, after = (_bigrams(tables, tables.ngrams, w) for w in (first, last))
    size = min(len(before.keys), len(after.keys))
    if size < least:
        return None
    drawn = min(size, MOST_BIGRAMS)
    return DistinctFall(_distinct(before, drawn), _distinct(after, drawn), drawn, _z(before, after))


@dataclass(frozen=True, slots=True)
class _Bigrams:
    """Bigrams of some responses as integers, how many each has, and their steps."""

    keys: Ints
    lengths: Ints
    steps: Ints

    def of_step(self, step: int) -> _Bigrams:
        chosen = self.steps == step
        keys = self.keys[np.repeat(chosen, self.lengths)]
        return _Bigrams(keys, self.lengths[chosen], self.steps[chosen])


def distinct_by_step(run: Run) -> Floats:
    """Return distinct-2 of each step over as many bigrams, float64 (S,); NaN with too few."""
    found = np.full(len(run.steps), np.nan)
    if run.tables.ngrams is None:
        return found
    everything = _bigrams(run.tables, run.tables.ngrams, whole(run.tables))
    parts = [everything.of_step(step) for step in run.steps.tolist()]
    sizes = np.array([len(part.keys) for part in parts])
    size = max(FEWEST_IN_STEP, int(np.median(sizes)) // 2)
    for i in np.flatnonzero(sizes >= size).tolist():
        found[i] = _distinct(parts[i], min(size, MOST_BIGRAMS))
    return found


def _bigrams(tables: Tables, ngrams: TextSample, window: Window) -> _Bigrams:
    """Return the bigrams of a window; an answer given again to the same prompt counts once."""
    sample = sample_of(tables, ngrams, window)
    lengths = np.maximum(np.diff(sample.offsets) - 1, 0)
    given = tables.responses[["step", "prompt_id", "response_hash"]].iloc[sample.rows]
    fresh = ~given.duplicated().to_numpy()
    inside = np.repeat(fresh, np.diff(sample.offsets))
    inside[row_ends(sample.offsets)] = False
    base = len(ngrams.vocabulary)
    keys = sample.units[:-1].astype(np.int64) * base + sample.units[1:]
    return _Bigrams(keys[inside[:-1]], lengths[fresh], sample.steps[fresh])


def _distinct(bigrams: _Bigrams, size: int) -> float:
    """Return distinct-2 over ``size`` bigrams of responses drawn in a seeded order."""
    draws = DRAWS if size < len(bigrams.keys) else 1
    starts = np.cumsum(bigrams.lengths) - bigrams.lengths
    found = 0
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(starts))
        total = np.cumsum(bigrams.lengths[order])
        order = order[: int(np.searchsorted(total, size)) + 1]
        lengths = bigrams.lengths[order]
        ends = np.cumsum(lengths)
        at = np.arange(ends[-1]) + np.repeat(starts[order] - ends + lengths, lengths)
        keys = np.sort(bigrams.keys[at[:size]])
        found += 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
    return found / (draws * size)


def _z(before: _Bigrams, after: _Bigrams) -> float:
    """Return how far the fall exceeds the scatter of steps, in standard errors."""
    steps = [[part.of_step(s) for s in np.unique(part.steps).tolist()] for part in (before, after)]
    size = min(len(step.keys) for part in steps for step in part)
    if size < FEWEST_IN_STEP or min(map(len, steps)) < 2:
        return 0.0
    drawn = min(size, MOST_BIGRAMS)
    first, last = (np.array([_distinct(step, drawn) for step in part]) for part in steps)
    error = np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    return deviate(float(first.mean() - last.mean()), float(error), len(first) + len(last) - 2)
