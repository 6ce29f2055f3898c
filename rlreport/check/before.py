"""The part of a run before a step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from rlreport.tables import NgramSample, Tables


def before(tables: Tables, step: int) -> Tables:
    """Return the tables cut to the steps before ``step``; prompts and tokens stay whole.

    Checks read prompts only for their text, and tokens not at all.
    """
    rows = int(np.searchsorted(tables.responses["step"].to_numpy(), step, "left"))
    return dataclasses.replace(
        tables,
        responses=tables.responses.iloc[:rows],
        extras=tables.extras.iloc[:rows],
        steps=_cut(tables.steps, step),
        extras_by_step=_cut(tables.extras_by_step, step),
        metrics=_cut(tables.metrics, step),
        ngrams=_cut_sample(tables.ngrams, rows),
        ref_ngrams=_cut_sample(tables.ref_ngrams, rows),
    )


def _cut(table: pd.DataFrame, step: int) -> pd.DataFrame:
    return table[table["step"] < step] if "step" in table else table


def _cut_sample(sample: NgramSample | None, rows: int) -> NgramSample | None:
    if sample is None:
        return None
    kept = int(np.searchsorted(np.asarray(sample.rows), rows, "left"))
    return dataclasses.replace(
        sample,
        rows=np.asarray(sample.rows)[:kept],
        offsets=np.asarray(sample.offsets)[: kept + 1],
    )
