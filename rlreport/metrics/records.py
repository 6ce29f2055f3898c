"""Records of trainer metrics, one dict of numbers a log event, from each kind of file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlreport.errors import MissingExtraError, UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.sidefiles import (
    MAX_COLUMNS,
    MAX_JSON,
    LimitError,
    bounded_lines,
    load_json,
    read_bounded,
)
from rlreport.text.messages import message

Record = tuple[int, dict[str, float]]
"""Step and the metrics logged at it."""

STEP_KEYS = (
    "step", "global_step", "_step", "training_step", "training/global_step", "Step",
    "global_step/max_steps", "iteration",  # ms-swift, as "3/100"
)  # fmt: skip

_DEEPEST = 16
"""Levels of objects in which metrics are looked for."""

MAX_NAME = 500
"""Characters of a metric's name; longer ones are left out."""

MAX_EVENTS = 1_000_000_000
"""Bytes of a file of TensorBoard events, which its library reads whole."""

_STEP_OF_STEPS = re.compile(r"(\d{1,16})/\d+")
_NO_METRICS = frozenset({*STEP_KEYS, "epoch", "total_flos", "_timestamp", "_runtime", "timestamp"})
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
    elif path.suffix == ".csv":
        yield from _csv(path)
    elif path.suffix == ".jsonl":
        yield from _lines(path)
    else:
        raise UnusableInputError(
            f"{path.name}: no metrics file; known are trainer_state.json, .jsonl, .csv and "
            "TensorBoard events"
        )


def flat_numbers(
    obj: dict[str, Any], prefix: str = "", depth: int = _DEEPEST
) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of every number in an object, nested names joined by ``/``."""
    for key, value in obj.items():
        name = f"{prefix}{key}"
        if len(name) > MAX_NAME:
            continue
        if isinstance(value, dict) and depth:
            yield from flat_numbers(value, f"{name}/", depth - 1)
        elif isinstance(value, int | float) and name not in _NO_METRICS:
            try:
                yield name, float(value)
            except OverflowError:
                yield name, math.inf  # an integer beyond float64


def step_in(obj: dict[str, Any]) -> int | None:
    """Return the step an object says, None without one (or with one that no float64 holds)."""
    for key in STEP_KEYS:
        value = obj.get(key)
        if isinstance(value, str):
            counted = _STEP_OF_STEPS.fullmatch(value)
            value = int(counted[1]) if counted else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if abs(value) <= LARGEST_STEP and value == int(value):
            return int(value)
    return None


def is_event(obj: object) -> bool:
    """Tell whether an object is a step with numbers, and has no text or list of a rollout."""
    if not isinstance(obj, dict) or step_in(obj) is None:
        return False
    own = _own_metrics(obj)
    if any(isinstance(value, list) for value in own.values()):
        return False
    if not {"prompt", "response", "completion", "input", "output"}.isdisjoint(own):
        return False
    return any(True for _ in flat_numbers(own))


def _own_metrics(event: dict[str, Any]) -> dict[str, Any]:
    """Return the object that holds an event's metrics: verl keeps them under ``data``."""
    own = event.get("data")
    return own if isinstance(own, dict) else event


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
    with path.open("rb") as lines:
        for line in bounded_lines(lines):
            try:
                event = load_json(line, "replace")
            except ValueError:
                continue  # the torn last line of a growing log
            step = step_in(event) if isinstance(event, dict) else None
            if step is None:
                continue
            found = dict(flat_numbers(_own_metrics(event)))
            if found:
                yield step, found


def _csv(path: Path) -> Iterator[Record]:
    with path.open("rb") as table:
        rows = csv.DictReader(line.decode("utf-8-sig", "replace") for line in bounded_lines(table))
        if len(rows.fieldnames or ()) > MAX_COLUMNS:
            raise LimitError(message("a table of over {most:count} columns", most=MAX_COLUMNS))
        key = next((key for key in STEP_KEYS if key in (rows.fieldnames or ())), None)
        if key is None:
            raise UnusableInputError(f"{path.name}: no column named step, so no metrics table")
        for row in rows:
            cells = {name: _cell(cell) for name, cell in row.items() if name is not None}
            step = step_in({"step": cells.get(key)})
            found = dict(flat_numbers(cells))
            if step is not None and found:
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
