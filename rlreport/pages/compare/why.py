"""What the difference of the rewards goes with: properties of responses, parts of the reward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlreport.comparison.decomposition import (
    ANY_MARK,
    ENVIRONMENT,
    FORMAT,
    Property,
    RewardPart,
)
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.statistics import LEVEL
from rlreport.comparison.words import signed
from rlreport.pages.compare.heads import (
    INTERVAL,
    RESULT,
    interval_cells,
    of_sides,
    result_of,
)
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
)
from rlreport.text.labels import ANSWER_MARKS
from rlreport.text.messages import figure, message, translatable
from rlreport.text.numbers import MISSING

_PROPERTY = ColumnView("name", message("Property"), kind="text")
_SHARE = ColumnView(
    "share",
    message("Responses with it"),
    written="share",
    help=message("share of the responses; every prompt counts once"),
)
_MEANS = message("mean reward, BASE → NEW")
_WITH = ColumnView("with", message("Reward with it"), help=_MEANS)
_WITHOUT = ColumnView("without", message("Reward without it"), help=_MEANS)
_PART = ColumnView(
    "part",
    message("Part of the difference"),
    help=message(
        "what goes with the change of the share, the rewards staying the same"
    ),
)
_REWARD_PART = ColumnView("name", message("Part of the reward"), kind="text")
_WEIGHTED = ColumnView("", "", help=message("its mean times its weight"))
_MAIN = message("main part")
_NAMES = {
    "cut_off": translatable("Cut off at the limit"),
    "unclosed_thinking": translatable("Thinking is not closed"),
    "tool_failed": translatable("A tool failed"),
    "unparsed_call": translatable("A tool call could not be parsed"),
    "other_script": translatable("Another script than the prompt"),
}
_MARKS = {
    "answer": translatable("Marks its answer: Answer:"),
    "json": translatable("Ends with an object of JSON"),
    ANY_MARK: translatable("Marks its answer"),
}


def property_table(outcome: Outcome) -> TableView | None:
    """Return the table of properties, the largest part first; None without any."""
    found = outcome.decomposition
    properties = found.listed
    if not properties:
        return None
    base, new = of_sides(_SHARE, outcome.labels)
    columns: Columns = {
        _PROPERTY: map(_property_name, properties),
        # The first columns are all that a narrow screen shows.
        _PART: [one.part for one in properties],
        base: [one.base_share for one in properties],
        new: [one.new_share for one in properties],
        _WITH: [_change_cell(one.base_with, one.new_with) for one in properties],
        _WITHOUT: [
            _change_cell(one.base_without, one.new_without) for one in properties
        ],
        RESULT: map(_share_result, properties),
    }
    note = message(
        "The difference is {effect}. Each part stands by itself: one response can have several "
        "properties, so that parts overlap and do not add up.",
        effect=signed(outcome.comparison.effect.value),
    )
    return table(
        "properties",
        message("Properties of responses"),
        columns,
        badges=_badges(properties, found.main),
        note=note,
    )


def _property_name(one: Property) -> str:
    if one.id == ENVIRONMENT:
        return message("Environment: {name}", name=one.mark)
    if one.id != FORMAT:
        return message(_NAMES[one.id])
    if one.mark in _MARKS:
        return message(_MARKS[one.mark])
    if one.mark not in ANSWER_MARKS:
        return message("Reward part: {name}", name=one.mark)
    return message("Marks its answer: {mark}", mark=one.mark)


def _badges(items: Sequence[object], main: object) -> list[list[str]]:
    return [[_MAIN] if main is not None and one == main else [] for one in items]


def _change_cell(base: float, new: float) -> Cell:
    if not np.isfinite([base, new]).any():
        return Cell(MISSING, None, message("no response on either side"))
    text = message("{base} → {new}", base=figure(base), new=figure(new))
    return Cell(text, new if np.isfinite(new) else base)


def _share_result(one: Property) -> str:
    """Return whether the share of a property changed."""
    if not np.isfinite(one.share.low):
        return message("too few prompts")
    if one.p > 1 - LEVEL:
        return message("no change of the share shown")
    if one.share.value > 0:
        return message("the share is higher")
    return message("the share is lower")


def reward_parts_table(outcome: Outcome) -> TableView | None:
    """Return the table of the logged parts that add up to the reward, None without."""
    found = outcome.decomposition
    parts = found.reward_parts
    if not parts:
        return None
    columns: Columns = {
        _REWARD_PART: map(_part_name, parts),
        _PART: [one.part for one in parts],
    }
    columns |= attribute_columns(parts, of_sides(_WEIGHTED, outcome.labels))
    columns[INTERVAL] = interval_cells([one.effect for one in parts])
    count = len(parts)
    columns[RESULT] = [result_of(one.effect, one.p, count) for one in parts]
    return table(
        "reward-parts",
        message("Parts of the reward"),
        columns,
        badges=_badges(parts, found.main_part),
        note=message("These parts add up to the reward, and so to its difference."),
    )


def _part_name(part: RewardPart) -> str:
    if part.weight == 1:
        return part.name
    weight = figure(part.weight)
    return message("{name} (weight {weight})", name=part.name, weight=weight)
