"""The trainer's own metrics: from the files given, else from those found next to the logs."""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.metric_rows import KIND_KEYS, STEP_KEYS, is_event
from rlreport.metrics.records import EVENTS, lines_kind, lines_of, records
from rlreport.metrics.roles import roles_of
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

MAX_BROKEN = 1_000
"""Steps of a metric that are named as NaN or infinite."""

LEFT_OUT = "left_out"
BROKEN = "broken"

_DEPTH = 4
_PEEK = 1 << 20
_GRAD_NORM = re.compile(r"grad\w*norm", re.IGNORECASE)


@dataclass(slots=True)
class TrainerMetrics:
    """Metrics of all files (see ``read_metrics``) and notes on what could not be read.

    ``broken`` has by metric the first MAX_BROKEN steps at which it was NaN or infinite; ``files``
    are ``paths`` as a report names them.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    broken: dict[str, list[int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    files: list[MetricsFile] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def metrics_beside(logs: Sequence[str | Path], given: Sequence[str | Path]) -> TrainerMetrics:
    """Read the given metrics files, or else those found in folders of logs.

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
        names = list(dict.fromkeys(name for table in tables for name in table.columns[1:]))
        names, limits = _limited(names, sum(map(len, tables)))
        read.notes += [Note("metrics", limit, 1) for limit in limits]
        for table in tables:
            for metric, steps in table.attrs[BROKEN].items():
                if metric in names:
                    known = {*read.broken.get(metric, ()), *steps}
                    read.broken[metric] = sorted(known)[:MAX_BROKEN]
        kept = [table.filter(["step", *names]) for table in tables]
        read.table = pd.concat(kept).groupby("step", sort=True).last().reset_index()
    return read


def _limited(names: Sequence[str], steps: int, more: int = 0) -> tuple[list[str], list[str]]:
    """Return the metrics that a table of so many steps may have, and a sentence on all others.

    ``more`` is the number of further metrics that were left out before.
    """
    most = min(MAX_METRICS, MAX_CELLS // max(1, steps))
    left_out = len(names) + more - most
    text = message(
        "{n:count} metrics beyond the first {most:count} left out", n=left_out, most=most
    )
    return list(names[:most]), [text] if left_out > 0 else []


def read_metrics(path: Path) -> pd.DataFrame:
    """Return ``step`` (int64, ascending) and one float64 column a metric, by name.

    Several values in a row at one step, as of several updates, become their mean; for the norm of
    the gradient the largest. A step that is logged again later, as after a restart, replaces the
    earlier one. NaN and infinite values are left out of the table; ``attrs[BROKEN]`` has their
    steps by metric. ``attrs[LEFT_OUT]`` names what is too much to read, as sentences.

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
                text = message("values after the first {most:count} left out", most=MAX_VALUES)
                left_out.append(text)
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
    names, limits = _limited(list(curves), len(steps), more=len(refused))
    left_out += limits
    columns: dict[str, NDArray[Any]] = {"step": steps}
    broken: dict[str, list[int]] = {}
    for name in sorted(set(names) - {"step"}):
        at, logged_values = (np.asarray(part) for part in curves[name])
        column, bad = _by_step(steps, at, logged_values, largest=bool(_GRAD_NORM.search(name)))
        columns[name] = column
        if bad.any():
            broken[name] = steps[bad][:MAX_BROKEN].tolist()
    _drop_placeholders(columns)
    table = pd.DataFrame(columns)
    table.attrs |= {LEFT_OUT: left_out, BROKEN: broken}
    return table


def _drop_placeholders(columns: dict[str, NDArray[Any]]) -> None:
    """Drop the zeros of the validation reward at steps where its sibling metrics are missing.

    Some trainers log 0 for the one and null for the other at every step without an evaluation.
    """
    name = roles_of(columns).get("validation")
    if name is None:
        return
    prefix = re.match(r"[^_/.-]*[_/.-]", name)
    values = columns[name]
    siblings = [other for other in columns if prefix and other.startswith(prefix[0])]
    for missing in (np.isnan(columns[sibling]) for sibling in siblings):
        if missing.any() and not values[missing].any() and values[~missing].any():
            columns[name] = np.where(missing, np.nan, values)
            return


@np.errstate(over="ignore", invalid="ignore")
def _by_step(
    steps: Ints, at: Ints, values: Floats, *, largest: bool
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return one value for each step, NaN without a finite one, and whether any was not finite."""
    starts = np.flatnonzero(np.diff(at, prepend=at[0] - 1))
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite.astype(np.int64), starts)
    if largest:
        merged = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    else:
        merged = np.add.reduceat(np.where(finite, values, 0.0), starts) / counts
    column, bad = np.full(len(steps), np.nan), np.zeros(len(steps), np.bool_)
    place = np.searchsorted(steps, at[starts])
    column[place] = np.where(np.isfinite(merged), merged, np.nan)
    bad[place] = counts < np.diff(starts, append=len(at))
    return column, bad


def find_metrics(folder: Path) -> list[Path]:
    """Return the metrics files in ``folder`` and below, sorted.

    Found by name (``*trainer_state.json``, TensorBoard events) or by content: ``.jsonl`` whose
    first line is a step with numbers, ``.csv`` with a step column among numbers, both also
    compressed (``.gz``, ``.zst``). Of several ``trainer_state.json``, as checkpoints keep them,
    only the longest history is taken. Links to folders are not followed.
    """
    found: list[Path] = []
    states: list[tuple[int, str]] = []
    for place, folders, names in os.walk(folder):
        deep = len(Path(place).relative_to(folder).parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith("."))
        for path in (Path(place) / name for name in names):
            if not path.is_file():
                continue  # a pipe would be waited for
            if path.name.endswith("trainer_state.json"):
                states.append((path.stat().st_size, str(path)))
            elif path.name.startswith(f"{EVENTS}.") or _holds_metrics(path):
                found.append(path)
    if states:
        found.append(Path(max(states)[1]))
    return sorted(found)


def _holds_metrics(path: Path) -> bool:
    if not (kind := lines_kind(path)):
        return False
    try:
        with closing(lines_of(path, _PEEK)) as lines:
            first, second = next(lines, b""), next(lines, b"")
        if kind == ".jsonl":
            return is_event(load_json(first, "replace"))
        names = first.decode("utf-8-sig", errors="replace").strip().split(",")
        cells = second.decode(errors="replace").strip().split(",")
        if len(names) < 2 or len(cells) != len(names) or not set(STEP_KEYS) & set(names):
            return False
        for name, cell in zip(names, cells, strict=True):
            if name not in KIND_KEYS:
                float(cell or "nan")
    except (OSError, ValueError):
        return False
    return True
