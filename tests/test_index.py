"""The index: a row a report, whatever state it is in."""

import html
import json
import re
import shutil

import pytest

import rlreport
from rlreport.errors import RlreportError
from rlreport.pipeline import build_report
from tests.reading import write


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for k, form in enumerate(("", ".zip", ".html")):
        logs = root / "logs" / f"{k}"
        rows = [
            {"step": s, "prompt": f"p{n}", "response": f"r {n}", "reward": s + k}
            for s in range(10)
            for n in range(4)
        ]
        write(logs / "a.jsonl", rows)
        config = {"algo": {"lr": 10.0**-k, "same": 1}, "model": f"<b>m{k}</b>"}
        (logs / "config.json").write_text(json.dumps(config))
        out = root / f"run:{k}#<i>{form}"
        meta = {"only": "0"} if k == 0 else None
        rlreport.build(logs, out, title=f"run <b>{k}", meta=meta or {}, workers=1)
    shutil.rmtree(root / "logs")
    return root


def test_reports_of_every_form_have_a_row_with_their_figures_and_what_differs(runs):
    out = runs / "index.html"
    made = rlreport.index(runs, out)
    page = out.read_text()
    assert (made.reports, made.unread) == (3, [])
    for k in range(3):
        assert f"run &lt;b&gt;{k}" in page
        # The first and the last window of ten steps: steps 0 to 2 and 7 to 9.
        assert re.search(rf'<b>{k}<.*?title="{k + 1}".*?title="{k + 8}"', html.unescape(page), re.S)
    assert "./run%3A0%23%3Ci%3E/index.html" in page
    assert "./run%3A1%23%3Ci%3E.zip" in page
    assert 'data-key="card:algo.lr"' in page
    assert 'data-key="card:only"' in page
    assert "card:algo.same" not in page
    assert "<b>m" not in page
    first = out.read_bytes()
    rlreport.index(runs, out)
    assert out.read_bytes() == first
    assert (
        b"http"
        not in first.replace(b"http://www.w3.org", b"").split(b"<main")[1].split(b"</main")[0]
    )


def test_a_report_that_is_broken_or_newer_says_so_in_its_row(runs, tmp_path):
    for name, text in (
        ("broken", "{"),
        ("odd", "[]"),
        ("newer", ""),
        ("before", ""),
        ("wrong", ""),
    ):
        (tmp_path / name / "data").mkdir(parents=True)
        about = json.loads((runs / "run:0#<i>/data/report.json").read_text())
        if name == "newer":
            about["schema"] = 99
        elif name == "before":
            about["schema"] = 1
        elif name == "wrong":
            about |= {"steps": [1, {"responses": "x"}], "card": [], "verdict": 3, "findings": {}}
        (tmp_path / name / "data/report.json").write_text(text or json.dumps(about))
    (tmp_path / "cut.zip").write_bytes((runs / "run:1#<i>.zip").read_bytes()[:500])
    made = rlreport.index([*tmp_path.iterdir()], tmp_path / "index.html")
    told = dict(made.unread)
    assert "broken" in told["broken"]
    assert "not a report" in told["odd"]
    assert "schema 99 instead of 4; update rlreport" in told["newer"]
    assert "schema 1 instead of 4; build it again" in told["before"]
    assert "broken" in told["cut.zip"]
    assert "wrong" not in told
    page = (tmp_path / "index.html").read_text()
    assert "6 reports. 5 could not be read." in page
    assert str(tmp_path) not in page


def test_broken_reports_in_a_folder_have_their_rows_and_other_files_none(runs, tmp_path):
    shutil.copytree(runs / "run:0#<i>", tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "no_data")
    shutil.rmtree(tmp_path / "no_data/data")
    (tmp_path / "t.zip").write_bytes((runs / "run:1#<i>.zip").read_bytes()[:-1000])
    (tmp_path / "trunc.html").write_bytes((runs / "run:2#<i>.html").read_bytes()[:100_000])
    rlreport.index([tmp_path / "good"], tmp_path / "earlier.html")
    rlreport.compare(tmp_path / "good", tmp_path / "good", tmp_path / "comparison")
    (tmp_path / "foreign.html").write_text("<html>")
    (tmp_path / "foreign.zip").write_bytes(b"text")
    made = rlreport.index([tmp_path], tmp_path / "index.html")
    assert (made.reports, made.unread) == (
        4,
        [
            ("no_data", "is a broken report without data/report.json"),
            ("t.zip", "is a broken .zip, cut off or damaged; build it again"),
            ("trunc.html", "is a broken report, cut off; build it again"),
        ],
    )
    with pytest.raises(RlreportError, match=r"t\.zip: is a broken \.zip, cut off or damaged"):
        rlreport.compare(tmp_path / "t.zip", tmp_path / "good", tmp_path / "out")


def test_a_file_of_several_runs_beside_reports_is_named_and_they_are_listed(runs, tmp_path):
    shutil.copy(runs / "run:2#<i>.html", tmp_path / "good.html")
    lines = "".join(f"{step},0.{step},0.5\n" for step in range(9))
    (tmp_path / "two.csv").write_text("Step,fox - train/reward,owl - train/reward\n" + lines)
    made = rlreport.index([tmp_path], tmp_path / "index.html")
    ((name, why),) = made.unread
    assert (made.reports, name) == (2, "two.csv")
    assert "2 runs; give this file to index" in why and why in made.out.read_text()


def test_a_run_that_cannot_be_built_is_named_and_the_others_are_listed(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "log.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    shutil.copy(tmp_path / "runs/a/log.jsonl", tmp_path / "runs")

    def fail_on_b(logs, out, options, *rest):
        if options.run == "b":
            raise RlreportError("disk full")
        return build_report(logs, out, options, *rest)

    monkeypatch.setattr("rlreport.pipeline.build_report", fail_on_b)
    made = rlreport.index([tmp_path / "runs"], tmp_path / "index.html")
    assert (made.reports, made.unread) == (3, [("runs", "run b: disk full")])
    assert "run b: disk full" in made.out.read_text()


def test_an_index_of_no_report_or_in_the_place_of_one_is_refused(runs, tmp_path):
    for taken in (runs / "run:0#<i>/index.html", runs / "run:2#<i>.html"):
        before = taken.read_bytes()
        with pytest.raises(RlreportError, match="report"):
            rlreport.index(runs, taken)
        assert taken.read_bytes() == before
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    (tmp_path / "empty").mkdir()
    for name in ("log.jsonl", "empty"):
        with pytest.raises(RlreportError, match=name):
            rlreport.index([tmp_path / name], tmp_path / "index.html")
    assert not (tmp_path / "index.html").exists()


def test_reports_of_one_name_are_told_apart_by_their_places(runs, tmp_path):
    def places() -> list[str]:
        page = rlreport.index(tmp_path, tmp_path / "index.html").out.read_text()
        return re.findall(r'<th[^>]*data-key="place"[^>]*>', page)

    shutil.copy(runs / "run:2#<i>.html", tmp_path / "one.html")
    assert all("hidden" in column for column in places())
    shutil.copy(runs / "run:2#<i>.html", tmp_path / "two.html")
    assert places()
    assert not any("hidden" in column for column in places())


def test_rewards_of_the_runs_are_curves_of_one_chart(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    hostile = json.loads((tmp_path / "runs/run:0#<i>/data/report.json").read_text())
    for step, value in zip(hostile["steps"], (None, "x", 1e308, -1e308, "[]"), strict=False):
        step["reward_mean"] = value
    (tmp_path / "runs/run:0#<i>/data/report.json").write_text(json.dumps(hostile))
    rlreport.index(tmp_path / "runs", tmp_path / "runs/index.html")
    for page in ((runs / "index.html"), (tmp_path / "runs/index.html")):
        (chart,) = re.findall(r'<figure class="chart.*?</figure>', page.read_text(), re.S)
        names = {html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", chart)}
        assert {f"run <b>{k}" for k in range(3)} <= names
        assert "<script" not in chart
    one = tmp_path / "one"
    shutil.copytree(runs / "run:0#<i>", one)
    rlreport.index([one], tmp_path / "one.html")
    assert "<figure" not in (tmp_path / "one.html").read_text()
