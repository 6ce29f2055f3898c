"""Read untrusted files in bounded memory and time.

Configurations, trainer metrics, earlier reports and other JSON documents are refused before
parsing if they are too large, are nested too deeply, or have too many values or columns.
"""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from rlreport.errors import RowError, UsageError
from rlreport.text.clean import safe_value
from rlreport.text.messages import message

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import SupportsRead

MAX_JSON = 256_000_000  # bytes of a JSON document, which is parsed at once
# estimated bytes of memory for the values of one JSON document
MAX_MEMORY = 1_000_000_000
MAX_DEPTH = 200  # levels of nesting in JSON
# Maximum bytes of a configuration file, and characters of a YAML file with aliases expanded
MAX_CONFIG = 2_000_000
MAX_TOML = 1_000_000  # bytes of a file of thresholds or settings

MAX_NODES = 100_000  # values of a YAML file with its aliases expanded
MAX_CONFIG_DEPTH = 64  # levels of nesting in a configuration file
MAX_LINE = 64_000_000  # bytes of a line in a file of trainer metrics
MAX_COLUMNS = 5_000  # columns of a table
# Bytes of a zip archive's list of entries; in memory it takes about 15 times as many
MAX_DIRECTORY = 32_000_000

# Estimated bytes of memory for a string, an array, an object, and an element of these
_STRING_BYTES = 56
_ARRAY_BYTES = 64
_OBJECT_BYTES = 200
_ELEMENT_BYTES = 40

_MARKS = b'[]{}",'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
# Mark -> by how many levels of nesting what follows is deeper, as int8: 1, −1 or 0
_DEPTH_CHANGES = bytes.maketrans(b"[]{},", b"\x01\xff\x01\xff\x00")
_PART_OF_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART_OF_KEY}){{{MAX_CONFIG_DEPTH}}}")
# Matches base-60 YAML numbers such as ``1:30:00`` that are longer than 100 characters
_LONG_BASE_60 = re.compile(r"(?=.{100})[-+0-9_:.]*:[-+0-9_:.]*")

_MAX_DIRECTIVES = 100
# Bytes at the start of a table in which the columns of its header are counted
_MAX_HEADER = 100 * MAX_COLUMNS


class LimitError(RowError):
    """A file exceeds a limit; the message names the limit."""


def read_bounded(path: Path, most: int) -> bytes:
    """Return a file's content; raise OSError if not regular, LimitError if over ``most`` bytes."""
    if not path.is_file():
        raise OSError("not a regular file")
    with path.open("rb") as stream:
        return read_stream(stream, most)


def read_stream(stream: SupportsRead[bytes], most: int) -> bytes:
    """Return the rest of a stream; raise LimitError if it is over ``most`` bytes."""
    data = stream.read(most + 1)
    if len(data) > most:
        raise LimitError(message("larger than {most:count} bytes", most=most))
    return data


def load_json(data: bytes, errors: str = "strict") -> Any:
    """Parse JSON (also NaN, Infinity, lone surrogates as U+FFFD); raise LimitError if too large."""
    _check_json(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return safe_value(json.loads(data.decode("utf-8-sig", errors)))


def _check_json(data: bytes) -> None:
    """Raise LimitError if a document needs too much memory, or is nested too deeply.

    Both are estimated from its brackets, commas and quotes, without parsing it.
    """
    if len(data) <= MAX_DEPTH:  # too short for either
        return
    import numpy as np  # lazily, as a file of settings is read before NumPy is needed

    plain = data
    if b"\\" in data:
        # Remove escaped quotes, so that every second quote ends a string.
        plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(None, _NO_MARKS)
    memory = len(data) + _STRING_BYTES * (marks.count(b'"') // 2)
    # Checked before the marks are split, which itself takes memory for each string.
    if memory > MAX_MEMORY:
        raise _too_much_memory()
    # Of the parts between quotes, every second lies outside of strings; marks inside do not count.
    # Adjacent quotes enclose no mark: removing them leaves the other pairs intact.
    outside = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    memory += _ARRAY_BYTES * outside.count(b"[")
    memory += _OBJECT_BYTES * outside.count(b"{")
    memory += _ELEMENT_BYTES * outside.count(b",")
    if memory > MAX_MEMORY:
        raise _too_much_memory()
    # 1 for an opening bracket, −1 for a closing one: their running sum is the depth.
    depth_changes = np.frombuffer(outside.translate(_DEPTH_CHANGES), np.int8)
    if np.cumsum(depth_changes, dtype=np.int32).max(initial=0) > MAX_DEPTH:
        raise _too_deep(MAX_DEPTH)


def _too_much_memory() -> LimitError:
    return LimitError(
        message(
            "its values need over {most:count} bytes of memory; convert it to .jsonl",
            most=MAX_MEMORY,
        )
    )


def _too_deep(most: int) -> LimitError:
    return LimitError(message("nested too deeply, over {most} levels", most=most))


def load_config(path: Path) -> Any:
    """Parse a configuration file; the suffix selects JSON, TOML or YAML.

    Errors are OSError or ValueError, and never quote the file, which may contain secrets.
    """
    import tomllib

    data = read_bounded(path, MAX_CONFIG)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    suffix = path.suffix.lower()
    try:
        if suffix == ".json":
            return load_json(text.encode())
        return load_toml(text) if suffix == ".toml" else load_yaml(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON (line {error.lineno})") from None
    except tomllib.TOMLDecodeError:
        raise ValueError("not valid TOML") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a TOML file with ``what`` ("thresholds"), or raise UsageError."""
    try:
        # Not of pipes and devices, which may be endless
        is_small = path.is_file() and path.stat().st_size <= MAX_TOML
        if path.exists() and not is_small:
            raise UsageError(
                f"{path}: must be a TOML file of at most {MAX_TOML:,} bytes"
            )
        return load_toml(read_bounded(path, MAX_TOML).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot read {what}: {error.strerror or error}"
        ) from error
    # No UTF-8, no TOML, a number of thousands of digits, NUL in a name
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise LimitError if it is nested too deeply."""
    import tomllib

    # tomllib needs time quadratic in the number of parts of a dotted key.
    if _DOTTED.search(text):
        raise _too_deep(MAX_CONFIG_DEPTH)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _too_deep(MAX_CONFIG_DEPTH) from None


def load_yaml(text: str) -> Any:
    """Parse YAML of plain types (texts, numbers, lists, mappings); raise ValueError for others."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Events are checked before values are made: aliases can make a short text huge.
        _check_yaml(yaml.parse(text, Loader=loader), text)
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem):  # libyaml has a limit of its own
            raise _too_deep(MAX_CONFIG_DEPTH) from None
        mark = error.problem_mark
        line = "" if mark is None else f" (line {mark.line + 1})"
        raise ValueError(f"not plain YAML{line}") from None
    except LimitError:  # a ValueError, too
        raise
    # PyYAML raises these for values such as a date in month 13.
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
        TypeError,
        KeyError,
        AttributeError,
    ):
        raise ValueError("not plain YAML") from None


def _check_yaml(events: Iterator[Any], text: str) -> None:
    """Raise LimitError if YAML is too large with its aliases expanded, or nested too deeply.

    ``events`` are those of the parser for ``text``.
    """
    # The parser compares each directive (a line such as "%TAG …") with all earlier ones.
    if text.count("\n%") > _MAX_DIRECTIVES:
        raise LimitError(message("more than {most} directives", most=_MAX_DIRECTIVES))
    size = _ExpandedSize()
    for event in events:
        size.add(event)
        size.check()


class _ExpandedSize:
    """Counts the values (nodes) and characters of YAML with its aliases expanded."""

    def __init__(self) -> None:
        self._nodes = 0
        self._characters = 0
        # Anchor -> nodes and characters of the value that it names
        self._named: dict[str, tuple[int, int]] = {}
        # Of each open list or mapping: its anchor, and what was counted before it
        self._open: list[tuple[str | None, int, int]] = []

    def add(self, event: Any) -> None:
        """Count an event of the parser; an alias counts as much as the value that it repeats."""
        import yaml

        # The name that an event gives to its value (&name), or that an alias refers to (*name)
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            # A value that contains itself is still open: its size is not known, so it counts as 1.
            nodes, characters = self._named.get(anchor or "", (1, 0))
            self._nodes += nodes
            self._characters += characters
        elif isinstance(event, yaml.ScalarEvent):
            # A scalar without quotes or tag may be read as a number.
            is_plain = event.implicit[0]
            if is_plain and _LONG_BASE_60.fullmatch(event.value):
                raise ValueError("a number whose conversion takes quadratic time")
            self._nodes += 1
            self._characters += len(event.value)
            if anchor:
                self._named[anchor] = (1, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((anchor, self._nodes, self._characters))
            self._nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _close(self) -> None:
        """End the innermost list or mapping; what was counted since its start is its size."""
        anchor, nodes_before, characters_before = self._open.pop()
        if anchor:
            nodes = self._nodes - nodes_before
            self._named[anchor] = (nodes, self._characters - characters_before)

    def check(self) -> None:
        """Raise LimitError if what was counted exceeds a limit."""
        if len(self._open) > MAX_CONFIG_DEPTH:
            raise _too_deep(MAX_CONFIG_DEPTH)
        if self._nodes > MAX_NODES:
            why = message(
                "more than {most:count} values with aliases expanded", most=MAX_NODES
            )
            raise LimitError(why)
        if self._characters > MAX_CONFIG:
            why = message(
                "more than {most:count} characters with aliases expanded",
                most=MAX_CONFIG,
            )
            raise LimitError(why)


def load_csv(data: bytes, most_cells: int, **options: Any) -> pd.DataFrame:
    """Parse a CSV table; raise LimitError if over MAX_COLUMNS columns or ``most_cells`` cells.

    ``options`` are those of ``pandas.read_csv``.
    """
    import pandas as pd

    start = io.BytesIO(data[:_MAX_HEADER])
    head = io.TextIOWrapper(start, "utf-8", "replace", newline="")
    try:
        columns = len(next(csv.reader(head), []))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if columns > MAX_COLUMNS:
        raise LimitError(message("more than {most:count} columns", most=MAX_COLUMNS))
    # Upper bounds, as quoted texts may contain commas and line ends, too
    rows = data.count(b"\n") + data.count(b"\r")
    written_cells = data.count(b",") + rows  # rows may have more cells than the header
    filled_cells = columns * rows  # rows with fewer cells are filled up
    if max(written_cells, filled_cells) > most_cells:
        raise LimitError(message("more than {most:count} cells", most=most_cells))
    # Without ``index_col``, the first column would be an index if rows have a cell too many.
    table: pd.DataFrame = pd.read_csv(io.BytesIO(data), index_col=False, **options)
    return table


class _EndRecord(NamedTuple):
    """The record at the end of a zip that has the size in bytes of its list of entries."""

    mark: bytes
    layout: str  # of the size, for ``struct``
    offset: int  # of the size in the record


_END_RECORDS = (
    _EndRecord(b"PK\x05\x06", "<I", 12),
    _EndRecord(b"PK\x06\x06", "<Q", 40),  # of ZIP64
)
_SIZE_BYTES = 8  # of the size, at most
# Bytes at the end of a zip that the records may lie in: the longest comment and a record
_ZIP_TAIL = (1 << 16) + 22


@contextmanager
def open_zip(file: Any) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, given its path or a stream; raise LimitError if it has too many entries.

    A stream stays open afterwards.
    """
    is_path = isinstance(file, str | Path)
    with Path(file).open("rb") if is_path else nullcontext(file) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(0, size - _ZIP_TAIL))
        # Checked first, as ZipFile reads the list of entries as a whole.
        _check_directory(stream.read())
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            yield archive


def _check_directory(tail: bytes) -> None:
    """Raise LimitError if the end of a zip declares too long a list of entries.

    A zip without a whole record of that size is left to ZipFile, which refuses it.
    """
    for record in _END_RECORDS:
        start = tail.rfind(record.mark)
        size_start = start + record.offset
        if start >= 0 and size_start + _SIZE_BYTES <= len(tail):
            (directory_size,) = struct.unpack_from(record.layout, tail, size_start)
            if directory_size > MAX_DIRECTORY:
                why = message(
                    "list of entries exceeds {most:count} bytes", most=MAX_DIRECTORY
                )
                raise LimitError(why)
