"""Records of trainer metrics, one dict of numbers a log event, from each kind of file."""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from rlreport.errors import MissingExtraError, UnusableInputError
from rlreport.formats.metric_rows import KIND_KEYS, STEP_KEYS, flat_numbers, numbers_of, step_in
from rlreport.read.files import COMPRESSIONS
from rlreport.read.lines import ByteRange, Lines
from rlreport.read.remote import Source
from rlreport.sidefiles import (
    MAX_COLUMNS,
    MAX_JSON,
    MAX_LINE,
    LimitError,
    load_json,
    read_bounded,
)
from rlreport.text.messages import message

Record = tuple[int, dict[str, float]]
"""Step and the metrics logged at it."""


MAX_UNPACKED = 4_000_000_000
"""Bytes of a file that are read, decompressed."""

MAX_EVENTS = 1_000_000_000
"""Bytes of a file of TensorBoard events, which its library reads whole."""


_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")
EVENTS = "events.out.tfevents"
"""How names of TensorBoard's files begin."""


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a metrics file, by its kind.

    Raises:
        UnusableInputError: the file cannot be read as metrics.
        MissingExtraError: TensorBoard events without tensorboard.
    """
    if not path.is_file():
        # Opening a pipe would wait for its writer.
        raise UnusableInputError(f"{path.name}: there is no such file")
    if EVENTS in path.name:
        yield from _tensorboard(path)
    elif path.suffix == ".json":
        yield from _trainer_state(path)
    elif (kind := lines_kind(path)) == ".csv":
        yield from _csv(path)
    elif kind == ".jsonl":
        yield from _lines(path)
    else:
        raise UnusableInputError(
            f"{path.name}: no metrics file; known are trainer_state.json, .jsonl and .csv, also "
            "as .gz or .zst, and TensorBoard events"
        )


def lines_kind(path: Path) -> str:
    """Return ``.jsonl`` or ``.csv`` of a file of lines, compressed or not; "" of any other."""
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSIONS else path.name
    return next((kind for kind in (".jsonl", ".csv") if name.endswith(kind)), "")


def lines_of(path: Path, longest: int = MAX_LINE) -> Generator[bytes]:
    """Yield the lines of a file, decompressed, up to where it is torn.

    Raises:
        LimitError: a line or the file is too long.
        ValueError: nothing of it can be decompressed.
    """
    source = Source("", str(path), path.stat().st_size, COMPRESSIONS.get(path.suffix, ""))
    lines, line = Lines(ByteRange(0, source), longest), None
    for line in lines:
        if line.data is None:
            raise LimitError(message("a line of over {most:count} bytes", most=longest))
        if line.offset > MAX_UNPACKED:
            raise LimitError(message("larger than {most:count} bytes", most=MAX_UNPACKED))
        yield line.data
    if lines.damage and line is None:
        raise ValueError(lines.damage)


def _trainer_state(path: Path) -> Iterator[Record]:
    """Yield transformers' ``log_history``; the summary at the end of training is no curve."""
    state = load_json(read_bounded(path, MAX_JSON), "replace")
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise UnusableInputError(f"{path.name}: no `log_history` in it, so no trainer state")
    for event in history:
        step = step_in(event) if isinstance(event, dict) else None
        if step is not None:
            found = {k: v for k, v in flat_numbers(event) if k not in _SUMMARY}
            if found:
                yield step, found


def _lines(path: Path) -> Iterator[Record]:
    """Yield the objects of a JSONL log."""
    for line in lines_of(path):
        try:
            event = load_json(line, "replace")
        except ValueError:
            continue  # the torn last line of a growing log
        step = step_in(event) if isinstance(event, dict) else None
        if step is not None and (found := numbers_of(event)):
            yield step, found


def _csv(path: Path) -> Iterator[Record]:
    rows = csv.DictReader(line.decode("utf-8-sig", "replace") for line in lines_of(path))
    if len(rows.fieldnames or ()) > MAX_COLUMNS:
        raise LimitError(message("a table of over {most:count} columns", most=MAX_COLUMNS))
    key = next((key for key in STEP_KEYS if key in (rows.fieldnames or ())), None)
    if key is None:
        raise UnusableInputError(f"{path.name}: no column named step, so no metrics table")
    kinds = {name for name in KIND_KEYS if name in (rows.fieldnames or ())}
    for row in rows:
        cells: dict[str, Any] = {name: _cell(cell) for name, cell in row.items() if name}
        step = step_in({"step": cells.get(key)})
        if step is not None and (found := numbers_of(cells | {name: row[name] for name in kinds})):
            yield step, found


def _tensorboard(path: Path) -> Iterator[Record]:
    try:
        from tensorboard.backend.event_processing import event_accumulator
        from tensorboard.util import tensor_util
    except ImportError:
        raise MissingExtraError(
            "reading TensorBoard events needs tensorboard: pip install 'rlreport[tensorboard]'"
        ) from None
    if path.stat().st_size > MAX_EVENTS:
        raise LimitError(message("larger than {most:count} bytes", most=MAX_EVENTS))
    everything = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}
    log = event_accumulator.EventAccumulator(str(path), size_guidance=everything)
    log.Reload()
    tags = log.Tags()
    for tag in tags[event_accumulator.SCALARS]:
        for event in log.Scalars(tag):
            yield int(event.step), {tag: float(event.value)}
    for tag in tags[event_accumulator.TENSORS]:
        for event in log.Tensors(tag):
            if event.tensor_proto.tensor_shape.dim:
                continue  # a few bytes can declare an array of any size
            value = tensor_util.make_ndarray(event.tensor_proto)
            if value.ndim == 0 and value.dtype.kind in "fiu":
                yield int(event.step), {tag: float(value)}


def _cell(cell: object) -> float | None:
    try:
        return float(cell) if isinstance(cell, str) else None
    except ValueError:
        return None
