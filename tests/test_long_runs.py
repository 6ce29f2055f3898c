"""Long runs cost what they hold, and what pages and commands leave out of them is said."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.long_logs import write_metrics, write_responses, write_step_files
from rlreport.pages.data import STEPS_IN_JSON
from rlreport.pages.listed_steps import MOST_LISTED
from tests.reading import read, row, write
from tests.running import build, rlreport

LONGER = 4  # times
MOST_COST = 6.0  # times, for what is LONGER; something quadratic would cost 16 times


def cpu_of(*arguments: object) -> float:
    """Return the CPU seconds of a command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "rlreport", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def growth(command: list[object], start: Path, logs: Path, longer: Path) -> float:
    """Return how many times the CPU for ``longer`` is that for ``logs``, without the start."""
    first = cpu_of(*command, start)
    return (cpu_of(*command, longer) - first) / (cpu_of(*command, logs) - first)


@pytest.mark.ci
@pytest.mark.timed
def test_checking_metrics_costs_as_many_times_more_as_there_are_steps(tmp_path):
    for steps in (10, 10_000, LONGER * 10_000):
        write_metrics(tmp_path / str(steps) / "metrics.jsonl", steps)
    logs = [tmp_path / str(steps) for steps in (10, 10_000, LONGER * 10_000)]
    assert growth(["check"], *logs) <= MOST_COST


@pytest.mark.ci
@pytest.mark.timed
def test_checking_responses_costs_as_many_times_more_as_there_are_steps(tmp_path):
    for steps in (10, 6_000, LONGER * 6_000):
        write_responses(tmp_path / str(steps) / "rollouts.jsonl", steps, 2)
    logs = [tmp_path / str(steps) for steps in (10, 6_000, LONGER * 6_000)]
    assert growth(["check", "--workers", 1], *logs) <= MOST_COST


@pytest.mark.ci
@pytest.mark.timed
def test_listing_files_costs_as_many_times_more_as_there_are_files(tmp_path):
    for files in (1, 800, LONGER * 800):
        write_step_files(tmp_path / str(files), files, 1)
    logs = [tmp_path / str(files) for files in (1, 800, LONGER * 800)]
    assert growth(["inspect", "--workers", 1], *logs) <= MOST_COST


def test_tables_of_a_long_run_list_steps_with_a_page_and_say_how_many(tmp_path):
    steps = MOST_LISTED + 500
    write_responses(tmp_path / "rollouts.jsonl", steps, 2)
    # So little room that only some steps have a page
    build(tmp_path / "rollouts.jsonl", tmp_path / "out", "--max-size", "5MB")
    about = json.loads((tmp_path / "out" / "data" / "report.json").read_text())
    shown = set(about["shown"]["steps"])
    assert len(about["steps"]) == steps
    for name in ("index.html", "prompts.html"):
        page = (tmp_path / "out" / name).read_text()
        listed = [step for step in range(steps) if f'data-n="{step}"' in page]
        assert shown <= set(listed)
        assert MOST_LISTED <= len(listed) < steps
        assert f"of {steps:,} steps: all that have a page" in page
        assert "data/steps.csv lists all steps." in page


def test_report_json_says_how_many_steps_it_leaves_out(tmp_path, monkeypatch):
    assert STEPS_IN_JSON == 20_000
    monkeypatch.setattr("rlreport.pages.data.STEPS_IN_JSON", 20)
    log = write(tmp_path / "log.jsonl", [row(step) for step in range(50)])
    build(log, tmp_path / "out", "--workers", 1)
    about = json.loads((tmp_path / "out" / "data" / "report.json").read_text())
    assert about["steps_in_all"] == 50
    numbers = [step["step"] for step in about["steps"]]
    assert len(numbers) == 20
    assert (numbers[0], numbers[-1]) == (0, 49)
    assert len((tmp_path / "out" / "data" / "steps.csv").read_text().splitlines()) == 51


def test_inspect_has_one_line_for_files_that_differ_only_in_numbers(tmp_path):
    write_step_files(tmp_path, 30, 2)
    write(tmp_path / "other.jsonl", [row(0)])
    printed = rlreport("inspect", tmp_path, "-q").stdout
    files = printed.partition("\nfiles\n")[2].partition("\n\n")[0].splitlines()
    assert len(files) == 2
    assert files[0].startswith("  1.jsonl … 30.jsonl  30 files: rlboard, ")
    assert "60 responses" in files[0]
    assert files[1].startswith("  other.jsonl  rlboard, ")


def test_many_files_that_are_not_read_have_few_notes_that_count_them_all(tmp_path):
    write(tmp_path / "a.jsonl", [row(0)])
    for number in range(100):  # one structure
        (tmp_path / f"config_{number}.json").write_text('{"layers": 2}')
    for number in range(100):  # a structure each
        (tmp_path / f"odd_{number}.json").write_text(f'{{"key_{number}": 2}}')
    notes = [note for note in read(tmp_path).notes if "not read" in str(note.text)]
    assert len(notes) <= 25
    assert sum(note.count for note in notes) == 200


def test_many_empty_files_have_one_note(tmp_path):
    write(tmp_path / "a.jsonl", [row(0)])
    for number in range(20):
        (tmp_path / f"empty_{number}.jsonl").write_text("")
    (note,) = (note for note in read(tmp_path).notes if note.kind == "empty_file")
    assert note.count == 20
