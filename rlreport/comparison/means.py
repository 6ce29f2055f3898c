"""Means of figures by prompt, and their differences between the runs of two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.run import has
from rlreport.comparison.statistics import Effect, paired_effect, unpaired_effect
from rlreport.summarise.steps import rounded_columns


class Means(NamedTuple):
    """Each prompt's mean figures, indexed by ``pair``: a table per run."""

    bases: list[pd.DataFrame]
    news: list[pd.DataFrame]

    def have(self, column: str) -> bool:
        return all(has(table, column) for table in (*self.bases, *self.news))


def effect_on(means: Means, column: str, *, paired: bool) -> Effect:
    """Return the difference NEW - BASE of one figure, NaN if a run does not have the figure.

    If ``paired``, compare only prompts that all runs have, each with itself.
    """
    if not means.have(column):
        return Effect(paired=paired)
    base = [table[column] for table in means.bases]
    new = [table[column] for table in means.news]
    if not paired:
        return unpaired_effect(base, new)
    columns = [*base, *new]
    # A row per prompt that all runs have, a column per run
    shared = pd.concat(columns, axis=1, join="inner").sort_index()
    runs = shared.to_numpy(np.float64).T
    return paired_effect(runs[: len(base)], runs[len(base) :])


def means_of(frames: Sequence[pd.DataFrame], base_count: int) -> Means:
    """Return each prompt's means, given the responses of each run, the BASE runs first."""
    tables = []
    for frame in frames:
        tables.append(rounded_columns(frame.groupby("pair").mean(numeric_only=True)))
    return Means(tables[:base_count], tables[base_count:])
