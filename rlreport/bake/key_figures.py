"""Key figures of a run and of a step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.bake.views import KeyFigure, change, number
from rlreport.columns import STEP, Column
from rlreport.draw.sparkline import sparkline

TILES = (
    *("reward_mean", "ref_reward_mean", "win_rate", "kl_k1_mean", "kl_k3_mean"),
    *("response_tokens_mean", "response_chars_mean", "surprisal_mean", "eos_rate"),
    *("explained_variance", "distinct_2"),
)
"""Columns of the table of steps that are key figures, where the log feeds them."""


def run_figures(steps: pd.DataFrame) -> list[KeyFigure]:
    """First step → last step of every figure the log can feed, with a sparkline."""
    made = []
    for figure in _fed(steps):
        values = steps[figure.name].to_numpy(np.float64)
        known = np.flatnonzero(~np.isnan(values))
        first, last = float(values[known[0]]), float(values[known[-1]])
        since = f"step {steps['step'].iloc[known[0]]}"
        delta = change(last, first, since, figure.kind) if len(known) > 1 else None
        made.append(
            KeyFigure(
                figure.name,
                figure.label,
                figure.unit,
                number(last, figure.kind),
                number(first, figure.kind) if len(known) > 1 else None,
                [delta] if delta else [],
                sparkline(values) if len(known) > 1 else "",
                figure.help,
            )
        )
    return made


def step_figures(steps: pd.DataFrame, position: int) -> list[KeyFigure]:
    """Figures of one step with their change since the previous and the first step."""
    made = []
    names = steps["step"].to_numpy()
    for figure in _fed(steps):
        values = steps[figure.name].to_numpy(np.float64)
        against = dict.fromkeys(i for i in (position - 1, 0) if 0 <= i < position)
        changes = [
            delta
            for i in against
            if (
                delta := change(
                    float(values[position]), float(values[i]), f"step {names[i]}", figure.kind
                )
            )
        ]
        made.append(
            KeyFigure(
                figure.name,
                figure.label,
                figure.unit,
                number(float(values[position]), figure.kind, "not in this step"),
                changes=changes,
                help=figure.help,
            )
        )
    return made


def _fed(steps: pd.DataFrame) -> list[Column]:
    fed = [STEP[name] for name in TILES if steps[name].notna().any()]
    tokens = any(column.name == "response_tokens_mean" for column in fed)
    return [column for column in fed if not (tokens and column.name == "response_chars_mean")]
