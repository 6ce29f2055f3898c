"""``index --redact`` says no text of a report that was built without it."""

import json
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.check.verdict import SCHEMA
from tests.test_index import rows_of
from tests.test_index_runs import BUILD, write_run

CHECK = "reward_hacking_token"


def write_report(folder: Path, redact: object = False, **card: object) -> Path:
    """Write the report of a broken run whose sentence and advice quote a response."""
    about = {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": "1"},
        "run": f"named qzxwv{folder.name}",
        "settings": {"redact": redact},
        "card": {"entries": {"lr": 1e-5, **card}},
        "findings": [{"id": CHECK, "title": "“qzxwv” spreads"}],
        "verdict": {
            "level": "critical",
            "lead": CHECK,
            "what": "Broken: “qzxwv” spreads.",
            "next": "Look for “qzxwv”.",
        },
    }
    (folder / "data").mkdir(parents=True)
    (folder / "data/report.json").write_text(json.dumps(about))
    return folder


def page_of(root: Path, redact: bool | str) -> str:
    out = root / "index.html"
    options: dict[str, Any] = {"redact": redact, "workers": 1}
    return rlreport.index(root, out, **options).out.read_text()


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for name, seed in (("a", 1), ("b", 2)):
        note = f"a note of qzxwv{name}"
        write_report(tmp_path / name, note=note, model=f"m/{name}", seed=seed)
    return tmp_path


def test_texts_of_reports_are_hidden_as_those_of_a_build_are(reports: Path) -> None:
    assert "qzxwv" in page_of(reports, redact=False)
    page = page_of(reports, redact=True)
    rows = rows_of(page, "runs")
    # Names stay, and so do values that are no prose.
    assert page.replace("named qzxwv", "").count("qzxwv") == 0
    assert [row["run"] for row in rows] == ["named qzxwva", "named qzxwvb"]
    assert [row["card:model"] for row in rows] == ["m/a", "m/b"]
    assert "card:note" not in rows[0] or rows[0]["card:note"] == "[text]"
    assert {row["sentence"] for row in rows} == {"Reward hacking."}


def test_with_names_no_setting_and_no_name_but_that_of_the_folder_is_shown(
    reports: Path,
) -> None:
    page = page_of(reports, redact="names")
    assert "qzxwv" not in page and '"card:' not in page and "m/a" not in page
    assert [row["run"] for row in rows_of(page, "runs")] == ["a", "b"]


def test_runs_with_different_hidden_texts_are_no_seeds_of_each_other(
    reports: Path,
) -> None:
    page = page_of(reports, redact=True)
    assert "group" not in rows_of(page, "runs")[0]


@pytest.mark.parametrize("own", [True, "names"])
def test_a_report_that_was_redacted_keeps_its_sentence(
    own: object, tmp_path: Path
) -> None:
    write_report(tmp_path / "a", own)
    assert "qzxwv” spreads" in page_of(tmp_path, redact=True)
    assert ("qzxwv" in page_of(tmp_path, redact="names")) == (own == "names")


def test_why_a_run_cannot_be_built_quotes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*rest: object) -> None:
        raise ValueError("qzxwv is no number")

    write_run(tmp_path / "run")
    write_report(tmp_path / "report", redact=True)
    monkeypatch.setattr(BUILD, fail)
    assert "ValueError: qzxwv" in page_of(tmp_path, redact=False)
    page = page_of(tmp_path, redact=True)
    assert "ValueError" in page and "qzxwv is no number" not in page
