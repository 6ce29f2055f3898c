"""The trainer's own metrics for a report: those given, else those that lie beside the logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from rlreport.errors import RlreportError
from rlreport.metrics.find import find_metrics
from rlreport.metrics.table import read_metrics
from rlreport.read.sources import name_beside
from rlreport.tables import MetricsFile, Note
from rlreport.text.messages import message


@dataclass(slots=True)
class TrainerMetrics:
    """What was read beside the logs.

    Attributes:
        table: as ``read_metrics`` gives it.
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
    for path in dict.fromkeys(map(Path, given) if given else _found(logs)):
        name = name_beside(path, logs)
        try:
            table = read_metrics([path])
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


def _found(logs: Sequence[str | Path]) -> list[Path]:
    folders = [Path(log) for log in logs]
    return [path for folder in folders if folder.is_dir() for path in find_metrics(folder)]
