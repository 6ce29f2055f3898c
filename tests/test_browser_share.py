"""Link and "Go to", "How to read this", and the copy for an assistant, from ``file://``."""

import shutil
from pathlib import Path

import pytest

import rlreport
from tests.browser import copy, in_url, serious, until, visiting
from tests.pages import Made, write_step

pytestmark = pytest.mark.untraced
READ = ["clipboard-read", "clipboard-write"]


@pytest.fixture(scope="module")
def hacked(shared_data, tmp_path_factory):
    """A report as a folder, and as one file in Chinese whose name is a hostile one."""
    out = tmp_path_factory.mktemp("hacked")
    logs = shared_data / "ppo_reward_hacking"
    one = rlreport.build(
        logs, out / "运行 #1 · a.html", lang="zh", max_size=2_500_000, workers=1
    )
    return Path(one.out)


def copied_link(page):
    page.click(".site-tools .menu > button")
    page.click(".share > button")
    text = page.inner_text(".link-text")
    until(page, "async text => (await navigator.clipboard.readText()) === text", text)
    page.keyboard.press("Escape")
    return text


def go_to(page, text):
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("g")
    page.fill(".share input", text)
    page.keyboard.press("Enter")


def test_a_copied_link_leads_back_in_a_folder(browser, hacking):
    address = "#r=23&metric=kl&token=3"
    with visiting(
        browser, hacking / "steps/59.html", address, permissions=READ
    ) as page:
        page.wait_for_selector(".token-text .t.at")
        text = copied_link(page)
        words, place, end = text.split(" · ")
        assert words == "step 59, response 23, token 3"
        assert place == page.inner_text(".response-head .place")
        assert end == f"steps/59.html{address}"
        # The receiver's report is somewhere else, at another page.
        page.goto((hacking / "data.html").as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        go_to(page, text)
        page.wait_for_url(f"**/{end}")
        page.wait_for_selector(".token-text .t.at")
        # The copy menu of the response has the same link.
        page.click(".response-more .menu > button")
        copy(page, ".response-more .sheet button:nth-child(2)")
        until(
            page, "async text => (await navigator.clipboard.readText()) === text", text
        )


def test_a_copied_link_leads_back_in_one_file_in_chinese(browser, hacked, hacking):
    address = "#/steps/59?r=23&metric=kl&token=3"
    with visiting(browser, hacked, address, permissions=READ) as page:
        page.wait_for_selector(".token-text .t.at")
        text = copied_link(page)
        assert text.endswith(f"{hacked.name}{address}")
        page.evaluate("location.hash = '#/data'")
        page.wait_for_selector(".page.data")
        go_to(page, text)
        page.wait_for_selector(".token-text .t.at")
        assert page.evaluate("location.hash") == address
        # Its words alone name the step and the response, in English or as the edition has them.
        for words in (text.split(" · ")[0], "step 58, response 2", "57/1"):
            page.evaluate("location.hash = '#/data'")
            page.wait_for_selector(".page.data")
            go_to(page, words)
            page.wait_for_selector(".page.step .response:not([hidden])")
    # The same text leads there in the folder of the English edition.
    with visiting(browser, hacking / "index.html") as page:
        go_to(page, text)
        page.wait_for_url("**/steps/59.html#r=23&metric=kl&token=3")


def test_go_to_keeps_the_page_for_a_state_alone_and_says_what_is_not_there(
    browser, hacking
):
    with visiting(browser, hacking / "steps/59.html") as page:
        go_to(page, "#r=2")
        in_url(page, "r=2")
        assert page.url.endswith("steps/59.html#r=2")
        page.keyboard.press("Escape")
        go_to(page, "999/1")
        assert "no page of step 999" in page.inner_text(".share output")
        page.fill(".share input", "nowhere")
        page.keyboard.press("Enter")
        assert "is expected" in page.inner_text(".share output")
        assert page.url.endswith("59.html") or "r=2" in page.url
        assert serious(page) == []


def test_where_copying_is_refused_the_text_is_shown_selected(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.evaluate(
            """() => { Object.defineProperty(navigator, "clipboard", { value: undefined })
            document.execCommand = () => false }"""
        )
        page.click("button.for-assistant")
        page.wait_for_selector("dialog.to-copy")
        until(
            page,
            """() => { const area = document.querySelector('.to-copy textarea')
            return area.selectionEnd - area.selectionStart === area.value.length
                && area.value.length > 1000 }""",
        )
        assert serious(page) == []
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog.to-copy", state="detached")


def test_the_button_copies_the_text_for_an_assistant(browser, hacking):
    with visiting(browser, hacking / "index.html", permissions=READ) as page:
        copy(page, "button.for-assistant")
        text = page.evaluate("navigator.clipboard.readText()")
        assert text == page.evaluate(
            "JSON.parse(document.querySelector('.assistant-text').textContent)"
        )


def test_how_to_read_is_folded_stays_dismissed_and_can_be_asked_for(browser, hacking):
    shown = "details.how-to"
    with visiting(browser, hacking / "index.html") as page:
        assert page.locator(shown).is_visible()
        assert page.get_attribute(shown, "open") is None
        page.click(f"{shown} summary")
        page.click(f"{shown} button")
        assert page.locator(shown).is_hidden()
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.locator(shown).is_hidden()
        page.goto((hacking / "steps/3.html").as_uri())
        page.click("footer a[href*=how-to]")
        page.wait_for_url("**/index.html#how-to-read*")
        page.wait_for_selector(f"{shown} dl")
        page.emulate_media(media="print")
        assert page.locator(shown).is_hidden()
    with visiting(browser, hacking / "index.html", java_script_enabled=False) as page:
        page.click(f"{shown} summary")
        assert page.locator(f"{shown} dl").is_visible()
        assert page.locator("button.for-assistant").is_hidden()


def test_how_to_read_without_storage_is_dismissed_on_its_page(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.evaluate(
            "() => { Storage.prototype.setItem = () => { throw new Error('none') } }"
        )
        page.click("details.how-to summary")
        page.click("details.how-to button")
        assert page.locator("details.how-to").is_hidden()


def test_a_step_begins_with_its_figures_and_names_findings_in_one_line(
    browser, hacking
):
    with visiting(browser, hacking / "steps/59.html") as page:
        kinds = page.eval_on_selector_all(
            ".page.step > *",
            "all => all.map(node => node.classList[0] ?? node.localName)",
        )
        wanted = ["page-head", "figures", "found-here"]
        assert [kind for kind in kinds if kind in wanted] == wanted
        assert kinds.index("master-detail") > kinds.index("found-here")
        assert page.locator("header nav [aria-current]").count() == 1
        assert page.inner_text("header nav [aria-current=page]") == "Step 59"
        box = page.locator(".found-here").bounding_box()
        assert box is not None and box["height"] < 50
        page.click(".found-here a")
        page.wait_for_url("**/index.html#finding=*")
        page.wait_for_selector(".finding details[open], .finding.leading")


def test_the_step_is_in_the_navigation_of_one_file_only_while_it_is_shown(
    browser, hacked
):
    with visiting(browser, hacked, "#/steps/59") as page:
        page.wait_for_selector(".page.step")
        current = page.locator("header nav [aria-current]")
        assert current.get_attribute("href") == "#/steps/59"
        page.evaluate("location.hash = '#/steps/3'")
        until(
            page, "document.querySelectorAll('header nav a[href*=steps]').length === 1"
        )
        page.wait_for_selector('header nav a[href="#/steps/3"]')
        page.evaluate("location.hash = '#/'")
        page.wait_for_selector(".page.overview")
        assert page.locator('header nav a[href*="steps"]').count() == 0
        assert current.get_attribute("href") == "#/"


def test_a_list_of_one_step_has_the_picker_which_moves_to_another(browser, hacking):
    address = "#min.step=46&max.step=46"
    with visiting(browser, hacking / "responses.html", address) as page:
        slider = page.locator('.scrubber input[type="range"]')
        slider.wait_for(state="visible")
        assert "46" in str(slider.get_attribute("aria-valuetext"))
        slider.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        in_url(page, "min.step=47&max.step=47")
        assert page.evaluate("document.activeElement.type") == "range"
        page.click(".chips button")
        until(page, "document.querySelector('.scrubber').hidden")


@pytest.mark.parametrize("width", [1400, 800, 390])
def test_the_header_is_calm_with_a_long_chinese_name(browser, tmp_path_factory, width):
    folder = tmp_path_factory.mktemp("named")
    step = write_step(folder, Made(responses=2))
    name = (
        "奖励模型被利用的一次训练运行，表情符号在回复中扩散，长度与KL同时上升（第三次）"
        * 2
    )
    rlreport.build(folder / "rank_0.jsonl", folder / "long", title=name, workers=1)
    shutil.rmtree(step.parents[1])
    viewport = {"width": width, "height": 800}
    with visiting(browser, folder / "long/steps/100.html", viewport=viewport) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        box = page.locator("header.site").bounding_box()
        assert box is not None
        assert box["height"] < {1400: 60, 800: 90, 390: 145}[width]
        assert page.get_attribute("header .run", "title") == name
