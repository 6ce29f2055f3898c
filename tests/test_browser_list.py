"""The list of responses in a browser: sort, search, filter, columns, copies, long lists."""

import csv
import io
import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import rlreport
from rlreport.pages.scripts import join_scripts
from rlreport.pages.step import STATIC_ROWS
from rlreport.text.clean import escape, without_controls
from tests.browser import box_of, copy, in_url, listed, numbers, until, visiting
from tests.hostile import write_log
from tests.pages import Made, write_step
from tests.reading import row, write
from tests.test_compare_data import FORMULAS, IDS

pytestmark = pytest.mark.untraced
STATIC = Path(__file__).resolve().parents[1] / "static" / "js"


def header(page: Page, key: str) -> None:
    page.click(f'.responses th[data-key="{key}"] button')


def test_a_press_on_a_header_sorts_largest_first_then_smallest_then_as_logged(page):
    as_logged = listed(page)
    header(page, "extra:style")
    assert numbers(page, "extra:style") == sorted(
        numbers(page, "extra:style"), reverse=True
    )
    sort = '.responses th[data-key="extra:style"]'
    assert page.get_attribute(sort, "aria-sort") == "descending"
    header(page, "extra:style")
    assert numbers(page, "extra:style") == sorted(numbers(page, "extra:style"))
    assert page.get_attribute(sort, "aria-sort") == "ascending"
    header(page, "extra:style")
    assert listed(page) == as_logged
    assert page.get_attribute(sort, "aria-sort") is None


def test_texts_are_sorted_by_code_units(page):
    header(page, "prompt")
    texts = page.locator('.responses tbody td[data-key="prompt"]').all_text_contents()
    assert texts == sorted(texts, key=lambda text: text.encode("utf-16-be"))
    in_url(page, "sort=prompt")


def test_search_marks_what_it_finds(page):
    page.fill("input[type=search]", "ANSWER 1")
    found = listed(page)
    assert {int(n) for n in found} == {1, *range(10, 20)}
    assert page.text_content(".responses .count") == f"{len(found)} of 37"
    marked = page.evaluate(
        "[...CSS.highlights.get('found')].map(range => range.toString())"
    )
    assert set(marked) == {"answer 1"}
    assert len(marked) >= len(found)


def test_hostile_text_can_be_searched_and_stays_text(page):
    page.fill("input[type=search]", "</script><script>")
    assert 0 < len(listed(page)) < 37
    assert page.title() == "Step 100 · made up"


def test_ranges_filter_and_can_be_taken_away(page):
    every = numbers(page, "reward")
    page.click(".menu > button:text('Filter')")
    page.fill('input[aria-label="Reward from"]', "0")
    page.fill('input[aria-label="Reward to"]', "1")
    assert numbers(page, "reward") == [x for x in every if 0 <= x <= 1]
    in_url(page, "min.reward=0&max.reward=1")
    page.click(".chips button")
    assert numbers(page, "reward") == every


MAY_COPY = ["clipboard-read", "clipboard-write"]


def test_the_address_holds_sort_filters_and_search(browser, step):
    with visiting(
        browser, step, "#sort=-extra:style&min.reward=-9&q=reference"
    ) as page:
        styles = numbers(page, "extra:style")
        assert styles == sorted(styles, reverse=True)
        assert page.input_value("input[type=search]") == "reference"
    with visiting(browser, step, "#min.reward=0") as page:
        assert 0 < len(listed(page)) < 37
        assert all(x >= 0 for x in numbers(page, "reward"))


def test_what_is_listed_is_copied(browser, step, subtests):
    asked = "#sort=-extra:style&min.reward=-9&q=answer 12"
    with visiting(browser, step, asked, permissions=MAY_COPY) as page:
        with subtests.test("as CSV"):
            copy(page, "button:has-text('Copy CSV')")
            copied = page.evaluate("navigator.clipboard.readText()")
            rows = list(csv.DictReader(io.StringIO(copied)))
            assert [row["n"] for row in rows] == ["12"]
            assert float(rows[0]["reward"]) == numbers(page, "reward")[0]
            assert rows[0]["response"].startswith("answer 12 ")
        with subtests.test("as JSON"):
            copy(page, "button:has-text('Copy JSON')")
            records = json.loads(page.evaluate("navigator.clipboard.readText()"))
            assert [record["n"] for record in records] == [12]


def test_columns_are_shown_and_hidden(page):
    head = page.locator('.responses th[data-key="extra:style"]')
    page.click(".menu > button:text('Columns')")
    page.uncheck(".menu label:has-text('style') input")
    assert head.is_hidden()
    page.check(".menu label:has-text('style') input")
    assert head.is_visible()


def test_rows_are_compact_or_full(page):
    hidden_text = """[...document.querySelectorAll('.responses .clamp')]
        .filter(node => node.scrollHeight > node.clientHeight + 1).length"""
    assert page.evaluate(hidden_text) > 0
    page.click("button:has-text('Full rows')")
    assert page.evaluate(hidden_text) == 0


def test_texts_are_escaped_as_in_the_exported_files(browser, tmp_path):
    scripts = shutil.copytree(STATIC, tmp_path / "js")
    entry = 'import { csvOf } from "./list/rows.js";\nglobalThis.csvOf = csvOf;\n'
    (scripts / "entry.js").write_text(entry, "utf-8")
    page = browser.new_page()
    page.evaluate(join_scripts(scripts, "entry.js"))
    controls = ["\x1b[2J", "=\x07", "a\rb", "a\r\nb", "\x9b1m\x7f", "\r=1", "\tx"]
    texts = [*IDS, *FORMULAS, *controls, "-1.5", "0.1", "Infinity", ""]
    copied = page.evaluate("texts => csvOf([], texts.map(text => [text, 0]))", texts)
    page.close()
    lines = csv.reader(io.StringIO(copied, newline=""))
    cells = [row[0] for row in lines if row]
    assert cells == [escape(without_controls(text)) for text in texts]


def test_a_very_long_word_of_letters_that_are_kerned_is_laid_out_at_once(
    browser, tmp_path
):
    log = write(
        tmp_path / "log.jsonl", [row(step, response="AV" * 50_000) for step in range(3)]
    )
    rlreport.build(log, tmp_path / "out")
    with visiting(browser, tmp_path / "out/steps/0.html", "#r=0") as page:
        page.wait_for_selector(".prose")
        assert page.evaluate("performance.now()") < 6_000  # it was half a minute


COUNT = STATIC_ROWS + 200
LAST = COUNT - 1


@pytest.fixture(scope="module")
def long_step(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long_step")
    return write_step(folder, Made(responses=COUNT, with_tokens=0))


def test_rows_beyond_the_pages_html_open_like_the_others(browser, long_step):
    with visiting(browser, long_step, f"#r={LAST}") as page:
        page.wait_for_selector(f'.responses tr[data-n="{LAST}"][aria-current="true"]')
        assert page.text_content(".response h2") == f"Response {LAST}"
        text = page.text_content('[data-text="response"] .prose') or ""
        assert text.startswith(f"answer {LAST} ")
        page.keyboard.press("k")
        page.wait_for_selector(f".response h2:text-is('Response {LAST - 1}')")


def test_rows_beyond_the_pages_html_are_searched_and_sorted(browser, long_step):
    with visiting(browser, long_step) as page:
        page.fill("input[type=search]", f"answer {LAST} ")
        assert listed(page) == [str(LAST)]
        page.fill("input[type=search]", "")
        header(page, "reward")  # the bad end first
        assert listed(page)[0] == str(LAST)
        assert page.text_content(".responses .count") == f"{COUNT:,} of {COUNT:,}"


def test_rows_beyond_the_pages_html_are_added_by_scrolling_and_print(
    browser, long_step
):
    with visiting(browser, long_step) as page:
        header(page, "reward")
        before = len(listed(page))
        assert before <= 100
        page.eval_on_selector(
            ".responses .scroll", "box => box.scrollTop = box.scrollHeight"
        )
        more = (
            "count => document.querySelectorAll('.responses tbody tr').length >= count"
        )
        until(page, more, arg=min(COUNT, before + 1))
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert listed(page) == [str(n) for n in reversed(range(COUNT))]
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert len(listed(page)) <= 100
        # A column hidden now is hidden in rows that were added.
        page.click(".menu > button:text('Columns')")
        page.uncheck(".menu label:has-text('style') input")
        hidden = page.locator(".responses tbody tr td[hidden]").count()
        assert hidden == len(listed(page))


def rows_of(browser: Browser, page: Path) -> list[str]:
    """Return the markup of all rows of a list, without what only a row of the HTML has."""
    with visiting(browser, page) as opened:
        opened.wait_for_selector(".list-tools .count")
        opened.evaluate("dispatchEvent(new Event('beforeprint'))")
        rows = opened.eval_on_selector_all(
            "tbody tr", "rows => rows.map(row => row.outerHTML)"
        )
    unlike = re.compile(
        r' data-v="[^"]*"| missing(?=")|(?<=number) (?=")| title="not [^"]*"'
    )
    return [unlike.sub("", row) for row in rows]


def test_rows_written_by_scripts_look_like_those_in_the_pages_html(
    browser, tmp_path, monkeypatch
):
    rows = []
    for step, n in product(range(2), range(20)):
        fields = {"step": step, "prompt": f"say {n}"}
        fields["response"] = "so " * n if n % 9 else None
        fields["reward"] = n / 7 if n != 5 else None
        fields["part"] = 1e-7 * n if n % 5 else None
        rows.append(fields)
    log = write_log(tmp_path / "log.jsonl", rows)
    reports = []
    for count in (1, 2000):
        for module in ("step", "responses"):
            monkeypatch.setattr(f"rlreport.pages.{module}.STATIC_ROWS", count)
        built = rlreport.build(log, tmp_path / str(count), workers=1)
        reports.append(Path(built.out))
    for name in ("steps/1.html", "responses.html"):
        scripted, static = (rows_of(browser, report / name) for report in reports)
        assert scripted == static
        assert any("missing grades" in row for row in static[1:])


def test_without_scripts_every_baked_row_reads_in_full(browser, step):
    with visiting(browser, step, java_script_enabled=False) as page:
        assert page.locator(".responses tbody tr").count() == 37
        assert "明月何时照我还" in page.inner_text('[id="r=5"]')
        assert page.locator(".noscript").is_visible()
        folded = page.locator('[id="r=4"] td[data-key="response"]')
        before = box_of(folded)
        page.click('a[href="#r=4"]')
        after = box_of(folded)
        assert after["height"] > before["height"]
