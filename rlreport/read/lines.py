"""The lines of a byte range, in blocks of bounded size."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

import zstandard

from rlreport.errors import RowError
from rlreport.read.files import LogFormat, Source
from rlreport.read.remote import RangeStream

BLOCK_BYTES = 1 << 20
"""Small enough for a block to be parsed while it is in the processor's cache."""

_TAIL_BYTES = 64 << 10
_SLICE = 16 << 10
"""Unpacked bytes asked of a compressed stream at a time, which damage behind them costs."""
_RETURN = ord("\r")
_FLUSHED = b"\x00\x00\xff\xff"
BOM = b"\xef\xbb\xbf"
DAMAGED = (OSError, EOFError, zlib.error, zstandard.ZstdError)
"""What reading a broken file raises: disk errors and damaged compression."""


RANGE_BYTES = 32 << 20
"""Files are cut at multiples of this, so that a growing file keeps its earlier ranges."""

_GROUP_FILES = 256
_SMALL_BYTES = 4 << 20
_SMALL_PACKED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: the lines that *start* at an offset in [start, stop).

    Any cut is fine: a line belongs to the range that holds its first byte. A compressed file,
    and a file that does not consist of lines, is one range.

    Attributes:
        file: index of the source.
        source: the file.
        start, stop: decompressed bytes; ``stop`` is None for "to the end".
        format: the log format.
    """

    file: int
    source: Source
    start: int = 0
    stop: int | None = None
    format: LogFormat = field(default_factory=LogFormat)

    @property
    def weight(self) -> int:
        """Bytes on disk, for progress."""
        return (self.source.size if self.stop is None else self.stop) - self.start

    @property
    def small(self) -> bool:
        """Whether it fits into memory along with others."""
        return self.weight <= (_SMALL_PACKED_BYTES if self.stop is None else _SMALL_BYTES)


def byte_ranges(
    sources: Sequence[Source], formats: Sequence[LogFormat], *, range_bytes: int = RANGE_BYTES
) -> list[ByteRange]:
    """Cut every source at multiples of ``range_bytes``."""
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
    """Return what is read in one go: a range by itself, small files in groups."""
    groups: list[list[ByteRange]] = []
    size = 0
    for one in ranges:
        last = groups[-1] if groups else []
        joins = bool(last) and last[-1].small and one.small and last[-1].file != one.file
        if joins and size + one.weight <= RANGE_BYTES and len(last) < _GROUP_FILES:
            last.append(one)
            size += one.weight
        else:
            groups.append([one])
            size = one.weight
    return groups


@dataclass(slots=True)
class Block:
    """Some consecutive lines.

    Attributes:
        data: the lines, each with its line end but perhaps the last.
        stop: where they end in ``data``; what follows is the next block's.
        offset: where they begin in the file.
        too_long: the block stands for one line over the limit, which was not kept.
        damage: why the file could not be read further.
        unended: the stream has no end, and no line is lost, as where its writer was killed.
    """

    data: bytes = b""
    stop: int = 0
    offset: int = 0
    too_long: bool = False
    damage: str | None = None
    unended: bool = False

    @property
    def unterminated(self) -> bool:
        """The last line has no line end: the file may still be growing."""
        return not self.data.endswith(b"\n", 0, self.stop)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield where each line lies in ``data``, without line end, blank lines included."""
        data, find, start, last = self.data, self.data.find, 0, self.stop
        while (stop := find(b"\n", start, last)) >= 0:
            yield start, stop - 1 if stop > start and data[stop - 1] == _RETURN else stop
            start = stop + 1
        if start < last:
            yield start, last - 1 if data[last - 1] == _RETURN else last


def line_blocks(part: ByteRange, max_line: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of a range, about ``block_bytes`` at a time, blank lines included.

    Never reads beyond the size that the source had when it was listed. A damaged or
    truncated file ends with a block that says so; the lines before it are good.
    """
    try:
        stream = _opened(part)
    except DAMAGED as error:
        yield Block(damage=reason_of(error))
        return
    with stream:
        try:
            yield from _Reader(stream, part, max_line, block_bytes).blocks()
        except DAMAGED as error:
            yield Block(damage=reason_of(error))


def _opened(part: ByteRange) -> IO[bytes]:
    source = part.source
    if source.store and not source.compression and len(source.head) < source.size:
        stop = source.size if part.stop is None else part.stop
        return cast("IO[bytes]", RangeStream(source, max(0, part.start - 1), stop))
    return source.open()


def _ends_flushed(source: Source) -> bool:
    """Tell whether a gzip file ends where its writer flushed: with an empty stored block."""
    if source.compression != "gz" or source.size < len(_FLUSHED):
        return False
    with source.open_packed() as packed:
        packed.seek(-len(_FLUSHED), os.SEEK_END)
        return packed.read() == _FLUSHED


def reason_of(error: BaseException) -> str:
    """Return what a reading error says, without the file's path."""
    if isinstance(error, RowError):
        return error.reason
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class _Reader:
    """Cuts a stream into lines; holds the tail that awaits its line end, ``held`` bytes, in pieces.

    Joining pieces only when the line end is there keeps a line of any length linear.
    """

    def __init__(self, stream: IO[bytes], part: ByteRange, max_line: int, block_bytes: int) -> None:
        self.stream = stream
        self.source = part.source
        self.max_line = max_line
        self.block_bytes = block_bytes
        self.stop = part.stop
        # The size of what a compressed file holds is only known at its end.
        self.size = None if part.source.compression else part.source.size
        # One byte early: a range that begins right after a line end begins with a line.
        self.position = max(0, part.start - 1)
        self.skipping = part.start > 0
        self.tail: list[bytes] = []
        self.held = 0
        self.packed = bool(part.source.compression)
        self.rereads = not part.source.compression and block_bytes > 4 * _TAIL_BYTES
        self.damage: str | None = None
        if self.position:
            stream.seek(self.position)

    def blocks(self) -> Iterator[Block]:
        while not self._past_stop():
            chunk = self._read()
            if not chunk:
                if self.held and not self.skipping:
                    tail = b"".join(self.tail)
                    yield Block(tail, len(tail), self.position - len(tail))
                if self.damage and not self.held and _ends_flushed(self.source):
                    yield Block(unended=True)
                elif self.damage:
                    yield Block(damage=self.damage)
                return
            yield from self._cut(chunk)

    def _past_stop(self) -> bool:
        if self.stop is None or self.skipping:
            # Whoever skips to the first line end gives up once no line can start inside.
            return self.stop is not None and self.position - self.held > self.stop
        return self.position - self.held >= self.stop

    def _read(self) -> bytes:
        want = self.block_bytes
        if self.stop is not None:
            # Beyond the stop only the end of one line is wanted.
            beyond = max(_TAIL_BYTES, min(self.held, want))
            want = min(want, self.stop - self.position) if self.position < self.stop else beyond
        if self.size is not None:
            want = min(want, self.size - self.position)
        chunk = self._fill(want) if want > 0 and not self.damage else b""
        self.position += len(chunk)
        return chunk

    def _fill(self, want: int) -> bytes:
        """Read up to ``want`` bytes; of what came before a damaged place all but ``_SLICE``."""
        if not self.packed:
            return self.stream.read(want)
        packed = cast("io.BufferedIOBase", self.stream)
        pieces: list[bytes] = []
        got = 0
        try:
            # ``read`` would lose all that it had unpacked when the file is damaged or ends early.
            while got < want and (piece := packed.read1(min(want - got, _SLICE))):
                pieces.append(piece)
                got += len(piece)
        except DAMAGED as error:
            self.damage = reason_of(error)
        return b"".join(pieces)

    def _cut(self, chunk: bytes) -> Iterator[Block]:
        if self.skipping:
            first = chunk.find(b"\n")
            if first < 0:
                return
            chunk = chunk[first + 1 :]
            self.skipping = False
        if self.held and b"\n" not in chunk:
            self.tail.append(chunk)
            self.held += len(chunk)
        else:
            yield from self._block(b"".join([*self.tail, chunk]) if self.held else chunk)
        if self.held > self.max_line:
            yield Block(offset=self.position - self.held, too_long=True)
            self._hold([])
            self.skipping = True

    def _block(self, data: bytes) -> Iterator[Block]:
        start = self.position - len(data)
        end = data.rfind(b"\n") + 1
        self._hold([data[end:]])
        if self.stop is not None and start + end > self.stop:
            # The line that runs over the stop is the last one.
            end = data.find(b"\n", max(0, self.stop - start - 1)) + 1 if start < self.stop else 0
            self._hold([])
        if end:
            yield Block(data, end, start)
        if end and self.rereads and 0 < self.held <= _TAIL_BYTES:
            # Reading the tail once more costs less than copying the next block to join it.
            self.position -= self.held
            self.stream.seek(self.position)
            self._hold([])

    def _hold(self, pieces: list[bytes]) -> None:
        self.tail, self.held = pieces, sum(map(len, pieces))
