"""Read trainer metrics as blocks of numbers from JSON, verl's console log and TensorBoard."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rlreport.errors import MissingExtraError, UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.containers import json_objects
from rlreport.formats.metric_rows import (
    KIND_KEYS,
    NO_METRICS,
    STEP_KEYS,
    Record,
    flat_numbers,
    numbers_of,
    step_in,
)
from rlreport.read.files import COMPRESSIONS
from rlreport.read.lines import ByteRange, Lines
from rlreport.system.documents import MAX_JSON, MAX_LINE, LimitError, load_json, read_bounded
from rlreport.system.stores import Source
from rlreport.tables import Note
from rlreport.text.messages import marked, message

# R rows of metrics: their steps, int64 (R,), and metric -> values, float64 (R,)
Block = tuple[Ints, dict[str, Floats]]

STEP, JSON, CELLS, REST = "metrics_step", "metrics_json", "metrics_cells", "metrics_rest"

_WHY = {
    STEP: marked("rows of trainer metrics whose step is not a whole number, left out"),
    JSON: marked("lines of trainer metrics that are not valid JSON, left out"),
    CELLS: marked("rows of trainer metrics with the wrong number of columns, left out"),
    REST: marked("trainer metrics that cannot be read from here on"),
}


@dataclass(slots=True)
class LeftOut:
    """Unusable rows of a metrics file: ``found`` is reason -> (number of rows, first line)."""

    found: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def add(self, kind: str, line: int | None) -> None:
        """Count a row that cannot be used, for reason ``kind``; ``line`` is None if unknown."""
        times, first = self.found.get(kind, (0, line))
        self.found[kind] = (times + 1, first)

    def notes(self, file: str) -> list[Note]:
        """Return one note per reason, without text from the log."""
        return [
            Note("metrics", message(_WHY[kind]), times, file, first)
            for kind, (times, first) in self.found.items()
        ]


MAX_UNPACKED = 4_000_000_000  # Maximum decompressed size of a metrics file in bytes
# Maximum size of a TensorBoard event file in bytes, as it is read into memory
MAX_EVENTS = 1_000_000_000

# Start of the metrics of a step in a line of verl's console log
CONSOLE_LINE = re.compile(rb"\bstep:(\d{1,15}) - (?=\S+:)")

STEPS = frozenset(STEP_KEYS)

_BLOCK_ROWS = 1_000
_BATCH_BYTES = 1_000_000  # Bytes of lines that are parsed together
_CONSOLE_PAIR = re.compile(r"(\S+):(?:np\.\w+\()?([-+.\w]+)\)?$")
_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
# Keys that transformers logs once at the end of training, so they make no curve
_SUMMARY = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")


def blocks_of(records: Iterable[Record]) -> Iterator[Block]:
    """Group successive records with the same metric names into blocks of up to _BLOCK_ROWS rows."""
    names: tuple[str, ...] = ()
    steps: list[int] = []
    rows: list[list[float]] = []
    for step, metrics in records:
        if tuple(metrics) != names or len(rows) >= _BLOCK_ROWS:
            if rows:
                yield _block(names, steps, rows)
            names, steps, rows = tuple(metrics), [], []
        steps.append(step)
        rows.append([*metrics.values()])
    if rows:
        yield _block(names, steps, rows)


def _block(names: tuple[str, ...], steps: list[int], rows: list[list[float]]) -> Block:
    try:
        columns = np.array(rows, np.float64).T
    except OverflowError:  # an integer beyond float64
        columns = np.array([[_float(value) for value in row] for row in rows]).T
    return np.array(steps, np.int64), dict(zip(names, columns, strict=True))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def lines_of(
    path: Path, longest: int = MAX_LINE, left_out: LeftOut | None = None
) -> Generator[bytes]:
    """Yield the decompressed lines of a file until its end or the first damaged part.

    Raises:
        LimitError: a line is over ``longest`` bytes, or the file over MAX_UNPACKED.
        ValueError: not even the first line can be decompressed.
    """
    source = Source("", str(path), path.stat().st_size, COMPRESSIONS.get(path.suffix, ""))
    lines, line, count = Lines(ByteRange(0, source), longest), None, 0
    for line in lines:
        if line.data is None:
            raise LimitError(message("a line of over {most:count} bytes", most=longest))
        if line.offset > MAX_UNPACKED:
            raise LimitError(message("larger than {most:count} bytes", most=MAX_UNPACKED))
        count += 1
        yield line.data
    if lines.damage and line is None:
        raise ValueError(lines.damage)
    if lines.damage and left_out is not None:
        left_out.add(REST, count)


def json_line_blocks(path: Path, left_out: LeftOut) -> Iterator[Block]:
    """Yield the metrics of a file of JSON lines."""
    for batch in batches(lines_of(path, left_out=left_out)):
        numbers, lines = zip(*batch, strict=True)
        try:
            events = orjson.loads(b"[%s]" % b",".join(lines))
        except orjson.JSONDecodeError:
            events = []
        if len(events) != len(lines):
            events = [_parse_tolerantly(line, number, left_out) for number, line in batch]
        block = _uniform_block(events)
        if block is None:
            yield from blocks_of(_records(zip(numbers, events, strict=True), left_out))
        else:
            yield block


def batches(
    lines: Iterable[bytes], rows: int = _BLOCK_ROWS, most: int = _BATCH_BYTES, first: int = 1
) -> Iterator[list[tuple[int, bytes]]]:
    """Group non-empty lines, as (line number, line), into batches.

    A batch ends after ``rows`` lines or ``most`` bytes; ``first`` is the number of the first line.
    """
    batch: list[tuple[int, bytes]] = []
    size = 0
    for number, line in enumerate(lines, first):
        if line.strip():
            batch.append((number, line))
            size += len(line)
        if len(batch) == rows or size > most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _parse_tolerantly(line: bytes, number: int, left_out: LeftOut) -> Any:
    """Parse a JSON line that may contain NaN; count an invalid line and return None."""
    try:
        return load_json(line, "replace")
    except ValueError:
        left_out.add(JSON, number)
        return None


def _uniform_block(events: list[Any]) -> Block | None:
    """Return one block of all events if they have the same keys and only numbers, else None."""
    if not events or not isinstance(events[0], dict) or not KIND_KEYS.isdisjoint(events[0]):
        return None
    names = tuple(events[0])
    key = next((key for key in STEP_KEYS if key in events[0]), None)
    if key is None or any(type(event) is not dict or tuple(event) != names for event in events):
        return None
    try:
        table = np.array([[*event.values()] for event in events])
    except (ValueError, OverflowError):  # lists, or numbers beyond float64
        return None
    steps = table[:, names.index(key)]
    if table.dtype != np.float64 or (steps != np.floor(steps)).any():
        return None
    if (np.abs(steps) > LARGEST_STEP).any():
        return None
    columns = {name: table[:, i] for i, name in enumerate(names) if name not in NO_METRICS}
    return steps.astype(np.int64), columns


def _records(events: Iterable[tuple[int | None, Any]], left_out: LeftOut) -> Iterator[Record]:
    """Yield (step, metrics) of (line, event) pairs; count events whose step is no whole number."""
    for line, event in events:
        if not isinstance(event, dict) or not (metrics := numbers_of(event)):
            continue
        step = step_in(event)
        if step is not None:
            yield step, metrics
        elif not STEPS.isdisjoint(event):
            left_out.add(STEP, line)


def json_records(path: Path, left_out: LeftOut) -> Iterator[Record]:
    """Yield the records of a JSON document.

    The document is transformers' ``trainer_state.json``, an array of events, or a table by columns
    as pandas writes it, such as a history exported from W&B.

    Raises:
        UnusableInputError: the document is none of these.
    """
    content = read_bounded(path, MAX_JSON)
    document = load_json(content, "replace")
    history = document.get("log_history") if isinstance(document, dict) else None
    if isinstance(history, list):
        for event in history:
            step = step_in(event) if isinstance(event, dict) else None
            if step is not None:
                metrics = {k: v for k, v in flat_numbers(event) if k not in _SUMMARY}
                if metrics:
                    yield step, metrics
            elif isinstance(event, dict) and not STEPS.isdisjoint(event):
                left_out.add(STEP, None)
        return
    if path.name.endswith("trainer_state.json"):
        raise UnusableInputError(f"{path.name}: no `log_history` in it, so no trainer state")
    events: Iterable[Any] = _rows_of_columns(document) or json_objects(io.BytesIO(content))
    records = [*_records(((None, event) for event in events), left_out)]
    if not records:
        raise UnusableInputError(f"{path.name}: no steps with numbers in it, so no metrics")
    yield from records


def _rows_of_columns(document: Any) -> list[dict[str, Any]]:
    """Convert a dict of columns (each a dict by row label or a list) to rows; else return []."""
    if not isinstance(document, dict):
        return []
    tables = [v for k, v in document.items() if k in STEP_KEYS and isinstance(v, dict | list)]
    if not tables:
        return []
    columns = {
        name: column if isinstance(column, dict) else dict(enumerate(column))
        for name, column in document.items()
        if isinstance(column, dict | list)
    }
    return [{name: column.get(row) for name, column in columns.items()} for row in _keys(tables[0])]


def _keys(column: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return column if isinstance(column, dict) else range(len(column))


def console_records(path: Path, left_out: LeftOut) -> Iterator[Record]:
    """Yield the records of verl's console log: ``step:1 - actor/loss:0.1 - …`` on a line.

    Raises:
        UnusableInputError: no line has that form.
    """
    found_any = False
    for line in lines_of(path, left_out=left_out):
        plain = _ANSI.sub(b"", line)
        start = CONSOLE_LINE.search(plain)
        if start is None:
            continue
        event: dict[str, Any] = {}
        for pair in plain[start.end() :].decode(errors="replace").strip().split(" - "):
            if matched := _CONSOLE_PAIR.fullmatch(pair):
                event[matched[1]] = number(matched[2])
        if metrics := dict(flat_numbers(event)):
            found_any = True
            yield int(start[1]), metrics
    if not found_any:
        raise UnusableInputError(
            f"{path.name}: no metrics file; known are trainer_state.json, .jsonl, .csv and .json, "
            "TensorBoard events, run files of W&B, MLflow's folder `metrics`, Trackio's database "
            "and verl's console log"
        )


def number(cell: object) -> float | None:
    """Return the number in a cell, NaN for the text "nan"; None if there is no number."""
    if isinstance(cell, float) and np.isnan(cell):
        return None  # pandas represents an empty cell as NaN
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def tensorboard_blocks(path: Path) -> Iterator[Block]:
    """Yield the scalars of a TensorBoard event file.

    Raises:
        MissingExtraError: tensorboard is not installed.
        LimitError: the file is over MAX_EVENTS bytes.
    """
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
        events = log.Scalars(tag)
        values = np.array([event.value for event in events], np.float64)
        yield np.array([event.step for event in events], np.int64), {tag: values}
    for tag in tags[event_accumulator.TENSORS]:
        for event in log.Tensors(tag):
            if event.tensor_proto.tensor_shape.dim:
                continue  # reading an array is unsafe: a few bytes can declare any size
            value = tensor_util.make_ndarray(event.tensor_proto)
            if value.ndim == 0 and value.dtype.kind in "fiu":
                yield np.array([event.step], np.int64), {tag: np.array([value], np.float64)}
