"""Data that a program has in memory, such as a data frame: written to files, which are then read.

So there is one implementation of reading. Each row becomes a line, and the name of the file tells
readers to speak of rows and columns instead of lines and files.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from rlreport.errors import OutputError, UsageError
from rlreport.system.json_lines import is_missing, json_line, names_of_columns

_BATCH = 1_000  # rows that are converted at once, to bound memory
_ADDRESS = re.compile(r"[\w+]+://")
_ENDING = " (in memory)"  # of the names of files with such data
_OF_RUN = "data of "  # before the name of a run that is compared
_EXPECTED = "paths, a data frame, a data set, a list of dicts (rows) or a dict of lists (columns)"


def is_in_memory(name: str) -> bool:
    """Return whether a file, by its name, has data that a program had in memory."""
    return name.endswith(_ENDING)


def run_name(name: str) -> str:
    """Return the name of the run whose data are in a file: ``data``, or as it is compared."""
    return name.removesuffix(_ENDING).removeprefix(_OF_RUN)


def place(name: str, line: int) -> str:
    """Return a line of a file in words, such as "a.jsonl, line 7" or "the data, row 7"."""
    if is_in_memory(name):
        return f"the {name.removesuffix(_ENDING)}, row {line:,}"
    return f"{name}, line {line:,}"


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows of a program's data, to be read once."""

    rows: Iterable[Mapping[Any, Any]]


Given = str | Path | InMemory  # a path, or data in memory


def paths_or_data(value: Any, of: str = "data") -> list[Given]:
    """Return the paths, or the data in memory, that a user gave as ``of``; [] if there are none.

    Raises:
        UsageError: it is of another kind; of two kinds; or its columns cannot be told.
    """
    if _is_path(value):
        return [_path(value, of)]
    data = _data(value, of)
    if data is not None:
        return [data]
    try:
        items = iter(value)
    except TypeError:  # also of an array without dimensions
        raise UsageError(f"{of}: expected {_EXPECTED}; got {_kind(value)}") from None
    start = list(islice(items, 1))
    if start and isinstance(start[0], Mapping):
        return [InMemory(chain(start, items))]
    return [_one_of_several(item, of) for item in chain(start, items)]


def _one_of_several(item: Any, of: str) -> Given:
    """Return what an item of a list is: a path, or a table of its own."""
    if _is_path(item):
        return _path(item, of)
    data = _data(item, of)
    if data is None and isinstance(item, list | tuple):
        # The rows of one of several runs
        is_rows = bool(item) and all(isinstance(row, Mapping) for row in item)
        data = InMemory(item) if is_rows else None
    if data is None:
        raise UsageError(
            f"{of}: expected {_EXPECTED}; got a list with {_kind(item)} in it"
        )
    return data


def _is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, str | os.PathLike)


def _path(value: str | os.PathLike[str], of: str) -> str | Path:
    """Return a path; raise UsageError for a text that no system takes as one, such as a log."""
    try:
        if not _ADDRESS.match(os.fspath(value)):
            Path(value).stat()
    except (OSError, ValueError) as error:
        # What does not exist may be a pattern, and is told by whoever reads it.
        if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
            start = f"{os.fspath(value):.60}"
            raise UsageError(
                f"{of}: expected {_EXPECTED}; {start!r}… is no path"
            ) from None
    return value if isinstance(value, str) else Path(value)


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _data(value: Any, of: str) -> InMemory | None:
    """Return the rows of a table of any library, told by its methods; None for other values."""
    if isinstance(value, Mapping):
        return InMemory(_rows_of_columns(value, of))
    for lazy in ("compute", "collect"):  # of Dask, of Polars and Spark
        if _has(value, "columns", lazy):
            raise UsageError(
                f"{of}: {_kind(value)} is not in memory; give the result of its {lazy}()"
            )
    if _has(value, "columns", "iloc"):
        return InMemory(_rows_of_frame(value, of))
    if _has(value, "column_names", "iter"):
        return InMemory(_rows_of_dataset(value, of))
    if _has(value, "column_names", "to_batches"):
        return InMemory(_rows_of_arrow(value, of))
    if _has(value, "columns", "iter_rows"):  # of Polars
        return InMemory(value.iter_rows(named=True))
    return None


def _has(value: object, *names: str) -> bool:
    """Return whether a value's class has these attributes; asking the value may compute them."""
    return all(hasattr(type(value), name) for name in names)


def _rows_of_frame(frame: Any, of: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas data frame; named levels of its index are columns, too.

    An empty cell (NaN, NA, NaT) is None, as pandas cannot tell NaN from what is missing.
    """
    index_levels = [
        level
        for level, name in enumerate(frame.index.names)
        if name is not None and name not in frame.columns
    ]
    index_keys = [frame.index.names[level] for level in index_levels]
    names = names_of_columns([*index_keys, *frame.columns], of)
    for start in range(0, len(frame), _BATCH):
        part = frame.iloc[start : start + _BATCH]
        columns = [part.index.get_level_values(level) for level in index_levels]
        # By position, as labels may be equal
        columns += [part.iloc[:, position] for position in range(len(frame.columns))]
        for cells in zip(*(column.tolist() for column in columns), strict=True):
            plain = (None if is_missing(cell) else cell for cell in cells)
            yield dict(zip(names, plain, strict=True))


def _rows_of_dataset(dataset: Any, of: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set of Hugging Face, which has batches of columns."""
    for batch in dataset.iter(batch_size=_BATCH):
        yield from _rows_of_columns(batch, of)


def _rows_of_arrow(table: Any, of: str) -> Iterator[dict[str, Any]]:
    names = names_of_columns(table.column_names, of)
    for batch in table.to_batches(max_chunksize=_BATCH):
        columns = list(map(_arrow_cells, batch.columns, names, repeat(of)))
        for cells in zip(*columns, strict=True):
            yield dict(zip(names, cells, strict=True))


def _arrow_cells(column: Any, name: str, of: str) -> list[Any]:
    """Return the cells of a column; raise UsageError for what Python has no values for."""
    try:
        cells: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:  # broken UTF-8, a date after 9999
        raise UsageError(f"{of}: {name!r} cannot be read: {error}") from None
    return cells


def _rows_of_columns(columns: Mapping[Any, Any], of: str) -> Iterator[dict[str, Any]]:
    """Return the rows of a dict of columns; raise UsageError if these are no columns."""
    names = names_of_columns(columns, of)
    values = [
        _column(column, f"{of}: {name!r}")
        for name, column in zip(names, columns.values(), strict=True)
    ]
    lengths = {name: len(column) for name, column in zip(names, values, strict=True)}
    if len({*lengths.values()}) > 1:
        listed = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise UsageError(f"{of}: the columns differ in length: {listed:.300}")
    return _zipped(names, values)


def _column(value: Any, what: str) -> Any:
    """Return a column whose parts can be taken; raise UsageError if ``what`` is no column."""
    if _has(value, "column_names") or _has(value, "columns"):
        raise UsageError(f"{what} is a table of its own; give one table")
    # An array without dimensions is a single value.
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and shape:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value if isinstance(value, list | tuple | range) else list(value)
    raise UsageError(
        f"{what} is {_kind(value)}, not a list: a dict is read as columns; give rows as a list "
        "of dicts"
    )


def _zipped(names: Sequence[str], columns: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(columns[0]) if columns else 0, _BATCH):
        parts = [_cells(column[start : start + _BATCH]) for column in columns]
        for cells in zip(*parts, strict=True):
            yield dict(zip(names, cells, strict=True))


def _cells(part: Any) -> Sequence[Any]:
    """Return the cells of a part of a column; those of a pandas series None if missing."""
    if hasattr(part, "iloc"):
        return [None if is_missing(cell) else cell for cell in part.tolist()]
    is_time = getattr(getattr(part, "dtype", None), "kind", "") in ("M", "m")
    # ``tolist`` makes numbers of times in nanoseconds.
    return part.tolist() if hasattr(part, "tolist") and not is_time else list(part)


@contextmanager
def as_files(
    given: Mapping[str, Sequence[Given]],
) -> Iterator[dict[str, list[str | Path]]]:
    """Yield the paths of what was given, by its name; data in memory are in temporary files.

    The name of a file is that of its data. The files are removed at the end.

    Raises:
        UsageError: there is no row, or one is no dict or cannot be written.
        OutputError: there is no room for the files.
    """
    if not any(isinstance(one, InMemory) for one in chain(*given.values())):
        yield {name: _paths(values) for name, values in given.items()}
        return
    with TemporaryDirectory(prefix="rlreport-", ignore_cleanup_errors=True) as root:
        # Readers look for configurations next to a log and one folder above it.
        folder = Path(root, "data")
        folder.mkdir()
        files: dict[str, list[str | Path]] = {}
        for name, values in given.items():
            files[name] = []
            for number, value in enumerate(values, 1):
                if isinstance(value, InMemory):
                    what = f"{name} {number}" if len(values) > 1 else name
                    files[name].append(_written(value, folder, what))
                else:
                    files[name].append(value)
        yield files


def _paths(values: Sequence[Given]) -> list[str | Path]:
    return [value for value in values if not isinstance(value, InMemory)]


def _written(data: InMemory, folder: Path, what: str) -> Path:
    """Write rows to a file in a folder, a line each; return its path."""
    path = folder / f"{what}{_ENDING}"
    count = 0
    with path.open("wb") as file:
        for row in data.rows:
            count += 1
            line = _line(row, place(path.name, count))
            try:
                file.write(line)
            except OSError as error:
                raise OutputError(
                    f"the {what} cannot be written to a temporary file: {error.strerror}"
                ) from error
    if not count:
        raise UsageError(f"the {what}: no rows")
    return path


def _line(row: object, where: str) -> bytes:
    if not isinstance(row, Mapping):
        raise UsageError(f"{where}: expected a dict (column: value); got {_kind(row)}")
    names = names_of_columns(row, where)
    try:
        return json_line(dict(zip(names, row.values(), strict=True)))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
