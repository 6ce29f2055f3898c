"""Parts of pages: numbers, links, tables and key figures, formatted for the templates.

A view of a page is a dict whose values a template prints. Text is plain text: the Jinja
environment escapes it. Every number carries the text that is shown and the exact value for
``title`` and ``data-v``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from rlreport.columns import Column
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING, NumberKind, exact, written


class Num(NamedTuple):
    """A number as shown, with its exact value ("−0.31", "-0.3141592"), or why it is missing."""

    text: str
    exact: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its text and an address relative to the page."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class ColumnView:
    """A column of a table.

    Attributes:
        key: machine name, also the key in the page's data.
        label: header text; ``unit`` goes under or behind it.
        kind: ``number``, ``text`` (clamped to two lines), ``flag``, ``link``, ``token``
            (monospaced) or ``path`` (the cell's text is path data in a box 100 × 24).
        help: one sentence shown on hover of the header.
        written: how its numbers are written.
        hidden: not shown until the reader asks for it.
        group: what menus list it under, "" for our own figures.
    """

    key: str
    label: str
    unit: str = ""
    kind: str = "number"
    help: str = ""
    hidden: bool = False
    written: NumberKind = "number"
    group: str = ""

    def data(self) -> dict[str, Any]:
        """Return it as the page's data has it, by the names of its attributes."""
        return {name: getattr(self, name) for name in self.__slots__}


class Cell(NamedTuple):
    """A table cell.

    Attributes:
        text: what is shown.
        value: sort value, None sorts last.
        exact: shown on hover: the exact value, or why it is missing.
        bar: length of a bar behind the number, in twentieths of the cell.
        href: address the text leads to.
    """

    text: str
    value: float | str | None = None
    exact: str = ""
    bar: int = 0
    href: str | None = None


@dataclass(frozen=True, slots=True)
class RowView:
    """A table row; ``id`` is the response's n, the step, or the prompt id."""

    id: str
    cells: list[Cell]
    href: str | None = None
    badges: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableView:
    """A table. ``note`` says what was left out ("128 of 1,024 shown, chosen by …")."""

    id: str
    caption: str
    columns: list[ColumnView]
    rows: list[RowView]
    note: str = ""

    def others(self, row: RowView) -> Iterator[tuple[tuple[str, str, bool], Cell]]:
        """The cells of a row but for the first, which names the row.

        Each comes with kind, key and hidden of its column. All are tuples, as a template
        takes ten times as long to look an attribute up as to unpack it.
        """
        columns = ((column.kind, column.key, column.hidden) for column in self.columns[1:])
        return zip(columns, row.cells[1:], strict=True)


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure: now, and its changes (each: label, Num, direction up/down/flat, words).

    ``sparkline`` is path data (``d``) in a box 100 wide and 24 high.
    """

    key: str
    label: str
    unit: str
    now: Num
    first: Num | None = None
    changes: list[Change] = field(default_factory=list)
    sparkline: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A change against another step: "+0.31 since step 99"."""

    since: str
    delta: Num
    direction: str
    words: str


@dataclass(frozen=True, slots=True)
class Shell:
    """What every page shares.

    Attributes:
        title: text of <title>: page · run.
        run: name of the run.
        kind: ``overview``, ``step``, …; the template of ``<main>`` has that name.
        root: address of the report's root relative to this page ("" or "../").
        nav: main navigation; ``here`` is the key of the current entry.
        crumbs: breadcrumbs, the last without a link.
        assets: logical name ("style", "vega", "report") -> address relative to the page.
        csp: value of the Content-Security-Policy meta element.
        stamp: time of building, or "".
    """

    title: str
    run: str
    kind: str
    root: str
    nav: list[tuple[str, Link]]
    crumbs: list[Link]
    assets: dict[str, str]
    csp: str
    stamp: str = ""


NOT_IN_LOG = message("not in the log")


def number(value: float | None, kind: NumberKind = "number", why_missing: str = NOT_IN_LOG) -> Num:
    """Return a number as shown; ``kind`` says how it is written."""
    if value is None or math.isnan(value):
        return Num(MISSING, why_missing, None)
    value = float(value)
    return Num(written(value, kind), exact(value), value)


def number_cell(value: float | None, kind: NumberKind = "number") -> Cell:
    """Return the cell of a number."""
    shown = number(value, kind)
    return Cell(shown.text, shown.value, shown.exact)


def text_cell(text: str | None) -> Cell:
    """Return the cell of a text, which may not be logged."""
    return Cell(MISSING, None, message("not logged")) if text is None else Cell(text)


def name_cell(name: int, href: str | None = None) -> Cell:
    """Return the cell of a number that names something: a step or a response."""
    return Cell(str(name), float(name), href=href)


def number_column(column: Column) -> ColumnView:
    """Return the header of a column of numbers; one listed as hidden is hidden at first."""
    return ColumnView(
        column.name,
        column.label,
        column.unit,
        help=column.help,
        hidden=column.listed == "hidden",
        written=column.kind,
    )


def table(
    name: str,
    caption: str,
    columns: Sequence[ColumnView],
    values: Mapping[str, Iterable[Any]],
    *,
    ids: Iterable[object],
    hrefs: Iterable[str | None] = repeat(None),
    badges: Iterable[list[str]] = repeat([]),
    note: str = "",
) -> TableView:
    """Return a table.

    Args:
        name: its id.
        caption: what it lists.
        columns: its columns, in order.
        values: by key of a column one value per row: a number, a text, None or a Cell. May be a
            DataFrame.
        ids: of the rows: a response's n, a step, a prompt id.
        hrefs: address that each row leads to.
        badges: words behind the first cell of each row.
        note: says what was left out ("128 of 1,024 shown, chosen by …").
    """
    cells = zip(*(_cells(values[column.key], column) for column in columns), strict=True)
    rows = [
        RowView(str(row_id), list(row), href, words)
        for row_id, row, href, words in zip(ids, cells, hrefs, badges, strict=False)
    ]
    return TableView(name, caption, list(columns), rows, note)


def _cells(values: Iterable[Any], column: ColumnView) -> Iterator[Cell]:
    for value in values:
        if isinstance(value, Cell):
            yield value
        elif column.kind == "number":
            yield number_cell(value, column.written)
        else:
            yield text_cell(value)
