"""Tables for the chart tests, made from raw logs with a few lines of pandas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.columns import PROMPT_COLUMNS, RESPONSE_COLUMNS, STEP_COLUMNS, TOKEN_COLUMNS
from rlreport.draw.chart import Chart
from rlreport.draw.curves import floats
from rlreport.draw.step import CHARTED, step_charts
from rlreport.tables import Tables
from rlreport.text.language import ENGLISH, Language


def responses_of(folder: Path) -> pd.DataFrame:
    """The response table of a run, as far as the charts read it."""
    rows = [json.loads(line) for log in sorted(folder.glob("*.jsonl")) for line in log.open("rb")]
    rows.sort(key=lambda row: row["step"])
    return response_table([_figures(row) for row in rows])


def response_table(rows: list[dict]) -> pd.DataFrame:
    """RESPONSE_COLUMNS from dicts; what they lack is NaN (or 0 for whole numbers)."""
    given = pd.DataFrame(rows)
    table = {}
    for column in RESPONSE_COLUMNS:
        whole = column.dtype != "float64"
        table[column.name] = (
            given[column.name]
            if column.name in given
            else np.full(len(given), 0 if whole else np.nan)
        )
    frame = pd.DataFrame(table)
    frame["n"] = frame.groupby("step").cumcount()
    frame["reward_gap"] = frame["reward"] - frame["ref_reward"]
    return frame.astype({c.name: c.dtype for c in RESPONSE_COLUMNS})


def _figures(row: dict) -> dict:
    figures = {
        "step": row["step"],
        "reward": row["reward"],
        "ref_reward": row.get("ref_reward", np.nan),
        "response_chars": len(row["response"]),
        "ref_response_chars": len(row["ref_response"]) if "ref_response" in row else np.nan,
    }
    if "logprobs" in row:
        logp, ref = np.array(row["logprobs"]), np.array(row["ref_logprobs"])
        ratio = logp - ref
        figures |= {
            "response_tokens": len(logp),
            "kl_k1": ratio.sum(),
            "kl_k3": (np.expm1(-ratio) + ratio).sum(),
            "surprisal_mean": -logp.mean(),
            "rlhf_reward": sum(row["token_rewards"]),
        }
    if row.get("values"):
        figures["value_mean"] = float(np.mean(row["values"]))
    return figures


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
    by_step = responses.groupby("step")
    steps = pd.DataFrame(index=by_step.size().index)
    steps["responses"] = by_step.size()
    for name in ("reward", "ref_reward", "kl_k1", "kl_k3", "response_tokens", "response_chars"):
        steps[f"{name}_mean"] = by_step[name].mean()
        steps[f"{name}_std"] = by_step[name].std(ddof=0)
    for name in ("ref_response_chars", "rlhf_reward", "reward_gap", "valid_reward"):
        steps[f"{name}_mean"] = by_step[name].mean()
    steps["non_score_reward_mean"] = steps["rlhf_reward_mean"] - steps["reward_mean"]
    for name in ("value_mean", "surprisal_mean"):
        steps[name] = by_step[name].mean()
    gap = responses["reward_gap"]
    known = gap.notna().astype(float).groupby(responses["step"]).sum().replace(0, np.nan)
    steps["win_rate"] = (gap > 0).astype(float).groupby(responses["step"]).sum() / known
    steps["lose_rate"] = (gap < 0).astype(float).groupby(responses["step"]).sum() / known
    frame = steps.reset_index().reindex(columns=[c.name for c in STEP_COLUMNS])
    more = pd.DataFrame(extras or {}, index=responses.index)
    return Tables(
        responses=responses,
        extras=more,
        steps=frame,
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
