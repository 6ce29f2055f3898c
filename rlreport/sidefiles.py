"""Read untrusted side files in bounded memory and time.

Configuration, trainer metrics, earlier reports and JSON documents are checked for their size,
depth, number of values and columns before they are parsed.
"""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
import pandas as pd

from rlreport.errors import RowError
from rlreport.text.clean import safe_value
from rlreport.text.messages import message

MAX_JSON = 256_000_000  # bytes of a JSON document, which is parsed whole
MAX_MEMORY = 1_000_000_000  # estimated bytes that the parsed values of one JSON document take
MAX_DEPTH = 200  # levels of nesting in JSON
MAX_CONFIG = 2_000_000
"""Bytes of a configuration file, and characters after its YAML aliases are expanded."""

MAX_NODES = 100_000  # values of a YAML file after its aliases are expanded
MAX_CONFIG_DEPTH = 64  # levels of nesting in a configuration file
MAX_LINE = 64_000_000  # bytes of a line in a file of trainer metrics
MAX_COLUMNS = 5_000  # columns of a table
MAX_DIRECTORY = 32_000_000
"""Bytes of the list of entries in a zip archive; an entry takes about 15 times that in memory."""

_MARKS = b'[]{}",'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_STEPS = bytes.maketrans(b"[]{},", b"\x01\xff\x01\xff\x00")
_PART_OF_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART_OF_KEY}){{{MAX_CONFIG_DEPTH}}}")
_LONG_BASE_60 = re.compile(r"(?=.{100})[-+0-9_:.]*:[-+0-9_:.]*")
"""A sexagesimal YAML number such as ``1:30:00`` with more than 100 characters."""

_MAX_DIRECTIVES = 100


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes."""
        ...


class LimitError(RowError):
    """A file exceeds a limit, which the message names."""


def read_bounded(path: Path, most: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: there is no such file, or it is a pipe or a device, which may have no end.
        LimitError: it has more than ``most`` bytes.
    """
    if not path.is_file():
        raise OSError("is no regular file")
    with path.open("rb") as stream:
        return read_stream(stream, most)


def read_stream(stream: Readable, most: int) -> bytes:
    """Return the rest of a stream, which may decompress to any size.

    Raises:
        LimitError: there are more than ``most`` bytes.
    """
    data = stream.read(most + 1)
    if len(data) > most:
        raise LimitError(message("larger than {most:count} bytes", most=most))
    return data


def load_json(data: bytes, errors: str = "strict") -> Any:
    """Return the value of a JSON document; NaN and Infinity are accepted.

    Lone surrogates become U+FFFD.

    Args:
        data: the document.
        errors: how bytes that are not UTF-8 are treated, as for ``bytes.decode``.

    Raises:
        LimitError: it is nested deeper than ``MAX_DEPTH`` or its values would take more than
            ``MAX_MEMORY``.
        ValueError: it is not JSON.
    """
    _check_json(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return safe_value(json.loads(data.decode("utf-8-sig", errors)))


def _check_json(data: bytes) -> None:
    if len(data) <= MAX_DEPTH:
        return
    # Without escaped quotes, every second quote ends a string.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    marks = plain.translate(None, _NO_MARKS)
    memory = len(data) + 56 * (marks.count(b'"') // 2)
    if memory <= MAX_MEMORY:
        # Two quotes with no mark between them can go; the others still pair up.
        outside = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
        memory += 64 * outside.count(b"[") + 200 * outside.count(b"{") + 40 * outside.count(b",")
    if memory > MAX_MEMORY:
        raise LimitError(
            message(
                "its values need over {most:count} bytes of memory; convert it to .jsonl",
                most=MAX_MEMORY,
            )
        )
    steps = np.frombuffer(outside.translate(_STEPS), np.int8)
    if np.cumsum(steps, dtype=np.int32).max(initial=0) > MAX_DEPTH:
        raise LimitError(message("nested too deep, over {most} levels", most=MAX_DEPTH))


def load_config(path: Path) -> Any:
    """Return the values of a configuration file: JSON, TOML or YAML, by its suffix.

    Messages never quote the file, which may contain secrets.

    Raises:
        OSError: it cannot be opened.
        LimitError: it is too large, too deep, or its aliases expand too far.
        ValueError: it is not valid.
    """
    data = read_bounded(path, MAX_CONFIG)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    suffix = path.suffix.lower()
    if suffix == ".json":
        try:
            return load_json(text.encode())
        except json.JSONDecodeError as error:
            raise ValueError(f"is no JSON, line {error.lineno}") from None
    if suffix == ".toml":
        try:
            return load_toml(text)
        except tomllib.TOMLDecodeError:
            raise ValueError("is no TOML") from None
    return load_yaml(text)


def load_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML file.

    Raises:
        LimitError: it is nested too deep.
        ValueError: it is not TOML.
    """
    too_deep = LimitError(message("nested too deep, over {most} levels", most=MAX_CONFIG_DEPTH))
    # The time that tomllib takes for a dotted key is quadratic in its parts.
    if _DOTTED.search(text):
        raise too_deep
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise too_deep from None


def load_yaml(text: str) -> Any:
    """Return the values of a YAML file, with plain types only.

    Raises:
        LimitError: it is nested too deep, or its aliases expand too far.
        ValueError: it is not plain YAML.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_yaml(yaml.parse(text, Loader=loader), text)
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ValueError(f"is no plain YAML{line}") from None
    except LimitError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise ValueError("is no plain YAML") from None


def _check_yaml(events: Iterator[Any], text: str) -> None:
    """Raise LimitError unless the text is shallow and stays small with its aliases expanded."""
    import yaml

    # The parser compares each directive with all before it.
    if text.count("\n%") > _MAX_DIRECTIVES:
        raise LimitError(message("more than {most} directives", most=_MAX_DIRECTIVES))
    sizes: dict[str, tuple[int, int]] = {}
    nodes = characters = 0
    opened: list[tuple[str | None, int, int]] = []
    for event in events:
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            # A node that contains itself has no size yet.
            more = sizes.get(anchor or "", (1, 0))
            nodes, characters = nodes + more[0], characters + more[1]
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and _LONG_BASE_60.fullmatch(event.value):
                raise ValueError("a number whose conversion takes quadratic time")
            nodes, characters = nodes + 1, characters + len(event.value)
            if anchor:
                sizes[anchor] = (1, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            nodes += 1
            opened.append((anchor, nodes - 1, characters))
        elif isinstance(event, yaml.CollectionEndEvent):
            name, nodes_before, characters_before = opened.pop()
            if name:
                sizes[name] = (nodes - nodes_before, characters - characters_before)
        if len(opened) > MAX_CONFIG_DEPTH:
            raise LimitError(message("nested too deep, over {most} levels", most=MAX_CONFIG_DEPTH))
        if nodes > MAX_NODES:
            raise LimitError(
                message("more than {most:count} values with aliases expanded", most=MAX_NODES)
            )
        if characters > MAX_CONFIG:
            raise LimitError(
                message("more than {most:count} characters with aliases expanded", most=MAX_CONFIG)
            )


def load_csv(data: bytes, cells: int, **options: Any) -> pd.DataFrame:
    """Return a CSV table.

    Args:
        data: the file's bytes.
        cells: the largest number of cells.
        options: of ``pandas.read_csv``.

    Raises:
        LimitError: it has more than ``MAX_COLUMNS`` columns, or more cells.
        ValueError: it is no table.
    """
    head = io.TextIOWrapper(io.BytesIO(data[: 100 * MAX_COLUMNS]), "utf-8", "replace", newline="")
    try:
        columns = len(next(csv.reader(head), []))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if columns > MAX_COLUMNS:
        raise LimitError(message("a table of over {most:count} columns", most=MAX_COLUMNS))
    rows = data.count(b"\n") + data.count(b"\r")
    if max(data.count(b",") + rows, columns * rows) > cells:
        raise LimitError(message("a table of over {most:count} cells", most=cells))
    table: pd.DataFrame = pd.read_csv(io.BytesIO(data), index_col=False, **options)
    return table


@contextmanager
def open_zip(file: Any) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive.

    Args:
        file: path or binary stream.

    Raises:
        LimitError: its list of entries is too long.
        OSError, zipfile.BadZipFile, ValueError, NotImplementedError: it is no archive.
    """
    local = isinstance(file, str | Path)
    with Path(file).open("rb") if local else nullcontext(file) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(0, size - (1 << 16) - 22))
        end = stream.read()
        # The record at the end says how long the list of entries is, and so does that of ZIP64.
        for mark, layout, at in ((b"PK\x05\x06", "<I", 12), (b"PK\x06\x06", "<Q", 40)):
            start = end.rfind(mark)
            if 0 <= start <= len(end) - at - 8:
                (listed,) = struct.unpack_from(layout, end, start + at)
                if listed > MAX_DIRECTORY:
                    raise LimitError(
                        message("a list of entries of over {most:count} bytes", most=MAX_DIRECTORY)
                    )
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            yield archive
