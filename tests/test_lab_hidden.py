"""The laboratory's hidden faults are written as their truths say."""

from pathlib import Path

from benchmarks.judge_runs import read, truth_of
from benchmarks.lab.hidden import PLANTED, runs


def test_a_run_of_each_row_is_written_as_its_truth_says(tmp_path: Path) -> None:
    for path, run in runs(0, [f"{row}_3" for row in PLANTED]):
        run.write(tmp_path / path)
        truth = truth_of(tmp_path / path)
        last = max(row.get("step", 0) for rows in run.files.values() for row in rows)
        assert all(0 <= step <= last for step in truth.get("onset", [])), path
        assert bool(truth["expected"]) == (path.startswith("planted") and "steps" not in truth)
        assert "steps" not in truth or len(read(tmp_path / path).steps) == truth["steps"], path
