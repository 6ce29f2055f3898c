"""Summarise responses in tables by step, by prompt and by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from rlreport.errors import UsageError
from rlreport.metrics import TrainerMetrics
from rlreport.metrics.roles import roles_of
from rlreport.read.tables import Scan
from rlreport.summarise.prompts import prompt_table
from rlreport.summarise.steps import commonest, step_tables, trainer_steps, window_table
from rlreport.summarise.tokens import step_bigrams, token_table
from rlreport.tables import LogTables, Note, Tables
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

__all__ = ["commonest", "summarise", "window_table"]

MAX_NAMED = 10
FEWEST_STEPS_COMPARED = 5
# Least difference of trainer's and rollouts' rewards that is noted, as share of their range
DISAGREEMENT = 0.05

# Least difference of these rewards that is noted, in standard errors (both are required)
DISAGREEMENT_Z = 5.0


# Logged numbers may be as large as float64 allows, so sums may be infinite and deviations NaN.
@np.errstate(over="ignore", invalid="ignore")
def summarise(
    scan: Scan,
    prompts: Sequence[str] = (),
    metrics: TrainerMetrics | None = None,
) -> Tables:
    """Return all tables; ``prompts[i]`` is the text of the prompt with ``prompt_id`` i, if given.

    Raises:
        UsageError: there are no responses, and metrics of several runs.
    """
    metrics = metrics or TrainerMetrics()
    is_validation = scan.responses["validation"].to_numpy() == 1
    training = scan.responses[~is_validation] if is_validation.any() else scan.responses
    if scan.responses.empty:
        _refuse_several(metrics.runs)
        steps, validation = trainer_steps(metrics.table), pd.DataFrame()
    else:
        steps, validation = step_tables(
            training,
            scan.responses[is_validation],
            step_bigrams(scan.every, scan.responses),
            scan.failed,
        )
    shared: dict[str, Any] = {item.name: getattr(scan, item.name) for item in fields(LogTables)}
    shared["notes"] = [*scan.notes, *metrics.notes, *_disagreement(steps, metrics.table)]
    return Tables(
        **shared,
        steps=steps,
        prompts=prompt_table(scan.responses, prompts),
        tokens=token_table(scan.tokens, scan.responses),
        extras_by_step=_extras_by_step(training, scan.extras.loc[training.index]),
        metrics=metrics.table,
        metrics_files=metrics.files,
        metrics_broken=metrics.broken,
        validation=validation,
    )


def _refuse_several(runs: Sequence[str]) -> None:
    """Raise an error if there are metrics of several runs, as a report shows one run.

    Raises:
        UsageError: ``runs`` is not empty; the message lists them.
    """
    if not runs:
        return
    names = [safe_text(name) for name in runs]
    rest = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    raise UsageError(
        f"metrics of {len(names):,} runs: {', '.join(names[:MAX_NAMED])}{rest}. Choose one with "
        "--run NAME; 'rlreport index' lists all of them"
    )


def _extras_by_step(responses: pd.DataFrame, extras: pd.DataFrame) -> pd.DataFrame:
    numeric = extras.select_dtypes(include=[np.number])
    return numeric.groupby(responses["step"].to_numpy()).mean().rename_axis("step").reset_index()


def _disagreement(steps: pd.DataFrame, metrics: pd.DataFrame) -> list[Note]:
    """Return a note if the trainer's mean reward differs from that of the rollouts, else []."""
    name = roles_of(str(name) for name in metrics.columns[1:]).get("reward")
    if name is None:
        return []
    trained = metrics.set_index("step")[name].reindex(steps["step"]).to_numpy(np.float64)
    comparable = np.isfinite(trained) & steps["reward_mean"].notna().to_numpy()
    if comparable.sum() < FEWEST_STEPS_COMPARED:
        return []
    trainer, rollouts = trained[comparable], steps["reward_mean"].to_numpy(np.float64)[comparable]
    differences = trainer - rollouts
    error = float(np.std(differences, ddof=1)) / len(trainer) ** 0.5
    difference, span = abs(float(differences.mean())), np.ptp(np.concatenate([rollouts, trainer]))
    if not (difference > DISAGREEMENT_Z * error and difference > DISAGREEMENT * span):
        return []
    text = message(
        "the mean reward of the rollouts is {rollouts:figure}, the trainer's “{metric}” "
        "{trainer:figure} over the same {count:count} steps",
        rollouts=float(rollouts.mean()),
        trainer=float(trainer.mean()),
        metric=name,
        count=len(trainer),
    )
    return [Note("metrics", text, 1)]
