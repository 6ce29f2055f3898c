"""View models: exactly what the templates print, already formatted; templates compute nothing.

Text is plain text: the Jinja environment escapes it. Every number carries the text that is
shown and the exact value for ``title`` and ``data-v``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlreport.columns import Column
from rlreport.draw.chart import Chart
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
class ExampleView:
    """A response that shows a finding, to be read on the spot."""

    link: Link
    excerpt: str | None
    value: str
    before: ExampleView | None = None


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with links to its steps and responses.

    ``since`` names the onset and its interval, ``limits`` each threshold with the value
    that met it, ``folded`` what the finding explains. ``charts`` are the names of those that it
    speaks of, ``span`` the steps at which it began and ended.
    """

    id: str
    severity: str
    name: str
    title: str
    why: str
    suggestion: str
    source: str
    since: Link | None
    interval: str
    limits: list[str]
    steps: list[Link]
    examples: list[ExampleView]
    texts: list[str]
    folded: list[FindingView]
    charts: list[str]
    span: tuple[int, int | None] | None


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The verdict and everything that led to it.

    Attributes:
        level, sentence: the verdict.
        lead: the finding that leads, None without a warning.
        others: further findings that nothing explains, notes left out.
        notes: what is worth knowing and no fault.
        muted: findings set aside, with the reason.
        passed: what was looked for and not found.
        not_run: names of checks that could not run, and what they need.
        checks_run: how many passed and could not run, as a clause.
        method: address of the page on how the verdict is made.
    """

    level: str
    sentence: str
    lead: FindingView | None
    others: list[FindingView]
    notes: list[FindingView]
    muted: list[tuple[FindingView, str]]
    passed: list[str]
    not_run: list[tuple[str, str]]
    checks_run: str
    method: Link

    @property
    def findings(self) -> list[FindingView]:
        """All findings that are not folded, in the order of the report."""
        return [*([self.lead] if self.lead else []), *self.others, *self.notes]


@dataclass(frozen=True, slots=True)
class CheckView:
    """A check as the page on how the verdict is made explains it."""

    id: str
    name: str
    facts: list[tuple[str, str]]
    limits: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class MethodView:
    """``checks.html``: how the verdict is made."""

    parts: list[tuple[str, list[str]]]
    checks: list[CheckView]


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


@dataclass(frozen=True, slots=True)
class CardView:
    """The run's card: the line it is folded to, and its entries as indented text."""

    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class OverviewView:
    """``index.html``. ``windows`` says which steps the key figures are means of.

    ``not_drawn`` are sentences about columns without a chart; ``mixed`` says that the logs look
    like several runs.
    """

    verdict: VerdictView
    figures: list[KeyFigure]
    windows: str
    charts: list[Chart]
    extremes: TableView
    steps: TableView
    summary: str
    left_out: list[str]
    not_drawn: list[str]
    card: CardView | None
    mixed: str


@dataclass(frozen=True, slots=True)
class StepView:
    """``steps/<step>.html``.

    ``data`` is the page's row data, ``tokens`` the packed token data; ``sample_note`` says which
    key figure comes from a sample.
    """

    step: str
    previous: Link | None
    next: Link | None
    first: Link | None
    all: Link
    figures: list[KeyFigure]
    charts: list[Chart]
    findings: list[FindingView]
    responses: TableView
    data: dict[str, Any]
    tokens: str
    incomplete: str = ""
    in_progress: bool = False
    sample_note: str = ""


@dataclass(frozen=True, slots=True)
class ResponsesView:
    """``responses.html``. ``packed`` is the data of all its rows, of which ``table`` has some."""

    table: TableView
    packed: str
    summary: str


@dataclass(frozen=True, slots=True)
class PromptsView:
    """``prompts.html``."""

    table: TableView
    groups: TableView | None
    charts: list[Chart]
    details: list[PromptDetail]


@dataclass(frozen=True, slots=True)
class PromptDetail:
    """A prompt opened: its whole text and one response per step, side by side."""

    prompt_id: str
    prompt: str
    responses: list[tuple[Link, str, Num, str]]
    """link, which ("Best:", "Worst:", "Latest:"), reward, text"""


@dataclass(frozen=True, slots=True)
class TokensView:
    """``tokens.html``. ``summary`` says what is missing, and which responses are counted."""

    tables: list[TableView]
    ngrams: TableView | None
    charts: list[Chart]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class DataView:
    """``data.html``. ``sample`` says which responses figures of texts and tokens come from."""

    files: TableView
    metrics: TableView | None
    fields: TableView
    bad_lines: TableView
    notes: list[str]
    sample: str
    left_out: list[str]
    settings: list[tuple[str, str]]
    versions: Sequence[tuple[str, str]]
    exports: list[Link]


NOT_IN_LOG = message("not in the log")


def number(value: float | None, kind: NumberKind = "number", why_missing: str = NOT_IN_LOG) -> Num:
    """Makes a shown number; ``kind`` says how it is written."""
    if value is None or math.isnan(value):
        return Num(MISSING, why_missing, None)
    value = float(value)
    return Num(written(value, kind), exact(value), value)


def number_cell(value: float | None, kind: NumberKind = "number") -> Cell:
    """Makes the cell of a number."""
    shown = number(value, kind)
    return Cell(shown.text, shown.value, shown.exact)


def number_column(column: Column) -> ColumnView:
    """Makes the header of a column of numbers; one listed as hidden is hidden at first."""
    return ColumnView(
        column.name,
        column.label,
        column.unit,
        help=column.help,
        hidden=column.listed == "hidden",
        written=column.kind,
    )
