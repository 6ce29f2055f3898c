"""Turns in the response panel, from a log to the page: the spine, its keys, its tokens."""

import json
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
    }  # fmt: skip


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    rows = [agent_row(step, n) for step in range(3) for n in range(4)]
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


def test_turns_say_who_what_and_at_what_cost_and_fold_what_is_long(page):
    assert page.inner_text(".spine h3") == "Turns (5, 3 of the policy)"
    assert (
        turn(page, 2).locator(".role").inner_text()
        == "2 · tool search 3 tokens · 1.50 s"
    )
    assert (
        turn(page, 5).locator(".facts").inner_text().strip()
        == "3 tokens · reward 0.500"
    )
    assert page.inner_text('[data-text="prompt"] .turn') == "user\nWhat is it?"
    assert "im_start" not in page.inner_text('.responses tr[data-n="2"]')
    # Thinking, long outputs and images are folded.
    thought = turn(page, 1).locator(".thought")
    assert thought.locator("summary").inner_text() == "Thinking, 10 characters"
    assert thought.locator(".prose").is_hidden()
    output = turn(page, 2).locator(".prose")
    shown = output.inner_text()
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert len(shown) < 1400
    output.locator("button").click()
    assert output.inner_text() == OUTPUT
    assert turn(page, 4).locator(".prose").inner_text() == "[base64, 30.0 kB]"
    # Arguments are laid out, and no number changes.
    assert "12345678901234567890" in turn(page, 1).locator("pre").inner_text()
    assert turn(page, 3).locator("pre").inner_text() == json.dumps({"a": [1]}, indent=2)
    # Tokens of the environment are grey, those of the policy coloured.
    classes = page.eval_on_selector_all(
        ".token-text .t", "all => all.map(one => one.className)"
    )
    coloured = ["div-" in name or "seq-" in name for name in classes]
    assert coloured == [bool(m) for m in agent_row(1, 2)["response_mask"]]
    heads = page.locator(".token-text .role").all_inner_texts()
    assert heads[1] == "2 · tool search"
    assert "error" in heads[3]


def test_keys_go_to_the_next_turn_the_error_the_last_answer_and_the_worst_token(page):
    at = ".spine li.at .role"
    for key, expected in (
        ("t", "1 ·"),
        ("t", "2 ·"),
        ("e", "4 ·"),
        ("a", "5 ·"),
        ("T", "4 ·"),
        ("E", "4 ·"),
    ):
        page.keyboard.press(key)
        assert page.inner_text(at).startswith(expected), key
    page.select_option('[name="metric"]', "surprisal")
    page.locator(".response h2").click()
    page.keyboard.press("w")
    assert page.inner_text(".token-text .t.at").strip() == "4"


def test_axe_finds_nothing_serious_in_turns(browser, agents):
    with visiting(browser, agents / "steps" / "1.html", "#r=2&turn=error") as page:
        page.wait_for_selector(".token-text .t")
        assert serious(page) == []


def test_a_conversation_of_200_turns_and_128_000_tokens_opens_whole(browser, tmp_path):
    turns = [
        said(
            "t" * 640, start, start + 640, role=("assistant", "tool")[start % 1280 > 0]
        )
        for start in range(0, 128_000, 640)
    ]
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


def test_what_is_no_base64_stays_and_a_turn_too_long_for_a_page_says_what_is_left_out():
    for text in ("-" * 600, "a" * 5000, "words " * 200, "", "é" * 600):
        assert carried(text) == text
    # Data of a picture may begin with many bytes 0, and data may lack the address before it.
    letters = "QUJDREVGR0hJSktM" * 100
    assert carried("data:image/bmp;base64," + "A" * 64 + letters) == "[base64, 1.2 kB]"
    assert carried(f"see {letters} above") == "see [base64, 1.2 kB] above"
    text = carried("head " + "word " * 100_000 + "tail")
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "[460,009 characters left out]" in text
