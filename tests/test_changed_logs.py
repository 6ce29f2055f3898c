"""A log that is cut, deleted or replaced while it is read is named, and such steps not judged."""

import itertools
import json
import os
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.read import logs
from rlreport.read.changed import Change, incomplete_from
from rlreport.read.limits import ReadLimits
from rlreport.tables import NoteKind
from tests.reading import kinds, read, row, write
from tests.running import rlreport as run

STEPS = 20
GROUP = 8
HALF = STEPS // 2


def lines(steps: range, reward: float = 0.5) -> list[bytes]:
    """Lines of the same length, so that ranges begin at a line of a known step."""
    made = []
    for step, n in product(steps, range(GROUP)):
        line = json.dumps(row(step, prompt=f"question {n}", reward=reward))
        made.append(line.encode().ljust(120) + b"\n")
    return made


STEP_BYTES = len(b"".join(lines(range(1))))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "logs" / "log.jsonl", lines(range(STEPS)))


def before_range(
    number: int, act: Callable[[], object], patch: pytest.MonkeyPatch
) -> None:
    """Call ``act`` when the range ``number`` (from 0) is about to be read; a range is a step."""
    read = logs._read
    numbers = itertools.count()

    def reading(*given: Any) -> Any:
        if next(numbers) == number:
            act()
        return read(*given)

    patch.setattr(logs, "_read", reading)
    patch.setattr(logs, "LIMITS", ReadLimits(range_bytes=STEP_BYTES))


def replace(log: Path) -> None:
    other = write(log.with_name("other"), lines(range(3 * STEPS), -1.0))
    other.replace(log)


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (
        lambda log: os.truncate(log, STEP_BYTES * HALF),
        "was cut while it was read: 9.68 kB of 19.4",
    ),
    (
        lambda log: os.truncate(log, STEP_BYTES * HALF + 50),
        "was cut while it was read: 9.73 kB of",
    ),
    (lambda log: os.truncate(log, 0), "was cut while it was read: 0 bytes of 19.4 kB"),
    (Path.unlink, "was deleted while it was read"),
    (replace, "was replaced while it was read"),
]


@pytest.mark.parametrize(("change", "how"), CHANGES)
def test_a_log_that_changes_while_it_is_read_is_a_warning_and_its_end_is_not_judged(
    change, how, log, monkeypatch
):
    before_range(HALF, partial(change, log), monkeypatch)
    done = run("check", log.parent, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert f"warning  broken_log: log.jsonl {how}" in done.stdout
    assert f"Steps from {HALF - 1} on are not judged" in done.stdout
    assert "Healthy" not in done.stdout
    assert "as if still being written" not in done.stdout


def test_a_report_of_a_log_that_was_cut_says_so_everywhere(log, tmp_path, monkeypatch):
    before_range(HALF, partial(os.truncate, log, STEP_BYTES * HALF), monkeypatch)
    out = tmp_path / "out"
    done = run("build", log.parent, "-o", out, "--workers", 1)
    assert (
        "warning: log.jsonl was cut while it was read: 9.68 kB of 19.4 kB\n"
        in done.stderr
    )
    overview = (out / "index.html").read_text("utf-8")
    said = "log.jsonl was cut while it was read: 9.68 kB of 19.4 kB. Steps from 9 on are not judged"
    assert said in overview
    data = (out / "data.html").read_text("utf-8")
    assert "was cut while it was read: 9.68 kB of 19.4 kB (log.jsonl)" in data
    pages = [
        (out / f"steps/{step}.html").read_text("utf-8") for step in (HALF - 2, HALF - 1)
    ]
    assert ['class="incomplete"' in page for page in pages] == [False, True]


def test_with_strict_a_log_that_was_deleted_while_it_was_read_is_an_error(
    log, monkeypatch
):
    before_range(HALF, log.unlink, monkeypatch)
    done = run("check", log.parent, "--workers", 1, "--strict")
    assert done.returncode == 2
    assert "log.jsonl: was deleted while it was read" in done.stderr


def test_a_log_that_is_gone_before_anything_is_read_is_named(log, monkeypatch):
    before_range(0, log.unlink, monkeypatch)
    done = run("check", log.parent, "--workers", 1)
    assert done.returncode == 2
    assert "log.jsonl was deleted while it was read" in done.stderr


@pytest.mark.parametrize("at", [0, HALF])
def test_a_log_that_grows_while_it_is_read_is_judged_as_it_was(at, log, monkeypatch):
    before = run("check", log.parent, "--workers", 1).stdout

    def grow() -> None:
        with log.open("ab") as file:
            file.write(b"".join(lines(range(STEPS, 2 * STEPS), -1.0)))

    before_range(at, grow, monkeypatch)
    assert run("check", log.parent, "--workers", 1).stdout == before


def test_a_list_that_is_written_anew_while_it_is_read_is_read_as_a_whole(
    tmp_path, monkeypatch
):
    log = tmp_path / "log.json"
    log.write_text(json.dumps([row(step) for step in range(3)]))

    def write_anew() -> None:
        new = tmp_path / "new"
        new.write_text(json.dumps([row(step) for step in range(4)]))
        new.replace(log)

    before_range(0, write_anew, monkeypatch)
    scan = read(log)
    assert (len(scan.responses), kinds(scan)) == (4, set())


def test_a_list_that_is_cut_while_it_is_read_is_named(tmp_path, monkeypatch):
    log = tmp_path / "log.json"
    log.write_text(json.dumps([row(step) for step in range(30)]))
    other = write(tmp_path / "other.jsonl", lines(range(STEPS)))
    before_range(0, partial(os.truncate, log, 100), monkeypatch)
    scan = read(log, other)
    assert [
        (note.text, note.file) for note in scan.notes if note.kind == NoteKind.CHANGED
    ] == [("was cut while it was read: 100 bytes of 2.24 kB", "log.json")]
    assert scan.incomplete_from is None


def test_what_was_cached_of_a_log_that_was_cut_is_not_used_with_the_warning(
    log, tmp_path, monkeypatch
):
    cache = str(tmp_path / "cache")
    with monkeypatch.context() as patch:
        before_range(HALF, partial(os.truncate, log, STEP_BYTES * HALF), patch)
        first = read(log, cache=cache)
    assert kinds(first) == {NoteKind.CHANGED}
    again = read(log, cache=cache)
    assert (kinds(again), again.incomplete_from) == (set(), None)
    assert len(again.responses) == len(first.responses) == HALF * GROUP


def columns(*files: list[int]) -> dict[str, np.ndarray]:
    """Columns of rows whose steps are given by file; row i of a file is at offset i."""
    return {
        "file": np.repeat(range(len(files)), list(map(len, files))),
        "offset": np.concatenate([np.arange(len(steps)) for steps in files]),
        "step": np.concatenate([np.array(steps, np.int64) for steps in files]),
    }


@pytest.mark.parametrize(
    ("files", "cut", "first"),
    [
        ([[0, 0, 1, 1, 2]], {0: 9}, 2),  # the last step that was read
        ([[0, 0, 1, 1, 2]], {0: 3}, 1),  # of the ranges before the first that changed
        ([[0, 1, 1], [0, 1, 2, 3]], {0: 9}, 1),  # later steps lack rows of this rank
        ([[0, 1, 2, 1, 3, 2, 4]], {0: 9}, 3),  # rows come up to one step late
        ([[4, 2, 0, 3, 1]], {0: 9}, 0),  # steps in no order
        ([[0, 1, 2], [0, 1], []], {2: 9}, None),  # nothing is known of its steps
        (
            [[0, 0], [1, 1], [2, 2]],
            {1: 9},
            None,
        ),  # a dump of a step is of that step only
        ([[0, 0], [1, 1], [2, 2]], {2: 9}, 2),
        (
            [[0, 0], [1, 1], [2, 2]],
            {1: 9, 2: 9},
            1,
        ),
    ],
)
def test_steps_of_which_rows_may_be_missing_are_those_that_may_follow_in_the_log(
    files, cut, first
):
    changes = {file: Change(file, stop, "was cut") for file, stop in cut.items()}
    assert incomplete_from(changes, columns(*files)) == first


def test_a_log_cut_within_its_first_step_is_judged_by_that_step(log, monkeypatch):
    before_range(1, partial(os.truncate, log, STEP_BYTES // 2), monkeypatch)
    report = rlreport.build(log, log.parent / "out", workers=1)
    assert report.tables.incomplete_from == 0
    assert report.tables.steps["incomplete"].tolist() == [True]
    assert [finding.id for finding in report.verdict.findings][:1] == ["broken_log"]
