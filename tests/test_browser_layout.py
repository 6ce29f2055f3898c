"""The layout of whole pages: no text lies over another, or is cut without showing it."""

import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import rlreport
from benchmarks.lab import agents
from tests.browser import visiting
from tests.reading import row, write
from tests.running import in_ci

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).resolve().parents[1]
HACKING = ROOT / "sample_logs" / "reward_hacking"
WIDTHS = (1400, 800, 390)

# Returns a line for each fault that a reader would see.
MEASURE = """() => {
  const MARGIN = 1;  // boxes end at fractions of a pixel
  const faults = [];
  const style = (node) => getComputedStyle(node);
  const hides = (node) => ["hidden", "clip"].includes(style(node).overflowX);
  const seen = (node) => node.checkVisibility({ visibilityProperty: true });
  const place = (node) => [
    node.closest("[data-table]")?.dataset.table,
    node.closest("[data-key]")?.dataset.key,
    node.localName + "." + node.className,
    node.textContent.trim().slice(0, 40),
  ].filter(Boolean).join(" / ");
  const beyond = (inner, outer) => inner.width > 0 && (
    inner.left < outer.left - MARGIN || inner.right > outer.right + MARGIN ||
    inner.top < outer.top - MARGIN || inner.bottom > outer.bottom + MARGIN);

  // What is drawn outside of its cell lies over another cell, or under it.
  for (const cell of document.querySelectorAll("th, td")) {
    if (!seen(cell)) continue;
    const outer = cell.getBoundingClientRect();
    const inside = document.createTreeWalker(cell, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node; (node = inside.nextNode()); ) {
      let parent = node.parentElement;
      if (!seen(parent) || (node.nodeType === Node.ELEMENT_NODE && !seen(node))) continue;
      while (parent !== cell && !hides(parent)) parent = parent.parentElement;
      if (hides(parent)) continue;
      let drawn = node;
      if (node.nodeType === Node.TEXT_NODE) {
        drawn = document.createRange();
        drawn.selectNode(node);
      }
      if ([...drawn.getClientRects()].some((inner) => beyond(inner, outer))) {
        faults.push("outside of its cell: " + place(cell));
        break;
      }
    }
  }

  for (const node of document.body.querySelectorAll("*")) {
    if (!seen(node) || node.closest("svg, .sr-only, caption") || !hides(node)) continue;
    if (node.scrollWidth > node.clientWidth + MARGIN && style(node).textOverflow !== "ellipsis")
      faults.push("cut at its side: " + place(node));
    const shown = style(node).webkitLineClamp !== "none" || style(node).maskImage !== "none";
    if (node.scrollHeight > node.clientHeight + MARGIN && !shown)
      faults.push("cut at its end: " + place(node));
  }
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) faults.push("the page is " + scrollWidth + " pixels wide");
  return faults;
}"""


def long_names() -> list[dict[str, Any]]:
    """Return rows whose fields have long names, long words, and numbers of many digits."""
    chance = random.Random(0)
    return [
        row(
            step,
            prompt=f"请把下面这段话翻译成英文，并解释其中的成语：{n}" * 4,
            response="Donaudampfschifffahrtsgesellschaftskapitän" * 4,
            reward=None if n == 0 else -1e6 * chance.random(),
            reward_parts={
                "format_following_bonus": chance.random(),
                "accuracy": chance.random(),
            },
            data_source="a_collection/questions-with-a-rather-long-name",
            difficulty_estimated_by_the_teacher=chance.random(),
            is_truncated=n % 5 == 0,
            tokens_processed=chance.randint(10**9, 10**12),
        )
        for step, n in product(range(6), range(10))
    ]


def build(name: str, folder: Path) -> Path:
    """Build a report by its name; return its folder."""
    out = folder / "out"
    if name == "agents":
        agents.write(folder / "lab", seed=0)
        rlreport.build(folder / "lab" / "planted" / "all", out, workers=1)
    elif name == "long names":
        rlreport.build(write(folder / "log.jsonl", long_names()), out, workers=1)
    elif name == "Chinese":
        rlreport.build(
            write(folder / "log.jsonl", long_names()), out, workers=1, lang="zh"
        )
    elif name == "comparison":
        rlreport.compare(ROOT / "sample_logs" / "healthy", HACKING, out)
    elif name == "groups":
        rlreport.build(ROOT / "tests" / "data" / "grpo_math", out, workers=1)
    else:
        rlreport.build(HACKING, out, workers=1)
    return out


def addresses(report: Path) -> list[tuple[Path, str]]:
    """Return the pages of a report: of the run, of its first and last step, an open response."""
    steps = list((report / "steps").glob("*.html"))
    steps.sort(key=lambda page: int(page.stem))
    pages = sorted(report.glob("*.html"))
    pages += [*steps[:1], *steps[-1:]]
    opened = [(page, "#r=0") for page in steps[-1:]]
    return [(page, "") for page in pages] + opened


REPORTS = ("long names", *in_ci("hacking", "groups", "agents", "Chinese", "comparison"))


@pytest.mark.parametrize("name", REPORTS)
def test_no_text_lies_over_another_or_is_cut_without_an_ellipsis(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    faults = []
    for file, address in addresses(build(name, tmp_path)):
        with visiting(browser, file, address) as page:
            if address:
                page.wait_for_selector(".response .texts")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                found = page.evaluate(MEASURE)
                faults += [
                    f"{file.name}{address} at {width}: {fault}" for fault in found
                ]
    assert not faults, "\n".join(faults)


def test_a_number_too_long_for_its_cell_ends_in_an_ellipsis_and_shows_on_hover(
    browser: Browser, tmp_path: Path
) -> None:
    build("long names", tmp_path)
    with visiting(browser, tmp_path / "out" / "steps" / "0.html") as page:
        cell = page.locator(".responses tbody td.number[title]").first
        exact = cell.get_attribute("title")
        cell.evaluate("cell => cell.textContent = '1,234,567,890,123,456'")
        box = "cell => [cell.scrollWidth > cell.clientWidth, getComputedStyle(cell).textOverflow]"
        assert cell.evaluate(box) == [True, "ellipsis"]
        assert exact


def test_a_phone_shows_the_texts_of_extreme_responses_and_of_a_prompts_answers(
    browser: Browser, hacking: Path
) -> None:
    phone = {"width": 390, "height": 900}
    for name, hash_, table in (
        ("index.html", "", '[data-table="extremes"]'),
        ("prompts.html", "#p=0", ".answers"),
    ):
        with visiting(browser, hacking / name, hash_, viewport=phone) as page:
            box = page.locator(f"{table} .scroll")
            box.wait_for()
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
            texts = page.locator(f"{table} td.text:last-child:visible")
            assert texts.count() > 3
            assert texts.first.evaluate("cell => cell.clientWidth") > 120


def test_a_phone_shows_the_reward_of_steps_beside_the_names_of_their_findings(
    browser: Browser, hacking: Path
) -> None:
    phone = {"width": 390, "height": 900}
    with visiting(browser, hacking / "index.html", viewport=phone) as page:
        steps = page.locator(".steps")
        long = "badge => badge.textContent = 'best reward without the right answer'"
        steps.locator(".badge").first.evaluate(long)
        right = "cell => cell.getBoundingClientRect().right"
        assert steps.locator('th[data-key="reward_mean"]').evaluate(right) <= 390


def test_a_response_that_is_extreme_in_many_ways_has_one_row(
    browser: Browser, hacking: Path
) -> None:
    with visiting(browser, hacking / "index.html") as page:
        links = page.locator('[data-table="extremes"] td:first-child a').all()
        places = [link.get_attribute("href") for link in links]
        assert len({place.split("&")[0] for place in places if place}) == len(links)
        names = [link.inner_text() for link in links]
        assert any(re.fullmatch(r"Highest reward: [\d.]+; .*", name) for name in names)
