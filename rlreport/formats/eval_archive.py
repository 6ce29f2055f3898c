"""Inspect's ``.eval`` logs: a zip of JSON documents, one a sample."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import orjson
import zstandard

from rlreport.formats.base import Row, RowError
from rlreport.text.messages import message

MAX_SAMPLE = 64_000_000
"""Bytes of a document read at most, unpacked."""

MOST_GROWTH = 200
"""Times its own size that an archive may unpack to; JSON of tokens grows twentyfold."""

_ZSTANDARD = 93
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
HEADER = "log.eval"
"""Key that each sample gets: what the log says of the evaluation."""

_DAMAGED = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError,
            zlib.error, struct.error, zstandard.ZstdError)  # fmt: skip


def sample_rows(file: Any, wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (index, sample) of a log, in the order of the archive; events are left out.

    A sample that is damaged or too large is an object of an ``error_reading`` alone.

    Args:
        file: path or binary stream.
        wanted: indices; None for all.

    Raises:
        RowError: it is no such log.
    """
    if not isinstance(file, str) and hasattr(file, "seek"):
        file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            # Of documents of one name the last counts, as of files that are written again.
            infos = {info.filename: info for info in archive.infolist()}
            names = [n for n in infos if n.startswith("samples/") and n.endswith(".json")]
            if not names:
                raise RowError(message("no samples in it"))
            header = _header(archive, infos)
            size = _size(archive)
            if sum(info.compress_size for info in infos.values()) > size:
                raise RowError("its entries overlap")
            room = MAX_SAMPLE + MOST_GROWTH * size
            for index, name in enumerate(names):
                if wanted is None or index in wanted:
                    room -= min(infos[name].file_size, MAX_SAMPLE)
                    if room < 0:
                        raise RowError(f"it unpacks to more than {MOST_GROWTH} times its size")
                    yield index, {**_document(archive, infos[name]), HEADER: header}
    except _DAMAGED as error:
        if isinstance(error, RowError):
            raise
        raise RowError(message("no log of Inspect's: {why}", why=str(error))) from None


def _size(archive: zipfile.ZipFile) -> int:
    """Return the bytes of an archive."""
    stream = archive.fp
    return stream.seek(0, io.SEEK_END) if stream else 0


def _header(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> Row:
    for name in ("header.json", "_journal/start.json"):
        if name in infos:
            said = _document(archive, infos[name]).get("eval")
            return said if isinstance(said, dict) else {}
    return {}


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Row:
    try:
        found = orjson.loads(_unpacked(archive, info))
    except _DAMAGED as error:
        return {"error_reading": f"{info.filename[:80]}: {error}"}
    if not isinstance(found, dict):
        return {"error_reading": f"{info.filename[:80]}: no JSON object"}
    found.pop("events", None)
    return found


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a document's bytes, whatever size its entry claims."""
    if info.compress_type not in _PACKED:
        raise ValueError("packed in a way that Inspect does not write")
    if info.compress_type == _ZSTANDARD:
        stream = zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(_packed(archive, info)), read_across_frames=True
        )
        data = stream.read(MAX_SAMPLE + 1)
    else:
        with archive.open(info) as entry:
            data = entry.read(MAX_SAMPLE + 1)
    if len(data) > MAX_SAMPLE:
        raise ValueError(f"over {MAX_SAMPLE:,} bytes")
    return data


def _packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the packed bytes of an entry; zipfile itself knows no zstandard yet."""
    if info.compress_size > MAX_SAMPLE:
        raise ValueError(f"over {MAX_SAMPLE:,} bytes")
    stream = archive.fp
    if stream is None:
        raise ValueError("closed")
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile("no entry where one should be")
    stream.seek(name + extra, io.SEEK_CUR)
    return stream.read(info.compress_size)
