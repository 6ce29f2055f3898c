"""Logs that are not line-based: objects in JSON documents, databases and archives.

``rlreport.read`` reads line-based logs. Here objects are located by their index in the file.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from rlreport.errors import RowError
from rlreport.formats.base import Row
from rlreport.formats.logged import json_object, mapping
from rlreport.formats.parquet import parquet_rows
from rlreport.formats.torch_file import torch_rows
from rlreport.sidefiles import MAX_JSON, LimitError, load_json, open_zip, read_stream
from rlreport.text.messages import message

if TYPE_CHECKING:
    import sqlite3

File = str | Path | IO[bytes]

HEADER = "log.eval"
"""Key added to each Inspect sample: the evaluation's metadata from the log header."""

MAX_SAMPLE = 64_000_000
"""Maximum unpacked bytes of a document in an ``.eval`` log, and of a value in a database."""

MOST_GROWTH = 200
"""Maximum compression ratio of an archive; JSON of tokens has a ratio of about 20."""

_SUFFIXES = {
    ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".parquet": "parquet", ".pt": "torch",
    ".db": "sqlite",
    ".eval": "inspect",
}  # fmt: skip
_COMPRESSED = ("lines", "json")
"""Containers that may be compressed as a whole."""

_ZSTANDARD = 93
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_DAMAGED = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError,
            zlib.error, struct.error, zstandard.ZstdError)  # fmt: skip
_QUERIES = {
    "metrics": "SELECT run_name, step, timestamp, metrics FROM metrics "
    "WHERE CAST(metrics AS TEXT) LIKE '%\"trackio.table\"%' ORDER BY rowid",
    "traces": "SELECT run_name, step, timestamp, key, trace_index, messages, metadata "
    "FROM traces ORDER BY rowid",
}
"""Trackio's tables and conversations; its entries of numbers only are not rollouts."""


def container_of(name: str) -> str | None:
    """Return the container type of a file by its suffix, None if it is unknown."""
    plain = name.lower()
    for packed in (".gz", ".zst"):
        plain = plain.removesuffix(packed)
    container = _SUFFIXES.get(Path(plain).suffix)
    return None if container not in _COMPRESSED and plain != name.lower() else container


def iterate(
    file: File, container: str, wanted: set[int] | None = None
) -> Iterator[tuple[int, Row]]:
    """Yield (index, object) of each object of a file, in bounded memory.

    A JSON document is one object, an array of them, a table of ``columns`` and ``data``, or
    JSON lines with a wrong suffix. A parquet file is read in batches of rows. A database is
    Trackio's; its objects are like the rows of Trackio's parquet export. Inspect's ``.eval`` log
    is a zip of samples; for a damaged or too large one the object has only ``error_reading``.

    Args:
        file: path or binary stream.
        container: see ``container_of``.
        wanted: indices of the objects to yield; others are skipped if possible. None for all.

    Raises:
        RowError: the file is no such container, or a JSON document above MAX_JSON.
        MissingExtraError: parquet without pyarrow.
    """
    if isinstance(file, str | Path):
        with Path(file).open("rb") as stream:
            yield from iterate(stream, container, wanted)
    elif container in _READERS:
        yield from _READERS[container](file, wanted)
    else:
        for index, obj in enumerate(json_objects(file)):
            if wanted is None or index in wanted:
                yield index, obj


def json_objects(file: IO[bytes]) -> Iterator[Row]:
    """Yield the objects of a JSON document: itself, those of an array, a table or lines.

    Raises:
        RowError: it is none of these, or larger than MAX_JSON.
    """
    file.seek(0)
    try:
        data = read_stream(file, MAX_JSON)
    except LimitError:
        raise RowError(
            message(
                "a JSON document of over {most:count} bytes; convert it to .jsonl",
                most=MAX_JSON,
            )
        ) from None
    try:
        document = load_json(data)
    except LimitError as error:
        raise RowError(
            message("a JSON document beyond what is read: {why}", why=error.reason)
        ) from None
    except ValueError as error:
        # Data sets in `.json` are often lines.
        document = _objects_of_lines(data)
        if len(document) < 2:
            raise RowError(message("no JSON document: {why}", why=str(error))) from None
    if isinstance(document, dict) and _is_table(document):
        names = document["columns"]
        for values in document["data"]:
            if isinstance(values, list) and len(values) == len(names):
                yield dict(zip(names, values, strict=True))
    elif isinstance(document, dict):
        yield document
    elif isinstance(document, list):
        yield from (item for item in document if isinstance(item, dict))


def _is_table(document: Row) -> bool:
    """Return whether a document is a table as W&B and pandas write it: columns and rows."""
    names, data = document.get("columns"), document.get("data")
    texts = isinstance(names, list) and bool(names) and all(isinstance(n, str) for n in names)
    return texts and isinstance(data, list) and len(document) <= 3


def _objects_of_lines(data: bytes) -> list[Row]:
    """Return the objects of JSON lines, [] if any line is not an object."""
    try:
        objects = [load_json(line) for line in io.BytesIO(data) if line.strip()]
    except ValueError:
        return []
    return objects if all(isinstance(obj, dict) for obj in objects) else []


def _sqlite_rows(file: IO[bytes], wanted: set[int] | None) -> Iterator[tuple[int, Row]]:
    import sqlite3

    path = getattr(file, "name", None)
    if not isinstance(path, str | Path) or not Path(path).is_file():
        raise RowError(message("no local file: a database is read from a disk"))
    try:
        with contextlib.closing(open_database(Path(path))) as database:
            rows = (row for query in _queries(database) for row in database.execute(query))
            for index, row in enumerate(rows):
                if wanted is None or index in wanted:
                    entry = {
                        key: value.decode(errors="replace") if isinstance(value, bytes) else value
                        for key, value in dict(row).items()
                    }
                    metrics = entry.pop("metrics", None)
                    yield index, entry if metrics is None else {**json_object(metrics), **entry}
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise RowError(message("no database of Trackio's: {why}", why=str(error))) from None


def open_database(path: Path) -> sqlite3.Connection:
    """Open a database to read it; what it brings of views and functions is not run."""
    import sqlite3

    address = f"{path.resolve().as_uri()}?mode=ro"
    try:
        database = sqlite3.connect(address, uri=True)
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # Reading a write-ahead log needs a writable folder; without one its rows are left out.
        database = sqlite3.connect(f"{address}&immutable=1", uri=True)
    database.row_factory = sqlite3.Row
    # A file may define views and functions; none of them is run.
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SAMPLE)
    return database


def is_plain_table(database: sqlite3.Connection, name: str) -> bool:
    """Return whether there is such a table without computed columns.

    A view or a computed column could run for ever.
    """
    found = database.execute(
        "SELECT type, sql FROM sqlite_master WHERE name = ?", (name,)
    ).fetchone()
    if found is None or found["type"] != "table":
        return False
    if not str(found["sql"]).upper().startswith("CREATE TABLE"):
        return False
    hidden = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
    return not any(computed for (computed,) in hidden)


def _queries(database: sqlite3.Connection) -> Iterator[str]:
    """Yield the queries of tables that are there and have no computed column."""
    yield from (query for name, query in _QUERIES.items() if is_plain_table(database, name))


def _inspect_samples(file: IO[bytes], wanted: set[int] | None) -> Iterator[tuple[int, Row]]:
    """Yield the samples in the order of the archive, without their events."""
    try:
        with open_zip(file) as archive:
            # If several documents have the same name, the last one replaces the others.
            infos = {info.filename: info for info in archive.infolist()}
            names = [n for n in infos if n.startswith("samples/") and n.endswith(".json")]
            if not names:
                raise RowError(message("no samples in it"))
            about: Any = {}
            for name in ("_journal/start.json", "header.json"):
                if name in infos:
                    about = mapping(_document(archive, infos[name]).get("eval"))
            size = archive.fp.seek(0, io.SEEK_END) if archive.fp else 0
            if sum(info.compress_size for info in infos.values()) > size:
                raise RowError("its entries overlap")
            room = MAX_SAMPLE + MOST_GROWTH * size
            for index, name in enumerate(names):
                if wanted is None or index in wanted:
                    room -= min(infos[name].file_size, MAX_SAMPLE)
                    if room < 0:
                        raise RowError(f"it unpacks to more than {MOST_GROWTH} times its size")
                    yield index, {**_document(archive, infos[name]), HEADER: about}
    except RowError:
        raise
    except _DAMAGED as error:
        raise RowError(message("no log of Inspect's: {why}", why=str(error))) from None


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Row:
    try:
        document = load_json(_unpacked(archive, info))
    except _DAMAGED as error:
        return {"error_reading": f"{info.filename[:80]}: {error}"}
    if not isinstance(document, dict):
        return {"error_reading": f"{info.filename[:80]}: no JSON object"}
    document.pop("events", None)
    return document


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a document's bytes, without trusting the size that its entry declares."""
    if info.compress_type not in _PACKED:
        raise ValueError("packed in a way that Inspect does not write")
    if info.compress_type != _ZSTANDARD:
        with archive.open(info) as entry:
            return read_stream(entry, MAX_SAMPLE)
    # zipfile does not support zstandard before Python 3.14.
    stream = archive.fp
    if info.compress_size > MAX_SAMPLE or stream is None:
        raise ValueError(f"over {MAX_SAMPLE:,} bytes")
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile("no entry where one should be")
    stream.seek(name + extra, io.SEEK_CUR)
    packed = io.BytesIO(stream.read(info.compress_size))
    unpacker = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    return read_stream(unpacker, MAX_SAMPLE)


_READERS: dict[str, Callable[[IO[bytes], set[int] | None], Iterator[tuple[int, Row]]]] = {
    "inspect": _inspect_samples,
    "parquet": parquet_rows,
    "sqlite": _sqlite_rows,
    "torch": torch_rows,
}
