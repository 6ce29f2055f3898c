"""Live charts: zoom, crosshair, smoothing, logarithms, downloads, any column against any."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

import rlreport
from rlreport.draw.bundle import vega_bundle
from tests.browser import box_of, in_url, rest, until, visiting
from tests.hostile import hostile_rows, write_log

pytestmark = pytest.mark.untraced


def live(page: Page, name: str) -> str:
    """Waits until a chart is live; returns its selector."""
    figure = f'figure[data-chart="{name}"]'
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f'{figure}[data-live="true"]')
    return figure


def names_of_curves(page: Page, figure: str) -> dict[str, float]:
    """Return where in the plot each curve's name begins, as a share of the plot's width."""
    return page.locator(figure).evaluate(
        """figure => {
            const plot = figure.querySelector('.plot').getBoundingClientRect();
            return Object.fromEntries([...figure.querySelectorAll('.plot svg text')]
                .filter(text => ['policy', 'reference'].includes(text.textContent))
                .map(text => [text.textContent,
                    (text.getBoundingClientRect().left - plot.left) / plot.width]));
        }"""
    )


def test_a_drag_zooms_all_charts_and_a_double_click_shows_the_run_again(
    browser, real_report
):
    with visiting(browser, real_report("ppo_healthy") / "index.html") as page:
        figure = live(page, "reward")
        curves = names_of_curves(page, figure)
        assert set(curves) == {"policy", "reference"}
        address = page.url
        back = page.locator(f"{figure} .plot .zoom")
        box = box_of(page.locator(f"{figure} .plot"))
        x = box["x"]
        y = box["y"] + 100
        page.mouse.move(x + 200, y)
        until(page, "document.querySelector('.tip').innerText.includes('lower band')")
        page.mouse.down()
        page.mouse.move(x + 400, y, steps=8)
        page.mouse.up()
        back.filter(has_text="show all").wait_for()
        in_url(page, "zoom=")
        named = (
            "figure => document.querySelector(figure).textContent.includes('policy')"
        )
        until(page, named, arg=figure)
        assert names_of_curves(page, figure) == pytest.approx(curves, abs=0.02)
        rest(page, 600)  # longer than a click waits before it opens a step
        box = box_of(page.locator(f"{figure} .plot"))
        page.mouse.dblclick(box["x"] + 300, box["y"] + 100)
        back.wait_for(state="hidden")
        rest(page, 600)
        assert page.url.rstrip("#") == address


def test_a_finding_under_the_pointer_marks_its_charts(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.locator(".finding[data-charts]").first.hover()
        page.wait_for_selector(".pointed")


def test_the_first_printed_page_holds_more_than_the_headline(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        page.emulate_media(media="print")
        lead = page.locator(".finding.leading")
        assert lead.evaluate("node => getComputedStyle(node).breakInside") == "auto"


def test_vega_adds_three_global_names(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        live(page, "reward")
        tab = page.context.new_page()
        tab.goto((hacking / "data.html").as_uri())
        names = "Object.getOwnPropertyNames(globalThis)"
        added = {*page.evaluate(names)} - {*tab.evaluate(names)}
        tab.close()
        of_vega = {name for name in added if not name.startswith("rlreport")}
        assert of_vega == {"vegaEmbed", "vega", "vegaLite"}


def test_vegas_bundle_cannot_end_its_script_element():
    assert "</script" not in vega_bundle().lower()
    assert "<!--" not in vega_bundle()


def test_a_chart_can_be_taken_along_in_two_clicks(browser, hacking, tmp_path, subtests):
    taken = {}
    with visiting(browser, hacking / "index.html") as page:
        figure = live(page, "reward")
        for kind in ("PNG", "SVG", "CSV", "Vega-Lite"):
            page.click(f"{figure} .chart-menu > button")
            with page.expect_download() as download:
                page.click(f'{figure} .chart-menu button:text-is("{kind}")')
            download.value.save_as(tmp_path / download.value.suggested_filename)
            taken[kind] = (tmp_path / download.value.suggested_filename).read_bytes()
    exported = json.loads((hacking / "data" / "charts" / "reward.vl.json").read_bytes())
    with subtests.test("as PNG"):
        assert taken["PNG"].startswith(b"\x89PNG")
    with subtests.test("as SVG"):
        assert taken["SVG"].startswith(b"<svg")
        assert b'width="85mm" height="42.5mm"' in taken["SVG"]
    with subtests.test("its values as CSV"):
        rows = len(exported["data"]["values"])
        assert len(taken["CSV"].splitlines()) == rows + 1
    with subtests.test("its specification, as exported"):
        found = json.loads(taken["Vega-Lite"])
        assert found["layer"] == exported["layer"]
        assert found["config"] == exported["config"]


def test_a_chart_has_a_logarithmic_axis(browser, hacking):
    with visiting(browser, hacking / "index.html") as page:
        figure = live(page, "length")
        page.click(f"{figure} .chart-menu > button")
        page.check(f"{figure} .chart-menu input")
        page.wait_for_selector(f'{figure} .plot text:has-text("logarithmic")')


def test_any_column_of_a_steps_responses_against_any_other(browser, hacking):
    step = next((hacking / "steps").glob("*.html"))
    with visiting(browser, step) as page:
        page.click(".explore summary")
        page.wait_for_selector('.explore figure[data-live="true"]')
        assert (
            page.locator(".explore figcaption > span").inner_text()
            == "Reward against KL"
        )
        page.locator(".explore select").first.select_option(label="Length (tokens)")
        page.wait_for_selector(
            '.explore figcaption > span:has-text("Length against KL")'
        )
        dots = page.locator(".explore .plot .mark-symbol path").count()
        assert dots == page.locator("section.responses tbody tr[data-n]").count()


def test_a_long_name_of_a_metric_does_not_make_a_page_wider(browser, tmp_path):
    long_name = "W" * 150
    rows = [{"step": n, "reward": n / 9, long_name: n} for n in range(9)]
    rlreport.build(rows, tmp_path / "run", quiet=True, workers=1)
    page = tmp_path / "run" / "index.html"
    with visiting(browser, page, viewport={"width": 420, "height": 800}) as opened:
        opened.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        assert opened.locator("figcaption", has_text="WWWW").count()
        assert opened.evaluate("document.documentElement.scrollWidth") == 420


def test_a_long_name_of_a_column_does_not_make_a_narrow_page_wider(browser, tmp_path):
    rows = [row | {"long " * 18: n} for n, row in enumerate(hostile_rows(1))]
    log = write_log(tmp_path / "log.jsonl", rows)
    rlreport.build([log], tmp_path / "run", quiet=True, workers=1)
    step = tmp_path / "run" / "steps" / "0.html"
    with visiting(browser, step, viewport={"width": 420, "height": 800}) as page:
        page.click(".explore summary")
        assert page.evaluate("document.documentElement.scrollWidth") == 420


def drawing(figure: Locator) -> tuple[list[str], int, float]:
    """Return texts, the number of dots, and the height of a chart drawn without scripts."""
    return (
        sorted(figure.locator("text").all_text_contents()),
        figure.locator("circle").count(),
        figure.locator("svg").evaluate(HEIGHT),
    )


HEIGHT = "svg => svg.getBoundingClientRect().height"
TEXTS = (
    "plot => [...plot.querySelectorAll('text')].map(text => text.textContent).sort()"
)


def test_an_interactive_chart_of_a_step_looks_like_its_drawing(
    browser, hacking, subtests
):
    step = hacking / "steps" / "59.html"
    with visiting(browser, step, java_script_enabled=False) as page:
        figures = page.locator("figure.chart").all()
        drawn = {one.get_attribute("data-chart"): drawing(one) for one in figures}
    with visiting(browser, step) as page:
        for name, (words, dots, height) in drawn.items():
            with subtests.test(chart=name):
                plot = page.locator(f"{live(page, str(name))} .plot")
                assert plot.evaluate(TEXTS) == words
                assert plot.locator("path[fill-opacity='0.5'][d*='A']").count() == dots
                size = plot.locator("svg").evaluate(HEIGHT)
                assert size == pytest.approx(height, abs=6)
        assert page.locator("figcaption .smoothed").count() == 0


def test_a_page_that_shows_a_choice_of_responses_says_so_where_they_are_drawn_again(
    browser, tmp_path
):
    rows = []
    for step in (0, 1):
        for n in range(300):
            rows.append({"step": step, "prompt": "p", "response": "r", "reward": n})
    log = write_log(tmp_path / "log.jsonl", rows)
    done = rlreport.build(log, tmp_path / "report", workers=1)
    with visiting(browser, Path(done.out) / "steps" / "1.html") as page:
        figure = live(page, "step_reward")
        shown = len(json.loads(page.text_content("script.rows-data") or "")["n"])
        assert page.text_content(f"{figure} .smoothed") == f"{shown} of 300 responses"
