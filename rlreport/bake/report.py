"""Prepares a report for baking: what every page shares, and the texts of the run's pages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

from rlreport.bake.assets import assets
from rlreport.bake.context import TEXT_COLUMNS, PageContext, number_columns, string_columns
from rlreport.bake.exports import exports
from rlreport.bake.overview_page import token_responses
from rlreport.bake.pages import Page, run_pages, step_pages
from rlreport.bake.run_texts import RunTexts, run_texts
from rlreport.check.finding import Finding, Verdict
from rlreport.check.ngrams import SpreadingNgrams
from rlreport.check.thresholds import Thresholds
from rlreport.choose import Plan
from rlreport.draw.chart import Chart
from rlreport.draw.overview import overview_charts
from rlreport.options import FigureOptions, ReadOptions, ReportOptions
from rlreport.pool import Pool
from rlreport.progress import Progress
from rlreport.read import RowLocations
from rlreport.summarise import usual_responses, window_table
from rlreport.tables import Tables

T = TypeVar("T")

STAMP_FORMAT = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True)
class ReportBuilder:
    """Everything a form needs to write a report; pages are baked when they are asked for.

    Attributes:
        locations: where the rows lie, to read the chosen ones back.
        tables: all tables, prompts with their text.
        context: what every page shares.
        plan: what is shown.
        drawing: charts of the overview, drawn when first asked for.
        texts: responses read back for the pages of the run.
        spreading: texts that spread through the responses.
        progress: told of every page.
        pool: processes that bake the steps' pages.
    """

    locations: RowLocations
    tables: Tables
    context: PageContext
    plan: Plan
    drawing: RunCharts
    texts: RunTexts
    spreading: SpreadingNgrams
    progress: Progress
    pool: Pool

    @property
    def charts(self) -> Sequence[Chart]:
        """Charts of the overview."""
        return self.drawing.charts

    def showing(self, plan: Plan) -> ReportBuilder:
        """The same report with another choice of what is shown."""
        responses = self.tables.responses
        context = replace(
            self.context,
            shown_steps=[step.step for step in plan.steps],
            left_out=plan.left_out(len(responses), token_responses(responses)),
        )
        return replace(self, context=context, plan=plan)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yields (path below the root, bytes) of every file of the folder form, pages first."""
        yield from self.pages(as_file)
        yield from assets().files().values()
        yield from self.exports()

    def pages(self, finish: Callable[[Page], T]) -> Iterator[T]:
        """Yields ``finish(page)`` of every page: those of the run, then the steps in order.

        ``finish`` runs in the process that baked the page, so it must be picklable.
        """
        steps = step_pages(self, finish)
        yield from map(finish, run_pages(self))
        yield from steps

    def exports(self) -> Iterator[tuple[str, bytes]]:
        """Yields (path below the root, bytes) of ``data/*``."""
        return exports(self.tables, self.context, self.plan, self.charts)


class RunCharts:
    """Charts of the overview, drawn once, while helpers are already baking the steps' pages."""

    def __init__(self, tables: Tables, findings: Sequence[Finding], band: float, run: str) -> None:
        self._draw = partial(overview_charts, tables, findings, band=band, run=run)

    @cached_property
    def charts(self) -> Sequence[Chart]:
        """The charts, in order."""
        return self._draw()


def as_file(page: Page) -> tuple[str, bytes]:
    """A page as (path below the root, bytes)."""
    return page.path, page.html.encode("utf-8", "replace")


def prepare(
    name: str,
    locations: RowLocations,
    tables: Tables,
    verdict: Verdict,
    spreading: SpreadingNgrams,
    plan: Plan,
    *,
    read: ReadOptions,
    figures: FigureOptions,
    report: ReportOptions,
    file_aliases: dict[str, str],
    one_file: bool,
    progress: Progress,
    pool: Pool,
    thresholds: Thresholds | None = None,
) -> ReportBuilder:
    """Gathers what the pages need: names, columns, charts and the texts of the run's pages."""
    responses = tables.responses
    steps = responses["step"].to_numpy()
    first, last = int(steps[0]), int(steps[-1])
    windows = verdict.windows or ((first, first), (last, last))  # too short a run has none
    context = PageContext(
        run=report.title or name,
        steps=tables.steps,
        windows=windows,
        window_figures=window_table(responses, tables.steps, windows),
        shown_steps=[step.step for step in plan.steps],
        verdict=verdict,
        columns=number_columns(responses, tables.extras),
        string_columns=string_columns(tables.extras),
        text_columns=[c for c in TEXT_COLUMNS if tables.fields.get(c.key)],
        first_rows=responses[steps == steps[0]],
        usual_responses=usual_responses(tables.steps["responses"].to_numpy()),
        file_names=[file.name for file in tables.files],
        metrics_names=[file.name for file in tables.metrics_files],
        report=report,
        read=read,
        figures=figures,
        one_file=one_file,
        advantages_logged=bool(tables.fields.get("advantages")),
        left_out=plan.left_out(len(responses), token_responses(responses)),
        stamp=stamp(report),
        file_aliases=file_aliases,
        thresholds=thresholds or Thresholds(),
        asset_files={}
        if one_file
        else {name: path for name, (path, _) in assets().files().items()},
    )
    texts = run_texts(locations, tables, context)
    # Shading is for the finding that leads; all of them would be confetti.
    leading = [finding for finding in verdict.findings if finding.id == verdict.lead]
    return ReportBuilder(
        locations,
        tables,
        context,
        plan,
        RunCharts(tables, leading, report.band, context.run),
        texts,
        spreading,
        progress,
        pool,
    )


def stamp(report: ReportOptions) -> str:
    """Time of building in UTC: of ``SOURCE_DATE_EPOCH`` when set, of now with ``--stamp``."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal():
        return time.strftime(STAMP_FORMAT, time.gmtime(int(epoch)))
    return time.strftime(STAMP_FORMAT, time.gmtime()) if report.stamp else ""
