"""The page of all responses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import trust
from rlreport.columns import RESPONSE
from rlreport.figures.rounding import as_formatted
from rlreport.pages.context import (
    PageContext,
    RunReport,
    StepJob,
    findings_of_responses,
)
from rlreport.pages.extremes import shown_responses
from rlreport.pages.html import packed_json
from rlreport.pages.listed import (
    CITED,
    FINDING,
    RESPONSE_TEXT,
    list_filters,
    listed_prompt,
    reading_order,
)
from rlreport.pages.page import Addresses, Page, has_responses
from rlreport.pages.page_data import RunListData
from rlreport.pages.plan import StepPlan
from rlreport.pages.presets import Strings, cut_off, presets
from rlreport.pages.response_text import ResponseText
from rlreport.pages.step import (
    NUMBERED,
    STATIC_ROWS,
    StepRows,
    number_cells,
    strings_of,
)
from rlreport.pages.table import (
    ColumnView,
    TableView,
    fitting,
    name_cell,
    table,
)
from rlreport.read.rollouts import Rollout
from rlreport.tables import RowRole, counted_in_all, counted_responses
from rlreport.text.chat import turns_as_text
from rlreport.text.clean import shortened
from rlreport.text.messages import listed, message, sentences

# Maximum rows of the responses page's table, so that browsers sort and search it quickly
MOST_LISTED = 20_000

# Fraction of a report's bytes that the responses table may take; approximate bytes of a row
LISTED_SHARE = 0.15
LISTED_BYTES = 200

LISTED_DIGITS = 6  # Significant digits of numbers in the responses page's table
LISTED_CHARS = 120  # Maximum characters of a prompt or response in it
_TEXTS = ("prompt", "response")
_ORDER = message(
    "negative: cited by a finding; 0: an extreme of the run; positive: rank within its step"
)
_STEP = ColumnView("step", message("Step"), help=RESPONSE["step"].help, written="count")
_INTEREST = ColumnView(
    "worth", message("Interest"), help=_ORDER, hidden=True, written="count"
)
_SAME_PROMPT = message("the same for all responses to a prompt")
_PROMPT = ColumnView(
    "prompt_id", message("Prompt no."), help=_SAME_PROMPT, hidden=True, written="count"
)

# Rows of the responses page's table from one step, the most interesting first. ``step`` -> the
# step, any other column key -> list of one value per row (NaN for missing numbers)
ListedRows = dict[str, Any]


def rows_listed(plans: Sequence[StepPlan], limit: float) -> int:
    """Return how many responses per step the responses page of a ``limit``-byte report may list."""
    room = min(MOST_LISTED, int(LISTED_SHARE * limit / LISTED_BYTES))  # in rows
    counts = np.array([len(plan.rows) for plan in plans])

    def rows(per_step: int) -> int:
        """Return how many rows the page has with up to this many of each step."""
        return int(np.minimum(counts, per_step).sum())

    possible = range(int(counts.max(initial=0)) + 1)
    return bisect_right(possible, room, key=rows) - 1  # the largest that fits


def listed_rows(
    job: StepJob,
    rollouts: Sequence[Rollout],
    of_step: StepRows,
    context: PageContext,
) -> ListedRows:
    """Return a step's rows of the responses page, without the columns of ``with_interest``.

    Args:
        job: the step, with the positions of its shown responses in its columns.
        rollouts: these responses, in the same order.
        of_step: the columns of the step.
        context: what all pages of steps share.
    """
    rows: ListedRows = {"step": job.plan.step, "n": [r.n for r in rollouts]}
    shown = {key: column[job.shown] for key, column in of_step.values.items()}
    rounded = as_formatted(list(shown.values()), LISTED_DIGITS).tolist()
    rows |= zip(shown, rounded, strict=True)
    strings = strings_of(job, job.shown, context)
    rows |= strings
    questions = [_question(rollout, context.prefixes).lstrip() for rollout in rollouts]
    rows["prompt"] = [shortened(text, LISTED_CHARS) for text in questions]
    is_cut = cut_off(shown, strings).tolist()
    answers = [
        ResponseText.of(rollout.response.lstrip(), of_step.prefixes, is_cut=cut).brief
        for rollout, cut in zip(rollouts, is_cut, strict=True)
    ]
    rows["response"] = [shortened(text, LISTED_CHARS) for text in answers]
    return rows


def with_interest(rows: ListedRows, report: RunReport, pinned: int) -> ListedRows:
    """Return the first ``report.listed`` rows of a step, with four columns more.

    These are the step, the interest (see ``_ORDER``), the findings that cite the response, and
    their number.
    ``pinned``: number of rows, from the first on, that findings cite or that are extremes.
    """
    step = rows["step"]
    numbers = rows["n"][: report.listed]
    findings = report.run.verdict.findings  # the most important first
    names = [finding.name for finding in findings]
    of_response = findings_of_responses(findings, step)
    # ``rows`` has the step once, the result for each row.
    result: ListedRows = {
        key: values[: len(numbers)] for key, values in rows.items() if key != "step"
    }
    interest: list[float] = []
    cited_by: list[str | None] = []
    cited: list[float] = []
    for rank, n in enumerate(numbers, 1):
        cited.append(float(len(of_response.get(n, []))))
        if n in of_response:
            # Negative, and lowest for the first finding of the verdict.
            interest.append(float(names.index(of_response[n][0]) - len(names)))
            cited_by.append(listed(of_response[n]))
        else:  # a pinned response that no finding cites is an extreme
            interest.append(0.0 if rank <= pinned else float(rank))
            cited_by.append(None)
    result["step"] = [float(step)] * len(numbers)
    result[_INTEREST.key] = interest
    result[FINDING.key] = cited_by
    result[CITED.key] = cited
    return result


def _question(rollout: Rollout, prefixes: Sequence[str]) -> str:
    """Return what differs between prompts: without a shared beginning or system turns."""
    prompt = listed_prompt(rollout, prefixes)
    if prompt.shared:
        return prompt.brief
    turns = [turn for turn in rollout.turns if turn[0] != "system"]
    return turns_as_text(turns) or rollout.prompt


@dataclass(frozen=True, slots=True)
class ResponsesView:
    """What the responses page shows."""

    table: TableView  # the first rows
    packed: str  # all rows, for scripts
    summary: str


def responses_view(report: RunReport, addresses: Addresses) -> ResponsesView:
    """Return the first rows as a table, and all rows of the rendered steps as data for scripts."""
    context = report.shared
    responses = report.run.tables.responses
    verdict = report.run.verdict
    lead = [verdict.leading] if verdict.leading is not None else []
    distrusting = trust.first_distrusting(lead)
    figures = list(context.columns)
    if trust.overpaid_steps(verdict) is not None:
        # The highest rewards are what the finding is about.
        figures = [
            replace(column, bad_end="high") if column.key == "reward" else column
            for column in figures
        ]
    number_columns = (*figures, _PROMPT, _INTEREST, CITED)
    string_keys = [*(column.key for column in context.string_columns), FINDING.key]
    number_keys = ["step", *(column.key for column in number_columns)]
    of_steps = [page.listed for page in report.step_pages]
    rows = _joined(of_steps, number_keys, string_keys)
    shown_texts = [column for column in context.text_columns if column.key in _TEXTS]
    if any(rows[FINDING.key]):
        shown_texts.append(FINDING)
    # Columns of the table; scripts add the hidden ones that the reader selects.
    columns = [_STEP, NUMBERED, *reading_order(figures, shown_texts)]
    values = {key: np.array(rows[key], np.float64) for key in number_keys}
    strings = {key: rows[key] for key in string_keys}
    # Columns of the data, the visible ones first; for scripts, the step is a number, not a link.
    described = [
        *(replace(c, kind="number") for c in columns if c.key in values),
        *(c for c in number_columns if c.hidden),
        *context.string_columns,
    ]
    data: RunListData = {
        "run": context.title,
        "total": len(responses),
        "n": rows["n"],
        "columns": [column.data() for column in described],
        "values": values,
        "strings": strings,
        "texts": {key: rows[key] for key in _TEXTS},
        "presets": presets(
            values, strings, distrusting=distrusting, order=_INTEREST.key
        ),
        "address": addresses.any_response("{step}", "{n}"),
        "prompt": addresses.responses_to("{prompt}"),
    }
    filters = list_filters(context)
    if filters:
        data["filters"] = filters
    return ResponsesView(
        table=_table(rows, values, strings, columns, addresses),
        packed=packed_json(context.options.language.of(data)),
        summary=_summary(
            len(rows["n"]), shown_responses(report), responses["validation"]
        ),
    )


PAGE = Page("responses", message("Responses"), responses_view, has_responses)


def _joined(
    of_steps: Sequence[ListedRows],
    number_keys: Sequence[str],
    string_keys: Sequence[str],
) -> dict[str, list[Any]]:
    """Return column key -> the values of all steps, one after the other.

    ``number_keys`` and ``string_keys`` are those of the columns besides n and the texts.
    """
    keys = ("n", *number_keys, *string_keys, *_TEXTS)
    rows: dict[str, list[Any]] = {key: [] for key in keys}
    for step_rows in of_steps:
        for key, values in rows.items():
            values.extend(step_rows[key])
    return rows


def _table(
    rows: Mapping[str, Sequence[Any]],
    values: Mapping[str, NDArray[np.float64]],
    strings: Strings,
    columns: Sequence[ColumnView],
    addresses: Addresses,
) -> TableView:
    """Return the most interesting rows as a table, which scripts extend to all rows.

    Args:
        rows: column key -> a value per row.
        values: the same for numeric columns, as arrays.
        strings: the same for columns of short strings.
        columns: the columns of the table, in order.
        addresses: those of the page.
    """
    order = np.argsort(values[_INTEREST.key], kind="stable")
    first_rows = order[:STATIC_ROWS].tolist()
    steps = [int(rows["step"][row]) for row in first_rows]
    numbers = [rows["n"][row] for row in first_rows]
    names = list(zip(steps, numbers, strict=True))
    is_cut = cut_off(values, strings)
    shown: dict[ColumnView, Sequence[Any]] = {}
    for column in columns:
        if column.key in values:
            # All values are given, as the bars of cells are scaled to the largest.
            ordered = values[column.key][order]
            shown[column] = number_cells(column.written, ordered)
        elif column == RESPONSE_TEXT:
            shown[column] = [
                ResponseText.of(rows["response"][row], (), is_cut=bool(is_cut[row]))
                for row in first_rows
            ]
        else:
            shown[column] = [rows[column.key][row] for row in first_rows]
    shown[_STEP] = [name_cell(step) for step, _ in names]
    shown[NUMBERED] = [name_cell(n) for _, n in names]
    return table(
        "run-responses",
        message("Responses of the run"),
        fitting(shown),
        ids=[f"{step}-{n}" for step, n in names],
        hrefs=[addresses.response(step, n) for step, n in names],
    )


def _summary(count: int, shown: int, splits: pd.Series) -> str:
    """Return which responses the page lists, and in which order.

    Args:
        count: number of listed responses.
        shown: number of responses whose texts are on pages of steps.
        splits: the column ``validation`` of all responses of the run.
    """
    which = message("{responses}.", responses=counted_responses(splits))
    if count < len(splits):
        which = message(
            "{some:count} of {all} of the run.", some=count, all=counted_in_all(splits)
        )
    order = message(
        "Most interesting first: responses cited by findings and the extremes of the run, then the "
        "extremes of each step, then a sample."
    )
    texts = message(
        "The pages of steps have the texts of {count:count} of these.", count=shown
    )
    branches = message(
        "Those of branches are listed only if the filter of splits selects them."
    )
    has_branches = bool((splits == RowRole.BRANCH).any())
    return sentences(
        [
            which,
            order,
            texts if count < shown else "",
            branches if has_branches else "",
        ]
    )
