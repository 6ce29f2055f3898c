"""Read the run file of W&B, ``run-ID.wandb``, without its client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.formats.metric_rows import (
    Record,
    numbers_of,
    step_in,
)
from rlreport.metrics.lines import (
    REST,
    UnusedRows,
)
from rlreport.metrics.trackers import records_of_rows
from rlreport.system.documents import (
    LimitError,
    load_json,
)
from rlreport.text.messages import message

MAX_RECORD = 64_000_000  # Maximum size of one record of a W&B file in bytes
_RUN_ENTRIES = 20  # entries at the start of the file, among which is the run message
# Entries at the start of the file, among which is the configuration
_CONFIG_ENTRIES = 2_000

_MEDIA_TYPE = "/_type"  # end of the key that a table, an image or a histogram has

# Layout of a LevelDB log: blocks of chunks, each with a checksum, its length and its kind
_BLOCK = 32_768
_FILE_HEADER = 7
_CHUNK_HEADER = struct.Struct("<IHB")
_WHOLE = 1
_FIRST = 2
_MIDDLE = 3
_LAST = 4

# Wire types of protocol buffers, and the size in bytes of those with a fixed one
_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_VARINT_BITS = 70  # of ten bytes, the most that a number of 64 bits takes
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

# Numbers of fields in W&B's messages (``wandb_internal.proto``): in Record,
_HISTORY = 2
_CONFIG = 5
_RUN = 17
# in RunRecord,
_RUN_CONFIG = 4
_RUN_NAME = 8
# in ConfigRecord and ConfigItem,
_UPDATE = 1
_JSON_VALUE = 16
# in HistoryRecord,
_ITEM = 1
_STEP = 2
# in HistoryStep,
_STEP_NUMBER = 1
# and in HistoryItem. A value is JSON (16) or, in newer files, in the field of its type: a float64
# in 6, integers in 5 and 8
_KEY = 1
_NESTED_KEY = 2
_FLOAT64_VALUE = 6
_VALUES = (5, _FLOAT64_VALUE, 8, 16)


def wandb_run(path: Path) -> str:
    """Return name and id of the run in a W&B run file, such as "swift-fox-3-1a2b3c4d"."""
    run = path.stem.removeprefix("run-")
    with suppress(RlreportError):
        for entry in islice(_wandb_entries(path), _RUN_ENTRIES):
            about = _values_of(entry, _RUN)
            if about:
                names = _values_of(about[0], _RUN_NAME)
                return f"{_text(names[0])}-{run}" if names else run
    # Without a name, or if the file is damaged: the id alone
    return run


def wandb_settings(path: Path) -> dict[str, Any]:
    """Return the configuration in a W&B run file: setting -> value, {} without one."""
    settings: dict[str, Any] = {}
    with suppress(RlreportError):
        for entry in islice(_wandb_entries(path), _CONFIG_ENTRIES):
            for run in _values_of(entry, _RUN):
                for config in _values_of(run, _RUN_CONFIG):
                    settings |= _updates_in(config)
            for config in _values_of(entry, _CONFIG):
                settings |= _updates_in(config)
    return settings


def _updates_in(config: int | bytes) -> dict[str, Any]:
    """Return {setting: value} of W&B's message ``ConfigRecord``; nested names are dotted."""
    updates: dict[str, Any] = {}
    for item in _values_of(config, _UPDATE):
        keys = [_text(key) for key in _values_of(item, _KEY) if key]
        keys = keys or [_text(key) for key in _values_of(item, _NESTED_KEY)]
        for value in _values_of(item, _JSON_VALUE):
            with suppress(ValueError):
                if keys and isinstance(value, bytes):
                    updates[".".join(keys)] = load_json(value)
    return updates


def wandb_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the history of a W&B run file (``run-ID.wandb``).

    Such a file is a LevelDB log with one protocol buffer ``Record`` per entry. A record may hold a
    row of the history: a step, and an item for each metric.
    """
    rows = (
        (step_in({"_step": event.get("_step")}), event)
        for event in _wandb_history(path, unused)
    )
    yield from records_of_rows(
        rows, lambda row: numbers_of(_without_media(row)), unused
    )


def _wandb_history(path: Path, unused: UnusedRows) -> Iterator[dict[str, Any]]:
    """Yield the rows of the history, each with W&B's own count as ``_step``."""
    for entry in _wandb_entries(path, unused):
        for number, history in _fields(entry):
            if number == _HISTORY and isinstance(history, bytes):
                yield _history(history)


def _without_media(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without tables, images and histograms, whose sizes are no metrics."""
    ends = [key for key in event if key.endswith(_MEDIA_TYPE)]
    prefixes = tuple(key.removesuffix(_MEDIA_TYPE) + "/" for key in ends)
    return {k: v for k, v in event.items() if not k.startswith(prefixes)}


def _wandb_entries(path: Path, unused: UnusedRows | None = None) -> Iterator[bytes]:
    """Yield the entries of a LevelDB log after its 7-byte header; skip an incomplete last entry.

    If it is damaged or cut, ``unused`` counts that.

    An entry is one chunk (_WHOLE), or a _FIRST, some _MIDDLE and a _LAST one. A chunk does not
    extend over the end of a block.
    """
    with path.open("rb") as stream:
        if stream.read(_FILE_HEADER)[:4] != b":W&B":
            raise UnusableInputError(f"{path.name}: not a run file of W&B")
        left = _BLOCK - _FILE_HEADER  # bytes of the current block
        parts = bytearray()
        while True:
            if left < _CHUNK_HEADER.size:
                stream.read(left)  # padding: no chunk begins so late in a block
                left = _BLOCK
            header = stream.read(_CHUNK_HEADER.size)
            if not header.strip(b"\0"):
                return  # the end, which may be filled with zeros
            if len(header) < _CHUNK_HEADER.size:
                _count_rest(unused)
                return
            _, length, kind = _CHUNK_HEADER.unpack(header)
            data = stream.read(length)
            left -= _CHUNK_HEADER.size + length
            is_whole = len(data) == length and left >= 0
            # Cut off, or damaged
            if not is_whole or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
                _count_rest(unused)
                return
            if kind in (_WHOLE, _FIRST):
                parts.clear()
            parts += data
            if len(parts) > MAX_RECORD:
                raise LimitError(
                    message("larger than {most:count} bytes", most=MAX_RECORD)
                )
            if kind in (_WHOLE, _LAST):
                yield bytes(parts)


def _count_rest(unused: UnusedRows | None) -> None:
    if unused is not None:
        unused.add(REST, None)


def _history(data: bytes) -> dict[str, Any]:
    """Return a row of the history, with W&B's own count as ``_step``."""
    event: dict[str, Any] = {}
    for number, item in _fields(data):
        if not isinstance(item, bytes):
            continue
        if number == _ITEM:
            event |= _history_item(item)
        elif number == _STEP:
            # Protocol buffers leave out a number that is 0. An item named ``_step`` has the same.
            steps = _values_of(item, _STEP_NUMBER)
            event.setdefault("_step", steps[0] if steps else 0)
    return event


def _history_item(data: bytes) -> dict[str, Any]:
    """Return {key: value} of W&B's message ``HistoryItem``, {} if it has no key or value.

    The parts of a nested key are joined by slashes. Of several values, the last counts.
    """
    keys: list[str] = []
    values: list[Any] = []
    for number, value in _fields(data):
        if number in (_KEY, _NESTED_KEY) and value:
            keys.append(_text(value))
        elif number in _VALUES:
            values.append(_value(number, value))
    return {"/".join(keys): values[-1]} if keys and values else {}


def _values_of(data: int | bytes, wanted: int) -> list[int | bytes]:
    """Return the values of a field of a protocol buffer, by its number."""
    return [value for number, value in _fields(data) if number == wanted]


def _text(value: int | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _value(number: int, value: int | bytes) -> Any:
    """Return the value in field ``number`` of a ``HistoryItem``, None if it is broken."""
    if isinstance(value, int):
        # Negative integers are encoded as 64 bits in two's complement.
        return value - (1 << 64) if value >> 63 else value
    try:
        if number == _FLOAT64_VALUE:
            return struct.unpack("<d", value)[0]
        return load_json(value)
    except (ValueError, struct.error):
        return None


def _fields(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a protocol buffer: varints as int, other values as bytes."""
    if isinstance(data, int):
        return  # a damaged file may have a number where a message should be
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        # A tag is the number of the field, then three bits for the wire type.
        number = tag >> 3
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in _FIXED_SIZES:
            length = _FIXED_SIZES[kind]
        else:  # damaged, or an obsolete wire type
            return
        if at + length > len(data):  # cut off
            return
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at an index, and the index after it.

    A byte has seven bits of the number, the lowest first; its highest bit is set if more follow.
    """
    value = 0
    shift = 0
    while at < len(data) and shift < _VARINT_BITS:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            break
    return value, at
