"""The index of many runs: those that need a reader first, and what differs between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlreport.draw.chart import Chart
from rlreport.pages.family import (
    differing_settings,
    family_table,
    is_relevant,
    setting_columns,
)
from rlreport.pages.html import packed_json
from rlreport.pages.index_chart import score_chart
from rlreport.pages.index_groups import (
    Group,
    families,
    family_name,
    family_rows,
    grouped,
)
from rlreport.pages.index_metrics import (
    DEFAULT,
    QUANTITIES,
    Metric,
    labels,
    metric_data,
    offered,
)
from rlreport.pages.index_remarks import family_remarks
from rlreport.pages.index_rows import IndexRun
from rlreport.pages.levels import SEVERITY, WORDS, verdict_cell
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    number_cell,
    table,
)
from rlreport.text.language import Language
from rlreport.text.messages import listed, message, plural, sentences
from rlreport.text.numbers import written

# A family is shown open if it leaves room for the broken runs on a screen of usual height:
# heights of these in pixels
_ROOM = 640
_ROW = 28
_CHART = 270
_BROKEN = 62
_BROKEN_LEVELS = ("critical", "warning")

_RUN = ColumnView("run", message("Run"), kind="link")
_VERDICT = ColumnView("verdict", message("Verdict"), kind="level")
_ONSET = message("onset of the lead finding")
# Columns that are the same whichever metric is shown
_TEXTS = (
    ColumnView("sentence", message("What happened"), kind="text"),
    ColumnView("since", message("Since step"), help=_ONSET, written="count"),
    ColumnView("evidence", message("Evidence"), kind="link"),
)
_GROUP = ColumnView("group", message("Group"), kind="text")
_STEPS = ColumnView("steps", message("Steps"), written="count")
_DETAILS = (
    ColumnView("next", message("What to do"), kind="text", hidden=True),
    ColumnView("responses", message("Responses"), hidden=True, written="count"),
    ColumnView("version", message("Built by"), kind="text", hidden=True),
    ColumnView("place", message("Report"), kind="text", hidden=True),
)
_LEVEL_HELP = {
    "first": message("mean of the first values"),
    "best": message("best or highest mean of a window"),
    "last": message("mean of the last values"),
}
_OF_METRIC = (*_LEVEL_HELP, "trend")
_OVER_STEPS = message("from its lowest to its highest value")


@dataclass(frozen=True, slots=True)
class Count:
    """How many runs have a verdict."""

    level: str
    count: str
    word: str


@dataclass(frozen=True, slots=True)
class FamilyView:
    """A family of runs: a chart of its score, and the table of settings and outcomes."""

    title: str
    summary: str  # how many configurations there are, and how many settings differ
    charts: Sequence[Chart]  # one, or none
    table: TableView
    is_open: bool


@dataclass(frozen=True, slots=True)
class RunsView:
    """What an index of reports shows."""

    summary: str
    counts: list[Count]
    families: list[FamilyView]
    table: TableView  # of the runs
    # packed ``IndexMetricData`` of all metrics on offer, "" for a single one
    metrics: str


def runs_view(
    runs: Sequence[IndexRun],
    draw: Callable[[list[Chart]], list[Chart]],
    language: Language,
) -> RunsView:
    """Return what an index shows of its runs.

    Args:
        runs: in any order; the page has them by severity.
        draw: adds the drawings of charts.
        language: that of the scripts' data, which are packed.
    """
    runs = sorted(runs, key=lambda run: run.rank)
    groups = grouped(runs)
    metrics = [run.metrics for run in runs if not run.is_unread]
    names = offered(metrics)
    shown = DEFAULT if DEFAULT in names or not names else names[0]
    return RunsView(
        summary=plural("{count} report.", "{count} reports.", len(runs)),
        counts=_counts(runs),
        families=_families(groups, runs, draw),
        table=_runs_table(runs, groups, shown),
        metrics=_packed_metrics(names, runs, language),
    )


def _counts(runs: Sequence[IndexRun]) -> list[Count]:
    """Return how many runs have each verdict that any has, in the order of severity."""
    counts = Counter(run.level for run in runs)
    return [
        Count(level, written(counts[level], "count"), WORDS[level])
        for level in SEVERITY
        if counts[level]
    ]


def _packed_metrics(
    names: Sequence[str], runs: Sequence[IndexRun], language: Language
) -> str:
    if len(names) < 2:
        return ""
    of_runs = [run.metrics for run in runs]
    return packed_json([language.of(metric_data(name, of_runs)) for name in names])


def _families(
    groups: Sequence[Group],
    runs: Sequence[IndexRun],
    draw: Callable[[list[Chart]], list[Chart]],
) -> list[FamilyView]:
    """Return the families with settings that differ, or with several runs in a group."""
    found: list[tuple[list[Group], FamilyView]] = []
    room = _ROOM - _BROKEN * sum(run.level in _BROKEN_LEVELS for run in runs)
    for family in families(groups):
        has_several = any(group.is_several for group in family)
        name = f"family-{len(found) + 1}"
        view = family_table(
            family_rows(family), name=name, alone=not has_several, ranked=True
        )
        if view is None:
            continue
        view = replace(view, note=sentences([view.note, *family_remarks(family, view)]))
        chart = score_chart(family, name)
        room -= _ROW * len(view.rows) + (_CHART if chart else 0)
        shown = FamilyView(
            title=view.caption,
            summary=_family_summary(family, view),
            charts=draw([chart]) if chart else [],
            table=view,
            is_open=room > 0,
        )
        found.append((family, shown))
    if len(found) == 1:
        return [found[0][1]]
    # Several are told apart by the names of their runs.
    return [
        replace(
            view,
            title=message(
                "{title}: {name}", title=view.title, name=family_name(family)
            ),
        )
        for family, view in found
    ]


def _family_summary(family: Sequence[Group], view: TableView) -> str:
    keys = [column.key for column in view.columns if column.key.startswith("card:")]
    settings = [key for key in keys if is_relevant(key.removeprefix("card:"))]
    parts = [
        plural("{count} configuration", "{count} configurations", len(family)),
    ]
    if settings:
        differ = plural(
            "{count} setting differs", "{count} settings differ", len(settings)
        )
        parts.append(differ)
    return listed(parts)


def _runs_table(
    runs: Sequence[IndexRun], groups: Sequence[Group], metric: str
) -> TableView:
    """Return the table of all runs, which are in order; it shows a metric."""
    readable = [run.settings for run in runs if not run.is_unread]
    keys = differing_settings(readable)
    columns: Columns = {
        _RUN: _names(runs),
        _VERDICT: [verdict_cell([run.level]) for run in runs],
    }
    for column in _TEXTS:
        columns[column] = [getattr(run, column.key) for run in runs]
    columns |= _metric_columns(runs, metric)
    columns[_STEPS] = [run.steps for run in runs]
    group_names = _group_names(runs, groups)
    if any(group_names):
        columns[_GROUP] = group_names
    columns |= setting_columns(keys, [run.settings for run in runs], shown=0)
    for column in _DETAILS:
        columns[column] = [getattr(run, column.key) for run in runs]
    return table(
        "runs",
        message("Runs"),
        _without_equal(columns, len(runs)),
        hrefs=[run.href for run in runs],
    )


def _names(runs: Sequence[IndexRun]) -> list[Cell]:
    """Return the cells of names; below those that several runs have, there is the path."""
    counts = Counter(run.name for run in runs)
    cells = []
    for run in runs:
        is_of_several = counts[run.name] > 1
        cells.append(Cell(run.name, note=run.place if is_of_several else ""))
    return cells


def _group_names(runs: Sequence[IndexRun], groups: Sequence[Group]) -> list[str]:
    """Return the group of each run, "" for one that is alone."""
    names: dict[int, str] = {}
    for group in groups:
        for run in group.runs:
            names[id(run)] = group.name if group.is_several else ""
    return [names[id(run)] for run in runs]


def _metric_columns(runs: Sequence[IndexRun], quantity: str) -> Columns:
    """Return the columns of a metric, which scripts fill with another one on demand."""
    metrics = [run.metrics.get(quantity, Metric()) for run in runs]
    of = QUANTITIES[quantity]
    columns: Columns = {}
    *names, of_curve = labels(quantity)
    for (key, help_), label in zip(_LEVEL_HELP.items(), names, strict=True):
        column = ColumnView(
            key, label, message(of.unit), help=help_, written=of.written
        )
        columns[column] = [_level_cell(metric, column) for metric in metrics]
    trend = ColumnView("trend", of_curve, kind="path", help=_OVER_STEPS)
    columns[trend] = [metric.path for metric in metrics]
    return columns


def _level_cell(metric: Metric, column: ColumnView) -> Cell:
    cell = number_cell(getattr(metric, column.key), column.written)
    if metric.is_percentage and not math.isnan(metric.last):
        return cell._replace(text=f"{cell.text}%")
    return cell


def _without_equal(columns: Columns, rows: int) -> Columns:
    """Return the columns; those that say the same of all of several rows are hidden, or left out.

    What triage needs is left out only if it is empty. The columns of the metric stay, as another
    one may be chosen.
    """
    found: Columns = {}
    for column, values in columns.items():
        cells: list[Any] = list(values)
        is_same = rows > 1 and len({repr(cell) for cell in cells}) == 1
        if not is_same or column.key in _OF_METRIC:
            found[column] = cells
        elif not _is_empty(cells[0]):
            is_hidden = column not in (_RUN, _VERDICT, *_TEXTS)
            found[replace(column, hidden=is_hidden)] = cells
    return found


def _is_empty(value: object) -> bool:
    text = value.text if isinstance(value, Cell) else value
    return text == "" or (isinstance(text, float) and math.isnan(text))
