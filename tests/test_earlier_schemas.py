"""Reports of the versions before are compared and listed: tests/data/earlier has one a schema."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.check.finding import SCHEMA
from rlreport.errors import UnusableInputError
from tests.conftest import ROOT

EARLIER = ROOT / "tests" / "data" / "earlier"
REPORT, LOGS = EARLIER / "schema_1.zip", EARLIER / "schema_1.jsonl.gz"
REPORTS = [EARLIER / f"schema_{n}.zip" for n in range(1, SCHEMA)]


def test_each_schema_before_this_one_has_a_report_here() -> None:
    kept = sorted(EARLIER.glob("*.zip"))
    assert kept == REPORTS, "before SCHEMA rises, keep a report of the code as it is"


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_an_earlier_report_is_to_compare_what_its_logs_are(tmp_path: Path, report: Path) -> None:
    of_report, of_logs = (_compared(tmp_path, base) for base in (report, LOGS))
    assert of_report.pop("levels")["base"] == ["healthy"]  # what the checks of its time said
    del of_logs["levels"]
    assert of_report["verdict"]["pairs"] > 0
    assert len(of_report["guardrails"]) > 3
    assert of_report.pop("runs")["new"] == of_logs.pop("runs")["new"]
    assert of_report == of_logs


def test_a_first_report_that_shows_a_choice_of_its_responses_is_refused(tmp_path: Path) -> None:
    folder = _unpacked(tmp_path)
    about = json.loads((folder / "data/report.json").read_text())
    (folder / "data/report.json").write_text(json.dumps({**about, "responses": 99}))
    with pytest.raises(UnusableInputError, match="build the report again, or give its logs"):
        rlreport.compare(folder, LOGS, tmp_path / "out")


def test_a_first_report_with_odd_pages_is_refused(tmp_path: Path) -> None:
    folder = _unpacked(tmp_path)
    (folder / "steps/3.html").write_text("<p>")
    with pytest.raises(UnusableInputError, match="broken"):
        rlreport.compare(folder, LOGS, tmp_path / "out")


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_the_index_lists_an_earlier_report_with_its_verdict(tmp_path: Path, report: Path) -> None:
    made = rlreport.index(_unpacked(tmp_path, report), tmp_path / "index.html")
    assert (made.reports, made.unread) == (1, [])
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "✓ Healthy" in page
    steps = json.loads((tmp_path / "earlier/data/report.json").read_text())["steps"]
    last = sum(step["reward_mean"] for step in steps[-3:]) / 3
    assert f'title="{last:.6g}' in page


def _unpacked(folder: Path, report: Path = REPORT) -> Path:
    with zipfile.ZipFile(report) as archive:
        archive.extractall(folder / "earlier")
    return folder / "earlier"


def _compared(folder: Path, base: Path) -> dict[str, Any]:
    out = folder / "out"
    rlreport.compare(base, ROOT / "sample_logs" / "healthy", out)
    found: dict[str, Any] = json.loads((out / "data/compare.json").read_text())
    return found
