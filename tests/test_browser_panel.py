"""The response panel on real runs: what leads, its group, its prompt at other steps."""

import re

import numpy as np
import pytest
from playwright.sync_api import Page

import rlreport
from tests.browser import box_of, listed, rest, serious, until, visiting
from tests.pages import Made, write_step
from tests.pages_reading import rows_data
from tests.reading import row, write
from tests.running import build

pytestmark = pytest.mark.untraced
TITLE = ".response h2"


def prompt(page: Page) -> str:
    return page.inner_text('[data-text="prompt"] .prose')


@pytest.fixture
def group_page(browser, real_report):
    """A response of a run of groups, opened at its second token."""
    step = real_report("grpo_math") / "steps" / "0.html"
    with visiting(browser, step, "#r=5&token=2") as page:
        page.wait_for_selector(".token-text .t.at")
        yield page


def test_axe_finds_nothing_serious_in_an_opened_response(group_page):
    assert serious(group_page) == []


def test_figures_stand_in_a_line(group_page, subtests):
    page = group_page
    line = page.locator(".response-figures.line > div")
    assert line.count() == 6
    heights = {box_of(figure)["y"] for figure in line.all()}
    assert len(heights) == 1
    with subtests.test("the first ones"):
        names = line.locator("dt").all_inner_texts()
        shown = [name.replace("\n", " ") for name in names[:5]]
        graded = ["Reward", "Ground truth", "Final answer"]
        assert shown == [*graded, "Advantage in group", "Group mean"]
    with subtests.test("a computed advantage says so"):
        unit = page.inner_text('[data-figure="group_advantage"] .unit')
        assert unit == " computed"
    with subtests.test("a short ground truth is a figure, not a text"):
        assert page.locator('[data-text="ground_truth"]').count() == 0
    with subtests.test("two rewards have no order"):
        assert "of 48" not in page.inner_text('[data-figure="reward"]')


def test_further_figures_are_folded(group_page):
    page = group_page
    folded = page.locator(".response-figures.rest")
    assert folded.is_hidden()
    page.click(".all-figures summary")
    assert folded.is_visible()
    ended = page.inner_text('[data-figure="finished"] dd')
    assert ended in {"by itself", "cut off at the limit"}


def test_nothing_in_a_response_scrolls_by_itself(group_page):
    group_page.click(".all-figures summary")
    inner = group_page.eval_on_selector_all(
        ".response *",
        """all => all.filter(one => /auto|scroll/.test(getComputedStyle(one).overflowY)
            && one.scrollHeight > one.clientHeight + 1).map(one => one.className)""",
    )
    assert inner == []


def test_escape_leaves_the_search_before_it_closes_the_response(group_page):
    page = group_page
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert page.locator(".response").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".response").is_hidden()


def test_siblings_of_a_group_stand_in_a_strip_and_open(group_page):
    page = group_page
    siblings = page.locator(".group li button")
    assert siblings.count() == 8
    assert page.locator('.group [aria-current="true"]').count() == 1
    said = [siblings.nth(k).get_attribute("aria-label") or "" for k in range(8)]
    for label in said:
        reward = float(label.split("reward ")[1].split(",")[0])
        assert label.endswith("right") is (reward == 1)
    place = 1 if "Response 5," in said[0] else 0
    other = said[place].split(",")[0]
    page.click(f'.group button[aria-label^="{other},"]')
    assert page.text_content(TITLE) == other
    page.keyboard.press("j")
    assert page.text_content(TITLE) != other
    page.keyboard.press("Escape")
    assert page.locator(".response").is_hidden()


def test_the_group_says_what_numpy_computes_and_the_list_is_filtered_by_it(
    browser, real_report
):
    page_of_step = real_report("grpo_math") / "steps" / "5.html"
    data = rows_data(page_of_step)
    group, reward = (
        np.array(data["values"][key], float) for key in ("group", "reward")
    )
    advantage = np.array(data["values"]["group_advantage"], float)
    kinds: dict[str, int] = {}
    for one in np.unique(group):
        rewards = reward[group == one]
        mean = rewards.mean()
        std = rewards.std()
        if std:
            assert advantage[group == one] == pytest.approx((rewards - mean) / std)
        else:
            assert np.isnan(advantage[group == one]).all()
        first = int(np.flatnonzero(group == one)[0])
        kinds["differ" if std else f"all {rewards[0]:g}"] = data["n"][first]
    assert kinds.keys() == {"differ", "all 0", "all 1"}
    said = {
        "all 1": "all correct: equal",
        "all 0": "all wrong: equal",
        "differ": "mean 0.",
    }
    for kind, n in kinds.items():
        with visiting(browser, page_of_step, f"#r={n}") as page:
            page.wait_for_selector(".group")
            assert said[kind] in page.inner_text(".group .note")
            if kind == "differ":
                shown = page.inner_text(".group .note").split(" = ")[1].split(",")[0]
                value = advantage[data["n"].index(n)]
                assert float(shown.replace("−", "-")) == pytest.approx(value, rel=0.005)
    address = f"#min.group={group[0]:.0f}&max.group={group[0]:.0f}"
    with visiting(browser, page_of_step, address) as page:
        page.wait_for_selector(".chips button")
        members = zip(data["n"], group, strict=True)
        expected = [n for n, one in members if one == group[0]]
        assert sorted(map(int, listed(page))) == sorted(expected)


def test_best_and_worst_stand_side_by_side_with_what_differs(browser, real_report):
    page_file = real_report("grpo_math") / "steps" / "0.html"
    with visiting(browser, page_file) as page:
        for row in range(48):
            page.goto(f"{page_file.as_uri()}#r={row}")
            until(
                page,
                f"document.querySelector('.response h2')?.textContent.endsWith(' {row}')",
            )
            if page.locator(".versus").count():
                break
        page.click(".versus summary")
        page.wait_for_selector(".versus ins, .versus del")
        best, worst = page.locator(".versus .label").all_inner_texts()
        assert "reward 1" in best
        assert "reward 0" in worst


def test_a_prompt_is_followed_over_the_steps_with_sort_and_search(browser, real_report):
    steps = real_report("ppo_healthy") / "steps"
    with visiting(browser, steps / "30.html", "#sort=-reward&q=review") as page:
        page.click(".responses tbody tr[data-n] td.text")
        page.wait_for_selector(TITLE)
        asked = prompt(page)
        page.keyboard.press("}")
        page.wait_for_url(lambda url: "steps/30.html" not in url)
        page.wait_for_selector(TITLE)
        assert prompt(page) == asked
        later = page.url
        assert "sort=-reward" in later
        assert "q=review" in later
        page.keyboard.press("{")
        page.wait_for_url("**/30.html#*")
        page.wait_for_selector(TITLE)
        assert prompt(page) == asked
        page.keyboard.press("]")
        page.wait_for_url("**/31.html#*")
        page.wait_for_selector("html[data-ready]", state="attached")
        assert "sort=-reward" in page.url
        assert page.input_value("input[type=search]") == "review"
    last = max(int(page.stem) for page in steps.glob("*.html"))
    with visiting(browser, steps / f"{last}.html", "#r=0") as page:
        page.wait_for_selector(TITLE)
        page.keyboard.press("}")
        assert page.inner_text(".response .said") == "No later step shows this prompt."
        assert f"steps/{last}.html" in page.url


@pytest.mark.parametrize("one_file", [False, True])
def test_a_prompt_is_followed_past_steps_that_do_not_show_it(
    browser, tmp_path, one_file
):
    rows = []
    for step, words in enumerate(["abc", "ac", "ac", "abc"]):
        rows += [row(step, prompt=f"Say {word}.") for word in words]
    out = tmp_path / ("run.html" if one_file else "run")
    build(write(tmp_path / "log.jsonl", rows), out)
    page_file = out if one_file else out / "steps" / "0.html"
    with visiting(browser, page_file, "#/steps/0?r=1" if one_file else "#r=1") as page:
        page.wait_for_selector(TITLE)
        assert page.locator(".same-prompt").all_inner_texts() == [
            "Same prompt, step 3 →"
        ]
        page.keyboard.press("}")
        page.wait_for_url(re.compile(r"steps/3(\.html#|\?)r=1$"))
        until(page, "document.querySelector('.same-prompt')?.textContent[0] === '←'")
        assert prompt(page) == "Say b."
        assert page.locator(".same-prompt").all_inner_texts() == [
            "← Same prompt, step 0"
        ]
        # No neighbor shows this prompt, so the step opens without a response.
        page.click(".step-nav a[rel=prev]")
        page.wait_for_url(re.compile(r"steps/2(\.html#?)?$"))
        page.wait_for_selector(".response", state="hidden")


def test_a_link_shows_a_token_and_its_figures_whole(browser, tmp_path):
    step = write_step(tmp_path, Made(responses=30, with_tokens=2, tokens=1400))
    for size in ({"width": 1400, "height": 900}, {"width": 390, "height": 800}):
        with visiting(browser, step, "#r=1&token=1200", viewport=size) as page:
            page.wait_for_selector(".token-text .t.at")
            rest(page, 100)
            for selector in (".token-text .t.at", ".tip:not([hidden])"):
                box = box_of(page.locator(selector))
                assert box["y"] >= 0
                assert box["y"] + box["height"] <= size["height"]


def test_a_link_shows_the_figures_of_a_token_below_it(browser, tmp_path):
    step = write_step(tmp_path, Made(responses=30, with_tokens=2, tokens=600))
    low = {"width": 1400, "height": 1000}
    token = ".token-text .t.at"
    with visiting(browser, step, "#r=1", viewport=low) as page:
        page.wait_for_selector(".token-text .t")
        # A token that is in sight, with little room below it
        near = """() => [...document.querySelectorAll(".token-text .t")]
            .findIndex(span => span.getBoundingClientRect().bottom > innerHeight - 140)"""
        index = page.evaluate(near)
    assert index > 0
    with visiting(browser, step, f"#r=1&token={index}", viewport=low) as page:
        page.wait_for_selector(token)
        rest(page, 100)
        box = box_of(page.locator(token))
        tip = box_of(page.locator(".tip:not([hidden])"))
        assert tip["y"] >= box["y"] + box["height"]
        assert tip["y"] + tip["height"] <= low["height"]


def test_a_link_to_a_response_that_is_not_shown_says_so(browser, tmp_path):
    step = write_step(tmp_path, Made(responses=30, with_tokens=2, tokens=20))
    with visiting(browser, step, "#r=999") as page:
        assert "does not include the text" in page.inner_text(".response .note")
        page.keyboard.press("Escape")
        page.wait_for_selector(".response", state="hidden")


def test_beside_the_reward_stand_short_truth_logged_advantage_group_mean_and_how_it_ended(
    browser, tmp_path
):
    long_truth = (
        "The whole is more than its parts, as each part knows of the others. " * 3
    )
    rows = [
        row(
            prompt=f"What is {n // 4}?",
            reward=float(n % 4),
            advantages=n % 4 - 1.25,
            group=n // 4,
        )
        | {"finish_reason": "length", "ground_truth": long_truth if n == 2 else "24"}
        for n in range(16)
    ]
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "run", workers=1)
    figure = '.response-figures.line [data-figure="{}"] dd'
    for name, address in (("steps/0.html", "#r={}"), ("responses.html", "#r=0-{}")):
        with visiting(browser, tmp_path / "run" / name, address.format(1)) as page:
            page.wait_for_selector(figure.format("reward"))
            keys = (
                "advantage_mean",
                "group_mean",
                "ground_truth",
                "extra:finish_reason",
            )
            shown = [page.inner_text(figure.format(key)) for key in keys]
            assert shown == ["−0.250 logged", "1.50", "24", "length"]
            assert page.locator(figure.format("group_advantage")).count() == 0
            assert page.locator(".texts details").count() == 2
        with visiting(browser, tmp_path / "run" / name, address.format(2)) as page:
            page.wait_for_selector('[data-text="ground_truth"]')
            assert long_truth.strip() in page.inner_text('[data-text="ground_truth"]')
            assert page.locator(figure.format("ground_truth")).count() == 0
