"""One small chart per trainer metric and per further column of the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rlreport.draw.axes import LEAST_VARIED, Scale, drawable, figure, label, unique_names
from rlreport.draw.chart import Chart
from rlreport.draw.curves import Frame, curve_chart, floats
from rlreport.draw.series import Series
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
class _Group:
    """Columns of a table by step that are drawn one by one, under a heading.

    Attributes:
        prefix: of the charts' names: columns may be named "step" or "constructor".
        axis: what the values are.
        most: charts at most.
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
        chosen = set(sorted(self.varied, key=lambda name: guide_for(name) is None)[: self.most])
        return [name for name in self.varied if name in chosen]


def small_multiples(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draw the means of further columns that are no part of the reward, and the trainer's metrics.

    What matters first stands first; the range that guidance calls unremarkable is shaded.
    """
    for group in _groups(tables):
        within = Frame(group.steps, frame.findings, frame.extent)
        for key, name in zip(unique_names(group.drawn), group.drawn, strict=True):
            axis, note, guide = group.axis, "", guide_for(name)
            if guide is not None:
                places = {"axis": axis, "low": f"{guide.low:g}", "high": f"{guide.high:g}"}
                axis = told("{axis}; shaded: {low} to {high}", places)
                places |= {"meaning": message(guide.meaning), "source": message(guide.source)}
                note = told("Shaded is {low} to {high}: {meaning} ({source}).", places)
            chart = curve_chart(
                within,
                group.prefix + key,
                label(name, 80),
                [Series(group.prefix + key, name, group.values[name])],
                axis=axis,
                labels=0,
                note=note,
                guide=None if guide is None else (guide.low, guide.high),
                scale=_scale(group.values[name]),
            )
            yield None if chart is None else replace(chart, group=group.heading)


def not_drawn(tables: Tables) -> list[str]:
    """Return sentences about columns without a chart: constants with their value, how many more."""
    notes = []
    for group in _groups(tables):
        finite = {name: values[np.isfinite(values)] for name, values in group.values.items()}
        constant = [
            f"{label(name)} {figure(values[0])}"
            for name, values in finite.items()
            if len(values) and not _varies(values)
        ]
        places = {"heading": group.heading, "named": " · ".join(constant[:MOST_NAMED])}
        if (more := len(constant) - MOST_NAMED) > 0:
            text = message(
                "{heading}, constant: {named} and {more:count} more.", more=more, **places
            )
            notes.append(text)
        elif constant:
            notes.append(message("{heading}, constant: {named}.", **places))
        if left := len(group.varied) - len(group.drawn):
            text = plural(
                "{heading}: {count} more is not drawn.",
                "{heading}: {count} more are not drawn.",
                left,
                heading=group.heading,
            )
            notes.append(text)
    return notes


def _groups(tables: Tables) -> Iterator[_Group]:
    means, metrics = tables.extras_by_step, tables.metrics
    if "step" in means:
        means = means.drop_duplicates("step", keep="last").sort_values("step")
        columns = _columns(means, {"step", *tables.reward_parts})
        heading = message("Extra columns of the log")
        steps = floats(means, "step")
        yield _Group("column_", heading, message("mean"), MOST_COLUMNS, steps, columns)
    if "step" in metrics:
        extent = Frame(floats(tables.steps, "step")).extent
        metrics = metrics[metrics["step"].between(*extent)].sort_values("step")
        columns = _columns(metrics, {"step"})
        heading = message("Trainer metrics")
        steps = floats(metrics, "step")
        yield _Group("metric_", heading, message("as logged"), MOST_METRICS, steps, columns)


def _columns(table: pd.DataFrame, left_out: set[str]) -> dict[str, Floats]:
    return {name: floats(table, name) for name in map(str, table) if name not in left_out}


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
