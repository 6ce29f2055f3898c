"""Sparklines: the path of a series in a small box, without axes."""

from __future__ import annotations

import numpy as np

from rlreport.choose.detail import evenly
from rlreport.draw.extent import drawable
from rlreport.figures.ragged import Floats

WIDTH, HEIGHT, MARGIN = 100.0, 24.0, 2.0
MOST_POINTS = 50


def sparkline(values: Floats) -> str:
    """Path data (``d``) of ``values`` in a box 100 wide and 24 high; gaps where NaN.

    Longer series are thinned evenly to MOST_POINTS. "" when fewer than two are finite.
    """
    values = drawable(values[evenly(len(values), MOST_POINTS)])
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return ""
    low, high = float(values[finite].min()), float(values[finite].max())
    across = np.linspace(0.0, WIDTH, len(values))
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    down = MARGIN + (1.0 - share) * (HEIGHT - 2 * MARGIN)
    parts, pen = [], "M"
    for x, y, known in zip(across, down, finite, strict=True):
        if known:
            parts.append(f"{pen}{x:.4g} {y:.3g}")
        pen = "L" if known else "M"
    return "".join(parts)
