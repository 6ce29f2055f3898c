"""A curve's values: thinned where they are too many, told in words, drawn small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlreport.choose.detail import evenly
from rlreport.draw.extent import drawable
from rlreport.draw.labels import figure
from rlreport.draw.theme import LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import message

MOST_POINTS = 400
SPARKLINE_POINTS = 50
_WIDTH, _HEIGHT, _MARGIN = 100.0, 24.0, 2.0


@dataclass(frozen=True, slots=True)
class Series:
    """One curve.

    Attributes:
        key: safe field name.
        title: direct label and name in tooltips.
        values: float64 (S,), one a step, NaN where missing.
        low, high: float64 (S,), edges of the band, or None.
        colour: a light colour of the theme.
        dash: dashes and gaps in pixels.
    """

    key: str
    title: str
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    colour: str = LIGHT["policy"]
    dash: tuple[int, ...] = (1, 0)

    @property
    def present(self) -> bool:
        """Whether any step has a value or a band."""
        return self.has_line or self.has_band

    @property
    def has_line(self) -> bool:
        """Whether any step has a value."""
        return bool(np.isfinite(self.values).any())

    @property
    def has_band(self) -> bool:
        """Whether any step has a band."""
        return self.low is not None and bool(np.isfinite(self.low).any())

    def drawable(self) -> Series:
        """The curve as it can be drawn."""
        return replace(
            self,
            values=drawable(self.values),
            low=None if self.low is None else drawable(self.low),
            high=None if self.high is None else drawable(self.high),
        )

    def arrays(self) -> list[Floats]:
        """Everything that the axis must hold."""
        return [array for array in (self.values, self.low, self.high) if array is not None]


SMOOTHING = (0.6, 0.9)
"""Factors of the moving averages on offer."""

LEAST_SMOOTHED = 10
"""Values of a curve from which there is something to smooth."""


def smoothed(values: Floats, factor: float) -> Floats:
    """The exponential moving average, each value weighed by ``factor`` for every later one.

    Weights are normalised, so that the average does not start at 0 (Kingma and Ba (2015), section
    3, as TensorBoard does). Missing values are passed over and stay missing.

    Args:
        values: float64 (S,), NaN where missing.
        factor: in [0, 1).
    """
    result = np.full(len(values), np.nan)
    total = weight = 0.0
    for index in np.flatnonzero(np.isfinite(values)):
        total = factor * total + (1 - factor) * float(values[index])
        weight = factor * weight + (1 - factor)
        result[index] = total / weight
    return result


DASHED = (6, 3)

PALETTE: tuple[tuple[str, tuple[int, ...]], ...] = (
    (LIGHT["policy"], (1, 0)),
    (LIGHT["reference"], DASHED),
    (LIGHT["healthy"], (1, 0)),
    (LIGHT["critical"], (2, 2)),
    (LIGHT["info"], (8, 3)),
    (LIGHT["text"], (1, 0)),
    (LIGHT["muted"], (4, 4)),
    (LIGHT["warning"], (8, 2, 2, 2)),
)
"""Colour and dashes of curves that are neither policy nor reference: told apart by both."""


def every_nth(count: int) -> NDArray[np.int64]:
    """Positions of about MOST_POINTS of ``count`` values at most, evenly, and of the last."""
    every = -(-count // MOST_POINTS)
    return np.unique(np.append(np.arange(0, count, every), count - 1))


def thinned(steps: Floats, series: Sequence[Series]) -> tuple[Floats, list[Series], int]:
    """Means of neighbouring steps where there are too many to tell apart."""
    every = -(-len(steps) // MOST_POINTS)
    if every == 1:
        return steps, list(series), 1
    starts = np.arange(0, len(steps), every)

    def mean(values: Floats) -> Floats:
        finite = np.isfinite(values)
        counts = np.add.reduceat(finite.astype(np.float64), starts)
        sums = np.add.reduceat(np.where(finite, values, 0.0), starts)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    thin = [
        replace(
            one,
            values=mean(one.values),
            low=None if one.low is None else mean(one.low),
            high=None if one.high is None else mean(one.high),
        )
        for one in series
    ]
    centres = mean(steps)
    centres[0], centres[-1] = steps[0], steps[-1]
    return centres, thin, every


def in_words(one: Series, steps: Floats, percent: bool) -> str:
    """First, last, lowest and highest value of a curve as a sentence."""
    finite = np.flatnonzero(np.isfinite(one.values))
    values = one.values[finite]

    def at(index: int) -> str:
        value, step = figure(values[index], percent), float(steps[finite[index]])
        return message("{value} at step {step:count}", value=value, step=step)

    if len(values) == 1:
        return message("{name}: {value}.", name=one.title, value=at(0))
    return message(
        "{name}: {first}, {last}; lowest {lowest}, highest {highest}.",
        name=one.title,
        first=at(0),
        last=at(-1),
        lowest=at(int(values.argmin())),
        highest=at(int(values.argmax())),
    )


def sparkline(values: Floats) -> str:
    """Path data (``d``) of ``values`` in a box 100 wide and 24 high; gaps where NaN.

    Longer series are thinned evenly to SPARKLINE_POINTS. "" when fewer than two are finite.
    """
    values = drawable(values[evenly(len(values), SPARKLINE_POINTS)])
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return ""
    low, high = float(values[finite].min()), float(values[finite].max())
    across = np.linspace(0.0, _WIDTH, len(values))
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    down = _MARGIN + (1.0 - share) * (_HEIGHT - 2 * _MARGIN)
    parts, pen = [], "M"
    for x, y, known in zip(across, down, finite, strict=True):
        if known:
            parts.append(f"{pen}{x:.4g} {y:.3g}")
        pen = "L" if known else "M"
    return "".join(parts)
