"""The verdict on runs whose truth is known: what leads, since when, and when to be quiet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lab.curves import CASES
from rlreport.check import run_checks
from tests.judged_runs import FAULTY, HEALTHY
from tests.tables_builder import tables_of_logs

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


@pytest.mark.parametrize("name", CASES)
def test_cases_on_which_simple_rules_fail(name: str) -> None:
    wrong = []
    for seed in range(6):
        verdict = run_checks(CASES[name].make(np.random.default_rng([seed, *name.encode()])))
        if not CASES[name].accepts(verdict.sentence, verdict.lead):
            wrong.append(verdict.sentence)
    assert len(wrong) <= 1, wrong


TRUTHS = Path(__file__).parent / "data" / "truths.json"


@pytest.mark.parametrize("name", json.loads(TRUTHS.read_text(encoding="utf-8")))
def test_real_runs_are_judged_as_their_truth_says(name: str, shared_data: Path) -> None:
    truth = json.loads(TRUTHS.read_text(encoding="utf-8"))[name]
    verdict = run_checks(tables_of_logs(shared_data / name))
    found = {f.id for f in verdict.findings}
    alarms = {f.id for f in verdict.findings if f.severity != "info"}
    assert set(truth["expected"]) <= found
    assert not alarms & set(truth["not_expected"])
    assert verdict.lead in (truth["lead"] or [None])
    if truth["onset"]:
        onset = verdict.findings[0].onset
        assert onset is not None
        assert truth["onset"][0] <= onset.step <= truth["onset"][1]
