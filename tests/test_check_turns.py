"""Checks of turns, tools and asynchronous sampling: quiet on healthy runs, right on faulty ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlreport.check.finding import NotRun
from rlreport.tables import Tables
from tests.check_cases import INDEX, SIGN, STEP, find, moved, run, severity, share, tables, title
from tests.judged_runs import texts_of
from tests.tables_builder import make_tables

SHARES = {
    "tool_errors": lambda first, last: tables(
        tool_calls=1.0, tool_errors=share(first, last), turns=2.0
    ),
    "turn_limit": lambda first, last: tables(at_turn_limit=share(first, last)),
    "unclosed_thinking": lambda first, last: tables(unclosed_thinking=share(first, last)),
}


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize(
    ("first", "last", "warned"),
    [(0.0, 0.2, True), (0.0, 0.19, False), (0.4, 0.5, False), (0.51, 0.51, True)],
)
def test_a_share_that_rose_by_twenty_points_or_is_over_half(
    name: str, first: float, last: float, warned: bool
) -> None:
    assert severity(name, SHARES[name](first, last)) == ("warning" if warned else None)


@pytest.mark.parametrize(
    ("name", "columns", "limit"),
    [
        ("void_turns", lambda x: {"turns": 1.0, "void_turns": share(0.0, x)}, 0.1),
        ("stale_rollouts", lambda x: {"lag": moved(0, 8 * x)}, 1.0),
    ],
)
def test_limits_are_met_only_beyond(name: str, columns: Any, limit: float) -> None:
    assert severity(name, tables(**columns(limit))) is None
    assert severity(name, tables(**columns(limit * 1.1))) == "warning"


def test_sequence_weights_are_those_of_numpy() -> None:
    spread = np.where(STEP < 32, 0.1, 1.5) * SIGN
    found = find("off_policy_weights", tables(log_weight=spread))
    weight = np.exp(np.array([1.5, -1.5]))
    assert found.facts["mean"] == pytest.approx(weight.mean())
    assert found.facts["ess"] == pytest.approx(weight.mean() ** 2 / (weight**2).mean())
    assert found.facts["chi2"] == pytest.approx((weight**2).mean() - 1)
    assert found.facts["std"] == pytest.approx(weight.std())
    assert "2.35" in title(found)


def test_calls_that_fall_are_disuse_whatever_the_reward_does() -> None:
    calls = moved(2, 0) + 0.1 * SIGN
    for reward in (SIGN, moved(0, 1) + 0.1 * SIGN, moved(1, 0) + 0.1 * SIGN):
        assert severity("tool_disuse", tables(tool_calls=calls, reward=reward)) == "warning"
    assert severity("tool_disuse", tables(tool_calls=moved(0.1, 0) + 0.01 * SIGN)) is None


def test_failed_rollouts_are_judged_by_step() -> None:
    given = tables()
    assert isinstance(run("failed_rollouts", given), NotRun)
    steps = given.steps
    steps["failed_rollouts"] = np.where(steps["step"] < 30, 1, 100)
    found = find("failed_rollouts", given)
    assert found.facts["share"] == pytest.approx(0.5)
    assert found.onset and found.onset.step == 30
    steps["failed_rollouts"] = 5
    assert run("failed_rollouts", given) is None


def test_templates_are_found_while_surprisal_stays() -> None:
    rng = np.random.default_rng(0)
    prompt = (INDEX // 10) + 10 * (STEP % 3)
    columns = {"step": STEP, "prompt_id": prompt, "reward": SIGN, "surprisal_mean": 0.6 + 0 * SIGN}

    def made(last: float, **more: Any) -> Tables:
        link = np.where(STEP < 20, 0.4, last)
        texts = texts_of(rng, STEP, prompt, link)
        return make_tables({**columns, **more}, texts=texts)

    found = find("template_collapse", made(0.0))
    assert found.onset and found.onset.step in (19, 20, 21)
    assert severity("template_collapse", made(0.4)) is None
    gone = np.where(STEP < 20, 0.6, 0.1)
    assert severity("template_collapse", made(0.0, surprisal_mean=gone)) is None


def test_the_std_inside_groups_is_held_against_the_first_ten_steps() -> None:
    def made(last: float, drift: float = 0.0) -> Tables:
        prompt = INDEX // 10
        given = tables(prompt_id=prompt, reward=SIGN + drift * STEP)
        given.steps["group_std_mean"] = np.where(given.steps["step"] < 30, 1.0, last)
        return given

    assert severity("group_std_fall", made(0.09)) == "warning"
    assert severity("group_std_fall", made(0.11)) is None
    assert severity("group_std_fall", made(0.09, drift=0.1)) == "info"
