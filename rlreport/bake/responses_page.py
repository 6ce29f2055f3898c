"""The list of the run: the responses that steps' pages show, in one table over all steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.addresses import Addresses
from rlreport.bake.context import PageContext, reading_order
from rlreport.bake.overview_page import snippet
from rlreport.bake.script_json import packed_json
from rlreport.bake.step_page import (
    NUMBERED,
    STATIC_ROWS,
    number_cells,
    rounded,
    strings_of,
    text_cell,
    values_of,
)
from rlreport.bake.views import Cell, ColumnView, ResponsesView, RowView, TableView
from rlreport.choose import Candidate
from rlreport.columns import RESPONSE
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import listed, message, told

MOST_LISTED = 20_000
"""Rows that a list may have: so many are sorted and searched at once in a browser."""

LISTED_SHARE, LISTED_BYTES = 0.15, 200
"""Share of a report's size that the list may take, and what a row takes of it, roughly."""

LISTED_CHARS = 120
"""Characters of a text that the list carries."""

_TEXTS = ("prompt", "response")
_WORTH = ColumnView(
    "worth",
    message("Worth a look"),
    help=message(
        "below 0: findings point at it; 0: an extreme of the run; else its place in its step"
    ),
    hidden=True,
    written="count",
)
_PROMPT = ColumnView(
    "prompt_id",
    message("Prompt no."),
    help=message("the same for all responses to a prompt"),
    hidden=True,
    written="count",
)
_FINDING = ColumnView(
    "finding",
    message("Finding"),
    kind="text",
    help=message("findings that point at the response"),
)


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Rows that a step gives to the list of the run, the most interesting first.

    Attributes:
        step: the step.
        n: their n.
        values: column key -> numbers, NaN missing.
        strings: column key -> short strings as logged.
        texts: the beginnings of prompt and response.
        static: how many of them may be written as HTML.
    """

    step: int
    n: list[int]
    values: dict[str, NDArray[np.float64]]
    strings: dict[str, list[str | None]]
    texts: dict[str, list[str]]
    static: int = 0


def rows_listed(candidates: Sequence[Candidate], limit: float) -> tuple[int, list[int]]:
    """How many rows of each step a report of ``limit`` bytes lists, and how many as HTML.

    Returns:
        The most rows of a step, and for each step how many are among the first STATIC_ROWS when
        those most worth a look come first.
    """
    room = min(MOST_LISTED, int(LISTED_SHARE * limit / LISTED_BYTES))
    counts = np.array([len(candidate.rows) for candidate in candidates])
    most = _even(counts, room)
    counts = np.minimum(counts, most)
    pinned = np.minimum(counts, [candidate.pinned for candidate in candidates])
    each = _even(counts, STATIC_ROWS, pinned)
    few = np.maximum(np.minimum(counts, each), pinned)
    more = np.flatnonzero((counts > few) & (few == each))[: max(0, STATIC_ROWS - few.sum())]
    few[more] += 1
    return most, few.tolist()


def _even(counts: NDArray[np.int64], room: int, least: NDArray[np.int64] | int = 0) -> int:
    """The most of each step that ``room`` holds of all steps, which have so many at least."""
    low, high = 0, int(counts.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        held = np.maximum(np.minimum(counts, middle), least).sum()
        low, high = (middle, high) if held <= room else (low, middle - 1)
    return low


def listed_rows(
    step: int,
    responses: pd.DataFrame,
    extras: pd.DataFrame,
    rollouts: Sequence[Rollout],
    context: PageContext,
) -> ListedRows:
    """Return rows of the list of the run, as far as they depend on their step alone.

    Args:
        step: the step.
        responses: RESPONSE_COLUMNS of all its responses.
        extras: their further columns.
        rollouts: those that the page shows, the most interesting first.
        context: what every page shares.
    """
    places = pd.Index(responses["n"]).get_indexer([r.n for r in rollouts])
    values = {
        column.key: rounded(values_of(column.key, responses, extras)[places])
        for column in (*context.columns, _PROMPT)
    }
    return ListedRows(
        step,
        [r.n for r in rollouts],
        values,
        strings_of(extras, places),
        {
            "prompt": [snippet(_asked(r).lstrip(), LISTED_CHARS) for r in rollouts],
            "response": [snippet(r.response.lstrip(), LISTED_CHARS) for r in rollouts],
        },
    )


def arranged(rows: ListedRows, context: PageContext, pinned: int, static: int) -> ListedRows:
    """Return the rows with what depends on the whole run, as many as the list has of a step.

    Args:
        rows: of a step.
        context: what every page shares.
        pinned: how many of the first ones findings or extremes of the run refer to.
        static: how many of them may be written as HTML.
    """
    n = rows.n[: context.listed]
    count = len(n)
    values = {key: own[:count] for key, own in rows.values.items()}
    strings = {key: own[:count] for key, own in rows.strings.items()}
    return ListedRows(
        rows.step,
        n,
        {**values, _WORTH.key: _worth(context, rows.step, n, pinned)},
        {**strings, "finding": _findings_at(context, rows.step, n)},
        {key: texts[:count] for key, texts in rows.texts.items()},
        min(static, count),
    )


def _worth(context: PageContext, step: int, n: Sequence[int], pinned: int) -> NDArray[np.float64]:
    """What the list is sorted by at first."""
    place = np.arange(1.0, len(n) + 1)
    worth: NDArray[np.float64] = np.where(place <= pinned, 0.0, place)
    blamed = context.blamed_at(step)
    for row, one in enumerate(n):
        if one in blamed:
            worth[row] = context.finding_places[blamed[one][0]]
    return worth


def _findings_at(context: PageContext, step: int, n: Sequence[int]) -> list[str | None]:
    """The findings that point at responses of a step, None at those that none does."""
    blamed = context.blamed_at(step)
    return [listed(blamed[one]) if one in blamed else None for one in n]


def _asked(rollout: Rollout) -> str:
    """A prompt without what the system says, which is the same in most rows of a log."""
    said = [turn for turn in rollout.turns if turn[0] != "system"]
    return said[0][1] if len(said) == 1 else spoken(said) or rollout.prompt


def responses_view(
    steps: Sequence[ListedRows], context: PageContext, addresses: Addresses, in_all: int, shown: int
) -> ResponsesView:
    """Builds the view of the list of the run.

    Args:
        steps: its rows, by step.
        context: what every page shares.
        addresses: addresses as seen from the page.
        in_all: responses logged.
        shown: responses that steps' pages show.
    """
    values = {
        "step": np.repeat([float(s.step) for s in steps], [len(s.n) for s in steps]),
        **{
            column.key: _joined([s.values[column.key] for s in steps])
            for column in (*context.columns, _PROMPT, _WORTH)
        },
    }
    n = [n for s in steps for n in s.n]
    texts = {key: [text for s in steps for text in s.texts[key]] for key in _TEXTS}
    keys = [column.key for column in context.string_columns]
    strings = {key: [one for s in steps for one in s.strings[key]] for key in (*keys, "finding")}
    columns = _columns(context, any(strings["finding"]))
    written = [
        *(replace(c, kind="number") for c in columns if c.key in values),
        *(c for c in (*context.columns, _PROMPT, _WORTH) if c.hidden),
        *context.string_columns,
    ]
    return ResponsesView(
        _table(steps, n, columns, values, {**strings, **texts}, addresses),
        packed_json(
            context.report.language.of(
                {
                    "run": context.run,
                    "n": n,
                    "columns": [column.data() for column in written],
                    "values": values,
                    "strings": strings,
                    "texts": texts,
                    "address": addresses.any_response(),
                }
            )
        ),
        _summary(len(n), shown, in_all),
    )


def _joined(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0)


def _columns(context: PageContext, with_findings: bool) -> list[ColumnView]:
    texts = [column for column in context.text_columns if column.key in _TEXTS]
    shown = reading_order(context.columns, [*texts, *([_FINDING] if with_findings else [])])
    step = ColumnView("step", message("Step"), help=RESPONSE["step"].help, written="count")
    return [
        step,
        NUMBERED,
        *shown,
    ]


def _table(
    steps: Sequence[ListedRows],
    n: Sequence[int],
    columns: Sequence[ColumnView],
    values: Mapping[str, NDArray[np.float64]],
    texts: Mapping[str, Sequence[str | None]],
    addresses: Addresses,
) -> TableView:
    """The first rows: those most worth a look, as many as their steps have counted for them."""
    static = np.array([k < s.static for s in steps for k in range(len(s.n))], np.bool_)
    order = np.argsort(values[_WORTH.key], kind="stable")
    places = order[static[order]][:STATIC_ROWS]
    step = values["step"].astype(np.int64)
    numbers = {
        column.key: number_cells(column.written, values[column.key], places)
        for column in columns
        if column.key in values and column.key != "step"
    }
    rows = []
    for row, place in enumerate(places.tolist()):
        at, name = int(step[place]), n[place]
        cells = [Cell(str(at), float(at)), Cell(str(name), float(name))]
        cells += [
            numbers[c.key][row] if c.key in numbers else text_cell(texts[c.key][place])
            for c in columns[2:]
        ]
        rows.append(RowView(f"{at}-{name}", cells, addresses.response(at, name)))
    return TableView("run-responses", message("Responses of the run"), list(columns), rows)


def _summary(count: int, shown: int, in_all: int) -> str:
    places = {"some": count, "all": in_all, "shown": shown, "chars": LISTED_CHARS}
    if count < shown:
        return told(
            "{some:count} of {all:count} responses of the run ({shown:count} have their text on "
            "the page of their step), those most worth a look first: what findings point at and "
            "the extremes of the run, then those of each step, then a sample. Texts are cut to "
            "{chars} characters; a row opens its response in full.",
            places,
        )
    return told(
        "{some:count} of {all:count} responses of the run, those most worth a look first: what "
        "findings point at and the extremes of the run, then those of each step, then a sample. "
        "Texts are cut to {chars} characters; a row opens its response in full.",
        places,
    )
