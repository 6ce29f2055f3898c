"""The token view in a browser: colours, values, walking, extremes, table, line, A|B."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

import rlreport
from rlreport.columns import TOKEN_FIGURES
from tests.browser import box_of, in_url, visiting
from tests.pages import Made, write_step
from tests.pages_reading import node, page_tokens
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
    found = in_python(node(step.read_text("utf-8"), "tokens-data"))
    part = slice(n * MADE.tokens, (n + 1) * MADE.tokens)
    return {name: values[part].tolist() for name, values in found.items()}


def bins(page: Page, view: int = 0) -> list[int]:
    spans = "box => [...box.querySelectorAll('.t')].map(span => span.className)"
    names = page.locator(".token-text").nth(view).evaluate(spans)
    return [int(name.split("-")[1].split()[0]) for name in names]


def current(page: Page) -> int:
    spans = "[...document.querySelectorAll('.token-text .t')]"
    return page.evaluate(f"{spans}.findIndex(span => span.classList.contains('at'))")


def tip(page: Page) -> dict[str, str]:
    pairs = page.eval_on_selector_all(
        ".tip:not([hidden]) tr",
        "rows => rows.map(row => [...row.cells].map(c => c.textContent))",
    )
    return dict(pairs)


def test_all_twelve_metrics_are_offered_and_colour_the_text(page, step):
    offered = page.eval_on_selector_all(
        '[name="metric"] option', "all => all.map(o => o.value)"
    )
    assert set(offered) == {f.name for f in TOKEN_FIGURES} - {"sampler_logp"}
    assert len(offered) == 12
    values = columns(step, 1)
    for key in offered:
        page.select_option('[name="metric"]', key)
        order = sorted(range(MADE.tokens), key=values[key].__getitem__)
        shades = bins(page)
        least_likely_dark = key in {"logp", "ref_logp", "prob", "ref_prob"}
        assert [shades[i] for i in order] == sorted(
            shades, reverse=least_likely_dark
        ), key
        assert len(set(shades)) > 2, key
    # Signed ones are centred on zero, and one outlier does not bleach the rest.
    page.select_option('[name="metric"]', "log_ratio")
    assert max(values["log_ratio"]) == 50.0
    for value, shade in zip(values["log_ratio"], bins(page), strict=True):
        assert shade == 6 or (shade > 6) == (value > 0)
    assert len(set(bins(page))) > 6
    legend = page.inner_text(".legend")
    assert all(said in legend for said in ("98th percentile", "beyond", "nats"))
    # Values are centred on their median.
    page.select_option('[name="metric"]', "value")
    middle = sorted(values["value"])[(MADE.tokens - 1) // 2]
    for value, shade in zip(values["value"], bins(page), strict=True):
        assert shade == 6 or (shade > 6) == (value > middle)
    assert "centred on the median" in page.inner_text(".legend")
    # The scale is that of the response or of the step.
    page.select_option('[name="metric"]', "surprisal")
    own = page.inner_text(".legend")
    page.select_option('[name="scale"]', "step")
    in_url(page, "scale=step")
    assert page.inner_text(".legend") != own
    assert "step" in page.inner_text(".legend .unit")


def test_white_space_special_and_partial_tokens_can_be_seen_and_values_on_hover_and_tap(
    page, step
):
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
    values = columns(step, 1)
    token = page.locator(".token-text .t").nth(0)
    token.hover()
    hovered = tip(page)
    assert hovered["Log-ratio"] == "50 nats"
    assert len(hovered) == 12
    shown = float(hovered["Advantage"].replace("−", "-"))
    assert shown == pytest.approx(values["advantage"][0], rel=1e-3)
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
            page.keyboard.press("ArrowRight") if i else page.locator(
                ".token-text .t"
            ).first.click()
            said = page.text_content(".tip .raw") or ""
            assert said.endswith(f"(logged as {string})") == (string != "plain")


def test_arrows_walk_tokens_and_a_finding_leads_to_its_own(page):
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


def test_a_token_has_an_address_and_figures_without_a_number_are_listed(
    browser, step, tmp_path
):
    with visiting(browser, step, "#r=2&token=7&metric=kl") as page:
        page.wait_for_selector(".token-text .t.at")
        assert current(page) == 7
        assert page.input_value('[name="metric"]') == "kl"
    step = write_step(tmp_path, Made(responses=2, tokens=20, nan=True))
    with visiting(browser, step, "#r=0&metric=logp&token=3") as page:
        page.wait_for_selector(".token-text .t.at")
        assert tip(page)["Logp"] == "NaN"
        said = page.inner_text(".token-view .note")
        assert said.startswith("NaN or missing in all tokens: ") and "Value" in said
        assert page.locator('[name="metric"] option[value="value"]').count() == 0


def test_the_table_holds_every_metric_of_every_token_and_cuts_no_number(page, step):
    page.click(".token-table summary")
    page.wait_for_selector(".token-table tbody tr")
    values = columns(step, 1)
    table = page.locator(".token-table table")
    assert table.locator("thead th").count() == 2 + 12
    page.click('.token-table th[data-key="surprisal"] button')
    at = table.locator("thead th").evaluate_all(
        "heads => heads.findIndex(head => head.dataset.key === 'surprisal')"
    )
    cells = table.locator(f"tbody td:nth-child({at + 1})")
    exact = [float(cells.nth(i).get_attribute("title") or "nan") for i in range(5)]
    assert exact == pytest.approx(sorted(values["surprisal"], reverse=True)[:5])
    assert cells.evaluate_all(
        "all => all.every(td => td.scrollWidth <= td.clientWidth)"
    )
    most = values["surprisal"].index(max(values["surprisal"]))
    cells.first.click()
    assert current(page) == most
    assert table.locator("tbody tr[aria-current]").get_attribute("data-n") == str(most)
    # A row under the pointer keeps the colours of its values.
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
    rows = [
        row(step, response_tokens=[f" t{i}" for i in range(12)], logprobs=[-2.0] * 12,
            ref_logprobs=[-2.0 - ratio for ratio in ratios])
        for step in range(2)
    ]  # fmt: skip
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "out")
    with visiting(
        browser, tmp_path / "out/steps/0.html", "#r=0&metric=log_ratio"
    ) as page:
        page.wait_for_selector(".token-text")
        shades = bins(page)
        assert shades[8] == 11
        assert shades[3] < 9
        assert "percentile" not in page.inner_text(".legend")


def test_the_line_is_linked_to_the_text(page):
    plot = page.locator(".line-plot").first
    box = box_of(plot)
    plot.click(position={"x": box["width"] * 0.5, "y": 20})
    assert current(page) == MADE.tokens // 2
    here = float(plot.locator(".here").get_attribute("x1") or "nan")
    assert here == pytest.approx(1000 * (MADE.tokens // 2 + 0.5) / MADE.tokens)
    page.click("label:has-text('a line for each metric')")
    assert page.locator(".line-plot").count() == 12


def test_two_metrics_stand_side_by_side_around_one_token(page, step):
    page.select_option('[name="metric"]', "prob")
    page.select_option('[name="b"]', "ref_prob")
    in_url(page, "b=ref_prob")
    assert page.locator(".token-text").count() == 2
    values = columns(step, 1)
    for view, key in enumerate(["prob", "ref_prob"]):
        order = sorted(range(MADE.tokens), key=values[key].__getitem__)
        shades = bins(page, view)
        assert [shades[i] for i in order] == sorted(shades, reverse=True)
    page.locator(".token-text").nth(1).locator(".t").nth(5).click()
    at = page.locator(".token-text .t.at")
    assert at.count() == 2
    tops = page.eval_on_selector_all(
        ".token-text", "all => all.map(text => text.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1]
