"""Iterate over the objects of files without lines: JSON, parquet, torch, archives, databases.

Memory is bounded, although a few kilobytes of parquet may expand to gigabytes: its footer is
checked first, and texts stay dictionary-encoded until a few rows at a time are decoded. Of files
written by ``torch.save``, which could run arbitrary code, torch's weights-only loader creates plain
values and tensors only; NumPy arrays are rejected, as NumPy does not validate their state.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from rlreport.errors import MissingExtraError, RowError, UnreadRow
from rlreport.formats.base import Row
from rlreport.formats.logged import dicts, json_object, mapping
from rlreport.formats.tracker_steps import trainer_step, with_trainer_steps
from rlreport.system import coerce
from rlreport.system.documents import (
    MAX_COLUMNS,
    MAX_JSON,
    LimitError,
    load_json,
    open_zip,
    read_stream,
)
from rlreport.system.stores import zstd
from rlreport.text.messages import message, translatable

if TYPE_CHECKING:
    import sqlite3

    from rlreport.system.stores import Source


# Maximum bytes of a dump without its tensors; all of these are in memory at once
MAX_PICKLE = 256_000_000

# Maximum cost (size) of a dump's values in all, as a short pickle can repeat a value endlessly
_MAX_COST = 1 << 28

# Basic cost (size) of a value, to which its number of elements or characters is added
_BASE_COST = 64

_MAX_DEPTH = 64
_LONGEST_REASON = 160  # characters of torch's reason why a file cannot be loaded
_SIZED = (str, bytes, list, tuple, dict, set)
_EXPORT = (
    'where you trust it, export it: python -c "import json, sys, torch; '
    "[print(json.dumps(s, default=lambda v: v.tolist() if hasattr(v, 'tolist') else str(v))) "
    "for s in torch.load(sys.argv[1], weights_only=False)['samples']]\" N.pt > N.jsonl"
)
# Key added to each sample: the rollout id (training step) of its file
ROLLOUT_ID = "dump.rollout_id"


def torch_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the samples of a dump of rollouts, each with ROLLOUT_ID."""
    dump = _load(file)
    samples = dump.get("samples") if isinstance(dump, dict) else None
    if not isinstance(samples, list):
        raise RowError(message("not a dump of rollouts: it has no list `samples`"))
    budget = _Budget()  # for all samples together
    for sample in dicts(samples):
        yield {**budget.plain(sample), ROLLOUT_ID: dump.get("rollout_id")}


def _load(file: IO[bytes]) -> Any:
    """Return what ``torch.save`` wrote to a file: plain values and tensors, else raise RowError."""
    try:
        import torch
    except ImportError:
        raise RowError(
            f"reading a .pt file needs torch (pip install torch); or, {_EXPORT}"
        ) from None
    _check(file)
    # With mmap, tensors of a local file stay on disk until they are used.
    path = getattr(file, "name", None)
    try:
        if isinstance(path, str | Path) and Path(path).is_file():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except (Exception, MemoryError) as error:  # the unpickler may raise anything
        # Of torch's page of advice, only the sentence with the reason
        text = " ".join(str(error).partition("WeightsUnpickler error: ")[2].split())
        reason = (text or repr(error)).partition(" Please ")[0][:_LONGEST_REASON]
        why = message(
            "not a dump of plain values and tensors ({why}); {export}",
            why=reason,
            export=_EXPORT,
        )
        raise RowError(why) from None


def _check(file: IO[bytes]) -> None:
    """Raise RowError or LimitError if torch would unpack a file to more than MAX_PICKLE bytes.

    Tensors do not count: they are stored as they are.
    """
    try:
        with open_zip(file) as archive:
            infos = archive.infolist()
    except LimitError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise RowError(
            message("not a file of torch.save: {why}", why=str(error))
        ) from None
    # Compressed data may unpack to any size; torch does not compress.
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
        raise RowError(message("not a plain file of torch.save: it is compressed"))
    sizes = [info.file_size for info in infos if info.filename.endswith(".pkl")]
    if sum(sizes) > MAX_PICKLE:
        why = message(
            "over {most:count} bytes besides tensors; {export}",
            most=MAX_PICKLE,
            export=_EXPORT,
        )
        raise RowError(why)


class _Budget:
    """A converter of loaded values to JSON types, with a limit on their total cost (size)."""

    def __init__(self) -> None:
        self._left = _MAX_COST

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Convert a value to JSON types, matrices etc. to text; raise RowError beyond a limit."""
        self._left -= _BASE_COST + _size_of(value)
        if self._left < 0 or depth > _MAX_DEPTH:
            raise RowError(
                message("too large or too deeply nested; convert it to .jsonl")
            )
        if isinstance(value, dict):
            return {
                str(key): self.plain(item, depth + 1) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            # Numbers cost what their list costs: faster than one by one
            if all(type(item) in (int, float) for item in value):
                return list(value)
            return [self.plain(item, depth + 1) for item in value]
        if _is_tensor(value):
            return _plain_tensor(value)
        if value is None or isinstance(value, str | int | float):
            return value
        return str(value)


def _size_of(value: Any) -> int:
    """Return the number of elements or characters; matrices become a short text, so 1."""
    if _is_tensor(value):
        return value.numel() if len(value.shape) <= 1 else 1
    return len(value) + 1 if isinstance(value, _SIZED) else 1


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "numel")


def _plain_tensor(tensor: Any) -> Any:
    """Return a number or a list of numbers, or a text for a matrix."""
    # Sparse and quantized tensors have no list.
    with contextlib.suppress(RuntimeError, TypeError, ValueError):
        if len(tensor.shape) <= 1:
            return tensor.tolist()
    return f"tensor of shape {tuple(tensor.shape)}"


# Maximum bytes of the footer, which describes columns and row groups
MAX_FOOTER = 32_000_000

# Maximum number of schema elements and of row groups; pyarrow recurses into nested elements
MAX_ELEMENTS = 8_000

# Uncompressed bytes allowed per byte of the file, in addition to MAX_UNPACKED or MAX_TEXT
MAX_GROWTH = 200

# Uncompressed bytes that even the smallest file may have; MAX_GROWTH allows large files more
MAX_UNPACKED = 256_000_000

# Number of values that even the smallest file may have; each list element counts as one
MAX_VALUES = 20_000_000

# Number of values allowed per byte of the file, in addition to MAX_VALUES
MAX_VALUE_GROWTH = 20

# Bytes of decoded texts, including repetitions, that even the smallest file may have
MAX_TEXT = 1_000_000_000

# Maximum bytes of the decoded texts of one row
MAX_ROW_TEXT = 256_000_000

# Most rows, values and bytes of texts that are decoded at a time
_BATCH_ROWS = 256
_BATCH_VALUES = 4_000_000
_BATCH_TEXT = 64_000_000


@contextmanager
def _open_parquet(file: IO[bytes]) -> Iterator[Any]:
    """Yield a ``pyarrow.parquet.ParquetFile``, of which only the footer has been read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading parquet logs needs pyarrow: pip install 'rlreport[parquet]'"
        ) from None
    try:
        # A Parquet file ends with the length of its footer and a mark, of 4 bytes each.
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 8))
        length = file.read(4)
        mark = file.read(4)
        if mark == b"PAR1" and int.from_bytes(length, "little") > MAX_FOOTER:
            raise LimitError(
                message("its footer exceeds {most:count} bytes", most=MAX_FOOTER)
            )
        with pq.ParquetFile(file, thrift_container_size_limit=MAX_ELEMENTS) as parquet:
            metadata = parquet.metadata
        _check_metadata(metadata, size)
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]
        file.seek(0)
        # Texts stay dictionary-encoded, so that their size is known before they are decoded.
        with pq.ParquetFile(file, metadata=metadata, read_dictionary=texts) as parquet:
            yield parquet
    # Also errors of the caller, who reads the file while it is open
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | RowError):
            raise
        raise RowError(message("not a Parquet file: {why}", why=str(error))) from None


def parquet_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a Parquet file, of which a few at a time are decoded."""
    with _open_parquet(file) as parquet:
        size_of_file = file.seek(0, io.SEEK_END)
        budget = MAX_TEXT + MAX_GROWTH * size_of_file  # bytes of decoded texts
        for group in range(parquet.num_row_groups):
            size = _batch_size(parquet.metadata.row_group(group))
            for batch in parquet.iter_batches(size, row_groups=[group]):
                budget -= _text_bytes(batch)
                if budget < 0:
                    raise _too_much_text()
                yield from _rows(batch)


def _batch_size(metadata: Any) -> int:
    """Return how many rows of a row group to decode at a time: fewer if they have many values."""
    columns = range(metadata.num_columns)
    values = sum(metadata.column(i).num_values for i in columns)
    rows: int = _BATCH_VALUES * metadata.num_rows // max(1, values)
    return max(1, min(_BATCH_ROWS, rows))


def _too_much_text() -> LimitError:
    return LimitError(message("its texts take too much memory when decoded"))


def _rows(batch: Any) -> Iterator[Row]:
    """Yield the rows of a batch, decoded in several parts if their texts are too large together."""
    size = _text_bytes(batch)
    middle = batch.num_rows // 2  # 0 for a single row, which cannot be cut
    if size <= (_BATCH_TEXT if middle else MAX_ROW_TEXT):
        yield from batch.to_pylist()
    elif middle:
        yield from _rows(batch.slice(0, middle))
        yield from _rows(batch.slice(middle))
    else:
        raise _too_much_text()


def _text_bytes(batch: Any) -> int:
    """Return the bytes of a batch's texts when decoded, computed from the dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    # Arrays to count; of nested ones, those inside are added.
    arrays = list(batch.columns)
    while arrays:
        array = arrays.pop()
        kind = array.type
        if pa.types.is_struct(kind):
            arrays += array.flatten()
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            arrays.append(array.flatten())
        elif pa.types.is_dictionary(kind):
            lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
            size += pc.sum(lengths).as_py() or 0
    return size


def _check_metadata(metadata: Any, size: int) -> None:
    """Raise LimitError if a file of ``size`` bytes has too many columns, bytes or values."""
    if metadata.num_columns > MAX_COLUMNS:
        raise LimitError(message("more than {most:count} columns", most=MAX_COLUMNS))
    unpacked = 0
    values = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(metadata.num_columns)):
            # A forged negative size must not make room for other columns.
            unpacked += max(0, chunk.total_uncompressed_size)
            values += chunk.num_values
    most_unpacked = MAX_UNPACKED + MAX_GROWTH * size
    if unpacked > most_unpacked:
        why = message(
            "unpacks to over {most:count} bytes, too many for its size; split the file",
            most=most_unpacked,
        )
        raise LimitError(why)
    most_values = MAX_VALUES + MAX_VALUE_GROWTH * size
    if max(metadata.num_rows, values) > most_values:
        why = message(
            "more than {most:count} values, too many for its size", most=most_values
        )
        raise LimitError(why)


class Member(dict[str, Any]):
    """An object of the file ``member`` in a zip archive."""

    def __init__(self, obj: Row, member: str) -> None:
        super().__init__(obj)
        self.member = member


# Key added to each Inspect sample; its value is the evaluation's metadata from the log header
HEADER = "log.eval"

# Maximum bytes of a decompressed document in an ``.eval`` log, and of a value in a database
MAX_SAMPLE = 64_000_000

# Maximum compression ratio of an archive; JSON with tokens has a ratio of about 20
MOST_GROWTH = 200

_SUFFIXES = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".json": "json",
    ".parquet": "parquet",
    ".pt": "torch",
    ".db": "sqlite",
    ".eval": "inspect",
}
# Suffixes of zip archives of logs: all files of JSON lines and JSON documents in them are read
ZIPPED = (".jsonl.zip", ".ndjson.zip", ".json.zip")

# Containers whose files may also be compressed: ``.gz`` or ``.zst``
_COMPRESSIBLE = ("lines", "json")

_JSON = (".jsonl", ".ndjson", ".json")
_TOO_MUCH = f"it unpacks to more than {MOST_GROWTH} times its size"
_NO_ZIP = translatable("not a zip archive: {why}")
_ZSTANDARD = 93
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    struct.error,
    zstd.ZstdError,
)
# Queries for the rollouts in a Trackio database: traces, and metrics, some of which are tables
_TRACES = (
    "SELECT run_name, step, timestamp, key, trace_index, messages, metadata FROM traces "
    "ORDER BY rowid"
)
_NUMBERED = (
    "SELECT rowid, step, metrics FROM metrics WHERE run_name IS ? ORDER BY rowid"
)
_ENTRY = "SELECT run_name, step, timestamp, metrics FROM metrics WHERE rowid = ?"
_TABLE = "trackio.table"


def container_of(name: str) -> str | None:
    """Return the container type (``lines``, ``json``, …) for a file's suffix, None if unknown.

    A suffix such as ``.gz`` behind it says that the file is compressed, which only some may be.
    """
    name = name.lower()
    if name.endswith(ZIPPED):
        return "zip"
    plain = name.removesuffix(".gz").removesuffix(".zst")
    container = _SUFFIXES.get(Path(plain).suffix)
    is_compressed = plain != name
    if is_compressed and container not in _COMPRESSIBLE:
        return None
    return container


def read_objects(file: IO[bytes], container: str) -> Iterator[Row]:
    """Yield the objects of a file of type ``container`` (JSON if unknown), in bounded memory.

    A JSON document may be one object, an array of objects, a table of ``columns`` and ``data``, or
    JSON lines with a wrong suffix. A database must be Trackio's; its objects are like the rows of
    Trackio's parquet export. An Inspect ``.eval`` log is a zip archive with a document per sample.
    In archives, a document, line or file that cannot be read is an ``UnreadRow``.
    """
    return _READERS.get(container, json_objects)(file)


def json_objects(file: IO[bytes]) -> Iterator[Row]:
    """Yield the dicts in a JSON document (object, array, table, lines), or raise RowError."""
    document = _json_document(file)
    if isinstance(document, dict) and _is_table(document):
        names = document["columns"]
        for values in document["data"]:
            if isinstance(values, list) and len(values) == len(names):
                yield dict(zip(names, values, strict=True))
    else:
        yield from dicts(document if isinstance(document, list) else [document])


def _json_document(file: IO[bytes]) -> Any:
    """Return a parsed JSON document, or the objects of JSON lines; raise RowError otherwise."""
    file.seek(0)
    try:
        data = read_stream(file, MAX_JSON)
    except LimitError:
        why = message(
            "JSON document exceeds {most:count} bytes; convert it to .jsonl",
            most=MAX_JSON,
        )
        raise RowError(why) from None
    try:
        return load_json(data)
    except LimitError as error:
        raise RowError(
            message("the JSON document exceeds a limit: {why}", why=error.reason)
        ) from None
    except ValueError as error:
        # Files named `.json` often contain JSON lines.
        objects = _objects_of_lines(data)
        # Fewer: the lines are no objects either.
        if len(objects) < 2:
            raise RowError(
                message("not a JSON document: {why}", why=str(error))
            ) from None
        return objects


def _is_table(document: Row) -> bool:
    """Return whether a document is a table: ``columns``, ``data``, and at most one other key."""
    names = document.get("columns")
    data = document.get("data")
    if not (isinstance(names, list) and names and isinstance(data, list)):
        return False
    return len(document) <= 3 and all(isinstance(name, str) for name in names)


def _objects_of_lines(data: bytes) -> list[Row]:
    """Return the objects of JSON lines, [] if any line is something else."""
    try:
        objects = [load_json(line) for line in io.BytesIO(data) if line.strip()]
    except ValueError:
        return []
    return objects if all(isinstance(obj, dict) for obj in objects) else []


def _sqlite_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the entries of the tables of a Trackio database that has them."""
    import sqlite3

    path = getattr(file, "name", None)
    if not isinstance(path, str | Path) or not Path(path).is_file():
        raise RowError(message("a database can only be read from a local disk"))
    try:
        with contextlib.closing(open_database(Path(path))) as database:
            if is_plain_table(database, "metrics"):
                yield from _trackio_tables(database)
            if is_plain_table(database, "traces"):
                yield from map(_trackio_entry, database.execute(_TRACES))
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise RowError(
            message("not a Trackio database: {why}", why=str(error))
        ) from None


def _trackio_tables(database: sqlite3.Connection) -> Iterator[Row]:
    """Yield the entries of a Trackio database with tables, at the step of the trainer."""
    runs = database.execute("SELECT DISTINCT run_name FROM metrics ORDER BY run_name")
    for (run,) in runs.fetchall():
        for step, number in with_trainer_steps(_trackio_steps(database, run)):
            if number is not None:
                # Only now, so that no more than one entry is in memory
                (row,) = database.execute(_ENTRY, (number,))
                entry = _trackio_entry(row)
                yield entry if step is None else {**entry, "step": step}


def _trackio_steps(
    database: sqlite3.Connection, run: str | None
) -> Iterator[tuple[int | None, int | None, int | None]]:
    """Yield (Trackio's own count, the trainer's step, number) of each entry, in their order.

    The number is None if the entry has no tables.
    """
    for number, step, metrics in database.execute(_NUMBERED, (run,)):
        event = json_object(metrics)
        has_table = any(mapping(v).get("_type") == _TABLE for v in event.values())
        own = coerce.integer(step)
        yield own, trainer_step(event), number if has_table else None


def _trackio_entry(row: sqlite3.Row) -> Row:
    """Return a database row as Trackio's parquet export has it: with the metrics as columns."""
    entry: Row = {}
    for key, value in dict(row).items():
        is_bytes = isinstance(value, bytes)
        entry[key] = value.decode(errors="replace") if is_bytes else value
    metrics = entry.pop("metrics", None)
    # The run's name and step are those of the table, whatever the metrics say.
    return entry if metrics is None else {**json_object(metrics), **entry}


def open_database(path: Path) -> sqlite3.Connection:
    """Open an untrusted SQLite database read-only, with limits on what its schema may run."""
    import sqlite3

    address = f"{path.resolve().as_uri()}?mode=ro"
    try:
        database = sqlite3.connect(address, uri=True)
        # ``connect`` does not open the file yet.
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # SQLite reads a write-ahead log only in a writable folder; else skip the rows in that log.
        database = sqlite3.connect(f"{address}&immutable=1", uri=True)
    database.row_factory = sqlite3.Row
    # Views and triggers in the file could call functions with side effects.
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SAMPLE)
    return database


def is_plain_table(database: sqlite3.Connection, name: str) -> bool:
    """Return whether ``name`` is a table without computed columns, which could run forever."""
    query = "SELECT type, sql FROM sqlite_master WHERE name = ?"
    entry = database.execute(query, (name,)).fetchone()
    if entry is None or entry["type"] != "table":  # views are not read either
        return False
    # A virtual table runs code of an extension.
    if not str(entry["sql"]).upper().startswith("CREATE TABLE"):
        return False
    flags = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
    return not any(computed for (computed,) in flags)


class _Archive(NamedTuple):
    """An open zip archive."""

    zip: zipfile.ZipFile
    entries: dict[str, zipfile.ZipInfo]  # by name
    most: int  # bytes to unpack in all


def _inspect_samples(file: IO[bytes]) -> Iterator[Row]:
    """Yield the samples of an Inspect log, each with the log's metadata under HEADER."""
    with _open_archive(file, translatable("not an Inspect log: {why}")) as archive:
        samples = [
            entry
            for name, entry in archive.entries.items()
            if name.startswith("samples/") and name.endswith(".json")
        ]
        if not samples:
            raise RowError(message("contains no samples"))
        header = _inspect_header(archive)
        used = 0
        for entry in samples:
            # A sample over MAX_SAMPLE is not unpacked further.
            used += min(entry.file_size, MAX_SAMPLE)
            if used > archive.most:
                raise RowError(_TOO_MUCH)
            sample = _document(archive.zip, entry)
            if not isinstance(sample, UnreadRow):
                # Events repeat the messages, and are most of a sample.
                sample.pop("events", None)
                sample[HEADER] = header
            yield sample


def _inspect_header(archive: _Archive) -> Row:
    """Return the metadata of the evaluation: as of its end, else as of its start."""
    header: Row = {}
    for name in ("_journal/start.json", "header.json"):
        if name in archive.entries:
            document = _document(archive.zip, archive.entries[name])
            header = mapping(document.get("eval"))
    return header


@contextmanager
def _open_archive(file: IO[bytes], refusal: str) -> Iterator[_Archive]:
    """Open a zip archive; ``refusal`` is the text of an error, which contains {why}."""
    try:
        with open_zip(file) as archive:
            # Of several documents with the same name, use the last one.
            entries = {entry.filename: entry for entry in archive.infolist()}
            size = archive.fp.seek(0, io.SEEK_END) if archive.fp else 0
            # Entries with the same data could unpack one small file any number of times.
            if sum(entry.compress_size for entry in entries.values()) > size:
                raise RowError("the entries of the archive overlap")
            yield _Archive(archive, entries, most=MAX_SAMPLE + MOST_GROWTH * size)
    except RowError:
        raise
    except _ZIP_ERRORS as error:
        raise RowError(message(refusal, why=str(error))) from None


def zip_members(source: Source) -> list[str]:
    """Return ARCHIVE/MEMBER for each log in a zip archive; [] if it cannot be read."""
    try:
        with source.open() as stream, _open_archive(stream, _NO_ZIP) as archive:
            logs = filter(_is_log, archive.entries)
            return [f"{source.name}/{name}" for name in logs]
    except (RowError, *_ZIP_ERRORS):
        return []


def _is_log(name: str) -> bool:
    # macOS adds files such as ``__MACOSX/._a.jsonl``, which are no logs.
    return name.lower().endswith(_JSON) and not PurePath(name).name.startswith(".")


def _zipped_objects(file: IO[bytes]) -> Iterator[Row]:
    """Yield the objects of all logs in a zip archive, as ``Member`` of their file."""
    used = 0  # bytes unpacked
    with _open_archive(file, _NO_ZIP) as archive:
        for name in filter(_is_log, archive.entries):
            entry = archive.entries[name]
            used += entry.file_size
            if used > archive.most:
                raise RowError(_TOO_MUCH)
            try:
                for row in _rows_of_member(archive.zip, entry):
                    yield row if isinstance(row, UnreadRow) else Member(row, name)
            except _ZIP_ERRORS as error:
                text = message(
                    "the rest of {member} cannot be read: {why}",
                    member=repr(name[:80]),
                    why=str(error),
                )
                yield UnreadRow(RowError(text))


def _rows_of_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[Row]:
    """Yield the objects of a JSON document or of JSON lines in an archive."""
    if info.filename.lower().endswith(".json"):
        yield from json_objects(io.BytesIO(_decompress(archive, info)))
        return
    with (
        archive.open(info) as entry,
        io.BufferedReader(cast("io.RawIOBase", entry)) as lines,
    ):
        # One byte more than allowed shows that a line is too long.
        while line := lines.readline(MAX_SAMPLE + 1):
            if line.strip():
                yield _row_of_line(line)


def _row_of_line(line: bytes) -> Row:
    """Return the JSON object in a line, or an ``UnreadRow``."""
    try:
        if len(line) > MAX_SAMPLE:
            raise LimitError(message("larger than {most:count} bytes", most=MAX_SAMPLE))
        obj = load_json(line)
        if not isinstance(obj, dict):
            raise RowError(message("contains no JSON object"))
        return obj
    except RowError as error:
        return UnreadRow(error)
    except ValueError as error:
        return UnreadRow(RowError(message("not valid JSON: {why}", why=str(error))))


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Row:
    """Return an archive entry's JSON object, or an ``UnreadRow``."""
    try:
        document = load_json(_decompress(archive, info))
    except _ZIP_ERRORS as error:
        return UnreadRow(RowError(f"{info.filename[:80]}: {error}"))
    if isinstance(document, dict):
        return document
    return UnreadRow(RowError(f"{info.filename[:80]}: not a JSON object"))


def _decompress(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return an archive entry's decompressed bytes; raise ValueError if over MAX_SAMPLE."""
    if info.compress_type not in _METHODS:
        raise ValueError("compressed with an unsupported method")
    if info.compress_type != _ZSTANDARD:
        with archive.open(info) as entry:
            return read_stream(entry, MAX_SAMPLE)
    # zipfile does not support zstandard before Python 3.14: find the data after the entry's local
    # header, whose name and extra field may be longer than in the archive's directory.
    stream = archive.fp
    if info.compress_size > MAX_SAMPLE or stream is None:
        raise ValueError(f"over {MAX_SAMPLE:,} bytes")
    stream.seek(info.header_offset)
    header = stream.read(_LOCAL_HEADER.size)
    signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile("an entry of the directory points to no file")
    stream.seek(name_bytes + extra_bytes, io.SEEK_CUR)
    compressed = io.BytesIO(stream.read(info.compress_size))
    return read_stream(cast("IO[bytes]", zstd.ZstdFile(compressed)), MAX_SAMPLE)


# Container -> reader of its objects
_READERS: dict[str, Callable[[IO[bytes]], Iterator[Row]]] = {
    "inspect": _inspect_samples,
    "parquet": parquet_rows,
    "sqlite": _sqlite_rows,
    "torch": torch_rows,
    "zip": _zipped_objects,
}
