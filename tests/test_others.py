"""The comparison with other tools: what their adapters give them, and how it is counted."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks.others import __main__ as others
from benchmarks.others import logs, rl_doctor, rolloutscope, runmedic
from benchmarks.others.count import count, faulty_cell, healthy_cell
from benchmarks.others.laboratory import FAMILIES, HEALTHY, draw
from benchmarks.others.ours import KINDS
from benchmarks.others.runs import (
    KL,
    LENGTH,
    METRICS,
    OTHER,
    PLATEAU,
    REWARD,
    LabelledRun,
    Said,
    write_metrics,
)
from rlreport.check.registry import CHECKS
from tests.conftest import ROOT
from tests.tables_builder import make_tables


def run_of(kinds=(), onset=None, **metrics):
    table = pd.DataFrame({"step": [1, 2], **metrics})
    return LabelledRun("a_run", "a row", frozenset(kinds), onset, table)


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_metrics_of_responses_are_means_under_the_names_of_trl():
    tables = make_tables(
        {
            "step": [1, 1, 2, 2],
            "prompt_id": [0, 0, 1, 1],
            "reward": [0.0, 1.0, 1.0, 1.0],
            "kl_k3": [4.0, 8.0, 1.0, 3.0],
            "response_tokens": [10, 30, 5, 5],
            "surprisal_mean": [0.5, 0.7, 0.2, 0.2],
            "finished": [1.0, 0.0, 1.0, 1.0],
        }
    )
    metrics = logs.metrics_of(tables.steps)
    assert set(metrics) <= {"step", *METRICS}
    assert metrics["step"].tolist() == [1, 2]
    assert metrics["reward"].tolist() == [0.5, 1.0]
    assert metrics["kl"].tolist() == pytest.approx([6 / 20, 2 / 5])
    assert metrics["completions/mean_length"].tolist() == [20, 5]
    assert metrics["completions/clipped_ratio"].tolist() == [0.5, 0.0]
    steps = tables.steps.set_index("step")
    assert metrics["entropy"].tolist() == steps["surprisal_mean"].tolist()
    assert "grad_norm" not in metrics


@pytest.mark.parametrize(
    ("expected", "forbidden", "kinds"),
    [
        (["kl_explosion"], [], {KL}),
        ([], ["reward_collapse"], set()),
        ([], [], None),  # a fall may be named: prompts become harder
        (["label_lost"], [], None),  # a fault of no kind that is compared
    ],
)
def test_a_run_is_taken_if_its_truth_is_beyond_doubt(
    expected, forbidden, kinds, tmp_path, monkeypatch
):
    monkeypatch.setattr(logs, "read", lambda folder: make_tables({"step": [1, 2]}))
    truth = {"expected": expected, "not_expected": forbidden, "onset": [3, 4]}
    folder = tmp_path / "made" / "a_run"
    folder.mkdir(parents=True)
    (folder / "truth.json").write_text(json.dumps(truth), "utf-8")
    runs = list(logs.labelled_logs([folder.parent]))
    if kinds is None:
        assert not runs
    else:
        (run,) = runs
        assert run.kinds == kinds
        assert run.onset == (3, 4)
        assert run.group == f"made: {'faulty' if kinds else 'healthy'}"


def test_values_that_are_missing_are_not_written(tmp_path):
    run = run_of(reward=[0.5, np.nan], kl=[np.inf, 0.1])
    write_metrics(run, tmp_path / "a.jsonl")
    assert lines_of(tmp_path / "a.jsonl") == [
        {"step": 1, "reward": 0.5},
        {"step": 2, "kl": 0.1},
    ]


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Packages with the commands of the tools, which report what they are given."""
    packages = tmp_path / "packages"
    for name, text in STAND_INS.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return sys.executable


STAND_INS = {
    "rl_doctor/__init__.py": "",
    "rl_doctor/cli.py": """
import json, sys
def main():
    assert sys.argv[1] == "diagnose" and sys.argv[3:] == ["--format", "json"]
    names = sorted(json.loads(open(sys.argv[2]).readline()))
    evidence = ["drop at step 12", "best at step 7, 30 steps ago"]
    print(json.dumps({"findings": [
        {"detector": "kl_drift", "severity": "WARNING", "summary": str(names),
         "evidence": evidence},
        {"detector": "plateau", "severity": "OK", "summary": "", "evidence": []},
        {"detector": "clip_saturation", "severity": "INFO", "summary": "", "evidence": []},
    ]}))
""",
    "runmedic/__init__.py": "",
    "runmedic/__main__.py": """
import json, pathlib, sys
reports = []
for path in sorted(pathlib.Path(sys.argv[2]).glob("*.jsonl")):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    reports.append({"run": path.stem, "findings": [
        {"check": "divergence", "severity": "critical", "step": 9, "title": str(rows)},
        {"check": "slowdown", "severity": "info", "step": None},
    ]})
print(json.dumps(reports if len(reports) > 1 else reports[0]))
""",
    "rolloutscope/__init__.py": "",
    "rolloutscope/cli.py": """
import json, pathlib, sys
def app():
    steps = sorted(path.parent.name for path in pathlib.Path(sys.argv[2]).glob("*/*.jsonl"))
    found = [{"detector": "length_inflation", "severity": "warning"}] if steps else []
    pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(
        json.dumps({"findings": found}))
""",
}


def test_rl_doctor_gets_the_metrics_as_they_are_and_names_steps_in_words(
    stand_ins, tmp_path
):
    run = run_of(reward=[0.1, 0.2], grad_norm=[1.0, 2.0])
    ((drift, clip),) = rl_doctor.judge_metrics(stand_ins, [run], tmp_path)
    assert drift == Said("kl_drift", True, frozenset([KL]), (7.0, 12.0))
    assert clip == Said("clip_saturation", False, frozenset([OTHER]), ())
    (first, _) = lines_of(tmp_path / "a_run.jsonl")
    assert first == {"step": 1, "reward": 0.1, "grad_norm": 1.0}


def test_runmedic_gets_the_negated_reward_as_the_loss(stand_ins, tmp_path):
    run = run_of(
        reward=[0.1, 0.2],
        grad_norm=[1.0, 2.0],
        entropy=[1.0, 1.0],
    )
    ((fall, slow),) = runmedic.judge_metrics(stand_ins, [run], tmp_path)
    assert fall == Said("divergence", True, frozenset([REWARD]), (9.0,))
    assert slow == Said("slowdown", False, frozenset([OTHER]), ())
    (first, _) = lines_of(tmp_path / "a_run.jsonl")
    assert first == {"step": 1, "grad_norm": 1.0, "loss": -0.1}


def test_rolloutscope_gets_responses_as_prime_rl_writes_them(stand_ins, tmp_path):
    written = tmp_path / "logs"
    written.mkdir()
    row = {"step": 3, "prompt": "2+2?", "response": "4", "reward": 1.0, "group_id": 5}
    (written / "rank_0.jsonl").write_text(json.dumps(row), "utf-8")
    run = LabelledRun("a_run", "a row", frozenset(), None, pd.DataFrame(), written)
    ((said,),) = rolloutscope.judge_rollouts(stand_ins, [run], tmp_path)
    assert said.is_warning
    assert LENGTH in said.kinds
    (rollout,) = lines_of(tmp_path / "a_run" / "step_3" / "train_rollouts.jsonl")
    assert rollout == {
        "example_id": "5",
        "prompt": [{"role": "user", "content": "2+2?"}],
        "completion": [{"role": "assistant", "content": "4"}],
        "reward": 1.0,
        "metrics": {},
    }
    assert rolloutscope.as_rollout({**row, "ground_truth": 4})["answer"] == "4"


def test_a_finding_counts_by_its_kind_its_severity_and_the_steps_it_names():
    run = run_of([KL], (10, 12))
    of_kind = Said("kl_drift", True, frozenset([KL]), (17.0, 90.0))
    too_late = Said("kl_drift", True, frozenset([KL]), (18.0,))
    note = Said("kl_drift", False, frozenset([KL]), (5.0,))
    other = Said("entropy", True, frozenset([OTHER]), (11.0,))
    found = [[of_kind, other], [too_late], [note], [other], []]
    counts = count([run] * 5, found)
    assert faulty_cell(counts) == "3 / 2 (3) / 2"


def test_a_plateau_of_a_healthy_run_is_counted_apart():
    plateau = Said("plateau", True, frozenset([REWARD, PLATEAU]))
    alarm = Said("kl_drift", True, frozenset([KL]))
    note = Said("kl_drift", False, frozenset([KL]))
    told = [[plateau], [alarm, plateau], [note]]
    counts = count([run_of()] * 3, told)
    assert healthy_cell(counts) == "2 / 1"


@pytest.mark.parametrize("group", [HEALTHY, *FAMILIES])
def test_a_run_of_the_laboratory_is_the_same_for_the_same_seed(group):
    run = draw(group, 3)
    pd.testing.assert_frame_equal(run.metrics, draw(group, 3).metrics)
    assert list(run.metrics) == ["step", *METRICS]
    assert np.isfinite(run.metrics).all().all()
    assert bool(run.kinds) == (run.onset is not None) == (group != HEALTHY)


def test_kinds_are_of_checks_that_there_are():
    assert set(KINDS) <= {check.id for check in CHECKS}


def test_the_command_prints_a_row_a_family_and_the_page_names_it(
    stand_ins, capsys, monkeypatch
):
    monkeypatch.setattr(others, "sample_logs", lambda: ())
    monkeypatch.setattr(others, "versions", iter)
    others.main(["--runs", "1", "--rl-doctor", stand_ins, "--runmedic", stand_ins])
    printed = capsys.readouterr().out
    for family in FAMILIES:
        assert f"\n| {family} | 1 | " in printed
    assert "| healthy | 2 | 0 / 0 | 2 / 2 | 2 / 2 | – |" in printed
    page = (ROOT / "docs" / "others.md").read_text("utf-8")
    assert "python -m benchmarks.others" in page
    for tool in others.PACKAGES:
        assert f"--{tool} " in page
