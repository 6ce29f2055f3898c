"""Which rank, replica, engine or node each response comes from, if the log says so."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.run import Run, once_per_run
from rlreport.figures.ragged import Ints

# Names of logged fields that contain the source, most preferred first; case is ignored
SOURCE_FIELDS = (
    "replica",
    "replica_id",
    "engine",
    "engine_id",
    "rank",
    "dp_rank",
    "node",
    "node_id",
    "worker",
    "worker_id",
    "server",
    "server_id",
)
_IN_FILE_NAME = re.compile(
    r"(?<![a-z])(rank|replica|engine|node|worker)[_-]?(\d+)", re.IGNORECASE
)
MOST_SOURCES = 256  # a field with more different values names no ranks
MIN_SHARE = 0.9  # fraction of the responses that must have the field


@dataclass(frozen=True, slots=True)
class Sources:
    """Where responses come from.

    Attributes:
        kind: "rank", "replica", "engine", "node", "worker" or "server".
        names: of the sources, as logged, in the order of their first response.
        index: index of each response's source in ``names``, int64 (rows,), −1 without one.
    """

    kind: str
    names: list[str]
    index: Ints

    def __len__(self) -> int:
        return len(self.names)

    def label(self, source: int) -> str:
        """Return what a source is called ("replica 3")."""
        return f"{self.kind} {self.names[source]}"

    def is_from(self, source: int) -> NDArray[np.bool_]:
        """Return which responses come from a source, bool (rows,)."""
        return np.asarray(self.index == source, bool)


@once_per_run
def sources_of(run: Run) -> Sources | None:
    """Return the sources of a run's responses, None unless the log has two or more."""
    extras = run.tables.extras
    logged = {str(name).lower(): name for name in reversed(extras.columns)}
    for field in SOURCE_FIELDS:
        if field not in logged:
            continue
        kind = field.removeprefix("dp_").removesuffix("_id")
        sources = _sources(kind, extras[logged[field]])
        if sources is not None:
            return sources
    return _sources_of_files(run)


def _sources_of_files(run: Run) -> Sources | None:
    """Return the sources that names of the files tell ("rank_3.jsonl"), None if they do not."""
    found = [_IN_FILE_NAME.search(file.name) for file in run.tables.files]
    kinds = {match.group(1).lower() for match in found if match}
    if len(kinds) != 1:
        return None
    numbers = [match.group(2) if match else None for match in found]
    of_file = pd.Series(numbers, dtype=object)
    return _sources(kinds.pop(), run.responses["file"].map(of_file))


def _sources(kind: str, values: pd.Series) -> Sources | None:
    """Return sources by their names, None if they are too few, too many, or mostly missing."""
    if pd.api.types.is_numeric_dtype(values):
        # Ranks are integers, which a column with missing values has as floats.
        is_whole = values.isna() | (values % 1 == 0)
        if not is_whole.all():
            return None
        values = values.astype("Int64").astype(object)
    index, names = pd.factorize(values)
    if not 2 <= len(names) <= MOST_SOURCES:
        return None
    if np.count_nonzero(index >= 0) < MIN_SHARE * len(index):
        return None
    return Sources(kind, [str(name) for name in names], index.astype(np.int64))
