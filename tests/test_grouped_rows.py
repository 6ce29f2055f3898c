"""Rows with a list of responses each, as programs write that sample a prompt several times."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlreport.errors import UnreadRow
from rlreport.formats.registry import RowReader, Where, detect
from tests.running import rlreport as run

Row = dict[str, Any]


def group(prompt: str, grades: list[Any], **more: Any) -> Row:
    """Return the object of a prompt with a response per grade."""
    rollouts = [
        {"rollout": number, "text": f"{prompt} {number}", "correct": grade, "pred": "4"}
        for number, grade in enumerate(grades)
    ]
    return {
        "question": prompt,
        "gold": 4,
        "n": len(grades),
        "rollouts": rollouts,
        **more,
    }


def rows_of(*objects: Row) -> list[Any]:
    detected = detect("rows.jsonl", objects)
    assert detected is not None
    # As a worker gets it
    read = pickle.loads(pickle.dumps(RowReader(detected.format)))
    rows: list[Any] = []
    for obj in objects:
        rows += read(obj, Where("rows.jsonl"))
    return rows


def test_each_response_in_the_list_is_a_row_of_its_prompt() -> None:
    of_step = group("2+2?", [True, False], iteration=7)
    rows = rows_of(of_step, group("1+3?", [True]))
    assert [row["prompt"] for row in rows] == ["2+2?", "2+2?", "1+3?"]
    assert [row["response"] for row in rows] == ["2+2? 0", "2+2? 1", "1+3? 0"]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 1.0]
    assert [row["step"] for row in rows][:2] == [7, 7]
    assert {row["ground_truth"] for row in rows} == {"4"}
    assert rows[1]["rollout"] == 1
    assert rows[1]["n"] == 2


def test_the_step_is_that_of_the_path_and_the_report_names_the_fields(
    tmp_path: Path,
) -> None:
    for step in (10, 20, 30):
        path = tmp_path / "runs" / f"step-{step}" / "samples.jsonl"
        path.parent.mkdir(parents=True)
        groups = [group(f"{n}+1?", [n % 2 == 0, True]) for n in range(4)]
        path.write_text("".join(f"{json.dumps(one)}\n" for one in groups))
    printed = run("inspect", tmp_path / "runs")
    assert "24 responses over 3 steps (10–30)" in printed.stdout
    assert "rollouts.text" in printed.stdout


def test_a_bad_element_costs_itself_alone() -> None:
    broken = group("2+2?", [1.0, 0.0])
    broken["rollouts"][0] = "torn"
    broken["rollouts"].append({"text": None, "correct": 1})
    rows = rows_of(group("1+1?", [1.0]), group("1+2?", [1.0]), broken)
    assert sum(isinstance(row, UnreadRow) for row in rows) == 2
    assert len(rows) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"rollouts": []},
        {"rollouts": ["a", "b"]},
        {"rollouts": [{"text": "a"}]},
        {"rollouts": [{"correct": True}]},
        {"question": None},
    ],
)
def test_lists_without_texts_and_grades_are_no_rollouts(change: Row) -> None:
    assert detect("rows.jsonl", [group("2+2?", [True]) | change]) is None
