"""Checks of logged advantages and of responses that the trainer dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import NotRun
from rlreport.read.notes import Missing, dropped_rows
from rlreport.tables import Tables
from tests.reading import read, row, write
from tests.tables_builder import INDEX, STEP, STEPS, find, run, severity, tables, title

GROUP = STEP * 25 + INDEX // 4
"""25 groups of four in each step."""
RNG = np.random.default_rng(1)
EASE = RNG.uniform(0.1, 0.9, GROUP.max() + 1)[GROUP]
LATE = STEP >= 20


def graded(rise: float = 0.0) -> Any:
    """Return rewards of 0 and 1 whose mean rises by so much over the run."""
    chance = np.clip(EASE + rise * (STEP / STEPS - 0.5), 0, 1)
    return (np.random.default_rng(2).random(len(STEP)) < chance).astype(float)


REWARD = graded()
GROUPED = pd.Series(REWARD).groupby(GROUP)
CENTRED = REWARD - GROUPED.transform("mean").to_numpy()
STD = GROUPED.transform("std").to_numpy()
GRPO = CENTRED / (STD + 1e-4)
BY_STEP = pd.Series(REWARD).groupby(STEP)
BATCH = (REWARD - BY_STEP.transform("mean").to_numpy()) / BY_STEP.transform("std").to_numpy()


def advantages(logged: Any, **columns: Any) -> Tables:
    columns = {"reward": REWARD, "group": GROUP, "prompt_id": GROUP, **columns}
    return tables(advantage_logged_mean=logged, **columns)


KL = RNG.gamma(2.0, 1.0, len(STEP)) * STEP / STEPS


@pytest.mark.parametrize(
    "logged",
    [
        *(GRPO, CENTRED, CENTRED / (STD * np.sqrt(3 / 4) + 1e-8), CENTRED * 4 / 3, BATCH, REWARD),
        *(np.clip(GRPO, -0.7, 1.2), GRPO * np.where(GRPO < 0, 0.3, 1.0)),
        *(GRPO * np.where(LATE, 3.0, 1.0), GRPO - 0.5 * KL, RNG.normal(size=len(STEP))),
        GRPO.round(3),
    ],
)
def test_what_trainers_do_to_advantages_is_no_mismatch(logged: Any) -> None:
    assert severity("advantage_mismatch", advantages(logged)) is None


FAR = GRPO.copy()
FAR[2500] = -120.0
FAULTS = {
    "sign": -GRPO,
    "other": np.roll(GRPO, 1),
    "own": np.random.default_rng(4).permutation(GRPO),
    "offset": GRPO + 0.5,
}


@pytest.mark.parametrize("kind", FAULTS)
def test_advantages_that_come_apart_from_rewards_are_found_and_dated(kind: str) -> None:
    found = find("advantage_mismatch", advantages(np.where(LATE, FAULTS[kind], GRPO)))
    assert (found.facts["kind"], found.onset and found.onset.step) == (kind, 20)
    assert found.severity == ("critical" if kind in ("sign", "other") else "warning")
    assert [example.step >= 20 for example in found.evidence] == [True] * 3


def test_neighbours_are_also_those_of_the_group() -> None:
    shifted = np.roll(GRPO.reshape(-1, 4), 1, axis=1).ravel()
    assert find("advantage_mismatch", advantages(shifted)).facts["kind"] == "other"


def test_a_baseline_that_is_missing_is_found_where_groups_were_centred_before() -> None:
    found = find("advantage_mismatch", advantages(np.where(LATE, REWARD, CENTRED)))
    assert (found.facts["kind"], found.onset and found.onset.step) == ("offset", 20)


def test_an_advantage_far_from_all_others_is_found_unless_its_reward_is_as_far() -> None:
    found = find("advantage_mismatch", advantages(FAR))
    assert (found.severity, found.onset and found.onset.step) == ("warning", 25)
    assert found.evidence[0].value == pytest.approx(120, rel=0.02)
    assert "−120" not in title(found)
    assert "120" in title(found)
    reward = np.where(np.arange(len(STEP)) == 2500, 500.0, REWARD)
    centred = reward - pd.Series(reward).groupby(GROUP).transform("mean").to_numpy()
    assert severity("advantage_mismatch", advantages(centred, reward=reward)) is None


def test_a_wrong_sign_from_the_start_is_a_note_in_a_run_that_learns() -> None:
    assert severity("advantage_mismatch", advantages(-GRPO)) == "critical"
    reward = graded(0.6)
    centred = reward - pd.Series(reward).groupby(GROUP).transform("mean").to_numpy()
    assert severity("advantage_mismatch", advantages(-centred, reward=reward)) == "info"


def test_advantages_of_a_critic_are_not_judged() -> None:
    for column in ("value_mean", "rlhf_reward"):
        assert isinstance(run("advantage_mismatch", advantages(-GRPO, **{column: 0.5})), NotRun)


def dropping(reward: Any, dropped: Any) -> Tables:
    return tables(reward=reward, group=GROUP, prompt_id=GROUP, dropped=dropped.astype(float))


LUCK = np.random.default_rng(5).random(len(STEP))


def test_a_mean_that_rises_only_among_kept_responses_is_found() -> None:
    falls = graded(-0.3)
    found = find("dropped_groups", dropping(falls, LATE & (falls == 0) & (LUCK < 0.8)))
    assert (found.severity, found.facts["kind"]) == ("warning", "hidden")
    assert found.onset and found.onset.step == 20
    assert [(one.step >= 20, one.value) for one in found.evidence] == [(True, 0.0)] * 3
    assert severity("dropped_groups", dropping(falls, LATE & (LUCK < 0.4))) is None


@pytest.mark.parametrize(
    ("first", "last", "rise", "expected"),
    [
        (0.2, 0.7, 0.0, "warning"),
        (0.2, 0.7, 0.6, "info"),
        (0.6, 0.6, 0.0, None),
        (0.2, 0.45, 0.0, None),
    ],
)
def test_dropping_more_than_half_is_found_if_it_was_less(first, last, rise, expected) -> None:
    dropped = np.where(LATE, last, first) > LUCK
    assert severity("dropped_groups", dropping(graded(rise), dropped)) == expected


def test_dropping_groups_without_variance_is_no_problem() -> None:
    for rise in (-0.3, 0.0, 0.3):
        reward = graded(rise)
        equal = pd.Series(reward).groupby(GROUP).transform("std").to_numpy() == 0
        assert severity("dropped_groups", dropping(reward, equal)) is None


def test_marks_say_what_was_dropped() -> None:
    kinds = np.array([0, 0, Missing.MASKED, 0])
    extras = pd.DataFrame({"effective": [1.0, 0.0, 1.0, np.nan], "removed": [0.0, 7.0, 0.0, 0.0]})
    assert dropped_rows(kinds, extras).tolist() == [0, 1, 1, 0]
    assert np.isnan(dropped_rows(kinds * 0, extras[["removed"]])).all()


def test_advantages_and_marks_are_read(tmp_path: Path) -> None:
    rows = [
        row(0, advantages=0.5, is_filtered=False),
        row(0, response="", response_tokens=["a", "b"], advantages=-0.5, mask_sample=True),
        row(0, response_tokens=["a", "b"], advantages=[0.5, 0.7]),
    ]
    responses = read(write(tmp_path / "rank_0.jsonl", rows)).responses
    names = ["advantage_logged_mean", "dropped", "masked_reward"]
    expected = [[0.5, 0, np.nan], [-0.5, 1, 1.0], [np.nan, 0, np.nan]]
    np.testing.assert_array_equal(responses[names], expected)


def test_figures_of_a_step() -> None:
    made = dropping(REWARD, INDEX % 2 == 1)
    steps = advantages(CENTRED, dropped=(INDEX % 2).astype(float)).steps
    assert steps["advantage_fit"].to_numpy() == pytest.approx(1.0)
    assert made.steps["dropped_share"].to_numpy() == pytest.approx(0.5)
    kept = pd.Series(REWARD[INDEX % 2 == 0]).groupby(STEP[INDEX % 2 == 0]).mean()
    assert made.steps["kept_reward_mean"].to_numpy() == pytest.approx(kept.to_numpy())
    assert isinstance(run("dropped_groups", tables()), NotRun)
