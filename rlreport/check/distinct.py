"""Distinct-2, the share of distinct bigrams, compared over equal numbers of bigrams.

The more bigrams a sample has, the fewer of them are new, so sizes have to be equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.check.noise import deviate
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import TextSample

DRAWS = 8
"""Random draws of responses that are averaged."""

MOST_BIGRAMS = 20_000
"""Most bigrams in a sample: enough, and quick however long the responses."""


FEWEST_IN_STEP = 20
"""Steps with fewer bigrams have no distinct-2."""


@dataclass(frozen=True, slots=True)
class DistinctFall:
    """Distinct-2 of both windows over the same number of bigrams, and the z of its fall.

    ``series``, float64 (S,), is that of each step, over equal numbers too; NaN with too few.
    """

    first: float
    last: float
    bigrams: int
    z: float
    series: Floats

    @property
    def share(self) -> float:
        """Fraction of the first window's distinct-2 that was lost."""
        return 1 - self.last / self.first


def distinct_fall(run: Run, least: int) -> DistinctFall | None:
    """Compare distinct-2 of both windows; None if either has fewer bigrams than ``least``.

    Whole responses are drawn from each window until both have the same number of bigrams. z
    comes from the scatter of single steps, also at equal numbers.
    """
    if run.first is None or run.tables.ngrams is None:
        return None
    place, responses = _bigrams(run, run.tables.ngrams)
    early, late = len(run.first.steps), len(run.steps) - len(run.last.steps)
    windows = [_joined(responses, place < early), _joined(responses, place >= late)]
    size = min(MOST_BIGRAMS, *(sum(map(len, part)) for part in windows))
    if size < least:
        return None
    steps = [_joined(responses, place == step) for step in range(len(run.steps))]
    sizes = np.array([sum(map(len, part)) for part in steps])
    ends = [*range(early), *range(late, len(steps))]
    # Scatter is judged over as many as all steps of both windows have, the onset over more.
    of_end, of_step = max(sizes[ends].min(), FEWEST_IN_STEP), int(np.median(sizes)) // 2
    series = np.array([_distinct(part, max(of_step, FEWEST_IN_STEP)) for part in steps])
    scatter = np.array([_distinct(steps[place], int(of_end)) for place in ends])
    first, last = scatter[:early], scatter[early:]
    error = np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last))
    z = deviate(float(first.mean() - last.mean()), float(error), len(first) + len(last) - 2)
    before, after = (_distinct(part, size) for part in windows)
    return DistinctFall(before, after, size, z, series)


def _bigrams(run: Run, sample: TextSample) -> tuple[Ints, list[Ints]]:
    """Return the step index and the bigrams of each sampled response.

    Identical answers to one prompt in one step count once.
    """
    rows, units = np.asarray(sample.rows), np.asarray(sample.units, np.int64)
    keys = units[:-1] * len(sample.vocabulary) + units[1:]
    given = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    fresh = ~given.duplicated().to_numpy()
    bounds = zip(
        sample.offsets[:-1][fresh].tolist(), sample.offsets[1:][fresh].tolist(), strict=True
    )
    return run.place[rows[fresh]], [keys[start : max(stop - 1, start)] for start, stop in bounds]


def _joined(responses: list[Ints], chosen: NDArray[np.bool_]) -> list[Ints]:
    return [responses[i] for i in np.flatnonzero(chosen).tolist()]


def _distinct(responses: list[Ints], size: int) -> float:
    """Return distinct-2 over ``size`` bigrams of shuffled responses, NaN if there are fewer."""
    size, found = min(size, MOST_BIGRAMS), 0
    if sum(map(len, responses)) < size:
        return np.nan
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(responses))
        found += len(np.unique(np.concatenate([responses[i] for i in order.tolist()])[:size]))
    return found / (DRAWS * size)
