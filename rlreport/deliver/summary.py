"""Overview and pictures of the short formats, mail and Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.comparison import ComparisonBuilder
from rlreport.bake.overview_page import overview_view
from rlreport.bake.pages import Addresses
from rlreport.bake.report import ReportBuilder
from rlreport.deliver.form import Builder
from rlreport.draw.chart import Chart
from rlreport.draw.svg import png

_ALWAYS_FIRST = "reward"
_USUAL = ("kl", "length", "reward_distribution", "surprisal", "win_rate", "eos", "distinct_2")
_BARS = "▁▂▃▄▅▆▇█"
_TREND_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as a PNG file; ``name`` has no suffix."""

    name: str
    title: str
    description: str
    png: bytes


def overview(builder: ReportBuilder) -> dict[str, Any]:
    """Return the overview in the language of the report."""
    view = overview_view(
        builder.context,
        Addresses(),  # these formats have no links
        builder.charts,
        builder.texts.extremes,
    )
    return builder.context.report.language.of(view)


def pictures(builder: Builder, most: int, *, width: int) -> list[Picture]:
    """Draw the most important charts: the reward, those of findings, the usual ones.

    Args:
        builder: the report, or the comparison, which shows all of its charts.
        most: maximum number.
        width: displayed width in pixels.
    """
    language = builder.context.report.language
    return builder.once(
        ("pictures", most, width),
        lambda: [
            Picture(
                chart.name,
                chart.title,
                chart.description,
                png(chart, width, language.font),
            )
            for chart in language.of(_ranked_charts(builder)[:most])
        ],
    )


def trend(values: NDArray[np.float64]) -> str:
    """Return a sparkline of up to 20 block characters; a dot is missing."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0)
    if largest > 0:
        # Sums and differences of rewards may be larger than a float holds.
        values = values / largest
    parts = np.array_split(values, min(_TREND_COLUMNS, len(values)))
    known = [part[np.isfinite(part)] for part in parts]
    means = [float(part.mean()) if len(part) else None for part in known]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join("·" if mean is None else _BARS[round((mean - low) * scale)] for mean in means)


def _ranked_charts(builder: Builder) -> list[Chart]:
    if isinstance(builder, ComparisonBuilder):
        return list(builder.charts)
    by_name = {chart.name: chart for chart in builder.charts}
    in_findings = [name for finding in builder.context.verdict.findings for name in finding.charts]
    order = dict.fromkeys([_ALWAYS_FIRST, *in_findings, *_USUAL])
    return [by_name[name] for name in order if name in by_name]
