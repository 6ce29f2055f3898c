"""Whole reports of real runs in a browser: silent, offline, accessible, and linked up."""

import re

import pytest

from rlreport.columns import RESPONSE
from tests.browser import box_of, listed, numbers, rest, serious, until, visiting
from tests.running import in_ci

pytestmark = pytest.mark.untraced
KINDS = ["index.html", "steps/59.html", "prompts.html", "texts.html", "data.html"]


def live(name: str) -> str:
    return f'figure[data-chart="{name}"][data-live="true"]'


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", *in_ci("dark")])
def test_no_page_has_a_serious_finding_of_axe_or_is_wider_than_the_screen(
    browser, hacking, kind, scheme
):
    address = "#r=23&metric=kl&b=log_ratio" if kind.startswith("steps") else ""
    with visiting(browser, hacking / kind, address, color_scheme=scheme) as page:
        for width in (360, 3840):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.set_viewport_size({"width": 1400, "height": 900})
        if address:
            page.wait_for_selector(".token-text .t")
            page.click(".token-table summary")
            page.wait_for_selector(".token-table tbody tr")
        assert serious(page) == []


@pytest.mark.parametrize("kind", KINDS)
def test_pages_read_without_scripts(browser, hacking, kind):
    with visiting(browser, hacking / kind, java_script_enabled=False) as tab:
        assert tab.locator("main h1").count() == 1
        assert tab.locator("main tbody tr").count() > 3
        assert tab.locator(".noscript").is_visible()
        for chart in tab.locator("figure.chart .plot > svg").all():
            assert chart.get_attribute("role") == "img"
        if kind in ("index.html", "steps/59.html"):
            assert tab.locator("figure.chart .plot > svg").count() > 2
        if kind == "index.html":
            # What moved is seen without scrolling, then comes the chart of the verdict, and the
            # rest is folded.
            box = box_of(tab.locator(".verdict + section.moved"))
            assert box["y"] + box["height"] < 900
            lead = tab.locator(".verdict ~ section figure.chart")
            assert lead.first.locator(".shaded").count() == 1
            assert tab.locator('figure[data-chart="reward"]').count() == 1
            assert 3 < tab.locator("figure.chart:visible").count() <= 8
            tab.locator(".more-charts > summary").click()
            assert tab.locator("figure.chart:visible").count() > 8


def test_columns_of_links_to_responses_are_not_aligned_as_numbers(hacking):
    pages = [
        (hacking / name).read_text("utf-8") for name in ("index.html", "texts.html")
    ]
    classes = re.findall(
        r'<th scope="col" class="(\w+)" data-key="example"', "".join(pages)
    )
    assert set(classes) == {"link"}


def test_live_charts_follow_the_theme_and_a_click_opens_the_step(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.wait_for_selector(live("reward"))
        policy_blue = f"{live('reward')} svg [stroke='#1a63d2']"
        assert page.locator(policy_blue).count() > 0
        # Of themes chosen at once the last is shown.
        page.evaluate(
            "for (let i = 0; i < 5; i++) document.querySelector('.theme').click()"
        )
        assert page.text_content("button.theme") == "Theme: dark"
        page.wait_for_selector(
            f"{live('reward')} svg [stroke='#6cb0ff']", state="attached"
        )
        rest(page, 500)
        assert page.locator(policy_blue).count() == 0
        # The theme is remembered from page to page.
        page.goto((hacking / "data.html").as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.text_content("button.theme") == "Theme: dark"
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor")
            == "rgb(20, 23, 26)"
        )
        page.goto((hacking / "index.html").as_uri())
        page.wait_for_selector(live("reward"))
        page.locator(f"{live('reward')} .plot").scroll_into_view_if_needed()
        box = box_of(page.locator(f"{live('reward')} .plot"))
        x = box["x"] + box["width"] * 0.5
        y = box["y"] + 100
        page.mouse.move(x - 5, y)
        page.mouse.move(x, y)
        page.mouse.click(x, y)
        page.wait_for_url("**/steps/*.html")
        step = int(page.url.rsplit("/", 1)[1].removesuffix(".html"))
        assert 24 < step < 36


def test_brushing_a_chart_filters_the_list_and_other_charts_follow(browser, hacking):
    with visiting(browser, hacking / "steps/59.html", reduced_motion="reduce") as page:
        page.wait_for_selector(live("step_reward_kl"))
        plot = page.locator(f"{live('step_reward_kl')} .plot")
        plot.scroll_into_view_if_needed()
        box = box_of(plot)
        everything = len(listed(page))
        page.mouse.move(box["x"] + 60, box["y"] + 40)
        page.mouse.down()
        middle = box["x"] + box["width"] * 0.5
        page.mouse.move(middle, box["y"] + 150, steps=4)
        page.mouse.up()
        # The list follows once the hand rests for 30 ms; a slow one has moved it before.
        rest(page, 40)
        page.wait_for_selector(".chips button")
        rest(page, 400)  # the address is written 200 ms later
        low, high = (
            float(page.url.split(f"{end}.kl_k1=")[1].split("&")[0])
            for end in ("min", "max")
        )
        shown = numbers(page, "kl_k1")
        assert 0 < len(shown) < everything
        assert all(low - 1e-3 <= x <= high + 1e-3 for x in shown)
        assert page.text_content(".count") == f"{len(shown)} of {everything}"
        # Print shows rows and no tools.
        page.emulate_media(media="print")
        assert page.locator(".list-tools").first.is_hidden()
        assert page.locator(".site-tools").is_hidden()
        assert page.locator(".responses tbody tr").first.is_visible()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"


def test_the_worst_token_of_the_run_is_three_clicks_away(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.click(f"a:has-text('{RESPONSE['kl_max'].label}')")
        page.wait_for_selector(".token-text .t.at")
        at = page.url.split("token=")[1].split("&")[0]
        page.goto(page.url.split("&token=")[0] + "&metric=kl")
        page.reload()
        page.wait_for_selector(".token-text .t")
        page.click("button:has-text('Next largest')")
        assert page.url.split("token=")[1].split("&")[0] == at


def test_keys_and_the_scrubber_move_between_steps(browser, hacking):
    with visiting(browser, hacking / "steps/30.html") as page:
        page.keyboard.press("?")
        text = page.inner_text("dialog")
        assert all(key in text for key in ("[", "]", "j", "k", "/", "n"))
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")
        page.keyboard.press("]")
        page.wait_for_url("**/steps/31.html")
        page.keyboard.press("[")
        page.wait_for_url("**/steps/30.html")
        page.wait_for_selector("html[data-ready]", state="attached")
        page.focus('input[aria-label="Step"]')
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.url.endswith("steps/30.html")
        page.keyboard.press("Enter")
        page.wait_for_url("**/steps/32.html")
        assert page.title() == "Step 32 · ppo_reward_hacking"
        assert page.inner_text("header nav a[aria-current]") == "Step 32"
        page.click("header nav a >> nth=0")
        page.wait_for_url("**/index.html")


def test_scripts_of_a_page_leave_no_names_but_those_of_vega_and_of_the_runs_data(
    browser, hacking
):
    with visiting(browser, hacking / "index.html") as page:
        # Vega is loaded when the first chart comes near the window.
        page.evaluate("document.querySelector('figure').scrollIntoView()")
        until(page, "Boolean(window.vegaEmbed)")
        page.evaluate("document.body.append(document.createElement('iframe'))")
        names = page.evaluate(
            "Object.getOwnPropertyNames(window).filter((name) => !(name in frames[0]))"
        )
        assert {*names} - {"0"} == {"vegaEmbed", "vega", "vegaLite", "rlreportSteps"}
        # What ``const`` names at the top of a script is no property of the window.
        assert page.evaluate("typeof modules") == "undefined"
