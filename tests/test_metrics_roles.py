"""Checks of rollout figures judge the metrics of each framework, if a run has no rollouts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlreport.check.verdict import Verdict
from rlreport.flows.build import check_logs
from rlreport.metrics.roles import (
    PLAIN_NAMES,
    ROLES,
    Key,
    has_role,
    known_keys,
    roles_of,
)
from rlreport.options import BuildOptions
from tests.reading import write

STEPS = 60
START = 35

# Role -> its value in a healthy run, in the unit of the role
AT_REST = {
    "reward": 0.2,
    "reward_std": 0.3,
    "validation": 0.3,
    "kl": 0.5,
    "kl_token": 0.002,
    "entropy": 0.5,
    "entropy_response": 20.0,
    "loss": 0.01,
    "grad_norm": 0.4,
    "clip_fraction": 0.01,
    "length": 300.0,
    "length_max": 400.0,
    "truncated": 0.05,
    "learning_rate": 1e-6,
    "ratio": 1.0,
    "explained_variance": 0.5,
    "mismatch_k3": 3e-4,
    "mismatch_lagged": 2e-3,
    "mismatch_prob": 0.003,
    "mismatch_ratio": 1.015,
    "ess": 0.95,
    "zero_variance": 0.3,
    "loops": 0.01,
    "failed": 0.02,
    "dropped": 0.3,
    "turns": 3.0,
    "turn_limit": 0.1,
    "tool_calls": 2.0,
    "tool_errors": 0.1,
    "lag": 1.5,
}

# Role -> its value since step START, and the check that finds it
PLANTED = {
    "truncated": (0.7, "missing_eos"),
    "mismatch_k3": (0.01, "engine_mismatch"),
    "mismatch_lagged": (0.05, "engine_mismatch"),
    "mismatch_prob": (0.05, "engine_mismatch"),
    "mismatch_ratio": (1.3, "engine_mismatch"),
    "ess": (0.1, "off_policy_weights"),
    "zero_variance": (0.8, "zero_variance_groups"),
    "failed": (0.7, "failed_rollouts"),
    "dropped": (0.7, "dropped_groups"),
    "turn_limit": (0.7, "turn_limit"),
    "tool_calls": (0.1, "tool_disuse"),
    "tool_errors": (0.7, "tool_errors"),
    "lag": (20.0, "stale_rollouts"),
}

# Role -> what the sentence then says
SAID = {
    "mismatch_k3": "sampler and trainer disagree (k3 0.010 nats per token)",
    "mismatch_prob": "sampler and trainer disagree",
    "zero_variance": "80% of groups give no learning signal",
    "ess": "importance weights vary widely",
}

# Unit of a key -> the value that a trainer logs for a value in the unit of the role
LOGGED: dict[str, Callable[[float], float]] = {
    "share without": lambda value: 1 - value,
    "percent without": lambda value: 100 * (1 - value),
    "abs log-ratio": np.log,
}


def _judge(
    tmp_path: Path, keys: list[Key], *, learns: bool, planted: str = ""
) -> Verdict:
    """Judge the metrics ``keys`` of a run whose reward rises if it ``learns``."""
    rng = np.random.default_rng(1)
    lines = []
    for step in range(STEPS):
        line: dict[str, float] = {"step": step}
        for key in keys:
            value = AT_REST[key.role]
            if key.role in ("reward", "validation") and learns:
                value += 0.5 * step / STEPS
            if key.role == planted and step >= START:
                value = PLANTED[planted][0]
            value *= 1 + 0.004 * rng.normal()
            name = key.key.replace("*", "math")
            line[name] = float(LOGGED.get(key.unit, float)(value))
        lines.append(line)
    path = write(tmp_path / "metrics.jsonl", lines)
    return check_logs([path], BuildOptions(workers=1))


FRAMEWORKS = sorted({key.framework for key in known_keys()})


def _keys(framework: str) -> list[Key]:
    return [key for key in known_keys() if key.framework == framework]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_run_at_rest_is_quiet(framework: str, tmp_path: Path) -> None:
    verdict = _judge(tmp_path, _keys(framework), learns=True)
    assert verdict.level == "healthy" and verdict.findings == []
    roles = {key.role for key in _keys(framework)}
    judged = {PLANTED[role][1] for role in roles & PLANTED.keys()}
    quiet = {*verdict.passed, *(one.id for one in verdict.close)}
    assert judged - quiet == set()


OF_A_ROLE = {
    (key.role, key.unit): (key.framework, key.role)
    for key in known_keys()
    if key.role in PLANTED
}
"""Role and unit of a key to a framework that logs one."""


@pytest.mark.parametrize(("framework", "role"), sorted(set(OF_A_ROLE.values())))
def test_what_begins_in_a_metric_is_found_from_its_step_on(framework, role, tmp_path):
    verdict = _judge(tmp_path, _keys(framework), learns=False, planted=role)
    finding = next(f for f in verdict.findings if f.id == PLANTED[role][1])
    assert finding.severity == "warning" and finding.facts["series_from"] == "metrics"
    assert (
        finding.onset is not None
        and finding.onset.low <= START <= finding.onset.high + 1
    )
    assert verdict.level == "warning" and verdict.lead == finding.id
    assert SAID.get(role, "") in verdict.sentence


def test_silent_groups_of_a_run_that_learns_or_is_solved_are_a_note(
    tmp_path: Path,
) -> None:
    keys = [
        key for key in _keys("TRL") if key.key in ("reward", "frac_reward_zero_std")
    ]
    verdict = _judge(tmp_path, keys, learns=True, planted="zero_variance")
    assert [(f.id, f.severity, f.rank) for f in verdict.findings] == [
        ("zero_variance_groups", "info", "note")
    ]
    assert verdict.level == "healthy"


def test_four_values_are_judged_by_limits_alone(tmp_path: Path) -> None:
    rows = [{"step": s, "reward": 0.2 + s / 50} for s in range(20)]
    for row in rows[-4:]:
        row |= {
            "tools/failure_frequency": 0.9,
            "frac_reward_zero_std": 0.9,
            "off_policy/mean": 30,
        }
    path = write(tmp_path / "metrics.jsonl", rows)
    verdict = check_logs([path], BuildOptions(workers=1))
    found = {finding.id for finding in verdict.findings}
    assert found == {"tool_errors", "zero_variance_groups", "stale_rollouts"}


def test_a_metric_has_the_roles_that_it_has_alone():
    names = {
        *PLAIN_NAMES.values(),
        "ppo_kl",
        "train/kl",
        "step",
        "kl_k1",
        "actor/kl_loss",
    }
    names |= {key.key for key in known_keys()}
    for name in names:
        alone = roles_of([name])
        assert {role for role in ROLES if has_role(name, role)} == alone.keys(), name


@pytest.mark.parametrize(
    "name",
    [
        "eval_answer_rate",
        "val/win_rate",
        "test_solved_rate",
        "eval/exact_match",
        "eval_em",
        "val/qa_f1",
    ],
)
def test_rates_of_an_evaluation_are_validation(name: str) -> None:
    assert roles_of([name, "reward_mean", "eval_format_rate", "eval_answer_len"]) == {
        "validation": name,
        "reward": "reward_mean",
    }
