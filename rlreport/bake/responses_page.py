"""The page of responses: the responses shown on the pages of steps, in one table."""

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
    places_of,
    rounded,
    strings_of,
    values_of,
)
from rlreport.bake.views import ColumnView, TableView, name_cell, table
from rlreport.choose import Candidate
from rlreport.columns import RESPONSE
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import listed, message, told

MOST_LISTED = 20_000
"""Maximum rows of the list, which a browser can still sort and search without delay."""

LISTED_SHARE, LISTED_BYTES = 0.15, 200
"""Maximum share of the report's size for the list, and the approximate size of a row."""

LISTED_CHARS = 120
"""Maximum characters of a text in the list."""

_TEXTS = ("prompt", "response")
_ORDER = message(
    "below 0: cited by findings; 0: an extreme of the run; otherwise its rank within its step"
)
_INTEREST = ColumnView("worth", message("Interest"), help=_ORDER, hidden=True, written="count")
_SAME_PROMPT = message("the same for all responses to a prompt")
_PROMPT = ColumnView(
    "prompt_id", message("Prompt no."), help=_SAME_PROMPT, hidden=True, written="count"
)
_POINTING = message("findings that cite the response")
_FINDING = ColumnView("finding", message("Finding"), kind="text", help=_POINTING)

ListedRows = dict[str, Any]
"""Rows of the list from one step, the most interesting first: ``step``, and for each column key
one value per row (missing numbers are NaN)."""


def rows_listed(candidates: Sequence[Candidate], limit: float) -> int:
    """Return how many rows of each step a report of ``limit`` bytes lists at most."""
    room = min(MOST_LISTED, int(LISTED_SHARE * limit / LISTED_BYTES))
    counts = np.array([len(candidate.rows) for candidate in candidates])
    most = range(int(counts.max(initial=0)) + 1)
    return bisect_right(most, room, key=lambda each: int(np.minimum(counts, each).sum())) - 1


def listed_rows(job: StepJob, rollouts: Sequence[Rollout], context: PageContext) -> ListedRows:
    """Return a step's rows of the list, without the values that depend on other steps.

    ``rollouts`` are the responses shown on the page, the most interesting first.
    """
    places = places_of(job, rollouts)
    return {
        "step": job.plan.step,
        "n": [r.n for r in rollouts],
        **{
            column.key: rounded(values_of(column.key, job)[places]).tolist()
            for column in (*context.columns, _PROMPT)
        },
        **strings_of(job.extras, places),
        "prompt": [snippet(_question(r).lstrip(), LISTED_CHARS) for r in rollouts],
        "response": [snippet(r.response.lstrip(), LISTED_CHARS) for r in rollouts],
    }


def with_interest(rows: ListedRows, context: RunContext, pinned: int) -> ListedRows:
    """Add the columns that need the whole run, and keep at most ``context.listed`` rows.

    Findings or extremes of the run refer to the first ``pinned`` rows, which sort before others.
    """
    step, n = rows["step"], rows["n"][: context.listed]
    findings = context.verdict.findings
    names = [finding.name for finding in findings]
    of_response = findings_of_responses(findings, step)
    interest = [0.0 if place <= pinned else float(place) for place in range(1, len(n) + 1)]
    for row, one in enumerate(n):
        if one in of_response:
            interest[row] = float(names.index(of_response[one][0]) - len(names))
    return {
        **{key: values[: len(n)] for key, values in rows.items() if key != "step"},
        "step": [float(step)] * len(n),
        _INTEREST.key: interest,
        _FINDING.key: [listed(of_response[one]) if one in of_response else None for one in n],
    }


def _question(rollout: Rollout) -> str:
    """Return the prompt without system turns, which are the same in most rows of a log."""
    turns = [turn for turn in rollout.turns if turn[0] != "system"]
    return turns[0][1] if len(turns) == 1 else spoken(turns) or rollout.prompt


def responses_view(
    steps: Sequence[ListedRows], context: RunContext, addresses: Addresses, shown: int
) -> dict[str, Any]:
    """Return the view of the list of the run.

    Args:
        steps: its rows by step, see ``with_interest``.
        context: data shared by all pages.
        addresses: addresses as seen from the page.
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
    shown = reading_order(context.columns, [*texts, *([_FINDING] if with_findings else [])])
    step = ColumnView("step", message("Step"), help=RESPONSE["step"].help, written="count")
    return [step, NUMBERED, *shown]


def _table(
    rows: Mapping[str, Sequence[Any]],
    values: Mapping[str, NDArray[np.float64]],
    columns: Sequence[ColumnView],
    addresses: Addresses,
) -> TableView:
    """Return the table with the STATIC_ROWS most interesting rows."""
    order = np.argsort(values[_INTEREST.key], kind="stable")
    first = order[:STATIC_ROWS].tolist()
    names = [(int(rows["step"][place]), rows["n"][place]) for place in first]
    shown: dict[str, Iterable[Any]] = {
        c.key: number_cells(c.written, values[c.key][order])
        if c.key in values
        else [rows[c.key][place] for place in first]
        for c in columns
    }
    shown["step"] = [name_cell(step) for step, _ in names]
    shown["n"] = [name_cell(n) for _, n in names]
    return table(
        "run-responses",
        message("Responses of the run"),
        columns,
        shown,
        ids=[f"{step}-{n}" for step, n in names],
        hrefs=[addresses.response(step, n) for step, n in names],
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
