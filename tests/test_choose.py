"""What is shown is chosen by worth, and fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.choose.budget import CostModel, plan
from rlreport.choose.extremes import extremes
from rlreport.choose.worth import by_worth
from rlreport.columns import RESPONSE_COLUMNS

COST = CostModel(fixed=1000, step=100, row=10, char=1, token=1, digit=0.5)


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


def chosen_rows(table: pd.DataFrame) -> dict[int, np.ndarray]:
    return {int(step): group.index.to_numpy() for step, group in table.groupby("step")}


@settings(max_examples=60)
@given(budget=st.floats(500, 300_000), steps=st.integers(1, 30), seed=st.integers(0, 3))
def test_a_plan_fits_whenever_the_least_does(budget, steps, seed):
    table = responses(steps, 12, seed)
    made = plan(chosen_rows(table), table, evidence={0: 1}, cost=COST, budget=budget, arrays=4)
    least = plan(chosen_rows(table), table, evidence={0: 1}, cost=COST, budget=0, arrays=4)
    assert made.expected <= budget or made.expected == least.expected


def test_digits_go_first_then_tokens_then_responses_then_steps():
    table = responses(20, 12)
    full = plan(chosen_rows(table), table, evidence={7: 1}, cost=COST, budget=1e9, arrays=4)
    assert {s.digits for s in full.steps} == {6}
    assert full.left_out(240, 240) == []
    seen = []
    for share in (0.9, 0.5, 0.2, 0.06):
        made = plan(
            chosen_rows(table),
            table,
            evidence={7: 1},
            cost=COST,
            budget=full.expected * share,
            arrays=4,
        )
        seen.append(
            (
                min(s.digits for s in made.steps),
                sum(s.with_tokens for s in made.steps),
                made.responses,
                len(made.steps),
            )
        )
    assert seen == sorted(seen, reverse=True)
    assert seen[0][1:] == (240, 240, 20)
    assert seen[-1][3] < 20
    assert {0, 19, 7} <= {s.step for s in made.steps}
    assert len(made.left_out(240, 240)) == 4


def test_rows_stay_in_order_of_worth():
    table = responses(2, 12)
    order = {0: np.array([5, 3, 1, 0, 2, 4]), 1: np.array([12, 20, 13, 14, 15, 16])}
    made = plan(order, table, evidence={}, cost=COST, budget=2200, arrays=0)
    for step in made.steps:
        assert step.rows.tolist() == order[step.step][: len(step.rows)].tolist()
    assert made.responses == pytest.approx(12, abs=8)
