"""Advantages, batches and importance weights: what is found just over a limit, and what is not."""

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Onset, Severity
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.law_families import Shape, random_shape
from tests.law_families_advantages import (
    ESTIMATORS,
    VARIANTS,
    Groups,
    dr_grpo,
    grpo,
    logged,
    of_estimator,
    over_other_groups,
    raw,
    reinforce_plus,
    remax,
    reshaped,
    rloo,
)
from tests.law_families_metrics import metrics_log
from tests.tables_builder import STEP, find, make_tables, run, severity, tables, title

SHAPE = Shape(steps=30, prompts=8, group=8)


def of_groups(*, seed: int = 0, shape: Shape = SHAPE) -> Groups:
    return Groups(np.random.default_rng(seed), shape)


@pytest.mark.parametrize("variant", range(VARIANTS))
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: one.__name__)
def test_no_estimator_of_the_literature_is_called_wrong(estimator, variant) -> None:
    random = np.random.default_rng(variant)
    made = of_estimator(random, random_shape(random), estimator, variant)
    for check in ("advantage_mismatch", "advantage_outlier"):
        assert BY_ID[check].run(Run(made)).finding is None


BASELINES = [
    (grpo, None),
    (dr_grpo, None),
    (rloo, None),
    (raw, "none"),
    (reinforce_plus, "step"),
    (remax, "other"),
]


@pytest.mark.parametrize(("estimator", "kind"), BASELINES)
def test_a_baseline_other_than_that_of_the_group_is_noted(estimator, kind) -> None:
    groups = of_groups()
    made = logged(groups, estimator(groups))
    found = run("advantage_baseline", made).finding
    assert (found and found.facts["kind"]) == kind
    if found is not None:
        assert found.severity is Severity.INFO
        assert "8 responses" in title(found)


def test_equal_prompts_do_not_tell_a_baseline_of_the_step_from_one_of_the_group() -> (
    None
):
    groups = of_groups()
    # In each group half of the responses are right.
    groups.reward = np.tile([0.0, 1.0], SHAPE.rows // 2)
    made = logged(groups, reinforce_plus(groups))
    assert run("advantage_baseline", made).finding is None


def test_groups_of_neighbouring_rows_are_named() -> None:
    groups = of_groups()
    advantage = reshaped(groups, SHAPE)
    found = find("advantage_mismatch", logged(groups, advantage))
    assert found.facts["kind"] == "neighbours"
    assert "groups of 8 neighbouring rows" in title(found)
    assert found.onset and found.onset.step == 1
    assert found.severity is Severity.CRITICAL
    # Of binary rewards, the better one is never below its group's mean.
    assert "negative" not in title(found)
    assert len(found.evidence) == 3


def test_examples_are_the_best_of_their_group_with_a_negative_advantage() -> None:
    groups = of_groups()
    # Each prompt has rewards of its own level.
    prompts = groups.group.max() + 1
    level = np.random.default_rng(6).integers(0, 4, prompts)
    groups.reward = groups.reward + level[groups.group]
    made = logged(groups, over_other_groups(groups, SHAPE))
    found = find("advantage_mismatch", made)
    assert "best-rewarded responses of their group have a negative one" in title(found)
    by_group = pd.Series(groups.reward).groupby(groups.group)
    best = by_group.transform("max").to_numpy()
    for example in found.evidence:
        row = (example.step - 1) * 64 + example.n
        assert groups.reward[row] == best[row]
        assert example.value is not None
        assert example.value < 0


def test_other_wrong_groups_are_found_but_not_named() -> None:
    groups = of_groups()
    advantage = over_other_groups(groups, SHAPE)
    found = find("advantage_mismatch", logged(groups, advantage))
    assert found.facts["kind"] == "apart"
    assert "neighbouring" not in title(found)


def test_wrong_groups_are_dated_by_the_first_block_and_the_last() -> None:
    groups = of_groups()
    is_wrong = (groups.step > 10) & (groups.step <= 20)
    wrong = over_other_groups(groups, SHAPE)
    made = logged(groups, np.where(is_wrong, wrong, grpo(groups)))
    found = find("advantage_mismatch", made)
    # Blocks have three steps.
    assert found.onset == Onset(10, 7, 12)
    assert found.until == 21


@pytest.mark.parametrize("steps", [1, 3])
def test_ten_groups_are_enough(steps) -> None:
    shape = Shape(steps=steps, prompts=8, group=8)
    groups = of_groups(shape=shape)
    made = logged(groups, over_other_groups(groups, shape))
    is_found = severity("advantage_mismatch", made) is not None
    assert is_found == (steps > 1)


@pytest.mark.parametrize("share", [0.05, 0.6])
def test_few_groups_may_have_equal_rewards_with_other_advantages(share) -> None:
    groups = of_groups()
    random = np.random.default_rng(3)
    is_wrong = random.random(groups.group.max() + 1)[groups.group] < share
    wrong = over_other_groups(groups, SHAPE)
    made = logged(groups, np.where(is_wrong, wrong, grpo(groups)))
    is_found = severity("advantage_mismatch", made) is not None
    assert is_found == (share > 0.5)


@pytest.mark.parametrize("term", ["kl_k1", "response_tokens"])
def test_a_penalty_that_the_reward_does_not_hold_is_no_fault(term) -> None:
    groups = of_groups()
    penalty = np.random.default_rng(5).exponential(0.3, SHAPE.rows)
    advantage = groups.reward - penalty
    made = logged(groups, advantage, more={term: penalty})
    assert severity("advantage_mismatch", made) is None
    # The same advantages without the log of what they hold
    assert severity("advantage_mismatch", logged(groups, advantage)) is not None


def test_rows_of_one_rollout_may_have_advantages_of_their_own() -> None:
    groups = of_groups()
    rollout = (np.arange(SHAPE.rows) // 2).astype(np.float64)
    advantage = over_other_groups(groups, SHAPE)
    made = logged(groups, advantage, more={"rollout": rollout})
    assert severity("advantage_mismatch", made) is None


def test_an_outlier_is_a_thousand_times_the_median() -> None:
    groups = of_groups()
    for times, expected in ((900, None), (1100, "warning")):
        advantage = raw(groups)
        at = np.flatnonzero(advantage == 0)[40]
        advantage[at] = times
        assert severity("advantage_outlier", logged(groups, advantage)) == expected


def with_group_ids(lacking: int, *, split: bool = False) -> Tables:
    """Return 200 groups of 4, the first ones without one response, or with it a step later."""
    group = np.repeat(np.arange(200), 4)
    step = group // 5
    is_first = np.arange(800) % 4 == 0
    lacks = is_first & (group < lacking)
    if split:
        step = np.where(lacks, step + 1, step)
    kept = ~lacks | split
    # A group is one id in one step.
    _, ordinal = np.unique(step * 1000 + group, return_inverse=True)
    return make_tables(
        {
            "step": step[kept],
            "prompt_id": group[kept],
            "group": ordinal[kept],
            "group_hash": group[kept] + 1,
            "reward": 1.0 * is_first[kept],
        }
    )


def test_groups_without_their_usual_number_of_responses_are_noted() -> None:
    assert severity("uneven_groups", with_group_ids(9)) is None
    found = find("uneven_groups", with_group_ids(20))
    assert found.severity is Severity.INFO
    assert found.facts["size"] == 4
    assert found.facts["low"] == found.facts["high"] == 3
    assert [one.value for one in found.evidence] == [3.0] * 3


def test_a_group_may_come_in_two_steps() -> None:
    assert severity("uneven_groups", with_group_ids(60, split=True)) is None


def test_groups_without_ids_are_not_counted() -> None:
    row = np.arange(40)
    made = make_tables({"step": row // 4, "prompt_id": row // 3})
    assert run("uneven_groups", made).needs


def in_order(prompts: list[list[int]]) -> Tables:
    """Return a run with two responses to each of these prompts by step."""
    sizes = [2 * len(one) for one in prompts]
    step = np.repeat(np.arange(len(prompts)), sizes)
    return make_tables(
        {"step": step, "prompt_id": np.repeat(np.concatenate(prompts), 2)}
    )


NEW = np.arange(400).reshape(100, 4).tolist()


def test_prompts_that_come_again_in_order_are_noted() -> None:
    again = NEW[:12] + NEW[2:8]
    found = find("order_repeated", in_order(again + NEW[20:30]))
    assert found.severity is Severity.INFO
    assert title(found) == (
        "Steps 12 to 17 have the same prompts as steps 2 to 7, in the same order."
    )
    assert (found.until, found.steps) == (17, tuple(range(12, 18)))


@pytest.mark.parametrize(
    "prompts",
    [
        NEW[:12] + NEW[:4],  # four steps only
        NEW[:12] + [one[::-1] for one in NEW[:12]],  # another order
        NEW[:1] * 20,  # the same in each step
        [one[:3] for one in NEW[:10] * 2],  # three prompts
        NEW[:10] + NEW[:10][::-1],  # batches in another order
    ],
)
def test_other_epochs_are_not_noted(prompts) -> None:
    assert severity("order_repeated", in_order(prompts)) is None


SPREAD = np.where(np.arange(len(STEP)) % 2, 1.5, -1.5)


@pytest.mark.parametrize(
    ("wide", "onset", "until"),
    [
        ((10, 20), 10, 19),
        ((0, 15), 0, 14),
        ((25, 40), 25, None),
    ],
)
def test_importance_weights_are_judged_in_every_stretch(wide, onset, until) -> None:
    is_wide = (wide[0] <= STEP) & (wide[1] > STEP)
    made = tables(log_weight=np.where(is_wide, SPREAD, SPREAD / 10))
    found = find("off_policy_weights", made)
    assert found.severity is Severity.WARNING
    assert found.onset and found.onset.step == onset
    assert found.until == until


def test_what_ended_soon_does_not_hide_what_lasts() -> None:
    first_of_step = np.arange(len(STEP)) % 100 == 0
    few = first_of_step & np.isin(STEP, range(5, 9))
    # One weight outweighs all others in four steps; later, all are too small.
    log_weight = np.where(few, 6.0, np.where(STEP >= 20, -2.0, 0.0))
    found = find("off_policy_weights", tables(log_weight=log_weight))
    assert found.severity is Severity.WARNING
    assert found.onset and found.onset.step == 20
    assert found.until is None


LARGEST = [(7428.0, "info"), (900.0, None)]


@pytest.mark.parametrize(("largest", "expected"), LARGEST)
def test_the_largest_advantage_of_a_step_in_the_trainers_metrics(
    largest: float, expected: str | None
) -> None:
    most = np.full(60, 2.4)
    most[40] = largest
    made = metrics_log(60, reward=0.5, train__advantages__max=most)
    found = run("advantage_outlier", made).finding
    assert (found and found.severity) == expected
    if found is not None:
        assert (found.steps, found.until) == ((41,), 41)
