"""Charts of the user's own: drawn and carried like ours, and no more harm than one chart."""

import json
import re
from itertools import product
from pathlib import Path
from textwrap import dedent

import pytest

import rlreport
from rlreport.draw.theme import HEIGHT, WIDTH
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

    def lengths(tables):
        rows = tables.responses
        tokens = rows["response_tokens"].notna().any()
        assert (rows["length"] == rows["response_tokens" if tokens else "response_chars"]).all()
        return alt.Chart(rows).mark_point()

    def texts(tables, texts):
        assert list(texts) == ["step", "n", "prompt", "response"]
        size = texts["response"].str.len()
        return alt.Chart(pd.DataFrame({"step": texts["step"], "size": size})).mark_point()
"""
BAD = """
    import altair as alt

    def raises(tables):
        raise KeyError("no such column")

    def number(tables):
        return 5

    def elsewhere(tables):
        return alt.Chart("https://example.org/a.csv").mark_point().encode(x="a:Q")

    def local(tables):
        return alt.Chart("/etc/hostname").mark_point().encode(x="a:Q")

    def picture(tables):
        url = alt.value("https://example.org/a.png")
        return alt.hconcat(fine(tables), alt.Chart(tables.steps).mark_image().encode(url=url))

    def large(tables):
        rows = [{"a": "x" * 900} for _ in range(1000)]
        return alt.Chart(alt.InlineData(rows)).mark_point().encode(x="a:N")

    def fine(tables):
        return alt.Chart(tables.steps).mark_line().encode(x="step:Q", y="reward_mean:Q")
"""


@pytest.fixture
def logs(tmp_path):
    rewards = product(range(3), (0.0, 1.0))
    rows = [row(step, reward=reward) for step, reward in rewards]
    return write(tmp_path / "log.jsonl", rows)


def file(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(dedent(text), "utf-8")
    return path


def test_functions_of_a_named_file_become_charts(logs, tmp_path):
    report = rlreport.build(
        logs, tmp_path / "r", charts=[file(tmp_path, GOOD)], workers=1
    )
    page = (Path(report.out) / "index.html").read_text("utf-8")
    folder = Path(report.out) / "data" / "charts"
    exported = {path.name for path in folder.glob("own_*")}
    names = ("lengths", "reward_range", "texts", "two", "two_2")
    assert exported == {f"own_{name}.vl.json" for name in names}
    assert "Custom charts" in page
    assert "Lowest and highest reward of each step." in page
    assert page.count(">Mine<") >= 2
    assert "</script><b>" not in page
    texts = json.loads((folder / "own_texts.vl.json").read_bytes())
    spec = json.loads((folder / "own_reward_range.vl.json").read_bytes())
    assert spec["config"]["axis"]["labelFontSize"] == 11  # our look
    # As large as a chart of ours in a window of 1,400 pixels.
    sizes = dict(
        re.findall(r'data-chart="(\w+)".*?<svg [^>]*viewBox="([^"]*)"', page, re.DOTALL)
    )
    assert {f"0 0 {WIDTH['half']} {HEIGHT['half']}"} == {
        size for name, size in sizes.items() if name.startswith("own_")
    }
    assert texts["data"]["values"] == [
        {"step": s, "size": 9} for s in (0, 0, 1, 1, 2, 2)
    ]
    assert report.tables.steps["reward_mean"].tolist() == [0.5] * 3
    again = rlreport.build(
        logs, tmp_path / "s", charts=[tmp_path / "mine.py"], workers=1
    )
    assert (Path(again.out) / "index.html").read_bytes() == (
        Path(report.out) / "index.html"
    ).read_bytes()
    options = {"charts": [tmp_path / "mine.py"], "redact": True, "workers": 1}
    redacted = rlreport.build(logs, tmp_path / "t", **options)
    assert not (tmp_path / "t" / "data" / "charts" / "own_texts.vl.json").exists()
    assert [note.count for note in redacted.tables.notes if note.kind == "charts"] == [
        1
    ]


def test_a_function_that_fails_costs_its_chart_and_is_named(logs, tmp_path):
    done = command("build", logs, "-o", tmp_path / "r", "--charts", file(tmp_path, BAD))
    assert "warning: custom chart raises (mine.py) failed" in done.stderr
    data = tmp_path / "r" / "data"
    told = json.loads((data / "report.json").read_bytes())["notes"]
    notes = [note for note in told if note.startswith("custom chart")]
    expected = (
        ("raises", "KeyError: 'no such column'"),
        ("number", "returned int, not an Altair chart"),
        ("elsewhere", "https://example.org/a.csv"),
        ("local", "External data url not allowed"),
        ("picture", "reports cannot load images"),
        ("large", "aggregate"),
    )
    assert len(notes) == len(expected)
    for note, (name, reason) in zip(notes, expected, strict=True):
        assert note.startswith(f"custom chart {name} (mine.py) failed: ")
        assert reason in note
    assert [p.name for p in (data / "charts").glob("own_*")] == ["own_fine.vl.json"]
    assert (
        "custom chart raises (mine.py) failed"
        in (tmp_path / "r" / "data.html").read_text()
    )


# Addresses that Vega refuses, or that only our own check does, as a browser would follow them
UNSAFE = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " java\tscript:alert(1)",
    "vbscript:x",
]
UNSAFE += ["data:text/html,<script>alert(1)</script>", "ftp://a/b"]
LINKS = """
    import altair as alt
    import pandas as pd

    def link(tables):
        return alt.Chart(pd.DataFrame({{"a": [1, 2], "u": [{address!r}, "https://a.example"]}}))\\
            .mark_point().encode(x="a:Q", href="u:N")
"""


@pytest.mark.parametrize("address", UNSAFE)
def test_an_unsafe_link_costs_its_chart_alone(logs, tmp_path, address):
    charts = [file(tmp_path, LINKS.format(address=address))]
    report = rlreport.build(logs, tmp_path / "r", charts=charts, workers=1)
    (note,) = (note for note in report.tables.notes if note.kind == "charts")
    assert note.text.startswith("custom chart link (mine.py) failed: ValueError: ")
    assert "alert" not in (tmp_path / "r" / "index.html").read_text()
    # Charts that are drawn after it are complete.
    rlreport.build(logs, tmp_path / "without", workers=1)
    names = [path.name for path in (tmp_path / "without" / "data" / "charts").iterdir()]
    assert {
        path.name for path in (tmp_path / "r" / "data" / "charts").iterdir()
    } == set(names)
    drawn, expected = (
        (tmp_path / out / "index.html").read_text().count("<svg")
        for out in ("r", "without")
    )
    assert drawn == expected


def test_a_web_address_is_a_link_of_the_interactive_chart_and_both_have_its_marks(
    logs, tmp_path
):
    charts = [file(tmp_path, LINKS.format(address="https://a.example/?q=1"))]
    report = rlreport.build(logs, tmp_path / "r", charts=charts, workers=1)
    assert not [note for note in report.tables.notes if note.kind == "charts"]
    page = (tmp_path / "r" / "index.html").read_text()
    figure = page[page.index('data-chart="own_link"') :]
    drawing = figure[: figure.index("</svg>")]
    assert drawing.count("<path") == 2  # the points
    assert "<a " not in drawing
    assert "https://a.example/?q=1" in figure


def test_a_chart_without_data_does_not_end_the_build(logs, tmp_path):
    text = """
        import altair as alt

        def null(tables):
            return alt.Chart.from_dict({"data": None, "mark": "point"})
    """
    rlreport.build(logs, tmp_path / "r", charts=[file(tmp_path, text)], workers=1)
    assert (tmp_path / "r" / "data" / "charts" / "own_null.vl.json").is_file()


def test_a_chart_that_fails_in_compiled_code_costs_itself_but_ctrl_c_ends_the_build(
    logs, tmp_path
):
    panics = """
        class Panic(BaseException):
            pass

        def panic(tables):
            raise Panic("in Rust")
    """
    report = rlreport.build(
        logs, tmp_path / "r", charts=[file(tmp_path, panics)], workers=1
    )
    (note,) = (note for note in report.tables.notes if note.kind == "charts")
    assert note.text == "custom chart panic (mine.py) failed: Panic: in Rust"
    interrupted = "def stopped(tables):\n    raise KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt):
        rlreport.build(
            logs, tmp_path / "s", charts=[file(tmp_path, interrupted)], workers=1
        )


@pytest.mark.parametrize(
    "text", ["def broken(:", "1 / 0", "exit(3)", "raise SystemExit('run')", "x = 1"]
)
def test_a_file_that_cannot_be_used_is_refused(logs, tmp_path, text):
    with pytest.raises(UsageError, match=r"--charts .*mine\.py"):
        rlreport.build(logs, tmp_path / "r", charts=[file(tmp_path, text)], workers=1)
    assert not (tmp_path / "r").exists()
    done = command(
        "build", logs, "-o", tmp_path / "r", "--charts", tmp_path / "none.py"
    )
    assert done.returncode == 2
    assert "is not an existing file" in done.stderr
    rlreport.build(
        logs, tmp_path / "r", workers=1
    )  # a file beside the logs is never run
