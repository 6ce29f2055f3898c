"""What each column of the response list is called, and which of them a log can feed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.bake.views import ColumnView

TEXT_COLUMNS = (
    ColumnView("prompt", "Prompt", kind="text"),
    ColumnView("response", "Response", kind="text"),
    ColumnView("ref_response", "Reference response", kind="text"),
    ColumnView("ground_truth", "Ground truth", kind="text"),
)


@dataclass(frozen=True, slots=True)
class _Metric:
    key: str
    label: str
    unit: str
    help: str
    hidden: bool = False
    signed: bool = False
    kind: str = "number"


_METRICS = (
    _Metric("reward", "Reward", "", "sequence reward"),
    _Metric("ref_reward", "Reference reward", "", "reward of the reference on the same prompt"),
    _Metric("reward_gap", "Gap", "", "reward − reference reward", signed=True),
    _Metric("valid_reward", "Valid reward", "", "second reward, only watched"),
    _Metric("ref_valid_reward", "Reference valid reward", "", "second reward of the reference"),
    _Metric(
        "valid_reward_gap", "Valid gap", "", "valid reward − reference valid reward", signed=True
    ),
    _Metric("kl_k1", "Σ log-ratio", "nats", "k1: sum over tokens of logp − ref_logp", signed=True),
    _Metric(
        "log_ratio_mean", "Mean log-ratio", "nats", "mean over tokens", hidden=True, signed=True
    ),
    _Metric("kl_k3", "Σ KL", "nats", "k3: sum over tokens of exp(−r) − 1 + r, r = log-ratio"),
    _Metric("kl_k3_mean", "Mean KL", "nats", "k3, mean over tokens", hidden=True),
    _Metric("kl_max", "Largest token KL", "nats", "k3 of the token furthest from the reference"),
    _Metric("response_tokens", "Length", "tokens", "tokens without padding"),
    _Metric("response_chars", "Length", "characters", "characters without padding"),
    _Metric("surprisal_mean", "Surprisal", "nats", "mean over tokens of −logp"),
    _Metric("value_mean", "Value", "", "critic's value, mean over tokens", hidden=True),
    _Metric("advantage_mean", "Advantage", "", "mean over tokens", hidden=True, signed=True),
    _Metric("value_error_mean", "Value error", "", "value − return, mean over tokens", True, True),
    _Metric("rlhf_reward", "Σ token rewards", "", "what the policy is trained on", hidden=True),
    _Metric(
        "non_score_reward", "Non-score reward", "", "Σ token rewards − reward", True, signed=True
    ),
    _Metric("distinct_2", "Distinct-2", "", "distinct bigrams / bigrams", hidden=True),
    _Metric("finished", "Finished", "", "1: ended with EOS; 0: cut off at the limit", hidden=True),
    _Metric("mismatch_ratio", "Engine mismatch", "", "mean of exp|trainer − sampler logp|", True),
)

WHOLE = frozenset({"response_tokens", "response_chars", "finished"})
"""Columns whose values are counts."""


def metric_columns(responses: pd.DataFrame, extras: pd.DataFrame) -> list[ColumnView]:
    """Numeric columns that at least one response feeds, in reading order, extras last."""
    columns = []
    has_tokens = bool(responses["response_tokens"].notna().any())
    for metric in _METRICS:
        if responses[metric.key].isna().all():
            continue
        hidden = metric.hidden or (metric.key == "response_chars" and has_tokens)
        columns.append(
            ColumnView(
                metric.key,
                metric.label,
                metric.unit,
                metric.kind,
                metric.help,
                metric.signed,
                hidden,
                "count" if metric.key in WHOLE else "number",
            )
        )
    for name in extras.columns:
        if is_numeric(extras[name]) and not extras[name].isna().all():
            columns.append(ColumnView(extra_key(name), str(name), help="as logged"))
    return columns


def string_columns(extras: pd.DataFrame) -> list[ColumnView]:
    """Short-string columns as logged."""
    return [
        ColumnView(extra_key(name), str(name), kind="text", help="as logged", hidden=True)
        for name in extras.columns
        if not is_numeric(extras[name])
    ]


def extra_key(name: object) -> str:
    """Key of a further logged column; the prefix keeps it apart from our own columns."""
    return f"extra:{name}"


def is_numeric(values: pd.Series) -> bool:
    """Whether a further column holds numbers."""
    return bool(np.issubdtype(values.to_numpy().dtype, np.number))
