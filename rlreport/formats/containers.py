"""Logs that are not lines: JSON documents, parquet and packed files, object by object.

Lines are the reader's own business. Here an object's address is its index in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from rlreport.errors import MissingExtraError
from rlreport.formats.base import Row, RowError
from rlreport.text.messages import message

File = str | Path | IO[bytes]

MAX_JSON = 256_000_000
"""Bytes of a JSON document read at most: it must be parsed whole, as a line of lines."""

_BATCH = 256
_SUFFIXES = {
    ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".parquet": "parquet", ".pt": "torch",
    ".db": "sqlite",
    ".eval": "inspect",
}  # fmt: skip
_COMPRESSED = ("lines", "json")
"""Containers that may be compressed as a whole."""


def container_of(name: str) -> str | None:
    """Return how a file holds its objects, by its suffix; None for other files."""
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
    lines after all. A parquet file is read in batches of rows.

    Args:
        file: path or binary stream.
        container: see ``container_of``.
        wanted: indices, so that as little else is read as may be; None for all.

    Raises:
        RowError: the file is no such container, or a JSON document above MAX_JSON.
        MissingExtraError: parquet without pyarrow.
    """
    if container not in _COMPRESSED:
        yield from _reader(container)(file, wanted)
        return
    for index, obj in enumerate(_json_objects(file)):
        if wanted is None or index in wanted:
            yield index, obj


def _reader(container: str) -> Callable[[File, set[int] | None], Iterator[tuple[int, Row]]]:
    """Return what yields the wanted objects of a file, or all of them."""
    if container == "torch":
        from rlreport.formats.torch_file import torch_rows

        return torch_rows
    if container == "sqlite":
        from rlreport.formats.trackio import sqlite_rows

        return sqlite_rows
    if container == "inspect":
        from rlreport.formats.inspect_ai import sample_rows

        return sample_rows
    return _parquet_rows


def _json_objects(file: File) -> Iterator[Row]:
    data = _read(file)
    try:
        document = _loads(data)
    except ValueError as error:
        # Data sets in `.json` are often lines.
        try:
            document = [_loads(line) for line in data.splitlines() if line.strip()]
        except ValueError:
            raise RowError(message("no JSON document: {why}", why=str(error))) from None
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
    """Tell whether a document is a table as W&B and pandas write it: names, and rows of values."""
    names, data = document.get("columns"), document.get("data")
    named = isinstance(names, list) and bool(names) and all(isinstance(n, str) for n in names)
    return named and isinstance(data, list) and len(document) <= 3


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # NaN, Infinity, lone surrogates and a byte order mark: json takes them.
        try:
            return json.loads(data.decode("utf-8-sig"))
        except RecursionError:
            raise ValueError("nested too deep") from None


def _read(file: File) -> bytes:
    if isinstance(file, str | Path):
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_JSON + 1)
    else:
        file.seek(0)
        data = file.read(MAX_JSON + 1)
    if len(data) > MAX_JSON:
        raise RowError(
            message(
                "a JSON document of over {most:count} bytes; write it as lines (.jsonl)",
                most=MAX_JSON,
            )
        )
    return data


def _parquet_rows(file: File, wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading parquet logs needs pyarrow: pip install 'rlreport[parquet]'"
        ) from None
    if not isinstance(file, str | Path):
        file.seek(0)
    try:
        with pq.ParquetFile(file) as parquet:
            start = 0
            for group in range(parquet.num_row_groups):
                size = parquet.metadata.row_group(group).num_rows
                if wanted is None or any(start <= index < start + size for index in wanted):
                    yield from _group_rows(parquet, group, start, wanted)
                start += size
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise RowError(message("no parquet file: {why}", why=str(error))) from None


def _group_rows(
    parquet: Any, group: int, start: int, wanted: set[int] | None
) -> Iterator[tuple[int, Row]]:
    for batch in parquet.iter_batches(batch_size=_BATCH, row_groups=[group]):
        if wanted is None:
            yield from enumerate(batch.to_pylist(), start)
        else:
            for i in range(batch.num_rows):
                if start + i in wanted:
                    yield start + i, batch.slice(i, 1).to_pylist()[0]
        start += batch.num_rows
