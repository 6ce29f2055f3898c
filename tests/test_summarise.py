"""Tables by step, prompt and token equal what a few lines of NumPy or pandas compute."""

import math
from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.columns import PROMPT_COLUMNS, STEP_COLUMNS, TOKEN_COLUMNS
from rlreport.figures.tokens import correctness
from rlreport.read.rollouts import EDGE
from rlreport.read.sample import FIGURES
from rlreport.summarise.run import prompt_table
from rlreport.summarise.steps import (
    incomplete,
    most_common,
    passes_of,
    step_table,
    window_size,
)
from rlreport.summarise.tokens import step_bigrams, token_table
from rlreport.tables import GAP, TokenSample
from tests.tables_builder import response_table, sample


def responses(**columns) -> pd.DataFrame:
    """A response table, of one step if none is given."""
    count = len(next(iter(columns.values())))
    given = {
        "step": np.zeros(count),
        "n": np.arange(count),
        "response_chars": np.zeros(count),
    }
    return response_table(given | columns)


def steps_of(table: pd.DataFrame) -> pd.DataFrame:
    steps = table["step"].unique()
    counts = pd.DataFrame({"step": steps, "bigrams": 0, "distinct": 0})
    return step_table(table, counts)


def test_tables_have_the_documented_columns_and_dtypes():
    table = responses(reward=[1.0, 2.0])
    for made, columns in (
        (steps_of(table), STEP_COLUMNS),
        (prompt_table(table), PROMPT_COLUMNS),
    ):
        assert list(made.columns) == [c.name for c in columns]
        for column in columns:
            if column.dtype != "object":
                assert made[column.name].dtype == column.dtype, column.name


def test_groups_count_those_with_several_responses_alone():
    table = responses(
        reward=[1.0, 1.0, 0.0, 1.0, 5.0],
        group=[0, 0, 1, 1, 2],
    )
    row = steps_of(table).iloc[0]
    assert row["groups"] == 2
    assert row["zero_variance_groups"] == 0.5
    assert row["group_std_mean"] == pytest.approx(0.25)
    assert row["group_best_mean"] == 1.0


GRADE = st.sampled_from([0.0, 1.0, np.nan])
GROUP = st.lists(GRADE, min_size=1, max_size=7)


def known_grades(group: Sequence[float]) -> list[float]:
    return [grade for grade in group if not math.isnan(grade)]


def share_of_subsets(group: Sequence[float], size: int) -> float:
    """Return the share of all subsets of a size that hold a right response."""
    best = [max(subset) for subset in combinations(group, size)]
    return float(np.mean(best))


@given(st.lists(GROUP, min_size=1, max_size=6), st.integers(1, 2))
def test_pass_at_k_is_the_share_of_all_subsets_of_a_group_with_a_right_response(
    grades, each
):
    known = [known_grades(group) for group in grades]
    sizes = [len(group) for group in known if group]
    usual = max(sorted(set(sizes)), key=sizes.count, default=1)
    k = usual if 2 * sizes.count(usual) >= len(sizes) else 1
    rows: list[tuple[int, float]] = []
    for place, group in enumerate(grades):
        rows += [(place, grade) for grade in group]
    rows.sort(key=lambda row: hash(row[1]))  # groups lie among each other
    group, correct = np.array(rows).T
    table = responses(step=group // each, group=group, correct=correct)
    table = table.sort_values("step")
    found = steps_of(table)
    assert passes_of(table).k == k
    for name, size in (("pass_at_1", 1), ("pass_at_k", k)):
        shares = [
            share_of_subsets(group, size) if len(group) >= k > 1 else np.nan
            for group in known
        ]
        step_of_group = np.arange(len(shares)) // each
        means = pd.Series(shares).groupby(step_of_group).mean()
        expected = means.reindex(found["step"])
        np.testing.assert_allclose(found[name], expected, atol=1e-12)


def test_right_is_what_the_log_says_else_the_higher_of_two_rewards():
    reward = np.array([-1.0, 2.0, np.nan, 2.0])
    logged = pd.DataFrame({"Acc": [1.0, 0.0, 1.0, np.nan]})
    np.testing.assert_equal(correctness(logged, reward), logged["Acc"])
    no_grades = pd.DataFrame({"acc": reward, "correction": 1.0})
    for extras in (pd.DataFrame(), no_grades):
        np.testing.assert_equal(correctness(extras, reward), [0.0, 1.0, np.nan, 1.0])
    for others in ([0.0, 0.5, 1.0], [1.0, 1.0, 1.0]):
        right = correctness(pd.DataFrame(index=range(3)), np.array(others))
        assert np.isnan(right).all()


def test_equal_texts_in_a_step_are_duplicates_of_each_other():
    hashes = np.array([5, 5, 6, 5, 6], np.uint64)
    steps = [0, 0, 0, 1, 1]
    table = responses(reward=np.zeros(5), step=steps, response_hash=hashes)
    assert steps_of(table)["duplicate_rate"].tolist() == [pytest.approx(2 / 3), 0.0]


def test_nan_rewards_are_skipped_and_win_rates_need_both():
    table = responses(
        reward=[1.0, np.nan, 3.0, 0.0],
        ref_reward=[0.0, 0.0, np.nan, 0.0],
    )
    row = steps_of(table).iloc[0]
    assert row["reward_mean"] == pytest.approx(4 / 3)
    assert (row["win_rate"], row["lose_rate"]) == (0.5, 0.0)


def test_the_usual_step_is_what_at_least_half_of_all_steps_are():
    sizes = np.array([8, 8, 8, 3])
    assert most_common(sizes) == 8
    assert incomplete(sizes).tolist() == [False, False, False, True]
    assert most_common(np.array([5, 6, 7, 8])) is None
    assert not incomplete(np.array([5, 6, 7, 8])).any()


def test_prompts_over_the_steps():
    table = responses(
        step=[0, 0, 1, 1, 2, 2],
        prompt_id=[0, 1, 0, 1, 0, 1],
        reward=[1.0, 0.0, 3.0, -1.0, 2.0, -2.0],
        ref_reward=[2.0, 1.0, 2.0, 1.0, 2.0, 1.0],
    )
    prompts = prompt_table(table, ["first", "second"])
    assert prompts["prompt"].tolist() == ["first", "second"]
    assert prompts["never_won"].tolist() == [False, True]
    assert prompts["losing_streak"].tolist() == [1, 3]
    assert prompts["reward_gain"].tolist() == [1.0, -2.0]
    assert prompts["best_step"].tolist() == [1, 0]
    assert prompts["best_n"].tolist() == [2, 1]
    assert prompts["worst_step"].tolist() == [0, 2]
    assert prompts["worst_n"].tolist() == [0, 5]


def token_sample(units: list[list[str]], **figures: list[list[float]]) -> TokenSample:
    """Sampled tokens of responses in the order of the table, with figures of each token."""
    texts = sample(units)
    absent = [[np.nan] * len(row) for row in units]
    arrays = {}
    for name in FIGURES:
        values = chain.from_iterable(figures.get(name, absent))
        arrays[name] = np.array(list(values), np.float32)
    return TokenSample(texts, **arrays)


def test_token_figures_are_means_over_the_sample_and_its_first_and_last_steps():
    steps = np.arange(10)
    table = responses(step=steps, kl_k1=np.zeros(10))
    found = token_table(
        token_sample(
            [["Ġa", "Ġb"]] * 10,
            kl=[[0.25, 0.75]] * 10,
            log_ratio=[[-0.5, 0.5]] * 10,
            prob=[[0.1 * step, 0.5] for step in steps],
        ),
        table,
    )
    assert list(found.columns) == [c.name for c in TOKEN_COLUMNS]
    first, second = found.to_dict("records")
    assert (first["token"], first["raw"], first["kl_share"]) == (" b", "Ġb", 0.75)
    assert (second["count"], second["kl_mean"]) == (10, 0.25)
    assert (second["log_ratio_mean"], second["abs_log_ratio_mean"]) == (-0.5, 0.5)
    window = window_size(10)
    assert second["count_first"] == second["count_last"] == window
    assert second["prob_first"] == pytest.approx(0.1 * np.mean(steps[:window]))
    assert second["prob_last"] == pytest.approx(0.1 * np.mean(steps[-window:]))
    assert second["prob_change"] == pytest.approx(0.1 * (10 - window))
    assert np.isnan(second["abs_value_error_mean"])


def test_the_middle_that_was_left_out_of_a_long_response_is_no_token():
    table = responses(step=[0])
    found = token_table(token_sample([["a", GAP, "b"]]), table)
    assert set(found["raw"]) == {"a", "b"}
    bigrams = step_bigrams(sample([["a", "b", GAP, "a", "b"]]), table)
    assert bigrams.to_numpy().tolist() == [[0, 2, 1]]


def test_a_tokens_example_is_the_sampled_response_with_the_largest_kl_that_holds_it():
    table = responses(
        step=[0, 0, 1, 1],
        n=[0, 1, 0, 1],
        kl_k1=[1.0, 3.0, 3.0, np.nan],
    )
    units = [
        ["Ġa", "Ġc"],
        ["Ġc", "Ġb", "Ġc"],
        ["Ġb", "Ġc"],
        ["Ġa", "Ġb"],
    ]
    tokens = token_table(token_sample(units), table).set_index("raw")
    # The earliest on a tie; an unknown KL comes last.
    assert example(tokens, "Ġa") == (0, 0, 0)
    assert example(tokens, "Ġb") == (0, 1, 1)
    assert example(tokens, "Ġc") == (0, 1, 0)


def test_a_token_among_tokens_of_the_environment_has_an_example_without_a_position():
    table = responses(kl_k1=[3.0, 1.0], env_tokens=[2.0, 0.0])
    sampled = token_sample([["Ġa"], ["Ġc", "Ġb"]])
    tokens = token_table(sampled, table).set_index("raw")
    found = tokens.loc[["Ġa"]]
    assert found[["example_step", "example_n"]].to_numpy().tolist() == [[0, 0]]
    assert found["example_position"].isna().all()
    assert example(tokens, "Ġb") == (0, 1, 1)


def test_a_token_in_the_last_part_of_a_long_response_has_its_place_there():
    units = ["a"] * (2 * EDGE) + ["b"]
    units[EDGE] = GAP
    table = token_table(token_sample([units]), responses(response_tokens=[5000.0]))
    tokens = table.set_index("raw")
    assert example(tokens, "a") == (0, 0, 0)
    assert example(tokens, "b") == (0, 0, 4999)


def example(tokens: pd.DataFrame, raw: str) -> tuple[int, ...]:
    return tuple(tokens.loc[raw, ["example_step", "example_n", "example_position"]])
