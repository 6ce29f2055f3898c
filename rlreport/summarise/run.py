"""Summarise responses in tables of prompts; ``steps`` and ``tokens`` build the other tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import PROMPT_COLUMNS
from rlreport.errors import UsageError
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import difference
from rlreport.metrics.find import TrainerMetrics
from rlreport.read.tables import Scan
from rlreport.summarise.steps import rounded_columns, step_tables, trainer_steps
from rlreport.summarise.tokens import USED, step_bigrams, token_table
from rlreport.tables import LogTables, Note, NoteKind, Tables
from rlreport.text.clean import safe_text
from rlreport.text.messages import message


def prompt_table(responses: pd.DataFrame, texts: Sequence[str] = ()) -> pd.DataFrame:  # noqa: PLR0914
    """Return the prompt table (PROMPT_COLUMNS); ``texts`` are those of prompts 0, 1, …."""
    order = np.argsort(responses["prompt_id"].to_numpy(), kind="stable")
    column = {name: responses[name].to_numpy()[order] for name in USED}
    step = column["step"]
    reward = column["reward"]
    reference = column["ref_reward"]
    prompts = Grouped.by(column["prompt_id"])
    prompt_steps = Grouped.by(column["prompt_id"], step)
    steps_by_prompt = Grouped.by(prompt_steps.first(column["prompt_id"]))
    means = prompt_steps.mean(reward)
    comparable = ~(np.isnan(reward) | np.isnan(reference))
    won = comparable & (reward > reference)
    first = steps_by_prompt.first(means)
    last = steps_by_prompt.last(means)
    # A single step shows no gain, not even one of 0.
    gain = np.where(steps_by_prompt.counts > 1, difference(last, first), np.nan)
    best, worst = (_first_smallest(rewards, prompts) for rewards in (-reward, reward))
    lost_all = (prompts.sum(comparable.astype(float)) > 0) & (
        prompts.sum(won.astype(float)) == 0
    )
    spread = np.where(
        prompt_steps.finite(reward) >= 2, prompt_steps.std(reward), np.nan
    )
    table = pd.DataFrame(
        {
            "prompt_id": prompts.first(column["prompt_id"]),
            "prompt": [*texts, *[""] * (len(prompts) - len(texts))],
            "validation": prompts.first(column["validation"]),
            "responses": prompts.counts,
            "steps": steps_by_prompt.counts,
            "first_step": prompts.first(step),
            "last_step": prompts.last(step),
            "reward_first": first,
            "reward_last": last,
            "reward_gain": gain,
            "reward_mean": prompts.mean(reward),
            "reward_min": prompts.min(reward),
            "reward_max": prompts.max(reward),
            "ref_reward_mean": prompts.mean(reference),
            "win_rate": prompts.share(won, comparable),
            "never_won": lost_all,
            "losing_streak": _losing_streak(comparable, won, prompts),
            "kl_k1_mean": prompts.mean(column["kl_k1"]),
            "group_std_mean": steps_by_prompt.mean(spread),
            "best_step": step[best],
            "best_n": column["n"][best],
            "worst_step": step[worst],
            "worst_n": column["n"][worst],
        }
    )
    kinds = {column.name: column.dtype for column in PROMPT_COLUMNS}
    return rounded_columns(table[list(kinds)].astype(kinds))


def _first_smallest(values: Floats, groups: Grouped) -> NDArray[np.int64]:
    order = np.lexsort((np.nan_to_num(values, nan=np.inf), groups.codes))
    return order[groups.starts]


def _losing_streak(
    comparable: NDArray[np.bool_], won: NDArray[np.bool_], prompts: Grouped
) -> NDArray[np.int64]:
    position = np.arange(len(won))
    last_win = np.maximum.reduceat(np.where(won, position, -1), prompts.starts)
    after = comparable & (position > last_win[prompts.codes])
    return prompts.sum(after.astype(np.float64)).astype(np.int64)


MAX_NAMED = 10


# Logged numbers may be as large as float64 allows, so sums may be infinite and deviations NaN.
@np.errstate(over="ignore", invalid="ignore")
def summarise(scan: Scan, metrics: TrainerMetrics | None = None) -> Tables:
    metrics = metrics or TrainerMetrics()
    split = scan.responses["validation"].to_numpy()
    training = scan.responses[split == 0] if split.any() else scan.responses
    if scan.responses.empty:
        _refuse_several(metrics.runs)
        steps = trainer_steps(metrics.table)
        validation = pd.DataFrame()
    else:
        steps, validation = step_tables(
            training,
            scan.responses[split == 1],
            step_bigrams(scan.ngrams, scan.responses),
            scan.failed,
            scan.filtered,
        )
    if scan.incomplete_from is not None:
        steps["incomplete"] |= steps["step"] >= scan.incomplete_from
    shared: dict[str, Any] = {
        item.name: getattr(scan, item.name) for item in fields(LogTables)
    }
    of_metrics = metrics.notes
    if not scan.responses.empty:
        # The rollouts tell the run, and its metrics are those of the last start.
        of_metrics = [
            replace(note, kind=NoteKind.FORMAT)
            if note.kind == NoteKind.SEVERAL_STARTS
            else note
            for note in of_metrics
        ]
    shared["notes"] = [*scan.notes, *of_metrics]
    extras = scan.extras.loc[training.index].select_dtypes(include=[np.number])
    extras_by_step = rounded_columns(extras.groupby(training["step"].to_numpy()).mean())
    tables = Tables(
        **shared,
        steps=steps,
        prompts=prompt_table(scan.responses, scan.prompt_texts()),
        tokens=token_table(scan.tokens, scan.responses),
        extras_by_step=extras_by_step.rename_axis("step").reset_index(),
        metrics=metrics.table,
        metrics_files=metrics.files,
        metrics_broken=metrics.broken,
        validation=validation,
    )
    if tables.metrics_apart:
        text = message(
            "trainer metrics at steps far from those of rollouts, in separate charts"
        )
        tables.notes.append(Note(NoteKind.METRICS, text, len(metrics.table)))
    return tables


def _refuse_several(runs: Sequence[str]) -> None:
    if not runs:
        return
    names = [safe_text(name) for name in runs]
    rest = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    raise UsageError(
        f"the metrics belong to {len(names):,} runs: {', '.join(names[:MAX_NAMED])}{rest}. Choose "
        "one with --run NAME, or build a report of each with 'rlreport index'"
    )
