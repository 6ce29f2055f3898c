"""``kl_explosion``: the policy ran away from the reference."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.check.check import KL, Check, Result, extremes, has
from rlreport.check.compare import above
from rlreport.check.finding import Severity
from rlreport.check.thresholds import TRL_KL, KlExplosion, Thresholds
from rlreport.check.windows import Window, last, step_numbers
from rlreport.check.words import count, figure
from rlreport.tables import Tables

TRAINER_KL = "objective/kl"
"""TRL's KL per response, read where the rollouts hold no log-probabilities."""


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the last window's mean KL, and every response's, with what training survives."""
    if not KL.met(tables):
        return _judge_trainer(tables, thresholds)
    limits, window = thresholds.kl_explosion, last(tables, thresholds.trend)
    kl = tables.responses["kl_k1"]
    mean = float(kl.iloc[window.rows].mean())
    beyond = tables.responses[kl > limits.response]
    severity = _severity(mean, len(beyond), limits)
    if severity is None:
        return None
    first = tables.steps["kl_k1_mean"].iloc[0]
    title = f"KL to the reference is {figure(mean)} nats a response at the end"
    title += f", {figure(first)} in the first step" if np.isfinite(first) else ""
    if len(beyond):
        title += f"; {count(len(beyond), 'response')} over {figure(limits.response)} nats"
    rows = tables.responses.iloc[window.rows]
    worst = pd.concat([beyond, rows]).loc[lambda r: ~r.index.duplicated()]
    worst = worst[worst["kl_k1"] > np.fmin(mean, limits.response)]
    steps = {*_steps_over(tables, limits.warn, window), *beyond["step"].unique()[:20].tolist()}
    return CHECK.finding(
        severity,
        title,
        steps=steps,
        responses=extremes(worst, "kl_k1", highest=True, token="kl_max_position"),
    )


def _judge_trainer(tables: Tables, thresholds: Thresholds) -> Result:
    """Judge the trainer's own KL, for rollouts without log-probabilities."""
    limits, window = thresholds.kl_explosion, last(tables, thresholds.trend)
    if not has(tables.metrics, TRAINER_KL):
        return CHECK.not_run(KL.words)
    at_end = tables.metrics[tables.metrics["step"].isin(window.steps)]
    mean = float(at_end[TRAINER_KL].mean())
    severity = _severity(mean, 0, limits)
    if severity is None:
        return None
    title = f"KL to the reference is {figure(mean)} nats a response at the end ({TRAINER_KL})"
    return CHECK.finding(severity, title, steps=window.steps)


def _severity(mean: float, beyond: int, limits: KlExplosion) -> Severity | None:
    if above(mean, limits.critical) or beyond:
        return "critical"
    return "warning" if above(mean, limits.warn) else None


def _steps_over(tables: Tables, limit: float, window: Window) -> list[int]:
    """Return the steps at the end of the run since which the mean KL stayed over the limit."""
    means = tables.steps["kl_k1_mean"].to_numpy(dtype=np.float64)
    under = np.flatnonzero(~(means > limit))
    start = int(under[-1]) + 1 if len(under) else 0
    numbers: list[int] = step_numbers(tables).tolist()
    return numbers[start:] or [
        step for step, m in zip(numbers, means, strict=True) if m > limit and step in window.steps
    ]


CHECK = Check(
    id="kl_explosion",
    looks_for="the policy ran away from the reference",
    needs=(),
    charts=("kl", "reward_kl_frontier"),
    why=(
        "Far from the reference the reward model judges text it never saw, and what the policy "
        "gains there is rarely what you meant; runs at this distance seldom come back."
    ),
    suggestion=(
        "Raise the KL coefficient or use an adaptive one, lower the learning rate, and go on from "
        "a checkpoint before the rise."
    ),
    source=TRL_KL,
    judge=judge,
    trend=False,
    needs_also="logprobs and ref_logprobs, or the trainer's objective/kl",
)
