"""What is shown is chosen by worth, and fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlreport
from rlreport.choose.detail import LEAST, Candidate, Plan, fewer_steps
from rlreport.choose.extremes import extremes
from rlreport.choose.ranking import by_worth
from rlreport.choose.twins import recurring, twins
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import UnusableInputError
from tests.hostile import write_log


def responses(steps: int, each: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    count = steps * each
    table = pd.DataFrame({c.name: np.full(count, np.nan) for c in RESPONSE_COLUMNS})
    table["step"] = np.repeat(np.arange(steps), each)
    table["n"] = np.tile(np.arange(each), steps)
    for name in ("reward", "kl_k1", "kl_k3", "kl_max"):
        table[name] = random.normal(size=count)
    table["response_tokens"] = random.integers(5, 50, count).astype(float)
    table["kl_max_position"] = 3.0
    for name in ("response_chars", "prompt_chars"):
        table[name] = random.integers(10, 200, count)
    return table


def test_a_small_step_is_shown_whole():
    assert sorted(by_worth(responses(1, 20), 0, 128)) == list(range(20))


def test_evidence_comes_first_then_extremes_then_a_sample():
    table = responses(1, 1000)
    chosen = by_worth(table, 0, 128, evidence=[777])
    assert chosen[0] == 777
    assert len(chosen) == len(set(chosen)) == 128
    for metric in ("reward", "kl_k1", "response_tokens"):
        assert {table[metric].argmin(), table[metric].argmax()} <= set(chosen.tolist())


def test_the_sample_depends_on_its_seed_alone():
    table = responses(1, 1000)
    first, again = by_worth(table, 5, 100, seed=1), by_worth(table, 5, 100, seed=1)
    assert first.tolist() == again.tolist()
    assert set(first) != set(by_worth(table, 5, 100, seed=2))


def test_extremes_name_the_response_and_its_token():
    table = responses(3, 50)
    found = {e.label: e for e in extremes(table)}
    assert found["Lowest reward"].row == table["reward"].argmin()
    assert found["Largest token KL, k3"].token == 3
    assert "Furthest below the reference" not in found


def candidate(each: int = 12, pointed: int = 0, arrays: int = 4, seed: int = 0) -> Candidate:
    random = np.random.default_rng(seed)
    return Candidate(
        step=0,
        rows=random.permutation(each),
        pointed=pointed,
        responses=each,
        chars=random.integers(10, 4000, each).astype(float),
        tokens=random.integers(5, 900, each).astype(float),
        arrays=arrays,
    )


@settings(max_examples=200)
@given(
    budget=st.floats(0, 2_000_000),
    each=st.integers(1, 128),
    pointed=st.integers(0, 5),
    arrays=st.sampled_from([0, 1, 4, 8]),
    seed=st.integers(0, 3),
)
def test_a_page_costs_no_more_than_it_may_unless_it_is_the_least(
    budget, each, pointed, arrays, seed
):
    step = candidate(each, min(pointed, each), arrays, seed)
    made = step.packed(budget)
    least = step.packed(0)
    assert len(least.rows) == min(each, LEAST)
    assert least.with_tokens == 0
    assert step.cost_of(made) <= budget or (len(made.rows), made.with_tokens) == (
        len(least.rows),
        0,
    )
    assert made.with_tokens <= len(made.rows)
    assert made.rows.tolist() == step.rows[: len(made.rows)].tolist()


def test_more_room_never_shows_less():
    step = candidate(60, pointed=3)
    shown = [step.packed(budget) for budget in np.linspace(0, step.whole(), 60)]
    for part in (lambda p: len(p.rows), lambda p: p.with_tokens, lambda p: p.digits):
        seen = [part(plan) for plan in shown]
        assert seen == sorted(seen)
    assert (len(shown[-1].rows), shown[-1].with_tokens, shown[-1].digits) == (60, 60, 6)


def test_digits_go_first_and_what_is_pointed_at_keeps_its_tokens_longest():
    step = candidate(40, pointed=3)
    whole = step.whole()
    fewer = step.packed(0.9 * whole)
    assert (len(fewer.rows), fewer.with_tokens) == (40, 40)
    assert fewer.digits < 6
    texts = step.cost(6, 0, 3)
    assert step.packed(texts + 1).with_tokens == 0
    assert len(step.packed(texts + 1).rows) == 6
    assert step.packed(step.cost(6, 3, 3) + 1).with_tokens == 3


def test_what_is_left_out_is_said():
    steps = [candidate(seed=seed) for seed in range(20)]
    whole = Plan([step.packed(1e9) for step in steps], 20)
    assert whole.left_out(240, 240) == []
    cut = Plan([step.packed(60_000) for step in fewer_steps(steps, 8)], 20)
    assert len(cut.left_out(240, 240)) == 4


@given(count=st.integers(1, 200), room=st.integers(0, 250), pointed=st.sets(st.integers(0, 199)))
def test_thinned_steps_keep_both_ends_and_what_is_pointed_at(count, room, pointed):
    steps = [candidate(2, pointed=int(place in pointed)) for place in range(count)]
    kept = [next(i for i, s in enumerate(steps) if s is one) for one in fewer_steps(steps, room)]
    assert kept == sorted(set(kept))
    assert len(kept) == min(count, max(2, room))
    assert {0, count - 1} <= set(kept)
    wanted = {place for place in pointed if place < count}
    if len(wanted | {0, count - 1}) <= room:
        assert wanted <= set(kept)


def test_more_steps_than_a_report_can_list_are_refused_with_what_to_do(tmp_path):
    row = {"prompt": "p", "response": "r", "reward": 1.0}
    log = write_log(tmp_path / "log.jsonl", [row | {"step": step} for step in range(20_001)])
    with pytest.raises(UnusableInputError, match=r"20,001 steps.*--map step=FIELD"):
        rlreport.build(log, tmp_path / "report", workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_sample_keeps_prompts_that_recur_so_that_they_can_be_followed():
    steps, each, prompts = 4, 400, 100
    table = responses(steps, each)
    table["prompt_id"] = np.tile(np.arange(each) % prompts, steps)
    keys = recurring(table, seed=0)
    kept = []
    for step in range(steps):
        own = table["step"].to_numpy() == step
        rows = by_worth(table[own], step, 80, recurring=keys[own])
        assert len(set(rows.tolist())) == 80
        kept.append(set(table[own]["prompt_id"].to_numpy()[rows].tolist()))
    assert len(set.intersection(*kept)) >= 20


def test_twins_are_the_nearest_shown_responses_to_the_same_prompt():
    table = responses(4, 3)
    table["prompt_id"] = [0, 1, 2, 0, 0, 2, 1, 3, 4, 0, 1, 5]
    found = twins(table, [np.array(rows) for rows in ([0, 1, 2], [4, 3], [6, 7], [9, 11])])
    assert found.of(0) == {0: (None, (1, 1)), 1: (None, (2, 0))}
    assert found.of(1) == {0: ((0, 0), (3, 0))}
    assert found.of(2) == {1: ((0, 1), None)}
