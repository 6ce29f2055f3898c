"""The trainer's own metrics: those given, else those that lie beside the logs."""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.metrics.records import EVENTS, STEP_KEYS, is_event, records
from rlreport.read.files import name_in_logs
from rlreport.sidefiles import load_json
from rlreport.tables import MetricsFile, Note
from rlreport.text.messages import message

MAX_METRICS = 2_000
"""Names of metrics that are read; those of the first records are kept."""

MAX_VALUES = 10_000_000
"""Values of a file that are read."""

MAX_CELLS = 20_000_000
"""Steps times metrics of a table."""

LEFT_OUT = "left_out"

_DEPTH = 4
_PEEK = 1 << 20


@dataclass(slots=True)
class TrainerMetrics:
    """What was read beside the logs.

    Attributes:
        table: as ``read_metrics`` gives it, of all files.
        paths: where the files lie.
        files: the same files as a report names them.
        notes: remarks on files that were found but could not be read.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    paths: list[Path] = field(default_factory=list)
    files: list[MetricsFile] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def metrics_beside(logs: Sequence[str | Path], given: Sequence[str]) -> TrainerMetrics:
    """Reads trainer metrics.

    Args:
        logs: as given to the build; folders among them are searched.
        given: metrics files named by the user, instead of a search.

    Raises:
        RlreportError: a file named by the user cannot be read.
    """
    read, tables = TrainerMetrics(), []
    found = [path for log in map(Path, logs) if log.is_dir() for path in find_metrics(log)]
    for path in dict.fromkeys(map(Path, given) if given else found):
        name = name_in_logs(path, logs)
        try:
            table = read_metrics(path)
        except RlreportError as error:
            if given:
                raise
            read.notes.append(
                Note("metrics", message("trainer metrics not read: {why}", why=str(error)), 1, name)
            )
            continue
        tables.append(table)
        read.paths.append(path)
        read.files.append(MetricsFile(name, len(table), [str(m) for m in table.columns[1:]]))
        read.notes += [Note("metrics", limit, 1, name) for limit in table.attrs.get(LEFT_OUT, ())]
    if tables:
        tables, limits = _first_names(tables)
        read.notes += [Note("metrics", limit, 1) for limit in limits]
        read.table = pd.concat(tables).groupby("step", sort=True).last().reset_index()
    return read


def _first_names(tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], list[str]]:
    """Return the tables with as many metrics as one table may have, and a note if some lack."""
    names = list(dict.fromkeys(name for table in tables for name in table.columns[1:]))
    room = _room(sum(map(len, tables)))
    kept = {"step", *names[:room]}
    return [t[[n for n in t if n in kept]] for t in tables], _missing(len(names), room)


def _room(steps: int) -> int:
    """Return how many metrics a table of so many steps may have."""
    return min(MAX_METRICS, MAX_CELLS // max(1, steps))


def _missing(names: int, room: int) -> list[str]:
    text = message(
        "{n:count} metrics beyond the first {most:count} left out", n=names - room, most=room
    )
    return [text] if names > room else []


def read_metrics(path: Path) -> pd.DataFrame:
    """Return ``step`` (int64, ascending) and one float64 column a metric, by name.

    Where a metric is logged twice at a step, as after a restart, the later value stays.
    Infinite values become NaN. What is left out since there is too much of it stands in
    ``attrs[LEFT_OUT]``, as sentences.

    Raises:
        UnusableInputError: the file cannot be read as metrics.
        MissingExtraError: TensorBoard events without tensorboard.
    """
    curves: dict[str, tuple[array[int], array[float]]] = {}
    left_out: list[str] = []
    refused, values = set[int](), 0
    try:
        for step, found in records(path):
            values += len(found)
            if values > MAX_VALUES:
                left_out.append(
                    message("values after the first {most:count} left out", most=MAX_VALUES)
                )
                break
            for name, value in found.items():
                if name not in curves:
                    if len(curves) >= MAX_METRICS:
                        refused.add(hash(name))
                        continue
                    curves[name] = (array("q"), array("d"))
                curves[name][0].append(step)
                curves[name][1].append(value)
    except (OSError, ValueError, csv.Error) as error:
        raise UnusableInputError(f"{path.name}: cannot be read as metrics: {error}") from error
    logged = [np.frombuffer(at, np.int64) for at, _ in curves.values()]
    steps = np.unique(np.concatenate([np.empty(0, np.int64), *logged]))
    room = _room(len(steps))
    left_out += _missing(len(curves) + len(refused), room)
    columns: dict[str, NDArray[Any]] = {"step": steps}
    for name in sorted({*list(curves)[:room]} - {"step"}):
        column = np.full(len(steps), np.nan)
        column[np.searchsorted(steps, curves[name][0])] = curves[name][1]
        column[~np.isfinite(column)] = np.nan
        columns[name] = column
    table = pd.DataFrame(columns)
    table.attrs[LEFT_OUT] = left_out
    return table


def find_metrics(folder: Path) -> list[Path]:
    """Return the metrics files in ``folder`` and below, sorted.

    Found by name (``trainer_state.json``, TensorBoard events) or by content: ``.jsonl`` whose
    first line is a step with numbers, ``.csv`` with a step column among numbers. Of several
    ``trainer_state.json``, as checkpoints keep them, the longest history alone is taken. Links
    to folders are not followed.
    """
    found: list[Path] = []
    states: list[tuple[int, str]] = []
    for place, folders, names in os.walk(folder):
        deep = len(Path(place).relative_to(folder).parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for path in (Path(place) / name for name in names):
            if not path.is_file():
                continue  # a pipe would be waited for
            if path.name == "trainer_state.json":
                states.append((path.stat().st_size, str(path)))
            elif path.name.startswith(f"{EVENTS}.") or _holds_metrics(path):
                found.append(path)
    if states:
        found.append(Path(max(states)[1]))
    return sorted(found)


def _holds_metrics(path: Path) -> bool:
    if path.suffix not in (".jsonl", ".csv"):
        return False
    try:
        with path.open("rb") as opened:
            first, second = opened.readline(_PEEK), opened.readline(_PEEK)
        if path.suffix == ".jsonl":
            return is_event(load_json(first, "replace"))
        names = first.decode("utf-8-sig", errors="replace").strip().split(",")
        cells = second.decode(errors="replace").strip().split(",")
        if len(names) < 2 or len(cells) != len(names) or not set(STEP_KEYS) & set(names):
            return False
        for cell in cells:
            float(cell or "nan")
    except (OSError, ValueError):
        return False
    return True
