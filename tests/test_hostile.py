"""Text from logs never becomes markup, script or a request, on any page."""

import json
import re
from pathlib import Path

import pytest

from rlreport.pages.page import page_file
from rlreport.pages.registry import PAGES
from tests.hostile import STRINGS
from tests.pages_reading import Elements

OURS = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "footer",
    "nav",
    "main",
    "div",
    "section",
    "article",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "q",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "colgroup",
    "col",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "wbr",
    "figure",
    "figcaption",
    "details",
    "summary",
    "noscript",
    "meter",
    "code",
    "strong",
    "br",
    "svg",
    "g",
    "path",
    "text",
    "tspan",
    "rect",
    "circle",
    "line",
    "defs",
    "clippath",
    "use",
    "lineargradient",
    "stop",
    "time",
    "button",
    "input",
    "label",
    "em",
    "small",
    "abbr",
    "data",
    "bdi",
    "pre",
    "mark",
    "hr",
    "style",
    "symbol",
    "image",
    "desc",
}


@pytest.fixture(scope="module")
def report(hostile_reports):
    return hostile_reports / "run"


def test_no_element_handler_script_or_address_of_the_log_gets_into_a_page(report):
    found = sorted(report.rglob("*.html"))
    assert {page_file(page.name) for page in PAGES} <= {p.name for p in found}
    assert len(found) == len(PAGES) + 4
    for page in found:
        text = page.read_text("utf-8")
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
        assert policy is not None
        assert (
            "default-src &#39;none&#39;" in policy[1]
            or "default-src 'none'" in policy[1]
        )
        assert "unsafe" not in policy[1]
        for tag, attributes in Elements(text).found:
            assert tag in OURS, page
            assert not [
                name for name in attributes if name.startswith("on") or name == "style"
            ]
            for address in (attributes.get("href", ""), attributes.get("src", "")):
                assert not re.match(
                    r"(?i)\s*(javascript|https?|//|data:[^,])", address
                ), address
            if tag == "script":
                check_script(page, attributes)


def check_script(page: Path, script: dict[str, str]) -> None:
    """Every script is an asset, inert, or that of the run, which is data."""
    if script.get("type") in ("application/json", "application/octet-stream"):
        return
    if Path(script["src"]).name == "run.js":
        text = (page.parent / script["src"]).read_text("utf-8")
        said = re.fullmatch(r"globalThis\.rlreportSteps = (.*);\n", text)
        assert said and isinstance(json.loads(said[1]), dict)
    else:
        assert script["src"].startswith(("assets/", "../assets/")), script


def test_texts_are_there_as_text_and_exports_hold_them_as_data(report):
    page = (report / "steps" / "0.html").read_text("utf-8")
    assert "&lt;/script&gt;&lt;script&gt;document.title=" in page
    assert "汉字 中文，标点。" in page
    findings = json.loads((report / "data" / "findings.json").read_bytes())
    assert findings["verdict"]
    assert (
        json.loads((report / "data" / "report.json").read_bytes())["run"] == STRINGS[0]
    )
    for chart in (report / "data" / "charts").glob("*.vl.json"):
        schema = json.loads(chart.read_bytes())["$schema"]
        assert schema.startswith("https://vega.github.io/schema/")
