"""Sparklines: a curve as the path of a small line."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.draw.chart import drawable
from rlreport.draw.smoothing import is_sparse
from rlreport.figures.ragged import Floats, Ints

SPARKLINE_POINTS = 50
# Box of a sparkline, and the margin above and below its line
_WIDTH = 100.0
_HEIGHT = 24.0
_MARGIN = 2.0


def sparkline(values: Floats, steps: Ints | None = None) -> str:
    """Return a line as SVG path data in a box of 100 × 24, "" for fewer than two points.

    ``steps`` are those of the values, ascending; without them, points are evenly spaced.
    """
    values = drawable(values)
    if len(values) < 2:
        return ""
    positions = np.arange(len(values)) if steps is None else steps.astype(np.float64)
    x = _WIDTH * (positions - positions[0]) / (positions[-1] - positions[0])
    if len(values) > SPARKLINE_POINTS:
        # Each of SPARKLINE_POINTS points is the mean of a group of neighbours.
        neighbours = np.arange(len(values)) * SPARKLINE_POINTS // len(values)
        means = pd.DataFrame({"x": x, "y": values}).groupby(neighbours).mean()
        x = means["x"].to_numpy()
        values = means["y"].to_numpy()
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return ""
    # After each gap a new line starts, but lines of sparse values bridge their gaps.
    is_after_gap = np.append(True, ~finite[:-1])
    starts = is_after_gap[finite]
    if is_sparse(values):
        starts[1:] = False
    y = _sparkline_heights(values[finite])
    commands = np.where(starts, "M", "L")
    points = zip(commands.tolist(), x[finite].tolist(), y.tolist(), strict=True)
    return "".join(f"{command}{x:.4g} {y:.3g}" for command, x, y in points)


def _sparkline_heights(values: Floats) -> Floats:
    """Return y of finite values, downwards: the highest value at the margin on top."""
    low = float(values.min())
    high = float(values.max())
    if high > low:
        fractions = (values - low) / (high - low)
    else:  # all values are equal: a line in the middle
        fractions = np.full(len(values), 0.5)
    return _MARGIN + (1.0 - fractions) * (_HEIGHT - 2 * _MARGIN)
