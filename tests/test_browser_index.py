"""The index in a browser: chips of the verdicts, the metric of choice, and many runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

import rlreport
from rlreport.check.verdict import FIRST_WORDS, SCHEMA
from rlreport.text.language import language
from tests.browser import in_url, serious, until, visiting

pytestmark = pytest.mark.untraced
# Name of a run -> level of its verdict, and the last reward, KL and validation (None: not logged)
RUNS = {
    "calm": ("healthy", 0.9, 2.0, 0.8),
    "bold": ("critical", 0.0, 90.0, 0.1),
    "dull": ("healthy", 0.4, 1.0, None),
    "edgy": ("warning", 0.6, None, 0.5),
}


def curve(quantity: str, last: float, unit: str = "") -> dict[str, object]:
    levels = {"first": 0.1, "lowest": 0.0, "highest": max(last, 0.1), "last": last}
    points = {"steps": [0, 1, 2], "values": [0.1, last / 2, last]}
    return {"quantity": quantity, "unit": unit, **levels, **points}


def write_report(folder: Path, name: str, number: int) -> None:
    level, reward, kl, validation = RUNS[name]
    curves = [curve("reward", reward)]
    if kl is not None:
        curves.append(curve("kl", kl))
    if validation is not None:
        curves.append(curve("validation", 100 * validation, "%"))
    if name == "calm":
        curves.append(curve("entropy", 1.0))
    what = f"What happened to {name}: words. " * 2
    about = {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": "1"},
        "run": f"{name}-run_with.a_long/name",
        "steps": [{"step": step, "responses": 4} for step in range(3 + number)],
        "curves": curves,
        "verdict": {"level": level, "lead": "x", "what": f"Level. {what}"},
        "findings": [{"id": "x", "onset": {"step": 10 + number}}],
        "card": {"entries": {"lr": number, "seed_of_data": 1, "loss": f"l_{name}"}},
    }
    path = folder / name / "data/report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(about), encoding="utf-8")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    for number, name in enumerate(RUNS):
        write_report(folder, name, number)
    (folder / "cut.zip").write_bytes(b"PK\x03\x04")
    rlreport.index([folder], folder / "zh.html", lang="zh")
    return rlreport.index([folder], folder / "index.html").out


@pytest.fixture
def page(browser: Browser, index: Path) -> Iterator[Page]:
    with visiting(browser, index) as opened:
        opened.wait_for_selector(".metric select")
        yield opened


def rows(page: Page) -> Locator:
    return page.locator(".runs-table tbody tr")


def names(page: Page) -> list[str]:
    links = rows(page).locator("td:first-child").all_inner_texts()
    return [text.split("-run")[0] for text in links]


def cells(page: Page, key: str) -> list[str]:
    head = f'.runs-table th[data-key="{key}"]'
    at = page.locator(head).evaluate("cell => cell.cellIndex")
    return rows(page).locator(f"td:nth-child({at + 1})").all_inner_texts()


def chip(page: Page, word: str) -> Locator:
    return page.locator(".levels").get_by_role("button", name=word)


def test_broken_runs_are_first_and_whole_on_the_first_screen(page: Page) -> None:
    assert names(page) == ["bold", "edgy", "cut.zip", "calm", "dull"]
    first = rows(page).first
    assert "What happened to bold" in first.inner_text()
    assert cells(page, "since")[0] == "11"
    box = first.bounding_box()
    assert box and box["y"] + box["height"] <= 900
    colour = "node => getComputedStyle(node).color"
    word = first.locator("td.level .severity")
    assert word.evaluate(colour) == chip(page, "Broken").evaluate(colour)


def test_several_chips_list_the_runs_of_several_verdicts(page: Page) -> None:
    chip(page, "Broken").click()
    assert names(page) == ["bold"]
    in_url(page, "is.verdict=critical")
    chip(page, "Healthy").focus()
    page.keyboard.press("Enter")
    assert names(page) == ["bold", "calm", "dull"]
    in_url(page, "is.verdict=critical%2Chealthy")
    # What a chip would add is said whatever other chips are pressed.
    assert chip(page, "Warning").inner_text().split() == ["▲", "1", "Warning"]
    page.fill(".runs-table input[type=search]", "dull")
    assert names(page) == ["dull"]
    assert chip(page, "Broken").inner_text().split() == ["✕", "0", "Broken"]


def test_chips_of_the_address_are_pressed_and_unknown_ones_are_none(
    browser: Browser, index: Path
) -> None:
    state = "#runs.is.verdict=warning,unread,<b>,constructor"
    with visiting(browser, index, state) as page:
        assert names(page) == ["edgy", "cut.zip"]
        assert chip(page, "Warning").get_attribute("aria-pressed") == "true"
        chip(page, "Warning").click()
        chip(page, "cannot be read").click()
        assert len(names(page)) == 5
        assert serious(page) == []


def test_a_metric_of_choice_fills_levels_and_lines(page: Page) -> None:
    select = page.locator(".metric select")
    # Entropy is of a single run.
    options = select.locator("option").all_inner_texts()
    assert options == ["Reward", "Validation", "KL"]
    assert cells(page, "last") == ["0", "0.600", "–", "0.900", "0.400"]
    paths = "nodes => nodes.map(n => n.querySelector('path')?.getAttribute('d') ?? '')"
    before = page.locator(".runs-table td.path").evaluate_all(paths)
    select.select_option("kl")
    assert cells(page, "last") == ["90.0", "–", "–", "2.00", "1.00"]
    assert page.locator('.runs-table th[data-key="last"]').inner_text().split() == [
        "KL,",
        "last",
        "nats",
        "per",
        "response",
    ]
    after = page.locator(".runs-table td.path").evaluate_all(paths)
    assert [bool(path) for path in after] == [True, False, False, True, True]
    assert after[0] != before[0]
    in_url(page, "metric=kl")
    page.locator('.runs-table th[data-key="last"] button').click()
    assert names(page)[:3] == ["bold", "calm", "dull"]
    select.select_option("validation")
    # The order is that of the metric now shown.
    assert names(page)[:3] == ["calm", "edgy", "bold"]
    assert cells(page, "last")[:3] == ["80.0%", "50.0%", "10.0%"]
    select.select_option("reward")
    until(page, "!location.hash.includes('metric')")


def test_the_metric_of_the_address_is_shown(browser: Browser, index: Path) -> None:
    with visiting(browser, index, "#metric=kl&runs.sort=last") as page:
        until(page, "document.querySelector('.metric select')?.value === 'kl'")
        assert names(page)[:3] == ["dull", "calm", "bold"]
    with visiting(browser, index, "#metric=constructor") as page:
        until(page, "document.querySelector('.metric select')?.value === 'reward'")


def test_without_scripts_the_page_has_counts_rows_and_settings(
    browser: Browser, index: Path
) -> None:
    with visiting(browser, index, java_script_enabled=False) as page:
        counts = page.locator(".counts").inner_text()
        assert " ".join(counts.split()).startswith("✕ 1 Broken · ▲ 1 Warning")
        assert len(names(page)) == 5
        assert page.locator("button, select").count() == 0
        family = page.locator("details.family")
        assert family.get_attribute("open") is not None
        assert family.locator('th[data-key="card:lr"]').is_visible()


def test_settings_and_outcomes_are_sorted_and_chinese_is_whole(
    browser: Browser, index: Path
) -> None:
    with visiting(browser, index) as page:
        family = page.locator('[data-table="family-1"]')
        first = family.locator("tbody tr td:first-child").first
        assert first.inner_text().startswith("calm")
        family.get_by_role("button", name="Verdict").click()
        assert first.inner_text().startswith("bold")
        family.get_by_role("button", name="First step of harm").click()
        assert first.inner_text().startswith("edgy")
        assert serious(page) == []
    for width in (390, 1400):
        size = {"width": width, "height": 900}
        with visiting(browser, index.with_name("zh.html"), viewport=size) as page:
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            label = language("zh").of(FIRST_WORDS["critical"])
            assert label in page.locator(".counts, .levels").inner_text()


def test_names_break_at_their_marks_alone(browser: Browser, index: Path) -> None:
    size = {"width": 900, "height": 900}
    lines = """cell => {
      const range = document.createRange();
      const found = [];
      for (const node of cell.querySelector("a").childNodes) {
        if (node.nodeType !== Node.TEXT_NODE) continue;
        range.selectNodeContents(node);
        found.push(range.getClientRects().length);
      }
      return found;
    }"""
    with visiting(browser, index, viewport=size) as page:
        cell = rows(page).locator("td:first-child").first
        # "bold-", "run_": a browser breaks after a hyphen by itself.
        assert max(cell.evaluate(lines)) <= 2
        assert re.search("bold-run_with.a_long/name", cell.inner_text())
