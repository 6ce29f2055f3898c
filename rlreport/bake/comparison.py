"""Prepares a comparison for baking: its page, its exported files, its charts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rlreport.bake.assets import assets
from rlreport.bake.compare_page import compare_view
from rlreport.bake.data_page import csv
from rlreport.bake.environment import environment
from rlreport.bake.pages import FOLDER_POLICY, Maker, Page
from rlreport.bake.script_json import canonical_json, script_json
from rlreport.bake.views import Shell
from rlreport.comparison.document import compare_json, prompts_table
from rlreport.comparison.outcome import Outcome
from rlreport.draw.chart import Chart
from rlreport.draw.comparison import comparison_charts
from rlreport.draw.svg import drawn
from rlreport.options import ReportOptions
from rlreport.text.language import Language

PAGE, INDEX = "compare.html", "index.html"


class ComparisonVerdict(NamedTuple):
    """A comparison's verdict: its level (``better``, ``no_evidence``, …) and its sentence."""

    level: str
    sentence: str


class ComparisonContext(NamedTuple):
    """What output formats ask of a comparison as of a report; ``stamp`` is the time or ""."""

    run: str
    report: ReportOptions
    stamp: str
    verdict: ComparisonVerdict


@dataclass(frozen=True, slots=True)
class ComparisonBuilder(Maker):
    """Everything a form needs to write a comparison.

    Attributes:
        finish: encodes a page for the output format.
        one_file: whether the page is a view of one file.
        shown: how many flips are shown with their texts.
        memo: results of ``once``.
    """

    outcome: Outcome
    context: ComparisonContext
    finish: Callable[[Page], tuple[tuple[str, bytes], int]]
    one_file: bool
    shown: int
    charts: Sequence[Chart] = field(default_factory=list)
    memo: dict[Hashable, Any] = field(default_factory=dict)

    def showing(self, flips: int) -> ComparisonBuilder:
        """The same comparison with so many prompts won and lost."""
        return replace(self, shown=flips)

    @property
    def view(self) -> dict[str, Any]:
        """What its templates print, in its language."""
        return self.context.report.language.of(compare_view(self.outcome, self.charts, self.shown))

    def frame(self) -> Shell:
        """The frame of its page; without navigation, as there is no other."""
        files = {} if self.one_file else assets(self.context.report.language).files
        return Shell(
            title=self.context.run,
            run=self.context.run,
            kind="compare",
            root="",
            nav=[],
            crumbs=[],
            assets={name: path for name, (path, _) in files.items()},
            csp=FOLDER_POLICY,
            stamp=self.context.stamp,
        )

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Yields its page as the form takes it, and in a folder the one that leads there."""
        frame = self.frame()
        template = "main/compare.html" if self.one_file else "page.html"
        templates = environment(self.context.report.language)
        html = templates.get_template(template).render(view=self.view, shell=frame)
        yield self.finish(Page(PAGE, "", frame.title, html))[0]
        if not self.one_file:
            html = templates.get_template("lead_on.html").render(shell=frame, href=PAGE)
            yield self.finish(Page(INDEX, "index", frame.title, html))[0]

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yields (path below the root, bytes) of every file of the folder form."""
        yield from self.pages()
        yield from assets(self.context.report.language).files.values()
        yield "data/compare.json", canonical_json(compare_json(self.outcome), indent=True)
        yield "data/prompts.csv", csv(prompts_table(self.outcome))
        for chart in self.charts:
            yield f"data/charts/{chart.name}.vl.json", canonical_json(chart.spec, indent=True)

    def nodes(self) -> list[tuple[str, str, str]]:
        """Data of the one file: (media type, class, content)."""
        return [("application/json", "compare-json", script_json(compare_json(self.outcome)))]


def charts_of(outcome: Outcome, language: Language) -> list[Chart]:
    """Draws what the comparison feeds."""
    comparison = outcome.comparison
    band, (base, new) = comparison.band, comparison.curves
    charts = comparison_charts(
        comparison.steps.astype(float),
        base,
        new,
        band,
        comparison.paths,
    )
    return drawn(charts, language)
