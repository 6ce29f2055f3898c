"""Distinct bigrams of two windows, compared at equal counts: the more there are, the fewer new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.noise import deviate
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats, Ints, row_ends

DRAWS = 8
"""Samples of responses averaged, so that no single draw decides."""

MOST_BIGRAMS = 20_000
"""Bigrams in a sample at most: enough to tell, and quick however long the responses."""

FEWEST_IN_STEP = 20
"""A step with fewer bigrams says nothing about its diversity."""


@dataclass(frozen=True, slots=True)
class DistinctFall:
    """distinct-2 of both windows over as many bigrams, and the z of its fall."""

    first: float
    last: float
    bigrams: int
    z: float

    @property
    def share(self) -> float:
        """Share of the first window's distinct-2 that is lost."""
        return 1 - self.last / self.first


@dataclass(frozen=True, slots=True)
class _Bigrams:
    """Bigrams of some responses as integers, how many each has, and their steps."""

    keys: Ints
    lengths: Ints
    steps: Ints

    def by_step(self) -> dict[int, _Bigrams]:
        parts = {}
        for step in np.unique(self.steps).tolist():
            own = self.steps == step
            keys = self.keys[np.repeat(own, self.lengths)]
            parts[step] = _Bigrams(keys, self.lengths[own], self.steps[own])
        return parts

    def distinct(self, size: int) -> float:
        """Return distinct-2 over ``size`` bigrams of responses drawn in a seeded order."""
        draws = DRAWS if size < len(self.keys) else 1
        starts = np.cumsum(self.lengths) - self.lengths
        found = 0
        for draw in range(draws):
            order = np.random.default_rng(draw).permutation(len(starts))
            total = np.cumsum(self.lengths[order])
            order = order[: int(np.searchsorted(total, size)) + 1]
            lengths = self.lengths[order]
            ends = np.cumsum(lengths)
            at = np.arange(ends[-1]) + np.repeat(starts[order] - ends + lengths, lengths)
            found += len(np.unique(self.keys[at[:size]]))
        return found / (draws * size)


def distinct_fall(run: Run, least: int) -> DistinctFall | None:
    """Compare distinct-2 of both windows; None if either has fewer bigrams than ``least``.

    Whole responses are drawn from each window until both hold as many bigrams. Chance is judged
    by step, again at equal counts.
    """
    if run.first is None:
        return None
    before, after = _bigrams(run, run.first), _bigrams(run, run.last)
    size = min(len(before.keys), len(after.keys), MOST_BIGRAMS)
    if size < least:
        return None
    return DistinctFall(before.distinct(size), after.distinct(size), size, _z(before, after))


def distinct_by_step(run: Run) -> Floats:
    """Return distinct-2 of each step over as many bigrams, float64 (S,); NaN with too few."""
    parts = _bigrams(run, None).by_step()
    sizes = [len(parts[step].keys) if step in parts else 0 for step in run.steps.tolist()]
    size = max(FEWEST_IN_STEP, int(np.median(sizes)) // 2)
    return np.array(
        [
            parts[step].distinct(min(size, MOST_BIGRAMS)) if has >= size else np.nan
            for step, has in zip(run.steps.tolist(), sizes, strict=True)
        ]
    )


def _bigrams(run: Run, window: Window | None) -> _Bigrams:
    """Return the bigrams of a window; an answer given again to the same prompt counts once."""
    sample = run.tables.ngrams
    if sample is None:
        return _Bigrams(*np.zeros((3, 0), np.int64))
    rows = np.asarray(sample.rows)
    start, stop = 0, len(rows)
    if window is not None:
        start, stop = np.searchsorted(rows, (window.rows.start, window.rows.stop)).tolist()
    offsets = np.asarray(sample.offsets[start : stop + 1])
    units = sample.units[offsets[0] : offsets[-1]].astype(np.int64)
    given = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows[start:stop]]
    fresh = ~given.duplicated().to_numpy()
    inside = np.repeat(fresh, np.diff(offsets))
    inside[row_ends(offsets - offsets[0])] = False
    keys = units[:-1] * len(sample.vocabulary) + units[1:]
    lengths = np.maximum(np.diff(offsets) - 1, 0)[fresh]
    return _Bigrams(keys[inside[:-1]], lengths, given["step"].to_numpy()[fresh])


def _z(before: _Bigrams, after: _Bigrams) -> float:
    """Return how far the fall exceeds the scatter of steps, in standard errors."""
    steps = [list(part.by_step().values()) for part in (before, after)]
    size = min(len(step.keys) for part in steps for step in part)
    if size < FEWEST_IN_STEP or min(map(len, steps)) < 2:
        return 0.0
    drawn = min(size, MOST_BIGRAMS)
    first, last = (np.array([step.distinct(drawn) for step in part]) for part in steps)
    error = np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    return deviate(float(first.mean() - last.mean()), float(error), len(first) + len(last) - 2)
