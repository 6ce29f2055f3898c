"""The responses page: one table of the responses that the pages of all steps show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.context import (
    PageContext,
    RunContext,
    StepJob,
    findings_of_responses,
    reading_order,
)
from rlreport.bake.overview_page import snippet
from rlreport.bake.pages import Addresses, packed_json
from rlreport.bake.step_page import (
    NUMBERED,
    STATIC_ROWS,
    number_cells,
    rounded,
    strings_of,
)
from rlreport.bake.views import ColumnView, TableView, name_cell, table
from rlreport.choose import StepPlan
from rlreport.columns import RESPONSE
from rlreport.figures.ragged import Floats
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import listed, message, told

# Maximum rows of the responses page's table, so that browsers sort and search it quickly
MOST_LISTED = 20_000

# Fraction of a report's bytes that the responses table may take; approximate bytes of a row
LISTED_SHARE, LISTED_BYTES = 0.15, 200

LISTED_CHARS = 120  # Maximum characters of a prompt or response in the responses page's table
_TEXTS = ("prompt", "response")
_ORDER = message(
    "negative: cited by a finding; 0: an extreme of the run; positive: rank within its step"
)
_INTEREST = ColumnView("worth", message("Interest"), help=_ORDER, hidden=True, written="count")
_SAME_PROMPT = message("the same for all responses to a prompt")
_PROMPT = ColumnView(
    "prompt_id", message("Prompt no."), help=_SAME_PROMPT, hidden=True, written="count"
)
_POINTING = message("findings that cite the response")
_FINDING = ColumnView("finding", message("Finding"), kind="text", help=_POINTING)

# Rows of the responses page's table from one step, the most interesting first. ``step`` -> the
# step, any other column key -> list of one value per row (NaN for missing numbers)
ListedRows = dict[str, Any]


def rows_listed(plans: Sequence[StepPlan], limit: float) -> int:
    """Return how many responses of a step may be listed if the report has ``limit`` bytes."""
    room = min(MOST_LISTED, int(LISTED_SHARE * limit / LISTED_BYTES))
    counts = np.array([len(plan.rows) for plan in plans])
    most = range(int(counts.max(initial=0)) + 1)
    return bisect_right(most, room, key=lambda each: int(np.minimum(counts, each).sum())) - 1


def listed_rows(
    job: StepJob, rollouts: Sequence[Rollout], values: Mapping[str, Floats], context: PageContext
) -> ListedRows:
    """Return a step's rows of the responses page, without columns that need the whole run.

    Args:
        job: the step.
        rollouts: responses on the step's page, the most interesting first.
        values: numeric columns of all responses of the step.
        context: data shared by the pages of steps.
    """
    return {
        "step": job.plan.step,
        "n": [r.n for r in rollouts],
        **{key: rounded(column[job.shown]).tolist() for key, column in values.items()},
        **strings_of(job, job.shown, context),
        "prompt": [snippet(_question(r).lstrip(), LISTED_CHARS) for r in rollouts],
        "response": [snippet(r.response.lstrip(), LISTED_CHARS) for r in rollouts],
    }


def with_interest(rows: ListedRows, context: RunContext, pinned: int) -> ListedRows:
    """Add step, interest and citing findings to a step's rows; keep ``context.listed`` of them.

    The first ``pinned`` rows, which a finding cites or which are an extreme of the run (e.g. its
    lowest reward), get the interest 0 or less, which sorts before the other rows of all steps.
    """
    step, n = rows["step"], rows["n"][: context.listed]
    findings = context.verdict.findings
    names = [finding.name for finding in findings]
    of_response = findings_of_responses(findings, step)
    interest = [0.0 if rank <= pinned else float(rank) for rank in range(1, len(n) + 1)]
    for row, response_n in enumerate(n):
        if response_n in of_response:
            interest[row] = float(names.index(of_response[response_n][0]) - len(names))
    return {
        **{key: values[: len(n)] for key, values in rows.items() if key != "step"},
        "step": [float(step)] * len(n),
        _INTEREST.key: interest,
        _FINDING.key: [
            listed(of_response[response_n]) if response_n in of_response else None
            for response_n in n
        ],
    }


def _question(rollout: Rollout) -> str:
    """Return a prompt's text without system turns, as these are mostly the same in all rows."""
    turns = [turn for turn in rollout.turns if turn[0] != "system"]
    return turns[0][1] if len(turns) == 1 else spoken(turns) or rollout.prompt


def responses_view(
    steps: Sequence[ListedRows], context: RunContext, addresses: Addresses, shown: int
) -> dict[str, Any]:
    """Return the values that the template of the responses page prints.

    Args:
        steps: for each step, its rows of the table, from ``with_interest``.
        context: data shared by all pages.
        addresses: addresses relative to the responses page.
        shown: number of responses shown on the pages of steps.
    """
    numeric = (*context.columns, _PROMPT, _INTEREST)
    strings = [*(column.key for column in context.string_columns), _FINDING.key]
    numbers = ["step", *(column.key for column in numeric)]
    rows = {
        key: [value for step in steps for value in step[key]]
        for key in ("n", *numbers, *strings, *_TEXTS)
    }
    columns = _columns(context, any(rows[_FINDING.key]))
    values = {key: np.array(rows[key], np.float64) for key in numbers}
    described = [
        *(replace(c, kind="number") for c in columns if c.key in values),
        *(c for c in numeric if c.hidden),
        *context.string_columns,
    ]
    data = {
        "run": context.run,
        "total": len(context.tables.responses),
        "n": rows["n"],
        "columns": [column.data() for column in described],
        "values": values,
        "strings": {key: rows[key] for key in strings},
        "texts": {key: rows[key] for key in _TEXTS},
        "address": addresses.any_response("{step}", "{n}"),
        "prompt": addresses.prompt("{prompt}"),
    }
    return {
        "table": _table(rows, values, columns, addresses),
        "packed": packed_json(context.options.language.of(data)),
        "summary": _summary(len(rows["n"]), shown, len(context.tables.responses)),
    }


def _columns(context: PageContext, with_findings: bool) -> list[ColumnView]:
    texts = [column for column in context.text_columns if column.key in _TEXTS]
    columns = reading_order(context.columns, [*texts, *([_FINDING] if with_findings else [])])
    step = ColumnView("step", message("Step"), help=RESPONSE["step"].help, written="count")
    return [step, NUMBERED, *columns]


def _table(
    rows: Mapping[str, Sequence[Any]],
    values: Mapping[str, NDArray[np.float64]],
    columns: Sequence[ColumnView],
    addresses: Addresses,
) -> TableView:
    """Return the HTML table, which only has the STATIC_ROWS most interesting rows."""
    order = np.argsort(values[_INTEREST.key], kind="stable")
    first = order[:STATIC_ROWS].tolist()
    names = [(int(rows["step"][row]), rows["n"][row]) for row in first]
    cells: dict[str, Iterable[Any]] = {
        c.key: number_cells(c.written, values[c.key][order])
        if c.key in values
        else [rows[c.key][row] for row in first]
        for c in columns
    }
    cells["step"] = [name_cell(step) for step, _ in names]
    cells["n"] = [name_cell(n) for _, n in names]
    return table(
        "run-responses",
        message("Responses of the run"),
        columns,
        cells,
        ids=[f"{step}-{n}" for step, n in names],
        hrefs=[addresses.response(step, n) for step, n in names],
        total=len(order),
    )


def _summary(count: int, shown: int, total: int) -> str:
    places = {"some": count, "all": total, "shown": shown}
    if count < shown:
        return told(
            "{some:count} of {all:count} responses of the run ({shown:count} have their text on "
            "the page of their step), most interesting first: responses cited by findings and the "
            "extremes of the run, then the extremes of each step, then a sample.",
            places,
        )
    return told(
        "{some:count} of {all:count} responses of the run, most interesting first: responses cited "
        "by findings and the extremes of the run, then the extremes of each step, then a sample.",
        places,
    )
