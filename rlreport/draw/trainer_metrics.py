"""Charts of the metrics that the trainer logged itself."""

from __future__ import annotations

from collections.abc import Iterator

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.frame import Frame, floats
from rlreport.draw.series import PALETTE, Series
from rlreport.draw.words import label, unique_names
from rlreport.metrics.guidance import guide_for
from rlreport.tables import Tables

MOST_METRICS = 24


def metric_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draws the trainer's own metrics, one small chart each, under the names it gave them.

    The range that guidance calls unremarkable is shaded. Where metrics are many, those that
    have such a range are drawn rather than others.
    """
    metrics = tables.metrics
    if metrics.empty or "step" not in metrics:
        return
    within = metrics[metrics["step"].between(*frame.extent)].sort_values("step")
    if within.empty:
        return
    own = Frame(floats(within, "step"), frame.findings, frame.extent)
    logged = [str(name) for name in metrics.columns if name != "step"]
    drawn = set(sorted(logged, key=lambda name: guide_for(name) is None)[:MOST_METRICS])
    names = [name for name in logged if name in drawn]
    for key, name in zip(unique_names(names), names, strict=True):
        # The prefix keeps names such as "step" or "constructor" from being a field of their own.
        field = f"metric_{key}"
        series = [Series(field, name, floats(within, name), None, None, *PALETTE[0])]
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
