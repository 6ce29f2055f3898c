"""A report in short, for mail and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, get_args

from rlreport.check.course import Course
from rlreport.check.sentence import headline
from rlreport.draw.chart import Chart, PageSlot, evenly
from rlreport.pages.author_notes import plain_notes
from rlreport.pages.charts import page_charts
from rlreport.pages.context import RunReport
from rlreport.pages.extremes import ExtremeResponse, extreme_responses
from rlreport.pages.figures import run_courses
from rlreport.pages.film_view import film_picture
from rlreport.pages.listed import listed_prompt
from rlreport.pages.moved_view import moved_picture
from rlreport.pages.overview import OverviewView, overview_in_short
from rlreport.pages.table import TableView
from rlreport.read.rollouts import Rollout
from rlreport.text.messages import message


class Detail(NamedTuple):
    """Maximum numbers of examples (responses or prompts), characters of a text, and steps."""

    examples: int
    chars: int
    steps: int = 0


class Summary(Protocol):
    """A report in short: templates, and what they show, translated and without links."""

    mail_template: str  # name without suffix, of HTML and of text
    markdown_template: str
    details: Sequence[Detail]  # of Markdown, the most detailed first

    @property
    def subject(self) -> str:
        """The subject of a mail: of what it is, and the result in a few words."""

    @property
    def view(self) -> object:
        """What all templates show."""

    @property
    def plain_notes(self) -> str:
        """The author's notes for a mail's text, "" without any."""

    def charts(self, width: int) -> list[Chart]:
        """Return the charts, the most important first; pictures are made of some.

        One that already is a picture is ``width`` CSS pixels wide.
        """

    def markdown_values(self, detail: Detail) -> dict[str, Any]:
        """Return the values of the template of Markdown besides ``view``."""


# Charts that are in every summary if a run has them
_USUAL = (
    "kl",
    "length",
    "reward_distribution",
    "surprisal",
    "win_rate",
    "eos",
    "distinct_2",
)

# Key figures that are always visible; the others are in a folded section
_FIRST_FIGURES = (
    "reward_mean",
    "kl_k1_mean",
    "response_tokens_mean",
    "response_chars_mean",
)

# Figures that are drawn without image files, and the minimum number of steps for that
_LINES = ("reward_mean", "kl_k1_mean")
LEAST_DRAWN = 3

_STEP_COLUMNS = (
    "step",
    "responses",
    "reward_mean",
    "ref_reward_mean",
    "win_rate",
    "kl_k1_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "distinct_2",
)


class Line(NamedTuple):
    """A figure over the steps."""

    title: str
    axis: str
    course: Course


class RunSummary:
    """The summary of a run's report."""

    mail_template = "email"
    markdown_template = "markdown.md"
    details: Sequence[Detail] = (
        Detail(12, 2_000, 40),
        Detail(12, 1_000, 30),
        Detail(12, 400, 20),
        Detail(8, 200, 20),
        Detail(4, 120, 12),
        Detail(0, 0, 12),
        Detail(0, 0, 0),
    )

    def __init__(self, report: RunReport) -> None:
        self.report = report
        self.language = report.run.options.language

    @property
    def subject(self) -> str:
        return message(
            "{run} · {verdict}",
            run=self.report.run.title,
            verdict=headline(self.report.run.verdict),
        )

    @cached_property
    def view(self) -> OverviewView:
        return self.language.of(overview_in_short(self.report))

    @property
    def plain_notes(self) -> str:
        run = self.report.run
        return plain_notes(run.author_notes, run.quotes, self.language)

    def charts(self, width: int) -> list[Chart]:
        """Return what moved, the usual charts and those of findings in page order, the film strip.

        A chart of trainer metrics has a name of its own. It stands in for the chart that is named
        as its subject if the run has no such chart.
        """
        charts = page_charts(self.report).overview
        names = {"reward", *_USUAL}
        for finding in self.report.run.verdict.findings:
            names.update(finding.charts)
        missing = names - {chart.name for chart in charts}
        found = [c for c in charts if c.name in names or c.subject in missing]
        # Sorting is stable: in each place the charts keep the order of the overview.
        places = get_args(PageSlot)
        found.sort(key=lambda chart: places.index(chart.place))
        # Behind what moved and the chart of the verdict
        pictures = [moved_picture(self.report, width), *found[:1]]
        pictures += [film_picture(self.report, width), *found[1:]]
        return [chart for chart in pictures if chart is not None]

    def markdown_values(self, detail: Detail) -> dict[str, Any]:
        """Return what ``markdown.md`` shows besides ``view``, as much of it as ``detail`` says."""
        figures = self.view.figures
        extremes = extreme_responses(self.report)[: detail.examples]
        prefixes = self.report.shared.prefixes
        texts = [_with_short_prompt(one, prefixes) for one in extremes]
        return {
            "author_notes": self.report.run.author_notes,
            "quotes": self.report.run.quotes,
            "language": self.language,
            "figures": [f for f in figures if f.key in _FIRST_FIGURES],
            "more_figures": [f for f in figures if f.key not in _FIRST_FIGURES],
            "lines": self._lines(),
            "steps": _short_table(self.view.steps, detail.steps),
            "extremes": self.language.of(texts),
        }

    def _lines(self) -> list[Line]:
        """Return the figures that are drawn without image files."""
        axis = self.language.of(message("step"))
        return [
            Line(self.language.of(column.title), axis, course)
            for column, course in run_courses(self.report)
            if column.name in _LINES and len(course.steps) >= LEAST_DRAWN
        ]


def _with_short_prompt(
    one: ExtremeResponse, prefixes: Sequence[str]
) -> tuple[str, Rollout]:
    """Return what a response is, and it without the beginning that most prompts share."""
    prompt = listed_prompt(one.rollout, prefixes)
    if not prompt.shared:
        return one.words, one.rollout
    return one.words, replace(one.rollout, prompt=prompt.brief)


def _short_table(table: TableView, most: int) -> TableView:
    """Return _STEP_COLUMNS and up to ``most`` rows, evenly spaced, of the table of steps."""
    places = [i for i, c in enumerate(table.columns) if c.key in _STEP_COLUMNS]
    rows = []
    for number in evenly(len(table.rows), most).tolist():
        row = table.rows[number]
        rows.append(replace(row, cells=[row.cells[place] for place in places]))
    return replace(table, columns=[table.columns[i] for i in places], rows=rows)
