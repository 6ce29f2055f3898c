"""Read trainer metrics of TensorBoard, MLflow and Trackio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
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
from rlreport.text.messages import message

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
            yield one.record()
        return
    for name, path in zip(names, paths, strict=True):
        for one in _mlflow_values(path, name):
            yield one.record()


class _MlflowValue(NamedTuple):
    time: float
    step: int
    value: float
    name: str  # of the metric

    def record(self) -> Record:
        clock = clock_of({"timestamp": self.time})
        return self.step, {self.name: self.value, **clock}


def _has_fall(path: Path) -> bool:
    return falls(one.step for one in _mlflow_values(path, ""))


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
    with closing(open_database(path)) as database:
        found = database.execute("SELECT * FROM metrics LIMIT 0").description
        columns = {name for name, *_ in found}
        time_column = "timestamp" if "timestamp" in columns else "NULL"
        query = (
            f"SELECT step, {time_column}, metrics FROM metrics "
            "WHERE run_name = ? ORDER BY rowid"
        )
        for logged_step, time, metrics in database.execute(query, (run,)):
            event = json_object(metrics)
            numbers = dict(flat_numbers(event))
            step = integer(logged_step)
            if step is None:
                unused.add(STEP, None)
            elif numbers:
                yield step, numbers | counters_of(event) | clock_of({"timestamp": time})
