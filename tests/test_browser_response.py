"""The response panel in a browser: address, texts, figures, differences, moving on."""

import pytest
from playwright.sync_api import Page

from tests.browser import box_of, copy, listed, visiting
from tests.pages import Made, write_step

pytestmark = pytest.mark.untraced
TITLE = ".response h2"


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    return write_step(tmp_path_factory.mktemp("response"), Made(with_tokens=3))


def open_row(page: Page, n: int) -> None:
    page.click(f'.responses tr[data-n="{n}"] td[data-key="prompt"]')
    page.wait_for_selector(TITLE)


def test_a_row_opens_in_place_with_an_address_that_survives_reload_and_back(page):
    open_row(page, 4)
    assert page.text_content(TITLE) == "Response 4"
    assert page.url.endswith("r=4")
    assert page.title() == "Response 4 · Step 100 · made up"
    assert page.get_attribute('.responses tr[data-n="4"]', "aria-current") == "true"
    page.reload()
    page.wait_for_selector(TITLE)
    assert page.text_content(TITLE) == "Response 4"
    page.go_back()
    page.wait_for_selector(".response", state="hidden")
    assert page.title() == "Step 100 · made up"
    page.go_forward()
    page.wait_for_selector(TITLE)
    assert page.text_content(TITLE) == "Response 4"


def test_enter_opens_the_row_with_the_focus_and_escape_closes_it(page):
    page.focus('.responses tr[data-n="2"] a')
    page.keyboard.press("Enter")
    page.wait_for_selector(TITLE)
    assert page.text_content(TITLE) == "Response 2"
    page.keyboard.press("Escape")
    page.wait_for_selector(".response", state="hidden")


def test_the_slash_key_searches(page):
    page.keyboard.press("/")
    page.keyboard.type("jkj")  # letters typed there are letters
    assert page.input_value("input[type=search]") == "jkj"
    assert page.locator(".response").is_hidden()


def test_an_opened_response_shows_its_texts(page):
    open_row(page, 5)
    texts = page.eval_on_selector_all(
        ".texts details",
        "all => all.map(one => [one.dataset.text, one.querySelector('.prose').textContent])",
    )
    assert texts == [
        ["prompt", "春风又绿江南岸，明月何时照我还。"],
        ["response", "answer 5 </SCRIPT><img src=x onerror=alert(1)>\nand more"],
        ["ref_response", "answer 5 of the reference"],
    ]
    body = page.locator('[data-text="prompt"] .prose')
    white_space = body.evaluate("node => getComputedStyle(node).whiteSpaceCollapse")
    assert white_space == "preserve"
    page.click('[data-text="prompt"] summary')
    assert body.is_hidden()


def test_an_opened_response_shows_turns_ranks_and_what_findings_name(page, subtests):
    with subtests.test("turns of the prompt"):
        open_row(page, 0)
        turns = page.eval_on_selector_all(
            ".turn", "all => all.map(turn => turn.innerText.split('\\n'))"
        )
        assert turns == [["system", "Be brief."], ["user", "Hello?"]]
    page.keyboard.press("Escape")
    with subtests.test("rank in the step"):
        open_row(page, 2)
        assert page.inner_text('[data-figure="reward"]').endswith("3rd of 16")
    page.keyboard.press("Escape")
    with subtests.test("finding"):
        open_row(page, 1)
        marked = page.evaluate(
            "[...CSS.highlights.get('finding')].map(range => range.toString())"
        )
        assert marked == ["more"]
        assert page.inner_text(".response .findings").startswith("✕ critical")
    page.keyboard.press("Escape")
    with subtests.test("that there are no tokens"):
        open_row(page, 9)
        page.wait_for_selector(".token-view .note")


def test_differences_to_the_reference_are_marked_on_demand(page):
    open_row(page, 6)
    assert page.locator("ins, del").count() == 0
    page.click("button:has-text('Mark differences')")
    assert page.locator('[data-text="response"] ins').count() > 0
    reference = page.text_content('[data-text="ref_response"] .prose')
    assert reference == "answer 6 of the reference"
    assert "answer 6" not in "".join(page.locator("ins").all_text_contents())
    page.click("button:has-text('Mark differences')")
    assert page.locator("ins, del").count() == 0


def test_a_response_stands_beside_that_of_the_reference(page):
    open_row(page, 6)
    prompt, response, reference = (
        box_of(page.locator(f'[data-text="{key}"]'))
        for key in ("prompt", "response", "ref_response")
    )
    assert prompt["y"] + prompt["height"] <= response["y"] == reference["y"]
    assert prompt["width"] > response["width"] == reference["width"]


def test_previous_and_next_follow_the_list_as_it_is_sorted_and_filtered(page):
    page.click('.responses th[data-key="extra:style"] button')
    order = listed(page)
    open_row(page, int(order[0]))
    shown = []
    for _ in range(3):
        shown.append(page.text_content(TITLE))
        page.keyboard.press("j")
    assert shown == [f"Response {n}" for n in order[:3]]
    page.keyboard.press("k")
    assert page.text_content(TITLE) == f"Response {order[2]}"
    page.click("button:has-text('Next →')")
    assert page.text_content(TITLE) == f"Response {order[3]}"
    assert page.text_content(".response .count") == "4 of 16 listed"
    page.go_back()  # leaves the responses at once
    page.wait_for_selector(".response", state="hidden")


@pytest.mark.parametrize("refused", [False, True])
def test_a_log_location_is_copied_even_if_the_clipboard_is_refused(
    browser, step, refused
):
    may = ["clipboard-read", "clipboard-write"]
    n = int(refused)  # another one: the clipboard may still hold that of the first
    with visiting(browser, step, f"#r={n}", permissions=may) as page:
        if refused:
            page.evaluate(
                "() => { navigator.clipboard.writeText = () => Promise.reject() }"
            )
        page.click(".response-more .menu > button")
        copy(page, ".sheet button:has-text('Log location')")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == f"rank_0.jsonl:{n + 1}"


@pytest.mark.parametrize(("width", "beside"), [(1400, True), (420, False)])
def test_list_and_panel_stand_side_by_side_only_on_wide_screens(
    browser, step, width, beside
):
    viewport = {"width": width, "height": 800}
    with visiting(browser, step, "#r=2", viewport=viewport) as page:
        page.wait_for_selector(TITLE)
        if not beside:
            assert page.locator(".responses").is_hidden()
            page.click("button:has-text('List')")
        table = box_of(page.locator(".responses"))
        panel = box_of(page.locator(".response"))
        assert (panel["x"] >= table["x"] + table["width"]) is beside
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
