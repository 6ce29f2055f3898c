"""Read byte ranges of logs into chunks, which the cache keeps."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import xxhash

from rlreport.errors import RowError, UnreadRow
from rlreport.fields import AssumedStep
from rlreport.formats.containers import read_objects
from rlreport.formats.renamed import RLBoard
from rlreport.read.chunk import (
    Chunk,
    Extra,
    LeftOut,
    RangeCounts,
    RangeSettings,
    Row,
    batch_columns,
    joined_columns,
)
from rlreport.read.limits import ReadLimits
from rlreport.read.lines import (
    DAMAGED,
    ByteRange,
    Lines,
    LogFormat,
    reason_of,
    with_content,
)
from rlreport.read.record import ParsedRow, load_object, parse_record
from rlreport.read.remarks import MAX_UNREAD, LogPosition, Oddity, Remarks, UnreadLine
from rlreport.read.scoring import row_arguments
from rlreport.read.spool import PartFolder, packed_part
from rlreport.read.texts import Columns
from rlreport.read.vocabulary import Numbers
from rlreport.system.cache import Store, pack, program, unpack
from rlreport.tables import NoteKind, RowRole
from rlreport.text.messages import message

# ``RowMetadata.left_out`` -> its code
_LEFT_OUT = {
    "": LeftOut.NO,
    "failed": LeftOut.FAILED,
    "filtered_out": LeftOut.FILTERED,
    "untrained": LeftOut.UNTRAINED_BRANCH,
}
_END = 2**62
# Token strings with ids; the largest vocabularies of models have about as many
_MOST_STRINGS = 1 << 18
# Exceptions raised by unusable lines; JSON may nest too deep or hold too large integers
_UNUSABLE = (RowError, RecursionError, OverflowError)


def read_chunk(ranges: Sequence[ByteRange], settings: RangeSettings) -> Chunk:
    """Read byte ranges into a chunk; put texts and tokens into the folder for them."""
    chunk = Chunk()
    columns = list[Columns]()
    numbers = Numbers()  # ids of token strings
    rows = _rows(ranges, chunk, settings, numbers)
    for batch in _batches(rows, settings.limits):
        columns.append(batch_columns(batch, settings, chunk, numbers))
        # The strings of a compressed file of any size must not fill the memory.
        if len(numbers) > _MOST_STRINGS:
            numbers.clear()
    chunk.columns = joined_columns(columns)
    return chunk


def _batches(rows: Iterable[Row], limits: ReadLimits) -> Iterator[list[Row]]:
    """Yield lists of consecutive rows; a list is full at the limit of rows or of their bytes."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += row.length
        if size >= limits.batch_bytes or len(batch) >= limits.batch_rows:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _rows(
    ranges: Sequence[ByteRange],
    chunk: Chunk,
    settings: RangeSettings,
    numbers: Numbers,
) -> Iterator[Row]:
    """Yield the rows of byte ranges; add remarks and numbers of lines to ``chunk``.

    ``numbers`` gives token strings their ids.
    """
    limits = settings.limits
    sources = [part.source for part in ranges]
    if len(ranges) > 1:
        # A group of small files: remote ones are fetched at once.
        sources = with_content(sources, limits.range_bytes)
    for part, source in zip(ranges, sources, strict=True):
        reader = _RangeReader(replace(part, source=source), chunk, settings, numbers)
        if part.format.container == "lines":
            yield from reader.rows_of_lines()
        else:
            yield from reader.rows_of_container()
        counts = RangeCounts(part.file, part.start, reader.lines, reader.unread)
        chunk.counts.append(counts)


class _RangeReader:
    """Reads the rows of a byte range, and counts its lines."""

    def __init__(
        self,
        part: ByteRange,
        chunk: Chunk,
        settings: RangeSettings,
        numbers: Numbers,
    ) -> None:
        self.lines = 0  # or objects of a file without lines
        self.unread = 0  # unusable lines or rows
        self._part = part
        self._remarks = chunk.remarks
        self._limits = settings.limits
        self._signature = settings.signature
        self._numbers = numbers

    def rows_of_lines(self) -> Iterator[Row]:
        """Yield the rows of a range of lines, one JSON object each."""
        longest = self._limits.line_bytes
        # JSON that is not strict (NaN, lone surrogates) is remarked on in RLBoard logs only: the
        # frameworks of the other formats are known to write it.
        remarks_on_lenient = self._part.format.id == RLBoard.id
        lines = Lines(self._part, longest, self._limits.piece_bytes)
        for offset, line, torn in lines:
            self.lines += 1
            # A blank line counts as a line, so that line numbers are right.
            if line is not None and (not line or line.isspace()):
                continue
            try:
                if line is None or len(line) > longest:
                    raise RowError(
                        message("longer than {most:count} bytes", most=longest)
                    )
                obj, is_lenient = load_object(line)
            except _UNUSABLE as error:
                self._add_unread(offset, reason_of(error), torn=torn)
                continue
            for row in self._rows_of_object(obj, offset, len(line), torn=torn):
                if is_lenient and remarks_on_lenient:
                    self._remarks.add(NoteKind.TOLERANT, row.position)
                yield row
        if lines.damage is not None:
            # What follows counts as one line, which cannot be read.
            self.lines += 1
            why = message("cannot be read further: {why}", why=lines.damage)
            self._add_unread(_END, why, torn=True)

    def rows_of_container(self) -> Iterator[Row]:
        """Yield the rows of a file without lines; its objects have no length in bytes."""
        try:
            with self._part.source.open() as stream:
                objects = read_objects(stream, self._part.format.container)
                for index, obj in enumerate(objects):
                    self.lines += 1
                    yield from self._rows_of_object(obj, index, 0)
        except (*DAMAGED, ValueError) as error:
            why = message("cannot be read: {why}", why=reason_of(error))
            self._add_unread(_END, why)

    def _rows_of_object(
        self,
        obj: dict[str, Any],
        offset: int,
        length: int,
        *,
        torn: bool = False,
    ) -> Iterator[Row]:
        """Yield the rows of an object; add remarks on them, and on those that cannot be read.

        ``offset`` is the object's index in a file without lines. ``length`` is that of its line in
        bytes. ``torn``: the file ends within the line.
        """
        part = self._part
        try:
            if isinstance(obj, UnreadRow):
                raise obj.error
            # A list, so that an error is that of the whole object
            records = part.format.rows(obj, part.source.name, self.lines, offset)
        except _UNUSABLE as error:
            self._add_unread(offset, reason_of(error), torn=torn)
            return
        position = self._position(offset)
        for sub, record in enumerate(records):
            try:
                if isinstance(record, UnreadRow):
                    raise record.error
                parsed = parse_record(record, self._numbers)
            except _UNUSABLE as error:
                self._add_unread(offset, reason_of(error), torn=torn)
                continue
            role = self._role_of(parsed)
            if role is None:
                self._remarks.add(NoteKind.OTHER_SPLIT_ROWS, position)
                continue
            kind = parsed.metadata.left_out
            left_out = _LEFT_OUT[kind]
            if left_out is LeftOut.UNTRAINED_BRANCH:
                # Without its rollout, nothing shows that it is a branch of a trained one. Branches
                # are counted later, when their rollouts are known.
                if "rollout_id" not in parsed.carried:
                    self._remarks.add(NoteKind.UNTRAINED, position)
                    continue
            elif left_out:
                self._remarks.add(NoteKind(kind), position)
            if self._has_no_step(parsed, obj):
                self._remarks.add(NoteKind.NO_STEP, position)
            call = None
            if self._signature is not None:
                # The fields of an object with several rows are not those of one of them.
                fields = obj if len(records) == 1 else None
                call = row_arguments(self._signature, record, fields)
            yield Row(parsed, position, length, sub, role, left_out, call)

    def _role_of(self, parsed: ParsedRow) -> RowRole | None:
        """Return the role of a row, None if rows of its split are not read."""
        log_format = self._part.format
        split = parsed.metadata.split or log_format.split
        if split == log_format.main:
            return RowRole.TRAINING
        return RowRole.VALIDATION if split == log_format.watched else None

    def _has_no_step(self, parsed: ParsedRow, obj: dict[str, Any]) -> bool:
        """Return whether neither the row nor the path of its file has a step."""
        if not isinstance(parsed.step, AssumedStep):
            return False
        return self._part.format.step_in_path(obj, self._part.source.name) is None

    def _position(self, offset: int) -> LogPosition:
        return LogPosition(self._part.file, offset, self.lines)

    def _add_unread(self, offset: int, reason: str, *, torn: bool = False) -> None:
        """Count a line or row that cannot be read; keep the reason of the first MAX_UNREAD."""
        remarks = self._remarks
        self.unread += 1
        remarks.unread_count += 1
        if len(remarks.unread) < MAX_UNREAD:
            remarks.unread.append(UnreadLine(self._position(offset), reason, torn))


def read_cached(
    group: Sequence[ByteRange], settings: RangeSettings, store: Store
) -> Chunk:
    """Return the chunk of byte ranges from the cache; else read it, and cache it if possible."""
    key = _key(group, settings)
    files = [part.file for part in group]
    cached = _cached_chunk(key, settings.folder, store) if key else None
    if cached is not None:
        return _renumber_files(cached, files)
    # Number only the files of these ranges: another build may list other files.
    numbered = [replace(part, file=number) for number, part in enumerate(group)]
    chunk = read_chunk(numbered, settings)
    # Lines that cannot be read are few: ranges with one are read again in each build.
    # The key is that of the files' contents: another one shows that a file changed meanwhile.
    if key and not chunk.remarks.unread and key == _key(group, settings):
        with suppress(TypeError):  # a value that JSON cannot represent
            head = _encode(chunk)
            # One by one, so that the parts of a large compressed file need little memory
            for number, parcel in enumerate(chunk.parts):
                store.put(_part_key(key, number), packed_part(parcel))
            # Last, so that a chunk in the cache has all its parts
            store.put(key, head)
    return _renumber_files(chunk, files)


def _cached_chunk(key: bytes, folder: PartFolder, store: Store) -> Chunk | None:
    """Return a chunk from the cache, with its parts put into ``folder``; None if one is missing."""
    data = store.get(key)
    if data is None:
        return None
    chunk, parts = _decode(data)
    for number in range(parts):
        packed = store.get(_part_key(key, number))
        if packed is None:  # it was removed, as the cache is full, or is damaged
            return None
        chunk.parts.append(folder.put([packed]))
    return chunk


def _part_key(key: bytes, number: int) -> bytes:
    return key + b" part %d" % number


def _key(group: Sequence[ByteRange], settings: RangeSettings) -> bytes:
    """Return the key of a group's chunk in the cache; b"" if it must not be cached.

    It has all that the chunk depends on: contents, program, options and formats.
    """
    options = settings.options
    formats = format_keys([part.format for part in group], options.tokenizer)
    if not formats:
        return b""
    contents = [part.source.digest(part.start, part.stop) for part in group]
    if not all(contents):
        return b""
    # Without the options that do not change what is read of a range
    same_rows = replace(
        options,
        workers=0,
        strict=False,
        restarts=None,
        metrics=(),
        cache="",
        ray=None,
    )
    ranges = [
        # Where a range stops follows from its content, but not whether it is read as a whole.
        (part.source.name, part.start, part.stop is None, content)
        for part, content in zip(group, contents, strict=True)
    ]
    parts = (
        "chunk",
        program(),
        same_rows,
        options.pad_tokens,
        settings.gae,
        settings.signature,
        ranges,
        formats,
    )
    return repr(parts).encode(errors="surrogatepass")


def format_keys(formats: Sequence[LogFormat], tokenizer: str | None) -> list[str]:
    """Return hashes of the formats and of the tokenizer; [] if their rows must not be cached."""
    keys: list[str] = []
    for log_format in formats:
        # A database may have further files, such as a write-ahead log, with newer rows.
        if not log_format.reader.format.cacheable or log_format.container == "sqlite":
            return []
        keys.append(xxhash.xxh3_128_hexdigest(pickle.dumps(log_format, 5)))
    return [*keys, _digest_of(tokenizer) if tokenizer else ""]


@cache
def _digest_of(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as given
        return xxhash.xxh3_128_hexdigest(file.read())


def _renumber_files(chunk: Chunk, files: Sequence[int]) -> Chunk:
    """Replace the numbers of files in a chunk by the numbers at these indices."""

    def renumbered(position: LogPosition) -> LogPosition:
        return position._replace(file=files[position.file])

    if chunk.rows:  # else there are no columns
        chunk.columns["file"] = np.array(files, np.int64)[chunk.columns["file"]]
    chunk.counts = [counts._replace(file=files[counts.file]) for counts in chunk.counts]
    remarks = chunk.remarks
    remarks.unread = [
        line._replace(position=renumbered(line.position)) for line in remarks.unread
    ]
    for kind, (times, first) in remarks.oddities.items():
        remarks.oddities[kind] = Oddity(times, renumbered(first))
    return chunk


def _encode(chunk: Chunk) -> bytes:
    """Return all of a chunk but its parts, of which it has the number only.

    Lines that could not be read are not in it: a chunk with one is not cached.
    """
    oddities = {
        kind: [oddity.times, list(oddity.first)]
        for kind, oddity in chunk.remarks.oddities.items()
    }
    texts_of_extras = [
        [name, list(extra.texts.items())] for name, extra in chunk.extras.items()
    ]
    head = {
        "rows": chunk.rows,
        "columns": list(chunk.columns),
        "extras": texts_of_extras,
        "extras_dropped": chunk.extras_dropped,
        "reward_parts": sorted(chunk.reward_parts),
        "tools": chunk.tools,
        "counts": [list(counts) for counts in chunk.counts],
        "oddities": oddities,
        "parts": len(chunk.parts),
    }
    # In the order of the names in ``head``, in which ``_decode`` takes them
    arrays = list(chunk.columns.values())
    for extra in chunk.extras.values():
        arrays.append(np.array(extra.rows, np.int64))
        arrays.append(np.array(extra.numbers, np.float64))
    return pack(head, arrays)


def _decode(data: bytes) -> tuple[Chunk, int]:
    """Return a chunk without its parts, and their number."""
    head, arrays = unpack(data)
    remaining = iter(arrays)
    columns = {name: next(remaining) for name in head["columns"]}
    extras: dict[str, Extra] = {}
    for name, texts in head["extras"]:
        rows = array("q", next(remaining).tobytes())
        numbers = array("d", next(remaining).tobytes())
        extras[name] = Extra(rows, numbers, dict(texts))
    oddities = {
        NoteKind(kind): Oddity(times, LogPosition(*first))
        for kind, (times, first) in head["oddities"].items()
    }
    chunk = Chunk(
        rows=head["rows"],
        columns=columns,
        extras=extras,
        extras_dropped=head["extras_dropped"],
        reward_parts=set(head["reward_parts"]),
        tools=[tuple(tool) for tool in head["tools"]],
        counts=[RangeCounts(*counts) for counts in head["counts"]],
        remarks=Remarks(oddities),
    )
    return chunk, head["parts"]
