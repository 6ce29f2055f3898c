"""The page of a comparison in a browser: its map of prompts, its list, narrow and printed."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import rlreport
from tests.browser import box_of, in_url, serious, until, visiting
from tests.comparisons import PROMPTS, write_pair

pytestmark = pytest.mark.untraced

CELLS = ".side-map .cells"
TIP = ".tip:not([hidden])"
IS_LIVE = f"() => document.querySelector('{CELLS}')?.tabIndex === 0"
ENDS = (
    '[data-table="flips"] tbody tr:first-child '
    'td:is([data-key="response"], [data-key="ref_response"])'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("compare")
    base, new = write_pair(path)
    rlreport.compare(base, new, path / "out")
    rlreport.compare(base, new, path / "out.html")
    return path


@pytest.fixture(params=["out/compare.html", "out.html"])
def page(request, browser: Browser, folder: Path):
    with visiting(browser, folder / request.param) as opened:
        until(opened, IS_LIVE)
        yield opened


def point(page: Page, column: int) -> None:
    # The charts above become interactive as they come into sight.
    until(page, "() => document.querySelectorAll('.charts .vega-embed').length === 2")
    page.locator(CELLS).scroll_into_view_if_needed()
    box = box_of(page.locator(CELLS))
    across = box["x"] + box["width"] * (column + 0.5) / PROMPTS
    page.mouse.move(across, box["y"] + 10)
    page.wait_for_selector(TIP)


def test_a_column_under_the_pointer_says_what_became_of_its_prompt(page: Page):
    point(page, 0)  # what was lost most is on the left
    title, *lines = filter(None, page.inner_text(TIP).split("\n"))
    assert title == "Regressed"
    assert lines[:2] == ["group_size 8\t1.00", "group_size 4\t0"]
    assert "1: how many?" in lines[2]
    point(page, PROMPTS - 1)
    assert page.inner_text(TIP).split("\n")[0] == "Improved"
    page.mouse.move(0, 0)
    assert page.locator(TIP).count() == 0


def test_keys_move_along_the_map_and_open_the_prompt_beside_the_list(page: Page):
    page.focus(CELLS)
    page.keyboard.press("End")
    assert page.inner_text(f"{CELLS} [aria-live]").endswith(
        "0: how many?, Improved, group_size 8: 0, group_size 4: 1.00"
    )
    assert serious(page) == []
    page.keyboard.press("Enter")
    until(page, "() => !document.querySelector('section.response').hidden")
    assert "0: how many?" in page.inner_text("section.response")


def test_a_click_opens_the_prompt_and_prompts_without_a_difference_open_nothing(
    page: Page,
):
    point(page, PROMPTS - 2)  # never or always solved: not in the list
    assert "opens" not in (page.get_attribute(CELLS, "class") or "").split()
    page.mouse.down()
    page.mouse.up()
    assert "r=" not in page.evaluate("location.hash")
    point(page, 0)
    assert "opens" in (page.get_attribute(CELLS, "class") or "").split()
    page.mouse.down()
    page.mouse.up()
    in_url(page, "r=")
    assert "1: how many?" in page.inner_text("section.response")


def test_the_list_shows_the_ends_before_and_after_a_search(page: Page):
    def ends() -> list[str]:
        return [text.strip() for text in page.locator(ENDS).all_inner_texts()]

    before = ends()
    assert len(before) == 2
    assert all("#### " in text and "Beginning" not in text for text in before)
    field = page.locator('[data-table="flips"] input[type=search]')
    field.fill("Beginning")
    until(
        page, "() => document.querySelector('[data-table=flips] .clamp .end') === null"
    )
    field.fill("")
    until(
        page, "() => document.querySelector('[data-table=flips] .clamp .end') !== null"
    )
    assert ends() == before


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_the_page_fits_and_shows_both_ends_at_any_width(browser, folder, width):
    size = {"width": width, "height": 800}
    place = folder / "out" / "compare.html"
    with visiting(browser, place, viewport=size, color_scheme="dark") as page:
        until(page, IS_LIVE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []
        for cell in page.locator(ENDS).all():
            box = box_of(cell)
            assert box["x"] + box["width"] <= width


def test_both_charts_stand_side_by_side_on_one_line(browser, folder):
    with visiting(browser, folder / "out" / "compare.html") as page:
        reward, difference = page.locator(".charts .plot").all()
        left = box_of(reward)
        right = box_of(difference)
        assert left["x"] + left["width"] < right["x"]
        assert left["width"] == right["width"]
        assert abs(left["y"] + left["height"] - right["y"] - right["height"]) <= 1


def test_without_scripts_the_map_its_counts_and_the_ends_read_well(browser, folder):
    place = folder / "out" / "compare.html"
    with visiting(browser, place, java_script_enabled=False) as page:
        label = page.get_attribute(f"{CELLS} > svg", "aria-label") or ""
        assert label.startswith(f"Map of {PROMPTS} prompts, colour: mean reward with")
        assert "1 improved" in label
        counts = page.locator(".courses > li").all_inner_texts()
        assert counts[:2] == ["Improved 1", "Regressed 1"]
        for text in page.locator(ENDS).all_inner_texts():
            assert "#### " in text
            assert "Beginning" not in text
        assert page.locator("button").count() == 0


def test_a_printed_comparison_has_six_pages_at_most_with_both_ends(browser, folder):
    for scripts in (True, False):
        place = folder / "out" / "compare.html"
        with visiting(browser, place, "#r=1", java_script_enabled=scripts) as page:
            printed = page.pdf(prefer_css_page_size=True)
            assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6
            page.set_viewport_size({"width": 703, "height": 1000})  # of the paper
            page.emulate_media(media="print")
            assert page.locator(ENDS).count() == 2
            for cell in page.locator(ENDS).all():
                assert cell.is_visible()
            rows = page.locator('[data-table="flips"] tbody tr')
            assert sum(row.is_visible() for row in rows.all()) == 10
            assert page.is_hidden("details.folded summary")
            assert page.is_visible(".side-map svg")
            assert page.is_hidden("section.response")
