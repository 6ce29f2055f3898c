"""Summarise responses in tables of prompts and tokens; ``steps`` builds the table of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.about.several_runs import SEVERAL_STARTS
from rlreport.columns import PROMPT_COLUMNS, TOKEN_COLUMNS
from rlreport.errors import UsageError
from rlreport.figures.ragged import Floats, row_ends
from rlreport.figures.rounding import difference
from rlreport.metrics import TrainerMetrics
from rlreport.read.detect import FORMAT
from rlreport.read.rollouts import EDGE
from rlreport.read.tables import Scan
from rlreport.summarise.steps import (
    Grouped,
    ratio,
    rounded_columns,
    step_tables,
    trainer_steps,
    window_size,
)
from rlreport.tables import GAP, LogTables, Note, Tables, TextSample, TokenSample
from rlreport.text.clean import safe_text
from rlreport.text.messages import message
from rlreport.text.tokens import detect_style, token_text

_USED = ("prompt_id", "step", "n", "validation", "reward", "ref_reward", "kl_k1")


def prompt_table(responses: pd.DataFrame, texts: Sequence[str] = ()) -> pd.DataFrame:  # noqa: PLR0914
    """Return the prompt table (PROMPT_COLUMNS); ``texts`` are those of prompts 0, 1, …."""
    order = np.argsort(responses["prompt_id"].to_numpy(), kind="stable")
    column = {name: responses[name].to_numpy()[order] for name in _USED}
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
    lost_all = (prompts.sum(comparable.astype(float)) > 0) & (prompts.sum(won.astype(float)) == 0)
    spread = np.where(prompt_steps.finite(reward) >= 2, prompt_steps.std(reward), np.nan)
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


_EXAMPLE = ("example_step", "example_n", "example_position")


def token_table(sample: TokenSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return the token table (TOKEN_COLUMNS) by descending share of KL; empty without a sample."""
    if sample is None:
        return pd.DataFrame({c.name: pd.Series(dtype=c.dtype) for c in TOKEN_COLUMNS})
    texts = sample.texts
    count = len(texts.vocabulary)
    step = responses["step"].to_numpy()[texts.rows]
    first, last = (np.repeat(rows, np.diff(texts.offsets)) for rows in _windows(responses, step))

    everything = np.ones(len(texts.units), bool)

    def mean(values: NDArray[np.float32], rows: NDArray[np.bool_] = everything) -> Floats:
        logged = rows & ~np.isnan(values)
        tokens = texts.units[logged]
        total = np.bincount(tokens, values[logged], count).astype(np.float64)
        return ratio(total, np.bincount(tokens, minlength=count))

    kl = np.bincount(texts.units, np.where(np.isnan(sample.kl), 0.0, sample.kl), count)
    raw = np.asarray(texts.vocabulary, dtype=object)
    style = detect_style(raw)
    table = pd.DataFrame(
        {
            "token": [token_text(token, style) for token in texts.vocabulary],
            "raw": raw,
            "count": np.bincount(texts.units, minlength=count),
            "kl_share": kl / kl.sum() if kl.sum() > 0 else np.full(count, np.nan),
            "kl_mean": mean(sample.kl),
            "log_ratio_mean": mean(sample.log_ratio),
            "abs_log_ratio_mean": mean(np.abs(sample.log_ratio)),
            "count_first": np.bincount(texts.units[first], minlength=count),
            "count_last": np.bincount(texts.units[last], minlength=count),
            "prob_first": mean(sample.prob, first),
            "prob_last": mean(sample.prob, last),
            "abs_value_error_mean": mean(np.abs(sample.value_error)),
        }
    )
    table["prob_change"] = difference(table["prob_last"], table["prob_first"])
    table = rounded_columns(table)
    examples = _examples(texts, responses).reindex(raw)
    for name in examples.columns:
        table[name] = examples[name].array
    table = table[(table["count"] > 0) & (table["raw"] != GAP)]
    table = table.sort_values(["kl_share", "count", "raw"], ascending=[False, False, True])
    columns = [c.name for c in TOKEN_COLUMNS]
    return table[columns].astype({c.name: c.dtype for c in TOKEN_COLUMNS}).reset_index(drop=True)


def step_bigrams(texts: TextSample | None, responses: pd.DataFrame) -> pd.DataFrame:
    """Return ``step`` and the numbers of its ``bigrams`` and of ``distinct`` ones, as columns."""
    if texts is None:
        return pd.DataFrame({"step": [], "bigrams": [], "distinct": []}, dtype=np.int64)
    step = responses["step"].to_numpy()[texts.rows]
    step_of_unit = np.repeat(step, np.diff(texts.offsets))
    pairs = texts.units[:-1].astype(np.int64) << 32 | texts.units[1:]
    inside = np.ones(len(texts.units), bool)
    inside[row_ends(texts.offsets)] = False
    if GAP in texts.vocabulary:
        gap = texts.units == texts.vocabulary.index(GAP)
        inside &= ~gap & ~np.append(gap[1:], False)
    is_pair = inside[:-1]
    steps = np.unique(step)
    starts = np.searchsorted(step_of_unit[:-1][is_pair], steps[1:])
    parts = np.split(pairs[is_pair], starts)  # of each step, which may be empty
    distinct = [len(np.unique(part)) for part in parts]
    return pd.DataFrame({"step": steps, "bigrams": [*map(len, parts)], "distinct": distinct})


def _examples(sample: TextSample, responses: pd.DataFrame) -> pd.DataFrame:
    """Return columns _EXAMPLE by token: its first place in the response with the largest KL."""
    row, position = np.full((2, len(sample.vocabulary)), -1, np.int64)
    kl = np.nan_to_num(responses["kl_k1"].to_numpy()[sample.rows], nan=-np.inf)
    tokens = responses["response_tokens"].to_numpy()[sample.rows]
    # The last assignment wins: the response with the largest KL, and its first occurrence.
    for i in np.argsort(-kl, kind="stable")[::-1].tolist():
        units = sample.units[sample.offsets[i] : sample.offsets[i + 1]]
        positions = np.arange(len(units))
        if tokens[i] > len(units):  # the sample omits the middle of a long response
            positions[EDGE:] += int(tokens[i]) - len(units)
        row[units[::-1]] = sample.rows[i]
        position[units[::-1]] = positions[::-1]
    columns = (responses["step"].to_numpy()[row], responses["n"].to_numpy()[row], position)
    table = pd.DataFrame(
        dict(zip(_EXAMPLE, columns, strict=True)),
        index=pd.Index(sample.vocabulary, dtype=object),
        dtype="Int64",
    )
    # The sample lacks environment tokens, so positions among all tokens are unknown.
    has_env_tokens = responses["env_tokens"].to_numpy()[row] > 0
    table["example_position"] = table["example_position"].mask(has_env_tokens)
    return table[row >= 0]


def _windows(
    responses: pd.DataFrame, step: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    steps = np.unique(responses.loc[responses["validation"] == 0, "step"].to_numpy())
    size = window_size(len(steps))
    if 2 * size > len(steps):
        return np.zeros(len(step), bool), np.zeros(len(step), bool)
    return step <= steps[size - 1], step >= steps[-size]


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
    shared: dict[str, Any] = {item.name: getattr(scan, item.name) for item in fields(LogTables)}
    of_metrics = metrics.notes
    if not scan.responses.empty:
        # The rollouts tell the run, and its metrics are those of the last start.
        of_metrics = [
            replace(note, kind=FORMAT) if note.kind == SEVERAL_STARTS else note
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
        text = message("trainer metrics at steps far from those of rollouts, in separate charts")
        tables.notes.append(Note("metrics", text, len(metrics.table)))
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
