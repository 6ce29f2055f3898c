"""List the fields of JSON files and tables in no known format, for ``rlreport inspect``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import RowError
from rlreport.fields import kind_of
from rlreport.formats.logged import dicts
from rlreport.formats.mapping import next_options
from rlreport.read.lines import DAMAGED, ByteRange, Lines, csv_cells, csv_separator
from rlreport.read.listing import LINE_SUFFIXES, find_sources, is_url
from rlreport.system.documents import MAX_JSON, load_json, read_bounded
from rlreport.system.stores import Source
from rlreport.text.clean import safe_text, shortened

_MAX_FILES = 5
_MAX_FIELDS = 40  # of a file
_MAX_OBJECTS = 20  # at its start
_MAX_EXAMPLE = 60  # characters
_MAX_NAME = 60
_MAX_LEVELS = 3  # of objects in objects
_HEAD = 1 << 20  # bytes of a file of lines


class FieldLine(NamedTuple):
    """A field of the first objects of a file."""

    name: str  # dotted
    kinds: str  # such as "number or text"
    example: str


class FileFields(NamedTuple):
    """The fields of a file."""

    name: str
    what: str  # such as "a JSON array of 30 objects"
    fields: list[FieldLine]
    next: str  # what to try, or what is needed; "" for nothing


def field_lists(
    paths: Sequence[str | Path], names: Collection[str] | None = None
) -> list[FileFields]:
    """Return the fields of the first local files at paths that can be parsed.

    ``names`` restricts them to these files, by their names in the listing.
    """
    listing = find_sources(paths)
    found: list[FileFields] = []
    for source in (*listing.sources, *listing.other):
        if len(found) >= _MAX_FILES:
            break
        if is_url(source.path) or (names is not None and source.name not in names):
            continue
        fields = _fields_of(source)
        if fields is not None:
            found.append(fields)
    return found


def _fields_of(source: Source) -> FileFields | None:
    """Return the fields of a file, None if it is neither JSON nor a table or has no value."""
    name = source.name.lower()
    try:
        if name.endswith((*LINE_SUFFIXES, ".jsonl.zip")):
            return _of_lines(source)
        if name.endswith((".csv", ".tsv")):
            return _of_table(source)
        return _of_document(source)
    except (RowError, *DAMAGED, ValueError, OSError, RecursionError):
        return None


def _listed(source: Source, what: str, objects: Sequence[dict[str, Any]]) -> FileFields:
    return FileFields(source.name, what, _lines(objects), next_options(objects))


def _of_lines(source: Source) -> FileFields | None:
    """Return the fields of a file of JSON objects, None if its start has none."""
    objects: list[dict[str, Any]] = []
    end = min(_HEAD, source.size)
    for line in islice(Lines(ByteRange(0, source, 0, end)), _MAX_OBJECTS):
        try:
            value = load_json(line.data or b"", "replace")
        except ValueError:
            continue
        objects += dicts([value])
    if not objects:
        return None
    return _listed(source, "one JSON object per line", objects)


def _of_table(source: Source) -> FileFields | None:
    """Return the columns of a CSV file with a row or more as fields, else None."""
    rows: list[list[str]] = []
    separator = ","
    lines = Lines(ByteRange(0, source, 0, source.size))
    for line in islice(lines, _MAX_OBJECTS + 1):
        data = line.data or b""
        if not rows:
            separator = csv_separator(data)
        rows.append(csv_cells(data, separator))
    if len(rows) < 2:
        return None
    header, *cells = rows
    # A row may be short or long.
    objects = []
    for row in cells:
        objects.append(dict(zip(header, map(_cell, row), strict=False)))
    return FileFields(source.name, "a table", _lines(objects), "")


def columns_of(source: Source) -> list[str]:
    """Return the names of the columns of a table in a local file, [] if it cannot be read."""
    try:
        lines = Lines(ByteRange(0, source, 0, min(_HEAD, source.size)))
        first = next(iter(lines), None)
    except (RowError, *DAMAGED):
        return []
    data = b"" if first is None else first.data or b""
    return csv_cells(data, csv_separator(data))


def _cell(cell: str) -> float | str | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return cell


def _of_document(source: Source) -> FileFields | None:
    value = load_json(read_bounded(Path(source.path), MAX_JSON), "replace")
    if isinstance(value, dict):
        return _listed(source, "a JSON object", [value])
    if not isinstance(value, list):
        text = f"JSON, but no object or array: {_example(value)}"
        return _listed(source, text, [])
    objects = dicts(value)
    what = f"a JSON array of {len(value):,} values, {len(objects):,} of them objects"
    return _listed(source, what, objects[:_MAX_OBJECTS])


def _lines(objects: Sequence[Mapping[str, Any]]) -> list[FieldLine]:
    """Return a line for each of the first fields of objects, in the order of the log."""
    kinds: dict[str, set[str]] = {}
    examples: dict[str, str] = {}
    for obj in objects:
        for name, value in _named(obj, "", _MAX_LEVELS):
            kinds.setdefault(name, set()).add(_kind(value))
            if value is not None:
                examples.setdefault(name, _example(value))
    return [
        FieldLine(
            shortened(safe_text(name), _MAX_NAME),
            " or ".join(sorted(kinds[name])),
            examples.get(name, "null"),
        )
        for name in islice(kinds, _MAX_FIELDS)
    ]


def _named(
    obj: Mapping[str, Any], prefix: str, levels: int
) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of what is in an object, and in objects in it."""
    for key, value in obj.items():
        if isinstance(value, dict) and value and levels > 1:
            yield from _named(value, f"{prefix}{key}.", levels - 1)
        else:
            yield f"{prefix}{key}", value


def _kind(value: object) -> str:
    if isinstance(value, list) and value:
        return f"list of {kind_of(value[0])}s"
    return "null" if value is None else kind_of(value)


def _example(value: object) -> str:
    """Return a short text of a value, on one line."""
    if isinstance(value, list):
        items = ", ".join(_example(item) for item in value[:3])
        rest = ", …" if len(value) > 3 else ""
        return shortened(f"[{items}{rest}]", _MAX_EXAMPLE)
    if isinstance(value, str):
        value = value[:_MAX_EXAMPLE]
    if isinstance(value, dict):
        return shortened(
            "{" + ", ".join(map(str, list(value)[:3])) + ", …}", _MAX_EXAMPLE
        )
    return shortened(safe_text(json.dumps(value, ensure_ascii=False)), _MAX_EXAMPLE)
