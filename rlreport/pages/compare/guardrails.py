"""The figures that must not get worse, compared."""

from __future__ import annotations

from rlreport.columns import RESPONSE, STEP
from rlreport.comparison.guardrail_words import (
    guardrail_level,
    guardrail_name,
    guardrails_note,
)
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.pages.compare.heads import (
    DIFFERENCE,
    INTERVAL,
    RESULT,
    interval_cells,
    of_sides,
)
from rlreport.pages.table import (
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
)
from rlreport.text.messages import message

_MEANS = ColumnView("", "", help=message("mean of the prompts' means in the window"))


def guardrails_table(outcome: Outcome) -> TableView:
    """Return the table of guardrails (figures that must not get worse) that have values."""
    comparison = outcome.comparison
    guardrails = [g for g in comparison.guardrails if g.level != "missing"]
    effects = [guardrail.effect for guardrail in guardrails]
    columns: Columns = {
        ColumnView("name", message("Figure"), kind="text"): map(
            _guardrail_label, guardrails
        )
    }
    columns |= attribute_columns(guardrails, of_sides(_MEANS, outcome.labels))
    columns[DIFFERENCE] = [effect.value for effect in effects]
    columns[INTERVAL] = interval_cells(effects)
    columns[RESULT] = [guardrail_level(g, comparison) for g in guardrails]
    return table(
        "guardrails",
        message("Guardrails"),
        columns,
        ids=[guardrail.id for guardrail in guardrails],
        note=guardrails_note(comparison),
    )


def _guardrail_label(guardrail: Guardrail) -> str:
    name = guardrail_name(guardrail)
    # Its values are means, as those of steps.
    name_of_mean = f"{guardrail.column.removesuffix('_mean')}_mean"
    column = STEP.get(name_of_mean) or RESPONSE.get(guardrail.column)
    if column is None or not column.unit:
        return name
    return message("{name} ({unit})", name=name, unit=column.unit)
