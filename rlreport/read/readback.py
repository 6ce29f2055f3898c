"""Read responses again: the rows of the logs behind rows of the response table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import IO, Any

import numpy as np
import pandas as pd

from rlreport.errors import RowError, UnreadRow, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.read.files import LogFormat
from rlreport.read.lines import DAMAGED, reason_of
from rlreport.read.remote import Source, read_ranges
from rlreport.read.rows import Row, load_object, parse_record
from rlreport.text.tokens import Style

_COLUMNS = ("file", "line", "offset", "length", "sub", "step", "n")
_MAX_OPEN = 16
_AT_ONCE_BYTES = 32 << 20
_REQUEST_COST = 64 << 10
"""Minimum bytes counted for a row in a store, which limits the number of requests at once."""

_BATCH_UNITS = 1 << 17
"""Tokens (or characters) of the rows that are in memory at a time."""


class RowLocations:
    """Locations of responses in the logs: picklable, 56 bytes per response.

    Attributes:
        sources, formats: by file.
        style: encoding of the run's token strings; None if unknown.
        file, line, offset, length, sub, step, n: int64 (R,), columns of the response table.
    """

    file: Ints
    line: Ints
    offset: Ints
    length: Ints
    sub: Ints
    step: Ints
    n: Ints

    def __init__(
        self, sources: list[Source], formats: list[LogFormat], style: Style | None = None
    ) -> None:
        self.sources, self.formats, self.style = sources, formats, style
        self._streams: dict[int, IO[bytes]] = {}

    def without_rows(self) -> RowLocations:
        """Return a copy without rows; ``select`` adds rows."""
        return RowLocations(self.sources, self.formats, self.style)

    def select(self, responses: pd.DataFrame) -> None:
        """Restrict to these rows of the response table, renumbered from 0."""
        for name in _COLUMNS:
            setattr(self, name, responses[name].to_numpy())

    def source(self, row: int) -> Source:
        """Return the file of a row."""
        return self.sources[int(self.file[row])]

    def lines(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield rows of line-based files with their bytes; rows ascend by file and offset.

        Raises:
            UnusableInputError: a file cannot be read any more.
        """
        numbers = np.array(rows, np.int64)
        batch = np.cumsum(self.length[numbers] + _REQUEST_COST) // _AT_ONCE_BYTES
        for one in np.unique(batch):
            some = numbers[batch == one].tolist()
            requested = self._request(some)
            for row in some:
                with _unchanged(self.source(row)):
                    line = requested.pop(row) if row in requested else self._read(row)
                    if isinstance(line, OSError):
                        raise line
                yield row, line

    def _request(self, rows: Sequence[int]) -> dict[int, bytes | OSError]:
        """Return the lines of those rows that are in uncompressed files in stores."""
        wanted = {
            row: (source, int(self.offset[row]), int(self.offset[row] + self.length[row]))
            for row in rows
            if (source := self.source(row)).store and not source.compression
        }
        return dict(zip(wanted, read_ranges(list(wanted.values())), strict=True))

    def _read(self, row: int) -> bytes:
        """Read a line; streams stay open, so that compressed files are unpacked once."""
        file, source, offset = int(self.file[row]), self.source(row), int(self.offset[row])
        stream = self._streams.pop(file, None)
        if stream is None or (source.compression and stream.tell() > offset):
            if stream is not None:
                stream.close()
            stream = source.open()
        self._streams[file] = stream
        if len(self._streams) > _MAX_OPEN:
            self._streams.pop(next(iter(self._streams))).close()
        stream.seek(offset)
        return stream.read(int(self.length[row]))

    def close(self) -> None:
        """Close open files."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_streams": {}}


def reading_order(locations: RowLocations, rows: Sequence[int] | Ints) -> Ints:
    """Return distinct rows ordered by file, offset and position in the line."""
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    keys = (locations.sub[wanted], locations.offset[wanted], locations.file[wanted])
    ordered: Ints = wanted[np.lexsort(keys)]
    return ordered


def read_rows(locations: RowLocations, rows: Sequence[int] | Ints) -> Iterator[tuple[int, Row]]:
    """Yield rows as the first pass parsed them, in ``reading_order``.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    records: list[dict[str, Any]] = []
    converted = None
    for row, logged in _objects(locations, reading_order(locations, rows).tolist()):
        place = int(locations.file[row]), int(locations.offset[row])
        source, log_format = locations.source(row), locations.formats[place[0]]
        with _unchanged(source):
            if place != converted:  # not another row of the same object
                obj = load_object(logged)[0] if isinstance(logged, bytes) else logged
                records = log_format.rows(obj, source.name, int(locations.line[row]), place[1])
                converted = place
            record = records[int(locations.sub[row])]
            if isinstance(record, UnreadRow):
                raise record.error
            parsed = parse_record(record)
        yield row, parsed


def batches(rows: Iterator[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Group rows so that each group holds about _BATCH_UNITS tokens or characters."""
    batch: list[tuple[int, Row]] = []
    size = 0
    for item in rows:
        batch.append(item)
        size += max(item[1].tokens.size, len(item[1].response) // 4, 16)
        if size >= _BATCH_UNITS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _objects(
    locations: RowLocations, rows: Sequence[int]
) -> Iterator[tuple[int, bytes | dict[str, Any]]]:
    """Yield rows with their line, or with the object of their file."""
    containers = [one.container != "lines" for one in locations.formats]

    def container(row: int) -> int | None:
        file = int(locations.file[row])
        return file if containers[file] else None

    for file, some in groupby(rows, key=container):
        if file is None:
            yield from locations.lines(list(some))
        else:
            yield from _container_objects(locations, file, some)


def _container_objects(
    locations: RowLocations, file: int, rows: Iterator[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    from rlreport.formats.containers import iterate

    by_index: dict[int, list[int]] = {}
    for row in rows:
        by_index.setdefault(int(locations.offset[row]), []).append(row)
    source = locations.sources[file]
    with _unchanged(source), source.open() as stream:
        for index, obj in iterate(stream, locations.formats[file].container, set(by_index)):
            yield from ((row, obj) for row in by_index.pop(index))
        if by_index:
            raise RowError("it is shorter than before")


@contextmanager
def _unchanged(source: Source) -> Iterator[None]:
    """Turn errors into one that says the file changed: the first pass could read it."""
    try:
        yield
    except (RowError, IndexError, *DAMAGED) as error:
        raise UnusableInputError(
            f"{source.name} changed while it was read ({reason_of(error)}); build again"
        ) from None
