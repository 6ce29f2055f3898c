"""Read the trainer's own metrics (e.g. loss), from given files or those found in the logs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.errors import RlreportError, UnusableInputError, UsageError
from rlreport.figures.ragged import Ints
from rlreport.metrics.readers import LeftOut
from rlreport.metrics.table import MetricsSource, MetricsTable, find_metrics, sources_of
from rlreport.read.files import name_in_logs
from rlreport.tables import MetricsFile, Note
from rlreport.text.messages import message

__all__ = ["TrainerMetrics", "find_metrics", "metrics_beside", "read_metrics"]


@dataclass(slots=True)
class TrainerMetrics:
    """The trainer's metrics from all files, and notes on what could not be read."""

    # ``step`` and one column per metric, see ``MetricsTable.frame``
    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    # metric -> steps at which it was NaN or infinite
    broken: dict[str, list[int]] = field(default_factory=dict)
    # the files that were read, and their descriptions in the report
    paths: list[Path] = field(default_factory=list)
    files: list[MetricsFile] = field(default_factory=list)
    # names of the runs if two of them have the same metric at the same step, else empty
    runs: list[str] = field(default_factory=list)
    # notes on files and rows that could not be read
    notes: list[Note] = field(default_factory=list)


def metrics_beside(
    logs: Sequence[str | Path], given: Sequence[str | Path] = (), run: str = ""
) -> TrainerMetrics:
    """Read the metrics files in ``given``, or if it is empty those found in the logs.

    Args:
        logs: files and folders of logs.
        given: metrics files, read instead of those found in ``logs``.
        run: name of the only run to read; "" for all runs.

    Raises:
        RlreportError: a file named by the user cannot be read, or there is no such run.
    """
    result, table = TrainerMetrics(), MetricsTable()
    seen: dict[str, Ints] = {}
    overlapping = False
    log_paths = {Path(path) for path in logs}
    if given:
        sources = [source for path in map(Path, given) for source in sources_of(path)]
    else:
        sources = [source for path in map(Path, logs) for source in find_metrics(path)]
    runs = sorted({source.run for source in sources})
    if run and run not in runs:
        raise UsageError(f"--run {run}: no such run; found: {', '.join(runs) or 'none'}")
    by_run: dict[str, list[MetricsSource]] = {}
    for source in sources:
        if run in ("", source.run):
            by_run.setdefault(source.run, []).append(source)
    for sources in by_run.values():
        of_run = MetricsTable()
        for source in sources:
            name = name_in_logs(source.path, logs)
            left_out = LeftOut()
            try:
                part = read_metrics(source, left_out)
            except RlreportError as error:
                # Trackio's database may contain only rollouts.
                if given or (source.path in log_paths and source.path.suffix != ".db"):
                    raise
                why = message("trainer metrics not read: {why}", why=str(error))
                result.notes.append(Note("metrics", why, 1, name))
                continue
            result.notes += left_out.notes(name)
            result.paths.append(source.path)
            result.files.append(MetricsFile(name, len(part.steps), sorted(part.parts)))
            of_run.extend(part)
        for name, steps in of_run.steps_of().items() if len(by_run) > 1 else ():
            overlapping |= bool(np.isin(steps, seen.get(name, ())).any())
            seen[name] = np.union1d(seen.get(name, ()), steps).astype(np.int64)
        table.extend(of_run)
    if overlapping:
        result.runs = sorted(by_run)
    result.table, result.broken = table.frame()
    result.notes += [Note("metrics", limit, 1) for limit in table.limits]
    return result


def read_metrics(source: MetricsSource, left_out: LeftOut) -> MetricsTable:
    """Read a metrics file into a table; count rows that cannot be used in ``left_out``.

    Raises:
        UnusableInputError: the file cannot be read as metrics.
        MissingExtraError: it needs an optional library.
    """
    table = MetricsTable()
    try:
        table.add(source.read(left_out))
    except (OSError, ValueError, OverflowError, sqlite3.Error) as error:
        why = f"{source.path.name}: cannot be read as metrics: {error}"
        raise UnusableInputError(why) from error
    if not table.parts:
        raise UnusableInputError(f"{source.path.name}: no steps with numbers in it")
    return table
