"""On which level a comparison's rewards are: what each run's verdict says, and whose mean it is."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rlreport
from rlreport.check import Thresholds
from rlreport.comparison.run import LONGEST_WHAT, ComparedRun
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.system.workers import Progress
from tests.reading import row, write

PROMPTS = 24


def write_run(
    folder: Path,
    share: float,
    *,
    seed: int = 0,
    steps: int = 20,
    trainer: Callable[[int], float] | None = None,
    config: dict[str, object] | None = None,
    **fields: object,
) -> Path:
    """Write logs of which ``share`` of the responses is right, and the trainer's mean reward."""
    random = np.random.default_rng(seed)
    rows = [
        row(
            step,
            prompt=f"Question {prompt}?",
            response=f"It is {n} of {step}.",
            reward=float(random.random() < share),
            **fields,
        )
        for step in range(steps)
        for prompt in range(PROMPTS)
        for n in range(2)
    ]
    path = write(folder / "log.jsonl", rows).parent
    if trainer is not None:
        metrics = [{"step": step, "reward": trainer(step)} for step in range(steps)]
        write(path / "metrics.jsonl", metrics)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def run_of(path: Path) -> ComparedRun:
    return compared_run(path, CompareOptions(), Thresholds(), Progress())


def test_a_run_tells_what_happened_as_its_report_does(tmp_path):
    logs = write_run(tmp_path / "run", 0.5)
    rlreport.build(logs, tmp_path / "report", workers=1)
    about = tmp_path / "report" / "data" / "report.json"
    told = json.loads(about.read_text())
    assert run_of(logs).what == told["verdict"]["what"] != ""
    assert run_of(tmp_path / "report").what == told["verdict"]["what"]


def test_what_a_report_of_others_says_is_one_line_of_usual_length(tmp_path):
    logs = write_run(tmp_path / "run", 0.5)
    rlreport.build(logs, tmp_path / "report", workers=1)
    about = tmp_path / "report" / "data" / "report.json"
    told = json.loads(about.read_text())
    for what, shown in [
        ("One.\nTwo.\x1b[31m", "One. Two."),
        ("x" * 5000, "x" * 100),
        (7, ""),
        (None, ""),
    ]:
        told["verdict"]["what"] = what
        about.write_text(json.dumps(told))
        found = run_of(tmp_path / "report").what
        assert found.startswith(shown) and len(found) <= LONGEST_WHAT
        assert found.isprintable()
