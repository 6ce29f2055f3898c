"""Presets, search scopes and columns of the lists of responses, in a browser and in both forms."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import rlreport
from tests.browser import in_url, listed, numbers, serious, until, visiting
from tests.hostile import write_log
from tests.reading import row

pytestmark = pytest.mark.untraced
STEPS = 4
EACH = 12
SHARED = "Let us think step by step. "
LONG = "x" * 400
CHINESE = "我们先把锅里的水烧开，然后慢慢放进面条，最后再加一点盐。" * 8


def rows() -> Iterator[dict[str, object]]:
    """A run with tools: an error in each step, cut responses, Chinese and unbroken texts."""
    for step, n in product(range(STEPS), range(EACH)):
        is_cut = n % 3 == 0
        call = {"name": "read", "arguments": {"path": f"recipe{n}.txt"}}
        output = {"role": "tool", "text": f"{'salt ' * 60}cook slowly {step}y{n}"}
        if n == 5:
            output |= {"error": "FileNotFoundError"}
        body = [CHINESE, LONG, "boil it"][n % 3]
        text = f"{SHARED}{n}: {body} end{step}z{n}"
        yield row(
            step,
            prompt=f"How do I cook dish {n}?",
            response=text,
            reward=(n + step) / 10,
            raw_reward=(n + step) / 10,
            dish_index=100 + n,
            finish_reason="length" if is_cut else "stop",
            turns=[
                {"role": "assistant", "text": "", "calls": [call]},
                output,
                {"role": "assistant", "text": text},
            ],
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run's report in both forms: ``report``, ``run.html``."""
    folder = tmp_path_factory.mktemp("presets")
    log = write_log(folder / "log.jsonl", rows())
    for out in ("report", "run.html"):
        rlreport.build(log, folder / out, workers=1)
    return folder


def starts(run: Path) -> list[tuple[Path, str]]:
    """Return the addresses of the lists: of the run and of a step, in both forms."""
    return [
        (run / "report" / "responses.html", "#"),
        (run / "report" / "steps" / "2.html", "#"),
        (run / "run.html", "#/responses?"),
        (run / "run.html", "#/steps/2?"),
    ]


@pytest.fixture(
    params=range(4), ids=["run", "step", "run in one file", "step in one file"]
)
def page(browser: Browser, run: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    with visiting(browser, *starts(run)[request.param]) as opened:
        opened.wait_for_selector(".presets")
        yield opened


def preset(page: Page, name: str) -> None:
    page.click(f".presets button:has-text('{name}')")


def counts(page: Page, chips: str) -> dict[str, int]:
    """Return the counts of chips, by their labels."""
    texts = page.locator(f"{chips} button").all_inner_texts()
    pairs = [text.rsplit(" ", 1) for text in texts]
    return {label: int(count.replace(",", "")) for label, count in pairs}


def search(page: Page, query: str) -> None:
    page.fill("input[type=search]", query)
    until(page, "() => !document.querySelector('.list-tools .note').textContent")


def shown_count(page: Page) -> int:
    return int((page.text_content(".list-tools .count") or "").split()[0])


def test_a_press_lists_as_many_rows_as_its_count_says_and_the_next_one_all(page):
    everything = listed(page)
    found = counts(page, ".presets")
    assert {"Worst", "Best", "Errors", "Cut off"} <= set(found)
    for name, count in found.items():
        preset(page, name)
        pressed = page.locator(".presets [aria-pressed=true]").all_inner_texts()
        assert len(pressed) == 1
        assert pressed[0].startswith(name)
        assert shown_count(page) == count > 0
        # What a preset filters has no chip of its own.
        assert page.locator(".chips button").count() == 0
    preset(page, name)
    assert listed(page) == everything
    assert page.locator(".presets [aria-pressed=true]").count() == 0


def test_worst_and_best_begin_with_the_lowest_and_the_highest_reward(page):
    preset(page, "Best")
    best = numbers(page, "reward")
    assert best == sorted(best, reverse=True)
    preset(page, "Worst")
    worst = numbers(page, "reward")
    assert worst == sorted(worst) and worst[-1] < best[-1]
    preset(page, "Errors")
    assert {name.split("-")[-1] for name in listed(page)} == {"5"}


def test_the_address_holds_a_preset(browser, run):
    for path, start in starts(run):
        with visiting(browser, path, start) as page:
            page.wait_for_selector(".presets")
            preset(page, "Worst")
            in_url(page, "max.reward=")
            found = listed(page)
            address = page.evaluate("location.hash")
        with visiting(browser, path, address) as page:
            page.wait_for_selector(".presets [aria-pressed=true]:has-text('Worst')")
            assert listed(page) == found


def test_the_first_press_on_a_header_sorts_its_bad_end_first(page):
    page.click('th[data-key="reward"] button')
    rewards = numbers(page, "reward")
    assert rewards == sorted(rewards)
    page.click('th[data-key="response_chars"] button')
    lengths = numbers(page, "response_chars")
    assert lengths == sorted(lengths, reverse=True)


def test_of_a_hacked_reward_the_highest_come_first_since_its_onset(browser, hacking):
    for name, down in (
        ("responses.html", True),
        ("steps/58.html", True),
        ("steps/5.html", False),
    ):
        with visiting(browser, hacking / name) as page:
            page.wait_for_selector(".presets")
            page.click('.responses th[data-key="reward"] button')
            rewards = numbers(page, "reward")
            assert rewards == sorted(rewards, reverse=down), name
            if name == "responses.html":
                preset(page, "Worst")
                texts = page.locator('td[data-key="finding"]').all_inner_texts()
                assert texts and all("reward hacking" in text for text in texts)


def test_scopes_count_their_hits_and_limit_the_search(page):
    search(page, "cook")
    total = shown_count(page)
    assert counts(page, ".scopes") == {"Prompt": total, "Response": 0, "Tools": total}
    search(page, "end2z7")
    assert counts(page, ".scopes") == {"Prompt": 0, "Response": 1, "Tools": 0}
    page.click(".scopes button:has-text('Tools')")
    assert shown_count(page) == 0
    in_url(page, "in=tools")
    page.click("tr.empty button:has-text('Search all parts (1)')")
    assert shown_count(page) == 1
    in_url(page, "q=end2z7")
    until(page, "() => !location.hash.includes('in=')")


@pytest.mark.parametrize("query", ["tools:recipe7.txt", " TOOLS：recipe7.txt"])
def test_a_typed_scope_is_that_of_the_chip(page, query):
    search(page, query)
    pressed = page.locator(".scopes [aria-pressed=true]").all_inner_texts()
    assert [text.split()[0] for text in pressed] == ["Tools"]
    assert {name.split("-")[-1] for name in listed(page)} == {"7"}
    # With its name, the scope goes.
    page.fill("input[type=search]", "recipe7.txt")
    assert page.locator(".scopes [aria-pressed=true]").count() == 0


def test_a_hit_outside_of_the_answer_is_labelled_with_the_part_around_it(page):
    cell = page.locator('tbody tr[data-n$="7"] td[data-key="response"]').first
    before = cell.text_content()
    for query, label, part in (
        ("tools:slowly 2y7", "in a tool's output", "cook slowly 2y7"),
        ("tools:recipe7", "in a tool call", "recipe7.txt"),
        ("prompt:dish 7", "in the prompt", ""),  # which its own column shows
    ):
        search(page, query)
        assert cell.locator(".where").inner_text() == label
        assert part in cell.inner_text()
    page.set_viewport_size({"width": 390, "height": 844})
    search(page, "prompt:cook dish 7")  # whose column a narrow window has no room for
    assert "How do I cook dish 7?" in cell.inner_text()
    search(page, "end2z7")
    assert cell.locator(".where").count() == 0
    search(page, "")
    assert cell.text_content() == before


def test_an_address_without_the_scope_of_a_list_searches_all(browser, run):
    path, start = starts(run)[1]
    with visiting(browser, path, f"{start}q=end2z7&in=nothing") as page:
        until(page, "() => document.querySelectorAll('tbody tr[data-n]').length === 1")
        assert page.locator(".scopes [aria-pressed=true]").count() == 0


def test_a_search_of_a_step_says_what_the_page_does_not_have(browser, tmp_path):
    log = write_log(tmp_path / "log.jsonl", rows())
    rlreport.build(log, tmp_path / "out", workers=1, max_responses=5)
    with visiting(browser, tmp_path / "out" / "steps" / "1.html") as page:
        page.fill("input[type=search]", "cook")
        note = page.text_content(".list-tools .note") or ""
        assert note.startswith(f"{EACH - 5} responses")
        page.fill("input[type=search]", "")
        assert page.text_content(".list-tools .note") == ""


ENDS = """() => [...document.querySelectorAll('td[data-key="response"] .clamp')].map(clamp => {
    const end = clamp.querySelector(".end > span");
    const range = document.createRange();
    range.selectNodeContents(end ?? clamp);
    const box = range.getBoundingClientRect();
    const cell = clamp.getBoundingClientRect();
    return {
        row: clamp.closest("tr").dataset.n,
        text: clamp.innerText,
        hasEnd: end !== null,
        endIsSeen: box.right <= cell.right + 1 && box.bottom <= cell.bottom + 1,
        height: cell.height,
    };
})"""


@pytest.mark.parametrize("width", [1400, 800, 390])
def test_a_cut_response_shows_its_end_and_none_what_all_share(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    shown = page.evaluate(ENDS)
    assert len(shown) >= EACH
    for cell in shown:
        n = int(cell["row"].split("-")[-1])
        assert cell["hasEnd"] == (n % 3 == 0)
        assert cell["height"] <= 37  # two lines
        assert SHARED.strip() not in cell["text"]
        if cell["hasEnd"]:
            assert cell["endIsSeen"]
            assert cell["text"].rstrip().endswith(f"z{n}")


def test_full_rows_hide_no_part_of_a_response(browser, run):
    path, start = starts(run)[1]
    with visiting(browser, path, start) as page:
        page.click("button:has-text('Full rows')")
        cell = page.locator('tr[data-n="9"] td[data-key="response"] .clamp')
        assert cell.inner_text() == f"{SHARED}9: {CHINESE} end2z9"
        search(page, "end2z9")
        assert cell.inner_text() == f"{SHARED}9: {CHINESE} end2z9"


OVERLAPS = """() => {
    const found = [];
    const section = document.querySelector('.responses table');
    for (const row of section.rows) {
        const cells = [...row.cells].filter(cell => cell.offsetParent);
        cells.forEach((cell, k) => {
            const box = cell.getBoundingClientRect();
            const next = cells[k + 1]?.getBoundingClientRect();
            const name = cell.outerHTML.slice(0, 80);
            if (next && box.right > next.left + 1) found.push([name, 'box']);
            const isClipped = getComputedStyle(cell).overflow === 'hidden';
            const isWide = cell.scrollWidth > cell.clientWidth + 1;
            if (isWide && !isClipped) found.push([name, 'content']);
        });
    }
    return found;
}"""
"""Cells whose box or content reaches into the next one."""


@pytest.mark.parametrize("width", [1400, 800, 390])
def test_no_cell_reaches_into_the_next_one(browser, run, width):
    for path, start in starts(run)[:2]:
        viewport = {"width": width, "height": 900}
        with visiting(browser, path, start, viewport=viewport) as page:
            page.wait_for_selector(".presets")
            assert page.evaluate(OVERLAPS) == []
            search(page, "cook")
            assert page.evaluate(OVERLAPS) == []
            page.click("button:has-text('Full rows')")
            assert page.evaluate(OVERLAPS) == []
            search(page, "")
            assert page.evaluate(OVERLAPS) == []
            wide = "() => document.documentElement.scrollWidth <= innerWidth"
            assert page.evaluate(wide)


def test_a_phone_has_rows_in_sight(browser, run):
    viewport = {"width": 390, "height": 844}
    for path, start in starts(run)[:1]:
        with visiting(browser, path, start, viewport=viewport) as page:
            page.wait_for_selector(".presets")
            search(page, "cook")
            top = "() => document.querySelector('.responses tbody tr').getBoundingClientRect().top"
            assert page.evaluate(top) < 560


def test_copies_of_the_reward_and_numbers_of_prompts_can_be_selected(page):
    heads = page.locator(".responses th:visible").evaluate_all(
        "all => all.map(head => head.dataset.key)"
    )
    assert not {"extra:raw_reward", "extra:dish_index"} & set(heads)
    page.click(".menu > button:text('Columns')")
    box = page.locator(".sheet label:has-text('raw_reward')")
    assert "equals “Reward”" in (box.get_attribute("title") or "")
    box.locator("input").check()
    assert numbers(page, "extra:raw_reward") == numbers(page, "reward")


def test_axe_finds_nothing_serious_with_pressed_chips(browser, run):
    for scheme in ("light", "dark"):
        path, start = starts(run)[0]
        with visiting(browser, path, start, color_scheme=scheme) as page:
            page.wait_for_selector(".presets")
            preset(page, "Worst")
            search(page, "tools:salt")
            assert serious(page) == []
