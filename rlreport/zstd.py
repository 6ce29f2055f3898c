"""Zstandard streams that say when they end too early, as zstandard's own reader does not."""

from __future__ import annotations

import io
from typing import IO, Any

import zstandard

_PACKED = 2048
"""Bytes unpacked at a time: up to 512 blocks of 128 KiB, which have to fit into memory."""

_ALL = 1 << 62


class ZstdFile(io.BufferedIOBase):
    """The unpacked bytes of a stream of frames; EOFError where it ends inside one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packed, self._unpacker = stream, zstandard.ZstdDecompressor()
        self._frame: Any = None  # the one that is being read
        self._input, self._piece, self._at = b"", memoryview(b""), 0

    def readable(self) -> bool:
        """See io."""
        return True

    def _next_piece(self) -> bytes:
        while True:
            self._input = self._input or self._packed.read(_PACKED)
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
        """See io."""
        if size and not self._piece:
            self._piece = memoryview(self._next_piece())
        data = bytes(self._piece if size < 0 else self._piece[:size])
        self._piece, self._at = self._piece[len(data) :], self._at + len(data)
        return data

    def read(self, size: int | None = -1, /) -> bytes:
        """See io."""
        pieces: list[bytes] = []
        left = _ALL if size is None or size < 0 else size
        while left and (piece := self.read1(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go forward from the start.

        Raises:
            io.UnsupportedOperation: this is another way.
        """
        if whence != io.SEEK_SET or offset < self._at:
            raise io.UnsupportedOperation("a compressed file is read forward alone")
        while self._at < offset and self.read1(min(offset - self._at, 1 << 20)):
            pass
        return self._at

    def tell(self) -> int:
        """See io."""
        return self._at

    def close(self) -> None:
        """See io."""
        self._packed.close()
        super().close()
