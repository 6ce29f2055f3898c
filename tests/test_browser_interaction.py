"""Clicks, keys, focus, print and the URL in a browser: what each must do."""

import pytest

from tests.browser import box_of, in_url, listed, until, visiting

pytestmark = pytest.mark.untraced


FOCUSED = "() => document.activeElement.textContent"


def test_the_focus_stays_on_next_and_goes_to_the_row_of_a_closed_response(page):
    page.click(".responses tbody tr:first-child")
    page.focus("button:text('Next →')")
    for place in (2, 3):
        page.keyboard.press("Enter")
        until(
            page,
            "place => document.querySelector('.response .count').textContent"
            ".startsWith(`${place} of`)",
            arg=place,
        )
        assert page.evaluate(FOCUSED) == "Next →"
    page.focus(".response .close")
    page.keyboard.press("Enter")
    name = page.evaluate("() => document.activeElement.closest('tr')?.dataset.n")
    assert name == listed(page)[2]


def test_escape_hides_the_tooltip_then_closes_the_response(page):
    page.click(".responses tbody tr:first-child")
    page.wait_for_selector(".token-text .t")
    page.keyboard.press("w")
    page.wait_for_selector(".tip:not([hidden])")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tip:not([hidden])", state="detached")
    assert page.locator(".response h2").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".response h2").count() == 0


def test_the_whole_header_sorts(page):
    box = box_of(page.locator('.responses th[data-key="reward"]'))
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    sort = page.get_attribute('.responses th[data-key="reward"]', "aria-sort")
    assert sort == "ascending"  # the bad end of a reward first


def test_a_click_beside_a_menu_closes_it(page):
    page.click(".menu > button:text('Filter')")
    assert page.locator(".sheet:popover-open").count() == 1
    page.mouse.click(5, 5)
    assert page.locator(".sheet:popover-open").count() == 0


@pytest.mark.parametrize("modifiers", ["altKey: true", "altKey: true, ctrlKey: true"])
def test_altgr_types_brackets(page, modifiers):
    event = f"{{ key: '{{', bubbles: true, cancelable: true, {modifiers} }}"
    said = f"document.body.dispatchEvent(new KeyboardEvent('keydown', {event}))"
    assert not page.evaluate(said)


def test_what_does_not_parse_leaves_the_url(browser, step):
    bad = "#min.reward=abc&has.prompt=&sort=nope&max.nope=3&min.extra:style="
    with visiting(browser, step, bad) as page:
        assert len(listed(page)) == 37
        assert page.locator(".chips button").count() == 0
        until(page, "() => location.hash === ''", timeout=2000)


def test_on_a_phone_an_opened_response_has_the_focus(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.focus(".responses tbody tr a")
    page.keyboard.press("Enter")
    page.wait_for_selector(".response h2")
    assert page.evaluate("() => document.activeElement.closest('.response') !== null")


def test_a_held_key_loses_no_token(page):
    page.click(".responses tbody tr:first-child")
    page.wait_for_selector(".token-text .t")
    page.focus(".token-text .t")
    for key, times in (
        ("n", 60),
        ("ArrowRight", 39),
        ("ArrowLeft", 39),
        ("ArrowRight", 7),
    ):
        for _ in range(times):
            page.keyboard.press(key)
    in_url(page, "token=7")
    tip = page.text_content(".tip .raw") or ""
    assert tip.startswith("7:")


STYLE = "(node, name) => getComputedStyle(node)[name]"


def test_print_keeps_colours_and_headers(page, subtests):
    page.click(".responses tbody tr:first-child")
    page.wait_for_selector(".token-text .t")
    page.emulate_media(media="print")
    with subtests.test("colours of tokens"):
        token = page.locator(".token-text .t").first
        assert token.evaluate(STYLE, "printColorAdjust") == "exact"
    with subtests.test("headers"):
        button = page.locator("th button.sort").first
        assert button.evaluate(STYLE, "display") == "contents"
    with subtests.test("texts"):
        cell = page.locator('td[data-key="response"]').first
        assert cell.evaluate(STYLE, "overflowWrap") == "normal"


def test_forced_colours_show_the_open_row(page):
    page.click(".responses tbody tr:first-child")
    page.wait_for_selector(".token-text .t")
    page.emulate_media(media="null", forced_colors="active")
    open_row, other = (page.locator(f"tbody tr:nth-child({k}) td").last for k in (1, 2))
    colour = open_row.evaluate(STYLE, "backgroundColor")
    assert colour != other.evaluate(STYLE, "backgroundColor")
    page.emulate_media(forced_colors="null")


def test_rows_tell_screen_readers_which_is_open_and_are_reached_by_tab(page):
    page.click(".responses tbody tr:nth-child(3)")
    page.wait_for_selector(".response h2")
    assert page.locator(".responses tr[aria-selected]").count() == 0
    assert page.locator(".responses tr[aria-current]").count() == 1
    assert page.locator('.responses tbody a[tabindex="-1"]').count() == 0


def test_an_open_response_leaves_the_list_its_texts_at_any_width(page, subtests):
    page.click(".responses tbody tr:nth-child(3)")
    page.wait_for_selector(".response h2")
    text = page.locator('.responses tbody tr:nth-child(3) td[data-key="response"]')
    left = "all => all.map(node => node.getBoundingClientRect().left)"
    for width in (1200, 1400, 1700, 1900, 2500):
        page.set_viewport_size({"width": width, "height": 900})
        with subtests.test("texts are in sight", width=width):
            box = box_of(text)
            frame = box_of(page.locator(".responses .scroll"))
            end = frame["x"] + frame["width"]
            assert min(box["width"], end - box["x"]) >= 200
        with subtests.test("navigation and page begin at one line", width=width):
            parts = "main, header.site, footer.site"
            assert len(set(page.eval_on_selector_all(parts, left))) == 1


def test_the_overview_keeps_its_sort_in_the_url(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        assert page.locator(".steps .list-tools .count").count() == 1
        assert page.locator(".steps .list-tools input[type=search]").count() == 0
        page.click('.steps th[data-key="reward_mean"] button')
        in_url(page, "steps.sort=reward_mean")
        address = page.url.split("#")[1]
    with visiting(browser, hacking / "index.html", "#" + address) as page:
        assert (
            page.get_attribute('.steps th[data-key="reward_mean"]', "aria-sort")
            == "ascending"
        )


def test_a_removed_filter_leaves_the_focus_nearby(browser, step):
    with visiting(browser, step, "#min.reward=0") as page:
        page.focus(".chips button")
        page.keyboard.press("Enter")
        assert page.evaluate(FOCUSED) == "Filter"
