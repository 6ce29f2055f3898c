"""The trainer's own metrics: those given, else those that lie beside the logs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.metrics.records import EVENTS, STEP_KEYS, is_event, parsed, records
from rlreport.read.files import name_in_logs
from rlreport.tables import MetricsFile, Note
from rlreport.text.messages import message

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
    if tables:
        read.table = pd.concat(tables).groupby("step", sort=True).last().reset_index()
    return read


def read_metrics(path: Path) -> pd.DataFrame:
    """Return ``step`` (int64, ascending) and one float64 column a metric, by name.

    Where a metric is logged twice at a step, as after a restart, the later value stays.
    Infinite values become NaN.

    Raises:
        UnusableInputError: the file cannot be read as metrics.
        MissingExtraError: TensorBoard events without tensorboard.
    """
    by_step: dict[int, dict[str, float]] = {}
    try:
        for step, found in records(path):
            by_step.setdefault(step, {}).update(found)
    except (OSError, ValueError, csv.Error) as error:
        raise UnusableInputError(f"{path.name}: cannot be read as metrics: {error}") from error
    steps = sorted(by_step)
    table = pd.DataFrame({"step": np.asarray(steps, dtype=np.int64)})
    names = sorted({name for found in by_step.values() for name in found})
    if not names:
        return table
    values = np.array([[by_step[step].get(name, np.nan) for name in names] for step in steps])
    values[~np.isfinite(values)] = np.nan
    return pd.concat([table, pd.DataFrame(values, columns=names)], axis=1)


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
            return is_event(parsed(first))
        names = first.decode("utf-8-sig", errors="replace").strip().split(",")
        cells = second.decode(errors="replace").strip().split(",")
        if len(names) < 2 or len(cells) != len(names) or not set(STEP_KEYS) & set(names):
            return False
        for cell in cells:
            float(cell or "nan")
    except (OSError, ValueError):
        return False
    return True
