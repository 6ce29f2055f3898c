"""The charts of a run's report, drawn once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from rlreport.check.run import Run
from rlreport.check.spread_curves import TextSpread, text_spreads
from rlreport.check.spreading import Spreading
from rlreport.draw.catalogue import arranged, overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.rescored import rescored_charts
from rlreport.draw.run_charts import text_charts
from rlreport.draw.strips import whole
from rlreport.draw.svg import start_drawing
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.moved import (
    focus_of_report,
    moved_of,
    moved_steps,
    rules_of_report,
)


class PageCharts(NamedTuple):
    """The charts of the pages about the whole run."""

    overview: list[Chart]
    texts: list[Chart]
    flips: list[Chart]


def page_charts(report: RunReport) -> PageCharts:
    """Return the charts as specifications; only those of the user's functions have an ``svg``."""
    return report.once("charts", lambda: _page_charts(report))


def _page_charts(report: RunReport) -> PageCharts:
    """Return the charts, of which only the lead finding, the most important, is marked."""
    run = report.run
    verdict = run.verdict
    lead = [] if verdict.leading is None else [verdict.leading]
    focus = focus_of_report(report)
    courses = list(verdict.courses.values())
    rules = rules_of_report(report)
    charts = overview_charts(run.tables, lead, courses, focus, rules)
    ordered = arranged(charts, verdict.findings, verdict.lead)
    return PageCharts(
        overview=[*map(partial(_with_whole, report), ordered), *run.own_charts],
        texts=text_charts(run.spreading.by_step, spreads_of(report)),
        flips=_flips(run),
    )


def spreads_of(report: RunReport) -> dict[str, TextSpread]:
    """Return text -> how far it spread, of the texts that did."""
    run = report.run
    ratio = run.thresholds[Spreading].ratio
    return report.once("text spreads", lambda: text_spreads(run.spreading, ratio))


def _flips(run: JudgedRun) -> list[Chart]:
    about = run.tables.rescoring
    if about is None:
        return []
    judged = Run(run.tables.without_step_in_progress(), run.thresholds)
    return rescored_charts(judged, about.function)


def _with_whole(report: RunReport, chart: Chart) -> Chart:
    """Return a chart; one of some steps with the curve over all steps."""
    if chart.focus is None:
        return chart
    moved = moved_of(report)
    steps = moved_steps(report, moved)
    course = moved.figures[0].figure.course
    return replace(chart, whole=whole(course, steps, chart.focus))


def begin_drawing(report: RunReport) -> Callable[[], list[Chart]]:
    """Let the charts be drawn while this process goes on; return what waits for all of them."""
    language = report.run.options.language

    def begin() -> Callable[[], list[Chart]]:
        return start_drawing(list(chain(*page_charts(report))), language)

    return report.once("drawing", begin)


def drawn_charts(report: RunReport) -> PageCharts:
    """Return the charts with their drawings."""
    return report.once("drawn charts", lambda: _drawn(report))


def _drawn(report: RunReport) -> PageCharts:
    drawn = iter(begin_drawing(report)())
    parts = [list(islice(drawn, len(part))) for part in page_charts(report)]
    return PageCharts(*parts)
