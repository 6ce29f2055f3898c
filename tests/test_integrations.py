"""The recipes of docs/integrations.md, run as they stand there, without a network.

``pip install -e '.[test-integrations]'`` brings the trackers; without one its recipe is skipped.
"""

import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlreport.metrics.find import find_and_read, find_metrics
from tests.conftest import ROOT

pytestmark = pytest.mark.ci

PAGE = (ROOT / "docs" / "integrations.md").read_text("utf-8")


def recipe(heading: str, language: str) -> str:
    """Return the one block of a section."""
    section = re.split(r"\n##+ ", PAGE.split(f"## {heading}\n")[1])[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.S)
    return found


@pytest.fixture
def work(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "sample_logs" / "reward_hacking", tmp_path / "logs")
    return tmp_path


def run(code: str, work: Path, **environment: str) -> str:
    env = {
        **os.environ,
        "WANDB_SILENT": "true",
        "GIT_PYTHON_REFRESH": "quiet",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=work,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wandb_keeps_the_report_byte_for_byte(work: Path) -> None:
    pytest.importorskip("wandb")
    run(
        recipe("Weights & Biases", "python"),
        work,
        WANDB_MODE="offline",
        WANDB_DIR=str(work),
    )
    (kept,) = work.glob("wandb/offline-run-*/files/media/html/report_*.html")
    assert kept.read_bytes() == (work / "run.html").read_bytes()


def test_mlflow_has_it_as_an_artifact_with_verdict_and_figures(work: Path) -> None:
    pytest.importorskip("mlflow")
    store = f"sqlite:///{work / 'mlflow.db'}"
    run(recipe("MLflow", "python"), work, MLFLOW_TRACKING_URI=store)
    (kept,) = work.glob("mlruns/*/*/artifacts/run.html")
    assert kept.read_bytes() == (work / "run.html").read_bytes()
    with sqlite3.connect(work / "mlflow.db") as database:
        tags = dict(database.execute("SELECT key, value FROM tags"))
        metrics = dict(database.execute("SELECT key, value FROM metrics"))
    assert tags["verdict"] == "critical"
    assert metrics["reward_mean"] == pytest.approx(4.22, abs=0.01)


def test_trackio_has_it_with_an_alert(work: Path) -> None:
    pytest.importorskip("trackio")
    run(
        recipe("Trackio", "python"),
        work,
        TRACKIO_DIR=str(work / "trackio"),
        HF_HUB_OFFLINE="1",
    )
    (kept,) = (work / "trackio" / "media").rglob("*.html")
    assert kept.read_bytes() == (work / "run.html").read_bytes()
    with sqlite3.connect(work / "trackio" / "rl.db") as database:
        assert "reward_hacking_token" in str(
            database.execute("SELECT * FROM alerts").fetchall()
        )


def test_a_notebook_shows_the_last_line_of_the_cell(work: Path) -> None:
    shown = run(
        recipe("Notebooks", "python").rstrip() + "\nprint(report._repr_html_())", work
    )
    assert "Broken: “🎉” appears in 98% of responses" in shown
    assert "The reward rose from 0.48 (steps 0–2) to 4.0 (steps 58–59)." in shown


def programs(work: Path, **scripts: str) -> dict[str, str]:
    """Put programs on the PATH; ``rlreport`` is ours."""
    folder = work / "bin"
    folder.mkdir()
    ours = f'exec "{sys.executable}" -m rlreport "$@"'
    for name, script in {"rlreport": ours, **scripts}.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n", "utf-8")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


ENDS = {
    "done": ("exit 0", 0),
    "failed": ("exit 3", 3),
    "time limit": (
        "touch started; trap 'sleep 0.2; exit 5' TERM; sleep 60 & wait",
        143,
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_slurm_builds_it_however_the_training_ends(work: Path, end: str) -> None:
    train, expected = ENDS[end]
    (work / "runs").mkdir()
    (work / "logs").rename(work / "runs" / "17")
    env = {**programs(work, srun=train), "SLURM_JOB_ID": "17"}
    assert status_of(recipe("Slurm", "sh"), work, env, end) == expected
    assert (work / "report-17.html").stat().st_size > 1000


@pytest.mark.parametrize("end", ENDS)
def test_verl_has_a_report_however_the_training_ends(work: Path, end: str) -> None:
    train, expected = ENDS[end]
    row = {"input": "q", "output": "a", "gts": "a", "score": 1.0, "step": 1}
    dump = f"mkdir -p runs/grpo/train; echo '{json.dumps(row)}' > runs/grpo/train/1.jsonl\n"
    logged = {"step": 1, "data": {"critic/score/mean": 1.0}}
    metrics = f"echo '{json.dumps(logged)}' > \"$VERL_FILE_LOGGER_PATH\"\n"
    env = programs(work, python=dump + metrics + train)
    assert status_of(recipe("verl", "sh"), work, env, end) == expected
    page = (work / "report" / "index.html").read_text("utf-8")
    assert "1 response" in page
    assert "Trainer metrics from metrics.jsonl" in page


def status_of(script: str, work: Path, env: dict[str, str], end: str) -> int:
    """Run a script, and send SIGTERM to the shell alone if that is the end."""
    job = subprocess.Popen(["bash", "-c", script], cwd=work, env=env)
    if end == "time limit":
        while not (work / "started").exists():
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
    return job.wait(timeout=300)


def test_ray_builds_it_and_keeps_the_status_of_the_training(work: Path) -> None:
    ray = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    env = {
        **programs(work, ray=ray, python="exit 3"),
        "LOGS": "logs",
        "OUT": "run.html",
    }
    job = subprocess.run(
        ["bash", "-c", recipe("Ray", "sh")], cwd=work, env=env, check=False
    )
    assert job.returncode == 3
    assert (work / "run.html").stat().st_size > 1000


WRITE_METRICS = """
import math, {package}
rows = [{{"train/reward": 0.2 + s / 100, "eval/acc": math.sqrt(s)}} for s in range(40)]
{code}
"""
TRACKERS = {
    "wandb": """
run = wandb.init(project="p", name="swift fox", config={"lr": 1e-6})
for step, row in enumerate(rows): run.log(row, step=step)
run.finish()
""",
    "mlflow": """
with mlflow.start_run(run_name="swift fox"):
    for step, row in enumerate(rows): mlflow.log_metrics(row, step=step)
""",
    "trackio": """
trackio.init(project="p", name="swift fox")
for step, row in enumerate(rows): trackio.log(row, step=step)
trackio.finish()
""",
}


@pytest.mark.parametrize("package", TRACKERS)
def test_metrics_as_the_tracker_itself_wrote_them(package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    run(
        WRITE_METRICS.format(package=package, code=TRACKERS[package]),
        tmp_path,
        WANDB_MODE="offline",
        WANDB_DIR=str(tmp_path),
        MLFLOW_TRACKING_URI=(tmp_path / "mlruns").as_uri(),
        MLFLOW_ALLOW_FILE_STORE="1",
        TRACKIO_DIR=str(tmp_path),
        HF_HUB_OFFLINE="1",
    )
    read = find_and_read([tmp_path])
    (source,) = find_metrics(tmp_path)
    assert "swift fox" in source.run
    steps = range(40)
    assert read.table["step"].tolist() == [*steps]
    assert read.table["train/reward"].tolist() == [0.2 + s / 100 for s in steps]
    assert read.table["eval/acc"].tolist() == [math.sqrt(s) for s in steps]
