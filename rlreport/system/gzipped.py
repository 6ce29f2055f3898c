"""Gzip with the same header from every version of Python, on every system."""

from __future__ import annotations

import zlib

# Magic number, deflate; no name, no time, no level; 255: on an unknown system
_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def gzipped(content: bytes, level: int) -> bytes:
    """Return ``content`` as one gzip member, compressed with the ``level`` of zlib (1 to 9).

    ``gzip.compress`` writes a byte for the level and one for the system, which differ between
    versions of Python, of zlib and between systems.
    """
    packed = zlib.compress(content, level, wbits=16 + zlib.MAX_WBITS)
    return _HEADER + packed[len(_HEADER) :]
