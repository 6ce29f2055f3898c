"""The wall of small charts: what the trainer logged itself, and further columns of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.extent import LEAST_VARIED, Scale, drawable
from rlreport.draw.frame import Frame, floats
from rlreport.draw.labels import figure, label, unique_names
from rlreport.draw.series import PALETTE, Series
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import guide_for
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, told

MOST_METRICS = 24
MOST_COLUMNS = 12
MOST_NAMED = 40
"""Constant columns that are named with their value."""

DECADES = 1000.0
"""Positive values that span more than this factor are drawn on a logarithmic axis."""

_FIRST = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(^|[/_.])(approx_?)?kl",
        r"entropy",
        r"clip_?(ratio|frac)|frac_clipped|ratio",
        r"reward|score|return",
        r"loss",
        r"grad",
        r"length|tokens",
        r"value|critic|vf_|explained",
        r"lr|learning_rate",
    )
)
"""What a reader looks for first, in this order; the rest follows as logged."""


@dataclass(frozen=True, slots=True)
class _Wall:
    """Columns by step that are drawn one by one.

    Attributes:
        prefix: of the charts' names.
        heading: above the charts.
        steps: float64 (S,), ascending.
        values: name -> float64 (S,), as logged or as a mean.
        most: charts at most.
        said: what an axis says of the values.
    """

    prefix: str
    heading: str
    steps: Floats
    values: Mapping[str, Floats]
    most: int
    said: str

    @property
    def varied(self) -> list[str]:
        """Columns that change, the ones that are looked for first."""
        names = [name for name, values in self.values.items() if _varies(values)]
        return sorted(names, key=_rank)

    @property
    def drawn(self) -> list[str]:
        """Columns with a chart: those with guidance before others where they are many."""
        kept = set(sorted(self.varied, key=lambda name: guide_for(name) is None)[: self.most])
        return [name for name in self.varied if name in kept]


def metric_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draws the trainer's own metrics, one small chart each, under the names it gave them.

    What matters first stands first; the range that guidance calls unremarkable is shaded.
    """
    return _charts(_metrics(tables), frame)


def column_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draws the means of further logged columns that are no part of the reward."""
    return _charts(_columns(tables), frame)


def not_drawn(tables: Tables) -> list[str]:
    """Sentences about columns without a chart: constants with their value, and how many more."""
    said = []
    for wall in (_columns(tables), _metrics(tables)):
        if wall is None:
            continue
        still = {n: v for n, v in wall.values.items() if np.isfinite(v).any() and not _varies(v)}
        if still:
            named = [f"{label(n)} {figure(v[np.isfinite(v)][0])}" for n, v in still.items()]
            places = {"heading": wall.heading, "named": " · ".join(named[:MOST_NAMED])}
            if (more := len(named) - MOST_NAMED) > 0:
                said.append(
                    message(
                        "{heading}, constant: {named} and {more:count} more.", more=more, **places
                    )
                )
            else:
                said.append(message("{heading}, constant: {named}.", **places))
        if left := len(wall.varied) - len(wall.drawn):
            said.append(
                plural(
                    "{heading}: {count} more is not drawn.",
                    "{heading}: {count} more are not drawn.",
                    left,
                    heading=wall.heading,
                )
            )
    return said


def _metrics(tables: Tables) -> _Wall | None:
    metrics = tables.metrics
    if metrics.empty or "step" not in metrics:
        return None
    steps = tables.steps["step"]
    extent = Frame(steps.to_numpy(np.float64)).extent
    within = metrics[metrics["step"].between(*extent)].sort_values("step")
    names = [str(name) for name in metrics.columns if name != "step"]
    values = {name: floats(within, name) for name in names}
    return _Wall(
        "metric_",
        message("Trainer metrics"),
        floats(within, "step"),
        values,
        MOST_METRICS,
        message("as logged"),
    )


def _columns(tables: Tables) -> _Wall | None:
    means = tables.extras_by_step
    if means.empty or "step" not in means:
        return None
    by_step = means.drop_duplicates("step", keep="last").sort_values("step")
    names = [name for name in means.columns if name not in ("step", *tables.reward_parts)]
    values = {str(name): floats(by_step, name) for name in names}
    return _Wall(
        "column_",
        message("Further columns of the log"),
        floats(by_step, "step"),
        values,
        MOST_COLUMNS,
        message("mean"),
    )


def _charts(wall: _Wall | None, frame: Frame) -> Iterator[Chart | None]:
    if wall is None or not len(wall.steps):
        return
    own = Frame(wall.steps, frame.findings, frame.extent)
    names = wall.drawn
    for key, name in zip(unique_names(names), names, strict=True):
        # The prefix keeps names such as "step" or "constructor" from being a field of their own.
        field, values = f"{wall.prefix}{key}", wall.values[name]
        axis, note, guide = wall.said, "", guide_for(name)
        if guide is not None:
            places = {"axis": axis, "low": f"{guide.low:g}", "high": f"{guide.high:g}"}
            axis = told("{axis}; shaded: {low} to {high}", places)
            places |= {"meaning": message(guide.meaning), "source": message(guide.source)}
            note = told("Shaded is {low} to {high}: {meaning} ({source}).", places)
        chart = curve_chart(
            own,
            field,
            label(name, 80),
            [Series(field, name, values, None, None, *PALETTE[0])],
            axis=axis,
            right=16,
            labelled=False,
            note=note,
            guide=None if guide is None else (guide.low, guide.high),
            scale=_scale(values),
        )
        yield None if chart is None else replace(chart, group=wall.heading)


def _varies(values: Floats) -> bool:
    """Whether values differ by more than rounding; a lone value is a constant."""
    finite = drawable(values[np.isfinite(values)])
    if len(finite) < 2:
        return False
    return float(np.ptp(finite)) > LEAST_VARIED * float(np.abs(finite).max())


def _scale(values: Floats) -> Scale:
    finite = drawable(values[np.isfinite(values)])
    return "log" if finite.min() > 0 and finite.max() / finite.min() > DECADES else "linear"


def _rank(name: str) -> int:
    return next((i for i, pattern in enumerate(_FIRST) if pattern.search(name)), len(_FIRST))
