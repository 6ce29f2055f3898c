"""An index builds the reports of runs that have none: beside it, once, and one by one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.errors import OutputError, RlreportError
from rlreport.flows.build import build_report
from rlreport.flows.run_reports import ReportsFolder, safe_name
from rlreport.system.own_output import BUILT_FROM
from tests.reading import write
from tests.running import rlreport as run

BUILD = "rlreport.flows.run_reports.build_report"


def write_run(folder: Path, slope: float = 0.02, name: str = "metrics.csv") -> Path:
    """Write the metrics of a run whose reward rises."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{step},{0.1 + slope * step}" for step in range(12)]
    (folder / name).write_text("\n".join(["step,reward", *rows, ""]))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs in ``runs``, one of them deeper."""
    write_run(tmp_path / "runs/a")
    write_run(tmp_path / "runs/sweep/b", 0.03)
    write_run(tmp_path / "runs/sweep/c", 0.04)
    return tmp_path / "runs"


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def index(places: object, out: Path, **options: Any) -> rlreport.Index:
    options.setdefault("workers", 1)
    return rlreport.index(places, out, **options)  # type: ignore[arg-type]


def counts(made: rlreport.Index) -> tuple[int, int, int]:
    return made.built, made.kept, len(made.unread)


def test_reports_of_runs_are_built_beside_the_index_and_never_among_the_logs(
    runs: Path, tmp_path: Path
) -> None:
    before = files_of(runs)
    made = index(runs, tmp_path / "site/all.html")
    assert (made.reports, *counts(made)) == (3, 3, 0, 0)
    assert files_of(runs) == before
    site = tmp_path / "site"
    assert sorted(path.name for path in site.iterdir()) == ["all-reports", "all.html"]
    reports = sorted(path.name for path in (site / "all-reports").iterdir())
    assert reports == ["a", "sweep-b", "sweep-c"]
    page = made.out.read_text()
    for name in reports:
        assert f'href="./all-reports/{name}/index.html"' in page
    # Links are relative, and no path of this machine is on a page.
    for content in files_of(site).values():
        assert str(tmp_path).encode() not in content


def test_only_what_has_changed_is_built_again(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.html"
    index(runs, out)
    page = out.read_bytes()
    before = files_of(tmp_path / "all-reports")
    assert counts(index(runs, out)) == (0, 3, 0)
    assert out.read_bytes() == page
    assert files_of(tmp_path / "all-reports") == before

    write_run(runs / "sweep/c", 0.01)
    write_run(runs / "d")
    assert counts(index(runs, out)) == (2, 2, 0)
    (runs / "sweep/config.json").write_text('{"lr": 1}')  # of b and c, which have none
    assert counts(index(runs, out)) == (2, 2, 0)
    mute = {"kl_explosion": "no KL"}
    assert counts(index(runs, out, mute=mute)) == (4, 0, 0)
    assert counts(index(runs, out, rebuild=True)) == (4, 0, 0)
    (tmp_path / "all-reports/a/data/report.json").unlink()
    assert counts(index(runs, out)) == (1, 3, 0)
    names = sorted(path.name for path in (tmp_path / "all-reports").iterdir())
    assert names == ["a", "d", "sweep-b", "sweep-c"]


def test_what_is_moved_together_is_up_to_date(runs: Path, tmp_path: Path) -> None:
    index(runs, tmp_path / "runs/all.html")
    (tmp_path / "elsewhere").mkdir()
    moved = runs.rename(tmp_path / "elsewhere/moved")
    made = index(moved, moved / "all.html")
    # The folder of reports lies in that of the runs, and is not taken for one.
    assert (made.reports, *counts(made)) == (3, 0, 3, 0)


def test_a_report_whose_logs_are_gone_is_listed_where_it_lies_in_the_folder(
    runs: Path, tmp_path: Path
) -> None:
    index(runs, runs / "all.html")
    (runs / "a/metrics.csv").unlink()
    made = index(runs, runs / "all.html")
    assert (made.reports, *counts(made)) == (3, 0, 2, 0)
    assert "./all-reports/a/index.html" in made.out.read_text()


def test_a_run_that_cannot_be_built_is_a_row_and_the_others_are_built(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "broken").mkdir()
    (runs / "broken/rollouts.jsonl").write_text("no json\n")

    def fail_on_b(logs: Any, out: Any, *rest: Any) -> Any:
        if out.name == "sweep-b":
            raise ValueError("<b>odd</b>")
        return build_report(logs, out, *rest)

    monkeypatch.setattr(BUILD, fail_on_b)
    made = index(runs, tmp_path / "all.html")
    assert counts(made) == (2, 0, 2)
    reasons = dict(made.unread)
    assert reasons["runs/sweep/b"] == "ValueError: <b>odd</b>"
    assert "not valid JSON" in reasons["runs/broken"]
    page = made.out.read_text()
    assert "ValueError: &lt;b&gt;odd" in page
    assert str(tmp_path) not in page
    monkeypatch.undo()
    # It is tried again at the next call.
    assert counts(index(runs, tmp_path / "all.html")) == (1, 2, 1)


def test_without_any_run_that_can_be_read_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "runs/broken").mkdir(parents=True)
    (tmp_path / "runs/broken/rollouts.jsonl").write_text("no json\n")
    done = run("index", tmp_path / "runs", "-o", tmp_path / "all.html", "-q")
    assert done.returncode == 2
    assert "rollouts.jsonl" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


# In a process of its own, as only one in which no chart was drawn can fork
_KILLS_ITSELF = """
import multiprocessing, os, signal
import rlreport
from rlreport.flows import run_reports

build = run_reports.build_report

def die_on_b(logs, out, *rest):
    if out.name == "sweep-b" and multiprocessing.current_process().daemon:
        os.kill(os.getpid(), signal.SIGKILL)
    return build(logs, out, *rest)

run_reports.build_report = die_on_b
made = rlreport.index("runs", "all.html", workers=2)
(unread,) = made.unread
assert made.built == 3 and unread[0] == "runs/sweep/b", made
assert "a worker process was killed" in unread[1], made
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
def test_runs_are_built_in_processes_and_one_that_is_killed_is_a_row(
    runs: Path, tmp_path: Path
) -> None:
    write_run(runs / "d")
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-c", _KILLS_ITSELF], cwd=tmp_path, env=one_thread, check=True
    )
    assert index(runs, tmp_path / "all.html").unread == []


def test_runs_with_large_logs_are_built_one_by_one_by_all_processes(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[int, object]] = []

    def note(logs: Any, out: Any, options: Any, progress: Any, workers: Any) -> Any:
        built.append((os.getpid(), workers._count))
        return build_report(logs, out, options, progress, workers)

    monkeypatch.setattr(BUILD, note)
    monkeypatch.setattr("rlreport.flows.run_reports._LARGE", 0)
    assert index(runs, tmp_path / "all.html", workers=2).built == 3
    assert built == [(os.getpid(), 2)] * 3


def test_an_interrupt_leaves_the_reports_that_were_built_and_nothing_else(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(logs: Any, out: Any, *rest: Any) -> Any:
        if out.name == "sweep-c":
            raise KeyboardInterrupt
        return build_report(logs, out, *rest)

    monkeypatch.setattr(BUILD, interrupted)
    with pytest.raises(KeyboardInterrupt):
        index(runs, tmp_path / "all.html")
    monkeypatch.undo()
    assert not (tmp_path / "all.html").exists()
    names = sorted(path.name for path in (tmp_path / "all-reports").iterdir())
    assert names == ["a", "sweep-b"]
    assert counts(index(runs, tmp_path / "all.html")) == (1, 2, 0)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_the_processes_and_leaves_no_half_written_report(
    tmp_path: Path,
) -> None:
    for number in range(12):
        write_run(tmp_path / f"runs/r{number}", 0.01 + number / 500)
    command = [sys.executable, "-m", "rlreport", "index", "runs", "-o", "all.html"]
    process = subprocess.Popen(
        [*command, "--workers", "2"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    reports = tmp_path / "all-reports"
    until(lambda: reports.is_dir() and len(stamps(reports)) >= 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    names = {path.name for path in reports.iterdir()}
    assert names == stamps(reports)  # no staging folder
    assert 2 <= len(names) < 12
    assert not (tmp_path / "all.html").exists()
    made = index(tmp_path / "runs", tmp_path / "all.html")
    assert counts(made) == (12 - len(names), len(names), 0)


def stamps(reports: Path) -> set[str]:
    return {path.parent.parent.name for path in reports.glob(f"[!.]*/{BUILT_FROM}")}


def until(is_so: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("what", ["file", "report", "link", "folder is a link"])
def test_files_of_others_in_the_folder_of_reports_are_not_touched(
    what: str, runs: Path, tmp_path: Path
) -> None:
    reports = tmp_path / "all-reports"
    other = tmp_path / "other"
    rlreport.build(runs / "a", other, workers=1)
    if what == "folder is a link":
        reports.symlink_to(other)
    else:
        reports.mkdir()
        if what == "file":
            (reports / "a").mkdir()
            (reports / "a/mine.txt").write_text("mine")
        elif what == "report":
            other = other.rename(reports / "a")
        else:
            (reports / "a").symlink_to(other)
    before = files_of(tmp_path)
    with pytest.raises(OutputError, match="another name for the index"):
        index(runs, tmp_path / "all.html")
    assert files_of(tmp_path) == before
    assert index(runs, tmp_path / "free.html").built == 3


def test_what_a_stranger_says_of_a_report_is_not_trusted(
    runs: Path, tmp_path: Path
) -> None:
    index(runs, tmp_path / "all.html")
    stamp = tmp_path / "all-reports/a" / BUILT_FROM
    good = json.loads(stamp.read_text())
    for hostile in (
        "[" * 100_000,
        "null",
        json.dumps(good | {"run": "../../x", "runs": 1e400}),
        json.dumps(good | {"runs": True}),
        json.dumps(good | {"source": ["x"]}),
        "x" * 20_000,
    ):
        stamp.write_text(hostile)
        assert "a" not in ReportsFolder.of(tmp_path / "all.html").stamps
    stamp.write_text(json.dumps(good))
    assert "a" in ReportsFolder.of(tmp_path / "all.html").stamps


def test_names_of_reports_are_safe_on_every_system_and_one_for_each_run(
    tmp_path: Path,
) -> None:
    assert safe_name("lr=1e-5 kl/0.1") == "lr-1e-5-kl-0.1"
    assert safe_name("../..") == "run"
    assert safe_name(".hidden.") == "hidden"
    assert safe_name("con") == "run-con"
    assert safe_name("NUL.txt") == "run-NUL.txt"
    assert safe_name("实验") == "实验"
    assert len(safe_name("实" * 300).encode()) <= 100
    assert safe_name("a\0b\n\ud800<") == "a-b"
    for place in ("x y", "x-y", "x/y", "X-y"):
        write_run(tmp_path / "runs" / place)
    index(tmp_path / "runs", tmp_path / "all.html")
    names = [path.name for path in (tmp_path / "all-reports").iterdir()]
    assert len({name.casefold() for name in names}) == 4
    # A run keeps its name when others come before it.
    write_run(tmp_path / "runs/X y")
    assert counts(index(tmp_path / "runs", tmp_path / "all.html")) == (1, 4, 0)
    assert set(names) < {path.name for path in (tmp_path / "all-reports").iterdir()}


def test_the_report_of_a_run_is_a_folder_whatever_its_name_ends_in(
    tmp_path: Path,
) -> None:
    names = [f"v{suffix}" for suffix in (".html", ".zip", ".md", ".eml", ".txt")]
    for name in names:
        write_run(tmp_path / "runs" / name)
    for expected in ((5, 0, 0), (0, 5, 0)):
        made = index(tmp_path / "runs", tmp_path / "all.html")
        assert counts(made) == expected
    for name in names:
        assert (tmp_path / "all-reports" / name / "index.html").is_file()
        assert f'href="./all-reports/{name}/index.html"' in made.out.read_text()
    # Each is a side of a comparison, too.
    zipped, html = (tmp_path / "all-reports" / name for name in ("v.zip", "v.html"))
    rlreport.compare(zipped, html, tmp_path / "compared")


def write_rollouts(path: Path, reward: float) -> Path:
    rows = [
        {"step": step, "prompt": f"p{n}", "response": "r", "reward": reward * step + n}
        for step, n in product(range(5), range(4))
    ]
    return write(path, rows)


def test_a_run_that_has_a_report_gets_no_other(tmp_path: Path) -> None:
    for name, reward in (("inside", 1), ("beside", 0.123), ("none", 0.12345)):
        write_rollouts(tmp_path / "runs" / name / "log.jsonl", reward)
    options: dict[str, Any] = {"title": "mine", "workers": 1}
    rlreport.build(tmp_path / "runs/inside", tmp_path / "runs/inside/out", **options)
    rlreport.build(tmp_path / "runs/beside", tmp_path / "runs/mine.zip", **options)
    before = files_of(tmp_path / "runs")
    made = index(tmp_path / "runs", tmp_path / "all.html")
    assert (made.reports, *counts(made)) == (3, 1, 0, 0)
    assert [path.name for path in (tmp_path / "all-reports").iterdir()] == ["none"]
    assert files_of(tmp_path / "runs") == before
    # Which of two runs of equal files a report is of cannot be told: both get one.
    write_rollouts(tmp_path / "runs/copy/log.jsonl", 0.123)
    assert index(tmp_path / "runs", tmp_path / "all.html").built == 2


def test_several_runs_in_a_folder_get_a_report_each_which_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, slope in (("adam", 0.02), ("muon", 0.03), ("sgd", 0.04)):
        write_run(tmp_path / "metrics", slope, f"{name}.csv")
        write_rollouts(tmp_path / "rollouts" / f"run_{name}.jsonl", slope)
    places = [tmp_path / "metrics", tmp_path / "rollouts"]
    made = index(places, tmp_path / "all.html")
    assert (made.reports, *counts(made)) == (6, 6, 0, 0)
    names = sorted(path.name for path in (tmp_path / "all-reports").iterdir())
    assert names == [
        *(f"metrics-{name}" for name in ("adam", "muon", "sgd")),
        *(f"rollouts-run_{name}" for name in ("adam", "muon", "sgd")),
    ]
    monkeypatch.setattr(BUILD, lambda *_: pytest.fail("built"))
    assert counts(index(places, tmp_path / "all.html")) == (0, 6, 0)


def test_after_an_interrupt_the_other_runs_of_a_folder_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, slope in (("adam", 0.02), ("muon", 0.03), ("sgd", 0.04)):
        write_run(tmp_path / "metrics", slope, f"{name}.csv")
    built: list[str] = []

    def note(logs: Any, out: Any, *rest: Any) -> Any:
        if out.name == "metrics-muon" and "metrics-muon" not in built:
            built.append(out.name)
            raise KeyboardInterrupt
        report = build_report(logs, out, *rest)
        built.append(out.name)
        return report

    monkeypatch.setattr(BUILD, note)
    with pytest.raises(KeyboardInterrupt):
        index(tmp_path / "metrics", tmp_path / "all.html")
    built.remove("metrics-adam")
    assert counts(index(tmp_path / "metrics", tmp_path / "all.html")) == (2, 1, 0)
    assert "metrics-adam" not in built


def test_options_of_build_apply_to_every_report(runs: Path, tmp_path: Path) -> None:
    write_rollouts(tmp_path / "runs/texts/log.jsonl", 0.1)
    out = tmp_path / "all.html"
    index(runs, out, lang="zh", redact=True, config=[])
    for report in (tmp_path / "all-reports").iterdir():
        assert '<html lang="zh' in (report / "index.html").read_text()
        settings = json.loads((report / "data/report.json").read_text())["settings"]
        assert settings["redact"] is True
    with pytest.raises(TypeError, match="index"):
        rlreport.index(runs, out, charts=["x.py"])
    with pytest.raises(RlreportError, match="nonsense"):
        index(runs, out, mute={"nonsense": "why"})


def test_the_command_tells_which_run_is_built_and_what_became_of_all(
    runs: Path, tmp_path: Path
) -> None:
    (runs / "broken").mkdir()
    (runs / "broken/rollouts.jsonl").write_text("no json\n")
    words = ("index", runs, "-o", tmp_path / "all.html", "--workers", "1")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[:4] == [
        "building 1 of 4: a",
        "building 2 of 4: broken",
        "building 3 of 4: sweep b",
        "building 4 of 4: sweep c",
    ]
    assert lines[4].startswith("not read: runs/broken: ")
    assert done.stdout.splitlines()[0] == "4 reports: 3 built, 1 not read"
    assert done.stdout.splitlines()[-1].endswith("all.html")
    again = run(*words)
    assert again.stderr.splitlines()[0] == "building 1 of 1: broken"
    assert again.stdout.startswith("4 reports: 3 up to date, 1 not read\n")
    silent = run(*words, "--quiet", "--rebuild")
    assert (silent.stdout, silent.stderr) == ("", "")
