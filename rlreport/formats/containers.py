"""Logs that are not lines: JSON documents, parquet and packed files, object by object.

Lines are the reader's own business. Here an object's address is its index in the file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from rlreport.formats.base import Row, RowError
from rlreport.sidefiles import MAX_JSON, LimitError, load_json, read_stream
from rlreport.text.messages import message

File = str | Path | IO[bytes]

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
    from rlreport.formats.parquet import parquet_rows

    return parquet_rows


def _json_objects(file: File) -> Iterator[Row]:
    data = _read(file)
    try:
        document = load_json(data)
    except LimitError as error:
        raise RowError(message("no JSON document: {why}", why=error.reason)) from None
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
    """Tell whether a document is a table as W&B and pandas write it: names, and rows of values."""
    names, data = document.get("columns"), document.get("data")
    named = isinstance(names, list) and bool(names) and all(isinstance(n, str) for n in names)
    return named and isinstance(data, list) and len(document) <= 3


def _objects_of_lines(data: bytes) -> list[Row]:
    """Return the objects of lines, none if a line is no object."""
    objects: list[Row] = []
    for line in io.BytesIO(data):
        if line.strip():
            try:
                obj = load_json(line)
            except ValueError:
                return []
            if not isinstance(obj, dict):
                return []
            objects.append(obj)
    return objects


def _read(file: File) -> bytes:
    try:
        if isinstance(file, str | Path):
            with Path(file).open("rb") as opened:
                return read_stream(opened, MAX_JSON)
        file.seek(0)
        return read_stream(file, MAX_JSON)
    except LimitError:
        raise RowError(
            message(
                "a JSON document of over {most:count} bytes; write it as lines (.jsonl)",
                most=MAX_JSON,
            )
        ) from None
