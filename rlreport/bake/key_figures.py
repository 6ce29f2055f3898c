"""Key figures of a run and of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rlreport.bake.context import (
    RUN_TILES,
    SAMPLED_FIGURE,
    PageContext,
    RunContext,
    RunFigure,
    StepFacts,
)
from rlreport.bake.views import Cell, Change, KeyFigure, number_cell
from rlreport.check.run import Run
from rlreport.columns import STEP
from rlreport.draw.series import sparkline
from rlreport.text.messages import marked, message, sentences, span, told
from rlreport.text.numbers import MINUS, NumberKind, exact, written

_ROLES = {
    "reward_mean": ("reward", marked("Reward")),
    "validation_reward_mean": ("validation", marked("Validation")),
    "kl_k1_mean": ("kl", marked("KL")),
    "response_tokens_mean": ("length", marked("Length")),
    "surprisal_mean": ("entropy", marked("Entropy")),
}
"""Key figure -> the role of the trainer's metric that takes its place, and its label then."""


def trainer_figures(run: Run) -> dict[str, RunFigure]:
    """Return the key figures from the trainer's metrics, by column of the table of steps."""
    result = {}
    for name, (own_role, label) in _ROLES.items():
        per_token = own_role == "kl" and "kl" not in run.roles and not run.has("kl_k1")
        role = "kl_token" if per_token else own_role
        series = run.series_of(role)
        # Validation is evaluated at few steps; what else is logged at few of them tells less.
        if series is None or not len(series.values):
            continue
        if role != "validation" and not run.covers(series):
            continue
        first, last = run.ends_of(series)
        if role == "reward":
            windows = run.reward_windows()
            first, last = windows["start"], windows["end"]
        column = replace(
            STEP[name],
            label=label,
            unit=marked("nats per token") if per_token else STEP[name].unit,
            help=message("“{metric}”, from the trainer's metrics", metric=series.name),
        )
        result[name] = RunFigure(column, series.values, first, last)
    return result


def run_figures(context: RunContext) -> list[KeyFigure]:
    """Return every figure the log can feed: first window → last window, with a sparkline."""
    (before, after), means = context.windows, context.window_figures
    figures = {
        name: RunFigure(
            STEP[name], context.steps[name].to_numpy(np.float64), *map(float, means[name])
        )
        for name in context.tile_names
    } | context.trainer_figures
    if "response_tokens_mean" in figures:
        figures.pop("response_chars_mean", None)
    result = []
    for name in sorted(figures, key=RUN_TILES.index):
        column, values, first, last = figures[name]
        # The note below the figures names the windows.
        delta = change(last, first, span(before), column.kind) if before != after else None
        result.append(
            KeyFigure(
                column.name,
                column.label,
                column.unit,
                number_cell(last, column.kind, message("not in {steps}", steps=span(after))),
                number_cell(first, column.kind) if delta else None,
                [replace(delta, since="")] if delta else [],
                sparkline(values) if np.count_nonzero(~np.isnan(values)) > 1 else "",
                column.help,
            )
        )
    return result


def windows_in_words(context: RunContext) -> str:
    """Say what the run's key figures are means of: "Mean of steps 0–11 → mean of steps 48–59"."""
    before, after = map(span, context.windows)
    if before == after:
        words = message("Mean of {steps}.", steps=after)
    else:
        words = message("Mean of {before} → mean of {after}.", before=before, after=after)
    shown = SAMPLED_FIGURE in context.tile_names
    return sentences([words, distinct_2_note(context.tables.sample_note) if shown else ""])


def distinct_2_note(sample_note: str) -> str:
    """Say that distinct-2 comes from a sample, "" if it does not."""
    return message("Distinct-2 is {sample}.", sample=sample_note) if sample_note else ""


def step_figures(context: PageContext, facts: StepFacts) -> list[KeyFigure]:
    """Return the figures of one step with their change since the previous and the first step."""
    steps, last = facts.figures["step"].tolist(), len(facts.figures) - 1
    earlier = dict.fromkeys(i for i in (last - 1, 0) if 0 <= i < last)
    result = []
    for name in context.tile_names:
        figure, values = STEP[name], facts.figures[name].to_numpy(np.float64).tolist()
        changes = (
            change(values[last], values[i], message("step {step}", step=steps[i]), figure.kind)
            for i in earlier
        )
        result.append(
            KeyFigure(
                name,
                figure.label,
                figure.unit,
                number_cell(values[last], figure.kind, message("not in this step")),
                changes=[one for one in changes if one],
                help=figure.help,
            )
        )
    return result


_CHANGED = {
    "flat": marked("unchanged since {since}"),
    "up": marked("up by {size} since {since}"),
    "down": marked("down by {size} since {since}"),
}


def change(now: float, then: float, since: str, kind: NumberKind = "number") -> Change | None:
    """The change from ``then`` to ``now``, or None when either is missing."""
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    size = written(abs(delta), kind)
    flat = not any(c in "123456789∞" for c in size.split("e")[0])
    direction = "flat" if flat else ("up" if delta > 0 else "down")
    signed = f"{'+' if delta > 0 else MINUS}{size}"
    if kind == "share":  # a change of shares is one of points
        size, signed = (
            message("{number} points", number=text.removesuffix("%")) for text in (size, signed)
        )
    words = told(_CHANGED[direction], {"size": size, "since": since})
    return Change(since, Cell("±0" if flat else signed, delta, exact(delta)), direction, words)
