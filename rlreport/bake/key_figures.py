"""Key figures of a run and of a step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rlreport.bake.context import SAMPLED_FIGURE, PageContext
from rlreport.bake.views import Change, KeyFigure, Num, number
from rlreport.draw.series import sparkline
from rlreport.text.messages import marked, message, sentences, span, told
from rlreport.text.numbers import MINUS, NumberKind, exact, written


def run_figures(context: PageContext) -> list[KeyFigure]:
    """First window → last window of every figure the log can feed, with a sparkline."""
    made = []
    (before, after), table = context.windows, context.window_figures
    for figure, values in context.tiles:
        first, last = (float(value) for value in table[figure.name])
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
