"""Summarise responses in tables of prompts; ``steps`` and ``tokens`` build the other tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import PROMPT_COLUMNS
from rlreport.errors import SeveralRunsError
from rlreport.figures.constant import take_rows
from rlreport.figures.grouped import Grouped
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import difference
from rlreport.metrics.find import TrainerMetrics
from rlreport.metrics.roles import roles_of
from rlreport.read.tables import Scan
from rlreport.summarise.prompt_courses import prompt_courses
from rlreport.summarise.steps import rounded_columns, step_tables, trainer_steps
from rlreport.summarise.times import times_of
from rlreport.summarise.tokens import USED, step_bigrams, token_table
from rlreport.tables import LogTables, Note, NoteKind, RowRole, Tables
from rlreport.text.clean import safe_text
from rlreport.text.messages import message


def prompt_table(responses: pd.DataFrame, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Return the prompt table (PROMPT_COLUMNS); ``texts`` are those of prompts 0, 1, ….

    ``responses`` are sorted by step. Prompts beyond ``texts`` get an empty text.
    """
    # The responses to a prompt become adjacent; a stable sort keeps them in the order of steps.
    order = np.argsort(responses["prompt_id"].to_numpy(), kind="stable")
    column = {name: responses[name].to_numpy()[order] for name in USED}
    prompts = Grouped.by(column["prompt_id"])
    step = column["step"]
    reward = column["reward"]
    best = _first_smallest(-reward, prompts)  # row of each prompt's best response
    worst = _first_smallest(reward, prompts)
    no_texts = [""] * (len(prompts) - len(texts))
    table = pd.DataFrame(
        {
            "prompt_id": prompts.first(column["prompt_id"]),
            "prompt": [*texts, *no_texts],
            "validation": prompts.first(column["validation"]),
            "responses": prompts.counts,
            "first_step": prompts.first(step),
            "last_step": prompts.last(step),
            "reward_mean": prompts.mean(reward),
            "reward_min": prompts.min(reward),
            "reward_max": prompts.max(reward),
            "ref_reward_mean": prompts.mean(column["ref_reward"]),
            "kl_k1_mean": prompts.mean(column["kl_k1"]),
            "best_step": step[best],
            "best_n": column["n"][best],
            "worst_step": step[worst],
            "worst_n": column["n"][worst],
            **_over_steps(column),
            **_against_reference(column, prompts),
        }
    )
    courses = prompt_courses(responses).set_index("prompt_id")
    courses = courses.reindex(table["prompt_id"])
    for name in ("early", "late"):
        table[name] = courses[name].to_numpy()
    table["course"] = courses["course"].fillna(0).to_numpy()
    kinds = {column.name: column.dtype for column in PROMPT_COLUMNS}
    return rounded_columns(table[list(kinds)].astype(kinds))


def _over_steps(
    column: dict[str, NDArray[Any]],
) -> dict[str, NDArray[np.generic]]:
    """Return columns of the steps of each prompt, and of the rewards of its groups in them.

    ``column`` has the columns of responses, sorted by prompt, then by step.
    """
    reward = column["reward"]
    # The responses to a prompt in one step are a group.
    groups = Grouped.by(column["prompt_id"], column["step"])
    by_prompt = Grouped.by(groups.first(column["prompt_id"]))
    means = groups.mean(reward)
    first = by_prompt.first(means)
    last = by_prompt.last(means)
    is_several = groups.finite(reward) >= 2
    spread = np.where(is_several, groups.std(reward), np.nan)
    # A single step shows no gain, not even one of 0.
    gain = np.where(by_prompt.counts > 1, difference(last, first), np.nan)
    return {
        "steps": by_prompt.counts,
        "reward_first": first,
        "reward_last": last,
        "reward_gain": gain,
        "group_std_mean": by_prompt.mean(spread),
    }


def _against_reference(
    column: dict[str, NDArray[Any]], prompts: Grouped
) -> dict[str, NDArray[np.generic]]:
    """Return columns of the responses to each prompt that are compared with a reference.

    ``column`` has the columns of responses, sorted by prompt; ``prompts`` groups its rows.
    """
    reward = column["reward"]
    reference = column["ref_reward"]
    comparable = ~(np.isnan(reward) | np.isnan(reference))
    won = comparable & (reward > reference)
    is_compared = prompts.sum(comparable.astype(np.float64)) > 0
    has_no_win = prompts.sum(won.astype(np.float64)) == 0
    return {
        "win_rate": prompts.share(won, comparable),
        "never_won": is_compared & has_no_win,
        "losing_streak": _losing_streak(comparable, won, prompts),
    }


def _first_smallest(values: Floats, groups: Grouped) -> NDArray[np.int64]:
    """Return the row of each group's smallest value, the first of equal ones; NaN is largest."""
    # By group, in a group by value: the last key is the first criterion.
    order = np.lexsort((np.nan_to_num(values, nan=np.inf), groups.codes))
    return order[groups.starts]


def _losing_streak(
    comparable: NDArray[np.bool_], won: NDArray[np.bool_], prompts: Grouped
) -> NDArray[np.int64]:
    """Return how many responses to each prompt were compared since the last one that won."""
    position = np.arange(len(won))
    # The row of each prompt's last win; −1, before all rows, without any
    last_win = np.maximum.reduceat(np.where(won, position, -1), prompts.starts)
    is_after_win = comparable & (position > last_win[prompts.codes])
    return prompts.sum(is_after_win.astype(np.float64)).astype(np.int64)


MAX_NAMED = 10  # runs named in an error


# Logged numbers may be as large as float64 allows, so sums may be infinite and deviations NaN.
@np.errstate(over="ignore", invalid="ignore")
def summarise(
    scan: Scan,
    metrics: TrainerMetrics | None = None,
    planned_steps: int | None = None,
) -> Tables:
    """Return all tables of a run from what was read of its logs and of its metrics."""
    metrics = metrics or TrainerMetrics()
    role = scan.responses["validation"].to_numpy()  # see ``RowRole``
    is_training = role == RowRole.TRAINING
    # Usually all are of training, whose role is 0, and need not be copied.
    training = scan.responses
    extras = scan.extras
    if role.any():
        training = take_rows(training, is_training)
        extras = extras[is_training]
    if scan.responses.empty:
        # Of runs that a note names, the last one is shown, and not judged.
        if all(note.kind != NoteKind.SEVERAL_RUNS for note in metrics.notes):
            _refuse_several(metrics.runs)
        steps = trainer_steps(metrics.table, metrics.roles)
        validation = pd.DataFrame()
    else:
        steps, validation = step_tables(
            training,
            take_rows(scan.responses, role == RowRole.VALIDATION),
            step_bigrams(scan.ngrams, scan.responses),
            failed=scan.failed,
            filtered=scan.filtered,
        )
        _complete_validation(steps, scan.partly_validated, metrics.table)
    # The step that is being written, and all later ones
    if scan.incomplete_from is not None:
        is_growing = steps["step"] >= scan.incomplete_from
        steps["incomplete"] |= is_growing
    shared: dict[str, Any] = {
        item.name: getattr(scan, item.name) for item in fields(LogTables)
    }
    metrics_notes = metrics.notes
    if not scan.responses.empty:
        # The rollouts show which run it is; its metrics are those of the last start, so that
        # several starts are no problem.
        metrics_notes = [
            replace(note, kind=NoteKind.FORMAT)
            if note.kind in (NoteKind.SEVERAL_STARTS, NoteKind.SEVERAL_RUNS)
            else note
            for note in metrics_notes
        ]
    shared["notes"] = [*scan.notes, *metrics_notes]
    # Means by step of the logged fields that are numbers
    numbers = extras.select_dtypes(include=[np.number])
    means = numbers.groupby(training["step"].to_numpy()).mean()
    extras_by_step = rounded_columns(means)
    tables = Tables(
        **shared,
        steps=steps,
        prompts=prompt_table(scan.responses, scan.prompt_texts()),
        tokens=token_table(scan.tokens, scan.responses),
        extras_by_step=extras_by_step.rename_axis("step").reset_index(),
        metrics=metrics.table,
        metrics_files=metrics.files,
        metric_roles=metrics.roles,
        metrics_broken=metrics.broken,
        validation=validation,
        planned_steps=planned_steps,
        times=times_of(scan.responses, scan.extras, metrics),
    )
    if tables.metrics_apart:
        text = message(
            "trainer metrics at steps far from those of rollouts, in separate charts"
        )
        tables.notes.append(Note(NoteKind.METRICS, text, len(metrics.table)))
    tables.notes += _notes_on_shift(steps, metrics.table)
    return tables


def _complete_validation(
    steps: pd.DataFrame, partly_validated: Sequence[int], metrics: pd.DataFrame
) -> None:
    """Set the mean reward of evaluations whose responses are logged in part to the trainer's."""
    if not partly_validated:
        return
    is_partial = steps["step"].isin(partly_validated)
    steps.loc[is_partial, "validation_reward_mean"] = np.nan
    name = roles_of(map(str, metrics.columns[1:])).get("validation")
    if name is not None:
        logged = steps.loc[is_partial, "step"].map(metrics.set_index("step")[name])
        steps.loc[is_partial, "validation_reward_mean"] = logged


# Fraction of the steps at which means have to agree if the rollouts are shifted by one step, and
# fraction at which they may agree by chance if they are not
_AGREES = 0.9
_BY_CHANCE = 0.5
_MIN_STEPS = 5  # that both have
_TOLERANCE = 1e-3  # relative; a tracker may have rounded the mean


def _notes_on_shift(steps: pd.DataFrame, metrics: pd.DataFrame) -> list[Note]:
    """Return a note if rollouts are logged one step before or after the metrics of their rewards.

    A counter that is read while responses are generated, as in a reward function of TRL, has the
    steps that are complete. The steps are not changed, as only the log's author knows which of both
    is meant.
    """
    name = roles_of(map(str, metrics.columns[1:])).get("reward")
    if name is None or "reward_mean" not in steps:
        return []
    of_rollouts = steps.set_index("step")["reward_mean"]
    of_trainer = metrics.set_index("step")[name]
    if _agreement(of_rollouts, of_trainer, 0) > _BY_CHANCE:
        return []
    agreeing = [
        shift
        for shift in (1, -1)
        if _agreement(of_rollouts, of_trainer, shift) >= _AGREES
    ]
    if len(agreeing) != 1:  # neither, or both by a reward that repeats itself
        return []
    if agreeing[0] == 1:
        text = message(
            "the rollouts lie one step before the trainer metrics: their mean rewards are those of "
            "the next step, not of the same. Log them with the step + 1, as the trainer counts a "
            "step when it is complete.",
        )
    else:
        text = message(
            "the rollouts lie one step after the trainer metrics: their mean rewards are those of "
            "the step before, not of the same. Log them with the step − 1.",
        )
    return [Note(NoteKind.FORMAT, text, 1)]


def _agreement(of_rollouts: pd.Series, of_trainer: pd.Series, shift: int) -> float:
    """Return the fraction of common steps at which means agree, 0 if too few are comparable.

    ``shift`` is added to the steps of rollouts.
    """
    shifted = of_rollouts.set_axis(of_rollouts.index + shift)
    both = pd.concat([shifted, of_trainer], axis=1, join="inner").dropna()
    if len(both) < _MIN_STEPS:
        return 0.0
    first = both.iloc[:, 0].to_numpy(np.float64)
    second = both.iloc[:, 1].to_numpy(np.float64)
    return float(np.isclose(first, second, rtol=_TOLERANCE, atol=1e-6).mean())


def _refuse_several(runs: Sequence[str]) -> None:
    """Raise an error if metrics belong to several ``runs``; empty if they belong to one."""
    if not runs:
        return
    names = [safe_text(name) for name in runs]
    listed = ", ".join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        listed += f" and {len(names) - MAX_NAMED:,} more"
    raise SeveralRunsError(
        f"the metrics belong to {len(names):,} runs: {listed}. Choose "
        "one with --run NAME, or build a report of each with 'rlreport index'",
        runs,
    )
