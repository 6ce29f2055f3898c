"""The token view in a browser: colours, values, walking, extremes, table, line, A|B."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

import rlreport
from rlreport.columns import TOKEN_FIGURES
from tests.browser import box_of, in_url, visiting
from tests.pages import Made, write_step
from tests.pages_reading import packed_tokens, page_tokens
from tests.reading import row, write
from tests.test_browser_formulas import in_python

pytestmark = pytest.mark.untraced
MADE = Made(responses=4, with_tokens=3, tokens=60)


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    return write_step(tmp_path_factory.mktemp("tokens"), MADE)


@pytest.fixture
def page(browser, step):
    with visiting(browser, step, "#r=1") as opened:
        opened.wait_for_selector(".token-text .t")
        yield opened


def columns(step: Path, n: int) -> dict[str, list[float]]:
    """Every metric of a response, computed from what the page carries."""
    found = in_python(packed_tokens(step))
    part = slice(n * MADE.tokens, (n + 1) * MADE.tokens)
    return {name: values[part].tolist() for name, values in found.items()}


def bins(page: Page, view: int = 0) -> list[int]:
    spans = "box => [...box.querySelectorAll('.t')].map(span => span.className)"
    names = page.locator(".token-text").nth(view).evaluate(spans)
    endings = [name.split("-")[1] for name in names]  # "t div-7 special": "7 special"
    return [int(ending.split()[0]) for ending in endings]


def current(page: Page) -> int:
    spans = "[...document.querySelectorAll('.token-text .t')]"
    return page.evaluate(f"{spans}.findIndex(span => span.classList.contains('at'))")


def tip(page: Page) -> dict[str, str]:
    pairs = page.eval_on_selector_all(
        ".tip:not([hidden]) tr",
        "rows => rows.map(row => [...row.cells].map(c => c.textContent))",
    )
    return dict(pairs)


def choose(page: Page, metric: str) -> None:
    page.select_option('[name="metric"]', metric)


def test_all_twelve_metrics_are_offered_and_colour_the_text(page, step, subtests):
    offered = page.eval_on_selector_all(
        '[name="metric"] option', "all => all.map(o => o.value)"
    )
    assert set(offered) == {f.name for f in TOKEN_FIGURES} - {"sampler_logp"}
    assert len(offered) == 12
    values = columns(step, 1)
    for key in offered:
        with subtests.test(metric=key):
            choose(page, key)
            order = sorted(range(MADE.tokens), key=values[key].__getitem__)
            shades = bins(page)
            least_likely_dark = key in {"logp", "ref_logp", "prob", "ref_prob"}
            expected = sorted(shades, reverse=least_likely_dark)
            assert [shades[i] for i in order] == expected
            assert len(set(shades)) > 2


def test_signed_metrics_are_centred_on_zero(page, step):
    choose(page, "log_ratio")
    for value, shade in zip(columns(step, 1)["log_ratio"], bins(page), strict=True):
        assert shade == 6 or (shade > 6) == (value > 0)


def test_one_outlier_does_not_bleach_the_rest(page, step):
    choose(page, "log_ratio")
    assert max(columns(step, 1)["log_ratio"]) == 50.0
    assert len(set(bins(page))) > 6
    legend = page.inner_text(".legend")
    for said in ("98th percentile", "beyond", "nats"):
        assert said in legend


def test_values_are_centred_on_their_median(page, step):
    choose(page, "value")
    values = columns(step, 1)["value"]
    middle = sorted(values)[(MADE.tokens - 1) // 2]
    for value, shade in zip(values, bins(page), strict=True):
        assert shade == 6 or (shade > 6) == (value > middle)
    assert "centred on the median" in page.inner_text(".legend")


def test_the_scale_is_that_of_the_response_or_of_the_step(page):
    choose(page, "surprisal")
    own = page.inner_text(".legend")
    page.select_option('[name="scale"]', "step")
    in_url(page, "scale=step")
    assert page.inner_text(".legend") != own
    assert "step" in page.inner_text(".legend .unit")


def test_white_space_special_and_partial_tokens_can_be_seen(page):
    shown = page.eval_on_selector_all(
        ".token-text .t",
        "all => all.map(span => [span.textContent, span.className.split(' ')[1]])",
    )
    texts = {text for text, _ in shown}
    assert {"↵\n", "⇥\t", "␣␣", "🎉", " 猫"} <= texts
    kinds = dict(shown)
    assert kinds["<|im_end|>"] == "special"
    assert kinds[""] == "part"
    assert len(shown) == MADE.tokens


def test_the_values_of_a_token_are_shown_on_hover_and_tap(page, step):
    token = page.locator(".token-text .t").nth(0)
    token.hover()
    hovered = tip(page)
    assert hovered["Log-ratio"] == "50 nats"
    assert len(hovered) == 12
    advantage = float(hovered["Advantage"].replace("−", "-"))
    assert advantage == pytest.approx(columns(step, 1)["advantage"][0], rel=1e-3)
    page.mouse.move(0, 0)
    assert tip(page) == {}
    token.click()
    assert tip(page) == hovered
    described = token.get_attribute("aria-describedby")
    assert page.locator(f"#{described}").is_visible()


def test_a_token_says_how_it_was_logged(browser, tmp_path):
    logged = ["Ġthe", "Ċ", "ĠçĮ«", "Ã©", "ðŁİī", "ÂŃ", "Ģ", "plain"]
    step = write_step(tmp_path, Made(responses=1, with_tokens=1, words=logged))
    raw = page_tokens(step)[0][0]
    assert set(raw) == set(logged)
    with visiting(browser, step, "#r=0") as page:
        page.wait_for_selector(".token-text .t")
        for i, string in enumerate(raw):
            if i == 0:
                page.locator(".token-text .t").first.click()
            else:
                page.keyboard.press("ArrowRight")
            said = page.text_content(".tip .raw") or ""
            assert said.endswith(f"(logged as {string})") == (string != "plain")


def test_arrows_walk_tokens(page):
    page.locator(".token-text .t").nth(0).click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert current(page) == 2
    in_url(page, "token=2")
    page.keyboard.press("ArrowLeft")
    assert current(page) == 1
    page.keyboard.press("End")
    assert current(page) == MADE.tokens - 1
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    lines = page.eval_on_selector_all(
        ".token-text .t", "all => all.map(span => span.getBoundingClientRect().top)"
    )
    assert lines[current(page)] > lines[0]


def test_a_finding_leads_to_its_own_token(page):
    page.click("button:has-text('Go to token 3')")
    assert current(page) == 3


@pytest.mark.parametrize(
    ("metric", "name", "extent"),
    [
        ("advantage", "Next largest", lambda value, middle: -abs(value)),
        ("prob", "Next least likely", lambda value, middle: value),
        ("value", "Next furthest", lambda value, middle: -abs(value - middle)),
    ],
)
def test_a_button_and_keys_jump_through_the_extremes(page, step, metric, name, extent):
    page.select_option('[name="metric"]', metric)
    values = columns(step, 1)[metric]
    middle = sorted(values)[(MADE.tokens - 1) // 2]
    order = sorted(range(MADE.tokens), key=lambda i: extent(values[i], middle))
    for place in order[:3]:
        page.click(f"button:has-text('{name}')")
        assert current(page) == place
    page.keyboard.press("n")
    assert current(page) == order[3]
    page.keyboard.press("N")
    assert current(page) == order[2]


def test_a_token_has_an_address(browser, step):
    with visiting(browser, step, "#r=2&token=7&metric=kl") as page:
        page.wait_for_selector(".token-text .t.at")
        assert current(page) == 7
        assert page.input_value('[name="metric"]') == "kl"


def test_figures_without_a_number_are_listed(browser, tmp_path):
    step = write_step(tmp_path, Made(responses=2, tokens=20, nan=True))
    with visiting(browser, step, "#r=0&metric=logp&token=3") as page:
        page.wait_for_selector(".token-text .t.at")
        assert tip(page)["Logp"] == "NaN"
        said = page.inner_text(".token-view .note")
        assert said.startswith("NaN or missing in all tokens: ") and "Value" in said
        assert page.locator('[name="metric"] option[value="value"]').count() == 0


def open_table(page: Page) -> Locator:
    page.click(".token-table summary")
    page.wait_for_selector(".token-table tbody tr")
    return page.locator(".token-table table")


def sorted_by_surprisal(page: Page, table: Locator) -> Locator:
    """Sort the table, largest first; return the cells of that column."""
    page.click('.token-table th[data-key="surprisal"] button')
    at = table.locator("thead th").evaluate_all(
        "heads => heads.findIndex(head => head.dataset.key === 'surprisal')"
    )
    return table.locator(f"tbody td:nth-child({at + 1})")


def test_the_table_holds_every_metric_of_every_token_and_cuts_no_number(page, step):
    table = open_table(page)
    assert table.locator("thead th").count() == 2 + 12
    cells = sorted_by_surprisal(page, table)
    titles = [cells.nth(i).get_attribute("title") for i in range(5)]
    exact = [float(title or "nan") for title in titles]
    values = columns(step, 1)["surprisal"]
    assert exact == pytest.approx(sorted(values, reverse=True)[:5])
    uncut = "all => all.every(td => td.scrollWidth <= td.clientWidth)"
    assert cells.evaluate_all(uncut)


def test_a_press_on_a_row_of_the_table_goes_to_its_token(page, step):
    table = open_table(page)
    sorted_by_surprisal(page, table).first.click()
    values = columns(step, 1)["surprisal"]
    most = values.index(max(values))
    assert current(page) == most
    assert table.locator("tbody tr[aria-current]").get_attribute("data-n") == str(most)


def test_a_row_of_the_table_under_the_pointer_keeps_the_colours_of_its_values(page):
    open_table(page)
    cells = page.locator(
        ".token-table td[class*='div-'], .token-table td[class*='seq-']"
    )
    look = (
        "cell => [getComputedStyle(cell).color, getComputedStyle(cell).backgroundColor]"
    )
    for cell in cells.all()[:12]:
        before = cell.evaluate(look)
        cell.hover()
        assert cell.evaluate(look) == before


def test_in_a_short_response_the_largest_value_has_a_colour_of_its_own(
    browser, tmp_path
):
    ratios = [0.001, 0.02, -0.01, 0.333, 0.0, 0.1, -0.05, 0.2, 1.41, 0.03, 0.04, 0.15]
    figures = {
        "response_tokens": [f" t{i}" for i in range(12)],
        "logprobs": [-2.0] * 12,
        "ref_logprobs": [-2.0 - ratio for ratio in ratios],
    }
    rows = [row(step, **figures) for step in range(2)]
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "out")
    with visiting(
        browser, tmp_path / "out/steps/0.html", "#r=0&metric=log_ratio"
    ) as page:
        page.wait_for_selector(".token-text")
        shades = bins(page)
        assert shades[8] == 11
        assert shades[3] < 9
        assert "percentile" not in page.inner_text(".legend")


def test_a_press_on_the_line_goes_to_its_token(page):
    plot = page.locator(".line-plot").first
    box = box_of(plot)
    plot.click(position={"x": box["width"] * 0.5, "y": 20})
    assert current(page) == MADE.tokens // 2
    here = float(plot.locator(".here").get_attribute("x1") or "nan")
    assert here == pytest.approx(1000 * (MADE.tokens // 2 + 0.5) / MADE.tokens)


def test_each_metric_can_have_a_line(page):
    page.click("label:has-text('a line for each metric')")
    assert page.locator(".line-plot").count() == 12


def show_two(page: Page) -> None:
    page.select_option('[name="metric"]', "prob")
    page.select_option('[name="b"]', "ref_prob")
    in_url(page, "b=ref_prob")


def test_two_metrics_stand_side_by_side(page, step):
    show_two(page)
    assert page.locator(".token-text").count() == 2
    values = columns(step, 1)
    for view, key in enumerate(["prob", "ref_prob"]):
        order = sorted(range(MADE.tokens), key=values[key].__getitem__)
        shades = bins(page, view)
        assert [shades[i] for i in order] == sorted(shades, reverse=True)


def test_two_metrics_stand_around_one_token(page):
    show_two(page)
    page.locator(".token-text").nth(1).locator(".t").nth(5).click()
    assert page.locator(".token-text .t.at").count() == 2
    tops = page.eval_on_selector_all(
        ".token-text", "all => all.map(text => text.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1]
