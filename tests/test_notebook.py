"""A report in a notebook: what stands in the cell, and what hostile logs can do from there."""

from pathlib import Path

import pytest

import rlreport
from rlreport.deliver import markdown as summary
from tests.browser import watch
from tests.hostile import hostile_rows, write_log
from tests.pages_reading import Elements


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    write_log(folder / "log.jsonl", hostile_rows(steps=6))
    name = "a \"><script>b' 汉字"
    return {
        form: rlreport.build(folder / "log.jsonl", folder / f"{name}{form}", title=name)
        for form in ("", ".html")
    }


def test_it_is_the_verdict_the_key_figures_and_the_file(reports):
    report = reports[".html"]
    assert len(repr(report)) < 1000
    shown = Elements(report._repr_html_())
    assert report.verdict.headline in shown.text and report.verdict.course_text in shown.text
    reward = report.verdict.courses["reward"].last.value
    assert any(figure.now.text in shown.text for figure in report.figures)
    assert report.figures[0].now.value == pytest.approx(reward)
    assert shown.only("iframe")["srcdoc"] == Path(report.out).read_text("utf-8").replace(
        "<head>", '<head><base href="about:srcdoc">', 1
    )


@pytest.mark.parametrize("form", ["", ".html"])
def test_no_script_stands_outside_the_sandbox(reports, form):
    shown = Elements(reports[form]._repr_html_())
    plain = {"div", "p", "strong", "table", "tr", "th", "td", "a", "iframe"}
    assert {tag for tag, _ in shown.found} <= plain
    assert not [name for _, names in shown.found for name in names if name.startswith("on")]
    for tag, attributes in shown.found:
        if tag == "iframe":
            assert attributes["sandbox"] == "allow-scripts"
            assert "src" not in attributes
        if tag == "a":
            assert attributes["href"].startswith(("./", "file:"))


def test_a_folder_and_a_large_file_are_linked_alone(reports, monkeypatch):
    shown = Elements(reports[""]._repr_html_())
    assert shown.only("a")["href"].endswith("/index.html")
    assert "iframe" not in dict(shown.found)
    monkeypatch.setattr(summary, "MOST_EMBEDDED", reports[".html"].size - 1)
    linked = reports[".html"]._repr_html_()
    assert "iframe" not in linked
    assert len(linked) < 10_000


def test_a_file_that_is_gone_is_no_error(reports, tmp_path):
    report = rlreport.build(Path(reports[".html"].out).parent / "log.jsonl", tmp_path / "a.html")
    Path(report.out).unlink()
    assert report.verdict.headline in Elements(report._repr_html_()).text


def test_the_file_works_in_its_sandbox_and_reaches_nothing(reports, browser, tmp_path):
    cell = tmp_path / "cell.html"
    around = "<!doctype html><meta charset=utf-8><title>notebook</title>"
    cell.write_text(around + reports[".html"]._repr_html_(), "utf-8")
    page = browser.new_page()
    said, asked = watch(page.context, page)
    page.goto(cell.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    frame.locator("header a", has_text="Prompts").click()
    frame.locator("h1", has_text="Prompts").wait_for()
    assert page.title() == "notebook"
    inside = page.frames[1]
    assert (
        inside.evaluate("() => { try { return parent.document.title } catch { return '' } }") == ""
    )
    assert (said, asked) == ([], [])
    page.context.close()
