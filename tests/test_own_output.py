"""What rlreport wrote is never read as a log: reports in every form, their parts, caches."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

import rlreport
from rlreport.deliver import forms as deliver_forms
from rlreport.errors import UnusableInputError
from rlreport.metrics.find import find_and_read
from rlreport.read.listing import find_sources, state_of
from rlreport.system.own_output import own_folders_in
from tests.forms import files_below
from tests.running import rlreport as run

FORMS = tuple(f"report{form.suffix}" for form in deliver_forms.FORMS.values())


def write_metrics(folder: Path, *, falls: bool = False) -> Path:
    """Metrics of 60 steps, whose reward rises, or rises and then dies."""
    folder.mkdir(parents=True, exist_ok=True)
    rewards = [step / 60 for step in range(60)]
    if falls:
        rewards[40:] = [0.0] * 20
    lines = []
    for step, reward in enumerate(rewards):
        lines.append(json.dumps({"step": step, "reward": reward}) + "\n")
    (folder / "metrics.jsonl").write_text("".join(lines))
    return folder


def write_rollouts(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"step": step, "prompt": f"p{n}", "response": "yes", "reward": float(n % 2)}
        for step, n in product(range(6), range(4))
    ]
    (folder / "rank_0.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows)
    )
    return folder


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report of a broken run in every form."""
    folder = tmp_path_factory.mktemp("reports")
    logs = write_metrics(folder / "logs", falls=True)
    for name in FORMS:
        rlreport.build(logs, folder / name, quiet=True)
    return folder


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("command", ["check", "inspect", "build"])
def test_a_report_given_as_logs_is_refused_by_name(
    command: str, name: str, reports: Path
) -> None:
    arguments = ["-o", reports / "new"] if command == "build" else []
    result = run(command, reports / name, *arguments)
    assert result.returncode == 2
    assert f"{name}: is a report written by rlreport" in result.stderr
    assert "rlreport index" in result.stderr
    assert not (reports / "new").exists()


@pytest.mark.parametrize(
    "part", ["data", "data/steps.csv", "data/*.json", "data/metrics.csv"]
)
def test_a_part_of_a_report_is_refused_by_the_name_of_the_report(
    part: str, reports: Path
) -> None:
    with pytest.raises(
        UnusableInputError, match=r"lies in .*report, which is a report written by"
    ):
        find_sources([reports / "report" / part])


def test_figures_exported_by_a_report_are_no_metrics_of_another(reports: Path) -> None:
    with pytest.raises(
        UnusableInputError, match=r"--metrics .*is a report written by rlreport"
    ):
        find_and_read([reports / "logs"], [reports / "report" / "data" / "steps.csv"])


def test_reports_among_the_logs_change_no_figure(reports: Path, tmp_path: Path) -> None:
    logs = write_rollouts(tmp_path / "run")
    alone = rlreport.build(logs, tmp_path / "alone", quiet=True)
    for name in (*FORMS, "report_files"):
        copy = shutil.copytree if (reports / name).is_dir() else shutil.copyfile
        copy(reports / name, logs / name)
    beside = rlreport.build(logs, tmp_path / "beside", quiet=True)
    assert beside.verdict.sentence == alone.verdict.sentence
    assert beside.tables.steps.equals(alone.tables.steps)
    assert beside.tables.metrics.empty


def test_inspect_says_what_was_left_out_as_a_report(
    reports: Path, tmp_path: Path
) -> None:
    logs = write_rollouts(tmp_path / "run")
    shutil.copytree(reports / "report", logs / "report")
    shutil.copyfile(reports / "report.html", logs / "report.html")
    assert "left out: reports written by rlreport" in run("inspect", logs).stdout
    rlreport.build(logs, tmp_path / "out", quiet=True, strict=True)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("write", [write_metrics, write_rollouts])
def test_a_report_inside_the_folder_of_its_logs_can_be_built_again(
    name, write, tmp_path
) -> None:
    logs = write(tmp_path / "run")
    rlreport.build(logs, logs / name, quiet=True)
    first = files_below(logs)
    rlreport.build(logs, logs / name, quiet=True)
    assert files_below(logs) == first


def test_a_path_through_a_report_to_the_logs_is_no_part_of_the_report(
    tmp_path: Path,
) -> None:
    logs = write_rollouts(tmp_path / "run")
    rlreport.build(logs, logs / "report", quiet=True)
    (source,) = find_sources([logs / "report" / ".." / "rank_0.jsonl"]).sources
    assert source.name == "rank_0.jsonl"


def test_watch_refuses_a_report_at_once(reports: Path, tmp_path: Path) -> None:
    result = run(
        "watch", reports / "report", "-o", tmp_path / "out", "--until-idle", "1h"
    )
    assert result.returncode == 2
    assert "is a report written by rlreport" in result.stderr


@pytest.mark.parametrize("name", FORMS)
def test_watch_does_not_see_the_report_that_it_writes(
    name: str, tmp_path: Path
) -> None:
    logs = write_rollouts(tmp_path / "run")
    before = state_of((str(logs),))
    rlreport.build(logs, logs / name, quiet=True)
    assert state_of((str(logs),)) == before


def test_an_index_lists_a_report_once_and_none_of_its_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        logs = write_metrics(tmp_path / "group" / name)
        rlreport.build(logs, logs / "report", quiet=True)
    index = rlreport.index([logs, logs / "report"], tmp_path / "index.html")
    assert index.reports == 1
    # Two runs without reports beside them: a report of each is built, but none of ``report/data``.
    group = rlreport.index([tmp_path / "group"], tmp_path / "group.html")
    assert (group.reports, group.unread) == (2, [])


def test_a_markdown_report_is_not_quoted_as_notes_of_the_author(tmp_path: Path) -> None:
    logs = write_rollouts(tmp_path / "run")
    rlreport.build(logs, logs / "notes.md", quiet=True)
    rlreport.build(logs, tmp_path / "again", quiet=True)
    assert "author-notes" not in (tmp_path / "again" / "index.html").read_text("utf-8")
    result = run("build", logs, "-o", tmp_path / "third", "--notes", logs / "notes.md")
    assert result.returncode == 2
    assert "notes.md: is a report written by rlreport" in result.stderr


def test_a_folder_in_which_a_report_is_being_written_is_left_out(
    tmp_path: Path,
) -> None:
    logs = write_rollouts(tmp_path / "run")
    staging = logs / ".report.0123456789abcdef.part" / "new" / "report"
    staging.mkdir(parents=True)
    shutil.copyfile(logs / "rank_0.jsonl", staging / "rank_1.jsonl")
    assert [source.name for source in find_sources([logs]).sources] == ["rank_0.jsonl"]


def test_in_an_object_store_a_manifest_beside_its_page_marks_a_report() -> None:
    names = [
        "s3://b/run/rank_0.jsonl",
        "s3://b/run/report/index.html",
        "s3://b/run/report/data/manifest.json",
        "s3://b/run/other/data/manifest.json",
    ]
    assert own_folders_in(names) == {"s3://b/run/report/"}


@pytest.mark.parametrize(
    "manifest", ["", "{", "[]", '{"generator": {"name": "other"}}', "null"]
)
def test_a_manifest_of_others_makes_no_report(manifest: str, tmp_path: Path) -> None:
    logs = write_rollouts(tmp_path / "run")
    (logs / "data").mkdir()
    (logs / "data" / "manifest.json").write_text(manifest)
    (logs / "manifest.json").write_text(manifest)
    assert [source.name for source in find_sources([logs]).sources][
        -1
    ] == "rank_0.jsonl"


@pytest.mark.parametrize("form", ["html", "zip", "email", "markdown"])
@pytest.mark.parametrize("name", ["out", "out.report"])
def test_a_report_of_any_name_is_left_out(form: str, name: str, tmp_path: Path) -> None:
    logs = write_rollouts(tmp_path / "run")
    rlreport.build(logs, logs / name, form=form, quiet=True)
    listing = find_sources([logs])
    assert [source.name for source in listing.sources] == ["rank_0.jsonl"]
    assert (name in listing.reports, listing.other) == (True, [])
    result = run("inspect", logs / name)
    assert (result.returncode, "written by rlreport" in result.stderr) == (2, True)


def test_comparisons_indexes_and_caches_among_the_logs_are_left_out(
    tmp_path: Path,
) -> None:
    logs = write_rollouts(tmp_path / "run")
    for name in ("comparison", "comparison.html", "comparison.md"):
        rlreport.compare(logs / "rank_0.jsonl", logs / "rank_0.jsonl", logs / name)
    rlreport.build(logs, logs / "report", cache=logs / "cache", quiet=True)
    rlreport.index([logs / "report"], logs / "index.html")
    listing = find_sources([logs])
    assert [source.name for source in listing.sources] == ["rank_0.jsonl"]
    assert [source.name for source in listing.other] == []
    assert "left out: reports written by rlreport" in run("inspect", logs).stdout
