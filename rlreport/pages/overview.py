"""The overview: verdict, findings, key figures, charts, extremes, turns and the table of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from rlreport.about.card import card_view
from rlreport.check.group_signal import group_signal, signal_in_words
from rlreport.columns import STEP
from rlreport.draw.chart import Chart, evenly
from rlreport.draw.run_charts import not_drawn
from rlreport.ended import ENDED, FINISHED
from rlreport.metrics.roles import logging_advice, roles_of
from rlreport.pages.agents import environments_table, turns_table
from rlreport.pages.assistant import assistant_text
from rlreport.pages.author_notes import linked_notes, render_notes
from rlreport.pages.charts import drawn_charts, page_charts
from rlreport.pages.context import JudgedRun, RunReport
from rlreport.pages.extremes import extreme_responses, extremes_table
from rlreport.pages.figures import logged_part, run_figures, windows_in_words
from rlreport.pages.film_view import FilmView, film_view
from rlreport.pages.findings import VerdictView, verdict_view
from rlreport.pages.listed import STEP_LINK, columns_with_data
from rlreport.pages.listed_steps import listed_steps
from rlreport.pages.moved_view import MovedView, moved_view
from rlreport.pages.page import Addresses, Page
from rlreport.pages.prompt_map_view import courses_in_words
from rlreport.pages.run_facts import RunFact, run_facts
from rlreport.pages.table import (
    MOST_PRINTED,
    Columns,
    ColumnView,
    KeyFigure,
    Link,
    TableView,
    name_cell,
    number_columns_of,
    table,
)
from rlreport.pages.times_view import TimeView, time_lines, time_view
from rlreport.read.changed import changes_in_words
from rlreport.tables import NoteKind, RowRole, Tables, counted_responses
from rlreport.text.messages import (
    listed,
    message,
    plural,
    sentences,
)

# Maximum number of charts that are visible before further ones are unfolded
MOST_OPEN = 8
# Maximum number of trainer metrics files the summary names; the data page lists all
MOST_NAMED = 3
# Columns of the overview's table of steps; columns without data are left out
STEPS_SHOWN = (
    "responses",
    "failed_rollouts",
    "reward_mean",
    "reward_std",
    "ref_reward_mean",
    "win_rate",
    "lose_rate",
    "valid_reward_mean",
    "kl_k1_mean",
    "kl_k3_mean",
    "log_ratio_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "distinct_2",
    "explained_variance",
    "zero_variance_groups",
)

# Kinds of trainer metrics that the table of steps lists if no responses are logged
ROLES_SHOWN = ("validation", "kl", "kl_token", "entropy", "entropy_response")


@dataclass(frozen=True, slots=True)
class OverviewView:
    """What the overview shows; mail and Markdown show parts of it."""

    facts: list[RunFact]  # model, date, … as far as they are known
    summary: str
    responses: int  # number of training responses
    notes: Markup  # the author's, as HTML
    card: Mapping[str, str] | None
    warnings: str  # what readers must know of the logs before they read the verdict
    second: str  # which function the second reward is of, "" without one
    unscored: bool  # whether it has no value for some responses
    flips: Link  # to what it changes
    verdict: VerdictView
    moved: MovedView | None
    lead: Chart | None  # chart of the verdict
    reward: Chart | None
    film: FilmView | None  # answers to a prompt across the run
    logged: str  # note below the chart of the reward
    charts: list[Chart]  # the visible ones
    more: list[Chart]  # those that are folded
    not_drawn: list[str]
    time: TimeView | None
    in_short: list[str]  # what mail and Markdown say of time, groups and prompts
    figures: Sequence[KeyFigure]
    windows: str  # what the key figures are means of
    environments: TableView | None
    extremes: TableView
    turns: TableView | None
    advice: Mapping[str, str] | None  # how to log rollouts, if there are none
    steps: TableView
    left_out: list[str]
    assistant: str = ""  # all of it in short, for a language model


def overview_view(report: RunReport, addresses: Addresses) -> OverviewView:
    charts = drawn_charts(report).overview
    notes = linked_notes(report, addresses).html
    view = _overview(report, addresses, charts, notes)
    run = report.run
    text = assistant_text(view, run.title, run.options.language)
    return replace(view, assistant=text)


PAGE = Page("overview", message("Overview"), overview_view)


def overview_in_short(report: RunReport) -> OverviewView:
    """Return the overview for mail and Markdown: no chart is drawn, and nothing is linked."""
    charts = page_charts(report).overview
    run = report.run
    notes = render_notes(
        run.author_notes, quotes=run.quotes, language=run.options.language
    ).html
    return _overview(report, Addresses(), charts, notes)


def _overview(
    report: RunReport, addresses: Addresses, charts: Sequence[Chart], notes: Markup
) -> OverviewView:
    """Return what the overview shows, with these charts and the author's notes as HTML."""
    run = report.run
    tables = run.tables
    by_place = charts_by_place(charts)
    advice = None
    if not run.has_responses:
        metrics = tables.metrics.columns[1:]  # without the step
        advice = logging_advice(map(str, metrics))
    figures = run_figures(report)
    extremes = extreme_responses(report)
    moved = moved_view(report)
    if moved is not None:
        # The curves of those that moved are above; all figures alike have none, which is calmer.
        figures = [replace(figure, sparkline="") for figure in figures]
    has_unscored = bool(tables.rescoring and tables.rescoring.missing)
    flips = Link(message("Flips"), addresses.page("flips"))
    return OverviewView(
        facts=run_facts(run),
        summary=_summary(tables),
        responses=int((tables.responses["validation"] == RowRole.TRAINING).sum()),
        notes=notes,
        card=card_view(run.card),
        warnings=_warnings(run),
        second=_second_reward(tables),
        unscored=has_unscored,
        flips=flips,
        verdict=verdict_view(run.verdict, addresses),
        moved=moved,
        lead=by_place.lead,
        reward=by_place.reward,
        film=film_view(report, addresses),
        logged=logged_part(run),
        charts=by_place.visible,
        more=by_place.folded,
        not_drawn=not_drawn(tables),
        time=time_view(tables.times, by_place.time, addresses),
        in_short=_in_short(tables),
        figures=figures,
        windows=windows_in_words(run),
        environments=environments_table(report, addresses),
        extremes=extremes_table(extremes, report.shared.prefixes, addresses),
        turns=turns_table(run, addresses),
        advice=advice,
        steps=_steps_table(run, addresses),
        left_out=report.left_out,
    )


def _in_short(tables: Tables) -> list[str]:
    """Return what became of prompts, what groups taught, and when the run was, in sentences."""
    signal = group_signal(tables)
    of_groups = "" if signal is None else signal_in_words(signal)
    lines = [*time_lines(tables.times), of_groups, courses_in_words(tables)]
    return [line for line in lines if line]


# Notes on what the verdict is about
_TOLD_FIRST = (NoteKind.NO_STEP, NoteKind.OTHER_RUN, NoteKind.PARTLY_LOGGED)


def _warnings(run: JudgedRun) -> str:
    """Return what readers must know of the logs before the verdict, "" if nothing."""
    tables = run.tables
    # The verdict itself may be that the logs are of several runs, and not judged.
    several_runs_lead = run.verdict.level == "unjudged" and run.verdict.lead
    texts = []
    how = ended_early(run)
    if how:
        texts.append(message("The training did not finish: {how}.", how=how))
    for note in tables.notes:
        if note.kind in _TOLD_FIRST:
            texts.append(message("{one:capital}.", one=note.text))
        elif note.kind == NoteKind.SEVERAL_RUNS and not several_runs_lead:
            texts.append(note.text)
    return sentences([*texts, changes_in_words(tables.notes, tables.judged_before)])


def _second_reward(tables: Tables) -> str:
    """Return which function of the user the second reward is of, and what it did not score."""
    about = tables.rescoring
    if about is None:
        return ""
    named = message("The second reward is that of {function}.", function=about.function)
    if not about.missing:
        return named
    return sentences([named, message("{one:capital}.", one=about.missing)])


def ended_early(run: JudgedRun) -> str:
    """Return how the training ended, as ``--meta ended=…`` says; "" if it finished."""
    # Only what the user or the callback gave; a configuration may use the name for something else.
    if ENDED not in run.options.meta:
        return ""
    how = str(run.card.entries.get(ENDED, "")).rstrip(".")
    # Redaction may have replaced it.
    return "" if how.startswith((FINISHED, "[text]")) else how


class ChartsByPlace(NamedTuple):
    """The charts of the overview by where they are."""

    lead: Chart | None
    reward: Chart | None
    visible: list[Chart]
    time: list[Chart]
    folded: list[Chart]


def charts_by_place(charts: Sequence[Chart]) -> ChartsByPlace:
    """Put up to MOST_OPEN charts where they are visible, the others where they are folded.

    Charts are in page order, each with its ``place``.
    """
    on_top = {c.place: c for c in charts if c.place in ("lead", "reward")}
    room = MOST_OPEN - len(on_top)
    open_charts = [c for c in charts if c.place == "open"]
    folded = open_charts[room:] + [c for c in charts if c.place == "more"]
    # One heading per group; charts without a group come first.
    groups = list(dict.fromkeys(["", *(chart.group for chart in folded)]))
    return ChartsByPlace(
        lead=on_top.get("lead"),
        reward=on_top.get("reward"),
        visible=open_charts[:room],
        time=[c for c in charts if c.place == "time"],
        folded=sorted(folded, key=lambda chart: groups.index(chart.group)),
    )


def _summary(tables: Tables) -> str:
    """Return how much is logged over which steps, and in which files."""
    if tables.responses.empty:
        parts = [_metrics_without_rollouts(tables)]
    else:
        parts = [_rollouts(tables), _texts_counted(tables), _metrics(tables)]
    return sentences([*parts, _end(tables)])


def _metrics_files(tables: Tables) -> str:
    """Return the names of the files with the trainer's metrics, or the number of many."""
    names = [file.name for file in tables.metrics_files]
    if len(names) > MOST_NAMED:
        return plural("{count} file", "{count} files", len(names))
    return listed(names)


def _metrics_without_rollouts(tables: Tables) -> str:
    steps = tables.steps["step"].tolist()
    metrics = len(tables.metrics.columns) - 1  # without the step
    return message(
        "{metrics} of the trainer over {steps:count} steps ({low}–{high}), from {files}. No "
        "rollouts are logged.",
        metrics=plural("{count} metric", "{count} metrics", metrics),
        files=_metrics_files(tables),
        steps=len(steps),
        low=steps[0],
        high=steps[-1],
    )


def _rollouts(tables: Tables) -> str:
    """Return how many responses are logged, at which steps, in how many files."""
    steps = tables.steps["step"].tolist()
    responses = counted_responses(tables.responses["validation"])
    files = plural("{count} file", "{count} files", len(tables.files))
    if len(steps) == 1:
        return message(
            "{responses} at step {low}, from {files}.",
            responses=responses,
            low=steps[0],
            files=files,
        )
    return message(
        "{responses} over {steps:count} steps ({low}–{high}), from {files}.",
        responses=responses,
        steps=len(steps),
        low=steps[0],
        high=steps[-1],
        files=files,
    )


def _texts_counted(tables: Tables) -> str:
    """Return which responses the figures of texts are from, "" if these are all."""
    sample = tables.sample_note
    if not sample:
        return ""
    return message("Counts of texts and tokens come {sample}.", sample=sample)


def _metrics(tables: Tables) -> str:
    """Return which files have the trainer's metrics, and where these end; "" without any."""
    if not tables.metrics_files:
        return ""
    extent = tables.extent
    if extent is None or extent.metrics_end is None:
        return message("Trainer metrics from {names}.", names=_metrics_files(tables))
    return message(
        "Trainer metrics from {names} end at step {end}.",
        names=_metrics_files(tables),
        end=extent.metrics_end,
    )


def _end(tables: Tables) -> str:
    """Return where a run ends that has fewer steps than planned, "" for others."""
    extent = tables.extent
    if extent is None or not extent.is_short:
        return ""
    if tables.in_progress is not None:
        return message(
            "Step {last:count} of {planned:count}.",
            last=extent.last_step,
            planned=extent.planned_steps,
        )
    return message(
        "The log ends at step {last:count} of {planned:count}.",
        last=extent.last_step,
        planned=extent.planned_steps,
    )


def _steps_table(run: JudgedRun, addresses: Addresses) -> TableView:
    """Return the table of steps, see ``listed_steps``."""
    all_steps = run.tables.steps
    names = columns_with_data(all_steps, STEPS_SHOWN)
    # Counts that are 0 in every step are left out.
    for name in ("failed_rollouts", "responses"):
        if name in names and not all_steps[name].any():
            names.remove(name)
    steps, note = listed_steps(all_steps, addresses)
    numbers = steps["step"].tolist()
    columns: Columns = {STEP_LINK: map(name_cell, numbers)}
    columns |= number_columns_of(steps, [STEP[name] for name in names])
    if not run.has_responses:
        columns |= _trainer_columns(run.tables, numbers)
    incomplete = steps["incomplete"].tolist()
    badges = [
        _step_badges(run, step, is_incomplete=bool(flag))
        for step, flag in zip(numbers, incomplete, strict=True)
    ]
    return table(
        "steps",
        message("Steps"),
        columns,
        ids=numbers,
        hrefs=map(addresses.step, numbers),
        badges=badges,
        note=note,
        printed=evenly(len(numbers), MOST_PRINTED).tolist(),
    )


def _trainer_columns(tables: Tables, steps: list[int]) -> Columns:
    """Return the columns of the trainer's metrics of ROLES_SHOWN, at these steps."""
    metrics = tables.metrics.set_index("step").reindex(steps)
    roles = roles_of(map(str, metrics.columns), tables.metric_roles)
    columns: Columns = {}
    for role in ROLES_SHOWN:
        if role in roles:
            name = roles[role]
            columns[ColumnView(f"metric:{name}", str(name))] = metrics[name]
    return columns


def _step_badges(run: JudgedRun, step: int, *, is_incomplete: bool) -> list[str]:
    """Return what is special about a step: unfinished, or one of the lead finding."""
    badges = []
    if is_incomplete:
        badges.append(message("incomplete"))
    if step == run.tables.in_progress:
        badges.append(message("in progress"))
    lead = run.verdict.leading
    if lead is not None and step in lead.steps:
        badges.append(lead.name)
    return badges
