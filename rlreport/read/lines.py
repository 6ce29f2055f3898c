"""Cut log files into byte ranges, and read the lines of each range."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from rlreport.errors import RowError
from rlreport.read.files import LogFormat
from rlreport.system.stores import Source, range_pieces, zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1 << 20
# Decompressed bytes per read; before damaged data, at most this many intact bytes are lost
_SLICE = 16 << 10

_FLUSHED = b"\x00\x00\xff\xff"
BOM = b"\xef\xbb\xbf"
# Exceptions raised when reading a broken file: disk errors and damaged compression
DAMAGED = (OSError, EOFError, zlib.error, zstd.ZstdError)


# Files are cut at multiples of this, so appending to a file does not change earlier ranges
RANGE_BYTES = 32 << 20

_NO_END = 2**62
_GROUP_FILES = 256
_SMALL_BYTES = 4 << 20
_SMALL_PACKED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: all lines whose first byte is at an offset in [start, stop).

    Files can therefore be cut anywhere. Compressed files and files that do not consist of lines
    are never cut: they are one range.
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
        """Whether the range is small enough to be read together with ranges of other files."""
        return self.weight <= (_SMALL_PACKED_BYTES if self.stop is None else _SMALL_BYTES)


def byte_ranges(
    sources: Sequence[Source], formats: Sequence[LogFormat], *, range_bytes: int = RANGE_BYTES
) -> list[ByteRange]:
    """Return the ranges of all files, cut at multiples of ``range_bytes`` where possible."""
    ranges: list[ByteRange] = []
    for file, (source, log_format) in enumerate(zip(sources, formats, strict=True)):
        if source.compression or log_format.container != "lines":
            ranges.append(ByteRange(file, source, format=log_format))
            continue
        for start in range(0, max(1, source.size), range_bytes):
            stop = min(start + range_bytes, source.size)
            ranges.append(ByteRange(file, source, start, stop, log_format))
    return ranges


def grouped_ranges(ranges: Sequence[ByteRange]) -> list[list[ByteRange]]:
    """Return groups of ranges to read together: small files in groups, each large range alone."""
    groups: list[list[ByteRange]] = [[]]
    size = 0
    for part in ranges:
        last = groups[-1]
        fits = size + part.weight <= RANGE_BYTES and len(last) < _GROUP_FILES
        if last and last[-1].small and part.small and last[-1].file != part.file and fits:
            last.append(part)
            size += part.weight
        else:
            groups.append([part])
            size = part.weight
    return groups[1:]


class Line(NamedTuple):
    """A line of a log without its line terminator."""

    offset: int  # offset of its first byte in the decompressed file
    data: bytes | None  # its bytes; None if the line is longer than the limit
    # whether the file ends within this line, for example while it is being written
    torn: bool = False


@dataclass(slots=True)
class Lines:
    """An iterable of the lines of a byte range, including blank lines.

    It stops at the size that the file had when it was listed. Set after iteration:
    """

    part: ByteRange
    max_line: int
    # why the rest of the file could not be read; None if all of it was read
    damage: str | None = None
    # whether the compressed stream lacks an end marker (its writer was killed) but no line is lost
    unended: bool = False
    _early: bool = False  # whether the compressed stream ends too early

    def __iter__(self) -> Iterator[Line]:
        torn = False
        with closing(self._pieces()) as pieces:
            for line in self._lines(io.BufferedReader(_Pieces(pieces), _BUFFER)):
                torn = line.torn
                yield line
        if self._early and not torn and _ends_flushed(self.part.source):
            self.damage, self.unended = None, True

    def _pieces(self) -> Generator[bytes]:
        """Yield decompressed bytes, starting one byte before the range; stop at damaged data."""
        source, start = self.part.source, max(0, self.part.start - 1)
        try:
            if source.store and not source.compression and not source.content:
                stop = source.size if self.part.stop is None else self.part.stop
                yield from range_pieces(source, start, stop)
                return
            with source.open() as stream:
                stream.seek(start)
                # ``read`` would discard decompressed data when the file is damaged or ends early.
                read1 = cast("io.BufferedIOBase", stream).read1
                yield from iter(partial(read1, _SLICE if source.compression else _BUFFER), b"")
        except DAMAGED as error:
            self.damage, self._early = reason_of(error), isinstance(error, EOFError)

    def _lines(self, stream: io.BufferedIOBase) -> Iterator[Line]:
        part = self.part
        end = _NO_END if part.source.compression else part.source.size
        stop = end if part.stop is None else part.stop
        position = max(0, part.start - 1)
        if part.start:
            # Start one byte early: if that byte is a line end, no line of this range is skipped.
            position += _skip_line(stream)
        while position < stop:
            line = stream.readline(self.max_line + 2)[: end - position]
            if not line:
                return
            offset, position = position, position + len(line)
            if not offset and line.startswith(BOM):
                offset, line = len(BOM), line[len(BOM) :]
            if line.endswith(b"\n"):
                yield Line(offset, line[:-2] if line.endswith(b"\r\n") else line[:-1])
            elif len(line) > self.max_line:
                yield Line(offset, None)
                position += _skip_line(stream)
            else:
                yield Line(offset, line.removesuffix(b"\r"), torn=True)


class _Pieces(io.RawIOBase):
    """A readable stream over an iterator of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._piece = pieces, memoryview(b"")

    def readable(self) -> bool:
        """Return True, as ``io.RawIOBase`` requires of a readable stream."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Copy the next bytes into ``buffer``; return their number, 0 at the end."""
        self._piece = self._piece or memoryview(next(self._pieces, b""))
        size = min(memoryview(buffer).nbytes, len(self._piece))
        memoryview(buffer)[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def _skip_line(stream: io.BufferedIOBase) -> int:
    """Skip the rest of the current line; return the number of bytes skipped."""
    skipped = 0
    while piece := stream.readline(_BUFFER):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _ends_flushed(source: Source) -> bool:
    """Return whether a gzip file ends with an empty stored block, which a flush writes."""
    if source.compression != "gz" or source.size < len(_FLUSHED):
        return False
    with source.open_packed() as packed:
        packed.seek(-len(_FLUSHED), os.SEEK_END)
        return packed.read() == _FLUSHED


def reason_of(error: BaseException) -> str:
    """Return the message of a reading error, without the file's path."""
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
