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
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pandas as pd

from rlreport.errors import RowError
from rlreport.text.clean import safe_value
from rlreport.text.messages import message

if TYPE_CHECKING:
    from _typeshed import SupportsRead

MAX_JSON = 256_000_000  # bytes of a JSON document, which is parsed at once
MAX_MEMORY = 1_000_000_000  # estimated bytes of memory for the values of one JSON document
MAX_DEPTH = 200  # levels of nesting in JSON
# Maximum bytes of a configuration file, and characters of a YAML file with aliases expanded
MAX_CONFIG = 2_000_000

MAX_NODES = 100_000  # values of a YAML file with its aliases expanded
MAX_CONFIG_DEPTH = 64  # levels of nesting in a configuration file
MAX_LINE = 64_000_000  # bytes of a line in a file of trainer metrics
MAX_COLUMNS = 5_000  # columns of a table
# Bytes of a zip archive's list of entries; in memory it takes about 15 times as many
MAX_DIRECTORY = 32_000_000

_MARKS = b'[]{}",'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_STEPS = bytes.maketrans(b"[]{},", b"\x01\xff\x01\xff\x00")
_PART_OF_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART_OF_KEY}){{{MAX_CONFIG_DEPTH}}}")
# Matches base-60 YAML numbers such as ``1:30:00`` that are longer than 100 characters
_LONG_BASE_60 = re.compile(r"(?=.{100})[-+0-9_:.]*:[-+0-9_:.]*")

_MAX_DIRECTIVES = 100


class LimitError(RowError):
    """A file exceeds a limit; the message names the limit."""


def read_bounded(path: Path, most: int) -> bytes:
    """Return a file's content; raise OSError if not regular, LimitError if over ``most`` bytes."""
    if not path.is_file():
        raise OSError("not a regular file")
    with path.open("rb") as stream:
        return read_stream(stream, most)


def read_stream(stream: SupportsRead[bytes], most: int) -> bytes:
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
    if len(data) <= MAX_DEPTH:
        return
    # Remove escaped quotes, so that every second quote ends a string.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    marks = plain.translate(None, _NO_MARKS)
    memory = len(data) + 56 * (marks.count(b'"') // 2)
    if memory <= MAX_MEMORY:
        # Adjacent quotes enclose no mark: removing them leaves the other pairs intact.
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
        raise _too_deep(MAX_DEPTH)


def _too_deep(most: int) -> LimitError:
    return LimitError(message("nested too deeply, over {most} levels", most=most))


def load_config(path: Path) -> Any:
    """Parse a configuration file; the suffix selects JSON, TOML or YAML.

    Errors are OSError or ValueError, and never quote the file, which may contain secrets.
    """
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


def load_toml(text: str) -> dict[str, Any]:
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
        _check_yaml(yaml.parse(text, Loader=loader), text)
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem):  # libyaml has a limit of its own
            raise _too_deep(MAX_CONFIG_DEPTH) from None
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        raise ValueError(f"not plain YAML{line}") from None
    except LimitError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise ValueError("not plain YAML") from None


def _check_yaml(events: Iterator[Any], text: str) -> None:  # noqa: C901
    import yaml

    # The parser compares each directive with all earlier ones.
    if text.count("\n%") > _MAX_DIRECTIVES:
        raise LimitError(message("more than {most} directives", most=_MAX_DIRECTIVES))
    sizes: dict[str, tuple[int, int]] = {}
    nodes = characters = 0
    open_nodes: list[tuple[str | None, int, int]] = []
    for event in events:
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            # The size of a node that contains itself is not known yet.
            alias_size = sizes.get(anchor or "", (1, 0))
            nodes, characters = nodes + alias_size[0], characters + alias_size[1]
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and _LONG_BASE_60.fullmatch(event.value):
                raise ValueError("a number whose conversion takes quadratic time")
            nodes, characters = nodes + 1, characters + len(event.value)
            if anchor:
                sizes[anchor] = (1, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            nodes += 1
            open_nodes.append((anchor, nodes - 1, characters))
        elif isinstance(event, yaml.CollectionEndEvent):
            name, nodes_before, characters_before = open_nodes.pop()
            if name:
                sizes[name] = (nodes - nodes_before, characters - characters_before)
        if len(open_nodes) > MAX_CONFIG_DEPTH:
            raise _too_deep(MAX_CONFIG_DEPTH)
        if nodes > MAX_NODES:
            raise LimitError(
                message("more than {most:count} values with aliases expanded", most=MAX_NODES)
            )
        if characters > MAX_CONFIG:
            raise LimitError(
                message("more than {most:count} characters with aliases expanded", most=MAX_CONFIG)
            )


def load_csv(data: bytes, cells: int, **options: Any) -> pd.DataFrame:
    """Parse a CSV table; raise LimitError if over MAX_COLUMNS columns or ``cells`` cells."""
    head = io.TextIOWrapper(io.BytesIO(data[: 100 * MAX_COLUMNS]), "utf-8", "replace", newline="")
    try:
        columns = len(next(csv.reader(head), []))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if columns > MAX_COLUMNS:
        raise LimitError(message("more than {most:count} columns", most=MAX_COLUMNS))
    rows = data.count(b"\n") + data.count(b"\r")
    if max(data.count(b",") + rows, columns * rows) > cells:
        raise LimitError(message("more than {most:count} cells", most=cells))
    table: pd.DataFrame = pd.read_csv(io.BytesIO(data), index_col=False, **options)
    return table


@contextmanager
def open_zip(file: Any) -> Iterator[zipfile.ZipFile]:
    is_path = isinstance(file, str | Path)
    with Path(file).open("rb") if is_path else nullcontext(file) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(0, size - (1 << 16) - 22))
        tail = stream.read()
        # The end records of ZIP and ZIP64 contain the size of the list of entries, in bytes.
        for mark, layout, offset in ((b"PK\x05\x06", "<I", 12), (b"PK\x06\x06", "<Q", 40)):
            start = tail.rfind(mark)
            if 0 <= start <= len(tail) - offset - 8:
                (directory_size,) = struct.unpack_from(layout, tail, start + offset)
                if directory_size > MAX_DIRECTORY:
                    raise LimitError(
                        message("list of entries exceeds {most:count} bytes", most=MAX_DIRECTORY)
                    )
        stream.seek(0)
        with zipfile.ZipFile(stream) as archive:
            yield archive
