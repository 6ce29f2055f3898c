"""A run in which nothing happens gives no warning."""

from __future__ import annotations

from collections import Counter

import pytest

from rlreport.check import run_checks
from rlreport.check.registry import CHECKS
from tests.null_runs import null_run

OF_METRICS = ("gradient_explosion", "no_updates")
OF_AGENTS = (
    *("stale_rollouts", "mismatch_by_turn", "off_policy_weights", "failed_rollouts"),
    *("tool_errors", "tool_disuse", "void_turns", "turn_limit", "unclosed_thinking"),
    "group_std_fall",
)
"""Checks of what these runs do not log: turns, versions, a sampler."""


@pytest.mark.untraced
@pytest.mark.parametrize("runs", [40, pytest.param(200, marks=pytest.mark.ci)])
def test_no_check_warns_in_more_than_one_in_a_hundred_null_runs(runs: int) -> None:
    warned: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for seed in range(runs):
        verdict = run_checks(null_run(seed))
        warned.update(f.id for f in verdict.findings if f.severity != "info")
        ran.update([*verdict.passed, *(f.id for f in verdict.findings)])
    assert {check: times for check, times in warned.items() if times > runs // 100} == {}
    # Groups are judged without a critic, critics with one, no run has parts of its reward.
    sometimes = {"zero_variance_groups": runs // 4, "value_divergence": runs * 3 // 4}
    never = ("reward_part_dominance", "uneven_groups", *OF_METRICS, *OF_AGENTS)
    sometimes |= dict.fromkeys(never, 0)
    expected = {check.id: sometimes.get(check.id, runs) for check in CHECKS}
    assert {check.id: ran[check.id] for check in CHECKS} == expected
