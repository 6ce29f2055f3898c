"""Cut log files into ranges, and read their lines."""

from __future__ import annotations

import csv
import io
import os
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rlreport.errors import RlreportError, RowError, UnreadRow
from rlreport.fields import AssumedStep
from rlreport.formats.base import Where
from rlreport.formats.registry import RowReader
from rlreport.formats.renamed import RLBoard
from rlreport.read.limits import LIMITS
from rlreport.system.documents import MAX_LINE
from rlreport.system.stores import Source, range_pieces, read_ranges, zstd
from rlreport.text.messages import message

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of a log file, and how to convert its JSON objects to rows; picklable."""

    id: str = RLBoard.id
    container: str = "lines"  # file structure: ``lines``, ``json``, ``parquet``, …
    reader: RowReader = RowReader(RLBoard())  # noqa: RUF009 - it has no state
    why: str = ""  # text that explains why this format was chosen
    # data split (``train``, ``val``, …) of rows that do not name one
    split: str = "train"
    # the split in which the checks look for problems, usually ``train``
    main: str = "train"
    # a second split, shown but not checked; others are not read
    watched: str | None = "val"
    # path of the file, or of a file in it if it is an archive -> its step, for rows without one
    steps: Mapping[str, int] = field(default_factory=dict)

    def step_in_path(self, obj: dict[str, Any], name: str) -> AssumedStep | None:
        """Return the step in the path of an object's file; ``name`` is that file or its archive."""
        if not self.steps:
            return None
        # Objects from archives name their file: see ``containers.Member``.
        path_in_archive = f"{name}/{getattr(obj, 'member', '')}"
        step = self.steps.get(path_in_archive, self.steps.get(name))
        return None if step is None else AssumedStep(step)

    def rows(
        self, obj: dict[str, Any], name: str, line: int, index: int
    ) -> list[dict[str, Any]]:
        """Return canonical rows (``UnreadRow`` for bad ones); raise RowError if ``obj`` is bad.

        ``name`` is the file's, ``line`` the line's number in its range, ``index`` the object's
        number in a file without lines (else its offset).
        """
        member = getattr(obj, "member", "")
        where = Where(name, line, index, self.step_in_path(obj, name), member)
        try:
            rows = list(self.reader(obj, where))
        except RlreportError:  # such as a missing package: not a problem of the object
            raise
        except Exception as error:
            # Readers may get objects of any shape, and may be plugins of other packages.
            raise self._conversion_error(error) from None
        for number, row in enumerate(rows):
            if isinstance(row, UnreadRow):
                rows[number] = UnreadRow(self._conversion_error(row.error))
        return rows

    def _conversion_error(self, error: Exception) -> RowError:
        text = str(error) if isinstance(error, ValueError) else repr(error)
        return RowError(f"not a valid {self.id} row: {text:.200}")


def with_content(sources: Sequence[Source], most: int) -> list[Source]:
    """Return the sources, readable remote ones with only their first ``most`` bytes, in memory.

    One that cannot be fetched stays as it is: reading it gives the reason.
    """
    remote = [source for source in sources if source.store and source.size]
    parts = read_ranges([(source, 0, min(source.size, most)) for source in remote])
    local_copies = {
        source: replace(source, size=len(part), content=part)
        for source, part in zip(remote, parts, strict=True)
        if isinstance(part, bytes)
    }
    return [local_copies.get(source, source) for source in sources]


# Decompressed bytes per read; before damaged data, at most this many intact bytes are lost
_SLICE = 16 << 10

BOM = b"\xef\xbb\xbf"
# Exceptions raised when reading a broken file: disk errors and damaged compression
DAMAGED = (OSError, EOFError, zlib.error, zstd.ZstdError)


_NO_END = 2**62
_GROUP_FILES = 256
_SMALL_BYTES = 4 << 20
_SMALL_PACKED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ByteRange:
    """All lines of a file whose first byte is at an offset in [start, stop).

    Files can therefore be cut anywhere, except compressed files and files without lines.
    """

    file: int  # index of the file in the list of log files
    source: Source  # the file
    # offsets in decompressed bytes; ``stop`` is None for the end of the file
    start: int = 0
    stop: int | None = None
    format: LogFormat = field(default_factory=LogFormat)  # the log format

    @property
    def weight(self) -> int:
        """Size of the range in bytes on disk, to report progress."""
        return (self.source.size if self.stop is None else self.stop) - self.start

    @property
    def small(self) -> bool:
        return self.weight <= (
            _SMALL_PACKED_BYTES if self.stop is None else _SMALL_BYTES
        )


def byte_ranges(
    sources: Sequence[Source],
    formats: Sequence[LogFormat],
    *,
    range_bytes: int = LIMITS.range_bytes,
) -> list[ByteRange]:
    """Return the ranges of all files; uncompressed lines are cut every ``range_bytes``."""
    ranges: list[ByteRange] = []
    for file, (source, log_format) in enumerate(zip(sources, formats, strict=True)):
        whole = source.compression or log_format.container != "lines"
        if whole:
            ranges.append(ByteRange(file, source, 0, None, log_format))
            continue
        # An empty file has one range, too.
        for start in range(0, max(1, source.size), range_bytes):
            stop = min(start + range_bytes, source.size)
            ranges.append(ByteRange(file, source, start, stop, log_format))
    return ranges


def grouped_ranges(
    ranges: Sequence[ByteRange], range_bytes: int
) -> list[list[ByteRange]]:
    """Return groups of small files next to each other, as large as a range; others alone."""
    groups: list[list[ByteRange]] = [[]]  # the first one stays empty
    size = 0  # weight of the last group
    for part in ranges:
        last = groups[-1]
        fits = size + part.weight <= range_bytes and len(last) < _GROUP_FILES
        if fits and _may_join(last, part):
            last.append(part)
            size += part.weight
        else:
            groups.append([part])
            size = part.weight
    return groups[1:]


def _may_join(group: Sequence[ByteRange], part: ByteRange) -> bool:
    """Return whether a group consists of small files, and ``part`` is a further one."""
    if not group or not part.small:
        return False
    previous = group[-1]
    return previous.small and previous.file != part.file


class Line(NamedTuple):
    offset: int  # offset of its first byte in the decompressed file
    data: bytes | None  # its bytes; None if the line is longer than the limit
    # whether the file ends within this line, such as while it is written
    torn: bool = False


@dataclass(slots=True)
class Lines:
    """The lines of a byte range, including blank ones, but not lines added since the listing."""

    part: ByteRange
    max_line: int = LIMITS.line_bytes
    piece_bytes: int = LIMITS.piece_bytes
    damage: str | None = None  # why the rest of the file could not be read

    def __iter__(self) -> Iterator[Line]:
        with closing(self.blocks()) as pieces:
            yield from self._lines(io.BufferedReader(_Pieces(pieces), self.piece_bytes))

    def blocks(self) -> Generator[bytes]:
        """Yield the file's bytes from the range's start; set ``damage`` if an error ends them."""
        source = self.part.source
        start = max(0, self.part.start - 1)  # see ``_lines``
        try:
            if source.store and not source.compression and not source.content:
                stop = source.size if self.part.stop is None else self.part.stop
                yield from range_pieces(source, start, stop)
                return
            with source.open() as stream:
                # Its first range may be of the newer file, but not later ones of yet another.
                if start and source.is_replaced(os.fstat(stream.fileno())):
                    raise OSError(0, message("it was replaced by another file"))
                stream.seek(start)
                # ``read`` would discard decompressed data when the file is damaged or ends early.
                size = _SLICE if source.compression else self.piece_bytes
                read1 = cast("io.BufferedIOBase", stream).read1
                yield from iter(partial(read1, size), b"")
        except DAMAGED as error:
            self.damage = reason_of(error)

    def _lines(self, stream: io.BufferedIOBase) -> Iterator[Line]:
        """Yield the lines that begin in the range, given its bytes and those after it."""
        part = self.part
        end = _NO_END if part.source.compression else part.source.size
        stop = end if part.stop is None else part.stop
        position = max(0, part.start - 1)
        if part.start:
            # Start one byte early: if that byte is a line end, no line of this range is skipped.
            position += _skip_line(stream)
        while position < stop:
            # With room for a line end; what was written after the listing is not read.
            line = stream.readline(self.max_line + 2)[: end - position]
            if not line:
                return
            offset = position
            position += len(line)
            if offset == 0 and line.startswith(BOM):
                offset = len(BOM)
                line = line.removeprefix(BOM)
            if line.endswith(b"\n"):
                ending = 2 if line.endswith(b"\r\n") else 1
                yield Line(offset, line[:-ending])
            elif len(line) > self.max_line:
                yield Line(offset, None)
                position += _skip_line(stream)
            else:  # the last line of the file, without a line end
                yield Line(offset, line.removesuffix(b"\r"), torn=True)


class _Pieces(io.RawIOBase):
    """A stream of the bytes in ``pieces``."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer as far as the current piece goes; return the number of bytes, 0 at the end.

        As ``RawIOBase`` asks for.
        """
        if not self._piece:
            self._piece = memoryview(next(self._pieces, b""))
        target = memoryview(buffer)
        size = min(target.nbytes, len(self._piece))
        target[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size


def _skip_line(stream: io.BufferedIOBase) -> int:
    """Read to the end of a line, however long it is; return the number of bytes."""
    skipped = 0
    while piece := stream.readline(LIMITS.piece_bytes):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def reason_of(error: BaseException) -> str:
    """Return why something cannot be read, for readers of the report."""
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, RecursionError):
        return message("nested too deeply")
    if isinstance(error, OverflowError):
        return message("contains a number that is too large")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


# The default of 131,072 characters is less than a line may have.
csv.field_size_limit(MAX_LINE)


def csv_separator(header: bytes) -> str:
    return max(",;\t", key=header.decode("utf-8", "replace").count)


def csv_cells(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line of a CSV file as text, [] if it is malformed."""
    text = line.decode("utf-8-sig", "replace").strip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # such as a carriage return within the line
        return []
