"""The first pass: a byte range of the logs becomes a table with a row per response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import xxhash

from rlreport.errors import RowError, UnreadRow
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batcher, Chunk, Place, RangeCounts
from rlreport.read.files import with_content
from rlreport.read.lines import DAMAGED, RANGE_BYTES, ByteRange, Lines, reason_of
from rlreport.read.notes import LogPosition, UnreadLine
from rlreport.read.rows import Row, load_object, parse_line, parse_record
from rlreport.text.messages import marked, message

_END = 2**62
_TOO_LONG = marked("longer than {most:count} bytes (--max-line)")
_UNUSABLE = (RowError, RecursionError, OverflowError)
"""What a hostile line may raise: deep nesting and huge integers are valid JSON."""


def read_chunk(ranges: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions) -> Chunk:
    """Return the table of the rows in some byte ranges."""
    return _Reader(options, figures).read(ranges)


class _Reader:
    """Reads byte ranges line by line."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self._options = options
        self._batcher = Batcher(options, figures)
        self._chunk = self._batcher.chunk

    def read(self, ranges: Sequence[ByteRange]) -> Chunk:
        sources = [part.source for part in ranges]
        if len(ranges) > 1:  # small files
            sources = with_content(sources, RANGE_BYTES)
        for part, source in zip(ranges, sources, strict=True):
            self._range = replace(part, source=source)
            self._lines = self._unread = 0
            if part.format.container == "lines":
                self._read_lines(Lines(self._range, self._options.max_line))
            else:
                self._read_container()
            if part.format.reader is not None:
                self._chunk.remarks.add_unread_fields(part.format.reader.take_not_taken())
            self._chunk.counts.append(RangeCounts(part.file, part.start, self._lines, self._unread))
        return self._batcher.finish()

    def _read_lines(self, lines: Lines) -> None:
        native = self._range.format.reader is None
        for offset, line, torn in lines:
            self._lines += 1
            if line is not None and (not line or line.isspace()):
                continue
            try:
                if line is None or len(line) > self._options.max_line:
                    raise RowError(message(_TOO_LONG, most=self._options.max_line))
                digest = xxhash.xxh3_64_intdigest(line)
                if native:
                    self._add(parse_line(line), offset, len(line), 0, digest)
                else:
                    self._read_object(load_object(line)[0], offset, len(line), digest)
            except _UNUSABLE as error:
                self._add_unread(offset, _why(error), torn=torn)
        if lines.unended:
            position = LogPosition(self._range.file, _END, self._lines)
            self._chunk.remarks.add("unended", position)
        if lines.damage is not None:
            self._lines += 1
            self._add_unread(
                _END, message("cannot be read further: {why}", why=lines.damage), torn=True
            )

    def _read_object(self, obj: dict[str, Any], offset: int, length: int, digest: int = 0) -> None:
        """Read the rows of an object of another format; one bad row does not affect others."""
        part = self._range
        for sub, row in enumerate(part.format.rows(obj, part.source.name, self._lines, offset)):
            try:
                if isinstance(row, UnreadRow):
                    raise row.error
                self._add(parse_record(row), offset, length, sub, digest)
            except _UNUSABLE as error:
                self._add_unread(offset, _why(error))

    def _read_container(self) -> None:
        """Read a file that does not consist of lines; an object's index is its offset."""
        from rlreport.formats.containers import iterate

        part = self._range
        try:
            with part.source.open() as stream:
                for index, obj in iterate(stream, part.format.container):
                    self._lines += 1
                    try:
                        self._read_object(obj, index, 0)
                    except _UNUSABLE as error:
                        self._add_unread(index, _why(error))
        except (*DAMAGED, ValueError) as error:
            self._add_unread(_END, message("cannot be read: {why}", why=reason_of(error)))

    def _add(self, row: Row, offset: int, length: int, sub: int, digest: int) -> None:
        position = LogPosition(self._range.file, offset, self._lines)
        log_format, metadata = self._range.format, row.metadata
        split = metadata.split or log_format.split
        validation = split != log_format.main
        remarks = self._chunk.remarks
        if validation and split != log_format.watched:
            remarks.add("other_split_rows", position)
            return
        if metadata.failed:
            remarks.add("failed", position)
        elif not metadata.trainable:
            remarks.add("untrained", position)
            return
        place = Place(*position, length, sub, validation, metadata.failed, digest)
        self._batcher.add(row, place)

    def _add_unread(self, offset: int, reason: str, *, torn: bool = False) -> None:
        self._unread += 1
        position = LogPosition(self._range.file, offset, self._lines)
        self._chunk.remarks.add_unread(UnreadLine(position, reason, torn))


def _why(error: Exception) -> str:
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, RecursionError):
        return message("nested too deep")
    return message("holds a number too large")
