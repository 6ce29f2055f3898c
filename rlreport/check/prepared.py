"""Prepare a series of values for a fit: without gaps, repetitions by the logger and spikes.

Rule R0 of docs/checks.md, "How a curve is read".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded, significant

# A logger repeats its last value if most runs of equal values are as long as each other
MIN_REPEATED = 10
REPEATED_RUNS = 6
FEWEST_RUNS = 3
REPEATED_SHARE = 0.8

# A spike lies beyond both neighbours by this many standard deviations of the noise. In shorter
# series, or if a larger share of the values does, such values are the noise itself
SPIKE_Z = 8.0
SPIKE_LENGTH = 50
SPIKE_SHARE = 0.02
# Median of |x| if x is standard normal, inverted
NORMAL_MEDIAN = 1.4826

# A constant end is a piece of its own if it is half of the series, three times as long as equal
# runs elsewhere, and most of at least 20 other values lie on one side of it
END_SHARE = 0.5
END_RUNS = 3
END_OTHERS = 20
END_SIDE = 0.6
LEAST_BETWEEN = 5

# A size is read as a logarithm if it spans more than one decade
DECADE = 10.0


class Kind(StrEnum):
    """What the values of a series are, which decides how they are read."""

    SERIES = "series"  # one mean of each step
    SIZE = "size"  # the same, of a positive quantity that may span decades
    # far apart, on the same prompts: independent of each other
    EVALUATIONS = "evaluations"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The values of a series that are fitted, float64 (n,), and what they were made of.

    ``values`` are divided by ``scale``, so that their squares are finite, or are logarithms of
    ``raw``. A spike is replaced by the mean of its neighbours.
    """

    steps: Ints  # int64 (n,), the step of each value, or the first step of a repeated value
    until: Ints  # int64 (n,), the last step of each value
    raw: Floats  # as logged, finite
    values: Floats
    error: float  # standard error of sampling of a value, as the root mean square; 0 if unknown
    errors: Floats | None  # that of each value, in the unit of ``raw``; None if unknown
    kind: Kind
    is_log: bool
    scale: float
    spikes: Ints  # indices of the spikes

    @property
    def is_evaluation(self) -> bool:
        return self.kind is Kind.EVALUATIONS

    def __len__(self) -> int:
        return len(self.raw)

    def in_units(self, value: float) -> float:
        """Return a value of the fit in the unit of the logged ones."""
        if self.is_log:
            return rounded(np.exp(value))
        return rounded(value * self.scale)


def prepare(steps: Ints, values: Floats, errors: Floats | None, kind: Kind) -> Prepared:
    """Return the finite values of a series, ready to be fitted; see ``read_curve``."""
    finite = np.isfinite(values)
    steps = steps[finite]
    raw = values[finite]
    until = steps
    if errors is not None:
        errors = errors[finite]
    starts = _starts_of_repeated(raw)
    if starts is not None:
        until = steps[np.append(starts[1:], len(steps)) - 1]
        steps = steps[starts]
        raw = raw[starts]
        errors = None
    is_log = kind is Kind.SIZE and spans_decades(raw)
    scale = float(np.abs(raw).max(initial=0.0)) or 1.0
    if is_log:
        scale = 1.0
        errors = None
        positive = raw[raw > 0]
        # A zero has no logarithm: it counts as a tenth of the smallest other value.
        fitted = significant(np.log(np.maximum(raw, positive.min() / 10)))
    else:
        fitted = raw / scale
    error = 0.0
    if errors is not None and np.isfinite(errors).any():
        error = rounded(np.sqrt(np.nanmean((errors / scale) ** 2)))
    spikes = np.empty(0, np.int64)
    if kind is not Kind.EVALUATIONS:
        spikes = _spikes(fitted, error)
        fitted = _without(fitted, spikes)
    return Prepared(
        steps=steps,
        until=until,
        raw=raw,
        values=fitted,
        error=error,
        errors=errors if error else None,
        kind=kind,
        is_log=is_log,
        scale=scale,
        spikes=spikes,
    )


def _starts_of_repeated(values: Floats) -> Ints | None:
    """Return where each run of equal values starts if a logger repeated each value, else None."""
    if len(values) < MIN_REPEATED:
        return None
    changes = np.flatnonzero(np.diff(values)) + 1
    # without the first and the last run, which may be cut off
    lengths = np.diff(changes)
    if len(lengths) < FEWEST_RUNS:
        return None
    usual = int(np.median(lengths))
    if usual < 2:
        return None
    ends = (changes[0], len(values) - changes[-1])
    if max(ends) > usual:
        return None  # constant for long: that is no repetition
    equal = float((lengths == usual).mean())
    enough = REPEATED_SHARE if len(lengths) >= REPEATED_RUNS else 1.0
    if equal < enough:
        return None
    return np.concatenate([[0], changes])


def spans_decades(values: Floats) -> bool:
    """Return whether values are not negative and most lie further apart than a decade."""
    positive = values[values > 0]
    if 2 * len(positive) <= len(values) or values.min(initial=0.0) < 0:
        return False
    low, high = np.quantile(positive, (0.05, 0.95))
    return bool(high > DECADE * low)


def _spikes(values: Floats, error: float) -> Ints:
    """Return the indices of single values that stand out from both neighbours."""
    none = np.empty(0, np.int64)
    if len(values) < SPIKE_LENGTH:
        return none
    inner = values[1:-1]
    before = values[:-2]
    after = values[2:]
    # The second difference of independent noise has 1 + 4 + 1 times its variance.
    bends = before - 2 * inner + after
    noise = NORMAL_MEDIAN * float(np.median(np.abs(bends))) / np.sqrt(6)
    if noise == 0:
        return none
    above = inner - np.maximum(before, after)
    below = np.minimum(before, after) - inner
    beyond = np.maximum(above, below)
    found = np.flatnonzero(beyond > SPIKE_Z * max(noise, error)) + 1
    if len(found) > max(1, SPIKE_SHARE * len(values)):
        return none
    return found


def _without(values: Floats, spikes: Ints) -> Floats:
    if not len(spikes):
        return values
    smooth = values.copy()
    smooth[spikes] = (values[spikes - 1] + values[spikes + 1]) / 2
    return smooth


def constant_ends(values: Floats) -> tuple[int, int]:
    """Return how many equal values at the start, and at the end, are a piece of their own.

    Such an end has no noise, and would dilute that of the other values. Zeros that are common in
    the whole series are no end.
    """
    count = len(values)
    changes = np.flatnonzero(np.diff(values)) + 1
    starts = np.concatenate([[0], changes])
    lengths = np.diff(np.append(starts, count))
    of_runs = values[starts]
    after_head = values[lengths[0] :]
    head = _end_length(values[0], lengths, of_runs, after_head)
    before_tail = values[: count - lengths[-1]]
    tail = _end_length(
        values[-1],
        lengths[::-1],
        of_runs[::-1],
        before_tail,
    )
    if count - head - tail < LEAST_BETWEEN:
        return 0, 0  # a fit finds two constant halves by itself
    return head, tail


def _end_length(value: float, lengths: Ints, of_runs: Floats, others: Floats) -> int:
    """Return the length of the first run if it is a piece of its own, else 0."""
    if len(others) < END_OTHERS:
        return 0
    equal_runs: NDArray[np.int64] = lengths[1:][of_runs[1:] == value]
    count = lengths[0] + len(others)
    least = max(END_SHARE * count, END_RUNS * equal_runs.max(initial=0))
    side = max((others > value).mean(), (others < value).mean())
    return int(lengths[0]) if lengths[0] >= least and side >= END_SIDE else 0
