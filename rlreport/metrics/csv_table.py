"""Read metrics from CSV files, such as histories and charts exported from W&B."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.errors import UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.figures.ragged import Floats
from rlreport.formats.metric_rows import KIND_KEYS, NO_METRICS, STEP_KEYS, prefixed
from rlreport.metrics.records import CELLS, STEP, Block, LeftOut, batches, lines_of, number
from rlreport.system.documents import MAX_COLUMNS, MAX_LINE, LimitError
from rlreport.text.messages import message

# Columns that may name the run of a row, most preferred first
RUN_KEYS = ("run", "run_id", "run_name", "experiment")
MAX_RUNS = 200  # Maximum number of runs that such a column may name, as each reads the file once

_BLOCK_ROWS = 10_000
_BLOCK_BYTES = 16_000_000

csv.field_size_limit(MAX_LINE)  # the default of 131,072 characters is less than a line may have


def csv_blocks(path: Path, left_out: LeftOut, run: str = "") -> Iterator[Block]:
    """Yield the metrics of a CSV file; cells are separated by commas, semicolons or tabs.

    Args:
        path: the file.
        left_out: counts rows that cannot be used.
        run: read only this run's rows, or its columns "RUN - METRIC", as W&B exports charts; "" for
            all.

    Raises:
        UnusableInputError: there is no column of steps, or the file is encoded as UTF-16.
        LimitError: the table has over MAX_COLUMNS columns.
    """
    lines = lines_of(path, left_out=left_out)
    header = next(lines, b"")
    if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnusableInputError(f"{path.name}: encoded as UTF-16; save it as UTF-8")
    separator = csv_separator(header)
    names = csv_cells(header, separator)
    if len(names) > MAX_COLUMNS:
        raise LimitError(message("a table of over {most:count} columns", most=MAX_COLUMNS))
    step = next((key for key in STEP_KEYS if key in names), None)
    if step is None:
        raise UnusableInputError(f"{path.name}: no column named step, so no metrics table")
    kind = next((name for name in names if name in KIND_KEYS), None)
    column = _run_column(names) if run else None
    metrics = csv_metrics(names, run if column is None else "")
    metrics = {index: name for index, name in metrics.items() if index != column}
    for chunk in batches(lines, _BLOCK_ROWS, _BLOCK_BYTES, first=2):
        table = _csv_rows([line for _, line in chunk], len(names), separator, column)
        numbers = [_numbers(table[i]) for i in range(len(names))]
        steps = numbers[names.index(step)][0]
        whole = _is_whole(steps)
        of_run = whole if column is None else whole & (table[column] == run).to_numpy()
        if not whole.all() or len(table) != len(chunk):
            _count_unusable_rows(chunk, names, step, separator, left_out)
        kinds = table[names.index(kind)] if kind else None
        groups = kinds.groupby(kinds).groups if kinds is not None else {"": table.index}
        for group, rows in groups.items():
            in_group = np.zeros(len(table), bool)
            in_group[rows] = True
            for index, name in metrics.items():
                values, logged = numbers[index]
                selection = in_group & of_run & logged
                if selection.any():
                    metric = prefixed(str(group).lower(), name)
                    yield steps[selection].astype(np.int64), {metric: values[selection]}


def _csv_rows(
    lines: list[bytes], columns: int, separator: str, text: int | None = None
) -> pd.DataFrame:
    """Return the cells of lines as a table, NaN for empty cells; skip malformed lines.

    The column with the index ``text`` is not converted to numbers.
    """
    try:
        return pd.read_csv(
            io.BytesIO(b"\n".join(lines)), sep=separator, decimal="," if separator == ";" else ".",
            header=None, names=range(columns), index_col=False, keep_default_na=False,
            na_values=[""], encoding_errors="replace", on_bad_lines="skip", low_memory=False,
            dtype={} if text is None else {text: str},
        )  # fmt: skip
    except ValueError:  # an unclosed quotation mark swallows the lines after it
        cells = (csv_cells(line, separator) for line in lines)
        rows = [row for row in cells if len(row) == columns]
        return pd.DataFrame(rows, columns=range(columns), dtype=object).replace("", np.nan)


def _is_whole(steps: Floats) -> NDArray[np.bool_]:
    whole: NDArray[np.bool_] = (np.abs(steps) <= LARGEST_STEP) & (steps == np.floor(steps))
    return whole


def _count_unusable_rows(
    chunk: list[tuple[int, bytes]], names: list[str], step: str, separator: str, left_out: LeftOut
) -> None:
    """Count rows with too many or few cells or without a valid step; a row may span lines.

    Args:
        chunk: line numbers and lines.
        names: names of the columns.
        step: name of the column with the step.
        separator: character between cells.
        left_out: receives the counts.
    """
    texts = [line.decode("utf-8", "replace") + "\n" for _, line in chunk]
    reader = csv.reader(texts, delimiter=separator, strict=True)
    rows, before = [], 0
    try:
        for cells in reader:
            rows.append((chunk[before][0], cells))
            before = reader.line_num
        fewest = 0
    except csv.Error:
        rows = [(number, csv_cells(line, separator)) for number, line in chunk]
        fewest = len(names)
    step_index = names.index(step)
    for line, cells in rows:
        if cells and not any(cells):
            continue
        if not fewest <= len(cells) <= len(names):
            left_out.add(CELLS, line)
            continue
        value = number(cells[step_index]) if step_index < len(cells) else None
        if value is None or not _is_whole(np.array([value]))[0]:
            left_out.add(STEP, line)


def csv_separator(header: bytes) -> str:
    """Return the separator of a CSV file: the most frequent of comma, semicolon and tab."""
    return max(",;\t", key=header.decode("utf-8", "replace").count)


def csv_cells(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line of a CSV file as text, [] if it is malformed."""
    text = line.decode("utf-8-sig", "replace").strip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # such as a carriage return within the line
        return []


def csv_runs(path: Path) -> list[str]:
    """Return the runs of a CSV file that names several in RUN_KEYS or in "RUN - METRIC"; else [].

    Raises:
        LimitError: there are over MAX_RUNS runs.
    """
    with closing(lines_of(path)) as lines:
        header = next(lines, b"")
        separator = csv_separator(header)
        names = csv_cells(header, separator)
        metrics = [name for name in names if name not in NO_METRICS]
        if metrics and all(" - " in name for name in metrics):
            return sorted({name.rpartition(" - ")[0] for name in metrics})
        runs: set[str] = set()
        if (column := _run_column(names)) is not None and len(names) <= MAX_COLUMNS:
            for chunk in batches(lines, _BLOCK_ROWS, _BLOCK_BYTES, first=2):
                table = _csv_rows([line for _, line in chunk], len(names), separator, column)
                runs.update(table[column].dropna())
                if len(runs) > MAX_RUNS:
                    raise LimitError(message("a table of over {most:count} runs", most=MAX_RUNS))
    return sorted(runs) if len(runs) > 1 else []


def _run_column(names: list[str]) -> int | None:
    """Return the index of the column that names the run, None without one."""
    return next((names.index(key) for key in RUN_KEYS if key in names), None)


def csv_metrics(names: list[str], run: str) -> dict[int, str]:
    """Return column index -> metric for ``run``'s columns, but not W&B's __MIN and __MAX."""
    metrics = {}
    for index, name in enumerate(names):
        base, _, end = name.rpartition("__")
        if name in NO_METRICS or name in KIND_KEYS or not name:
            continue
        if end in ("MIN", "MAX") and base in names:
            continue
        owner, separator, metric = name.rpartition(" - ")
        if not run:
            metrics[index] = name
        elif separator and owner == run:
            metrics[index] = metric
    return metrics


def _numbers(column: pd.Series) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the numbers of a column, float64 (R,), and which cells contain a number, bool (R,)."""
    if column.dtype.kind in "fiub":
        values = column.to_numpy(np.float64)
        return values, ~np.isnan(values)
    cells = [number(cell) for cell in column]
    values = np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    return values, np.array([cell is not None for cell in cells], bool)
