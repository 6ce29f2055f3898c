"""The map of prompts × steps in a browser: pointer, keys, clicks, counts, and without scripts."""

from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import rlreport
from tests.browser import in_url, serious, until, visiting
from tests.reading import row, write

pytestmark = pytest.mark.untraced

STEPS = 6
SIZE = 8
CELLS = ".prompt-map .cells"


def solved(prompt: int, step: int, n: int) -> float:
    """Prompt 0 improves, 1 regresses, 2 is never solved, 3 is so at random."""
    at_random = (n + step) % 2
    return float([step >= 3, step < 3, False, at_random][prompt])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("map")
    rows = []
    for step, prompt, n in product(range(STEPS), range(4), range(SIZE)):
        fields = {"prompt": f"Question {prompt}?", "response": f"{n}"}
        rows.append(row(step, reward=solved(prompt, step, n), **fields))
    write(path / "log.jsonl", rows)
    rlreport.build(path / "log.jsonl", path / "out", workers=1)
    rlreport.build(path / "log.jsonl", path / "out.html", workers=1)
    return path


@pytest.fixture(params=["folder", "one file"])
def page(request, browser: Browser, folder: Path):
    place = folder / "out" / "prompts.html"
    address = ""
    if request.param == "one file":
        place = folder / "out.html"
        address = "#/prompts"
    with visiting(browser, place, address) as opened:
        until(opened, f"() => document.querySelector('{CELLS}')?.tabIndex === 0")
        yield opened


def point(page: Page, row: int, column: int) -> None:
    box = page.locator(CELLS).bounding_box()
    assert box is not None
    height = box["height"] / 4
    page.mouse.move(
        box["x"] + box["width"] * (column + 0.5) / STEPS,
        box["y"] + height * (row + 0.5),
    )


def test_a_cell_under_the_pointer_says_what_it_is(page: Page):
    point(page, 0, 1)  # those that gained most are above
    assert page.inner_text(".tip").split("\n")[0] == "step 1: 0 of 8 solved"
    assert "Question 0?" in page.inner_text(".tip")
    point(page, 3, 1)
    assert page.inner_text(".tip").split("\n")[0] == "step 1: 8 of 8 solved"
    assert "Question 1?" in page.inner_text(".tip")
    page.mouse.move(0, 0)
    assert page.is_hidden(".tip")


def test_keys_move_through_the_cells_and_open_the_prompt(page: Page):
    page.focus(CELLS)
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Home", "End", "ArrowDown"):
        page.keyboard.press(key)
    words = page.inner_text(f"{CELLS} [aria-live]")
    assert words.endswith("step 5: 4 of 8 solved")
    assert page.is_visible(".tip")
    assert serious(page) == []
    before = page.url
    page.keyboard.press("Enter")
    until(page, "before => location.href !== before", arg=before)


def test_a_click_opens_the_prompt(page: Page):
    before = page.url
    point(page, 0, 1)
    page.mouse.down()
    page.mouse.up()
    until(page, "before => location.href !== before", arg=before)


def test_counts_select_their_prompts_in_the_list(page: Page):
    def listed() -> list[str]:
        return page.locator(".prompt-table tbody td:first-child a").all_inner_texts()

    assert len(listed()) == 4
    button = page.get_by_role("button", name="Improved 1")
    button.click()
    until(
        page, "() => document.querySelectorAll('.prompt-table tbody tr').length === 1"
    )
    assert listed() == ["Question 0?"]
    assert button.get_attribute("aria-pressed") == "true"
    in_url(page, "has.course=improved")
    button.click()
    until(
        page, "() => document.querySelectorAll('.prompt-table tbody tr').length === 4"
    )
    assert button.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("width", [390, 800])
def test_the_map_fits_narrow_pages_and_dark_ones(browser, folder, width):
    size = {"width": width, "height": 800}
    with visiting(
        browser, folder / "out" / "prompts.html", viewport=size, color_scheme="dark"
    ) as page:
        until(page, f"() => document.querySelector('{CELLS}')?.tabIndex === 0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []


def test_without_scripts_the_map_and_its_counts_read_well(browser, folder):
    place = folder / "out" / "prompts.html"
    with visiting(browser, place, java_script_enabled=False) as page:
        assert page.locator(f"{CELLS} path").count() >= 2
        counts = page.locator(".courses > li").all_inner_texts()
        assert counts == [
            "Improved 1",
            "Regressed 1",
            "Never solved 1",
            "No clear change 1",
        ]
        assert page.locator("button").count() == 0
        label = page.get_attribute(f"{CELLS} > svg", "aria-label") or ""
        assert label.startswith("Map of 4 prompts over the steps")
