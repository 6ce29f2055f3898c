"""Charts of the user's own: drawn and carried like ours, and no more harm than one chart."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

import rlreport
from rlreport.errors import UsageError
from tests.reading import row, write
from tests.running import rlreport as command

GOOD = """
    from __future__ import annotations
    from dataclasses import dataclass
    import altair as alt
    import pandas as pd

    @dataclass
    class Look:
        width: int = 3

    def reward_range(tables):
        '''Lowest and highest reward of each step.'''
        steps = tables.steps[["step", "reward_min", "reward_max"]]
        tables.steps.loc[:, "reward_mean"] = -1.0  # nobody else sees it
        return alt.Chart(steps).mark_area().encode(x="step:Q", y="reward_min:Q", y2="reward_max:Q")

    def two(tables):
        data = pd.DataFrame({"a": ["</script><b>", "x"], "b": [1, 2]})
        chart = alt.Chart(data, title="Mine").mark_bar().encode(x="a:N", y="b:Q")
        return [chart, chart.mark_point()]
"""
BAD = """
    import altair as alt

    def raises(tables):
        raise KeyError("no such column")

    def number(tables):
        return 5

    def elsewhere(tables):
        return alt.Chart("https://example.org/a.csv").mark_point().encode(x="a:Q")

    def large(tables):
        rows = [{"a": "x" * 900} for _ in range(1000)]
        return alt.Chart(alt.InlineData(rows)).mark_point().encode(x="a:N")

    def fine(tables):
        return alt.Chart(tables.steps).mark_line().encode(x="step:Q", y="reward_mean:Q")
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    rows = [row(step, reward=float(i)) for step in range(3) for i in range(2)]
    return write(tmp_path / "log.jsonl", rows)


def file(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(dedent(text), "utf-8")
    return path


def test_functions_of_a_named_file_become_charts(logs: Path, tmp_path: Path) -> None:
    report = rlreport.build(logs, tmp_path / "r", charts=[file(tmp_path, GOOD)], workers=1)
    page = (Path(report.out) / "index.html").read_text("utf-8")
    exported = {p.name for p in (Path(report.out) / "data" / "charts").glob("own_*")}
    assert exported == {
        "own_reward_range.vl.json", "own_two.vl.json", "own_two_2.vl.json",
    }  # fmt: skip
    assert "Charts of your own" in page
    assert "Lowest and highest reward of each step." in page
    assert page.count(">Mine<") >= 2
    assert "</script><b>" not in page
    spec = json.loads(
        (Path(report.out) / "data" / "charts" / "own_reward_range.vl.json").read_bytes()
    )
    assert spec["config"]["axis"]["labelFontSize"] == 11  # our look
    assert report.tables.steps["reward_mean"].tolist() == [0.5] * 3
    again = rlreport.build(logs, tmp_path / "s", charts=[tmp_path / "mine.py"], workers=1)
    assert (Path(again.out) / "index.html").read_bytes() == (
        Path(report.out) / "index.html"
    ).read_bytes()


def test_a_function_that_fails_costs_its_chart_and_is_named(logs: Path, tmp_path: Path) -> None:
    report = rlreport.build(logs, tmp_path / "r", charts=[file(tmp_path, BAD)], workers=1)
    notes = [note.text for note in report.tables.notes if note.kind == "charts"]
    expected = (
        ("raises", "KeyError: 'no such column'"),
        ("number", "returned int, not an altair chart"),
        ("elsewhere", "https://example.org/a.csv"),
        ("large", "aggregate"),
    )
    assert len(notes) == len(expected)
    for note, (name, reason) in zip(notes, expected, strict=True):
        assert note.startswith(f"own chart not drawn: {name} of mine.py: ")
        assert reason in note
    assert [p.name for p in (Path(report.out) / "data" / "charts").glob("own_*")] == [
        "own_fine.vl.json"
    ]
    assert "own chart not drawn: raises" in (Path(report.out) / "data.html").read_text("utf-8")


@pytest.mark.parametrize("text", ["def broken(:", "1 / 0", "exit(3)", "x = 1"])
def test_a_file_that_cannot_be_used_is_refused(logs: Path, tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"--charts .*mine\.py"):
        rlreport.build(logs, tmp_path / "r", charts=[file(tmp_path, text)], workers=1)
    assert not (tmp_path / "r").exists()


def test_the_command_line_ends_with_status_2(logs: Path, tmp_path: Path) -> None:
    done = command("build", logs, "-o", tmp_path / "r", "--charts", tmp_path / "none.py")
    assert done.returncode == 2
    assert "no Python file" in done.stderr


def test_a_file_beside_the_logs_is_never_run(logs: Path, tmp_path: Path) -> None:
    file(tmp_path, "raise SystemExit('run')")
    rlreport.build(logs, tmp_path / "r", workers=1)
