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
from rlreport.pages.table import (
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
)
from rlreport.text.messages import message

_MEAN = message("mean of the prompts' means in the window")
_MEANS = (
    ColumnView("base", message("BASE"), help=_MEAN),
    ColumnView("new", message("NEW"), help=_MEAN),
)
_EFFECT = ColumnView(
    "effect", message("Difference"), help=message("of the shared prompts, NEW − BASE")
)
_INTERVAL = (
    ColumnView("low", message("Low"), help=message("lower end of the 95% interval")),
    ColumnView("high", message("High"), help=message("upper end of the 95% interval")),
    ColumnView(
        "mde",
        message("Minimum detectable effect"),
        help=message("minimum effect detected with 80% power"),
    ),
)
_SHOWS = ColumnView(
    "level",
    message("Result"),
    kind="text",
    help=message("with Holm's correction for all figures"),
)


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
    columns |= attribute_columns(guardrails, _MEANS)
    columns[_EFFECT] = [effect.value for effect in effects]
    columns |= attribute_columns(effects, _INTERVAL)
    columns[_SHOWS] = [guardrail_level(g, comparison) for g in guardrails]
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
