"""The reward's parts are told by their sum where their names do not tell them."""

from typing import Any

import numpy as np
import pytest

from rlreport.check import quantities
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.check.summed_parts import summed_parts
from rlreport.tables import Tables
from tests.law_families_metrics import metrics_log

STEPS = 80
TIME = np.arange(STEPS) / STEPS
NOISE = np.random.default_rng(11).normal(0, 0.02, (8, STEPS))
SOLVED = 0.1 + NOISE[0]
TIDY = 0.2 + 0.6 * TIME + NOISE[1]


def log(reward: Any, **metrics: Any) -> Tables:
    """Return a log of metrics alone, with some that are no parts."""
    others = {"temperature": 0.7 + NOISE[2], "seconds": 30 + NOISE[3]}
    return metrics_log(STEPS, reward=reward, **metrics, **others)


def parts_of(tables: Tables) -> set[str]:
    return set(quantities.reward_parts(Run(tables)))


def test_metrics_that_add_up_to_the_reward_are_its_parts() -> None:
    made = log(0.9 * SOLVED + 0.1 * TIDY, answer_rate=SOLVED, tidy_rate=TIDY)
    assert parts_of(made) == {"answer_rate", "tidy_rate"}
    finding = BY_ID["unearned_gain"].run(Run(made)).finding
    assert finding is not None
    assert finding.facts["right"] == "answer_rate"


def test_a_small_penalty_may_be_missing_and_is_no_part() -> None:
    penalty = np.abs(NOISE[4])
    made = log(SOLVED + TIDY - penalty, solved=SOLVED, tidy=TIDY, cost=penalty)
    assert parts_of(made) == {"solved", "tidy"}
    unlogged = log(SOLVED + TIDY - 0.02 * penalty, solved=SOLVED, tidy=TIDY)
    assert parts_of(unlogged) == {"solved", "tidy"}


@pytest.mark.parametrize("other", [0.5, 2.0])
def test_a_reward_of_which_much_is_not_logged_is_no_sum(other: float) -> None:
    made = log(SOLVED + TIDY + other * NOISE[5], solved=SOLVED, tidy=TIDY)
    assert parts_of(made) == set()


def test_trends_and_copies_are_no_parts() -> None:
    reward = 0.3 + 0.5 * TIME + NOISE[0]
    rises = {f"rise_{number}": TIME * number + NOISE[number] for number in (2, 3, 4)}
    assert parts_of(log(reward, copy=reward / 2, **rises)) == set()


def test_chance_makes_no_sum_of_few_steps() -> None:
    rng = np.random.default_rng(5)
    for steps in (8, 20, 40):
        columns = {f"m{number}": rng.normal(size=steps) for number in range(60)}
        made = metrics_log(steps, reward=rng.normal(size=steps), **columns)
        run = Run(made)
        assert summed_parts(made.metrics, quantities.reward(run), ()) == []


def test_parts_that_are_named_need_no_sum() -> None:
    named = {"rewards__a__mean": SOLVED, "rewards__b__mean": TIDY}
    made = log(SOLVED + TIDY, **named, solved_share=SOLVED, tidy_share=TIDY)
    assert parts_of(made) == {"a", "b"}
