"""The first pass: a byte range of the logs becomes a table with a row per response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import xxhash

from rlreport.errors import RowError, UnreadRow
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Chunk, Columns, Place, RangeCounts, batch_columns, joined_columns
from rlreport.read.files import with_content
from rlreport.read.lines import DAMAGED, RANGE_BYTES, ByteRange, Lines, reason_of
from rlreport.read.notes import LogPosition, UnreadLine
from rlreport.read.rows import Row, load_object, parse_record
from rlreport.text.messages import marked, message

_BATCH_BYTES, _BATCH_ROWS = 1 << 20, 16384
_END = 2**62
_TOO_LONG = marked("longer than {most:count} bytes (--max-line)")
_UNUSABLE = (RowError, RecursionError, OverflowError)
"""What a hostile line may raise: deep nesting and huge integers are valid JSON."""


def read_chunk(ranges: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions) -> Chunk:
    """Return the table of the rows in some byte ranges."""
    chunk, columns = Chunk(), list[Columns]()
    rows, places, size = list[Row](), list[Place](), 0
    for row, place in _rows(ranges, options.max_line, chunk):
        rows.append(row)
        places.append(place)
        size += place.length
        if size >= _BATCH_BYTES or len(rows) >= _BATCH_ROWS:
            columns.append(batch_columns(rows, places, options, figures, chunk))
            rows, places, size = [], [], 0
    if rows:
        columns.append(batch_columns(rows, places, options, figures, chunk))
    chunk.columns = joined_columns(columns)
    return chunk


def _rows(ranges: Sequence[ByteRange], max_line: int, chunk: Chunk) -> Iterator[tuple[Row, Place]]:
    sources = [part.source for part in ranges]
    if len(ranges) > 1:  # small files
        sources = with_content(sources, RANGE_BYTES)
    for part, source in zip(ranges, sources, strict=True):
        reader = _RangeReader(replace(part, source=source), max_line, chunk)
        yield from reader.rows()
        if part.format.reader is not None:
            chunk.remarks.add_unread_fields(part.format.reader.take_not_taken())
        chunk.counts.append(RangeCounts(part.file, part.start, reader.lines, reader.unread))


class _RangeReader:
    """Reads the rows of a byte range; remarks go to the chunk.

    Attributes:
        lines: number of lines, or of objects of another container, read so far.
        unread: lines among them that could not be used.
    """

    def __init__(self, part: ByteRange, max_line: int, chunk: Chunk) -> None:
        self.lines = self.unread = 0
        self._part, self._max_line, self._chunk = part, max_line, chunk

    def rows(self) -> Iterator[tuple[Row, Place]]:
        if self._part.format.container == "lines":
            yield from self._rows_of_lines()
        else:
            yield from self._rows_of_container()

    def _rows_of_lines(self) -> Iterator[tuple[Row, Place]]:
        lines = Lines(self._part, self._max_line)
        for offset, line, torn in lines:
            self.lines += 1
            if line is not None and (not line or line.isspace()):
                continue
            try:
                if line is None or len(line) > self._max_line:
                    raise RowError(message(_TOO_LONG, most=self._max_line))
                obj, lenient = load_object(line)
                digest = xxhash.xxh3_64_intdigest(line)
                for row, place in self._rows_of_object(obj, offset, len(line), digest, torn=torn):
                    if lenient and self._part.format.reader is None:
                        self._chunk.remarks.add("tolerant", self._position(offset))
                    yield row, place
            except _UNUSABLE as error:
                self._add_unread(offset, _reason(error), torn=torn)
        if lines.unended:
            self._chunk.remarks.add("unended", self._position(_END))
        if lines.damage is not None:
            self.lines += 1
            why = message("cannot be read further: {why}", why=lines.damage)
            self._add_unread(_END, why, torn=True)

    def _rows_of_container(self) -> Iterator[tuple[Row, Place]]:
        """Yield the rows of a file without lines; an object's index is its offset."""
        from rlreport.formats.containers import iterate

        part = self._part
        try:
            with part.source.open() as stream:
                for index, obj in iterate(stream, part.format.container):
                    self.lines += 1
                    try:
                        yield from self._rows_of_object(obj, index, 0)
                    except _UNUSABLE as error:
                        self._add_unread(index, _reason(error))
        except (*DAMAGED, ValueError) as error:
            self._add_unread(_END, message("cannot be read: {why}", why=reason_of(error)))

    def _rows_of_object(
        self, obj: dict[str, Any], offset: int, length: int, digest: int = 0, *, torn: bool = False
    ) -> Iterator[tuple[Row, Place]]:
        """Yield the rows of an object; one bad row does not affect others."""
        part = self._part
        records = part.format.rows(obj, part.source.name, self.lines, offset)
        for sub, record in enumerate(records):
            try:
                if isinstance(record, UnreadRow):
                    raise record.error
                row = parse_record(record)
            except _UNUSABLE as error:
                self._add_unread(offset, _reason(error), torn=torn)
                continue
            metadata = row.metadata
            split = metadata.split or part.format.split
            validation = split != part.format.main
            if validation and split != part.format.watched:
                self._chunk.remarks.add("other_split_rows", self._position(offset))
                continue
            if metadata.failed:
                self._chunk.remarks.add("failed", self._position(offset))
            elif not metadata.trainable:
                self._chunk.remarks.add("untrained", self._position(offset))
                continue
            position = self._position(offset)
            yield row, Place(*position, length, sub, validation, metadata.failed, digest)

    def _position(self, offset: int) -> LogPosition:
        return LogPosition(self._part.file, offset, self.lines)

    def _add_unread(self, offset: int, reason: str, *, torn: bool = False) -> None:
        self.unread += 1
        self._chunk.remarks.add_unread(UnreadLine(self._position(offset), reason, torn))


def _reason(error: Exception) -> str:
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, RecursionError):
        return message("nested too deep")
    return message("holds a number too large")
