"""The verdict on real runs, its order and its serialised form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlreport.check import findings_json, run_checks
from rlreport.check.finding import SEVERITIES, Verdict
from rlreport.check.registry import CHECKS
from tests.check_cases import INDEX, SIGN, STEP, moved, tables
from tests.tables_builder import make_tables, tables_of_logs

REAL_RUNS = ("ppo_healthy", "ppo_reward_hacking", "grpo_math", "eval_poem_task")


@pytest.fixture(scope="module")
def verdicts(shared_data: Path) -> dict[str, Verdict]:
    return {name: run_checks(tables_of_logs(shared_data / name)) for name in REAL_RUNS}


def _alarms(verdict: Verdict) -> dict[str, str]:
    return {f.id: f.severity for f in verdict.findings if f.severity != "info"}


def test_the_healthy_run_is_healthy(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["ppo_healthy"]
    assert verdict.sentence.startswith("Healthy: reward ")
    assert _alarms(verdict) == {}
    assert len(verdict.passed) >= 14


def test_the_run_gone_wrong_is_told_by_its_true_causes(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["ppo_reward_hacking"]
    assert verdict.sentence.startswith("Broken: KL to the reference")
    assert _alarms(verdict) == {
        "kl_explosion": "critical",
        "reward_hacking_token": "warning",
        "missing_eos": "warning",
    }
    hacking = next(f for f in verdict.findings if f.id == "reward_hacking_token")
    assert hacking.ngrams[0] == "🎉"
    assert len(hacking.responses) == 5


def test_groups_without_variance_are_found(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["grpo_math"]
    assert verdict.sentence.startswith("Look at this: ")
    assert _alarms(verdict) == {"zero_variance_groups": "warning"}


def test_a_log_of_text_and_reward_names_what_it_could_not_check(
    verdicts: dict[str, Verdict],
) -> None:
    verdict = verdicts["eval_poem_task"]
    assert _alarms(verdict) == {}
    needs = {check.id: check.needs for check in verdict.not_run}
    assert needs["kl_explosion"] == "logprobs and ref_logprobs"
    assert needs["entropy_collapse"] == "logprobs"
    assert "end-of-sequence" in needs["missing_eos"]


def test_every_check_is_accounted_for_once(verdicts: dict[str, Verdict]) -> None:
    for verdict in verdicts.values():
        told = [f.id for f in verdict.findings] + verdict.passed + [n.id for n in verdict.not_run]
        assert sorted(told) == sorted(check.id for check in CHECKS)
        order = [SEVERITIES.index(f.severity) for f in verdict.findings]
        assert order == sorted(order)
        assert "!" not in verdict.sentence
        assert f"{len(verdict.not_run)} could not" in verdict.sentence


def test_findings_explain_themselves_and_name_responses_that_exist(
    verdicts: dict[str, Verdict], shared_data: Path
) -> None:
    for name, verdict in verdicts.items():
        known = tables_of_logs(shared_data / name).responses
        names = set(zip(known["step"].tolist(), known["n"].tolist(), strict=True))
        for finding in verdict.findings:
            assert finding.why and finding.suggestion and finding.source and finding.title
            assert "\n" not in finding.title
            assert set(finding.steps) <= set(known["step"])
            assert list(finding.steps) == sorted(set(finding.steps))
            assert {(r.step, r.n) for r in finding.responses} <= names
            assert len(finding.responses) <= 5


def test_findings_json_has_the_documented_keys(verdicts: dict[str, Verdict]) -> None:
    found = findings_json(verdicts["ppo_reward_hacking"])
    assert list(found) == ["verdict", "findings", "passed", "not_run"]
    assert list(found["findings"][0]) == [
        *("id", "severity", "title", "steps", "responses", "why", "try", "source"),
    ]
    assert {"step", "n", "token"} == set(found["findings"][0]["responses"][0])
    assert {"id", "needs"} == set(found["not_run"][0])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_same_tables_give_the_same_verdict(shared_data: Path) -> None:
    first, second = (run_checks(tables_of_logs(shared_data / "grpo_math")) for _ in range(2))
    assert findings_json(first) == findings_json(second)


def test_checks_judge_only_the_steps_before_the_first_nan() -> None:
    bad = (STEP >= 20) & (INDEX == 0)
    kl = np.where(STEP < 20, 1.0, 900.0)
    verdict = run_checks(tables(reward=np.where(bad, np.nan, SIGN), kl_k1=kl, nan_values=bad))
    assert verdict.findings[0].id == "nan_metrics"
    assert "kl_explosion" in verdict.passed
    assert verdict.sentence.startswith("Broken: NaN")


def test_a_nan_in_the_first_step_leaves_nothing_to_judge() -> None:
    verdict = run_checks(tables(reward=np.nan, nan_values=1))
    assert [f.id for f in verdict.findings] == ["nan_metrics"]
    assert verdict.passed == ["broken_log"]
    assert len(verdict.not_run) == len(CHECKS) - 2


def test_notes_leave_a_run_healthy() -> None:
    verdict = run_checks(tables(reward=SIGN))
    assert [f.severity for f in verdict.findings] == ["info"]
    assert verdict.level == "info"
    assert verdict.sentence.startswith("Healthy: ")
    assert "reward_stalled" in verdict.sentence


def test_a_single_step_is_judged_by_what_needs_no_trend() -> None:
    one = make_tables({"step": np.zeros(64), "reward": np.ones(64), "kl_k1": np.ones(64)})
    verdict = run_checks(one)
    assert "kl_explosion" in verdict.passed
    assert any("too short to judge" in check.needs for check in verdict.not_run)


def test_an_empty_run_raises_nothing() -> None:
    empty = make_tables({"step": np.zeros(0, dtype=int), "reward": np.zeros(0)})
    assert run_checks(empty).level == "healthy"


def test_a_warning_asks_for_a_look_and_lists_the_others() -> None:
    verdict = run_checks(
        tables(reward=STEP / 40 + SIGN, kl_k1=moved(1, 20), response_tokens=moved(50, 10))
    )
    assert verdict.level == "warning"
    assert verdict.sentence.startswith("Look at this: KL")
    assert "also length_collapse" in verdict.sentence
