"""Key figures of a run and of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.check.course import Course, Quantity, course_of
from rlreport.check.course_words import NAMES
from rlreport.check.curve import Level
from rlreport.check.group_signal import group_signal
from rlreport.check.series import Series
from rlreport.columns import STEP, Column
from rlreport.draw.sparkline import sparkline
from rlreport.metrics.roles import roles_of
from rlreport.pages.context import JudgedRun, PageContext, RunReport, StepJob
from rlreport.pages.listed import RUN_TILES
from rlreport.pages.table import Cell, Change, KeyFigure, number_cell
from rlreport.summarise.steps import most_common
from rlreport.text.messages import (
    clauses,
    message,
    plural,
    span,
    translatable,
    with_unit,
)
from rlreport.text.numbers import MINUS, NumberKind, exact, written

# Key figure -> (the quantity whose course it shows, its label if it is a metric of the trainer)
_QUANTITIES: dict[str, tuple[Quantity, str]] = {
    "reward_mean": ("reward", translatable("Reward")),
    "validation_reward_mean": ("validation", translatable("Validation")),
    "valid_reward_mean": ("second_reward", translatable("Second reward")),
    "kl_k1_mean": ("kl", translatable("KL")),
    "response_tokens_mean": ("length", translatable("Length")),
    "surprisal_mean": ("entropy", translatable("Entropy")),
}


def run_courses(report: RunReport) -> list[tuple[Column, Course]]:
    """Return (column, course) of the run's key figures; a course has the means by window."""
    return report.once("courses", lambda: _run_courses(report))


def _run_courses(report: RunReport) -> list[tuple[Column, Course]]:
    """Compute what ``run_courses`` returns."""
    run = report.run
    steps = run.tables.without_step_in_progress().training().steps
    metrics = map(str, run.tables.metrics.columns[1:])  # without the step
    per_token = roles_of(metrics, run.tables.metric_roles).get("kl_token")
    result = []
    for name in RUN_TILES:
        is_tile = name in report.shared.tile_names
        if name == "zero_variance_groups":
            is_tile = is_tile or _wastes_groups(run)
        if name in _QUANTITIES:
            # The verdict already has the course, perhaps that of a metric of the trainer.
            quantity, label = _QUANTITIES[name]
            course = run.verdict.courses.get(quantity)
            if course is None and quantity == "validation":
                # The part of the reward that stands in for it, if there is one
                course = run.verdict.courses.get("accuracy")
        elif is_tile:
            label = ""
            values = steps[name].to_numpy(np.float64)
            course = course_of(Series(steps["step"].to_numpy(np.int64), values), name)
        else:
            continue
        if course is None:  # too few values
            continue
        if course.name:
            column = _part_column(STEP[name], course)
        elif course.source == "rollouts":
            column = STEP[course.column]
        else:
            column = _trainer_column(STEP[name], course, label, per_token)
        result.append((column, course))
    return result


def _wastes_groups(run: JudgedRun) -> bool:
    """Return whether some groups of a run that learns from groups taught nothing."""
    signal = group_signal(run.tables)
    return signal is not None and signal.equal > 0


def _part_column(column: Column, course: Course) -> Column:
    """Return a key figure's column with label and help for a part of the reward."""
    help = message("“{part}”, a part of the reward", part=course.name)
    return replace(column, label=course.name, unit="", help=help)


def _trainer_column(
    column: Column, course: Course, label: str, per_token: str | None
) -> Column:
    """Return a key figure's column with label, unit and help for a metric of the trainer.

    ``per_token``: name of the metric that is the KL per token, None without one.
    """
    unit = column.unit
    if course.column == per_token:
        unit = translatable("nats per token")
    help = message("“{metric}”, from the trainer's metrics", metric=course.column)
    return replace(column, label=label, unit=unit, help=help)


def run_figures(report: RunReport) -> list[KeyFigure]:
    """Return the run's key figures: means of the first, best and last window, a sparkline."""
    return report.once("figures", lambda: _run_figures(report))


def _run_figures(report: RunReport) -> list[KeyFigure]:
    scores = [report.run.verdict.courses.get(quantity) for quantity in NAMES]
    figures = []
    for column, course in run_courses(report):
        is_score = any(course is score for score in scores)
        figures.append(_run_figure(column, course, is_score=is_score))
    return figures


def _run_figure(column: Column, course: Course, *, is_score: bool) -> KeyFigure:
    """Return a key figure of the run: its mean in the last window, and in the first and the best.

    ``is_score``: whether it is a reward, which should be high. Only such a figure has a best
    window, shown if it fell since. A first window that is also the last is not repeated.
    """
    first = _window_cell(course.first, column)
    best = _window_cell(course.top, column)
    last = _window_cell(course.last, column)
    is_lower = course.lost or course.slipped  # beyond noise
    return KeyFigure(
        column.name,
        column.label,
        course.unit or column.unit,
        last,
        first if course.first != course.last else None,
        best if is_score and is_lower and course.top != course.first else None,
        sparkline=sparkline(course.values, course.steps),
        help=column.help,
        term=column.term,
    )


def _window_cell(level: Level, column: Column) -> Cell:
    """Return a level, with its exact value and its steps on hover."""
    places = {"value": exact(level.value), "steps": span(level.steps)}
    cell = number_cell(level.value, column.kind)
    return cell._replace(exact=message("{value}, {steps}", **places))


def windows_in_words(run: JudgedRun) -> str:
    """Return what the arrows between key figures mean, and how many values a level has."""
    counts = []
    for course in run.verdict.courses.values():
        counts += [course.first.count, course.last.count]
    return plural(
        "First → last, or first → best → last.",
        "First → last, or first → best → last: means of up to {count} consecutive values.",
        max(counts, default=1),
    )


def logged_part(run: JudgedRun) -> str:
    """Return a note if the bold reward line is the trainer's, over all rollouts; "" otherwise.

    The note has the usual number of rollouts per step that are logged.
    """
    reward = run.verdict.courses.get("reward")
    counts = run.tables.training().steps["responses"].to_numpy()
    count = most_common(counts[counts > 0])
    if reward is None or reward.source == "rollouts" or not count:
        return ""
    return plural(
        "The bold line is the trainer's mean over all rollouts; {count} per step is logged.",
        "The bold line is the trainer's mean over all rollouts; {count} per step are logged.",
        count,
    )


def step_figures(context: PageContext, job: StepJob) -> list[KeyFigure]:
    """Return the key figures of a step with changes since the previous and the first step.

    ``job.figures`` has, by name, the values of these steps and of the step itself, which is last.
    """
    steps = job.figures["step"]
    last = len(steps) - 1
    # Of the rows of the first, the previous and this step, which may be the same.
    earlier = sorted({max(0, last - 1), 0} - {last}, reverse=True)
    result = []
    for name in context.tile_names:
        figure = STEP[name]
        values = job.figures[name]
        changes = []
        for row in earlier:
            since = message("step {step}", step=steps[row])
            found = change(values[last], values[row], since, figure.kind)
            if found:
                changes.append(found)
        result.append(
            KeyFigure(
                name,
                figure.label,
                figure.unit,
                number_cell(values[last], figure.kind, message("not in this step")),
                changes=changes,
                help=figure.help,
                term=figure.term,
            )
        )
    return result


def figures_in_words(figures: Sequence[KeyFigure]) -> str:
    """Return key figures as a line such as "Reward 1.52; KL 78.1 nats per response"."""
    known = [figure for figure in figures if figure.now.value is not None]
    words = []
    for figure in known:
        now = figure.now.text
        value = with_unit(now, message(figure.unit)) if figure.unit else now
        words.append(message("{name} {value}", name=figure.label, value=value))
    return clauses(words)


# Largest relative difference of two means that still counts as no change
ROUNDING = 1e-12


def change(
    now: float, then: float, since: str, kind: NumberKind = "number"
) -> Change | None:
    """Return the change from ``then`` to ``now``, None if one of them is missing.

    ``since`` names the step of ``then``; ``kind`` is the format of both numbers.
    """
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    size = written(abs(delta), kind)
    # Rounding errors, as between two equal means, are no change, nor is what is written as 0.00.
    is_rounding = abs(delta) <= ROUNDING * max(abs(now), abs(then))
    mantissa = size.split("e")[0]
    is_written_as_zero = not any(c in "123456789∞" for c in mantissa)
    if is_rounding or is_written_as_zero:
        return Change(since, Cell("±0", delta, exact(delta)), "flat")
    signed = f"{'+' if delta > 0 else MINUS}{size}"
    if kind == "share":  # changes of shares are in percentage points
        signed = message("{number} points", number=signed.removesuffix("%"))
    direction = "up" if delta > 0 else "down"
    return Change(since, Cell(signed, delta, exact(delta)), direction)
