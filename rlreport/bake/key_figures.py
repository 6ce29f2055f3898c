"""Key figures of a run and of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.bake.numbers import change, number
from rlreport.bake.views import KeyFigure
from rlreport.draw.sparkline import sparkline
from rlreport.text.numbers import Kind


@dataclass(frozen=True, slots=True)
class _Figure:
    column: str
    label: str
    unit: str
    help: str
    kind: Kind = "number"
    only_without: str = ""


_FIGURES = (
    _Figure("reward_mean", "Reward", "", "mean over responses"),
    _Figure("ref_reward_mean", "Reference reward", "", "mean over responses of the reference"),
    _Figure("win_rate", "Win rate", "", "share with reward above the reference's", "share"),
    _Figure("kl_k1_mean", "KL, k1", "nats", "mean over responses of the sum of log-ratios"),
    _Figure("kl_k3_mean", "KL, k3", "nats", "mean over responses of the sum of k3"),
    _Figure("response_tokens_mean", "Length", "tokens", "mean over responses"),
    _Figure(
        "response_chars_mean",
        "Length",
        "characters",
        "mean over responses",
        only_without="response_tokens_mean",
    ),
    _Figure("surprisal_mean", "Surprisal", "nats", "mean over all tokens of −logp"),
    _Figure("eos_rate", "Finished", "", "share of responses that end with EOS", "share"),
    _Figure("explained_variance", "Explained variance", "", "of the returns, by the critic"),
    _Figure("distinct_2", "Distinct-2", "", "distinct bigrams / bigrams over the step"),
)


def run_figures(steps: pd.DataFrame) -> list[KeyFigure]:
    """First step → last step of every figure the log can feed, with a sparkline."""
    made = []
    for figure in _fed(steps):
        values = steps[figure.column].to_numpy(np.float64)
        known = np.flatnonzero(~np.isnan(values))
        first, last = float(values[known[0]]), float(values[known[-1]])
        since = f"step {steps['step'].iloc[known[0]]}"
        delta = change(last, first, since, figure.kind) if len(known) > 1 else None
        made.append(
            KeyFigure(
                figure.column,
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
        values = steps[figure.column].to_numpy(np.float64)
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
                figure.column,
                figure.label,
                figure.unit,
                number(float(values[position]), figure.kind, "not in this step"),
                changes=changes,
                help=figure.help,
            )
        )
    return made


def _fed(steps: pd.DataFrame) -> list[_Figure]:
    return [
        figure
        for figure in _FIGURES
        if steps[figure.column].notna().any()
        and not (figure.only_without and steps[figure.only_without].notna().any())
    ]
