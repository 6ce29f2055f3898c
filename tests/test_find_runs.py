"""Which folders and files are runs, in a folder that may hold many."""

import json
import os
from pathlib import Path

import pytest

from rlreport.flows.find_runs import find_runs

ROLLOUT = json.dumps({"step": 1, "prompt": "p", "response": "r", "reward": 1.0})
METRICS = "step,reward\n1,0.5\n2,0.6\n"
CONTENTS = {".csv": METRICS, ".jsonl": ROLLOUT, ".yaml": "lr: 1"}


def write(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CONTENTS.get(file.suffix, "{}"), encoding="utf-8")


def runs_in(root: Path) -> list[str]:
    return [run.path.relative_to(root).as_posix() for run in find_runs(root).runs]


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        pytest.param(["a/x.jsonl", "b/y.csv"], ["a", "b"], id="folders with logs"),
        pytest.param(
            ["lr/a/x.jsonl", "lr/b/x.jsonl", "kl/a/x.jsonl"],
            ["kl", "lr/a", "lr/b"],
            id="nested, a folder around one run is that run",
        ),
        pytest.param(
            ["a/rollouts/step_1/all/x.jsonl", "a/rollouts/step_2/all/x.jsonl"],
            ["a"],
            id="what is in a folder of rollouts",
        ),
        pytest.param(
            ["a/rank_0/x.jsonl", "a/rank_1/x.jsonl", "b/x.jsonl"],
            ["a", "b"],
            id="ranks",
        ),
        pytest.param(
            ["a/completions/1.parquet", "a/checkpoint-5/trainer_state.json"],
            ["a"],
            id="what TRL writes",
        ),
        pytest.param(
            ["a/logs/x.csv", "a/tb/events.out.tfevents.1.h"], ["a"], id="places of one"
        ),
        pytest.param(
            ["logs/a/x.jsonl", "logs/b/x.jsonl"], ["logs/a", "logs/b"], id="of several"
        ),
        pytest.param(
            ["a/x.jsonl", "a/dumps_of_mine/y.jsonl", "b/x.jsonl"],
            ["a", "b"],
            id="a folder of another name in that of a run",
        ),
        pytest.param(
            ["a/x.jsonl", "a/again/x.jsonl", "a/set/config.yaml", "a/set/y.jsonl"],
            ["a", "a/again", "a/set"],
            id="runs in that of a run: equal names, a configuration",
        ),
        pytest.param(
            ["summary.csv", "a/x.jsonl", "b/y.jsonl"],
            [".", "a", "b"],
            id="files beside folders of runs",
        ),
        pytest.param(
            ["1/x.jsonl", "2/x.jsonl"], ["1", "2"], id="numbers in a folder of runs"
        ),
        pytest.param(
            ["a/rollout/1/x.jsonl", "a/rollout/2/x.jsonl"],
            ["a"],
            id="in one of rollouts",
        ),
        pytest.param(["rollouts/x.jsonl"], ["."], id="the folder itself is the run"),
        pytest.param(
            ["config.yaml", "x.jsonl", "mine/y.jsonl"],
            ["."],
            id="it has a configuration",
        ),
        pytest.param(
            [".git/x.jsonl", "node_modules/a/x.jsonl", "a/package.json", "a/code.py"],
            [],
            id="no runs",
        ),
        pytest.param(
            ["t__0/agent/trajectory.json", "t__1/agent/trajectory.json", "x.jsonl"],
            ["."],
            id="trials",
        ),
    ],
)
def test_runs_are_found_by_their_logs_and_the_names_of_folders(
    files: list[str], runs: list[str], tmp_path: Path
) -> None:
    write(tmp_path, *files)
    assert runs_in(tmp_path) == runs


def test_files_beside_runs_are_read_without_them(tmp_path: Path) -> None:
    write(tmp_path, "x.csv", "rollouts/y.jsonl", "a/z.jsonl", "README.md", "judge.py")
    write(tmp_path, "more.json")
    first, second = find_runs(tmp_path).runs
    names = ("x.csv", "more.json", "rollouts")
    assert first.logs == tuple(tmp_path / name for name in names)
    assert second.logs == (tmp_path / "a",)


def test_links_are_followed_to_what_is_not_found_without_them(tmp_path: Path) -> None:
    write(tmp_path, "runs/b/x.jsonl", "elsewhere/x.jsonl")
    (tmp_path / "runs/a_latest").symlink_to(tmp_path / "runs/b")
    (tmp_path / "runs/b/up").symlink_to(tmp_path / "runs")
    (tmp_path / "runs/c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs/gone").symlink_to(tmp_path / "missing")
    assert runs_in(tmp_path / "runs") == ["b", "c"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all"
)
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    write(tmp_path, "a/x.jsonl", "b/x.jsonl")
    (tmp_path / "b").chmod(0)
    found = find_runs(tmp_path)
    (tmp_path / "b").chmod(0o700)
    assert [run.path.name for run in found.runs] == ["a"]
    assert [*found.unreadable, *found.reports]
