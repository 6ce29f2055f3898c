"""A second build reads and writes what changed, and gives the report that a first one would."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.pages import step_jobs
from rlreport.pages.context import StepJob
from tests.forms import files_below
from tests.reading import tokens, write

STEPS = 10
EACH = 10


def rows(steps: range, seed: int = 0) -> list[dict[str, Any]]:
    """Steps of responses, each to a prompt of its own, on which nothing is found.

    More steps begin with the same rows.
    """
    rng = random.Random(seed)
    made = []
    for step in steps:
        for n in range(EACH):
            words = [
                f" {rng.choice('abcdefghijklmnop')}"
                for _ in range(rng.randrange(20, 40))
            ]
            made.append(
                tokens(
                    *words,
                    step=step,
                    reward=rng.gauss(0, 1),
                    prompt=f"Say {step}, {n}.",
                )
                | {"response": "".join(words)}
            )
    return made


@pytest.fixture
def built(tmp_path: Path) -> Callable[..., dict[str, bytes]]:
    """Build the folder ``out`` of ``log.jsonl`` with a cache, and return its files."""

    def build(
        out: str = "out", cache: str = "cache", **options: Any
    ) -> dict[str, bytes]:
        where = str(tmp_path / cache) if cache else ""
        rlreport.build(
            tmp_path / "log.jsonl", tmp_path / out, cache=where, workers=1, **options
        )
        return files_below(tmp_path / out)

    return build


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps whose pages are rendered; those of the cache are not."""
    steps: list[int] = []
    render = step_jobs._render

    def noting(job: StepJob, *shared: Any) -> Any:
        steps.append(job.plan.step)
        return render(job, *shared)

    monkeypatch.setattr(step_jobs, "_render", noting)
    return steps


def test_pages_of_the_same_logs_are_rendered_once(tmp_path, built, rendered):
    write(tmp_path / "log.jsonl", rows(range(STEPS)))
    first = built()
    assert set(rendered) == set(range(STEPS))
    rendered.clear()
    assert built("again") == first
    assert not rendered


def test_of_a_grown_log_only_pages_that_changed_are_rendered(tmp_path, built, rendered):
    log = write(tmp_path / "log.jsonl", rows(range(STEPS)))
    before = built()
    rendered.clear()
    write(log, rows(range(STEPS + 1)))
    after = built()
    changed = {
        step
        for step in range(STEPS + 1)
        if after[f"steps/{step}.html"] != before.get(f"steps/{step}.html")
    }
    assert {STEPS - 1, STEPS} <= changed  # the last page has a later neighbour now
    assert changed <= set(rendered)
    # Of some others, rows of the responses page changed: what is an extreme of the run.
    assert len(rendered) < STEPS


def test_a_row_that_changes_renders_the_page_of_its_step(tmp_path, built, rendered):
    logged = rows(range(STEPS))
    log = write(tmp_path / "log.jsonl", logged)
    built()
    rendered.clear()
    # Of the same length: rows behind it stay where they are.
    logged[25]["prompt"] = logged[25]["prompt"].replace(",", ";")
    write(log, logged)
    again = built()
    assert rendered == [2]
    assert again == built("cold", "")


@pytest.mark.parametrize(
    "options",
    [
        {"lang": "zh"},
        {"redact": True},
        {"title": "Another"},
        {"gamma": 0.5},
        {"redact": "names"},
    ],
    ids=str,
)
def test_a_page_of_other_settings_is_not_taken(tmp_path, built, options):
    write(tmp_path / "log.jsonl", rows(range(3)))
    before = built()
    after = built("other", **options)
    assert after == built("cold", "", **options)
    assert after["steps/1.html"] != before["steps/1.html"]


def test_a_finding_changes_the_page_of_its_step_only(tmp_path, built, rendered):
    log = write(tmp_path / "log.jsonl", rows(range(STEPS)))
    built()
    rendered.clear()
    # The last step has one response only: a finding says that it is incomplete.
    write(log, rows(range(STEPS + 1))[: -EACH + 1])
    after = built()
    assert len(rendered) < STEPS
    assert after == built("cold", "")
    pages = {step: after[f"steps/{step}.html"].decode() for step in range(STEPS + 1)}
    assert [step for step in pages if "incomplete log" in pages[step]] == [STEPS]


@pytest.mark.parametrize("options", [{"redact": "names"}, {"max_size": 1_800_000}])
def test_a_grown_log_gives_the_report_that_it_gives_without_a_cache(
    tmp_path, built, options
):
    log = write(tmp_path / "log.jsonl", rows(range(6)))
    built(**options)
    again = rows(range(3, 4), seed=1)
    write(log, rows(range(7)) + again)
    assert built(**options) == built("cold", "", **options)


def test_only_pages_that_changed_are_written(tmp_path, built):
    log = write(tmp_path / "log.jsonl", rows(range(STEPS)))
    before = built()
    pages = {path: path.stat() for path in (tmp_path / "out" / "steps").iterdir()}
    write(log, rows(range(STEPS + 1)))
    after = built()
    assert after == built("cold", "")
    changed = {name for name in after if after[name] != before.get(name)}
    # The last page has a later neighbour now, some other a response that is an extreme of the run.
    assert len([name for name in changed if name.startswith("steps/")]) < STEPS // 2
    for path, status in pages.items():
        same = path.stat().st_mtime_ns == status.st_mtime_ns
        assert same == (path.relative_to(tmp_path / "out").as_posix() not in changed)


def test_links_to_the_same_prompt_at_a_new_step_change_no_page(tmp_path, built):
    earlier = rows(range(STEPS))
    log = write(tmp_path / "log.jsonl", earlier)
    before = built()
    later = rows(range(STEPS, STEPS + 1))
    for row in later:
        same = earlier[20] if row["reward"] > 0 else earlier[0]
        row["prompt"] = same["prompt"]
    write(log, earlier + later)
    after = built()
    assert after["steps/0.html"] == before["steps/0.html"]
    assert after["data/run.js"] != before["data/run.js"]
    assert after == built("cold", "")


def test_harmed_entries_and_a_link_in_the_place_of_a_page_are_replaced(tmp_path, built):
    write(tmp_path / "log.jsonl", rows(range(STEPS)))
    cold = built()
    page = tmp_path / "out" / "steps" / "1.html"
    shutil.copy(page, tmp_path / "elsewhere.html")
    page.unlink()
    page.symlink_to(tmp_path / "elsewhere.html")
    for entry in (tmp_path / "cache").glob("*/*"):
        entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    assert built() == cold
    assert not page.is_symlink()


def test_a_step_in_progress_is_shown_apart_and_not_judged(tmp_path, built):
    begun = rows(range(STEPS, STEPS + 1))[:3]
    write(tmp_path / "log.jsonl", rows(range(STEPS)) + begun)
    whole = rlreport.build(tmp_path / "log.jsonl", tmp_path / "whole", workers=1)
    assert whole.tables.steps["incomplete"].iloc[-1]
    assert any("incomplete" in finding.title for finding in whole.verdict.findings)
    report = rlreport.build(
        tmp_path / "log.jsonl", tmp_path / "out", workers=1, in_progress=True
    )
    assert not report.tables.steps["incomplete"].any()
    assert report.tables.steps["responses"].iloc[-1] == 3
    for finding in report.verdict.findings:
        assert "incomplete" not in finding.title
        assert STEPS not in finding.steps
        assert STEPS not in [example.step for example in finding.shown]
    # What is judged is what a log without the step gives; sums by token are of the whole log.
    write(tmp_path / "log.jsonl", rows(range(STEPS)))
    before = rlreport.build(tmp_path / "log.jsonl", tmp_path / "out", workers=1)
    assert report.verdict.windows == before.verdict.windows
    page = built("out", in_progress=True)[f"steps/{STEPS - 1}.html"].decode()
    assert "in progress" in page


def test_a_run_of_one_step_in_progress_is_judged_as_it_is(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", rows(range(1)))
    report = rlreport.build(log, tmp_path / "out", workers=1, in_progress=True)
    assert report.tables.in_progress is None
