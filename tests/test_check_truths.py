"""The verdict on runs whose truth is known: what leads, since when, and when to be quiet."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lab.curves import CASES
from rlreport.check import run_checks
from tests.judged_runs import AGENT_FAULTS, FAULTY, HEALTHY

SEEDS = (0, pytest.param(1, marks=pytest.mark.ci))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gives_no_warning(name: str, seed: int) -> None:
    verdict = run_checks(HEALTHY[name](seed))
    assert [f.title for f in verdict.findings if f.severity != "info"] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTY)
def test_the_cause_leads_and_its_onset_is_right(name: str, seed: int) -> None:
    make, lead, (low, high) = FAULTY[name]
    verdict = run_checks(make(seed))
    assert verdict.lead == lead, verdict.sentence
    onset = verdict.findings[0].onset
    assert onset is not None
    assert low <= onset.step <= high
    assert onset.low <= onset.step <= onset.high
    if name in AGENT_FAULTS:
        assert {f.id for f in verdict.findings if f.severity != "info"} == {lead}


@pytest.mark.parametrize("name", CASES)
def test_cases_on_which_simple_rules_fail(name: str) -> None:
    wrong = []
    for seed in range(6):
        verdict = run_checks(CASES[name].make(np.random.default_rng([seed, *name.encode()])))
        if not CASES[name].accepts(verdict.sentence, verdict.lead):
            wrong.append(verdict.sentence)
    assert len(wrong) <= 1, wrong
