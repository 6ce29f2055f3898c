"""Read trainer metrics as (step, metrics) from JSON, CSV, TensorBoard, trackers and logs."""

from __future__ import annotations

import codecs
import csv
import io
import re
import struct
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import MissingExtraError, RlreportError, UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.formats.containers import is_plain_table, json_objects, open_database
from rlreport.formats.logged import dicts, json_object, mapping
from rlreport.formats.metric_rows import (
    KIND_KEYS,
    NO_METRICS,
    STEP_KEYS,
    Record,
    counters_of,
    flat_numbers,
    numbers_of,
    prefixed,
    step_in,
)
from rlreport.metrics.consoles import Cells, console_steps
from rlreport.read.lines import ByteRange, Lines
from rlreport.read.listing import COMPRESSIONS
from rlreport.system.coerce import integer
from rlreport.system.documents import (
    MAX_COLUMNS,
    MAX_JSON,
    MAX_LINE,
    LimitError,
    load_json,
    read_bounded,
)
from rlreport.system.stores import Source
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, translatable

# Why rows of a metrics file are not used
STEP = translatable(
    "rows of trainer metrics whose step is not a whole number, left out"
)
JSON = translatable("lines of trainer metrics that are not valid JSON, left out")
CELLS = translatable(
    "rows of trainer metrics with the wrong number of columns, left out"
)
ROUNDED = translatable(
    "trainer metrics that the console prints as 0.000 at all steps, left out as their values are "
    "unknown"
)
REST = translatable("the file of trainer metrics cannot be read from here on")


class UnusedRows:
    """Unusable rows of a metrics file, counted by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first_lines: dict[str, int | None] = {}

    def add(self, why: str, line: int | None) -> None:
        self._counts[why] += 1
        self._first_lines.setdefault(why, line)

    def notes(self, file: str) -> list[Note]:
        """Return one note per reason, without text from the log."""
        return [
            Note(NoteKind.METRICS, message(why), count, file, self._first_lines[why])
            for why, count in self._counts.items()
        ]


MAX_UNPACKED = 4_000_000_000  # Maximum decompressed size of a metrics file in bytes
# Maximum size of a TensorBoard event file in bytes, as it is read into memory
MAX_EVENTS = 1_000_000_000

# Matches a zero with a fixed number of decimals; Python prints 0 itself as 0 or 0.0
_ROUNDED_ZERO = re.compile(r"-?0\.00+")
# Keys that transformers logs once at the end of training, so they make no curve
_SUMMARY = (
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
)


def lines_of(
    path: Path, longest: int = MAX_LINE, unused: UnusedRows | None = None
) -> Generator[bytes]:
    """Yield the decompressed lines of a file, as far as it can be read.

    If it cannot be read to its end, ``unused`` counts that, with the last line that was read.

    Raises:
        ValueError: not even the first line can be read.
        LimitError: a line has more than ``longest`` bytes, or all more than MAX_UNPACKED.
    """
    compression = COMPRESSIONS.get(path.suffix, "")
    source = Source("", str(path), path.stat().st_size, compression)
    lines = Lines(ByteRange(0, source), longest)
    line = None
    count = 0
    for line in lines:
        if line.data is None:  # its data is left out, as it is too long
            raise LimitError(
                message("a line is longer than {most:count} bytes", most=longest)
            )
        if line.offset > MAX_UNPACKED:
            raise LimitError(
                message("larger than {most:count} bytes", most=MAX_UNPACKED)
            )
        count += 1
        yield line.data
    # Known only at the end: why the file could not be read further
    if lines.damage and line is None:
        raise ValueError(lines.damage)
    if lines.damage and unused is not None:
        unused.add(REST, count)


def json_line_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a file with one JSON object per line."""
    for number, line in enumerate(lines_of(path, unused=unused), 1):
        try:
            event = load_json(line, "replace")
            yield from _records([event], unused, line=number)
        except ValueError:
            if line.strip():
                unused.add(JSON, number)


def _records(
    events: Iterable[Any], unused: UnusedRows, line: int | None = None
) -> Iterator[Record]:
    """Yield (step, metrics) of each event; add events with an invalid step to ``unused``.

    ``line`` is the number of the line that has the events, None if they have no lines. Other
    objects, and those without metrics or a step, are skipped.
    """
    for event in events:
        metrics = numbers_of(event) if isinstance(event, dict) else {}
        if not metrics:
            continue
        step = step_in(event)
        if step is not None:
            yield step, metrics | counters_of(event)
        elif not event.keys().isdisjoint(STEP_KEYS):
            unused.add(STEP, line)


def json_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a ``trainer_state.json``, or of the events in another JSON document."""
    content = read_bounded(path, MAX_JSON)
    history = mapping(load_json(content, "replace")).get("log_history")
    if isinstance(history, list):
        entries = dicts(history)
        for entry in entries:
            for key in _SUMMARY:
                entry.pop(key, None)
        yield from _records(entries, unused)
        return
    if path.name.endswith("trainer_state.json"):
        raise UnusableInputError(
            f"{path.name}: not a trainer state, as it has no `log_history`"
        )
    records = [*_records(json_objects(io.BytesIO(content)), unused)]
    if not records:
        raise UnusableInputError(f"{path.name}: contains no steps with numbers")
    yield from records


def console_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a console log, such as verl's or DeepSpeed-Chat's.

    A metric that is 0.000 in all its lines is left out: it may be any number that is rounded to 0,
    such as a learning rate.
    """
    names: set[str] = set()
    known: set[str] = set()  # names of metrics with a value that is not rounded to 0
    # The file is read twice; unused rows are counted in the second pass only.
    for _, cells in _console_lines(path, UnusedRows()):
        names |= cells.keys()
        known.update(n for n in cells if not _ROUNDED_ZERO.fullmatch(cells[n]))
    for _ in names - known:
        unused.add(ROUNDED, line=None)
    found_any = False
    for step, cells in _console_lines(path, unused):
        event = {name: number(cells[name]) for name in cells if name in known}
        metrics = dict(flat_numbers(event))
        if metrics:
            found_any = True
            yield step, metrics
    if not found_any:
        raise UnusableInputError(
            f"{path.name}: not a metrics file; supported are trainer_state.json, .jsonl, .csv, "
            ".json, TensorBoard events, run files of W&B, MLflow's folder `metrics`, Trackio's "
            "database and console logs of verl and DeepSpeed-Chat"
        )


def _console_lines(path: Path, unused: UnusedRows) -> Iterator[tuple[int, Cells]]:
    """Yield the step and (metric -> printed number) of each step in a console log."""
    yield from console_steps(lines_of(path, unused=unused))


def number(cell: str) -> float | None:
    """Return the number in a cell (True is 1, "nan" is NaN), None if there is none."""
    try:
        return float(_BOOLEANS.get(cell, cell))
    except ValueError:
        return None


def tensorboard_records(path: Path, _: UnusedRows) -> Iterator[Record]:
    """Yield the scalars of a TensorBoard event file, each as a record of its own.

    They come tag by tag, unless the step of a tag falls: then in the order of their times.
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
    # 0 stands for all events; by default, tensorboard keeps a random sample of each tag.
    everything = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}
    log = event_accumulator.EventAccumulator(str(path), size_guidance=everything)
    log.Reload()
    tags = log.Tags()
    # TensorFlow 2 logs a scalar as a tensor without dimensions.
    scalars = {tag: log.Scalars(tag) for tag in tags[event_accumulator.SCALARS]}
    tensors = {tag: log.Tensors(tag) for tag in tags[event_accumulator.TENSORS]}
    tagged: list[tuple[str, Any]] = []
    has_fall = False
    for tag, events in [*scalars.items(), *tensors.items()]:
        tagged += [(tag, event) for event in events]
        has_fall = has_fall or _falls([event.step for event in events])
    if has_fall:
        # Tag by tag, it would not show which values follow on which.
        tagged.sort(key=lambda one: one[1].wall_time)
    for tag, event in tagged:
        if tag in scalars:
            yield event.step, {tag: event.value}
            continue
        if event.tensor_proto.tensor_shape.dim:
            continue  # reading an array is unsafe: a few bytes can declare any size
        value = tensor_util.make_ndarray(event.tensor_proto)
        if value.ndim == 0 and value.dtype.kind in "fiu":
            yield event.step, {tag: float(value)}


def _falls(steps: Iterable[int]) -> bool:
    """Return whether a step is lower than the one before it, as after a restart."""
    return any(after < before for before, after in pairwise(steps))


# Columns that may name the run of a row, most preferred first
RUN_KEYS = ("run", "run_id", "run_name", "experiment")
MAX_RUNS = 200  # Maximum number of runs in a CSV file, which is read once for each

_BOOLEANS = {"True": 1.0, "False": 0.0}

# The default of 131,072 characters is less than a line may have.
csv.field_size_limit(MAX_LINE)


class _Columns(NamedTuple):
    """Which columns of a CSV file to read: names, and indices into the cells of a row."""

    names: list[str]
    step: int
    kind: int | None  # of the kind of event, such as ``eval``
    run: int | None  # of the run's name; None to read all rows
    metrics: dict[int, str]
    counters: dict[str, int]  # such as ``epoch``

    @classmethod
    def of(cls, names: list[str], run: str) -> _Columns | None:
        """Return the columns of ``run`` (or, if "", of all rows); None without a step.

        ``names`` is the header of the table.
        """
        step = _first_index(names, STEP_KEYS)
        if step is None:
            return None
        kind = next((i for i, name in enumerate(names) if name in KIND_KEYS), None)
        run_column = _first_index(names, RUN_KEYS) if run else None
        # Without a column of runs, the names of columns begin with the run.
        run_in_names = run if run_column is None else ""
        metrics = csv_metrics(names, run_in_names)
        if run_column is not None:
            metrics.pop(run_column, None)
        counters = {name: names.index(name) for name in NO_METRICS.intersection(names)}
        return cls(
            names=names,
            step=step,
            kind=kind,
            run=run_column,
            metrics=metrics,
            counters=counters,
        )

    def numbers(self, cells: list[str], step: float) -> dict[str, float]:
        """Return the metrics and counters of a row that are numbers, as those of an event."""
        kind = "" if self.kind is None else _cell(cells, self.kind).lower()
        values = {
            prefixed(kind, name): number(cells[index])
            for index, name in self.metrics.items()
            if index < len(cells)  # a row may be short
        }
        event = {name: number(_cell(cells, i)) for name, i in self.counters.items()}
        values |= counters_of({self.names[self.step]: step, **event})
        return {name: value for name, value in values.items() if value is not None}


def _cell(cells: list[str], index: int) -> str:
    """Return a cell of a row, "" if the row is too short."""
    return cells[index] if index < len(cells) else ""


def _first_index(names: list[str], keys: Iterable[str]) -> int | None:
    """Return the index of the first of ``keys`` that is a column."""
    for key in keys:
        if key in names:
            return names.index(key)
    return None


def csv_records(path: Path, unused: UnusedRows, run: str = "") -> Iterator[Record]:
    """Yield the metrics of a CSV file; cells are separated by commas, semicolons or tabs.

    With ``run``, read only its rows, or its columns "RUN - METRIC", as W&B exports charts.
    """
    lines = lines_of(path, unused=unused)
    header = next(lines, b"")
    if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnusableInputError(f"{path.name}: encoded as UTF-16; save it as UTF-8")
    separator = csv_separator(header)
    names = csv_cells(header, separator)
    if len(names) > MAX_COLUMNS:
        raise LimitError(message("more than {most:count} columns", most=MAX_COLUMNS))
    columns = _Columns.of(names, run)
    if columns is None:
        raise UnusableInputError(
            f"{path.name}: not a metrics table, as no column is named step"
        )
    for line, cells in _csv_rows(lines, separator, unused):
        step = number(_cell(cells, columns.step))
        # Of too many cells, it is not clear to which columns they belong.
        if len(cells) > len(names):
            unused.add(CELLS, line)
        elif step is None or not step.is_integer() or abs(step) > LARGEST_STEP:
            unused.add(STEP, line)
        elif columns.run is None or _cell(cells, columns.run) == run:
            yield int(step), columns.numbers(cells, step)


def _csv_rows(
    lines: Iterator[bytes], separator: str, unused: UnusedRows
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of each nonempty row; a row may span several lines."""
    texts = (line.decode("utf-8", "replace") + "\n" for line in lines)
    rows = csv.reader(texts, delimiter=separator, strict=True)
    line = 2  # line 1 is the header, which ``rows`` does not count
    try:
        for cells in rows:
            if any(cells):
                yield line, cells
            line = rows.line_num + 2  # the first line of the next row
    except csv.Error:  # such as an unclosed quotation mark
        unused.add(REST, line)


def csv_separator(header: bytes) -> str:
    return max(",;\t", key=header.decode("utf-8", "replace").count)


def csv_cells(line: bytes, separator: str) -> list[str]:
    """Return the cells of one line of a CSV file as text, [] if it is malformed."""
    text = line.decode("utf-8-sig", "replace").strip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # such as a carriage return within the line
        return []


def csv_runs(path: Path) -> list[str]:
    """Return the runs in columns "RUN - METRIC", or in a column of RUN_KEYS if several; else []."""
    with closing(lines_of(path)) as lines:
        header = next(lines, b"")
        separator = csv_separator(header)
        names = csv_cells(header, separator)
        metrics = [name for name in names if name not in NO_METRICS]
        if metrics and all(" - " in name for name in metrics):
            return sorted({name.rpartition(" - ")[0] for name in metrics})
        column = _first_index(names, RUN_KEYS)
        if column is None or len(names) > MAX_COLUMNS:
            return []
        runs: set[str] = set()
        for _, cells in _csv_rows(lines, separator, UnusedRows()):
            run = _cell(cells, column)
            if run:
                runs.add(run)
            if len(runs) > MAX_RUNS:
                raise LimitError(message("more than {most:count} runs", most=MAX_RUNS))
    return sorted(runs) if len(runs) > 1 else []


def csv_metrics(names: list[str], run: str) -> dict[int, str]:
    """Return the index of each column with a metric -> name of the metric.

    With ``run``, these are the columns "RUN - METRIC". W&B exports a metric with its extremes, as
    METRIC__MIN and METRIC__MAX; these are left out.
    """
    metrics: dict[int, str] = {}
    for index, name in enumerate(names):
        if not name or name in NO_METRICS or name in KIND_KEYS:
            continue
        base, _, end = name.rpartition("__")
        if end in ("MIN", "MAX") and base in names:
            continue
        owner, separator, metric = name.rpartition(" - ")
        if not run:
            metrics[index] = name
        elif separator and owner == run:
            metrics[index] = metric
    return metrics


MAX_RECORD = 64_000_000  # Maximum size of one record of a W&B file in bytes
_RUN_ENTRIES = 20  # entries at the start of the file, among which is the run message

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
_RUN = 17
# in RunRecord,
_RUN_NAME = 8
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


def mlflow_records(folder: Path, _: UnusedRows) -> Iterator[Record]:
    """Yield the records of MLflow's files, one per metric with lines of "time value step".

    They are yielded file by file, unless the step falls in one: then in the order of their times.
    """
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    names = [path.relative_to(folder).as_posix() for path in paths]
    if any(_has_fall(path) for path in paths):
        logged: list[_MlflowValue] = []
        for name, path in zip(names, paths, strict=True):
            logged += _mlflow_values(path, name)
        logged.sort(key=lambda one: one.time)
        for one in logged:
            yield one.step, {one.name: one.value}
        return
    for name, path in zip(names, paths, strict=True):
        for one in _mlflow_values(path, name):
            yield one.step, {name: one.value}


class _MlflowValue(NamedTuple):
    time: float
    step: int
    value: float
    name: str  # of the metric


def _has_fall(path: Path) -> bool:
    return _falls(one.step for one in _mlflow_values(path, ""))


def _mlflow_values(path: Path, name: str) -> Iterator[_MlflowValue]:
    """Yield the value in each line of a file of MLflow."""
    for line in lines_of(path):
        with suppress(ValueError):
            time, value, step = line.split()[:3]
            yield _MlflowValue(float(time), int(step), float(value), name)


def trackio_runs(path: Path) -> list[str]:
    """Return the names of the runs in a database of Trackio, [] if it has no metrics."""
    with closing(open_database(path)) as database:
        if not is_plain_table(database, "metrics"):
            return []
        rows = database.execute(
            "SELECT DISTINCT run_name FROM metrics ORDER BY run_name"
        )
        return [str(row["run_name"]) for row in rows]


def trackio_records(path: Path, unused: UnusedRows, run: str) -> Iterator[Record]:
    """Yield the records of ``run`` in a database of Trackio, in the order in which it has them."""
    query = "SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY rowid"
    with closing(open_database(path)) as database:
        for logged_step, metrics in database.execute(query, (run,)):
            event = json_object(metrics)
            numbers = dict(flat_numbers(event))
            step = integer(logged_step)
            if step is None:
                unused.add(STEP, None)
            elif numbers:
                yield step, numbers | counters_of(event)


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


def wandb_records(path: Path, _: UnusedRows) -> Iterator[Record]:
    """Yield the history of a W&B run file (``run-ID.wandb``).

    Such a file is a LevelDB log with one protocol buffer ``Record`` per entry. A record may hold a
    row of the history: a step, and an item for each metric.
    """
    for entry in _wandb_entries(path):
        for number, history in _fields(entry):
            if number == _HISTORY and isinstance(history, bytes):
                record = _history(history)
                if record is not None:
                    yield record


def _wandb_entries(path: Path) -> Iterator[bytes]:
    """Yield the entries of a LevelDB log after its 7-byte header; skip an incomplete last entry.

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
            if len(header) < _CHUNK_HEADER.size:
                return
            _, length, kind = _CHUNK_HEADER.unpack(header)
            data = stream.read(length)
            left -= _CHUNK_HEADER.size + length
            is_whole = len(data) == length and left >= 0
            # Cut off, or damaged
            if not is_whole or kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST):
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


def _history(data: bytes) -> Record | None:
    """Return the record of a row of the history, None without a step or metrics."""
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
    step = step_in(event)
    metrics = numbers_of(event)
    if step is None or not metrics:
        return None
    return step, metrics | counters_of(event)


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
