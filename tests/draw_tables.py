"""Tables for the chart tests, of responses with the columns that a test names."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.columns import PROMPT_COLUMNS, RESPONSE_COLUMNS, TOKEN_COLUMNS
from rlreport.draw.chart import Chart
from rlreport.draw.curves import floats
from rlreport.draw.step import CHARTED, step_charts
from rlreport.summarise.steps import step_tables
from rlreport.tables import Tables
from rlreport.text.language import ENGLISH, Language


def response_table(rows: list[dict]) -> pd.DataFrame:
    """RESPONSE_COLUMNS from dicts; what they lack is NaN (or 0 for whole numbers)."""
    given = pd.DataFrame(rows)
    missing = {c.name: np.nan if c.dtype == "float64" else 0 for c in RESPONSE_COLUMNS}
    frame = pd.DataFrame({name: given.get(name, value) for name, value in missing.items()})
    frame["n"] = frame.groupby("step").cumcount()
    frame["reward_gap"] = frame["reward"] - frame["ref_reward"]
    return frame.astype({c.name: c.dtype for c in RESPONSE_COLUMNS})


def charts_of_step(
    rows: pd.DataFrame, first_rows: pd.DataFrame, *, step: int, language: Language = ENGLISH
) -> list[Chart]:
    """The charts of a step, from its response table and that of the run's first step."""
    ghost = first_rows[first_rows["step"] != step]
    columns = {name: floats(rows, name) for name in CHARTED}
    return step_charts(columns, floats(ghost, "reward"), language)


def tables_of(
    responses: pd.DataFrame,
    *,
    extras: dict[str, np.ndarray] | None = None,
    metrics: pd.DataFrame | None = None,
) -> Tables:
    """Tables of a run; every numeric extra is taken for a part of the reward."""
    more = pd.DataFrame(extras or {}, index=responses.index)
    bigrams = pd.DataFrame({"step": [], "bigrams": [], "distinct": []})
    return Tables(
        responses=responses,
        extras=more,
        steps=step_tables(responses, responses.iloc[:0], bigrams, {})[0],
        prompts=pd.DataFrame(columns=[c.name for c in PROMPT_COLUMNS]),
        tokens=pd.DataFrame(columns=[c.name for c in TOKEN_COLUMNS]),
        positions=pd.DataFrame(),
        extras_by_step=more.groupby(responses["step"].to_numpy())
        .mean()
        .rename_axis("step")
        .reset_index(),
        reward_parts=list(more.columns),
        metrics=pd.DataFrame() if metrics is None else metrics,
    )
