"""The overview's charts: whatever the log can feed, all over the same steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.check.finding import Finding
from rlreport.draw.axis import Floats
from rlreport.draw.catalogue import CURVES, Curve, CurveChart
from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.distribution import distribution_chart
from rlreport.draw.frame import Frame
from rlreport.draw.frontier import error_by_position_chart, frontier_chart
from rlreport.draw.reward_parts import reward_part_charts
from rlreport.draw.series import PALETTE, Series
from rlreport.draw.svg import baked
from rlreport.draw.words import label, unique_names
from rlreport.metrics.guidance import guide_for
from rlreport.tables import Tables

MOST_METRICS = 24


def overview_charts(
    tables: Tables,
    findings: Sequence[Finding] = (),
    *,
    band: float = 1.0,
    run: str = "",
    drawn: bool = True,
) -> list[Chart]:
    """Draws every chart of the overview that the tables can feed.

    Args:
        tables: of the whole run.
        findings: their steps are marked on the charts they name.
        band: factor of the standard deviation in bands.
        run: name of the run, kept in each specification's description.
        drawn: False leaves ``svg`` empty, for ``svg.baked`` in another process.
    """
    if tables.steps.empty:
        return []
    charts = []
    for chart in _charts(tables, findings, band):
        if chart is not None:
            told = ". ".join(part for part in (run, chart.title, chart.description) if part)
            charts.append(replace(chart, spec={**chart.spec, "description": told}))
    return baked(charts) if drawn else charts


def _charts(tables: Tables, findings: Sequence[Finding], band: float) -> Iterator[Chart | None]:
    steps = tables.steps
    frame = Frame(_floats(steps, "step"), findings)
    for wanted in CURVES:
        yield _from_catalogue(frame, steps, wanted, band)
        if wanted.name == "reward":
            yield distribution_chart(frame, tables.responses)
        if wanted.name == "kl":
            yield frontier_chart(steps)
        if wanted.name == "rlhf_reward":
            yield from reward_part_charts(frame, tables)
        if wanted.name == "value":
            yield error_by_position_chart(tables.positions)
    yield from _metrics(frame, tables.metrics)


def _floats(table: pd.DataFrame, column: str) -> Floats:
    if column not in table:
        return np.full(len(table), np.nan)
    return table[column].to_numpy(dtype=np.float64, na_value=np.nan)


def _series(steps: pd.DataFrame, curve: Curve, band: float) -> Series:
    values = _floats(steps, curve.column)
    if not curve.std or band <= 0:
        return Series(curve.key, curve.title, values, None, None, curve.colour, curve.dash)
    half = band * _floats(steps, curve.std)
    return Series(
        curve.key, curve.title, values, values - half, values + half, curve.colour, curve.dash
    )


def _from_catalogue(
    frame: Frame, steps: pd.DataFrame, wanted: CurveChart, band: float
) -> Chart | None:
    if wanted.needs and not np.nan_to_num(_floats(steps, wanted.needs)).any():
        return None
    for alternative in wanted.alternatives:
        series = [_series(steps, curve, band) for curve in alternative.curves]
        if not any(one.present for one in series[: alternative.needed]):
            continue
        axis, note = alternative.axis, wanted.note
        if any(one.has_band for one in series):
            axis += f", band ± {band:g} × std"
            note = f"The band is ± {band:g} standard deviation. {note}".strip()
        return curve_chart(
            frame,
            wanted.name,
            wanted.title,
            series,
            axis=axis,
            wide=wanted.wide,
            percent=wanted.percent,
            shiftable=wanted.shiftable,
            floor=wanted.floor,
            note=note,
        )
    return None


def _metrics(frame: Frame, metrics: pd.DataFrame) -> Iterator[Chart | None]:
    """The trainer's own metrics, one small chart each, under the names it gave them.

    The range that guidance calls unremarkable is shaded. Where metrics are many, those that
    have such a range are drawn rather than others.
    """
    if metrics.empty or "step" not in metrics:
        return
    within = metrics[metrics["step"].between(*frame.extent)].sort_values("step")
    if within.empty:
        return
    own = Frame(_floats(within, "step"), frame.findings, frame.extent)
    logged = [str(name) for name in metrics.columns if name != "step"]
    drawn = set(sorted(logged, key=lambda name: guide_for(name) is None)[:MOST_METRICS])
    names = [name for name in logged if name in drawn]
    for key, name in zip(unique_names(names), names, strict=True):
        # The prefix keeps names such as "step" or "constructor" from being a field of their own.
        field = f"metric_{key}"
        series = [Series(field, name, _floats(within, name), None, None, *PALETTE[0])]
        axis, note, guide = f"{label(name, 80)}, as logged", "", guide_for(name)
        if guide is not None:
            axis += f"; shaded: {guide.low:g} to {guide.high:g}"
            note = f"Shaded is {guide.low:g} to {guide.high:g}: {guide.meaning} ({guide.source})."
        yield curve_chart(
            own,
            field,
            name,
            series,
            axis=axis,
            right=16,
            labelled=False,
            note=note,
            guide=None if guide is None else (guide.low, guide.high),
        )
