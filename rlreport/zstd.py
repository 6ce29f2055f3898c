"""A Zstandard reader that reports truncated files, which zstandard's own reader does not."""

from __future__ import annotations

import io
from typing import IO, Any

import zstandard

_INPUT_BYTES = 2048
"""Compressed bytes read at a time; they decompress to at most 512 blocks of 128 KiB."""

_ALL = 1 << 62  # more bytes than any file has


class ZstdFile(io.BufferedIOBase):
    """Forward-only stream of a decompressed file; raises EOFError if the file is truncated."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed, self._unpacker = stream, zstandard.ZstdDecompressor()
        self._frame: Any = None  # decompressor of the current frame
        self._input, self._piece, self._position = b"", memoryview(b""), 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def _next_piece(self) -> bytes:
        """Return the next decompressed bytes, b"" at the end of the file."""
        while True:
            self._input = self._input or self._packed.read(_INPUT_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise EOFError(
                        "Compressed file ended before the end-of-stream marker was reached"
                    )
                return b""
            self._frame = self._frame or self._unpacker.decompressobj()
            piece: bytes = self._frame.decompress(self._input)
            self._input = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
            if piece:
                return piece

    def read1(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; if it is negative, as many as one read decompresses."""
        if size and not self._piece:
            self._piece = memoryview(self._next_piece())
        data = bytes(self._piece if size < 0 else self._piece[:size])
        self._piece, self._position = self._piece[len(data) :], self._position + len(data)
        return data

    def read(self, size: int | None = -1, /) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the file; all if negative or None."""
        pieces: list[bytes] = []
        remainder = _ALL if size is None or size < 0 else size
        while remainder and (piece := self.read1(remainder)):
            pieces.append(piece)
            remainder -= len(piece)
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move forward to ``offset``, and return the new position in decompressed bytes.

        Raises:
            io.UnsupportedOperation: ``offset`` is before the current position, or ``whence`` is
                not ``io.SEEK_SET``.
        """
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("a compressed file can only be read forward")
        while self._position < offset and self.read1(min(offset - self._position, 1 << 20)):
            pass
        return self._position

    def tell(self) -> int:
        """Return the position in decompressed bytes."""
        return self._position

    def close(self) -> None:
        """Close this stream and the compressed file."""
        self._packed.close()
        super().close()
