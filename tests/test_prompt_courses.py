"""Prompts that improved and regressed: exact tests, noise, and the tables of groups."""

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rlreport.summarise.prompt_courses import (
    EXACT_RESPONSES,
    FEW_RESPONSES,
    PromptCourse,
    fisher_p,
    kept,
    prompt_courses,
    rank_test,
)
from rlreport.tables import RowRole
from tests.tables_builder import response_table

RUNS = 120
"""Runs of each family, of which at most 5% may have a false course."""

# Chance of finding a large change with FEW_RESPONSES on each side
LEAST_POWER = 0.8

Family = Callable[[np.random.Generator, float], pd.DataFrame]


def run(
    random: np.random.Generator,
    shape: tuple[int, int, int],
    reward: Callable[[np.ndarray], np.ndarray],
    rise: float,
) -> pd.DataFrame:
    """A run whose prompts all have a level of their own, which rises by ``rise`` over the steps.

    ``shape``: number of prompts, of steps, and of responses to a prompt at a step.
    """
    prompts, steps, size = shape
    step = np.repeat(np.arange(steps), prompts * size)
    prompt = np.tile(np.repeat(np.arange(prompts), size), steps)
    level = random.random(prompts)[prompt] * (1 - rise)
    level += rise * step / (steps - 1)
    earned = reward(level)
    levels = np.unique(earned)
    correct = earned if len(levels) <= 2 else np.full(len(step), np.nan)
    return response_table(
        {"step": step, "prompt_id": prompt, "reward": earned, "correct": correct}
    )


def family(
    shape: tuple[int, int, int],
    kind: Callable[[np.random.Generator], Callable[[np.ndarray], np.ndarray]],
) -> Family:
    return lambda random, rise: run(random, shape, kind(random), rise)


def families() -> dict[str, Family]:
    def binary(random):
        return lambda level: (random.random(len(level)) < level).astype(float)

    def noisy(random):
        return lambda level: level + random.normal(0, 1, len(level))

    def coarse(random):
        return lambda level: np.rint(noisy(random)(3 * level))

    def heavy(random):
        return lambda level: level + random.standard_cauchy(len(level))

    sizes = {
        "epochs": (64, 9, 8),
        "twice": (100, 2, 8),
        "few": (6, 30, 4),
    }
    made: dict[str, Family] = {}
    for kind in (binary, noisy, coarse, heavy):
        for name, shape in sizes.items():
            made[f"{kind.__name__}, {name}"] = family(shape, kind)
    return made


def changed(courses: pd.DataFrame) -> bool:
    either = (PromptCourse.IMPROVED, PromptCourse.REGRESSED)
    return bool(courses["course"].isin(either).any())


@pytest.mark.parametrize("name", families())
def test_without_a_change_at_most_one_run_in_twenty_has_a_prompt_that_changed(name):
    random = np.random.default_rng(7)
    make = families()[name]
    false = sum(changed(prompt_courses(make(random, 0.0))) for _ in range(RUNS))
    # 5% of 120 is 6; by chance up to 11 in one of a thousand such families
    assert false <= stats.binom.ppf(0.999, RUNS, 0.05)


def test_prompts_that_improve_are_found_more_often_the_more_responses_there_are():
    """The power that docs/data.md states: of prompts whose share of right ones rises by 0.6."""
    random = np.random.default_rng(3)

    def found(steps: int, size: int) -> float:
        """Return the share of prompts that are improved, over ten runs."""
        shares = []
        for _ in range(10):
            table = run(
                random,
                (32, steps, size),
                lambda level: (random.random(len(level)) < level).astype(float),
                0.6,
            )
            courses = prompt_courses(table)["course"]
            assert not (courses == PromptCourse.REGRESSED).any()
            shares.append((courses == PromptCourse.IMPROVED).mean())
        return float(np.mean(shares))

    few = found(3, 8)
    usual = found(12, 8)
    many = found(30, 8)
    assert few < 0.7 < 0.9 < usual <= many


def test_the_exact_test_of_shares_is_fishers():
    random = np.random.default_rng(1)
    tables = []
    expected = []
    for _ in range(60):
        n, m = random.integers(1, 30, 2).tolist()
        a = random.integers(0, n + 1)
        b = random.integers(0, m + 1)
        tables.append([a, n, b, m])
        right = [a, b]
        wrong = [n - a, m - b]
        expected.append(stats.fisher_exact([right, wrong])[1])
    assert fisher_p(np.array(tables)) == pytest.approx(expected, rel=1e-9)
    assert len(fisher_p(np.empty((0, 4), np.int64))) == 0


def test_the_rank_test_of_few_responses_counts_all_assignments():
    random = np.random.default_rng(2)
    for _ in range(20):
        n, m = random.integers(1, 6, 2)
        values = random.integers(0, 4, n + m).astype(float)
        ranks = stats.rankdata(values)
        middle = n * (n + m + 1) / 2
        far = abs(ranks[:n].sum() - middle) - 1e-9
        hits = sum(
            abs(sum(ranks[list(chosen)]) - middle) >= far
            for chosen in combinations(range(n + m), n)
        )
        p = rank_test(values[:n], values[n:]).p
        assert p == pytest.approx(hits / comb(n + m, n))


def test_the_rank_test_of_many_responses_is_mann_and_whitneys():
    random = np.random.default_rng(4)
    for _ in range(20):
        n, m = random.integers(EXACT_RESPONSES // 2 + 1, 40, 2)
        early = random.integers(0, 5, n).astype(float)
        late = random.integers(0, 6, m).astype(float)
        result = rank_test(early, late)
        expected = stats.mannwhitneyu(early, late, method="asymptotic")
        assert result.p == pytest.approx(expected.pvalue)
        # The statistic counts pairs in which the early one is higher.
        if expected.statistic != n * m / 2:
            assert result.rises == (expected.statistic < n * m / 2)


def test_false_discoveries_are_controlled_as_by_benjamini_and_hochberg():
    p = np.array([0.001, 0.8, 0.03, 0.02, 0.5])
    adjusted = stats.false_discovery_control(p, method="bh")
    assert kept(p, 0.05).tolist() == (adjusted <= 0.05).tolist()
    # The largest p that passes takes those before it along.
    both = np.array([0.04, 0.045])
    assert kept(both, 0.05).all()
    assert kept(np.empty(0), 0.05).tolist() == []


def courses_of(rewards: dict[int, list[list[float]]], **columns) -> dict[int, str]:
    """Return the course of each prompt; ``rewards`` are those of each step, by prompt."""
    rows = []
    for prompt, steps in rewards.items():
        for step, group in enumerate(steps):
            rows += [(step, prompt, reward) for reward in group]
    rows.sort(key=lambda one: one[0])
    step, prompt, reward = np.array(rows).T
    table = response_table(
        {"step": step, "prompt_id": prompt, "reward": reward, **columns}
    )
    if "correct" not in columns and len(np.unique(reward)) <= 2:
        table["correct"] = table["reward"]
    found = prompt_courses(table).set_index("prompt_id")["course"]
    names = [PromptCourse(code).name for code in found]
    return dict(zip(found.index.tolist(), names, strict=True))


def test_never_and_always_solved_are_facts_and_one_step_is_no_course():
    solved = [1.0] * 4
    wrong = [0.0] * 4
    assert courses_of(
        {
            0: [wrong, wrong, wrong],
            1: [solved, solved],
            2: [wrong * 3, solved * 3],
            3: [solved * 3, wrong * 3],
            4: [[0.0, 1.0], [1.0, 0.0]],
            5: [[0.0, 1.0]],
        }
    ) == {
        0: "NEVER",
        1: "ALWAYS",
        2: "IMPROVED",
        3: "REGRESSED",
        4: "UNCLEAR",
        5: "NONE",
    }


def test_a_fall_between_equal_ends_is_no_change():
    up = [1.0] * 8
    down = [0.0] * 8
    assert courses_of({0: [up, down, up]}) == {0: "UNCLEAR"}


def test_rewards_of_many_levels_have_no_solved_prompts():
    low = [0.1, 0.2, 0.3, 0.15, 0.25, 0.35]
    high = [value + 1 for value in low]
    rewards = {0: [low, low, low]}
    rewards |= {1: [low, high], 2: [high, low]}
    found = courses_of(rewards)
    assert list(found.values()) == ["UNCLEAR", "IMPROVED", "REGRESSED"]


def test_responses_of_untrained_branches_and_without_a_grade_do_not_count():
    step = np.repeat([0, 1], 16)
    reward = np.repeat([0.0, 1.0], 16)
    role = np.zeros(32)
    role[16:] = RowRole.BRANCH
    table = response_table(
        {"step": step, "prompt_id": np.zeros(32), "reward": reward, "validation": role}
    )
    table["correct"] = reward
    assert prompt_courses(table)["course"].tolist() == [PromptCourse.NONE]
    table["validation"] = 0
    table.loc[16:, ["reward", "correct"]] = np.nan
    assert prompt_courses(table)["course"].tolist() == [PromptCourse.NONE]


def test_without_responses_there_are_no_courses():
    empty = response_table({"step": np.empty(0), "prompt_id": np.empty(0)})
    assert prompt_courses(empty).empty


def test_huge_rewards_do_not_break_the_test():
    huge = [1e308] * 6
    tiny = [-1e308] * 6
    usual = [[1.0], [2.0]]
    with np.errstate(over="ignore", invalid="ignore"):
        found = courses_of({0: [tiny, huge], 1: usual})
    assert found[0] == "IMPROVED"


def power_of_shares(size: int) -> float:
    """Return the chance that a share which rises from 25% to 75% is found at p <= 0.05."""
    numbers = np.arange(size + 1)
    early, late = np.meshgrid(numbers, numbers, indexing="ij")
    sizes = np.full(early.size, size)
    table = np.column_stack([early.ravel(), sizes, late.ravel(), sizes])
    chance = stats.binom.pmf(early, size, 0.25)
    chance *= stats.binom.pmf(late, size, 0.75)
    is_found = fisher_p(table) <= 0.05
    return float(chance.ravel()[is_found].sum())


def test_large_changes_are_found_unless_responses_are_few() -> None:
    assert power_of_shares(FEW_RESPONSES) >= LEAST_POWER
    below = [power_of_shares(size) for size in range(2, FEW_RESPONSES)]
    assert max(below) < LEAST_POWER
