"""Read trainer metrics from CSV files and the tables that W&B exports."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.formats.mapping import no_step_column
from rlreport.formats.metric_rows import (
    KIND_KEYS,
    NO_METRICS,
    STEP_KEYS,
    TEXT_KEYS,
    Record,
    clock_of,
    counters_of,
    prefixed,
)
from rlreport.metrics.lines import (
    CELLS,
    NUMBERED,
    REST,
    STEP,
    UnusedRows,
    first_names,
    lines_of,
    number,
)
from rlreport.metrics.shapes import HEAD, INDEX, step_of_rows
from rlreport.metrics.unread_texts import remark_on_columns
from rlreport.read.lines import csv_cells, csv_separator
from rlreport.system.documents import (
    MAX_COLUMNS,
    LimitError,
)
from rlreport.system.timestamps import TIME_KEYS
from rlreport.text.messages import message

# Columns that may name the run of a row, most preferred first
RUN_KEYS = ("run", "run_id", "run_name", "experiment")
MAX_RUNS = 200  # Maximum number of runs in a CSV file, which is read once for each


class _Columns(NamedTuple):
    """Which columns of a CSV file to read: names, and indices into the cells of a row."""

    names: list[str]
    step: int | None  # None to number the rows
    kind: int | None  # of the kind of event, such as ``eval``
    run: int | None  # of the run's name; None to read all rows
    metrics: dict[int, str]
    counters: dict[str, int]  # such as ``epoch``
    times: dict[str, int]  # those that may have the time of a row

    @classmethod
    def of(cls, names: list[str], run: str, key: str) -> _Columns:
        """Return the columns of ``run`` (or, if "", of all rows).

        ``names`` is the header of the table, ``key`` that of the step, INDEX to number the rows.
        """
        step = None if key == INDEX else names.index(key)
        kind = next((i for i, name in enumerate(names) if name in KIND_KEYS), None)
        run_column = _first_index(names, RUN_KEYS) if run else None
        # Without a column of runs, the names of columns begin with the run.
        run_in_names = run if run_column is None else ""
        metrics = csv_metrics(names, run_in_names)
        for column in (run_column, step):
            if column is not None:
                metrics.pop(column, None)
        counters = {name: names.index(name) for name in NO_METRICS.intersection(names)}
        times = {name: names.index(name) for name in TIME_KEYS if name in names}
        return cls(
            names=names,
            step=step,
            kind=kind,
            run=run_column,
            metrics=metrics,
            counters=counters,
            times=times,
        )

    def without(self, names: Collection[str]) -> _Columns:
        """Return the columns without the metrics of some names."""
        metrics = dict(self.metrics)
        for index, name in self.metrics.items():
            if name in names:
                del metrics[index]
        return self._replace(metrics=metrics)

    def numbers(self, cells: list[str], step: float) -> dict[str, float]:
        """Return the metrics and counters of a row that are numbers, as those of an event."""
        kind = "" if self.kind is None else _cell(cells, self.kind).lower()
        values = {
            prefixed(kind, name): number(cells[index])
            for index, name in self.metrics.items()
            if index < len(cells)  # a row may be short
        }
        event = {name: number(_cell(cells, i)) for name, i in self.counters.items()}
        key = "step" if self.step is None else self.names[self.step]
        values |= counters_of({key: step, **event})
        times = {name: _cell(cells, i) for name, i in self.times.items()}
        values |= clock_of(times)
        return {name: value for name, value in values.items() if value is not None}


def _cell(cells: list[str], index: int) -> str:
    """Return a cell of a row, "" if the row is too short."""
    return cells[index] if index < len(cells) else ""


def _repeated(metrics: Mapping[int, str]) -> list[str]:
    """Return the names that several columns have: which of them is meant, nobody can say."""
    counts = Counter(metrics.values())
    return [name for name, count in counts.items() if count > 1]


def _first_index(names: list[str], keys: Iterable[str]) -> int | None:
    """Return the index of the first of ``keys`` that is a column."""
    for key in keys:
        if key in names:
            return names.index(key)
    return None


def csv_records(path: Path, unused: UnusedRows, run: str = "") -> Iterator[Record]:
    """Yield the metrics of a CSV file; cells are separated by commas, semicolons or tabs.

    With ``run``, read only its rows, or its columns "RUN - METRIC", as W&B exports charts.
    """
    lines = lines_of(path, unused=unused)
    header = next(lines, b"")
    if not path.stat().st_size:
        raise UnusableInputError(f"{path.name}: the file is empty")
    if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnusableInputError(f"{path.name}: encoded as UTF-16; save it as UTF-8")
    separator = csv_separator(header)
    names = csv_cells(header, separator)
    if len(names) > MAX_COLUMNS:
        raise LimitError(message("more than {most:count} columns", most=MAX_COLUMNS))
    rows = _csv_rows(lines, separator, unused)
    head = list(islice(rows, HEAD))
    key = _step_column(names, [cells for _, cells in head])
    if key is None:
        raise UnusableInputError(
            f"{path.name}: not a metrics table, as {no_step_column(names)}"
        )
    remark_on_columns(_rows_of(names, [cells for _, cells in head]), unused)
    if key not in (*STEP_KEYS, INDEX):
        unused.remark(message("the step is read from {key}", key=f"`{key}`"))
    columns = _without_repeated(_Columns.of(names, run, key), unused)
    numbered = 0  # number of rows of the run so far
    for line, cells in chain(head, rows):
        step: float | None = float(numbered)
        if columns.step is not None:
            step = number(_cell(cells, columns.step))
        # Of too many cells, it is not clear to which columns they belong.
        if len(cells) > len(names):
            unused.add(CELLS, line)
        elif step is None or not step.is_integer() or abs(step) > LARGEST_STEP:
            unused.add(STEP, line)
        elif columns.run is None or _cell(cells, columns.run) == run:
            if columns.step is None:
                unused.add(NUMBERED, None)
            numbered += 1
            yield int(step), columns.numbers(cells, step)


def _without_repeated(columns: _Columns, unused: UnusedRows) -> _Columns:
    """Return the columns without those of equal names, of which none can be told to be right."""
    repeated = _repeated(columns.metrics)
    if not repeated:
        return columns
    text = message(
        "several columns have the same name, left out: {names}",
        names=first_names(repeated),
    )
    unused.remark(text)
    return columns.without(repeated)


def _step_column(names: list[str], head: list[list[str]]) -> str | None:
    """Return the name of the step's column, INDEX to number the rows, None for no metrics."""
    step = _first_index(names, STEP_KEYS)
    if step is not None:
        return names[step]
    return step_of_rows(_rows_of(names, head))


def _rows_of(names: list[str], head: list[list[str]]) -> list[dict[str, Any]]:
    return [_row_of(names, cells) for cells in head if len(cells) == len(names)]


def _row_of(names: list[str], cells: list[str]) -> dict[str, Any]:
    """Return a row as an object: numbers where the cells are numbers, other texts as they are."""
    row: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        value = number(cell) if cell else None
        if value is not None:
            row[name] = value
        elif cell:
            row[name] = cell
    return row


def has_rows(path: Path) -> bool:
    """Return whether a CSV file is a table of metrics, also if no column is named step."""
    with closing(lines_of(path)) as lines:
        header = next(lines, b"")
        separator = csv_separator(header)
        names = csv_cells(header, separator)
        if len(names) > MAX_COLUMNS or not TEXT_KEYS.isdisjoint(names):
            return False
        rows = _csv_rows(lines, separator, UnusedRows())
        return (
            _step_column(names, [cells for _, cells in islice(rows, HEAD)]) is not None
        )


def _csv_rows(
    lines: Iterator[bytes], separator: str, unused: UnusedRows
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of each nonempty row; a row may span several lines."""
    texts = (line.decode("utf-8", "replace") + "\n" for line in lines)
    rows = csv.reader(texts, delimiter=separator, strict=True)
    line = 2  # line 1 is the header, which ``rows`` does not count
    try:
        for cells in rows:
            if any(cells):
                yield line, cells
            line = rows.line_num + 2  # the first line of the next row
    except csv.Error:  # such as an unclosed quotation mark
        unused.add(REST, line)


def csv_runs(path: Path) -> list[str]:
    """Return the runs in columns "RUN - METRIC", or in a column of RUN_KEYS if several; else []."""
    with closing(lines_of(path)) as lines:
        header = next(lines, b"")
        separator = csv_separator(header)
        names = csv_cells(header, separator)
        metrics = [name for name in names if name not in NO_METRICS]
        if metrics and all(" - " in name for name in metrics):
            return sorted({name.rpartition(" - ")[0] for name in metrics})
        column = _first_index(names, RUN_KEYS)
        if column is None or len(names) > MAX_COLUMNS:
            return []
        runs: set[str] = set()
        for _, cells in _csv_rows(lines, separator, UnusedRows()):
            run = _cell(cells, column)
            if run:
                runs.add(run)
            if len(runs) > MAX_RUNS:
                raise LimitError(message("more than {most:count} runs", most=MAX_RUNS))
    return sorted(runs) if len(runs) > 1 else []


def csv_metrics(names: list[str], run: str) -> dict[int, str]:
    """Return the index of each column with a metric -> name of the metric.

    With ``run``, these are the columns "RUN - METRIC". W&B exports a metric with its extremes, as
    METRIC__MIN and METRIC__MAX; these are left out.
    """
    metrics: dict[int, str] = {}
    for index, name in enumerate(names):
        if not name or name in NO_METRICS or name in KIND_KEYS:
            continue
        base, _, end = name.rpartition("__")
        if end in ("MIN", "MAX") and base in names:
            continue
        owner, separator, metric = name.rpartition(" - ")
        if not run:
            metrics[index] = name
        elif separator and owner == run:
            metrics[index] = metric
    return metrics
