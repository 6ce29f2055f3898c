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

MAX_BIGRAMS = 20_000
"""Most bigrams in a sample: enough, and quick however long the responses."""


MIN_STEP_BIGRAMS = 20
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
    first_stop, last_start = len(run.first.steps), len(run.steps) - len(run.last.steps)
    windows = [_joined(responses, place < first_stop), _joined(responses, place >= last_start)]
    size = min(MAX_BIGRAMS, *(sum(map(len, part)) for part in windows))
    if size < least:
        return None
    steps = [_joined(responses, place == step) for step in range(len(run.steps))]
    sizes = np.array([sum(map(len, part)) for part in steps])
    ends = [*range(first_stop), *range(last_start, len(steps))]
    # The scatter uses as many bigrams as all steps of both windows have, the onset more.
    end_size, step_size = max(sizes[ends].min(), MIN_STEP_BIGRAMS), int(np.median(sizes)) // 2
    series = np.array([_distinct(part, max(step_size, MIN_STEP_BIGRAMS)) for part in steps])
    scatter = np.array([_distinct(steps[place], int(end_size)) for place in ends])
    first, last = scatter[:first_stop], scatter[first_stop:]
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
    answers = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    unique = ~answers.duplicated().to_numpy()
    bounds = zip(
        sample.offsets[:-1][unique].tolist(), sample.offsets[1:][unique].tolist(), strict=True
    )
    bigrams = [keys[start : max(stop - 1, start)] for start, stop in bounds]
    return run.step_index[rows[unique]], bigrams


def _joined(responses: list[Ints], chosen: NDArray[np.bool_]) -> list[Ints]:
    return [responses[i] for i in np.flatnonzero(chosen).tolist()]


def _distinct(responses: list[Ints], size: int) -> float:
    """Return distinct-2 over ``size`` bigrams of shuffled responses, NaN if there are fewer."""
    size, distinct = min(size, MAX_BIGRAMS), 0
    if sum(map(len, responses)) < size:
        return np.nan
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(responses))
        distinct += len(np.unique(np.concatenate([responses[i] for i in order.tolist()])[:size]))
    return distinct / (DRAWS * size)
