"""Read trainer metrics of TensorBoard, MLflow and Trackio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import MissingExtraError
from rlreport.formats.containers import is_plain_table, open_database
from rlreport.formats.logged import json_object
from rlreport.formats.metric_rows import (
    CLOCK,
    Record,
    clock_of,
    counters_of,
    flat_numbers,
)
from rlreport.formats.tracker_steps import trainer_step, with_trainer_steps
from rlreport.metrics.lines import (
    STEP,
    UnusedRows,
    falls,
    lines_of,
)
from rlreport.system.coerce import integer
from rlreport.system.documents import (
    LimitError,
)
from rlreport.text.messages import message, translatable

# Why values of MLflow are not used
MLFLOW = translatable(
    "lines of MLflow's metrics that are not a time, a value and a step, left out"
)
WITHOUT_STEP = translatable(
    "metrics that MLflow has at step 0 only, as those logged without a step, left out"
)

# Maximum size of a TensorBoard event file in bytes, as it is read into memory
MAX_EVENTS = 1_000_000_000


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
    # By default, it leaves out what a restart logged again, and says so nowhere.
    log = event_accumulator.EventAccumulator(
        str(path), size_guidance=everything, purge_orphaned_data=False
    )
    log.Reload()
    tags = log.Tags()
    # TensorFlow 2 logs a scalar as a tensor without dimensions.
    scalars = {tag: log.Scalars(tag) for tag in tags[event_accumulator.SCALARS]}
    tensors = {tag: log.Tensors(tag) for tag in tags[event_accumulator.TENSORS]}
    tagged: list[tuple[str, Any]] = []
    has_fall = False
    for tag, events in [*scalars.items(), *tensors.items()]:
        tagged += [(tag, event) for event in events]
        has_fall = has_fall or falls([event.step for event in events])
    if has_fall:
        # Tag by tag, it would not show which values follow on which.
        tagged.sort(key=lambda one: one[1].wall_time)
    clock_tag = _longest({**scalars, **tensors})
    for tag, event in tagged:
        clock = {CLOCK: event.wall_time} if tag == clock_tag else {}
        if tag in scalars:
            yield event.step, {tag: event.value, **clock}
            continue
        if event.tensor_proto.tensor_shape.dim:
            continue  # reading an array is unsafe: a few bytes can declare any size
        value = tensor_util.make_ndarray(event.tensor_proto)
        if value.ndim == 0 and value.dtype.kind in "fiu":
            yield event.step, {tag: float(value), **clock}


def _longest(logged: Mapping[str, Sequence[Any]]) -> str:
    """Return the metric with the most values, of which the times are read; "" without any."""
    return max(logged, key=lambda name: len(logged[name]), default="")


def mlflow_records(folder: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of MLflow's files, one per metric with lines of "time value step".

    They are yielded file by file, unless the step falls in one: then in the order of their times.
    A metric that is only at step 0 while others go on was logged without a step, which MLflow
    stores as 0: it is left out.
    """
    found = [path for path in folder.rglob("*") if path.is_file()]
    paths = sorted(path for path in found if not path.is_symlink())
    files = [_MlflowFile.of(path, folder) for path in paths]
    goes_on = any(file.last_step > 0 for file in files)
    kept: list[_MlflowFile] = []
    for file in files:
        for line in file.broken_lines:
            unused.add(MLFLOW, line)
        if goes_on and not file.has_steps:
            unused.add(WITHOUT_STEP, None)
        else:
            kept.append(file)
    logged: Iterable[_MlflowValue] = chain.from_iterable(file.values() for file in kept)
    if any(file.has_fall for file in kept):
        logged = sorted(logged, key=lambda one: one.time)
    for one in logged:
        yield one.record()


class _MlflowValue(NamedTuple):
    time: float
    step: int
    value: float
    name: str  # of the metric

    def record(self) -> Record:
        clock = clock_of({"timestamp": self.time})
        return self.step, {self.name: self.value, **clock}


@dataclass(slots=True)
class _MlflowFile:
    """The file of a metric."""

    path: Path
    name: str  # of the metric
    last_step: int = 0  # the largest one
    has_steps: bool = False  # whether any step is not 0
    has_fall: bool = False  # whether a step is lower than the one before
    broken_lines: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, folder: Path) -> _MlflowFile:
        """Read a file of MLflow once, to learn which steps it has."""
        file = cls(path, path.relative_to(folder).as_posix())
        before = None
        for number, line in enumerate(lines_of(path), 1):
            value = _mlflow_value(line, "")
            if value is None:
                if line.strip():
                    file.broken_lines.append(number)
                continue
            file.last_step = max(file.last_step, value.step)
            file.has_steps = file.has_steps or value.step != 0
            file.has_fall = file.has_fall or (
                before is not None and value.step < before
            )
            before = value.step
        return file

    def values(self) -> Iterator[_MlflowValue]:
        for line in lines_of(self.path):
            value = _mlflow_value(line, self.name)
            if value is not None:
                yield value


def _mlflow_value(line: bytes, name: str) -> _MlflowValue | None:
    """Return the value of the metric ``name`` in a line of its file, None if it is broken."""
    with suppress(ValueError):
        time, value, step = line.split()[:3]
        return _MlflowValue(float(time), int(step), float(value), name)
    return None


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
    with closing(open_database(path)) as database:
        found = database.execute("SELECT * FROM metrics LIMIT 0").description
        columns = {name for name, *_ in found}
        time_column = "timestamp" if "timestamp" in columns else "NULL"
        query = (
            f"SELECT step, {time_column}, metrics FROM metrics "
            "WHERE run_name = ? ORDER BY rowid"
        )
        events = (
            (integer(step), {"timestamp": time, **json_object(metrics)})
            for step, time, metrics in database.execute(query, (run,))
        )
        yield from records_of_rows(events, lambda row: dict(flat_numbers(row)), unused)


def records_of_rows(
    rows: Iterable[tuple[int | None, dict[str, Any]]],
    numbers: Callable[[dict[str, Any]], dict[str, float]],
    unused: UnusedRows,
) -> Iterator[Record]:
    """Yield the records of (the tracker's own count, row), at the steps of the trainer.

    ``numbers`` returns the metrics of a row.
    """
    logged = ((own, trainer_step(row), row) for own, row in rows)
    for step, row in with_trainer_steps(logged):
        metrics = numbers(row)
        if step is None:
            unused.add(STEP, None)
        elif metrics:
            yield step, metrics | counters_of(row)
