"""Trainer metrics of several files as one table by step."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.errors import UnusableInputError
from rlreport.metrics.records import records


def read_metrics(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return ``step`` (int64, ascending) and one float64 column a metric, by name.

    Where a metric is logged twice at a step, as after a restart, the later value stays.
    Infinite values become NaN.

    Raises:
        UnusableInputError: a file cannot be read as metrics.
        MissingExtraError: TensorBoard events without tensorboard.
    """
    by_step: dict[int, dict[str, float]] = {}
    for given in paths:
        path = Path(given)
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
