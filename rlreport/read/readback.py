"""Read rows of the response table back from the logs, with their texts and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import IO, Any

import numpy as np

from rlreport.errors import RowError, UnreadRow, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.read.files import LogFormat
from rlreport.read.lines import DAMAGED, reason_of
from rlreport.read.rows import Row, load_object, parse_record
from rlreport.system.stores import Source, read_ranges
from rlreport.text.tokens import Style

_COLUMNS = ("file", "line", "offset", "length", "sub", "step", "n")
_MAX_OPEN = 16
_AT_ONCE_BYTES = 32 << 20
# Bytes added to a row's length when forming batches, to limit the requests per batch
_REQUEST_COST = 64 << 10

_BATCH_UNITS = 1 << 17  # Number of tokens of the rows that are held in memory at a time


class RowLocations:
    """Locations of responses in the logs: picklable, 56 bytes per response.

    Attributes:
        sources, formats: the log files and their formats, by file number.
        style: how the run's token strings encode bytes; None if unknown.
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
        """Return a copy with the files but without rows, which ``select`` sets."""
        return RowLocations(self.sources, self.formats, self.style)

    def select(self, responses: Any) -> None:
        """Use the locations of these rows (a table or a dict of arrays), numbered from 0."""
        for name in _COLUMNS:
            setattr(self, name, np.asarray(responses[name]))

    def source(self, row: int) -> Source:
        """Return the log file that contains a row."""
        return self.sources[int(self.file[row])]

    def lines(self, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield (row, line as bytes) for rows of line-based files, sorted by file and offset.

        Raises:
            UnusableInputError: a file cannot be read any more.
        """
        numbers = np.array(rows, np.int64)
        batch = np.cumsum(self.length[numbers] + _REQUEST_COST) // _AT_ONCE_BYTES
        for number in np.unique(batch):
            batch_rows = numbers[batch == number].tolist()
            remote_lines = self._request(batch_rows)
            for row in batch_rows:
                with _report_changed_file(self.source(row)):
                    line = remote_lines.pop(row) if row in remote_lines else self._read(row)
                    if isinstance(line, OSError):
                        raise line
                yield row, line

    def _request(self, rows: Sequence[int]) -> dict[int, bytes | OSError]:
        """Return the line, or the error, of each row that is in an uncompressed remote file."""
        ranges = {
            row: (source, int(self.offset[row]), int(self.offset[row] + self.length[row]))
            for row in rows
            if (source := self.source(row)).store and not source.compression
        }
        return dict(zip(ranges, read_ranges(list(ranges.values())), strict=True))

    def _read(self, row: int) -> bytes:
        """Read the line of a row; files stay open, so that each is decompressed only once."""
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
    """Return the distinct rows in the order in which they are in the logs (file, offset, sub)."""
    distinct = np.unique(np.asarray(rows, dtype=np.int64))
    keys = (locations.sub[distinct], locations.offset[distinct], locations.file[distinct])
    ordered: Ints = distinct[np.lexsort(keys)]
    return ordered


def read_rows(locations: RowLocations, rows: Sequence[int] | Ints) -> Iterator[tuple[int, Row]]:
    """Read rows back, and yield (row number, parsed row) in ``reading_order``.

    Raises:
        UnusableInputError: a log changed or vanished since it was first read.
    """
    records: list[dict[str, Any]] = []
    last_location = None
    for row, logged in _objects(locations, reading_order(locations, rows).tolist()):
        location = int(locations.file[row]), int(locations.offset[row])
        source, log_format = locations.source(row), locations.formats[location[0]]
        with _report_changed_file(source):
            if location != last_location:  # the first row of this object
                obj = load_object(logged)[0] if isinstance(logged, bytes) else logged
                records = log_format.rows(obj, source.name, int(locations.line[row]), location[1])
                last_location = location
            record = records[int(locations.sub[row])]
            if isinstance(record, UnreadRow):
                raise record.error
            parsed = parse_record(record)
        yield row, parsed


def batches(rows: Iterator[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    """Group consecutive rows into lists of about _BATCH_UNITS tokens each."""
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
    """Yield (row, logged dict); in files of lines, the unparsed line instead of the dict."""
    containers = [log_format.container != "lines" for log_format in locations.formats]

    def container(row: int) -> int | None:
        file = int(locations.file[row])
        return file if containers[file] else None

    for file, file_rows in groupby(rows, key=container):
        if file is None:
            yield from locations.lines(list(file_rows))
        else:
            yield from _container_objects(locations, file, file_rows)


def _container_objects(
    locations: RowLocations, file: int, rows: Iterator[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    from rlreport.formats.containers import iterate

    by_index: dict[int, list[int]] = {}
    for row in rows:
        by_index.setdefault(int(locations.offset[row]), []).append(row)
    source = locations.sources[file]
    with _report_changed_file(source), source.open() as stream:
        for index, obj in iterate(stream, locations.formats[file].container, set(by_index)):
            yield from ((row, obj) for row in by_index.pop(index))
            if not by_index:
                break  # the rest of the file may be damaged
        if by_index:
            raise RowError("it is shorter than before")


@contextmanager
def _report_changed_file(source: Source) -> Iterator[None]:
    """Convert reading errors to an error which says that the file changed in the meantime."""
    try:
        yield
    except (RowError, IndexError, *DAMAGED) as error:
        raise UnusableInputError(
            f"{source.name} changed while it was read ({reason_of(error)}); build again"
        ) from None
