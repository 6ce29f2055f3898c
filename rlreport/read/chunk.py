"""The first pass over the logs: read byte ranges into tables with one row per response.

Tables are cached for the next build (``--cache``). The key covers everything that a table depends
on: program, options, format, file name, byte range, and a hash of the bytes. Appending to a file
therefore invalidates only its last range.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import xxhash

from rlreport.errors import RowError, UnreadRow
from rlreport.fields import AssumedStep
from rlreport.options import RESTARTS, FigureOptions, ReadOptions
from rlreport.read.batch import (
    Chunk,
    Columns,
    Extra,
    Place,
    RangeCounts,
    batch_columns,
    joined_columns,
)
from rlreport.read.files import NATIVE, LogFormat, with_content
from rlreport.read.lines import DAMAGED, RANGE_BYTES, ByteRange, Lines, reason_of
from rlreport.read.notes import NO_STEP, LogPosition, Oddity, Remarks, UnreadLine
from rlreport.read.rollouts import RolloutWriter
from rlreport.read.rows import Row, load_object, parse_record
from rlreport.system.cache import Store, pack, program, unpack
from rlreport.text.messages import Message, marked, message

_BATCH_BYTES, _BATCH_ROWS = 1 << 22, 16384
_END = 2**62
_TOO_LONG = marked("longer than {most:count} bytes (--max-line)")
# Cacheable file structures: single files, unlike databases, which may have extra files
_CACHED_CONTAINERS = ("lines", "json", "parquet", "torch", "eval", "zip")

# Exceptions raised by unusable lines; JSON may nest too deep or hold too large integers
_UNUSABLE = (RowError, RecursionError, OverflowError)


def read_chunk(
    ranges: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions, *, keep: bool = False
) -> Chunk:
    """Read byte ranges of the logs into one table with a row per response.

    ``keep``: whether to keep the texts and tokens of all rows, too.
    """
    chunk, columns = Chunk(), list[Columns]()
    writer = RolloutWriter(options) if keep else None
    rows, places, size = list[Row](), list[Place](), 0
    for row, place in _rows(ranges, options.max_line, chunk):
        rows.append(row)
        places.append(place)
        size += place.length
        if size >= _BATCH_BYTES or len(rows) >= _BATCH_ROWS:
            columns.append(batch_columns(rows, places, options, figures, chunk, writer))
            rows, places, size = [], [], 0
    if rows:
        columns.append(batch_columns(rows, places, options, figures, chunk, writer))
    chunk.columns = joined_columns(columns)
    chunk.part = writer.part() if writer else None
    return chunk


def _rows(ranges: Sequence[ByteRange], max_line: int, chunk: Chunk) -> Iterator[tuple[Row, Place]]:
    sources = [part.source for part in ranges]
    if len(ranges) > 1:  # small files
        sources = with_content(sources, RANGE_BYTES)
    for part, source in zip(ranges, sources, strict=True):
        reader = _RangeReader(replace(part, source=source), max_line, chunk)
        yield from reader.rows()
        chunk.counts.append(RangeCounts(part.file, part.start, reader.lines, reader.unread))


class _RangeReader:
    """A reader of the rows of a byte range, which adds its remarks to ``chunk``.

    Attributes:
        lines: number of lines (or objects, in a file without lines) read so far.
        unread: number of lines, or rows of objects, that could not be used.
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
        """Yield the rows of a file without lines; a row's offset is the index of its object."""
        from rlreport.formats.containers import iterate

        part = self._part
        try:
            with part.source.open() as stream:
                for index, obj in iterate(stream, part.format.container):
                    self.lines += 1
                    try:
                        if isinstance(obj, UnreadRow):
                            raise obj.error
                        yield from self._rows_of_object(obj, index, 0)
                    except _UNUSABLE as error:
                        self._add_unread(index, _reason(error))
        except (*DAMAGED, ValueError) as error:
            self._add_unread(_END, message("cannot be read: {why}", why=reason_of(error)))

    def _rows_of_object(
        self, obj: dict[str, Any], offset: int, length: int, digest: int = 0, *, torn: bool = False
    ) -> Iterator[tuple[Row, Place]]:
        """Yield the rows of a logged dict that belong in the table; note why others do not."""
        part, name = self._part, self._part.source.name
        records = part.format.rows(obj, name, self.lines, offset)
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
            elif not metadata.trainable or metadata.filtered_out:
                kind = "untrained" if not metadata.trainable else "filtered_out"
                self._chunk.remarks.add(kind, self._position(offset))
                continue
            position = self._position(offset)
            if isinstance(row.step, AssumedStep) and part.format.step_in_path(obj, name) is None:
                self._chunk.remarks.add(NO_STEP, position)
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
    return message("contains a number that is too large")


def read_cached(
    group: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions, store: Store
) -> Chunk:
    """Read byte ranges into one table, or load it from the cache if nothing has changed."""
    key = _key(group, options, figures)
    files = [part.file for part in group]
    if key and (data := store.get(key)):
        # If the cached data is not a valid table, read the ranges again.
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            return _renumber_files(_decode(data), files)
    # Number only the files of these ranges: another build may list other files.
    numbered = [replace(part, file=number) for number, part in enumerate(group)]
    chunk = read_chunk(numbered, options, figures)
    if key and key == _key(group, options, figures):  # unchanged since the first key
        with suppress(TypeError):  # a value that JSON cannot represent
            store.put(key, _encode(chunk))
    return _renumber_files(chunk, files)


def _key(group: Sequence[ByteRange], options: ReadOptions, figures: FigureOptions) -> bytes:
    """Return the cache key for the table of these ranges; b"" if it cannot be cached."""
    formats = format_keys([part.format for part in group], options.tokenizer)
    if not formats:
        return b""
    contents = [part.source.digest(part.start, part.stop) for part in group]
    if not all(contents):
        return b""
    settings = replace(
        options, workers=0, strict=False, restarts=RESTARTS[0], metrics=(), cache="",
        cache_size=0, ray=None,
    )  # fmt: skip
    ranges = [
        (part.source.name, part.start, part.stop is None, content)
        for part, content in zip(group, contents, strict=True)
    ]
    parts = "chunk", program(), settings, options.pad_tokens, figures, ranges, formats
    return repr(parts).encode(errors="surrogatepass")


def format_keys(formats: Sequence[LogFormat], tokenizer: str | None) -> list[str]:
    """Return hashes of the formats and the tokenizer for a cache key; [] if not cacheable.

    Args:
        formats: the formats of the files.
        tokenizer: the file that maps token ids to strings.
    """
    keys: dict[int, str] = {}
    for log_format in formats:
        reader = log_format.reader
        cacheable = reader.format.cacheable if reader else log_format.id == NATIVE
        if not cacheable or log_format.container not in _CACHED_CONTAINERS:
            return []
        if id(log_format) not in keys:
            keys[id(log_format)] = xxhash.xxh3_128_hexdigest(pickle.dumps(log_format, 5))
    return [*(keys[id(item)] for item in formats), _digest_of(tokenizer) if tokenizer else ""]


@cache
def _digest_of(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as given
        return xxhash.xxh3_128_hexdigest(file.read())


def _renumber_files(chunk: Chunk, files: Sequence[int]) -> Chunk:
    """Replace each file number n in the table by ``files[n]``, in place; return the table."""

    def at(position: LogPosition) -> LogPosition:
        return position._replace(file=files[position.file])

    if chunk.rows:
        chunk.columns["file"] = np.array(files, np.int64)[chunk.columns["file"]]
    chunk.counts = [item._replace(file=files[item.file]) for item in chunk.counts]
    remarks = chunk.remarks
    remarks.unread = [item._replace(position=at(item.position)) for item in remarks.unread]
    for kind, (times, first) in remarks.oddities.items():
        remarks.oddities[kind] = Oddity(times, at(first))
    return chunk


def _encode(chunk: Chunk) -> bytes:
    remarks = chunk.remarks
    head = {
        "rows": chunk.rows,
        "columns": list(chunk.columns),
        "extras": [[name, list(extra.texts.items())] for name, extra in chunk.extras.items()],
        "extras_dropped": chunk.extras_dropped,
        "reward_parts": sorted(chunk.reward_parts),
        "tools": chunk.tools,
        "counts": list(map(list, chunk.counts)),
        "oddities": {kind: [times, list(at)] for kind, (times, at) in remarks.oddities.items()},
        "unread": [[list(at), _to_json(reason), torn] for at, reason, torn in remarks.unread],
        "unread_count": remarks.unread_count,
        "unread_fields": remarks.unread_fields,
    }
    arrays = list(chunk.columns.values())
    for extra in chunk.extras.values():
        arrays += [np.array(extra.rows, np.int64), np.array(extra.numbers, np.float64)]
    return pack(head, arrays)


def _decode(data: bytes) -> Chunk:
    head, arrays = unpack(data)
    columns = dict(zip(head["columns"], arrays, strict=False))
    if len(arrays) != len(columns) + 2 * len(head["extras"]):
        raise ValueError("arrays are missing")
    if any(len(values) != head["rows"] for values in columns.values()):
        raise ValueError("columns of other length")
    pairs = iter(arrays[len(columns) :])
    extras = {
        name: Extra(
            array("q", next(pairs).tobytes()), array("d", next(pairs).tobytes()), dict(texts)
        )
        for name, texts in head["extras"]
    }
    remarks = Remarks(
        {kind: Oddity(times, LogPosition(*at)) for kind, (times, at) in head["oddities"].items()},
        [UnreadLine(LogPosition(*at), _from_json(why), torn) for at, why, torn in head["unread"]],
        head["unread_count"],
        head["unread_fields"],
    )
    return Chunk(
        head["rows"],
        columns,
        extras,
        head["extras_dropped"],
        set(head["reward_parts"]),
        list(map(tuple, head["tools"])),
        [RangeCounts(*one) for one in head["counts"]],
        remarks,
    )


def _to_json(reason: Any) -> Any:
    """Convert a reason (message or text) to JSON values from which it can still be translated."""
    if isinstance(reason, Message) and not reason.plural:
        return [reason.literal, {name: _to_json(value) for name, value in reason.places.items()}]
    if type(reason) in (str, int, float):
        return reason
    raise TypeError(reason)


def _from_json(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    literal, places = value
    return Message(literal, {name: _from_json(place) for name, place in places.items()})
