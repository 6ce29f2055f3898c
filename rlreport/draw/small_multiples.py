"""One small chart per trainer metric and per extra column of the log."""

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
from rlreport.metrics.roles import guide_for, roles_of
from rlreport.summarise.steps import ROLE_COLUMNS
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, told

MOST_METRICS = 24
# Maximum number of metric charts in a report of trainer metrics alone, without responses
MOST_ALONE = 200
MOST_COLUMNS = 12
MOST_NAMED = 40  # Maximum number of constant columns that are listed with their values
DECADES = 1000.0  # Positive values whose range exceeds this factor are drawn on a logarithmic axis
# Metric's role -> overview chart on the same subject; findings refer to charts by that name
CHART_OF_ROLE = {
    "kl": "kl",
    "kl_token": "kl",
    "entropy": "surprisal",
    "length": "length",
    "truncated": "eos",
    "ratio": "mismatch",
    "clip_fraction": "mismatch",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "explained_variance": "explained_variance",
}

# Matches names of ids, indices, hashes and seeds: a chart of their means is meaningless
_IDENTIFIER = re.compile(
    r"(^|[/_. -])(ids?|idx|index|indices|uu?id|guid|hash|seed|line_?(no|number)?)$|[a-z]I[dD]$"
)

# Patterns of metric names to draw first, in this order; others follow in the log's order
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


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns of a table with one row per step, to be drawn in one chart each."""

    prefix: str  # prefix of charts' names, so that a column "step" or "constructor" does no harm
    heading: str  # heading above the charts
    axis: str  # title of the y axis; "" for values as logged
    most: int  # maximum number of charts
    steps: Floats  # float64 (S,)
    values: Mapping[str, Floats]  # float64 (S,) by column name

    @property
    def varied(self) -> list[str]:
        """Names of the columns that vary, the most important first."""
        return sorted((name for name in self.values if _varies(self.values[name])), key=_rank)

    @property
    def drawn(self) -> list[str]:
        """Names of up to ``most`` columns to draw, preferably those with a known healthy range."""
        preferred = set(sorted(self.varied, key=lambda name: guide_for(name) is None)[: self.most])
        return [name for name in self.varied if name in preferred]


def small_multiples(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart of each trainer metric, and of the mean of each extra column of the log.

    Parts of the reward are left out. Important ones come first; healthy ranges are shaded.
    """
    for group in _groups(tables):
        roles = {metric: role for role, metric in roles_of(group.values).items()}
        keys = zip(unique_names(group.drawn), group.drawn, strict=True)
        for rank, (key, name) in enumerate(keys):
            chart_name = CHART_OF_ROLE.get(roles.get(name, ""), "")
            findings = [
                replace(finding, charts=(group.prefix + key,))
                for finding in frame.findings
                if chart_name in finding.charts
            ]
            metric_frame = Frame(group.steps, findings, frame.extent)
            note, guide = "", guide_for(name)
            if guide is not None:
                values = {"low": f"{guide.low:g}", "high": f"{guide.high:g}"}
                values |= {"meaning": message(guide.meaning), "source": message(guide.source)}
                note = told(
                    "Shaded: the usual range, {low} to {high}: {meaning} ({source}).", values
                )
            chart = curve_chart(
                metric_frame,
                group.prefix + key,
                label(name, 80),
                [Series(group.prefix + key, name, group.values[name])],
                axis=group.axis,
                labels=0,
                note=note,
                guide=None if guide is None else (guide.low, guide.high),
                scale=_scale(group.values[name]),
            )
            if chart is None:
                continue
            heading = group.heading if rank < MOST_METRICS else message("More trainer metrics")
            interactive = rank < MOST_METRICS
            yield replace(chart, group=heading, subject=chart_name, interactive=interactive)


def not_drawn(tables: Tables) -> list[str]:
    """Return sentences on columns without a chart: constant ones by name, the number of others."""
    notes = []
    for group in _groups(tables):
        finite = {name: column[np.isfinite(column)] for name, column in group.values.items()}
        constant = [
            f"{label(name)} {figure(column[0])}"
            for name, column in finite.items()
            if len(column) and not _varies(column)
        ]
        values = {"heading": group.heading, "named": " · ".join(constant[:MOST_NAMED])}
        if (more := len(constant) - MOST_NAMED) > 0:
            text = message(
                "{heading}, constant: {named} and {more:count} more.", more=more, **values
            )
            notes.append(text)
        elif constant:
            notes.append(message("{heading}, constant: {named}.", **values))
        if omitted_count := len(group.varied) - len(group.drawn):
            text = plural(
                "{heading}: {count} more is not drawn.",
                "{heading}: {count} more are not drawn.",
                omitted_count,
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
        excluded_names, limit = {"step"}, MOST_METRICS
        if tables.responses.empty:
            # Other charts of such a report already show the metrics in the table of steps.
            roles = roles_of(map(str, metrics.columns[1:]))
            excluded_names |= {roles[role] for role in ROLE_COLUMNS if role in roles}
            limit = MOST_ALONE
        columns = _columns(metrics, excluded_names)
        heading = message("Trainer metrics")
        steps = floats(metrics, "step")
        yield _Group("metric_", heading, "", limit, steps, columns)


def _columns(table: pd.DataFrame, left_out: set[str]) -> dict[str, Floats]:
    names = (name for name in map(str, table) if name not in left_out)
    return {name: floats(table, name) for name in names if not _IDENTIFIER.search(name)}


def _varies(values: Floats) -> bool:
    """Return whether finite values differ by more than rounding; False for fewer than two."""
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
