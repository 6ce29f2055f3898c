"""The list of the run in a browser: 16,384 rows, filters, keys, and where its rows lead."""

import base64
import gzip
import json
import re
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Page

import rlreport
from rlreport.pages.step import STATIC_ROWS
from tests.browser import box_of, in_url, listed, rest, serious, until, visiting
from tests.hostile import write_log
from tests.pages import write_list
from tests.pages_reading import node, rows_data
from tests.reading import row

pytestmark = pytest.mark.untraced
STEPS = EACH = 128
ALL = f"{STEPS * EACH:,}"


@pytest.fixture(scope="module")
def long_list(tmp_path_factory):
    return write_list(tmp_path_factory.mktemp("run_list"), STEPS, EACH)


@pytest.fixture
def page(browser, long_list):
    with visiting(browser, long_list) as opened:
        ready(opened)
        yield opened


MARKED = """[...CSS.highlights.get("found")].filter(range =>
    document.querySelector(".response").contains(range.startContainer) &&
    range.getClientRects().length).map(range => String(range).toLowerCase())"""


def ready(page: Page) -> None:
    page.wait_for_selector(".list-tools .count")


def packed(page: Path) -> dict:
    return json.loads(
        gzip.decompress(base64.b64decode(node(page.read_text(), "list-data")))
    )


def test_it_lists_what_steps_show_each_once_with_its_figures(hacking):
    data = packed(hacking / "responses.html")
    log = json.loads((hacking / "data" / "report.json").read_text())
    names = list(zip(data["values"]["step"], data["n"], strict=True))
    assert len(set(names)) == len(names)
    assert len(names) == sum(step["responses"] for step in log["steps"])
    place = names.index((30, 17))
    step = json.loads(node((hacking / "steps" / "30.html").read_text(), "rows-data"))
    at = step["n"].index(17)
    for key, values in step["values"].items():
        expected = values[at]
        if expected is not None:
            expected = pytest.approx(expected, rel=1e-5)
        assert data["values"][key][place] == expected
    for texts in data["texts"].values():
        assert max(map(len, texts)) <= 120


MEDIANS = """([keys, texts]) => {
    const timed = run => {
        const start = performance.now();
        run();
        document.querySelector('tbody').getBoundingClientRect();
        return performance.now() - start;
    };
    const search = document.querySelector('input[type=search]');
    const type = text => timed(() => {
        search.value = text;
        search.dispatchEvent(new Event('input'));
    });
    const sort = key => timed(() => document.querySelector(`th[data-key="${key}"] button`).click());
    const median = times => times.sort((a, b) => a - b)[times.length >> 1];
    return [...keys.map(key => median([0, 1, 2].map(() => sort(key)))), median(texts.map(type))];
}"""
"""Milliseconds to sort by each column, and to search for a text."""


@pytest.mark.timed
def test_as_many_rows_as_a_report_holds_are_sorted_and_searched_at_once(page):
    assert page.text_content(".count") == f"{ALL} of {ALL}"
    texts = ["an", "ans", "answ", "answe", "answer"]
    *sorts, search = page.evaluate(MEDIANS, [["reward", "response"], texts])
    assert max(sorts) <= 200 and search <= 100, (sorts, search)
    # The same with all texts: the search above loads them.
    page.fill("input[type=search]", "(77/101)")
    page.wait_for_selector(f".list-tools .count:has-text('1 of {ALL}')")
    (search,) = page.evaluate(MEDIANS, [[], ["(7", "(77", "(77/", "(77/1", "(77/10"]])
    assert search <= 100


@pytest.mark.parametrize("scripts", [True, False])
def test_what_the_leading_finding_points_at_comes_first(browser, hacking, scripts):
    found = json.loads((hacking / "data" / "findings.json").read_text())
    lead = next(f for f in found["findings"] if f["id"] == found["verdict"]["lead"])
    first = sorted(f"{e['step']}-{e['n']}" for e in lead["evidence"])
    page = hacking / "responses.html"
    with visiting(browser, page, java_script_enabled=scripts) as opened:
        if scripts:
            ready(opened)
        assert sorted(listed(opened)[:3]) == first


def test_the_length_is_in_sight(browser, hacking):
    viewport = {"width": 1400, "height": 900}
    with visiting(browser, hacking / "responses.html", viewport=viewport) as opened:
        ready(opened)
        box = box_of(opened.locator('th[data-key="response_tokens"]'))
        assert box["x"] + box["width"] <= 1400


def test_filters_by_number_and_by_finding_are_chips_and_stand_in_the_address(
    browser, long_list, page
):
    page.click(".menu > button:text('Filter')")
    page.select_option(".menu select", "finding")
    page.select_option(
        'select[aria-label="Finding contains"]', "several runs in one report"
    )
    assert page.text_content(".count") == f"{STEPS} of {ALL}"
    page.select_option(".menu select", "step")
    page.fill('input[aria-label="Step from"]', "7")
    page.fill('input[aria-label="Step to"]', "7")
    assert listed(page) == ["7-3"]
    in_url(page, "max.step=7")
    with visiting(browser, long_list, "#" + page.url.split("#")[1]) as again:
        ready(again)
        assert listed(again) == ["7-3"]
        again.click(".chips button:has-text('Finding')")
        assert len(again.query_selector_all(".chips button")) == 1
        assert again.text_content(".count") == f"{EACH} of {ALL}"


FIRST = ["0-3", "1-3", "2-3"]


def test_those_most_worth_a_look_come_first_and_scrolling_adds_rows(page):
    before = listed(page)
    assert before[:3] == FIRST
    assert len(before) < 200
    page.eval_on_selector(".scroll", "box => box.scrollTop = box.scrollHeight")
    until(
        page,
        "count => document.querySelectorAll('tbody tr').length > count",
        arg=len(before),
    )
    name = listed(page)[len(before)]
    link = page.get_attribute(f'tr[data-n="{name}"] a', "href")
    assert link == "steps/{}.html#r={}".format(*name.split("-"))


def test_without_scripts_the_first_rows_are_listed_with_links(browser, long_list):
    with visiting(browser, long_list, java_script_enabled=False) as bare:
        baked = listed(bare)
        assert len(baked) == STATIC_ROWS
        assert baked[:3] == FIRST
        assert "the rest of long tables" in bare.inner_text("footer")
        assert "steps/1.html#r=3" in str(bare.get_attribute('[data-n="1-3"] a', "href"))


def test_axe_finds_nothing_serious_in_a_list_with_an_open_menu(browser, hacking):
    with visiting(browser, hacking / "responses.html") as page:
        ready(page)
        page.click(".menu > button:text('Filter')")
        assert serious(page) == []


def test_menus_open_inside_the_view(browser, hacking):
    with visiting(browser, hacking / "responses.html") as page:
        ready(page)
        page.set_viewport_size({"width": 390, "height": 844})
        for name in ("Filter", "Columns"):
            page.click(f".menu > button:text-is('{name}')")
            box = box_of(page.locator(".menu .sheet:popover-open"))
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            page.keyboard.press("Escape")
            assert page.locator(".sheet:popover-open").count() == 0


def test_search_finds_what_the_list_does_not_show(page):
    said = page.evaluate(
        """() => {
            const search = document.querySelector("input[type=search]");
            search.value = "(77";
            search.dispatchEvent(new Event("input"));
            return document.querySelector(".list-tools .note").textContent;
        }"""
    )
    assert said == "Loading the texts…"
    page.fill("input[type=search]", "(77/101)")
    page.wait_for_selector(f".list-tools .count:has-text('1 of {ALL}')")
    assert listed(page) == ["77-101"]
    cells = page.locator("tbody tr td.text .clamp").all_text_contents()
    assert any("(77/101)" in cell for cell in cells)
    assert page.text_content(".list-tools .note") == ""


def test_arrows_move_from_the_search_between_rows_that_stay_in_sight(page):
    page.fill("input[type=search]", "answer")
    page.press("input[type=search]", "Escape")
    assert page.input_value("input[type=search]") == "answer"
    page.press("input[type=search]", "ArrowDown")
    row = "document.activeElement.closest('tr').dataset.n"
    assert page.evaluate(row) == listed(page)[0]
    for _ in range(70):
        page.keyboard.press("ArrowDown")
    seen = page.evaluate(
        """() => {
            const row = document.activeElement.closest('tr').getBoundingClientRect();
            const box = document.querySelector('.scroll').getBoundingClientRect();
            const head = document.querySelector('thead').getBoundingClientRect();
            return row.top >= head.bottom - 1 && row.bottom <= box.bottom + 1;
        }"""
    )
    assert seen
    assert page.evaluate(row) == listed(page)[70]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(row) == listed(page)[69]


def test_a_row_opens_beside_the_list_and_keys_walk_in_its_order(browser, hacking):
    data = packed(hacking / "responses.html")
    reward = dict(zip(names(data), data["values"]["reward"], strict=True))
    with visiting(browser, hacking / "responses.html") as page:
        ready(page)
        for _ in range(2):
            page.click('th[data-key="reward"] button')
        page.click("tbody tr[data-n] td.text")
        page.wait_for_selector(".response h2")
        read = [page.text_content(".response h2")]
        for _ in range(2):
            page.keyboard.press("j")
            page.wait_for_selector(f".response h2:not(:text-is('{read[-1]}'))")
            read.append(page.text_content(".response h2"))
        found = [re.findall(r"\d+", str(title)) for title in read]
        rewards = [reward[f"{step}-{n}"] for step, n in found]
        assert sorted(reward.values())[:3] == rewards
        step, n = found[2]
        log = rows_data(hacking / "steps" / f"{step}.html")
        where = log["where"][log["n"].index(int(n))]
        assert page.text_content(".response .place") == where
        assert page.get_attribute("tr[aria-current]", "data-n") == f"{step}-{n}"


def test_an_opened_row_lies_below_the_header_in_two_lines(browser, hacking):
    responses = hacking / "responses.html"
    with visiting(browser, responses, "#min.step=30&max.step=30") as page:
        ready(page)
        page.click('tr[data-n="30-17"] td.text')
        page.wait_for_selector(".response h2:has-text('response 17')")
        rest(page, 100)
        row, head, box = (
            box_of(page.locator(one))
            for one in ('tr[data-n="30-17"]', ".responses thead", ".responses .scroll")
        )
        assert row["y"] >= head["y"] + head["height"] - 1
        assert row["y"] + row["height"] <= min(box["y"] + box["height"], 900) + 1
        assert row["height"] < 60


def test_all_responses_to_a_prompt_are_one_press_away(browser, hacking):
    data = packed(hacking / "responses.html")
    step = json.loads(node((hacking / "steps" / "30.html").read_text(), "rows-data"))
    prompt = step["prompts"][step["n"].index(17)]
    prompts = zip(names(data), data["values"]["prompt_id"], strict=True)
    expected = [name for name, one in prompts if one == prompt]
    with visiting(browser, hacking / "steps" / "30.html", "#r=17") as page:
        page.click("text=All responses to this prompt")
        ready(page)
        page.wait_for_selector(".chips button")
        assert listed(page) == expected
        assert page.text_content(".chips button") == f"Prompt no. {prompt} ✕"


def test_a_prompt_of_the_prompts_page_leads_to_its_responses(browser, hacking):
    data = packed(hacking / "responses.html")
    with visiting(browser, hacking / "prompts.html") as page:
        rows = page.locator('[data-table="prompts"] tbody tr')
        all_linked = rows.count() == rows.locator("a").count()
        assert all_linked or rows.locator("td[title]").count()
        page.click('[data-table="prompts"] tbody a')
        page.click("section.prompt a:text('All responses to this prompt')")
        ready(page)
        page.wait_for_selector(".chips button")
        prompts = dict(zip(names(data), data["values"]["prompt_id"], strict=True))
        assert len({prompts[name] for name in listed(page)}) == 1


def names(data: dict) -> list[str]:
    return [
        f"{s:.0f}-{n}" for s, n in zip(data["values"]["step"], data["n"], strict=True)
    ]


def test_search_finds_calls_and_outputs_of_tools(browser, tmp_path):
    rows: list[dict[str, object]] = []
    for step, n in product(range(4), range(6)):
        call = {"name": "read", "arguments": {"path": f"f{step}x{n}.py"}}
        output = "word " * 400 + f"FileNotFoundError {step}y{n}" + " word" * 400
        turns = [
            {"role": "assistant", "text": "", "calls": [call]},
            {"role": "tool", "text": output},
            {"role": "assistant", "text": f"done {step}z{n}"},
        ]
        fields = {
            "step": step,
            "prompt": f"task {n}",
            "reward": 0.1 * n,
            "response": f"done {step}z{n}",
        }
        rows.append({**fields, "turns": turns})
    log = write_log(tmp_path / "log.jsonl", rows)
    for out in ("report", "run.html"):
        built = Path(rlreport.build(log, tmp_path / out, workers=1).out)
        start = (
            (built / "responses.html", "")
            if out == "report"
            else (built, "#/responses")
        )
        with visiting(browser, *start) as page:
            ready(page)
            for query in ("f2x3.py", "FileNotFoundError 2y3", "done 2z3"):
                page.fill("input[type=search]", query)
                page.wait_for_selector(".list-tools .count:has-text('1 of 24')")
                assert listed(page) == ["2-3"]
                shown = page.text_content('td[data-key="response"]') or ""
                assert query in shown
                page.click("tbody tr[data-n] a")
                page.wait_for_selector(".response .spine")
                assert page.evaluate(MARKED) == [query.lower()]
                page.click("text=Close")
            page.click("tbody tr[data-n] td.text")
            page.click(".response-more a.to-step")
            page.wait_for_selector(".page.step .response h2")


def test_lists_hide_the_beginning_that_prompts_share_and_search_and_panel_have_it(
    browser, tmp_path
):
    system = "You are a patient tutor. Show each step."
    animals = ["pizzas", "whales", "lamps", "cows", "maps", "keys"]

    def asked(step: int, n: int) -> list[dict[str, str]]:
        question = f"How many {animals[n % 6]} are {n} and {step}?"
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": question},
        ]

    rows = []
    for step, n in product(range(2), range(STATIC_ROWS + 14)):
        fields = {"prompt": asked(step, n), "response": f"It is {n + step}."}
        rows.append(row(step, reward=(n + step) % 5 / 4, **fields))
    log = write_log(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "run", workers=1)
    rlreport.build(log, tmp_path / "run.md", workers=1)
    assert system not in (tmp_path / "run.md").read_text()
    cells = """all => all.map(cell => getComputedStyle(cell, '::before').content.slice(1, -1)
        + cell.innerText)"""
    hidden = re.compile(r"… ?(pizzas|whales|lamps|cows|maps|keys) are \d+ and [01]\?")

    def assert_hidden(page: Page, least: int) -> None:
        texts = page.eval_on_selector_all('td[data-key="prompt"] .clamp', cells)
        assert len(texts) >= least
        assert all(map(hidden.fullmatch, texts)), texts[:3]

    for name, least in (("prompts.html", STATIC_ROWS), ("index.html", 2)):
        with visiting(
            browser, tmp_path / "run" / name, java_script_enabled=False
        ) as page:
            assert_hidden(page, least)
    with visiting(browser, tmp_path / "run" / "steps" / "0.html") as page:
        assert_hidden(page, STATIC_ROWS)
        page.fill(".list-tools input[type=search]", "patient tutor")
        assert page.text_content(".count") == f"{len(rows) // 2} of {len(rows) // 2}"
        # Rows that only scripts list hide it, too.
        page.fill(".list-tools input[type=search]", "are 6")
        assert_hidden(page, 4)
        page.click("button:has-text('Full rows')")
        assert system in page.locator('td[data-key="prompt"] .clamp').first.inner_text()
        page.locator("tbody tr[data-n]").first.click()
        page.wait_for_selector(".response h2")
        assert system in page.inner_text('[data-text="prompt"]')
    with visiting(browser, tmp_path / "run" / "responses.html") as page:
        ready(page)
        every = page.locator('td[data-key="prompt"] .clamp').all_inner_texts()
        assert all(map(hidden.fullmatch, every)), every[:3]
        page.fill("input[type=search]", "patient tutor")
        page.wait_for_selector("td:has-text('patient tutor')")
        assert page.text_content(".count") == f"{len(rows)} of {len(rows)}"
