"""Turns in the response panel, from a log to the page: the spine, its keys, its tokens."""

import json
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page

import rlreport
from rlreport.pages.response_panel import conversation_data
from rlreport.read.rollouts import Rollout, Turn
from tests.browser import box_of, serious, visiting
from tests.reading import row, write

pytestmark = pytest.mark.untraced
WORDS = ["I", "look", ".", "be", "gin", "end", "Again", ".", "[img]", "It", "is", "4"]
OUTPUT = "begin " + "x y " * 1000 + "end"
IMAGE = "data:image/png;base64," + "QUJDREVGR0hJSktM" * 2500


def said(
    text: str, start: int, end: int, role: str = "assistant", **more: Any
) -> dict[str, Any]:
    """A turn of these tokens."""
    sampled = role == "assistant"
    return {
        "role": role,
        "text": text,
        "sampled": sampled,
        "tokens": [start, end],
        **more,
    }


def agent_row(step: int, n: int) -> dict[str, Any]:
    """A rollout of five turns; in step 1 the second call of response 2 fails."""
    failed = (step, n) == (1, 2)
    search = {
        "name": "search",
        "arguments": {"query": "cats", "id": 12345678901234567890},
    }
    view = {"name": "view", "arguments": '{"a": [1]}'}
    error = "<img src=x onerror=alert(1)>" if failed else None
    turns = [
        said("<think>what is it</think>I look.", 0, 3, calls=[search]),
        said(OUTPUT, 3, 6, role="tool", tool="search", seconds=1.5),
        said("Again.", 6, 8, calls=[view]),
        said(IMAGE, 8, 9, role="tool", tool="view", error=error),
        said("It is 4.", 9, 12, reward=0.5),
    ]
    return {
        "step": step,
        "prompt": "<|im_start|>user\nWhat is it?<|im_end|>\n<|im_start|>assistant\n",
        "response": "I look. Again. It is 4.",
        "reward": n / 4 + step / 10,
        "response_tokens": WORDS,
        "response_mask": [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1],
        "logprobs": [-0.1 * (k + 1) for k in range(12)],
        "ref_logprobs": [-0.1 * (k + 2 + n % 2) for k in range(12)],
        "turns": turns,
    }


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    rows = [agent_row(step, n) for step, n in product(range(3), range(4))]
    rlreport.build(write(folder / "log.jsonl", rows), folder / "report", workers=1)
    return folder / "report"


@pytest.fixture
def page(browser, agents):
    with visiting(browser, agents / "steps" / "1.html", "#r=2") as opened:
        opened.wait_for_selector(".token-text .t")
        yield opened


def turn(page: Page, number: int) -> Any:
    return page.locator(".spine li").nth(number - 1)


def test_the_first_tool_error_is_one_click_from_the_overview(browser, agents):
    with visiting(browser, agents / "index.html") as page:
        page.click("a:has-text('First tool error')")
        page.wait_for_selector(".spine li.at")
        assert page.inner_text(".spine li.at .role").startswith("4 · tool view")
        assert page.inner_text(".spine li.at .error") == "<img src=x onerror=alert(1)>"
        box = box_of(page.locator(".spine li.at"))
        assert 0 <= box["y"] < 800


@pytest.mark.parametrize("width", [1400, 600])
def test_a_response_opened_from_a_search_shows_the_first_turn_with_a_match(
    browser, agents, width
):
    step = agents / "steps" / "1.html"
    with visiting(browser, step, viewport={"width": width, "height": 400}) as page:
        page.fill(".responses input[type=search]", "it is 4")
        page.keyboard.press("Escape")
        page.locator('.responses tr[data-n="2"] a').first.click()
        page.wait_for_selector(".spine li.at")
        assert page.inner_text(".spine li.at .role").startswith("5 ·")
        page.wait_for_selector(".token-text .t")
        box = box_of(page.locator(".spine li.at"))
        assert 0 <= box["y"] < 400


def test_turns_say_who_what_and_at_what_cost(page, subtests):
    with subtests.test("number of turns"):
        assert page.inner_text(".spine h3") == "Turns (5, 3 of the policy)"
    with subtests.test("tool, tokens and seconds"):
        role = turn(page, 2).locator(".role").inner_text()
        assert role == "2 · tool search 3 tokens · 1.50 s"
    with subtests.test("reward"):
        facts = turn(page, 5).locator(".facts").inner_text()
        assert facts.strip() == "3 tokens · reward 0.500"


def test_the_prompt_is_shown_as_turns_without_tags(page):
    assert page.inner_text('[data-text="prompt"] .turn') == "user\nWhat is it?"
    assert "im_start" not in page.inner_text('.responses tr[data-n="2"]')


def test_thinking_long_outputs_and_images_are_folded(page, subtests):
    with subtests.test("thinking"):
        thought = turn(page, 1).locator(".thought")
        assert thought.locator("summary").inner_text() == "Thinking, 10 characters"
        assert thought.locator(".prose").is_hidden()
    with subtests.test("a long output"):
        output = turn(page, 2).locator(".prose")
        shown = output.inner_text()
        assert shown.startswith("begin")
        assert shown.endswith("end")
        assert len(shown) < 1400
        output.locator("button").click()
        assert output.inner_text() == OUTPUT
    with subtests.test("an image"):
        image = turn(page, 4).locator(".prose").inner_text()
        assert image == "[base64, 30.0 kB]"


def test_arguments_are_laid_out_and_no_number_changes(page):
    assert "12345678901234567890" in turn(page, 1).locator("pre").inner_text()
    shown = turn(page, 3).locator("pre").inner_text()
    assert shown == json.dumps({"a": [1]}, indent=2)


def test_tokens_of_the_environment_are_grey_those_of_the_policy_coloured(page):
    classes = page.eval_on_selector_all(
        ".token-text .t", "all => all.map(one => one.className)"
    )
    coloured = ["div-" in name or "seq-" in name for name in classes]
    assert coloured == [bool(m) for m in agent_row(1, 2)["response_mask"]]


def test_the_tokens_of_each_turn_have_its_head(page):
    heads = page.locator(".token-text .role").all_inner_texts()
    assert heads[1] == "2 · tool search"
    assert "error" in heads[3]


def test_keys_go_to_the_next_turn_the_error_and_the_last_answer(page, subtests):
    # One after another: each begins where the one before it ended.
    presses = ["t 1", "t 2", "e 4", "a 5", "T 4", "E 4"]
    for press in presses:
        key, number = press.split()
        with subtests.test(press):
            page.keyboard.press(key)
            assert page.inner_text(".spine li.at .role").startswith(f"{number} ·")


def test_a_key_goes_to_the_worst_token_of_the_policy(page):
    page.select_option('[name="metric"]', "surprisal")
    page.locator(".response h2").click()
    page.keyboard.press("w")
    assert page.inner_text(".token-text .t.at").strip() == "4"


def test_axe_finds_nothing_serious_in_turns(browser, agents):
    with visiting(browser, agents / "steps" / "1.html", "#r=2&turn=error") as page:
        page.wait_for_selector(".token-text .t")
        assert serious(page) == []


def test_a_conversation_of_200_turns_and_128_000_tokens_opens_whole(browser, tmp_path):
    turns = []
    for number, start in enumerate(range(0, 128_000, 640)):
        role = "tool" if number % 2 else "assistant"
        turns.append(said("t" * 640, start, start + 640, role=role))
    words = {"response_tokens": [" t"] * 128_000, "logprobs": [-0.5] * 128_000}
    log = write(tmp_path / "log.jsonl", [row(turns=turns, **words)])
    rlreport.build(log, tmp_path / "out", workers=1)
    with visiting(browser, tmp_path / "out" / "steps" / "0.html", "#r=0") as page:
        page.wait_for_selector(".token-text .t")
        assert page.locator(".spine li").count() == 200
        assert page.locator(".token-text .t").count() == 128_000
        page.keyboard.press("a")
        box = box_of(page.locator(".spine li.at"))
        assert 0 <= box["y"] < 800


def carried(text: str) -> str:
    rollout = Rollout(
        0, 0, "log", 1, "", "", conversation=[Turn("tool", text, sampled=False)]
    )
    found: str = conversation_data([rollout])["conversation"]["0"][0]["text"]
    return found


@pytest.mark.parametrize("text", ["-" * 600, "a" * 5000, "words " * 200, "", "é" * 600])
def test_what_is_no_base64_stays(text):
    assert carried(text) == text


def test_base64_is_replaced_by_its_size():
    letters = "QUJDREVGR0hJSktM" * 100
    # Data of a picture may begin with many bytes 0, and data may lack the address before it.
    assert carried("data:image/bmp;base64," + "A" * 64 + letters) == "[base64, 1.2 kB]"
    assert carried(f"see {letters} above") == "see [base64, 1.2 kB] above"


def test_a_turn_too_long_for_a_page_says_what_is_left_out():
    text = carried("head " + "word " * 100_000 + "tail")
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "[460,009 characters left out]" in text
