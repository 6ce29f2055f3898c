"""Bins with round edges."""

from __future__ import annotations

import numpy as np

from rlreport.draw.extent import LEAST_VARIED
from rlreport.figures.ragged import Floats

MOST_BINS = 24


def bins(values: Floats) -> tuple[float, float, float]:
    """Width, start and end of at most about MOST_BINS bins with round edges.

    Args:
        values: float64, ``drawable``, not empty.
    """
    low, high = float(values.min()), float(values.max())
    raw = high / MOST_BINS - low / MOST_BINS
    largest = max(abs(low), abs(high))
    if raw <= largest * LEAST_VARIED:
        half = max(0.5, largest * 1e-6)
        return 2 * half, low - half, low + half
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= raw))
    start, stop = np.floor(low / step) * step, (np.floor(high / step) + 1) * step
    return step, float(start), float(stop)


def counts(values: Floats, step: float, low: float, high: float) -> list[tuple[float, float, int]]:
    """Start, end and number of ``values`` of each bin that holds any.

    A value on an edge falls into the bin that Vega's ``bin`` transform puts it in, so that a
    chart stays as it is when a page's script brings it to life.
    """
    last = round((high - low) / step) - 1
    places = np.floor(1e-14 + (values - low) / step).astype(np.int64)
    held = np.bincount(np.clip(places, 0, last), minlength=last + 1).tolist()
    return [(low + step * i, low + step * (i + 1), n) for i, n in enumerate(held) if n]
