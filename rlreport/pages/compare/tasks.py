"""For which tasks the rewards differ: tables by environment and by difficulty."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.comparison.outcome import Outcome
from rlreport.comparison.tasks import Task
from rlreport.pages.compare.heads import (
    DIFFERENCE,
    INTERVAL,
    RESULT,
    interval_cells,
    of_sides,
    result_of,
)
from rlreport.pages.table import (
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
)
from rlreport.text.messages import message, translatable

_MEAN = ColumnView("", "", help=message("mean reward of its prompts in the window"))
_PROMPTS = ColumnView("prompts", message("Prompts"), written="count")
_DIFFICULTIES = {
    "hard": translatable("Hard prompts"),
    "medium": translatable("Medium prompts"),
    "easy": translatable("Easy prompts"),
}


def task_tables(outcome: Outcome) -> list[TableView]:
    """Return the tables that have rows: by environment, and by difficulty."""
    tables = [_environments(outcome), _difficulties(outcome)]
    return [one for one in tables if one is not None]


def _environments(outcome: Outcome) -> TableView | None:
    tasks = outcome.tasks
    if not tasks.environments:
        return None
    head = ColumnView("name", message("Environment"), kind="text")
    names = [task.name or message("all others") for task in tasks.environments]
    return table(
        "environments",
        message("By environment"),
        {head: names} | _columns(tasks.environments, outcome),
        note=message("By the logged field {field}.", field=tasks.field),
    )


def _difficulties(outcome: Outcome) -> TableView | None:
    tasks = outcome.tasks.difficulties
    if not tasks:
        return None
    head = ColumnView("name", message("Difficulty"), kind="text")
    names = [message(_DIFFICULTIES[task.name]) for task in tasks]
    return table(
        "difficulties",
        message("By difficulty"),
        {head: names} | _columns(tasks, outcome),
        note=message(
            "Thirds of the prompts by their mean reward on both sides together; equal ones are in "
            "one class."
        ),
    )


def _columns(tasks: Sequence[Task], outcome: Outcome) -> Columns:
    """Return all columns but the first one."""
    effects = [task.effect for task in tasks]
    columns: Columns = {_PROMPTS: [task.prompts for task in tasks]}
    columns |= attribute_columns(tasks, of_sides(_MEAN, outcome.labels))
    columns[DIFFERENCE] = [effect.value for effect in effects]
    columns[INTERVAL] = interval_cells(effects)
    found = outcome.tasks
    count = len(found.environments) + len(found.difficulties)
    columns[RESULT] = [result_of(task.effect, task.p, count) for task in tasks]
    return columns
