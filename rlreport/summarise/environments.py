"""The tables of environments by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Ints
from rlreport.summarise.steps import rounded_columns
from rlreport.tables import Tables, length_column
from rlreport.text.messages import message

# Names of logged fields that contain the environment, most preferred first; case is ignored
ENVIRONMENT_FIELDS = (
    "data_source",
    "env",
    "env_name",
    "environment",
    "env_id",
    "task",
    "task_name",
    "dataset",
    "agent",
)
MAX_VALUES = 50  # a field with more different values names prompts, not environments
MIN_SHARE = 0.9  # fraction of the responses that must have the field
MAX_ENVIRONMENTS = 12  # the largest are kept apart, the others are pooled as one


@dataclass(frozen=True, slots=True)
class Environments:
    """The MAX_ENVIRONMENTS environments with the most responses; the others are pooled as one.

    Attributes:
        column: name of the logged field.
        names: as logged, the one with the most responses first, without the pooled ones.
        index: index of each response's environment in ``names``, int64 (rows,); ``len(names)`` for
            a pooled environment, −1 for a response without one.
    """

    column: str
    names: list[str]
    index: Ints

    @property
    def labels(self) -> list[str]:
        """The names, then a label for the pooled environments that differs from all names."""
        pooled = message("others")
        if pooled in self.names:
            pooled = message("all others")
        return [*self.names, pooled]


def environments_of(tables: Tables) -> Environments | None:
    """Return the environments of a run's responses, see ``environments_in``."""
    return environments_in(tables.extras)


def environments_in(extras: pd.DataFrame) -> Environments | None:
    """Return the environments by a field in ENVIRONMENT_FIELDS; None without a suitable field.

    ``extras`` has a row per response and a column per logged field.

    A field is suitable if most responses have it, with two to MAX_VALUES different values.
    """
    # Lower case -> name as logged. Of fields that differ in case only, the first counts: it is
    # assigned last.
    columns = [str(name) for name in reversed(extras.columns)]
    logged_names = {name.lower(): name for name in columns}
    for field in ENVIRONMENT_FIELDS:
        if field not in logged_names:
            continue
        logged_name = logged_names[field]
        values = _names_in(extras[logged_name], field)
        if values is None:
            continue
        counts = values.value_counts()
        is_common = counts.sum() >= MIN_SHARE * len(values)
        if is_common and 2 <= len(counts) <= MAX_VALUES:
            order = sorted(counts.index, key=lambda name: (-counts[name], name))
            index = pd.Index(order).get_indexer(values)  # −1 for a response without
            pooled = np.minimum(index, MAX_ENVIRONMENTS).astype(np.int64)
            return Environments(logged_name, order[:MAX_ENVIRONMENTS], pooled)
    return None


def _names_in(values: pd.Series, field: str) -> pd.Series | None:
    """Return a field's values as names of environments, null if empty; None if they are no names.

    ``field`` is the field's name in lower case.
    """
    if not pd.api.types.is_numeric_dtype(values):
        is_empty = values.astype(str).str.strip() == ""
        return values.mask(is_empty)
    # Numbers of environments are integers; an ``env_id`` counts the copies of one.
    if field == "env_id" or (values % 1).any():
        return None
    return values.map("{:.0f}".format, na_action="ignore")


def environment_steps(tables: Tables, environments: Environments) -> pd.DataFrame:
    """Return one row per environment and step that has responses.

    Columns: ``environment`` (index in ``names``), ``step``, ``responses`` (their number), and the
    means ``reward``, ``length`` (tokens or, if none are logged, characters) and ``finished``.
    """
    length = length_column(tables.responses)
    columns = tables.responses[["step", "reward", length, "finished"]]
    columns = columns.rename(columns={length: "length"}).assign(
        environment=environments.index
    )
    grouped = columns[columns["environment"] >= 0].groupby(["environment", "step"])
    means = rounded_columns(grouped.mean())
    means.insert(0, "responses", grouped.size())
    return means.reset_index()
