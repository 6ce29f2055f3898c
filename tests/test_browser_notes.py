"""The author's notes in a browser: where their links lead."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import rlreport
from tests.browser import visiting
from tests.reading import row, write

NOTES = """# What was tried

A *lower* KL penalty; see [the last step](step:11), [the worst](response:11/1),
[a prompt](prompt:1), [the curve](chart:reward), [nothing](step:99),
[no finding](finding:kl_explosion) and
[the paper](https://example.org/a?b=c&d).

| run | reward |
|---|---|
| 中文 | 0.5 |
"""
LOST = ("step:99", "finding:kl_explosion")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    rows = [row(step, prompt=f"Say {word}.") for step in range(12) for word in "abcd"]
    return write(tmp_path / "logs" / "log.jsonl", rows)


def build(log: Path, out: Path, text: str | None = NOTES, **options: Any) -> Path:
    """Build a report with these notes; the path of its overview."""
    if text is not None:
        options["notes"] = out.with_name("author.md")
        options["notes"].write_text(text, "utf-8")
    rlreport.build(log, out, workers=1, **options)
    return out / "index.html" if out.is_dir() else out


@pytest.mark.parametrize("one_file", [False, True])
def test_links_lead_into_the_report(
    browser: Browser, log: Path, tmp_path: Path, one_file: bool
) -> None:
    page_file = build(log, tmp_path / ("run.html" if one_file else "run"))
    with visiting(browser, page_file) as page:
        notes = page.locator(".author-notes")
        assert notes.locator("h3").inner_text() == "What was tried"
        assert notes.locator("td").all_inner_texts() == ["中文", "0.5"]
        assert notes.bounding_box()["y"] < page.locator(".verdict").bounding_box()["y"]  # type: ignore[index]
        links = notes.locator("a")
        words = ["the last step", "the worst", "a prompt", "the curve", "the paper"]
        assert links.all_inner_texts() == words
        assert links.last.get_attribute("href") == "https://example.org/a?b=c&d"
        page.click("text=the curve")
        page.wait_for_url(re.compile("chart=reward"))
        box = page.locator('[data-chart="reward"]').bounding_box()
        assert box is not None
        assert -1 <= box["y"] < 600
        page.click("text=a prompt")
        page.wait_for_selector(".run-list .chips button")
        page.go_back()
        page.click("text=the worst")
        page.wait_for_selector(".response h2:text-is('Response 1')")
        page.go_back()
        page.click("text=the last step")
        page.wait_for_selector("h1:text-is('Step 11')")
    data = page_file.with_name("data.html")
    if not one_file:
        assert all(name in data.read_text("utf-8") for name in LOST)


def test_a_link_to_a_finding_opens_it(browser: Browser, real_report: Callable[[str], Path]) -> None:
    report = real_report("ppo_reward_hacking")
    found = json.loads((report / "data/findings.json").read_text())
    lead = found["verdict"]["lead"]
    other = next(f["id"] for f in found["findings"] if f["id"] != lead)
    with visiting(browser, report / "index.html", f"#finding={other}") as page:
        details = page.locator(f'[data-finding="{other}"] > details')
        assert details.evaluate("node => node.open")
        assert details.is_visible()
