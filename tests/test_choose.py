"""What is shown is chosen by worth, and fits."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.errors import UnusableInputError
from rlreport.pages.plan import (
    FINEST_DIGITS,
    LEVELS,
    MAX_FINE_VALUES,
    RankedColumns,
    StepPlan,
    fewer_steps,
    fitting_level,
    rank_by_interest,
)
from rlreport.read.choice import METRICS, extremeness
from tests.reading import row, write
from tests.tables_builder import response_table


def responses(steps: int, each: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    count = steps * each
    columns: dict[str, Any] = {
        name: random.normal(size=count)
        for name in ("reward", "kl_k1", "kl_k3", "kl_max")
    }
    columns["response_tokens"] = random.integers(5, 50, count).astype(float)
    columns["response_chars"] = random.integers(10, 200, count)
    step = np.repeat(np.arange(steps), each)
    return response_table({"step": step, "kl_max_position": 3.0, **columns})


def test_evidence_comes_first_then_extremes_then_a_sample():
    table = responses(1, 1000)
    chosen = rank_by_interest(RankedColumns.of(table), 128, [777])
    assert chosen[0] == 777
    assert len(rank_by_interest(RankedColumns.of(table), 1000)) == 1000
    assert len(chosen) == len(set(chosen)) == 128
    for metric in ("reward", "kl_k1", "response_tokens"):
        values = table[metric]
        assert {values.argmin(), values.argmax()} <= set(chosen.tolist())


def test_responses_of_equal_interest_are_in_the_order_of_the_log():
    table = responses(1, 1000)
    rank = extremeness(table[list(METRICS)].to_numpy(np.float64))
    expected = sorted(range(1000), key=lambda row: (rank[row], row))
    assert rank_by_interest(RankedColumns.of(table), 1000).tolist() == expected


def test_more_steps_than_a_report_can_list_are_refused_with_what_to_do(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("rlreport.pages.plan.MOST_STEPS", 20)
    log = write(tmp_path / "log.jsonl", [row(step) for step in range(21)])
    with pytest.raises(UnusableInputError, match=r"21 steps.*--map step=FIELD"):
        rlreport.build(log, tmp_path / "report", workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_sample_keeps_prompts_that_recur_so_that_they_can_be_followed():
    steps = 4
    each = 400
    prompts = 100
    table = responses(steps, each)
    table["prompt_id"] = np.tile(np.arange(each) % prompts, steps)
    kept = []
    for step in range(steps):
        of_step = table[table["step"] == step]
        rows = rank_by_interest(RankedColumns.of(of_step), 80)
        assert len(set(rows.tolist())) == 80
        kept.append(set(of_step["prompt_id"].iloc[rows]))
    assert len(set.intersection(*kept)) >= 20


def plan(
    step: int = 0, *, responses: int = 2, tokens: float = 100, pinned: int = 0
) -> StepPlan:
    """The plan of a step whose responses have three values for each of their tokens."""
    return StepPlan(
        step, np.arange(responses), pinned, np.full(responses, tokens), arrays=3
    )


def test_token_values_lose_digits_where_one_page_has_too_many_however_much_room_there_is():
    most = MAX_FINE_VALUES / 3 / 2  # tokens of a response, of two on a page
    few = plan(tokens=most)
    many = plan(tokens=most + 1)
    assert LEVELS[fitting_level([few, few], 1e12)].digits == FINEST_DIGITS
    assert LEVELS[fitting_level([few, many], 1e12)].digits < FINEST_DIGITS


def test_where_steps_have_no_page_the_first_the_last_and_those_of_findings_still_have_one():
    steps = [plan(step, pinned=0) for step in range(100)]
    for step in (13, 58):
        steps[step] = plan(step, pinned=1)
    kept = [one.step for one in fewer_steps(steps, 12)]
    assert kept == sorted([*range(0, 100, 16), 13, 58, 99])
    assert [one.step for one in fewer_steps(steps, 4)] == [0, 13, 58, 99]
    assert [one.step for one in fewer_steps(steps, 2)] == [0, 99]
    assert fewer_steps(steps, 100) == steps
