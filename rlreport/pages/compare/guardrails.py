"""The figures that must not get worse, compared."""

from __future__ import annotations

from rlreport.columns import RESPONSE, STEP, Column
from rlreport.comparison import words
from rlreport.comparison.compare import Guardrail
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.outcome import Outcome
from rlreport.definitions import NO_SIGNAL, REWARD_PART, defined, terms_of_roles
from rlreport.pages.table import (
    Columns,
    ColumnView,
    TableView,
    attribute_columns,
    table,
    with_terms,
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
    help=message("with Holm's correction; ~ means no significant difference"),
)


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
    effects = [guardrail.effect for guardrail in guardrails]
    columns: Columns = {
        ColumnView("name", message("Figure"), kind="text"): map(
            _guardrail_label, guardrails
        )
    }
    columns |= attribute_columns(guardrails, _MEANS)
    columns[_EFFECT] = [effect.value for effect in effects]
    columns |= attribute_columns(effects, _INTERVAL)
    columns[_SHOWS] = [words.guardrail_level(g, comparison) for g in guardrails]
    view = table(
        "guardrails",
        message("Guardrails"),
        columns,
        ids=[guardrail.id for guardrail in guardrails],
        note=words.guardrails_note(comparison),
    )
    return with_terms(view, map(_term, guardrails))


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
    name = words.guardrail_name(guardrail)
    column = _column_of(guardrail)
    if column is None or not column.unit:
        return name
    return message("{name} ({unit})", name=name, unit=column.unit)
