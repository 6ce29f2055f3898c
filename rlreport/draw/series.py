"""Curves of charts: values, thinning, smoothing, descriptions and sparklines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from rlreport.draw.axes import drawable, figure
from rlreport.draw.theme import LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import message

MOST_POINTS = 400  # maximum number of points per curve
AVERAGED_POINTS = 250  # maximum number of points with a range, which take more bytes
SPARKLINE_POINTS = 50
_WIDTH, _HEIGHT, _MARGIN = 100.0, 24.0, 2.0

# Decay factors of the moving averages offered to readers; noisy curves use the first one
SMOOTHING = (0.6, 0.9)
LEAST_SMOOTHED = 10  # Minimum number of values of a curve that can be smoothed
# Minimum noise of curves that are smoothed: half the mean squared difference of adjacent values,
# divided by the variance of the values; 1 for white noise
NOISE = 0.08


@dataclass(frozen=True, slots=True)
class Series:
    """A curve over the steps with its style, and optionally a band around it."""

    key: str  # id of the curve in the chart's data, safe as a field name
    title: str  # label at the curve's end and name in tooltips
    values: Floats  # float64 (S,), one value per step, NaN where missing
    # style of the line, see ``theme.Style``
    colour: str = LIGHT["policy"]
    dash: tuple[int, ...] = (1, 0)
    # float64 (S,), lower and upper edge of the band, None without a band
    low: Floats | None = None
    high: Floats | None = None
    # float64 (S,), range of the values that each value is the mean of, else None
    min: Floats | None = None
    max: Floats | None = None

    @property
    def has_line(self) -> bool:
        """Whether the curve has a value at any step."""
        return bool(np.isfinite(self.values).any())

    @property
    def has_band(self) -> bool:
        """Whether the curve has a band at any step."""
        return self.low is not None and bool(np.isfinite(self.low).any())

    @property
    def noisy(self) -> bool:
        """Whether the values fluctuate from step to step more than they follow a trend."""
        values = self.values[np.isfinite(self.values)]
        if len(values) < LEAST_SMOOTHED or not (span := float(np.ptp(values / 2))):
            return False
        steps = np.diff(values / 2 / span)
        turns = np.count_nonzero(steps[1:] * steps[:-1] < 0)
        noise = np.mean(steps**2) / 2 / np.var(values / 2 / span)
        return bool(noise > NOISE and turns > len(steps) / 3)

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays that are not None (values, edges of band and range), by name."""
        items = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: array for name, array in items if isinstance(array, np.ndarray)}

    def map(self, change: Callable[[Floats], Floats]) -> Series:
        """Return a copy with ``change`` applied to the values and to all edges."""
        arrays = {name: change(array) for name, array in self.arrays().items()}
        return replace(self, **arrays)  # type: ignore[arg-type] # arrays only


def smoothed(values: Floats, factor: float) -> Floats:
    """Return the exponential moving average of values; weights decay by ``factor`` per value.

    As in TensorBoard, weights are normalized so that the average does not start near 0 (Kingma
    and Ba (2015), section 3). Missing values are skipped and stay missing.

    Args:
        values: float64 (S,), NaN where missing.
        factor: in [0, 1).
    """
    finite = pd.Series(values).dropna()
    averages = finite.ewm(alpha=1 - factor).mean()
    return averages.reindex(range(len(values))).to_numpy(dtype=np.float64)


def is_sparse(values: Floats) -> bool:
    """Return whether most values have none at the next step; then lines join them across gaps."""
    finite = np.isfinite(values)
    return bool(2 * (finite[1:] & finite[:-1]).sum() < finite.sum() - 1)


def thinned(steps: Floats, series: Sequence[Series]) -> tuple[Floats, list[Series], int]:
    """Average neighbouring steps, and keep their range, if there are more than MOST_POINTS.

    Returns the steps, the curves, and the number of steps averaged per point (1: unchanged).
    """
    if len(steps) <= MOST_POINTS:
        return steps, list(series), 1
    group_size = -(-len(steps) // AVERAGED_POINTS)
    groups = np.arange(len(steps)) // group_size

    def reduced(values: Floats, reduction: str = "mean") -> Floats:
        return pd.Series(values).groupby(groups).agg(reduction).to_numpy(dtype=np.float64)

    group_steps = np.concatenate([steps[:1], reduced(steps)[1:-1], steps[-1:]])
    curves = [
        replace(c.map(reduced), min=reduced(c.values, "min"), max=reduced(c.values, "max"))
        for c in series
    ]
    return group_steps, curves, group_size


def in_words(curve: Series, steps: Floats, percent: bool) -> str:
    """Return a sentence with the first, last, lowest and highest value of a curve."""
    finite = np.flatnonzero(np.isfinite(curve.values))
    values = curve.values[finite]

    def at(index: int) -> str:
        value, step = figure(values[index], percent), float(steps[finite[index]])
        return message("{value} at step {step:count}", value=value, step=step)

    if len(values) == 1:
        return message("{name}: {value}.", name=curve.title, value=at(0))
    return message(
        "{name}: {first}, {last}; lowest {lowest}, highest {highest}.",
        name=curve.title,
        first=at(0),
        last=at(-1),
        lowest=at(int(values.argmin())),
        highest=at(int(values.argmax())),
    )


def sparkline(values: Floats) -> str:
    """Return a sparkline as SVG path data (``d``) in a box 100 wide and 24 high, see ``is_sparse``.

    Of more than SPARKLINE_POINTS values, the lowest and the highest of each of as many groups of
    neighbours as fit are drawn, and both ends. Returns "" if fewer than two values are finite.
    """
    across, values = np.linspace(0.0, _WIDTH, len(values)), drawable(values)
    if is_sparse(values):
        across, values = across[np.isfinite(values)], values[np.isfinite(values)]
    if len(values) > SPARKLINE_POINTS:
        kept = [0, len(values) - 1]
        for group in np.array_split(np.arange(len(values)), SPARKLINE_POINTS // 2 - 1):
            # NaN is neither the lowest nor the highest, unless the whole group is NaN: a gap.
            up, down = (np.nan_to_num(sign * values[group], nan=-np.inf) for sign in (1, -1))
            kept += [group[up.argmax()], group[down.argmax()]]
        across, values = across[np.unique(kept)], values[np.unique(kept)]
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return ""
    low, high = float(values[finite].min()), float(values[finite].max())
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    down = _MARGIN + (1.0 - share) * (_HEIGHT - 2 * _MARGIN)
    starts = ~np.append(False, finite[:-1])
    return "".join(
        f"{'M' if start else 'L'}{x:.4g} {y:.3g}"
        for x, y, start in zip(across[finite], down[finite], starts[finite], strict=True)
    )
