"""What is shown is chosen by worth, and fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.choose import (
    LEVELS,
    StepPlan,
    extremes,
    fewer_steps,
    fitting_level,
    rank_by_interest,
    shown_prompts,
)
from rlreport.columns import RESPONSE
from rlreport.errors import UnusableInputError
from tests.reading import row, write
from tests.tables_builder import response_table


def responses(steps: int, each: int) -> pd.DataFrame:
    random, count = np.random.default_rng(0), steps * each
    columns: dict[str, Any] = {
        name: random.normal(size=count) for name in ("reward", "kl_k1", "kl_k3", "kl_max")
    }
    columns["response_tokens"] = random.integers(5, 50, count).astype(float)
    columns["response_chars"] = random.integers(10, 200, count)
    step = np.repeat(np.arange(steps), each)
    return response_table({"step": step, "kl_max_position": 3.0, **columns})


def test_evidence_comes_first_then_extremes_then_a_sample():
    table = responses(1, 1000)
    chosen = rank_by_interest(table, 128, [777])
    assert chosen[0] == 777
    assert len(rank_by_interest(table, 1000)) == 1000
    assert len(chosen) == len(set(chosen)) == 128
    for metric in ("reward", "kl_k1", "response_tokens"):
        assert {table[metric].argmin(), table[metric].argmax()} <= set(chosen.tolist())


def test_extremes_name_the_response_and_its_token():
    table = responses(3, 50)
    found = {e.label: e for e in extremes(table)}
    assert found["Lowest reward"].row == table["reward"].argmin()
    assert found[RESPONSE["kl_max"].label].token == 3
    assert "Furthest below the reference" not in found


def candidate(each: int = 12, pinned: int = 0, arrays: int = 4, tokens: float = 100) -> StepPlan:
    rows = np.random.default_rng(0).permutation(each)
    return StepPlan(0, rows, pinned, np.full(each, tokens), arrays)


@given(each=st.integers(1, 128), pinned=st.integers(0, 128), arrays=st.sampled_from([0, 1, 4, 8]))
def test_each_level_shows_no_more_than_the_one_before(each, pinned, arrays):
    step = candidate(each, min(pinned, each), arrays)
    plans = [step.at(level) for level in range(len(LEVELS))]
    for plan in plans:
        assert plan.with_tokens <= len(plan.rows)
        assert plan.rows.tolist() == step.rows[: len(plan.rows)].tolist()
        assert not (plan.with_tokens and arrays == 0)
    for measure in (lambda p: len(p.rows), lambda p: p.with_tokens, lambda p: p.digits):
        amounts = [measure(plan) for plan in plans]
        assert amounts == sorted(amounts, reverse=True)
    assert len(plans[0].rows) == each


@given(each=st.integers(1, 128), pinned=st.integers(1, 128))
def test_what_findings_refer_to_is_shown_with_tokens_on_all_levels_but_the_last(each, pinned):
    step = candidate(each, min(pinned, each))
    *plans, last = [step.at(level) for level in range(len(LEVELS))]
    assert min(plan.with_tokens for plan in plans) >= step.pinned
    assert (len(last.rows), last.with_tokens) == (min(each, 2), 0)


def test_pages_of_many_token_values_begin_with_fewer_digits():
    small, large = candidate(tokens=100), candidate(tokens=10_000)
    assert fitting_level([small], 1e9) == 0
    assert fitting_level([candidate(arrays=0, tokens=1e6)], 1e9) == 0
    assert fitting_level([small, large], 1e9) == 1
    assert LEVELS[0].digits > LEVELS[1].digits
    assert LEVELS[0][:2] == LEVELS[1][:2]


@given(count=st.integers(1, 200), room=st.integers(0, 250), pinned=st.sets(st.integers(0, 199)))
def test_thinned_steps_keep_both_ends_and_what_is_pinned(count, room, pinned):
    steps = [candidate(2, pinned=int(place in pinned)) for place in range(count)]
    kept = [next(i for i, s in enumerate(steps) if s is one) for one in fewer_steps(steps, room)]
    assert kept == sorted(set(kept))
    assert len(kept) == count if room >= count else len(kept) <= max(2, room)
    strides = [set(range(0, count, 2**power)) for power in range(9)]
    assert any(stride <= set(kept) for stride in strides)
    assert {0, count - 1} <= set(kept)
    wanted = {place for place in pinned if place < count}
    if len(wanted | {0, count - 1}) <= room:
        assert wanted <= set(kept)


def test_more_steps_than_a_report_can_list_are_refused_with_what_to_do(tmp_path):
    log = write(tmp_path / "log.jsonl", [row(step) for step in range(20_001)])
    with pytest.raises(UnusableInputError, match=r"20,001 steps.*--map step=FIELD"):
        rlreport.build(log, tmp_path / "report", workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_sample_keeps_prompts_that_recur_so_that_they_can_be_followed():
    steps, each, prompts = 4, 400, 100
    table = responses(steps, each)
    table["prompt_id"] = np.tile(np.arange(each) % prompts, steps)
    kept = []
    for step in range(steps):
        own = table["step"].to_numpy() == step
        rows = rank_by_interest(table[own], 80)
        assert len(set(rows.tolist())) == 80
        kept.append(set(table[own]["prompt_id"].to_numpy()[rows].tolist()))
    assert len(set.intersection(*kept)) >= 20


def test_prompts_that_several_steps_show_are_listed_by_step():
    table = responses(4, 3)
    table["prompt_id"] = [0, 1, 2, 0, 0, 2, 1, 3, 4, 0, 1, 5]
    shown = [np.array(rows) for rows in ([0, 1, 2], [4, 3], [6, 7], [9, 11])]
    # Of a step that shows a prompt twice, the more interesting response is listed.
    assert shown_prompts(table, shown) == {"0": [0, 0, 1, 1, 3, 0], "1": [0, 1, 2, 0]}
    assert shown_prompts(table, []) == {}
