"""Key figures of a run and of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rlreport.check.course import course_of
from rlreport.check.course_data import Course, Quantity
from rlreport.check.sentence import NAMES, is_percentage
from rlreport.check.series import Series
from rlreport.columns import STEP, Column
from rlreport.draw.curves import sparkline
from rlreport.metrics.roles import roles_of
from rlreport.pages.context import PageContext, RunContext, StepJob
from rlreport.pages.listed import RUN_TILES
from rlreport.pages.table import Cell, Change, KeyFigure, number_cell
from rlreport.summarise.steps import most_common
from rlreport.text.messages import message, plural, span, translatable
from rlreport.text.numbers import MINUS, NumberKind, exact, written

# Key figure -> (the quantity whose course it shows, its label if it is a metric of the trainer)
_QUANTITIES: dict[str, tuple[Quantity, str]] = {
    "reward_mean": ("reward", translatable("Reward")),
    "validation_reward_mean": ("watched_reward", translatable("Validation")),
    "kl_k1_mean": ("kl", translatable("KL")),
    "response_tokens_mean": ("length", translatable("Length")),
    "surprisal_mean": ("entropy", translatable("Entropy")),
}


def run_courses(context: RunContext) -> list[tuple[Column, Course]]:
    """Return (column, course) of the run's key figures; a course has the means by window."""
    steps = context.tables.without_step_in_progress().training().steps
    courses = context.verdict.courses
    per_token = roles_of(map(str, context.tables.metrics.columns[1:])).get("kl_token")
    result = []
    for name in RUN_TILES:
        quantity, label = _QUANTITIES.get(name, (None, ""))
        column = STEP[name]
        course = courses.get(quantity) if quantity else None
        if quantity is None and name in context.tile_names:
            values = steps[name].to_numpy(np.float64)
            course = course_of(Series(steps["step"].to_numpy(np.int64), values), name)
        if course and course.source == "metrics":
            column = replace(
                column,
                label=label,
                unit=translatable("nats per token")
                if course.column == per_token
                else column.unit,
                help=message(
                    "“{metric}”, from the trainer's metrics", metric=course.column
                ),
            )
        if course:
            result.append(
                (STEP[course.column] if course.source == "rollouts" else column, course)
            )
    return result


def run_figures(context: RunContext) -> list[KeyFigure]:
    """Return the run's key figures: means of the first, best and last window, a sparkline."""
    scores = [context.verdict.courses.get(quantity) for quantity in NAMES]
    return [
        _run_figure(column, course, is_score=any(course is score for score in scores))
        for column, course in run_courses(context)
    ]


def _run_figure(column: Column, course: Course, *, is_score: bool) -> KeyFigure:
    first, best, last = (
        number_cell(part.value, column.kind)._replace(
            exact=message(
                "{value}, {steps}", value=exact(part.value), steps=span(part.steps)
            )
        )
        for part in (course.first, course.best, course.last)
    )
    is_lower = course.lost or course.slipped  # beyond noise
    return KeyFigure(
        column.name,
        column.label,
        "%" if is_percentage(course) else column.unit,
        last,
        first if course.first != course.last else None,
        best if is_score and is_lower and course.best != course.first else None,
        sparkline=sparkline(course.values, course.steps),
        help=column.help,
    )


def windows_in_words(context: RunContext) -> str:
    windows = (course.window for course in context.verdict.courses.values())
    return plural(
        "First → last, or first → best → last.",
        "First → last, or first → best → last: means of up to {count} consecutive values.",
        max(windows, default=1),
    )


def logged_part(context: RunContext) -> str:
    """Return a note if the bold reward line is the trainer's, over all rollouts; "" otherwise."""
    reward = context.verdict.courses.get("reward")
    counts = context.tables.training().steps["responses"].to_numpy()
    count = most_common(counts[counts > 0])
    if reward is None or reward.source == "rollouts" or not count:
        return ""
    return plural(
        "The bold line is the trainer's mean over all rollouts; {count} per step is logged.",
        "The bold line is the trainer's mean over all rollouts; {count} per step are logged.",
        count,
    )


def step_figures(context: PageContext, job: StepJob) -> list[KeyFigure]:
    """Return the key figures of a step with changes since the previous and the first step."""
    steps = job.figures["step"]
    last = len(job.figures["step"]) - 1
    earlier = dict.fromkeys(i for i in (last - 1, 0) if 0 <= i < last)
    result = []
    for name in context.tile_names:
        figure = STEP[name]
        values = job.figures[name]
        changes = (
            change(
                values[last],
                values[i],
                message("step {step}", step=steps[i]),
                figure.kind,
            )
            for i in earlier
        )
        result.append(
            KeyFigure(
                name,
                figure.label,
                figure.unit,
                number_cell(values[last], figure.kind, message("not in this step")),
                changes=[item for item in changes if item],
                help=figure.help,
            )
        )
    return result


ROUNDING = (
    1e-12  # Largest relative difference of two means that still counts as no change
)


def change(
    now: float, then: float, since: str, kind: NumberKind = "number"
) -> Change | None:
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    size = written(abs(delta), kind)
    # Rounding errors, as between two equal means, are no change.
    rounding = abs(delta) <= ROUNDING * max(abs(now), abs(then))
    flat = rounding or not any(c in "123456789∞" for c in size.split("e")[0])
    direction = "flat" if flat else ("up" if delta > 0 else "down")
    signed = f"{'+' if delta > 0 else MINUS}{size}"
    if kind == "share":  # changes of shares are in percentage points
        signed = message("{number} points", number=signed.removesuffix("%"))
    return Change(since, Cell("±0" if flat else signed, delta, exact(delta)), direction)
