"""Every check of a run ends in exactly one outcome: found, close, passed, not run or muted."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.registry import CHECKS
from rlreport.check.verdict import Verdict
from rlreport.summarise.run import summarise
from rlreport.tables import Tables
from tests.judged_runs import FAULTY, HEALTHY, null_run
from tests.law_cases import CASES
from tests.law_families import random_shape
from tests.reading import read
from tests.tables_builder import INDEX, STEP, moved, tables

REAL_RUNS = ("ppo_healthy", "ppo_reward_hacking", "grpo_math", "eval_poem_task")


def outcomes(verdict: Verdict) -> Counter[str]:
    """Return in how many outcomes each check is."""
    found = [finding.id for finding in verdict.findings]
    close = [one.id for one in verdict.close]
    not_run = [check.id for check in verdict.not_run]
    muted = [one.finding.id for one in verdict.muted]
    return Counter([*found, *close, *verdict.passed, *not_run, *muted])


def assert_one_each(judged: Tables, **options: Any) -> Verdict:
    """Assert that each check of the verdict has one outcome, and return the verdict."""
    verdict = run_checks(judged, **options)
    assert outcomes(verdict) == Counter(check.id for check in CHECKS)
    return verdict


@pytest.mark.parametrize("name", REAL_RUNS)
def test_checks_of_real_runs_have_one_outcome_each(
    name: str, shared_data: Path
) -> None:
    assert_one_each(summarise(read(shared_data / name)))


@pytest.mark.parametrize("name", [*HEALTHY, *FAULTY])
def test_checks_of_made_up_runs_have_one_outcome_each(name: str) -> None:
    make = HEALTHY[name] if name in HEALTHY else FAULTY[name][0]
    assert_one_each(make(1))


@pytest.mark.parametrize("seed", range(3))
def test_checks_of_runs_without_trend_have_one_outcome_each(seed: int) -> None:
    assert_one_each(null_run(seed))


@pytest.mark.ci
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_checks_of_logs_with_a_fault_have_one_outcome_each(case) -> None:
    random = np.random.default_rng(0)
    assert_one_each(case.make(random, random_shape(random), 1.0))


# A KL far above its limit from the second step on: the run is broken within its first window
BROKEN_AT_ONCE = {
    "kl_k1": np.where(STEP > 0, 60.0 + INDEX % 3, 0.0),
    "response_tokens": 10.0 + INDEX,
}


def test_what_is_close_to_a_limit_is_named_also_if_the_run_broke_at_once() -> None:
    cut_off = {
        "finished": np.where(INDEX % 5 < 2, 0.0, 1.0),
        "response_tokens": np.where(INDEX % 5 < 2, 512.0, 10.0 + INDEX),
    }
    verdict = assert_one_each(tables(**BROKEN_AT_ONCE | cut_off))
    assert verdict.lead == "kl_explosion"
    onset = verdict.findings[0].onset
    assert onset is not None and onset.step <= 1
    assert "missing_eos" in [one.id for one in verdict.close]


@pytest.mark.parametrize("size", [1.5, 2.5, 5.0])
def test_an_entropy_that_rises_at_once_ends_in_one_outcome(size: float) -> None:
    entropy = moved(0.9, 0.9 * size)
    assert_one_each(tables(**BROKEN_AT_ONCE, surprisal_mean=entropy))


def test_what_is_muted_has_no_other_outcome() -> None:
    muted = {"kl_explosion": "known", "missing_eos": "not found"}
    verdict = assert_one_each(tables(**BROKEN_AT_ONCE), muted=muted)
    assert [one.finding.id for one in verdict.muted] == ["kl_explosion"]
