"""Tokens of a step are read from any page, in a folder and in one file."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page

import rlreport
from tests.browser import until, visiting
from tests.pages import Made, write_step
from tests.pages_reading import (
    node,
    packed_in_one_file,
    packed_tokens,
    page_tokens,
    rows_data,
    unpack,
)
from tests.reading import row, write

pytestmark = pytest.mark.untraced
TOKENS = ("Ġthe", "Ġcat", "</script>", "\u2028", '"];alert(1)//', "Ġ\\u003c", "猫", ".")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with a report of six steps in both forms; the last step has no tokens."""
    folder = tmp_path_factory.mktemp("step_tokens")
    rows = []
    for step in range(6):
        for n in range(3):
            text = "".join(TOKENS)
            one = row(step, prompt=f"p{n}", response=text, reward=float(n))
            one["response_tokens"] = [f"{step}.{n}", *TOKENS]
            one["logprobs"] = [-0.125 * (step + 1)] * (len(TOKENS) + 1)
            rows.append(one if step < 5 else row(step, prompt=f"p{n}", reward=1.0))
    log = write(folder / "rank_0.jsonl", rows)
    for out in ("report", "report.html"):
        rlreport.build(log, folder / out, workers=1)
    return folder


def shown_tokens(page: Page) -> list[str]:
    page.wait_for_selector(".token-text .t")
    return page.eval_on_selector_all(
        ".token-text .t", "all => all.map(t => t.textContent)"
    )


PLACES = [
    ("report/steps/3.html", "#r=1"),
    ("report/responses.html", "#r=3-1"),
    ("report.html", "#/steps/3?r=1"),
    ("report.html", "#/responses?r=3-1"),
]


@pytest.mark.parametrize(("path", "address"), PLACES)
def test_tokens_of_a_response_are_shown_on_every_page_that_shows_it(
    browser, built, path, address
):
    with visiting(browser, built / path, address) as page:
        assert shown_tokens(page)[0].startswith("3.1")
        page.keyboard.press("w")
        until(page, "location.hash.includes('token=')")


@pytest.mark.parametrize(("path", "address"), PLACES)
def test_an_address_names_a_token_on_every_page(browser, built, path, address):
    with visiting(browser, built / path, f"{address}&token=2") as page:
        shown_tokens(page)
        until(
            page,
            "document.querySelector('.token-text .t.at')?.textContent.endsWith('cat')",
        )


def test_walking_a_list_shows_the_tokens_of_each_step_and_holds_a_few(browser, built):
    with visiting(
        browser, built / "report" / "responses.html", "#sort=step,n&r=0-0"
    ) as page:
        for step in range(5):
            page.evaluate("r => { location.hash = `#sort=step,n&r=${r}` }", f"{step}-2")
            until(
                page,
                "name => document.querySelector('.token-text .t')?.textContent === name",
                f"{step}.2",
            )
        assert page.evaluate("Object.keys(rlreportTokens)") == []


@pytest.mark.parametrize(
    ("path", "address"),
    [("report/responses.html", "#r=5-1"), ("report.html", "#/responses?r=5-1")],
)
def test_nothing_is_asked_for_where_a_step_has_no_tokens(browser, built, path, address):
    with visiting(browser, built / path, address) as page:
        page.wait_for_selector("section.response .texts")
        asked = "performance.getEntriesByType('resource').map(e => e.name).join(' ')"
        assert "tokens/5" not in page.evaluate(asked)
        assert page.locator(".token-view").inner_text() == ""


@pytest.mark.parametrize("harm", ["missing", "cut", "another"])
def test_a_file_of_tokens_that_cannot_be_read_is_named_in_the_panel(
    browser, built, tmp_path, harm
):
    report = shutil.copytree(built / "report", tmp_path / "report")
    script = report / "data" / "tokens" / "2.js"
    content = script.read_text()
    if harm == "missing":
        script.unlink()
    else:
        script.write_text(content[:60] + '";\n' if harm == "cut" else "// nothing\n")
    tab = browser.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto((report / "responses.html").as_uri() + "#r=2-0")
    tab.wait_for_selector(".token-view .note")
    note = tab.inner_text(".token-view .note")
    tab.close()
    assert note.startswith("data/tokens/2.js is missing or damaged")
    # Of a missing file the browser itself says so; our scripts say nothing.
    own = "Failed to load resource: net::ERR_FILE_NOT_FOUND"
    assert said == ([own] if harm == "missing" else [])


def test_tokens_are_kept_once_and_apart_from_the_pages(built):
    report = built / "report"
    document = (built / "report.html").read_text("utf-8")
    in_one_file = packed_in_one_file(document)
    assert sorted(in_one_file) == [str(step) for step in range(5)]
    scripts = sorted((report / "data" / "tokens").iterdir())
    assert [script.name for script in scripts] == [f"{step}.js" for step in range(5)]
    for step in range(5):
        page = report / "steps" / f"{step}.html"
        packed = packed_tokens(page)
        assert packed == in_one_file[str(step)]
        assert packed not in page.read_text("utf-8")
    run = json.loads(node(document, "steps-data"))
    assert run["tokens"] == list(range(5))
    assert run["steps"] == list(range(6))


def test_hostile_tokens_come_back_as_logged(built):
    tokens = page_tokens(built / "report" / "steps" / "4.html")
    raw, columns = tokens[2]
    assert raw == ["4.2", *TOKENS]
    assert columns["logp"].tolist() == [-0.625] * len(raw)
    script = (built / "report" / "data" / "tokens" / "4.js").read_text()
    assert "<" not in script
    assert script.count('"') == 4


def test_tokens_below_the_fold_do_not_make_a_narrow_page_wider(browser, tmp_path):
    one = row(0, response="a b", reward=1.0)
    one["response_tokens"] = ["a", " b"]
    one["logprobs"] = [-0.5, -0.25]
    turns = [
        {"role": "assistant", "text": text, "sampled": True, "tokens": [at, at + 1]}
        for at, text in enumerate(one["response_tokens"])
    ]
    rows = [one | {"turns": turns, "prompt": "so much to read " * 99}]
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "run", workers=1)
    page = tmp_path / "run" / "steps" / "0.html"
    size = {"width": 420, "height": 300}
    with visiting(browser, page, "#r=0", viewport=size) as opened:
        opened.wait_for_selector(".token-text .t", state="attached")
        assert opened.evaluate("document.documentElement.scrollWidth") == 420


def test_what_tokens_offer_is_in_their_header_and_not_in_the_rows(tmp_path):
    page = write_step(tmp_path, Made(responses=2, with_tokens=2, nan=True))
    header, _, _ = unpack(packed_tokens(page))
    assert {"logp", "kl"} <= {metric["key"] for metric in header["metrics"]}
    assert not {"metrics", "nan", "given"} & rows_data(page).keys()


def test_tokens_count_as_what_they_take_in_a_zip(tmp_path, shared_data):
    done = rlreport.build(
        shared_data / "ppo_healthy", tmp_path / "run.zip", max_size=900_000, workers=1
    )
    assert 0.7 * 900_000 < done.size <= 900_000


def keys_listed(page: Page) -> list[str]:
    page.keyboard.press("?")
    page.wait_for_selector("dialog.keys")
    keys: list[str] = page.eval_on_selector_all(
        "dialog.keys kbd", "all => all.map(key => key.textContent)"
    )
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.keys", state="detached")
    return keys


@pytest.mark.parametrize(("path", "address"), PLACES)
def test_the_keys_of_a_response_are_the_same_on_every_page(
    browser, built, path, address
):
    with visiting(browser, built / path, address) as page:
        shown_tokens(page)
        listed = keys_listed(page)
        assert {"j", "k", "n", "N", "w", "{", "}", "Escape"} <= set(listed)
        # Without turns and branches there is nowhere to go with their keys.
        assert not {"t", "T", "e", "E", "a", "b"} & set(listed)
        page.keyboard.press("{")
        until(
            page,
            "document.querySelector('.token-text .t')?.textContent === '2.1'",
        )


def test_of_a_step_without_tokens_no_key_of_tokens_is_listed(browser, built):
    page_of_step = built / "report" / "steps" / "5.html"
    with visiting(browser, page_of_step, "#r=1") as page:
        page.wait_for_selector("section.response .texts")
        assert not {"n", "N", "w"} & set(keys_listed(page))


def test_tokens_without_any_value_are_shown_without_colours(browser, tmp_path):
    rows = [
        row(0, prompt=f"p{n}", response="a b") | {"response_tokens": ["a", " b"]}
        for n in range(2)
    ]
    log = write(tmp_path / "a.jsonl", rows)
    rlreport.build(log, tmp_path / "out", workers=1)
    with visiting(browser, tmp_path / "out" / "responses.html", "#r=0-1") as page:
        assert shown_tokens(page) == ["a", " b"]
        assert "No values of these tokens" in page.inner_text(".token-view")
        assert page.locator(".token-view select").count() == 0
        assert not {"n", "N", "w"} & set(keys_listed(page))
        page.locator(".token-text .t").nth(1).click()
        until(page, "location.hash.includes('token=1')")
