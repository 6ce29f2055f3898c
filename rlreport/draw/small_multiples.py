"""One small chart per trainer metric and per further column of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rlreport.draw.axes import LEAST_VARIED, Scale, drawable
from rlreport.draw.chart import Chart
from rlreport.draw.curves import Frame, curve_chart, floats
from rlreport.draw.labels import figure, label, unique_names
from rlreport.draw.series import Series
from rlreport.figures.ragged import Floats
from rlreport.metrics.guidance import guide_for
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, told

MOST_METRICS = 24
MOST_COLUMNS = 12
MOST_NAMED = 40
"""Constant columns that are named with their value."""

DECADES = 1000.0
"""Positive values that span more than this factor are drawn on a logarithmic axis."""

_FIRST = (
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
"""What a reader looks for first, in this order; the rest follows as logged."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns by step that are drawn one by one.

    Attributes:
        prefix: of the charts' names: columns may be named "step" or "constructor".
        heading: above the charts.
        axis: what the values are.
        most: charts at most.
        steps: float64 (S,), ascending.
        values: name -> float64 (S,), as logged or as a mean.
    """

    prefix: str
    heading: str
    axis: str
    most: int
    steps: Floats
    values: Mapping[str, Floats]

    @property
    def varied(self) -> list[str]:
        """Columns that change, the ones that are looked for first."""
        return sorted((name for name in self.values if _varies(self.values[name])), key=_rank)

    @property
    def drawn(self) -> list[str]:
        """Columns with a chart: those with guidance before others where they are many."""
        kept = set(sorted(self.varied, key=lambda name: guide_for(name) is None)[: self.most])
        return [name for name in self.varied if name in kept]


def metric_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draw the trainer's own metrics, one small chart each, under the names it gave them.

    What matters first stands first; the range that guidance calls unremarkable is shaded.
    """
    return _charts(_metrics(tables), frame)


def column_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draw the means of further logged columns that are no part of the reward."""
    return _charts(_further_columns(tables), frame)


def not_drawn(tables: Tables) -> list[str]:
    """Return sentences about columns without a chart: constants with their value, how many more."""
    notes = []
    for columns in (_further_columns(tables), _metrics(tables)):
        finite = {name: values[np.isfinite(values)] for name, values in columns.values.items()}
        constant = [
            f"{label(name)} {figure(values[0])}"
            for name, values in finite.items()
            if len(values) and not _varies(values)
        ]
        if constant:
            places = {"heading": columns.heading, "named": " · ".join(constant[:MOST_NAMED])}
            more = len(constant) - MOST_NAMED
            notes.append(
                message("{heading}, constant: {named} and {more:count} more.", more=more, **places)
                if more > 0
                else message("{heading}, constant: {named}.", **places)
            )
        if left := len(columns.varied) - len(columns.drawn):
            notes.append(
                plural(
                    "{heading}: {count} more is not drawn.",
                    "{heading}: {count} more are not drawn.",
                    left,
                    heading=columns.heading,
                )
            )
    return notes


def _metrics(tables: Tables) -> _Columns:
    metrics = tables.metrics
    if "step" in metrics:
        extent = Frame(floats(tables.steps, "step")).extent
        metrics = metrics[metrics["step"].between(*extent)].sort_values("step")
    return _Columns(
        "metric_",
        message("Trainer metrics"),
        message("as logged"),
        MOST_METRICS,
        floats(metrics, "step"),
        {name: floats(metrics, name) for name in map(str, metrics) if name != "step"},
    )


def _further_columns(tables: Tables) -> _Columns:
    means = tables.extras_by_step
    if "step" in means:
        means = means.drop_duplicates("step", keep="last").sort_values("step")
    left_out = {"step", *tables.reward_parts}
    return _Columns(
        "column_",
        message("Further columns of the log"),
        message("mean"),
        MOST_COLUMNS,
        floats(means, "step"),
        {name: floats(means, name) for name in map(str, means) if name not in left_out},
    )


def _charts(columns: _Columns, frame: Frame) -> Iterator[Chart | None]:
    names = columns.drawn
    within = Frame(columns.steps, frame.findings, frame.extent)
    for key, name in zip(unique_names(names), names, strict=True):
        values = columns.values[name]
        axis, note, guide = columns.axis, "", guide_for(name)
        if guide is not None:
            places = {"axis": axis, "low": f"{guide.low:g}", "high": f"{guide.high:g}"}
            axis = told("{axis}; shaded: {low} to {high}", places)
            places |= {"meaning": message(guide.meaning), "source": message(guide.source)}
            note = told("Shaded is {low} to {high}: {meaning} ({source}).", places)
        chart = curve_chart(
            within,
            columns.prefix + key,
            label(name, 80),
            [Series(columns.prefix + key, name, values)],
            axis=axis,
            labels=0,
            note=note,
            guide=None if guide is None else (guide.low, guide.high),
            scale=_scale(values),
        )
        yield None if chart is None else replace(chart, group=columns.heading)


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
    matching = (i for i, pattern in enumerate(_FIRST) if re.search(pattern, name, re.IGNORECASE))
    return next(matching, len(_FIRST))
