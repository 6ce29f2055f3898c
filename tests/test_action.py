"""The GitHub action and the recipe of docs/ci.md: which run's report is the baseline."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

GH = """
import json, os, pathlib, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1] if name in words else None
if words[:2] == ["run", "list"]:
    assert (option("--limit"), option("--jq")) == ("1", ".[0].databaseId // empty"), words
    asked = option("--branch"), option("--event")
    runs = [run for run in json.loads(os.environ["RUNS"]) if run["branch"] == asked[0]]
    found = [run["id"] for run in runs if asked[1] in (None, run["event"])]
    print(*found[:1])
elif words[0] == "api":
    assert option("--method") == "GET" and "name=rlreport-main" in words, words
    assert "repos/me/model/actions/runs/1/artifacts" in words, words
    print(os.environ["STORED"])
elif words[:2] == ["run", "download"]:
    if os.environ["STORED"] == "unreachable":
        sys.exit("HTTP 403: Resource not accessible by integration")
    folder = pathlib.Path(option("--dir"))
    folder.mkdir()
    for name in ("rlreport.zip", "main.zip"):
        (folder / name).write_text(f"report of run {words[2]}")
"""
"""A stand-in for GitHub's program, which knows the runs of RUNS, newest first."""

RLREPORT = """
import pathlib, sys
pathlib.Path("bases.txt").open("a").write(pathlib.Path(sys.argv[2]).read_text() + "\\n")
"""

FORK = '{"id": 3, "event": "pull_request", "branch": "main"}'
OTHER = '{"id": 2, "event": "push", "branch": "side"}'
MAIN = '{"id": 1, "event": "push", "branch": "main"}'


def step(steps: list[dict[str, Any]], name: str) -> str:
    """The script of a step."""
    (found,) = (one["run"] for one in steps if one.get("name") == name)
    return str(found).replace("${{ github.event.number }}", "7")


def action() -> str:
    found = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return step(found["runs"]["steps"], "Compare with the baseline")


def recipe() -> str:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    block = page.split("The same without the action:\n\n```yaml\n")[1].split("```")[0]
    return step(yaml.safe_load(block), "Compare with main")


def compared_with(script: str, folder: Path, runs: str, stored: str = "1") -> list[str]:
    """Run the script as GitHub does, and return what the comparisons had as BASE.

    ``stored`` is the number of artifacts of that name, or ``unreachable``.
    """
    for name, program in {"gh": GH, "rlreport": RLREPORT}.items():
        (folder / f"{name}.py").write_text(program, "utf-8")
        (folder / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" {folder}/{name}.py "$@"\n'
        )
        (folder / name).chmod(0o755)
    given = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RUNS": runs,
        "STORED": stored,
        "GITHUB_REPOSITORY": "me/model",
        "GITHUB_WORKFLOW": "eval",
        "BRANCH": "main",
        "BASELINE": "rlreport-main",
        "LOGS": "logs",
        "FAIL_ON": "worse",
        "MARGIN": "0",
        "EVIDENCE": "false",
        "COMMENT": "true",
        "NUMBER": "7",
    }
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    subprocess.run(bash, cwd=folder, env={**os.environ, **given}, check=True)
    bases = folder / "bases.txt"
    return bases.read_text().splitlines() if bases.exists() else []


@pytest.mark.parametrize("script", [action, recipe])
def test_a_fork_whose_branch_is_called_main_gives_no_baseline(script, tmp_path):
    bases = compared_with(script(), tmp_path, f"[{FORK}, {OTHER}, {MAIN}]")
    assert set(bases) == {"report of run 1"}


@pytest.mark.parametrize(
    ("script", "runs", "stored"),
    [
        (action, f"[{FORK}, {OTHER}]", "1"),
        (recipe, f"[{FORK}, {OTHER}]", "1"),
        (action, f"[{MAIN}]", "0"),
    ],
)
def test_without_a_baseline_nothing_is_compared(script, runs, stored, tmp_path):
    assert compared_with(script(), tmp_path, runs, stored) == []


@pytest.mark.parametrize("script", [action, recipe])
def test_a_baseline_that_cannot_be_downloaded_fails(script, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        compared_with(script(), tmp_path, f"[{MAIN}]", "unreachable")


def test_pip_is_not_imported_from_the_checked_out_branch(tmp_path):
    (tmp_path / "pip.py").write_text("open('imported', 'w')\n")
    steps = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    (install,) = (step["run"] for step in steps if "pip install" in step.get("run", ""))
    command = (
        install.replace("python", sys.executable, 1).partition(" install")[0]
        + " --version"
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, check=False)
    assert not (tmp_path / "imported").exists()
