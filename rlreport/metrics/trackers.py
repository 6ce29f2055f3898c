"""Read metrics from the files of experiment trackers: MLflow, Trackio and W&B."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.formats.containers import is_plain_table, open_database
from rlreport.formats.logged import json_object
from rlreport.formats.metric_rows import Record, flat_numbers, numbers_of, step_in
from rlreport.metrics.records import lines_of
from rlreport.system.documents import LimitError, load_json
from rlreport.text.messages import message

MAX_RECORD = 64_000_000  # Maximum size of one record of a W&B file in bytes
_BLOCK = 32_768
_CHUNK_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # Wire types of protocol buffers


def mlflow_records(folder: Path) -> Iterator[Record]:
    """Yield the records of MLflow's ``metrics`` folder, which has a file per metric.

    Each line is "time value step"; other lines, and links, are skipped.
    """
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        name = path.relative_to(folder).as_posix()
        for line in lines_of(path):
            with suppress(ValueError):
                _, value, step = line.split()[:3]
                yield int(step), {name: float(value)}


def trackio_runs(path: Path) -> list[str]:
    """Return the names of the runs that have metrics in a Trackio database, sorted."""
    with closing(open_database(path)) as database:
        if not is_plain_table(database, "metrics"):
            return []
        rows = database.execute("SELECT DISTINCT run_name FROM metrics ORDER BY run_name")
        return [str(row["run_name"]) for row in rows]


def trackio_records(path: Path, run: str) -> Iterator[Record]:
    """Yield the metrics of one run in a Trackio database."""
    query = "SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY rowid"
    with closing(open_database(path)) as database:
        for step, metrics in database.execute(query, (run,)):
            numbers = dict(flat_numbers(json_object(metrics)))
            if numbers:
                yield int(step), numbers


def wandb_run(path: Path) -> str:
    """Return name and id of the run in a W&B run file, such as "swift-fox-3-1a2b3c4d".

    A record (protocol buffer) holds the run message in field 17, whose field 8 is the name.
    """
    run, names = path.stem.removeprefix("run-"), []
    with suppress(RlreportError):
        about = (value for entry in islice(_wandb_entries(path), 20) for number, value in
                 _fields(entry) if number == 17)  # fmt: skip
        names = [value for number, value in _fields(next(about, b"")) if number == 8]
    return "-".join([*(name.decode(errors="replace") for name in names[:1]), run])


def wandb_records(path: Path) -> Iterator[Record]:
    """Yield the history of a W&B run file (``run-ID.wandb``).

    Such a file is a LevelDB log with one protocol buffer ``Record`` per entry
    (``wandb_internal.proto``). Its field 2 is the history: items (field 1) and the step (field 2,
    whose field 1 is the number). An item has a key (field 1) or nested key (2), and a number or
    JSON value (5, 6, 8 or 16).

    Raises:
        UnusableInputError: the file is not a W&B run file.
    """
    for entry in _wandb_entries(path):
        for number, history in _fields(entry):
            if number == 2 and isinstance(history, bytes) and (record := _history(history)):
                yield record


def _wandb_entries(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        if stream.read(7)[:4] != b":W&B":
            raise UnusableInputError(f"{path.name}: no run file of W&B")
        yield from _entries(stream.read)


def _entries(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the entries of a LevelDB log after its 7-byte header; skip an incomplete last entry."""
    left, parts = _BLOCK - 7, bytearray()
    while True:
        if left < _CHUNK_HEADER.size:
            read(left)
            left = _BLOCK
        header = read(_CHUNK_HEADER.size)
        if len(header) < _CHUNK_HEADER.size:
            return
        _, length, kind = _CHUNK_HEADER.unpack(header)
        data = read(length)
        left -= _CHUNK_HEADER.size + length
        if len(data) < length or left < 0 or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
            return
        if kind in (_WHOLE, _FIRST):
            parts.clear()
        parts += data
        if len(parts) > MAX_RECORD:
            raise LimitError(message("larger than {most:count} bytes", most=MAX_RECORD))
        if kind in (_WHOLE, _LAST):
            yield bytes(parts)


def _history(data: bytes) -> Record | None:
    event: dict[str, Any] = {}
    for number, item in _fields(data):
        if not isinstance(item, bytes):
            continue
        if number == 1:
            fields = list(_fields(item))
            keys = [v.decode(errors="replace") for n, v in fields if n in (1, 2) and v]
            values = [(n, v) for n, v in fields if n in (5, 6, 8, 16)]
            if keys and values:
                event["/".join(keys)] = _value(*values[-1])
        elif number == 2:
            event.setdefault("_step", next((v for n, v in _fields(item) if n == 1), 0))
    step = step_in(event)
    metrics = numbers_of(event)
    return (step, metrics) if step is not None and metrics else None


def _value(number: int, value: Any) -> Any:
    if number == 6:
        return struct.unpack("<d", value)[0]
    if number == 5:
        return value - (1 << 64) if value >> 63 else value
    try:
        return load_json(value)
    except ValueError:
        return None


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (field number, value) of a protocol buffer: varints as int, other values as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            return
        if at + length > len(data):
            return
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
