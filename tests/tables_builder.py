"""Tables of a made-up run, from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rlreport.columns import RESPONSE_COLUMNS, STEP_COLUMNS
from rlreport.tables import LogFile, Tables, TextSample
from rlreport.text.clean import without_special
from rlreport.text.tokens import detect_style, readable_tokens, spaced_units

EMPTY = pd.DataFrame()


def make_tables(
    columns: dict[str, Any],
    *,
    prompts: Sequence[str] | None = None,
    texts: Sequence[Sequence[str]] | None = None,
    ref_texts: Sequence[Sequence[str]] | None = None,
    unit: str = "token",
    **changes: Any,
) -> Tables:
    """Make tables from columns of the response table, arrays of equal length.

    Columns that are left out are absent fields, but for names and places, which get
    plain values. ``texts`` and ``ref_texts`` are the units of each response.

    Args:
        columns: response columns; ``step`` is needed.
        prompts: text of each prompt_id.
        texts: units of each response, which feed n-grams.
        ref_texts: units of each reference response.
        unit: what the units are.
        changes: further fields of ``Tables``.
    """
    order = np.argsort(np.asarray(columns["step"]), kind="stable")
    given = {name: np.asarray(values)[order] for name, values in columns.items()}
    responses = _response_table(given, len(order))
    rows = len(responses)
    known = range(int(responses["prompt_id"].max()) + 1) if rows else range(0)
    prompt_texts = list(prompts) if prompts is not None else [f"prompt {i}" for i in known]
    values: dict[str, Any] = {
        "responses": responses,
        "extras": pd.DataFrame(index=responses.index),
        "steps": steps_of(responses),
        "prompts": pd.DataFrame({"prompt_id": range(len(prompt_texts)), "prompt": prompt_texts}),
        "tokens": EMPTY,
        "positions": EMPTY,
        "extras_by_step": EMPTY,
        "ngrams": None if texts is None else sample([texts[i] for i in order], unit),
        "words": None if texts is None else word_sample([texts[i] for i in order], unit),
        "ref_words": None
        if ref_texts is None
        else word_sample([ref_texts[i] for i in order], unit),
        "files": [LogFile("run.jsonl", 100 * rows, rows=rows, lines=rows)],
    }
    return Tables(**{**values, **changes})


def _response_table(given: dict[str, Any], rows: int) -> pd.DataFrame:
    absent = np.full(rows, np.nan)
    places = np.arange(rows)
    starts = np.searchsorted(given["step"], given["step"])
    prompts = np.asarray(given.get("prompt_id", places))
    plain: dict[str, Any] = {
        "n": places - starts,
        "has_texts": 1,
        "line": places + 1,
        "offset": places * 100,
        "length": 99,
        "prompt_id": prompts,
        "response_chars": 40,
        "prompt_chars": 20,
        "response_hash": places + 1000,
        "reward_gap": given.get("reward", absent) - given.get("ref_reward", absent),
    }
    if "group" not in given:
        keys = np.asarray(given["step"]).astype(np.int64) * (int(prompts.max(initial=0)) + 1)
        plain["group"] = np.unique(keys + prompts, return_inverse=True)[1]
    if "surprisal_mean" in given:
        plain["logp_tokens"] = np.nan_to_num(given.get("response_tokens", absent), nan=30.0)
    table = {}
    for column in RESPONSE_COLUMNS:
        missing = 0 if "int" in column.dtype else np.nan
        values = given.get(column.name, plain.get(column.name, missing))
        table[column.name] = np.broadcast_to(np.asarray(values).astype(column.dtype), rows)
    return pd.DataFrame(table)


def sample(texts: Sequence[Sequence[str]], unit: str = "token") -> TextSample:
    """Return a sample that keeps every response, given its units."""
    flat = [part for text in texts for part in text]
    vocabulary = sorted(set(flat))
    number = {part: i for i, part in enumerate(vocabulary)}
    return TextSample(
        rows=np.arange(len(texts)),
        offsets=np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64),
        units=np.array([number[part] for part in flat], dtype=np.int32),
        vocabulary=vocabulary,
        unit=unit,
    )


def word_sample(texts: Sequence[Sequence[str]], unit: str = "token") -> TextSample:
    """Return the sample of words of responses, given their units."""
    if unit == "word":
        return sample([spaced_units(" ".join(text)) for text in texts], "word")
    style = detect_style({part for text in texts for part in text})
    joined = ["".join(readable_tokens(text, style)) for text in texts]
    return sample([spaced_units(without_special(text)) for text in joined], "word")


def steps_of(responses: pd.DataFrame) -> pd.DataFrame:
    """Derive the columns of the step table that follow from the response table alone."""
    by_step = responses.groupby("step")
    table: dict[str, Any] = {"responses": by_step.size(), "prompts": by_step["prompt_id"].nunique()}
    known = ["reward", "ref_reward", "kl_k1", "kl_k3", "response_tokens", "response_chars"]
    for figure, values in (
        ("mean", by_step[known].mean()),
        ("std", by_step[known].std(ddof=0)),
        ("min", by_step[["reward", "kl_k1"]].min()),
        ("max", by_step[["reward", "kl_k1"]].max()),
    ):
        table |= {f"{name}_{figure}": values[name] for name in values}
    gap, weights = responses["reward_gap"], responses["logp_tokens"]
    twins = responses.duplicated(["step", "response_hash"], keep=False)
    more = pd.DataFrame(
        {
            "step": responses["step"],
            "reward_gap_mean": gap,
            "win_rate": (gap > 0).where(gap.notna()).astype(float),
            "lose_rate": (gap < 0).where(gap.notna()).astype(float),
            "eos_rate": responses["finished"],
            "duplicate_rate": twins.astype(float),
        }
    )
    means = more.groupby("step").mean()
    table |= {str(name): means[name] for name in means}
    sums = pd.DataFrame(
        {"step": responses["step"], "nats": responses["surprisal_mean"] * weights, "of": weights}
    )
    sums = sums.groupby("step").sum(min_count=1)
    table |= {
        "surprisal_mean": sums["nats"] / sums["of"],
        "nan_values": by_step["nan_values"].sum(),
    }
    steps = pd.DataFrame(table)
    absent = {c.name: 0 if c.dtype == "int64" else np.nan for c in STEP_COLUMNS}
    steps = steps.assign(incomplete=steps["responses"] < steps["responses"].median()).reset_index()
    missing = {name: value for name, value in absent.items() if name not in steps}
    steps = pd.concat([steps, pd.DataFrame(missing, index=steps.index)], axis=1)
    return steps[[c.name for c in STEP_COLUMNS]]
