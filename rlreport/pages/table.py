"""Cells and tables, formatted for the templates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from itertools import count, repeat
from typing import Any, NamedTuple

import pandas as pd

from rlreport.columns import BadEnd, Column
from rlreport.pages.page_data import ColumnData
from rlreport.pages.widths import label_width, text_width
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING, NumberKind, exact, written

NOT_IN_LOG = message("not in the log")


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its text, and its address relative to the page (None: shown as plain text)."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnView:
    key: str
    label: str
    unit: str = ""
    # ``number``, ``text`` (clamped to two lines), ``flag``, ``link``, ``name`` (broken after its
    # marks only), ``token`` (monospaced), ``level`` (of verdicts, in their colours) or ``path``
    # (the cell's text is SVG path data in a box 100 × 24)
    kind: str = "number"
    help: str = ""  # one sentence shown on hover of the header
    hidden: bool = False  # whether the reader must select the column to see it
    written: NumberKind = "number"  # format of the column's numbers
    group: str = ""  # heading above the column's name in menus, "" for computed figures
    term: str = ""  # key of its definition, "" without one
    # the end that lists are first sorted by, see ``columns.BadEnd``
    bad_end: BadEnd = ""
    # class of the column's width in lists of responses, see ``pages.widths``; "": by its label
    width: str = ""

    @property
    def size(self) -> str:
        if self.width or self.kind == "text":
            return self.width
        return label_width(self.label)

    def data(self) -> ColumnData:
        """Return the column for scripts; unlike ``asdict`` its keys have types."""
        return {
            "key": self.key,
            "label": self.label,
            "unit": self.unit,
            "kind": self.kind,
            "help": self.help,
            "hidden": self.hidden,
            "written": self.written,
            "group": self.group,
            "term": self.term,
            "bad_end": self.bad_end,
            "width": self.size,
        }


# Columns of a table, with a value for each row
Columns = dict[ColumnView, Iterable[Any]]


class Tag(NamedTuple):
    """A word in the colours of the level of a verdict."""

    level: str  # such as "critical"; also the class of its element
    text: str


class Cell(NamedTuple):
    text: str  # displayed text
    value: float | str | None = None  # value to sort by, None sorts last
    exact: str = ""  # text on hover: the exact value, or why it is missing
    bar: int = 0  # length of a bar behind the number, in twentieths of the cell's width
    href: str | None = None  # address that the cell's text links to
    note: str = ""  # muted text below the text, in a column of texts or links
    # how the text ends, in a column of texts: it is shown, and what is before it (``text``) is not
    end: str = ""
    tags: tuple[Tag, ...] = ()  # what a cell of the kind ``level`` shows as its text


@dataclass(frozen=True, slots=True)
class RowView:
    """A table row; ``id`` is the response's n, the step, or the prompt id."""

    id: str
    cells: list[Cell]
    href: str | None = None
    badges: list[str] = field(default_factory=list)
    term: str = ""  # definition of the figure that the row is about, "" without one


# So many rows of a long table are printed; the style sheet has this number, too
MOST_PRINTED = 10
LONG = 13  # A table of so many rows is long


@dataclass(frozen=True, slots=True)
class TableView:
    id: str
    caption: str
    columns: list[ColumnView]
    rows: list[RowView]
    note: str = ""  # which rows are left out, such as "128 of 1,024 shown, chosen by …"
    # indices of the rows that are printed of a long table; without any, the first MOST_PRINTED are
    printed: frozenset[int] = frozenset()
    print_note: str = ""  # how many rows are printed if not all are

    def others(self, row: RowView) -> Iterator[tuple[tuple[str, str, bool], Cell]]:
        """Yield ((kind, key, hidden) of its column, cell) for each cell of a row but the first."""
        # Templates unpack tuples ten times faster than they look up attributes.
        columns = (
            (column.kind, column.key, column.hidden) for column in self.columns[1:]
        )
        return zip(columns, row.cells[1:], strict=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A change since another step, e.g. "+0.31 since step 99"; direction: up, down or flat."""

    since: str
    delta: Cell
    direction: str


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure of a step with its changes, or of the run with its first and best value."""

    key: str
    label: str
    unit: str
    now: Cell
    first: Cell | None = None
    best: Cell | None = None
    changes: list[Change] = field(default_factory=list)
    sparkline: str = ""  # SVG path data in a box 100 × 24
    help: str = ""
    term: str = ""  # key of its definition, "" without one


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page: its title, navigation and assets."""

    title: str
    run: str
    kind: str  # ``overview``, ``step``, …; the template of ``<main>`` has that name
    root: str = ""  # address of the report's root relative to this page ("" or "../")
    # key and link of each entry of the main navigation
    nav: list[tuple[str, Link]] = field(default_factory=list)
    # the same of the links at the foot of the page
    foot: list[tuple[str, Link]] = field(default_factory=list)
    # logical name ("style", "vega", "report") -> address relative to the page
    assets: dict[str, str] = field(default_factory=dict)
    csp: str = ""  # value of the Content-Security-Policy meta element
    # what previews of a link to the page show, see ``described``; "" for nothing
    description: str = ""
    guide: str = ""  # address of "How to read this", "" if the report has none


def terms_in(value: object) -> set[str]:
    """Return the definitions that tables name, in a view or a list of views."""
    if isinstance(value, TableView):
        terms = {column.term for column in value.columns}
        return (terms | {row.term for row in value.rows}) - {""}
    if is_dataclass(value):
        return terms_in([getattr(value, one.name) for one in fields(value)])
    if isinstance(value, list | tuple):
        return set().union(*map(terms_in, value))
    return set()


def number_cell(
    value: float | None,
    kind: NumberKind = "number",
    why_missing: str = NOT_IN_LOG,
    bar: int = 0,
) -> Cell:
    """Return the cell of a number in the format ``kind``; None and NaN count as missing."""
    if value is None or math.isnan(value):
        return Cell(MISSING, None, why_missing, bar)
    return _number_cell(float(value), kind, bar)


@lru_cache(maxsize=1 << 14)  # many cells of a table are equal
def _number_cell(value: float, kind: NumberKind, bar: int) -> Cell:
    return Cell(written(value, kind), value, exact(value), bar)


def name_cell(name: int, href: str | None = None) -> Cell:
    return Cell(str(name), float(name), href=href)


def number_column(column: Column) -> ColumnView:
    """Return the header of a column of numbers, hidden if ``column.listed`` is "hidden"."""
    return ColumnView(
        column.name,
        column.label,
        column.unit,
        help=column.help,
        hidden=column.listed == "hidden",
        written=column.kind,
        term=column.term,
        bad_end=column.bad_end,
    )


def number_columns_of(frame: pd.DataFrame, columns: Iterable[Column]) -> Columns:
    return {
        number_column(column): frame[column.name].astype(float) for column in columns
    }


def fitting(columns: Mapping[ColumnView, Sequence[Any]]) -> Columns:
    """Return columns whose texts' widths fit what most of their cells hold."""
    result: Columns = {}
    for column, values in columns.items():
        fitted = column
        if column.kind == "text":
            width = text_width(column.label, [value or "" for value in values])
            fitted = replace(column, width=width)
        result[fitted] = values
    return result


def attribute_columns(
    items: Sequence[object], columns: Iterable[ColumnView]
) -> Columns:
    """Return columns whose values are attributes of ``items``, named by the columns' keys."""
    result: Columns = {}
    for column in columns:
        result[column] = [getattr(item, column.key) for item in items]
    return result


def table(
    name: str,
    caption: str,
    columns: Mapping[ColumnView, Iterable[Any]],
    *,
    ids: Iterable[object] | None = None,
    hrefs: Iterable[str | None] = repeat(None),
    badges: Iterable[list[str]] = repeat([]),
    note: str = "",
    printed: Iterable[int] = (),
) -> TableView:
    """Build a table; each of ``columns`` has one number, text, None or Cell per row.

    ``ids`` are a response's n, a step or a prompt id; 0, 1, … by default. ``badges`` follow the
    first cell of a row, ``note`` says what was left out, ``printed`` are the indices of rows that
    are printed of a long table.
    """
    by_column = [_cells(values, column) for column, values in columns.items()]
    by_row = zip(*by_column, strict=True)
    # Not strict: the defaults of ids, hrefs and badges have no end.
    rows = [
        RowView(str(row_id), list(cells), href, words)
        for row_id, cells, href, words in zip(
            ids or count(), by_row, hrefs, badges, strict=False
        )
    ]
    print_note = _print_note(len(rows))
    return TableView(
        name, caption, list(columns), rows, note, frozenset(printed), print_note
    )


def with_terms(view: TableView, terms: Iterable[str]) -> TableView:
    """Return a table whose rows are about figures with these definitions, "" for none."""
    pairs = zip(view.rows, terms, strict=True)
    rows = [replace(row, term=term) for row, term in pairs]
    return replace(view, rows=rows)


def _print_note(rows: int) -> str:
    """Return how many of a table's rows are printed if not all are, else ""."""
    if rows < LONG:
        return ""
    return message(
        "{some:count} of {all:count} rows are printed.", some=MOST_PRINTED, all=rows
    )


def _cells(values: Iterable[Any], column: ColumnView) -> Iterator[Cell]:
    """Yield the cells of a column; a value that is a cell already stays as it is."""
    for value in values:
        if isinstance(value, Cell):
            yield value
        elif column.kind == "number":
            yield number_cell(value, column.written)
        elif value is None:
            yield Cell(MISSING, None, message("not logged"))
        else:
            yield Cell(value)
