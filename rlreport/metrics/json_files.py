"""Read trainer metrics from JSON: one object a line, one document, ``trainer_state.json``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rlreport.errors import UnusableInputError
from rlreport.formats.base import Row
from rlreport.formats.containers import json_objects
from rlreport.formats.logged import mapping
from rlreport.formats.metric_rows import (
    RUNTIME,
    STEP_KEYS,
    Record,
    counters_of,
    is_event,
    numbers_of,
    step_in,
)
from rlreport.formats.tracker_steps import with_steps_of_history
from rlreport.metrics import shapes
from rlreport.metrics.lines import (
    JSON,
    NUMBERED,
    STEP,
    UnusedRows,
    first_names,
    lines_of,
)
from rlreport.metrics.unread_texts import remark_on_fields
from rlreport.system.documents import (
    MAX_JSON,
    LimitError,
    load_json,
    read_bounded,
)
from rlreport.text.messages import message

# Keys that transformers logs once at the end of training, so they make no curve
_SUMMARY = (
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
)
# Lines at the start of a log that may be a configuration
_MAX_SETTINGS = 5
# Bytes of a line at the start of a log, such as one of many thousand metrics
LONGEST_HEAD = 16 << 20
# and of all these lines: rollouts of 20,000 tokens have a MB each
MOST_HEAD = 16 << 20


def json_line_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a file with one JSON object per line."""
    events = iter(with_steps_of_history(_events(path, unused)))
    head = list(islice(events, shapes.HEAD))
    rows = [event for _, event in head if isinstance(event, dict)]
    key = shapes.step_of_rows(rows)
    remark_on_fields(rows, unused)
    logged = 0  # number of rows with metrics
    for number, event in chain(head, events):
        if not isinstance(event, dict):
            continue
        if number <= _MAX_SETTINGS and step_in(event) is None:
            settings = shapes.configuration_of(event)
            if settings:
                unused.settings |= settings
                continue
        if key is not None and key not in STEP_KEYS:
            row = _with_step(event, key, logged, unused)
            logged += 1
        else:
            row = event
        yield from _records([row], unused, line=number)


def _events(path: Path, unused: UnusedRows) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of each line that is valid JSON."""
    for number, line in enumerate(lines_of(path, unused=unused), 1):
        try:
            yield number, load_json(line, "replace")
        except ValueError:
            if line.strip():
                unused.add(JSON, number)


def _with_step(row: Row, key: str, number: int, unused: UnusedRows) -> Row:
    """Return a row with its step, and add to ``unused`` how the step was found."""
    if key == shapes.INDEX:
        unused.add(NUMBERED, None)
    else:
        unused.remark(message("the step is read from {key}", key=f"`{key}`"))
    return shapes.stepped(row, key, number)


def _records(
    events: Iterable[Any], unused: UnusedRows, line: int | None = None
) -> Iterator[Record]:
    """Yield (step, metrics) of each event; add events with an invalid step to ``unused``.

    ``line`` is the number of the line that has the events, None if they have no lines. Other
    objects, and those without metrics or a step, are skipped.
    """
    for event in events:
        metrics = numbers_of(event) if isinstance(event, dict) else {}
        counters = counters_of(event) if isinstance(event, dict) else {}
        if not metrics and RUNTIME not in counters:
            continue
        step = step_in(event)
        if step is not None:
            yield step, metrics | counters
        elif not event.keys().isdisjoint(STEP_KEYS):
            unused.add(STEP, line)


def head_of(path: Path) -> list[Row]:
    """Return the objects in the first lines of a file, up to about MOST_HEAD bytes of them."""
    rows: list[Row] = []
    size = 0
    with closing(lines_of(path, LONGEST_HEAD)) as lines:
        for line in islice(lines, shapes.HEAD):
            size += len(line)
            if rows and size > MOST_HEAD:
                break
            try:
                value = load_json(line, "replace")
            except ValueError:
                continue
            if isinstance(value, dict):
                rows.append(value)
    return rows


def are_events(rows: Sequence[Row]) -> bool:
    """Return whether most of the first rows of a log are metrics, apart from a configuration."""
    logged = [row for row in shapes.without_settings(rows) if not _is_empty(row)]
    return bool(logged) and 2 * sum(map(is_event, logged)) >= len(logged)


def _is_empty(row: Row) -> bool:
    """Return whether a row has a step only, as of metrics that are rarely logged."""
    values = [value for key, value in row.items() if key not in STEP_KEYS]
    return step_in(row) is not None and not any(value is not None for value in values)


def json_runs(path: Path) -> list[str]:
    """Return the names of the runs in a JSON document, [] if it has not several."""
    runs = shapes.document_of(load_json(read_bounded(path, MAX_JSON), "replace")).runs
    return list(runs) if len(runs) > 1 else []


def has_series(path: Path) -> bool:
    """Return whether a JSON document has metrics in one of the shapes of ``metrics.shapes``."""
    content = read_bounded(path, MAX_JSON)
    return bool(shapes.document_of(load_json(content, "replace")).runs)


def json_records(path: Path, unused: UnusedRows, run: str = "") -> Iterator[Record]:
    """Yield the records of a JSON document, such as a ``trainer_state.json``; or of its ``run``."""
    content = read_bounded(path, MAX_JSON)
    try:
        value = load_json(content, "replace")
    except LimitError:
        raise
    except ValueError:  # objects in lines
        value = None
    document = shapes.document_of(value)
    unused.settings |= document.settings
    if document.runs:
        wanted = [run] if run in document.runs else document.runs
        for series in chain.from_iterable(document.runs[name] for name in wanted):
            yield from _records(_rows_of(series, unused), unused)
        return
    has_history = isinstance(mapping(value).get("log_history"), list)
    if path.name.endswith("trainer_state.json") and not has_history:
        raise UnusableInputError(
            f"{path.name}: not a trainer state, as it has no `log_history`"
        )
    records = [*_records(json_objects(io.BytesIO(content)), unused)]
    if not records:
        raise UnusableInputError(f"{path.name}: contains no steps with numbers")
    yield from records


def _rows_of(series: shapes.Series, unused: UnusedRows) -> Iterator[Row]:
    """Yield the rows of a series with their steps."""
    if series.left_out:
        unused.remark(_on_left_out(series))
    for number, row in enumerate(series.rows):
        event = {key: value for key, value in row.items() if key not in _SUMMARY}
        if "train_runtime" in row:  # how long the run took, in seconds
            event["_runtime"] = row["train_runtime"]
        if series.step not in STEP_KEYS:
            event = _with_step(event, series.step, number, unused)
        yield event


def _on_left_out(series: shapes.Series) -> str:
    """Return a remark on the columns of a document that are not read."""
    names = first_names(series.left_out)
    if series.step == shapes.INDEX:
        return message(
            "columns of another length than most, left out: {names}", names=names
        )
    return message(
        "columns of another length than that of the steps, left out: {names}",
        names=names,
    )
