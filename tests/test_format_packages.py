"""A package that is installed beside ours adds a log format, as a user meets it."""

import json
import os
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rlreport.errors import UsageError
from rlreport.formats.registry import ENTRY_POINTS, detect, formats
from tests.reading import write
from tests.running import rlreport

MODULE = '''
from rlreport.formats.base import BaseFormat, Match, RowError

class Diary(BaseFormat):
    """Lines of a question, an answer and points; the step is called day."""

    id = "diary"
    description = "diaries of a trainer of our own"
    files = ("*.diary.jsonl",)
    container = "lines"
    rewarded = False

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


def install(place: Path, entry: str = "diary = diaries:Diary") -> None:
    metadata = place / "diaries-1.0.dist-info"
    metadata.mkdir(parents=True)
    (place / "diaries.py").write_text(MODULE)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: diaries\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{entry}\n")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Environment of a process that has the package installed."""
    install(tmp_path / "site")
    paths = [str(tmp_path / "site")]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "day": day,
            "asked": "How was it?",
            "said": f"{day} {i}",
            "points": day + i,
            "mood": i / 2,
        }
        for day, i in product((1, 2), range(3))
    ]
    rows.append(
        {"day": 3, "asked": "How was it?", "said": "…", "points": None, "mood": 0.0}
    )
    (tmp_path / "logs").mkdir()
    return write(tmp_path / "logs" / "mine.jsonl", rows)


def test_it_is_listed_with_ours(installed: dict[str, str]) -> None:
    ours = rlreport("formats").stdout
    listed = rlreport("formats", env=installed).stdout
    assert "diary" not in ours
    assert listed.startswith(ours)
    assert "diary            diaries of a trainer of our own" in listed
    assert "*.diary.jsonl" in listed


def test_a_report_is_built_from_it_in_worker_processes(installed, log, tmp_path):
    out = tmp_path / "report"
    done = rlreport("build", log, "-o", out, "--workers", "2", env=installed)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(out / "data" / "steps.csv")["reward_mean"].tolist() == [2.0, 3.0]
    report = json.loads((out / "data" / "report.json").read_bytes())
    assert report["files"][0]["format"] == "diary"
    assert report["fields"]["mood"] == 6


def test_it_can_be_asked_for_by_its_id(installed: dict[str, str], log: Path) -> None:
    done = rlreport("inspect", log, "--log-format", "diary", env=installed)
    assert done.returncode == 0
    assert "6 responses over 2 steps" in done.stdout
    assert "mine.jsonl:7: not a valid diary row: a day without points" in done.stdout
    done = rlreport("inspect", log, "--log-format", "diary")
    assert done.returncode == 2
    assert "unknown log format 'diary'; known formats: rlboard, trl," in done.stderr


@pytest.fixture
def fresh_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    formats.cache_clear()
    yield tmp_path
    formats.cache_clear()
    sys.modules.pop("diaries", None)


def test_what_it_lacks_is_as_in_formats_of_ours(fresh_registry: Path) -> None:
    install(fresh_registry)
    found = detect("a.jsonl", [{"day": 1, "points": 2}])
    assert found is not None and found.reason == "has days and points"
    assert found.format.alone and not (found.format.rewarded or found.format.cacheable)
    assert found.format.with_siblings(Path("a.jsonl"), ()) is found.format


@pytest.mark.parametrize("entry", ["own = diaries:Match", "own = diaries:Missing"])
def test_an_installed_format_that_is_none_is_named(
    fresh_registry: Path, entry: str
) -> None:
    install(fresh_registry, entry)
    with pytest.raises(UsageError, match=entry.partition(" = ")[2]):
        formats()
