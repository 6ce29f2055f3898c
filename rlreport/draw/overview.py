"""The overview's charts: whatever the log can feed, all over the same steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from rlreport.check.finding import Finding
from rlreport.draw.catalogue import OVERVIEW, Curve, CurveChart
from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.frame import Frame, floats, of_training
from rlreport.draw.series import DASHED, Series
from rlreport.draw.theme import LIGHT
from rlreport.metrics.roles import roles_of
from rlreport.tables import Tables
from rlreport.text.messages import marked, message, sentences

SAMPLED = ("distinct_2", "error_by_position")
"""Names of charts that come from the sample of responses."""


def overview_charts(
    tables: Tables,
    findings: Sequence[Finding] = (),
    *,
    band: float = 1.0,
    run: str = "",
) -> list[Chart]:
    """Every chart of the overview, still to be drawn, that the tables can feed.

    Args:
        tables: of the whole run.
        findings: their steps are marked on the charts they name.
        band: factor of the standard deviation in bands.
        run: name of the run, kept in each specification's description.
    """
    if tables.steps.empty:
        return []
    frame = Frame(floats(tables.steps, "step"), findings, in_progress=tables.in_progress)
    trained = of_training(tables)
    charts = []
    for wanted in OVERVIEW:
        if isinstance(wanted, CurveChart):
            charts.append(_of_step_figures(tables, frame, wanted, band))
        else:
            charts.extend(wanted(trained, frame))
    return [_told(chart, run, tables.sample_note) for chart in charts if chart is not None]


def _told(chart: Chart, run: str, sample_note: str) -> Chart:
    if sample_note and chart.name in SAMPLED:
        chart = replace(
            chart, title=message("{title}, {sample}", title=chart.title, sample=sample_note)
        )
    parts = (
        run,
        message("{title}. {description}", title=chart.title, description=chart.description),
    )
    told = message("{run}. {words}", run=parts[0], words=parts[1]) if run else parts[1]
    return replace(chart, spec={**chart.spec, "description": told})


def _series(tables: Tables, curve: Curve, band: float) -> Series:
    steps = tables.steps
    values = floats(steps, curve.column)
    if not curve.std or band <= 0:
        return Series(curve.key, message(curve.title), values, None, None, curve.colour, curve.dash)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no band
        half = band * floats(steps, curve.std)
        low, high = values - half, values + half
    # No value lies beyond those seen: no negative length, none above the limit.
    seen = tables.responses.get(curve.column.removesuffix("_mean"))
    if seen is not None and seen.notna().any():
        low, high = np.maximum(low, seen.min()), np.minimum(high, seen.max())
    return Series(curve.key, message(curve.title), values, low, high, curve.colour, curve.dash)


def _trainer_curves(tables: Tables, known: Collection[str]) -> list[Series]:
    """Return the reward and the validation reward that the trainer logged, on the chart's steps."""
    if tables.metrics.empty:
        return []
    roles = roles_of(str(name) for name in tables.metrics.columns[1:])
    by_step = tables.metrics.set_index("step").reindex(tables.steps["step"])
    curves = []
    for role, key, title, dash in (
        ("reward", "trainer", marked("trainer"), (8, 2, 2, 2)),
        ("validation", "validation", marked("validation"), DASHED),
    ):
        if role in roles and key not in known:
            values, colour = floats(by_step, roles[role]), LIGHT["muted"]
            curves.append(Series(key, message(title), values, colour=colour, dash=dash))
    return curves


def _of_step_figures(tables: Tables, frame: Frame, wanted: CurveChart, band: float) -> Chart | None:
    steps = tables.steps
    if wanted.needs and not np.nan_to_num(floats(steps, wanted.needs)).any():
        return None
    for alternative in wanted.alternatives:
        series = [_series(tables, curve, band) for curve in alternative.curves]
        if not any(one.present for one in series[: alternative.needed]):
            continue
        axis, note = alternative.axis, message(wanted.note)
        if wanted.name == "reward":
            series += _trainer_curves(tables, {one.key for one in series if one.present})
        if any(one.has_band for one in series):
            factor = f"{band:g}"
            axis = message("{axis}, band ± {factor} × std", axis=axis, factor=factor)
            said = message(
                "The band is ± {factor} standard deviation, within the values that occur.",
                factor=factor,
            )
            note = sentences([said, note])
        return curve_chart(
            frame,
            wanted.name,
            message(wanted.title),
            series,
            axis=axis,
            wide=wanted.wide,
            percent=wanted.percent,
            shiftable=wanted.shiftable,
            scale=wanted.scale,
            note=note,
        )
    return None
