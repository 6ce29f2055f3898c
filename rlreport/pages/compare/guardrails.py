"""The figures that must not get worse, compared."""

from __future__ import annotations

from rlreport.columns import RESPONSE, STEP, Column
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.guardrail_words import (
    guardrail_level,
    guardrail_name,
    guardrails_note,
)
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.definitions import NO_SIGNAL, REWARD_PART, defined, terms_of_roles
from rlreport.pages.compare.heads import (
    DIFFERENCE,
    INTERVAL,
    RESULT,
    interval_cells,
    of_sides,
)
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    number_cell,
    table,
    with_terms,
)
from rlreport.text.messages import figure, message

_MEANS = ColumnView("", "", help=message("mean of the prompts' means in the window"))


# Id of a guardrail without a column of its own name -> its definition
_TERMS = {
    "cut_off": terms_of_roles()["truncated"],
    "duplicates": STEP["duplicate_rate"].term,
    "all_wrong_groups": NO_SIGNAL,
    "all_right_groups": NO_SIGNAL,
    "pass_at_k": STEP["pass_at_k"].term,
    "mismatch": STEP["mismatch_k3"].term,
}


def guardrails_table(outcome: Outcome) -> TableView:
    """Return the table of guardrails (figures that must not get worse) that have values."""
    comparison = outcome.comparison
    guardrails = [g for g in comparison.guardrails if g.level != "missing"]
    columns: Columns = {
        ColumnView("name", message("Figure"), kind="text"): map(
            _guardrail_label, guardrails
        )
    }
    columns |= attribute_columns(guardrails, of_sides(_MEANS, outcome.labels))
    columns[DIFFERENCE] = list(map(_difference_cell, guardrails))
    columns[INTERVAL] = list(map(_interval_cell, guardrails))
    columns[RESULT] = [guardrail_level(g, comparison) for g in guardrails]
    view = table(
        "guardrails",
        message("Guardrails"),
        columns,
        ids=[guardrail.id for guardrail in guardrails],
        note=guardrails_note(comparison),
    )
    return with_terms(view, map(_term, guardrails))


def _difference_cell(guardrail: Guardrail) -> Cell:
    """Return the difference or, of geometric means, the ratio."""
    if guardrail.ratio is None:
        return number_cell(guardrail.effect.value)
    text = message("×{ratio}", ratio=figure(guardrail.ratio.value))
    return Cell(text, guardrail.effect.value, message("NEW ÷ BASE"))


def _interval_cell(guardrail: Guardrail) -> Cell:
    ratio = guardrail.ratio
    if ratio is None or not ratio.low <= ratio.high:
        (cell,) = interval_cells([guardrail.effect])
        return cell
    text = message("×{low} to ×{high}", low=figure(ratio.low), high=figure(ratio.high))
    return Cell(text, guardrail.effect.low)


def _column_of(guardrail: Guardrail) -> Column | None:
    """Return the column of the figure, None for one that the report does not compute."""
    # Its values are means, as those of steps.
    name_of_mean = f"{guardrail.column.removesuffix('_mean')}_mean"
    return STEP.get(name_of_mean) or RESPONSE.get(guardrail.column)


def _term(guardrail: Guardrail) -> str:
    """Return the definition of the figure, "" without one."""
    if guardrail.column.startswith(PART):
        return REWARD_PART
    if guardrail.column.startswith(TRAINER):
        return terms_of_roles().get(guardrail.column.removeprefix(TRAINER), "")
    if guardrail.id in _TERMS:
        return _TERMS[guardrail.id]
    column = _column_of(guardrail)
    return column.term if column and column.term in defined() else ""


def _guardrail_label(guardrail: Guardrail) -> str:
    name = guardrail_name(guardrail)
    if guardrail.ratio is not None:
        geometric = message("geometric mean of the steps")
        return message("{name} ({unit})", name=name, unit=geometric)
    column = _column_of(guardrail)
    if column is None or not column.unit:
        return name
    return message("{name} ({unit})", name=name, unit=column.unit)
