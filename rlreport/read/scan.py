"""The first pass over splits: lines to rows, rows to figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import xxhash

from rlreport.errors import RowError, UnreadRow
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batcher, ParsedRow
from rlreport.read.collect import Collector
from rlreport.read.diagnostics import LogPosition, UnreadLine
from rlreport.read.lines import BOM, DAMAGED, Block, line_blocks, reason_of
from rlreport.read.parse import LineParser
from rlreport.read.partial import Partial, Segment, merge
from rlreport.read.remote import AHEAD, HEAD, SMALL
from rlreport.read.sources import with_heads
from rlreport.read.splits import Split
from rlreport.read.tolerant import load_object, parse_record
from rlreport.text.messages import marked, message
from rlreport.text.vocabulary import Vocabulary

_END = 2**62
_TOO_LONG = marked("longer than {most:count} bytes (--max-line)")
_BATCH_BYTES = 16 << 20
_BATCH_ROWS = 16384
_MOST_STRINGS = 1 << 19
_UNUSABLE = (RowError, RecursionError, OverflowError)
"""What a hostile line may raise: lists nested by the thousand and endless integers parse well."""


class Scanner:
    """Scans splits, and keeps the numbers of strings from one call to the next."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self.options = options
        self._figures = figures
        self._vocabulary = Vocabulary(options.pad_tokens)
        self._done: list[Partial] = []

    def __reduce__(self) -> tuple[type[Scanner], tuple[ReadOptions, FigureOptions]]:
        """Travel to another process without what was met so far."""
        return Scanner, (self.options, self._figures)

    def scan(self, splits: Sequence[Split]) -> Partial:
        """Scan splits; the result is the same whichever of them are scanned together.

        Small splits share batches, since a thousand files of one row would else cost a
        thousand batches; the others have batches of their own.
        """
        self._begin()
        # One after the other, many small files of a store would be waited for and no more.
        sources = with_heads([split.source for split in splits], SMALL, whole=True)
        for split, source in zip(splits, sources, strict=True):
            self._add_split(replace(split, source=source) if source.head else split)
        self._finish()
        done, self._done = self._done, []
        return done[0] if len(done) == 1 else merge(done)

    def _begin(self) -> None:
        """Forget what an earlier call found, but the strings."""
        self._names: dict[int, int] = {}
        self._collector = self._fresh()
        self._batcher = Batcher(self.options)
        self._watched = Batcher(self.options)
        self._parser = LineParser()
        self._done.clear()
        self._parts: list[Partial] = []
        self._pending = 0
        self._split: Split
        self._lines = self._filled = self._rows = self._unread = 0

    def _add_split(self, split: Split) -> None:
        """Scan a split."""
        if not split.small:
            self._finish()
        self._split = split
        self._names[split.file] = xxhash.xxh3_64_intdigest(os.fsencode(split.source.name))
        self._lines = self._filled = self._rows = self._unread = 0
        self._batcher.batch.leaves.append((split.leaf, len(self._batcher.batch.rows)))
        if split.format.container == "lines":
            for block in line_blocks(split, self.options.max_line):
                self._read_block(block)
                self._read(len(block.data))
        else:
            self._read_container()
        if split.format.reader is not None:
            self._collector.diagnostics.add_not_taken(split.format.reader.take_not_taken())
        stop = -1 if split.stop is None else split.stop
        counts = (self._lines, self._filled, self._rows, self._unread)
        self._collector.add_segment(Segment(split.file, split.start, stop, *counts), split.leaf)
        if not split.small:
            self._finish()
        elif self._full():
            self._flush()
            if self._collector.strings > _MOST_STRINGS:
                self._finish()

    def _read(self, size: int) -> None:
        """Note that so many bytes more were read; a small split is never cut."""
        self._pending += size
        if self._split.small or not self._full():
            return
        self._flush()
        self._batcher.batch.leaves.append((self._split.leaf, 0))
        if self._collector.strings > _MOST_STRINGS:
            # Words never end: start afresh with what the tables need of them.
            self._parts = [merge([*self._parts, self._collector.partial()])]
            self._collector = self._fresh()

    def _fresh(self) -> Collector:
        if len(self._vocabulary) > _MOST_STRINGS:
            self._vocabulary = Vocabulary(self.options.pad_tokens)
        return Collector(self._vocabulary, self._figures, self._names)

    def _full(self) -> bool:
        rows = len(self._batcher.batch.rows) + len(self._watched.batch.rows)
        return self._pending >= _BATCH_BYTES or rows >= _BATCH_ROWS

    def _flush(self) -> None:
        self._collector.add(self._batcher.take())
        self._collector.add(self._watched.take(), watched=True)
        self._pending = 0

    def _finish(self) -> None:
        """Settle what was read so far: what comes has batches and numbers of strings of its own."""
        self._flush()
        parts = [*self._parts, self._collector.partial()]
        if any(part.segments for part in parts):
            self._done.append(parts[0] if len(parts) == 1 else merge(parts))
        self._parts, self._collector = [], self._fresh()

    def _read_block(self, block: Block) -> None:
        native = self._split.format.reader is None
        data = block.data
        for start, stop in block.spans():
            self._lines += 1
            offset = block.offset + start
            # One at a time: a line's memory is used again for the next one while it is warm.
            line = data[start:stop]
            if not line or line.isspace():
                continue
            self._filled += 1
            try:
                if len(line) > self.options.max_line:
                    raise RowError(message(_TOO_LONG, most=self.options.max_line))
                if not offset and line.startswith(BOM):
                    line = line[len(BOM) :]
                    offset = len(BOM) if native else 0
                if native:
                    self._add(self._parser.parse(line), offset, len(line), content=_hash(line))
                else:
                    self._read_object(load_object(line)[0], offset, stop - start, _hash(line))
            except _UNUSABLE as error:
                last = stop == block.stop
                self._add_unread(offset, _why(error), torn=last and block.unterminated)
        if block.too_long:
            self._lines += 1
            self._filled += 1
            self._add_unread(block.offset, message(_TOO_LONG, most=self.options.max_line))
        if block.unended:
            position = LogPosition(self._split.file, _END, self._lines)
            self._collector.diagnostics.add("unended", position)
        if block.damage is not None:
            self._lines += 1
            self._filled += 1
            self._add_unread(
                _END, message("cannot be read further: {why}", why=block.damage), torn=True
            )

    def _read_object(self, obj: dict[str, Any], offset: int, length: int, content: int = 0) -> None:
        """Read the rows of an object of another format; one bad row costs no other."""
        split = self._split
        rows = split.format.rows(obj, split.source.name, self._lines, offset)
        for sub, row in enumerate(rows):
            try:
                if isinstance(row, UnreadRow):
                    raise row.error
                self._add(parse_record(row), offset, length, sub, content)
            except _UNUSABLE as error:
                self._add_unread(offset, _why(error))

    def _read_container(self) -> None:
        """Read a file that is not lines; an object's index stands for its offset."""
        # Only such files need the formats.
        from rlreport.formats.containers import iterate

        split = self._split
        try:
            with split.source.open(AHEAD if split.source.compression else HEAD) as stream:
                for index, obj in iterate(stream, split.format.container):
                    self._lines += 1
                    self._filled += 1
                    try:
                        self._read_object(obj, index, 0)
                    except _UNUSABLE as error:
                        self._add_unread(index, _why(error))
                    self._read(0)
        except (*DAMAGED, ValueError) as error:
            self._add_unread(_END, message("cannot be read: {why}", why=reason_of(error)))

    def _add(
        self, row: ParsedRow, offset: int, length: int, sub: int = 0, content: int = 0
    ) -> None:
        """Add a row to those of its split; what is no response of the policy is only counted."""
        position = LogPosition(self._split.file, offset, self._lines)
        said, log_format = row.beside, self._split.format
        name = said.split or log_format.split
        watched = name != log_format.main
        if any(log_format.replaced) and log_format.is_replaced(watched, offset, sub):
            return
        kind = ""
        if watched and name != log_format.watched:
            kind = "other_split_rows"
        elif said.failed:
            kind = "failed"
            if not watched:
                self._collector.add_failed(row.step)
        elif not said.trained:
            kind = "untrained"
        if kind:
            self._collector.diagnostics.add(kind, position)
            return
        self._rows += 1
        (self._watched if watched else self._batcher).add(row, position, length, sub, content)

    def _add_unread(self, offset: int, reason: str, *, torn: bool = False) -> None:
        self._unread += 1
        position = LogPosition(self._split.file, offset, self._lines)
        self._collector.diagnostics.add_unread(UnreadLine(position, reason, torn))


def _why(error: Exception) -> str:
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, RecursionError):
        return message("nested too deep")
    return message("holds a number too large")


def _hash(line: bytes) -> int:
    return xxhash.xxh3_64_intdigest(line)
