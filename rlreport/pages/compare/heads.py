"""What tables of a comparison have in common: columns of both sides, intervals, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.comparison.guardrail_words import not_shown
from rlreport.comparison.labels import Labels
from rlreport.comparison.statistics import LEVEL, Effect
from rlreport.pages.table import Cell, ColumnView
from rlreport.text.messages import figure, message
from rlreport.text.numbers import MISSING

BASE = message("BASE")
NEW = message("NEW")


def of_sides(column: ColumnView, labels: Labels) -> tuple[ColumnView, ColumnView]:
    """Return the columns ``base`` and ``new``: what the side is called, above BASE and NEW.

    ``column`` has the rest of both; its key and its label, if any, come before those of the side.
    """
    heads = []
    sides = [("base", labels.base, BASE), ("new", labels.new, NEW)]
    for key, name, side in sides:
        text = name
        if column.label:
            text = message("{what}, {name}", what=column.label, name=name)
        full_key = f"{key}_{column.key}" if column.key else key
        heads.append(replace(column, key=full_key, label=text, unit=side))
    base, new = heads
    return base, new


DIFFERENCE = ColumnView(
    "effect", message("Difference"), help=message("of the shared prompts, NEW − BASE")
)
RESULT = ColumnView("level", message("Result"), kind="text")
INTERVAL = ColumnView(
    "interval", message("95% interval"), help=message("of the difference")
)


def interval_cells(effects: Sequence[Effect]) -> list[Cell]:
    return [_interval_cell(effect.low, effect.high) for effect in effects]


def _interval_cell(low: float, high: float) -> Cell:
    if not low <= high:  # NaN
        return Cell(MISSING, None, message("too few prompts"))
    text = message("{low} to {high}", low=figure(low), high=figure(high))
    return Cell(text, low)


def result_of(effect: Effect, p: float, count: int) -> str:
    """Return what a difference shows; ``p`` is corrected for ``count`` of them."""
    if not np.isfinite(effect.low):
        return message("too few prompts")
    if p > 1 - LEVEL or effect.low == effect.high == 0:
        return not_shown(effect, count)
    return message("higher") if effect.value > 0 else message("lower")
