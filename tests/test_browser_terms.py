"""Names of figures in a browser: they open their definitions by mouse, keyboard and touch."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

import rlreport
from tests.browser import box_of, serious, until, visiting

pytestmark = pytest.mark.untraced

CARD = ".term-card:popover-open"
KL = '.figure[data-figure="kl_k1_mean"] button.term'
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def one_file(shared_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("terms") / "run.html"
    logs = shared_data / "grpo_math"
    return Path(rlreport.build(logs, out, workers=1).out)


def text_of_card(page: Page) -> str:
    card = page.locator(CARD)
    card.wait_for()
    return card.inner_text()


def test_a_name_opens_its_definition_and_escape_gives_the_focus_back(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.focus(KL)
        page.keyboard.press("Enter")
        text = text_of_card(page)
        assert "How far the policy has moved from the reference" in text
        assert "KL per response (warning): 10 nats" in text
        assert page.evaluate("document.activeElement.className") == "term-card"
        assert serious(page) == []
        page.keyboard.press("Escape")
        until(page, "() => !document.querySelector('.term-card:popover-open')")
        assert page.evaluate(f"document.activeElement.matches('{KL}')")


def test_the_definition_links_to_its_place_on_the_page_of_all(browser, hacking):
    with visiting(browser, hacking / "steps" / "58.html") as page:
        page.click(KL)
        text_of_card(page)
        page.click(f"{CARD} .more a")
        page.wait_for_selector(".figures-page")
        assert page.evaluate("location.hash") == "#term=kl_k1_mean"
        assert "figures.html" in page.url
        entry = page.locator('[id="term=kl_k1_mean"]')
        until(page, "() => scrollY > 0 || document.body.scrollHeight <= innerHeight")
        assert 0 <= box_of(entry)["y"] < 900


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_the_definition_lies_inside_the_window(browser, hacking, dark):
    scheme = "dark" if dark else "light"
    overview = hacking / "index.html"
    with visiting(browser, overview, viewport=PHONE, color_scheme=scheme) as page:
        names = page.locator(".overview :is(button.term, button.what):visible")
        for at in range(0, names.count(), 5):
            name = names.nth(at)
            name.scroll_into_view_if_needed()
            name.click()
            text_of_card(page)
            box = box_of(page.locator(CARD))
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= PHONE["height"]
            page.keyboard.press("Escape")
        page.locator(KL).click()
        text_of_card(page)
        assert serious(page) == []


def test_a_press_on_a_header_still_sorts_and_its_mark_opens_the_definition(
    browser, hacking
):
    with visiting(browser, hacking / "responses.html") as page:
        header = page.locator('.responses th[data-key="kl_k1"]')
        page.wait_for_selector(".responses th .what", state="attached")
        header.locator("button.sort").click()
        assert header.get_attribute("aria-sort") == "descending"
        mark = header.locator(".what")
        name = mark.get_attribute("aria-label")
        assert name == "What is “KL”?"  # without the unit
        box = box_of(mark)
        assert min(box["width"], box["height"]) >= 24
        mark.click()
        assert text_of_card(page).startswith("KL")
        assert header.get_attribute("aria-sort") == "descending"


def test_a_column_that_is_added_later_has_its_definition_too(browser, hacking):
    with visiting(browser, hacking / "steps" / "58.html") as page:
        page.click(".list-tools .menu button:text('Columns')")
        page.locator(".sheet:popover-open label", has_text="Value error").click()
        page.keyboard.press("Escape")
        mark = page.locator('.responses th[data-key="value_error_mean"] .what')
        mark.scroll_into_view_if_needed()
        mark.click()
        assert "Value error" in text_of_card(page)


def test_the_metric_of_the_token_view_opens_its_definition(browser, hacking):
    with visiting(browser, hacking / "steps" / "58.html", "#r=1&metric=kl") as page:
        page.click(".legend button.term")
        assert "exp(−r) − 1 + r" in text_of_card(page)


def test_a_chart_and_what_moved_open_definitions_and_the_link_stays_one(
    browser, hacking
):
    with visiting(browser, hacking / "index.html") as page:
        page.click('.chart[data-chart="kl"] figcaption button.term')
        assert "log-ratios" in text_of_card(page)
        page.keyboard.press("Escape")
        strip = page.locator(".strip", has_text="Finished")
        strip.hover()
        strip.locator(".what").click()
        assert "ended by themselves" in text_of_card(page)
        assert "#chart" not in page.url


def test_in_one_file_names_open_the_same_page_s_entries(browser, one_file):
    with visiting(browser, one_file) as page:
        page.click('.figure[data-figure="reward_mean"] button.term')
        assert "What training raises" in text_of_card(page)
        page.click(f"{CARD} .more a")
        page.wait_for_selector(".figures-page")
        assert page.evaluate("location.hash") == "#/figures?term=reward_mean"
        assert page.locator(CARD).count() == 0
        # The entry of the foot leads there from any view.
        page.click("header.site nav a:has-text('Prompts')")
        page.wait_for_selector(".page.prompts")
        page.click("footer.site a.to-figures")
        page.wait_for_selector(".figures-page")
        assert page.evaluate("location.hash") == "#/figures"


def test_in_chinese_the_definition_is_chinese(browser, shared_data, tmp_path):
    out = tmp_path / "out"
    rlreport.build(shared_data / "grpo_math", out, lang="zh", workers=1)
    with visiting(browser, out / "index.html") as page:
        page.click('.figure[data-figure="reward_mean"] button.term')
        text = text_of_card(page)
        assert "奖励" in text
        assert "Mean over responses" not in text


def test_the_page_of_definitions_reads_without_scripts(browser, hacking):
    place = "#term=kl_k1_mean"
    figures = hacking / "figures.html"
    with visiting(browser, figures, place, java_script_enabled=False) as page:
        entry = page.locator('[id="term=kl_k1_mean"]')
        assert "KL per response (warning): 10 nats" in entry.inner_text()
        assert 0 <= box_of(entry)["y"] < 900
        assert serious_free_of_scripts(page)


def serious_free_of_scripts(page: Page) -> bool:
    """Whether every definition is a pair of a term and what it means."""
    entries = page.locator(".term-entry")
    return entries.count() == page.locator(".term-entry > dt + dd").count() > 40


@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_of_definitions_is_accessible_and_does_not_scroll_sideways(
    browser, hacking, width
):
    size = {"width": width, "height": 900}
    with visiting(browser, hacking / "figures.html", viewport=size) as page:
        assert serious(page) == []
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )


def test_the_verdict_leads_to_what_would_log_it(browser, hacking, one_file):
    for report, hash_ in (
        (hacking / "index.html", "#part=not-logged"),
        (one_file, "#/data?part=not-logged"),
    ):
        with visiting(browser, report) as page:
            page.click(".not-found a:has-text('What would log it')")
            page.wait_for_selector(".not-logged")
            assert page.evaluate("location.hash") == hash_
            assert box_of(page.locator(".not-logged"))["y"] < 900
            assert serious(page) == []
