"""Read trainer metrics from JSON: one object a line, one document, ``trainer_state.json``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rlreport.errors import UnusableInputError
from rlreport.formats.containers import json_objects
from rlreport.formats.logged import dicts, mapping
from rlreport.formats.metric_rows import (
    STEP_KEYS,
    Record,
    counters_of,
    numbers_of,
    step_in,
)
from rlreport.formats.tracker_steps import with_steps_of_history
from rlreport.metrics.lines import (
    JSON,
    STEP,
    UnusedRows,
    lines_of,
)
from rlreport.system.documents import (
    MAX_JSON,
    load_json,
    read_bounded,
)

# Keys that transformers logs once at the end of training, so they make no curve
_SUMMARY = (
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
)


def json_line_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a file with one JSON object per line."""
    for number, event in with_steps_of_history(_events(path, unused)):
        yield from _records([event], unused, line=number)


def _events(path: Path, unused: UnusedRows) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of each line that is valid JSON."""
    for number, line in enumerate(lines_of(path, unused=unused), 1):
        try:
            yield number, load_json(line, "replace")
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
