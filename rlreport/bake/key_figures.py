"""Key figures of a run and of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rlreport.bake.context import RUN_TILES, SAMPLED_FIGURE, PageContext, RunFigure
from rlreport.bake.views import Change, KeyFigure, Num, number
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
    """Return the key figures that the trainer's metrics tell, by column of the table of steps."""
    found = {}
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
        found[name] = RunFigure(column, series.values, first, last)
    return found


def run_figures(context: PageContext) -> list[KeyFigure]:
    """First window → last window of every figure the log can feed, with a sparkline."""
    made = []
    (before, after), table = context.windows, context.window_figures
    figures = {
        figure.name: RunFigure(figure, values, *map(float, table[figure.name]))
        for figure, values in context.tiles
    } | context.trainer_figures
    if "response_tokens_mean" in figures:
        figures.pop("response_chars_mean", None)
    for name in sorted(figures, key=RUN_TILES.index):
        figure, values, first, last = figures[name]
        delta = change(last, first, span(before), figure.kind) if before != after else None
        made.append(
            KeyFigure(
                figure.name,
                figure.label,
                figure.unit,
                number(last, figure.kind, message("not in {steps}", steps=span(after))),
                number(first, figure.kind) if delta else None,
                [replace(delta, since="")] if delta else [],  # the note names the windows
                sparkline(values) if np.count_nonzero(~np.isnan(values)) > 1 else "",
                figure.help,
            )
        )
    return made


def windows_in_words(context: PageContext) -> str:
    """What the key figures of the run are means of: "Mean of steps 0–11 → mean of steps 48–59"."""
    before, after = map(span, context.windows)
    if before == after:
        said = message("Mean of {steps}.", steps=after)
    else:
        said = message("Mean of {before} → mean of {after}.", before=before, after=after)
    shown = SAMPLED_FIGURE in context.tile_names
    return sentences([said, distinct_2_note(context.sample_note) if shown else ""])


def distinct_2_note(sample_note: str) -> str:
    """Say that distinct-2 comes from a sample, "" if it does not."""
    return message("Distinct-2 is {sample}.", sample=sample_note) if sample_note else ""


def step_figures(context: PageContext, position: int) -> list[KeyFigure]:
    """Figures of one step with their change since the previous and the first step."""
    made = []
    names = context.steps["step"].to_numpy()
    for figure, values in context.tiles:
        against = dict.fromkeys(i for i in (position - 1, 0) if 0 <= i < position)
        changes = [
            delta
            for i in against
            if (
                delta := change(
                    float(values[position]),
                    float(values[i]),
                    message("step {step}", step=names[i]),
                    figure.kind,
                )
            )
        ]
        made.append(
            KeyFigure(
                figure.name,
                figure.label,
                figure.unit,
                number(float(values[position]), figure.kind, message("not in this step")),
                changes=changes,
                help=figure.help,
            )
        )
    return made


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
            message("{number} points", number=text.removesuffix(" %")) for text in (size, signed)
        )
    words = told(_CHANGED[direction], {"size": size, "since": since})
    return Change(since, Num("±0" if flat else signed, exact(delta), delta), direction, words)
