"""What moved: the small charts below the verdict, on one axis of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from rlreport.check.course import Quantity
from rlreport.check.moved import Figure, MovedFigures
from rlreport.check.moved_words import (
    described,
    heading_of,
    moved_in_words,
    title_of,
    unit_of,
)
from rlreport.columns import STEP
from rlreport.definitions import REWARD_PART, terms_of_roles
from rlreport.draw import strips
from rlreport.draw.chart import Chart, label
from rlreport.draw.svg import svg_png
from rlreport.pages.charts import page_charts
from rlreport.pages.context import RunReport
from rlreport.pages.moved import moved_of, moved_steps
from rlreport.pages.terms import role_of_metrics
from rlreport.text.messages import message, sentences

PICTURE = "moved"  # name of the picture in mail and Markdown


@dataclass(frozen=True, slots=True)
class StripView:
    """A small chart."""

    name: str
    unit: str
    chart: str  # address of the full chart, "" if there is none
    term: str  # key of its definition, "" without one
    svg: Markup


@dataclass(frozen=True, slots=True)
class MovedView:
    """The small charts, in two columns where there is room."""

    words: str
    stacks: list[list[StripView]]
    head: Markup  # labels of the rules, above each column
    axis: Markup  # below each column
    note: str  # what thick lines are, "" if all are the logged values
    low: float  # limits of the axis of steps
    high: float


def moved_view(report: RunReport) -> MovedView | None:
    """Return the small charts for the overview, None if nothing moved."""
    return report.once("moved view", lambda: _moved_view(report))


def _moved_view(report: RunReport) -> MovedView | None:
    """Compute what ``moved_view`` returns."""
    moved = moved_of(report)
    if not moved:
        return None
    language = report.run.options.language
    steps = moved_steps(report, moved)
    charts = _charts_by_figure(report)
    roles = role_of_metrics(report)
    views = []
    for one in moved.figures:
        figure = one.figure
        marks = strips.strip(figure.course, steps, percent=figure.is_share)
        chart = _chart_of(figure, charts)
        views.append(
            StripView(
                name=heading_of(figure),
                unit=unit_of(figure),
                chart=f"#chart={chart}" if chart else "",
                term=_term_of(figure, roles),
                svg=Markup(strips.on_page(marks, described(one), language)),
            )
        )
    half = (len(views) + 1) // 2
    return MovedView(
        words=moved_in_words(moved),
        stacks=[views[:half], views[half:]],
        head=Markup(strips.head_on_page(steps, language)),
        axis=Markup(strips.axis_on_page(steps)),
        note=_line_note(moved),
        low=steps.axis.low,
        high=steps.axis.high,
    )


def _line_note(moved: MovedFigures) -> str:
    if not any(strips.shows_pieces(one.figure.course) for one in moved.figures):
        return ""
    return message(
        "Pale: logged values; the thick line before them is their fitted level or trend."
    )


# Quantity -> the column of steps whose definition is that of its course
_COLUMNS: Mapping[Quantity, str] = {
    "reward": "reward_mean",
    "validation": "validation_reward_mean",
    "second_reward": "valid_reward_mean",
    "kl": "kl_k1_mean",
    "length": "response_tokens_mean",
    "entropy": "surprisal_mean",
}


def _term_of(figure: Figure, roles: Mapping[str, str]) -> str:
    """Return the key of a figure's definition, "" without one; ``roles``: metric -> role."""
    course = figure.course
    role = roles.get(course.column) if course.source == "metrics" else None
    if role is not None:
        return terms_of_roles().get(role, "")
    if figure.of == "part" or figure.quantity == "accuracy":
        return REWARD_PART
    if figure.column is not None:
        return figure.column.term
    column = _COLUMNS.get(figure.quantity) if figure.quantity else None
    return STEP[column].term if column else ""


def _charts_by_figure(report: RunReport) -> Mapping[str, str]:
    """Return name, subject or title of a chart -> its name; a name comes before the others."""
    charts = page_charts(report).overview
    found: dict[str, str] = {}
    for chart in reversed(charts):
        if chart.subject:
            found[chart.subject] = chart.name
    for chart in charts:
        for prefix in ("column_", "metric_"):
            if chart.name.startswith(prefix):
                found[f"{prefix}{chart.title}"] = chart.name
        found[chart.name] = chart.name
    return found


def _chart_of(figure: Figure, charts: Mapping[str, str]) -> str:
    """Return the name of the full chart of a figure, "" if the report has none."""
    names = [figure.subject]
    if figure.of in ("column", "metric"):
        names = [f"{figure.of}_{label(figure.name, 80)}", figure.subject]
    elif figure.quantity in ("validation", "second_reward"):
        key = "validation" if figure.quantity == "validation" else "valid"
        names = [f"reward_{key}", figure.subject]
    elif figure.course.source == "metrics":
        names.append(f"metric_{label(figure.course.column, 80)}")
    return next((charts[name] for name in names if name in charts), "")


def moved_picture(report: RunReport, width: int) -> Chart | None:
    """Return all small charts as one picture of ``width`` pixels, None if nothing moved."""
    moved = moved_of(report)
    if not moved:
        return None
    language = report.run.options.language
    steps = moved_steps(report, moved)
    named = [
        (
            title_of(one.figure),
            strips.strip(one.figure.course, steps, percent=one.figure.is_share),
        )
        for one in moved.figures
    ]
    drawing = strips.picture(named, steps, width, language)
    return Chart(
        name=PICTURE,
        title=message("What moved"),
        description=sentences([moved_in_words(moved), _line_note(moved)]),
        spec={},
        vega={},
        png=svg_png(drawing),
    )
