"""Groups that taught nothing: the table of steps, the chart, and the sentence have one number."""

import numpy as np
import pandas as pd
import pytest

from rlreport.check.group_signal import GroupSignal, group_signal, signal_in_words
from rlreport.tables import Tables
from tests.tables_builder import charts_of_run, response_table, tables_of

SIZE = 4


def run(*steps: list[list[float]], **columns: float) -> pd.DataFrame:
    """A run from the rewards of each group of each step."""
    rows = []
    for step, groups in enumerate(steps):
        for group, rewards in enumerate(groups):
            rows += [(step, group, reward) for reward in rewards]
    step, group, reward = np.array(rows).T
    return response_table(
        {"step": step, "prompt_id": group, "reward": reward, **columns}
    )


def signal_of(tables: Tables) -> GroupSignal:
    signal = group_signal(tables)
    assert signal is not None
    return signal


WRONG = [0.0] * SIZE
RIGHT = [1.0] * SIZE
MIXED = [0.0, 1.0, 1.0, 0.0]
HALF = [0.5] * SIZE


def test_groups_are_counted_by_their_rewards():
    first = [WRONG, MIXED, MIXED, RIGHT]
    second = [HALF, WRONG, WRONG, MIXED]
    tables = tables_of(run(first, second))
    steps = tables.steps
    assert steps["wrong_groups"].tolist() == [0.25, 0.5]
    assert steps["right_groups"].tolist() == [0.25, 0.0]
    assert steps["equal_groups"].tolist() == [0.0, 0.25]
    assert steps["zero_variance_groups"].tolist() == [0.5, 0.75]
    parts = steps[["wrong_groups", "equal_groups", "right_groups"]].sum(axis=1)
    assert parts.tolist() == steps["zero_variance_groups"].tolist()


def test_if_all_rewards_are_equal_they_are_neither_the_lowest_nor_the_best():
    steps = tables_of(run([HALF, HALF])).steps
    assert steps["equal_groups"].tolist() == [1.0]
    assert steps["wrong_groups"].tolist() == steps["right_groups"].tolist() == [0.0]


def test_the_share_of_the_run_weighs_groups_not_steps():
    tables = tables_of(run([WRONG], [MIXED, MIXED, MIXED]))
    signal = signal_of(tables)
    assert signal.groups == 4
    assert signal.equal == 0.25
    assert signal_in_words(signal).startswith(
        "25% of 4 groups gave no learning signal (25% all wrong)."
    )


def test_the_chart_and_the_sentence_have_the_number_of_the_table():
    random = np.random.default_rng(1)
    shares = np.linspace(0.1, 0.8, 40)
    steps = []
    for share in shares:
        is_wrong = random.random(10) < share
        steps.append([WRONG if wrong else MIXED for wrong in is_wrong])
    table = run(*steps)
    tables = tables_of(table)
    signal = signal_of(tables)
    equal = table.groupby(["step", "group"])["reward"].std(ddof=0) < 1e-6
    assert signal.equal == pytest.approx(equal.mean())
    chart = charts_of_run(tables)["groups"]
    assert signal_in_words(signal) in chart.title
    wrong = [row for row in chart.spec["data"]["values"] if row["series"] == "wrong"]
    by_step = equal.groupby("step").mean()
    assert [row["amount"] for row in wrong] == pytest.approx(by_step.tolist())
    mixed = [row for row in chart.spec["data"]["values"] if row["series"] == "mixed"]
    # The areas lie on each other and fill the axis.
    assert [row["low"] for row in mixed] == [row["high"] for row in wrong]
    assert {row["high"] for row in mixed} == {1.0}


def test_groups_that_the_trainer_left_out_are_told_apart():
    table = run([MIXED, MIXED, WRONG, MIXED])
    table["dropped"] = (table["prompt_id"] < 1).astype(float)
    tables = tables_of(table)
    assert tables.steps["dropped_groups"].tolist() == [0.25]
    words = signal_in_words(signal_of(tables))
    assert "The trainer left out another 25%" in words


def test_a_run_that_does_not_learn_from_groups_wastes_none():
    single = run([[0.0], [1.0], [0.5]])
    assert group_signal(tables_of(single)) is None
    critic = run([WRONG, MIXED], value_mean=0.5)
    assert group_signal(tables_of(critic)) is None
    # A few prompts that happen to recur are no groups.
    singles = [[reward] for reward in (0.0, 1.0, 0.5, 0.1, 0.7)]
    few = run([*singles, [0.0, 0.0]])
    assert group_signal(tables_of(few)) is None


def test_a_single_step_is_drawn_as_wide_as_the_chart():
    chart = charts_of_run(tables_of(run([WRONG, MIXED])))["groups"]
    steps = {row["step"] for row in chart.spec["data"]["values"]}
    assert steps == {-0.5, 0, 0.5}


def test_if_all_groups_teach_the_sentence_says_so():
    words = signal_in_words(signal_of(tables_of(run([MIXED, MIXED]))))
    assert words == "The rewards of all 2 groups differ: each gives a learning signal."
