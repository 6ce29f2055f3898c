"""Tables of a made-up run, from arrays, and what single checks find in them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import Finding, Result, ToldFinding
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.run import Run
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.curves import floats
from rlreport.draw.step_charts import CHARTED, step_charts
from rlreport.figures.tokens import correctness, find_loops
from rlreport.summarise.steps import step_tables
from rlreport.summarise.tokens import step_bigrams
from rlreport.tables import LogFile, Tables, TextSample
from rlreport.text.clean import without_special
from rlreport.text.language import ENGLISH, Language
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
    """Make tables from columns of the response table, ``step`` at least; arrays of equal length.

    Columns that are left out are absent fields, but for names and places, which get plain
    values. ``prompts`` are texts by prompt_id, ``texts`` and ``ref_texts`` units by response.
    """
    order = np.argsort(np.asarray(columns["step"]), kind="stable")
    given = {name: np.asarray(values)[order] for name, values in columns.items()}
    words = texts and word_sample([texts[i] for i in order], unit)
    if words:
        lengths = np.maximum(np.diff(words.offsets), 1)
        given = {
            "loop_share": find_loops(words.units, words.offsets)[:, 2] / lengths,
            **given,
        }
    responses = response_table(given)
    rows = len(responses)
    known = range(int(responses["prompt_id"].max()) + 1) if rows else range(0)
    prompt_texts = (
        list(prompts) if prompts is not None else [f"prompt {i}" for i in known]
    )
    values: dict[str, Any] = {
        "responses": responses,
        "extras": pd.DataFrame(index=responses.index),
        "steps": steps_of(responses),
        "prompts": pd.DataFrame(
            {"prompt_id": range(len(prompt_texts)), "prompt": prompt_texts}
        ),
        "tokens": EMPTY,
        "extras_by_step": EMPTY,
        "ngrams": texts and sample([texts[i] for i in order], unit),
        "words": words,
        "ref_words": ref_texts and word_sample([ref_texts[i] for i in order], unit),
        "files": [LogFile("run.jsonl", 100 * rows, rows=rows, lines=rows)],
    }
    return Tables(**{**values, **changes})


def response_table(given: dict[str, Any]) -> pd.DataFrame:
    """Return the table of responses, in the order of their steps; scalars fill their columns."""
    given = {name: np.asarray(values) for name, values in given.items()}
    rows = len(given["step"])
    absent = np.full(rows, np.nan)
    with np.errstate(over="ignore"):
        gap = given.get("reward", absent) - given.get("ref_reward", absent)
    places = np.arange(rows)
    starts = np.searchsorted(given["step"], given["step"])
    prompts = given.get("prompt_id", places)
    plain: dict[str, Any] = {
        "n": places - starts,
        "has_texts": 1,
        "line": places + 1,
        "offset": places * 100,
        "length": 99,
        "prompt_id": prompts,
        "response_chars": 40,
        "response_hash": places + 1000,
        "reward_gap": gap,
    }
    plain["correct"] = correctness(EMPTY, given.get("reward", absent) + np.zeros(rows))
    if "group" not in given:
        stride = int(prompts.max(initial=0)) + 1
        keys = given["step"].astype(np.int64) * stride
        plain["group"] = np.unique(keys + prompts, return_inverse=True)[1]
    if "surprisal_mean" in given:
        plain["logp_tokens"] = np.nan_to_num(
            given.get("response_tokens", absent), nan=30.0
        )
    table = {}
    for column in RESPONSE_COLUMNS:
        missing = 0 if "int" in column.dtype else np.nan
        values = given.get(column.name, plain.get(column.name, missing))
        table[column.name] = np.broadcast_to(
            np.asarray(values).astype(column.dtype), rows
        )
    return pd.DataFrame(table)


def sample(texts: Sequence[Sequence[str]], unit: str = "token") -> TextSample:
    """Return a sample that keeps every response, given its units."""
    flat = [*chain.from_iterable(texts)]
    vocabulary = sorted(set(flat))
    number = {part: i for i, part in enumerate(vocabulary)}
    lengths = [len(text) for text in texts]
    return TextSample(
        rows=np.arange(len(texts)),
        offsets=np.cumsum([0, *lengths]).astype(np.int64),
        units=np.array([number[part] for part in flat], dtype=np.int32),
        vocabulary=vocabulary,
        unit=unit,
    )


def word_sample(texts: Sequence[Sequence[str]], unit: str = "token") -> TextSample:
    if unit == "word":
        return sample([spaced_units(" ".join(text)) for text in texts], "word")
    style = detect_style(set(chain.from_iterable(texts)))
    joined = ["".join(readable_tokens(text, style)) for text in texts]
    return sample([spaced_units(without_special(text)) for text in joined], "word")


def steps_of(responses: pd.DataFrame) -> pd.DataFrame:
    """Return the table of steps of these responses: all of training, none failed."""
    return step_tables(responses, responses[:0], step_bigrams(None, responses), {}, {})[
        0
    ]


def table_of_rows(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the table of responses from one dict each; what none of them has is absent."""
    return response_table(dict(pd.DataFrame(rows)))


def charts_of_step(
    rows: pd.DataFrame,
    first_rows: pd.DataFrame,
    *,
    step: int,
    language: Language = ENGLISH,
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
    more = pd.DataFrame(extras or {}, index=responses.index)
    by_step = more.groupby(responses["step"].to_numpy()).mean()
    return make_tables(
        dict(responses),
        extras=more,
        extras_by_step=by_step.rename_axis("step").reset_index(),
        reward_parts=list(more.columns),
        metrics=EMPTY if metrics is None else metrics,
    )


def charts_of_run(
    tables: Tables, findings: Sequence[ToldFinding] = ()
) -> dict[str, Chart]:
    return {chart.name: chart for chart in overview_charts(tables, findings)}


def line_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the encoding of the curves of a chart."""
    return next(layer for layer in spec["layer"] if layer["name"] == "line")["encoding"]


STEPS = 40
WINDOW = 8
SIZE = 100
STEP = np.repeat(np.arange(STEPS), SIZE)
INDEX = np.tile(np.arange(SIZE), STEPS)
SIGN = np.where(INDEX % 2, 1.0, -1.0)
"""±1, of mean zero inside every step."""


def run(check_id: str, tables: Tables) -> Result:
    (check,) = (check for check in CHECKS if check.id == check_id)
    return check.run(Run(tables))


def severity(check_id: str, tables: Tables) -> str | None:
    """Return the severity that a check finds, None if it is content; it must be able to run."""
    result = run(check_id, tables)
    assert not result.needs, result
    return result.finding.severity if result.finding else None


def find(check_id: str, tables: Tables) -> Finding:
    result = run(check_id, tables)
    assert result.finding is not None, result
    return result.finding


def title(finding: Finding) -> str:
    return BY_ID[finding.id].format_title(finding.facts)


def evaluated(scores: Sequence[float]) -> Tables:
    """Make a run with these scores of validation, one each ten steps, and a reward that stays."""
    step = np.arange(10 * len(scores) - 9)
    metrics = pd.DataFrame({"step": step, "val/accuracy": np.nan})
    metrics.loc[::10, "val/accuracy"] = scores
    rewards = np.tile([0.0, 0.0, 1.0, 1.0], len(step))
    return make_tables({"step": np.repeat(step, 4), "reward": rewards}, metrics=metrics)


def moved(first: float, last: float) -> Any:
    """Return a figure that is ``first`` until the last window, then ``last``."""
    return np.where(STEP < STEPS - WINDOW, first, last).astype(float)


def share(first: float, last: float) -> Any:
    """Return 1 for a share of each step's responses, 0 for the rest."""
    return (np.round(moved(first, last) * SIZE) > INDEX).astype(float)


def tables(**columns: Any) -> Tables:
    """Make a run of 40 steps with 100 responses each; a scalar fills its column."""
    filled = {
        name: np.broadcast_to(values, STEP.shape) for name, values in columns.items()
    }
    return make_tables({"step": STEP, "reward": SIGN, **filled})
