"""Divide the responses of a run by environment: data set, task or agent, as the log names it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Ints
from rlreport.tables import Tables, length_column

# Names of logged fields that tell the environment, in order of preference; case is ignored
NAMES = (
    *("data_source", "env", "env_name", "environment", "env_id"),
    *("task", "task_name", "dataset", "agent"),
)
MAX_VALUES = 50  # a field with more different values names prompts, not environments
MIN_SHARE = 0.9  # fraction of the responses that must have the field
MAX_ENVIRONMENTS = 12  # the largest are kept apart, the others are pooled as one


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of a run: the MAX_ENVIRONMENTS with the most responses, and the rest."""

    column: str  # name of the logged field
    names: list[str]  # as logged, those with the most responses first; the pooled ones have none
    # int64 (rows,), index of each response's environment in ``names``; ``len(names)`` if it is one
    # of the pooled ones, −1 if it has none
    index: Ints


def environments_of(tables: Tables) -> Environments | None:
    """Return the environments of training responses, None unless there are 2 to MAX_VALUES."""
    fields = {str(name).lower(): str(name) for name in reversed(tables.extras.columns)}
    for column in (fields[name] for name in NAMES if name in fields):
        values = tables.extras[column]
        if pd.api.types.is_numeric_dtype(values):
            # Numbers of environments are integers; an ``env_id`` counts the copies of one.
            if column.lower() == "env_id" or (values % 1).any():
                continue
            values = values.map("{:g}".format, na_action="ignore")
        counts = values.value_counts()
        if 2 <= len(counts) <= MAX_VALUES and counts.sum() >= MIN_SHARE * len(values):
            order = sorted(counts.index, key=lambda name: (-counts[name], name))
            index = np.minimum(pd.Index(order).get_indexer(values), MAX_ENVIRONMENTS)
            return Environments(column, order[:MAX_ENVIRONMENTS], index.astype(np.int64))
    return None


def environment_steps(tables: Tables, environments: Environments) -> pd.DataFrame:
    """Return one row per environment and step that has responses.

    Columns: ``environment`` (index), ``step``, ``responses``, and the means ``reward``, ``length``
    (tokens or, if none are logged, characters) and ``finished``.
    """
    length = length_column(tables.responses)
    columns = tables.responses[["step", "reward", length, "finished"]]
    columns = columns.rename(columns={length: "length"}).assign(environment=environments.index)
    grouped = columns[columns["environment"] >= 0].groupby(["environment", "step"])
    means = grouped.mean()
    means.insert(0, "responses", grouped.size())
    return means.reset_index()
