"""The verdict on runs whose truth is known: what leads, since when, and when to be quiet."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.lab.curves import CASES
from rlreport.check import run_checks
from rlreport.check.registry import CHECKS
from rlreport.check.run import Run
from rlreport.cli.terminal import short_verdict_lines, verdict_lines
from tests import pseudo
from tests.judged_runs import (
    FAULTY,
    HEALTHY,
    NOT_IN_NULL_RUNS,
    NULL_COLUMNS,
    NULL_CRITIC_COLUMNS,
    null_run,
)
from tests.running import in_ci

SEEDS = (0, *in_ci(1))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gives_no_warning(name: str, seed: int) -> None:
    verdict = run_checks(HEALTHY[name](seed))
    assert [f.title for f in verdict.findings if f.severity != "info"] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTY)
def test_the_cause_leads_and_its_onset_is_right(name, seed, tmp_path, monkeypatch):
    make, lead, (low, high) = FAULTY[name]
    verdict = run_checks(make(seed))
    assert verdict.lead == lead, verdict.sentence
    onset = verdict.findings[0].onset
    assert onset is not None
    assert low <= onset.step <= high
    assert onset.low <= onset.step <= onset.high
    spoken = pseudo.speak(tmp_path, monkeypatch)
    messages = [verdict.sentence, *verdict.not_observed]
    for finding in verdict.findings:
        messages += [finding.title, finding.clause, finding.why]
        messages += [finding.suggestion, finding.source]
    messages += [check.needs for check in verdict.not_run]
    messages += [check.title for check in verdict.close]
    texts = [spoken.of(message) for message in messages]
    assert pseudo.untranslated(texts, {"post"}) == []
    assert pseudo.glued(texts) == []
    for lines in (verdict_lines, short_verdict_lines):
        assert all("⟦" in line for line in lines(verdict, spoken))


@pytest.mark.ci
@pytest.mark.parametrize("name", CASES)
def test_cases_on_which_simple_rules_fail(name: str) -> None:
    wrong = []
    for seed in range(6):
        verdict = run_checks(
            CASES[name].make(np.random.default_rng([seed, *name.encode()]))
        )
        if not CASES[name].accepts(verdict.sentence, verdict.lead):
            wrong.append(verdict.sentence)
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize("runs", (4, *in_ci(100)))
@pytest.mark.untraced
def test_no_check_warns_in_more_than_one_in_a_hundred_null_runs(runs: int) -> None:
    warned: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    for seed in range(runs):
        tables = null_run(seed)
        verdict = run_checks(tables)
        warned.update(f.id for f in verdict.findings if f.severity != "info")
        ran.update([*verdict.passed, *(f.id for f in verdict.findings)])
        run = Run(tables)
        for check in CHECKS:
            if all(need.is_available(run) for need in check.needs):
                expected[check.id] += 1
    assert {check: times for check, times in warned.items() if times > 1} == {}
    # What their needs do not say: groups are judged without a critic, others not at all.
    for check_id in ("zero_variance_groups", "group_std_fall"):
        expected[check_id] = runs // 4
    for check_id in NOT_IN_NULL_RUNS:
        expected[check_id] = 0
    times_run = {check.id: ran[check.id] for check in CHECKS}
    assert times_run == {check.id: expected[check.id] for check in CHECKS}


def test_null_runs_have_what_checks_need_and_three_of_four_have_a_critic() -> None:
    for seed in range(4):
        run = Run(null_run(seed))
        wanted = set(NULL_COLUMNS)
        if seed > 0:
            wanted.update(NULL_CRITIC_COLUMNS)
        assert {column for column in wanted if not run.has(column)} == set()
