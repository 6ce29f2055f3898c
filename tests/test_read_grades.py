"""Missing grades: null rewards, failed judges, masks and errors are no NaN, and in no figure."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rlreport.read.logs import read_logs
from rlreport.read.notes import MISSING_GRADES, Missing, missing_grade

ROW = {"step": 0, "prompt": "p", "response": "r", "reward": 1.0}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, 0),
        ({"reward": math.nan}, 0),
        ({"reward": None}, Missing.NULL),
        ({"judge_failed": True}, Missing.JUDGE_FAILED),
        ({"judge_failed": False}, 0),
        ({"_ng_failure_class": "judge_failed", "reward": 0.0}, Missing.JUDGE_FAILED),
        ({"_ng_failure_class": None}, 0),
        ({"sample_loss_mask": 0.0}, Missing.MASKED),
        ({"judge_failed": "True", "reward": None}, Missing.JUDGE_FAILED),
        ({"reward_status": "timeout"}, Missing.JUDGE_FAILED),
        ({"reward_status": "ok"}, 0),
        ({"grade_valid": False}, Missing.JUDGE_FAILED),
        ({"mask_sample": 1}, Missing.MASKED),
        ({"is_masked": 0.25}, 0),
        ({"loss_multiplier": 0.0}, Missing.MASKED),
        ({"loss_multiplier": 1.0}, 0),
        ({"grader_error": "HTTP 503"}, Missing.ERROR),
        ({"reward_error": 0.3}, 0),
        ({"judge_error": "none"}, 0),
        ({"errors": ["the judge timed out"]}, Missing.ERROR),
        ({"errors": ["tool: no such file"]}, 0),
        ({"errors": ["sandbox died"], "reward": None}, Missing.ERROR),
        ({"metadata": {"judge_failed": True}}, Missing.JUDGE_FAILED),
    ],
)
def test_kinds_of_missing_grades(fields: dict[str, Any], kind: int) -> None:
    row = {**ROW, **fields}
    assert missing_grade(row, null=row["reward"] is None) == kind


def _read(tmp_path: Path, rows: list[dict[str, Any]]) -> Any:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps({**ROW, **row}) + "\n" for row in rows))
    return read_logs([path])


def test_missing_grades_are_in_no_figure_and_counted_by_kind(tmp_path: Path) -> None:
    failed = {"reward": 0.0, "judge_failed": True, "reward_parts": {"right": 0.0}}
    graded = {"reward": [1.0], "reward_parts": {"right": 1.0}}
    nulls: list[dict[str, Any]] = [{"reward": None}, {"reward": "none"}]
    scan = _read(tmp_path, [*nulls, failed, graded, {"reward": math.nan}])
    assert scan.responses["missing_grade"].tolist() == [1, 1, 2, 0, 0]
    assert scan.responses["nan_values"].tolist() == [0, 0, 0, 0, 1]
    assert scan.responses["reward"].mean() == 1.0
    assert scan.extras["right"].mean() == 1.0
    notes = [(note.text.split(",")[0], note.count) for note in scan.notes
             if note.kind == MISSING_GRADES]  # fmt: skip
    assert notes == [("responses whose reward is null", 2), ("responses whose judge failed", 1)]


def test_a_mask_on_every_response_means_something_else(tmp_path: Path) -> None:
    scan = _read(tmp_path, [{"masked": True}] * 3)
    assert scan.responses["reward"].notna().all()
    assert not scan.responses["missing_grade"].any()
