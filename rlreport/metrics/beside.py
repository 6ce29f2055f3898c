"""The trainer's own metrics for a report: those given, else those that lie beside the logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rlreport.errors import RlreportError
from rlreport.metrics.find import find_metrics
from rlreport.metrics.table import read_metrics
from rlreport.tables import Note


def metrics_beside(
    logs: Sequence[str | Path], given: Sequence[str]
) -> tuple[pd.DataFrame, list[Note]]:
    """Reads trainer metrics.

    Args:
        logs: as given to the build; folders among them are searched.
        given: metrics files named by the user, instead of a search.

    Returns:
        As ``read_metrics``, and notes on files that were found but could not be read.

    Raises:
        RlreportError: a file named by the user cannot be read.
    """
    if given:
        return read_metrics(given), []
    tables, notes = [], []
    for folder in dict.fromkeys(Path(log) for log in logs):
        for file in find_metrics(folder) if folder.is_dir() else []:
            try:
                tables.append(read_metrics([file]))
            except RlreportError as error:
                notes.append(Note("metrics", f"trainer metrics not read: {error}", 1, file.name))
    if not tables:
        return pd.DataFrame({"step": pd.Series(dtype="int64")}), notes
    merged = pd.concat(tables).groupby("step", sort=True).last().reset_index()
    return merged, notes
