"""A package that is installed beside ours adds a log format, as a user meets it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rlreport.formats import ENTRY_POINTS
from tests.reading import write
from tests.running import rlreport

MODULE = '''
from rlreport.formats.base import Match, RowError

class Diary:
    """Lines of a question, an answer and points; the step is called day."""

    id = "diary"
    description = "diaries of a trainer of our own"
    files = ("*.diary.jsonl",)
    container = "lines"

    def match(self, name, objects):
        own = bool(objects) and all("points" in obj and "day" in obj for obj in objects)
        return Match(99, "has days and points") if own else None

    def rows(self, obj, where):
        if obj["points"] is None:
            raise RowError("a day without points")
        said = {"prompt": obj["asked"], "response": obj["said"]}
        yield {"step": obj["day"], "reward": obj["points"], **said, "mood": obj["mood"]}

    def split(self, name):
        return None
'''


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Environment of a process that has the package installed."""
    place = tmp_path / "site"
    metadata = place / "diaries-1.0.dist-info"
    metadata.mkdir(parents=True)
    (place / "diaries.py").write_text(MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: diaries\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\ndiary = diaries:Diary\n")
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {"day": day, "asked": "How was it?", "said": f"{day} {i}", "points": day + i, "mood": i / 2}
        for day in (1, 2)
        for i in range(3)
    ]
    rows.append({"day": 3, "asked": "How was it?", "said": "…", "points": None, "mood": 0.0})
    (tmp_path / "logs").mkdir()
    return write(tmp_path / "logs" / "mine.jsonl", rows)


def test_it_is_listed_with_ours(installed: dict[str, str]) -> None:
    ours = rlreport("formats").stdout
    listed = rlreport("formats", env=installed).stdout
    assert "diary" not in ours
    assert listed.startswith(ours)
    assert "diary            diaries of a trainer of our own" in listed
    assert "*.diary.jsonl" in listed


def test_it_is_recognised_and_said_why(installed: dict[str, str], log: Path) -> None:
    done = rlreport("inspect", log, env=installed)
    assert done.returncode == 0, done.stderr
    assert "6 responses over 2 steps" in done.stdout
    assert "diary, " in done.stdout and "(has days and points)" in done.stdout
    assert "mine.jsonl:7: no diary row: a day without points" in done.stdout
    assert rlreport("inspect", log).returncode == 2


def test_a_report_is_built_from_it_in_worker_processes(
    installed: dict[str, str], log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    done = rlreport("build", log, "-o", out, "--workers", "2", env=installed)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(out / "data" / "steps.csv")["reward_mean"].tolist() == [2.0, 3.0]
    report = json.loads((out / "data" / "report.json").read_bytes())
    assert report["files"][0]["format"] == "diary"
    assert report["fields"]["mood"] == 6


def test_it_can_be_asked_for_by_its_id(installed: dict[str, str], log: Path) -> None:
    assert rlreport("inspect", log, "--log-format", "diary", env=installed).returncode == 0
    done = rlreport("inspect", log, "--log-format", "diary")
    assert done.returncode == 2
    assert "there is no log format 'diary'; formats are rlboard, trl," in done.stderr
