"""What a browser shows of a public report has no private name, and the texts of the model."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import rlreport
from tests.browser import visiting
from tests.test_publish import write_private

PRIVATE = re.compile(r"(?i)(?:qzxwv|10\.1\.2\.3)\S{0,40}")


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("public")
    rlreport.build(write_private(root), root / "out", public=True, workers=1)
    return root / "out"


@pytest.mark.parametrize(
    "page",
    ["index.html", "data.html", "responses.html", "prompts.html", "steps/0.html#r=1"],
)
def test_a_public_page_shows_no_private_name(
    browser: Browser, public: Path, page: str
) -> None:
    name, _, address = page.partition("#")
    with visiting(browser, public / name, f"#{address}" if address else "") as opened:
        opened.wait_for_selector("html[data-ready]", state="attached")
        opened.evaluate(
            "() => document.querySelectorAll('details').forEach(one => { one.open = true })"
        )
        shown = opened.inner_text("body") + opened.content() + opened.title()
    assert set(PRIVATE.findall(shown)) == set()
    if page.startswith("steps"):
        assert "kept" in shown and "[name" in shown
    if page == "data.html":
        assert "(--public)" in shown and "file 1" in shown
