"""Charts as figures: edges down a page, zoom in the address, pictures for papers, printed pages."""

import re
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from playwright.sync_api import Page

import rlreport
from tests.browser import box_of, in_url, until, visiting
from tests.hostile import write_log

pytestmark = pytest.mark.untraced

STEPS = 60
FALLS_AT = 40
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with reports of one run whose reward falls: ``run``, ``run.html``."""
    folder = tmp_path_factory.mktemp("figures")
    noise = np.random.default_rng(0)
    rows = []
    for step in range(STEPS):
        is_broken = step >= FALLS_AT
        for n in range(6):
            words = 60 if is_broken else 12
            row = {
                "step": step,
                "prompt": f"What is {n}?",
                "response": " ".join(f"w{k}" for k in noise.integers(0, 50, words)),
                "reward": round(
                    float(noise.normal(0.05 if is_broken else 0.7, 0.05)), 3
                ),
                "ref_response": "No.",
                "ref_reward": 0.4,
                "sharpness": float(noise.normal()),
            }
            rows.append(row)
    log = write_log(folder / "log.jsonl", rows)
    for name in ("run", "run.html"):
        rlreport.build(log, folder / name, title="figures", workers=1)
    return folder


def live(page: Page, name: str) -> str:
    """Waits until a chart is live; returns its selector."""
    figure = f'figure[data-chart="{name}"]'
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f'{figure}[data-live="true"]')
    return figure


def test_key_figures_have_no_curves_below_those_of_what_moved(reports, tmp_path):
    log = [
        {"step": step, "prompt": "p", "response": "r", "reward": step}
        for step in (0, 1, 2)
    ]
    rlreport.build(
        write_log(tmp_path / "log.jsonl", log), tmp_path / "short", workers=1
    )
    for report, moves in ((reports / "run", True), (tmp_path / "short", False)):
        page = (report / "index.html").read_text("utf-8")
        assert ('<section class="moved"' in page) is moves
        (figures,) = re.findall(r'<dl class="figures">.*?</dl>', page, re.DOTALL)
        assert ("<svg" in figures) is not moves


# The left and the right end of a plot within its figure: those of its axis of steps.
EDGES = """([selector, axis]) => [...document.querySelectorAll(selector)].map(figure => {
    const outer = figure.getBoundingClientRect();
    const lines = [...figure.querySelectorAll(axis)].map(line => line.getBoundingClientRect());
    const widest = lines.reduce((a, b) => (b.width > a.width ? b : a));
    return [Math.round(widest.left - outer.left), Math.round(outer.right - widest.right)];
})"""


@pytest.mark.parametrize("width", [1400, 800])
def test_plots_down_a_page_have_the_same_edges_drawn_and_live(
    browser, reports, width: int
):
    viewport = {"width": width, "height": 3000}
    overview = reports / "run" / "index.html"
    with visiting(
        browser, overview, java_script_enabled=False, viewport=viewport
    ) as page:
        drawn = page.evaluate(EDGES, ["figure.chart", ".plot > svg line"])
        strips = page.evaluate(EDGES, [".stack", "figure.strip line"])
    with visiting(browser, overview, viewport=viewport) as page:
        until(
            page,
            "document.querySelectorAll('.charts > .chart[data-live=true]').length >= 3",
        )
        selector = ".chart[data-live=true]"
        interactive = page.evaluate(EDGES, [selector, ".role-axis line"])
    assert len(drawn) > 3 and len(strips) == 2 and len(interactive) >= 3
    for edges in (drawn, interactive, strips):
        for left, right in edges:
            assert abs(left - 52) <= 1
            assert abs(right - 16) <= 1


def steps_below(page: Page, figure: str) -> list[int]:
    """Return the numbers of the steps below a live chart."""
    axis = page.locator(f"{figure} .plot g.role-axis:has(.role-axis-domain)")
    texts = axis.locator(".role-axis-label text").all_text_contents()
    return [int(text) for text in texts if text]


@pytest.mark.parametrize(
    ("form", "address"),
    [("run/index.html", "#zoom=20-48"), ("run.html", "#/?zoom=20-48")],
)
def test_a_zoom_is_in_the_address_and_its_button_in_the_chart(
    browser, reports, form: str, address: str
):
    with visiting(browser, reports / form, address) as page:
        figure = live(page, "length")
        assert steps_below(page, figure)[0] == 20
        back = page.locator(f"{figure} .plot .zoom")
        assert back.inner_text() == "Steps 20–48: show all"
        back.click()
        until(page, "!location.hash.includes('zoom')")
        back.wait_for(state="hidden")
        assert steps_below(page, figure)[0] == 0
        page.go_back()
        back.wait_for()
        assert steps_below(page, figure)[0] == 20
        other = live(page, "reward")
        assert steps_below(page, other)[0] == 20


def test_the_chart_of_the_verdict_shows_the_event_and_on_demand_the_whole_run(
    browser, reports
):
    with visiting(browser, reports / "run" / "index.html") as page:
        figure = live(page, "reward")
        event = steps_below(page, figure)
        assert 30 < event[0] < FALLS_AT < event[-1] < 50
        caption = page.inner_text(f"{figure} figcaption")
        assert re.search(r"steps 3\d–4\d; the strip shows the whole run", caption)
        button = page.locator(f"{figure} .plot .zoom")
        assert button.inner_text() == "Whole run"
        button.click()
        in_url(page, f"zoom=0-{STEPS - 1}")
        button.filter(has_text="alone").wait_for()
        assert steps_below(page, figure)[0] == 0
        button.click()
        button.filter(has_text="Whole run").wait_for()
        assert steps_below(page, figure) == event


def test_steps_to_zoom_to_can_be_typed(browser, reports):
    with visiting(browser, reports / "run" / "index.html") as page:
        figure = live(page, "reward")
        page.click(f"{figure} .chart-menu > button")
        page.locator(f"{figure} .zoom-fields input").nth(0).fill("10")
        page.locator(f"{figure} .zoom-fields input").nth(1).fill("30")
        page.click(f'{figure} .zoom-fields button:text-is("Zoom")')
        in_url(page, "zoom=10-30")
        page.wait_for_selector(f'{figure} .zoom:has-text("Steps 10–30")')


def test_a_chart_says_what_a_click_opens(browser, reports):
    with visiting(browser, reports / "run" / "index.html") as page:
        figure = live(page, "reward")
        drawing = page.locator(f"{figure} .plot svg")
        assert drawing.evaluate("svg => getComputedStyle(svg).cursor") == "pointer"
        box = box_of(drawing)
        page.mouse.move(box["x"] + 300, box["y"] + 100)
        page.mouse.move(box["x"] + 301, box["y"] + 100)
        hint = page.locator(".tip .hint")
        hint.wait_for()
        step = hint.inner_text().removeprefix("Click opens step ")
        page.mouse.click(box["x"] + 301, box["y"] + 100)
        page.wait_for_url(f"**/steps/{step}.html")


def taken(page: Page, place: str, kind: str, mm: int, folder: Path) -> bytes:
    """Return the file of a picture that a menu offers."""
    page.locator(place).scroll_into_view_if_needed()
    page.click(f"{place} .chart-menu > button")
    page.select_option(f"{place} .picture-tools select", str(mm))
    with page.expect_download() as download:
        page.click(f'{place} .picture-tools button:text-is("{kind}")')
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path.read_bytes()


def texts_of(picture: bytes) -> str:
    root = ET.fromstring(picture)
    texts = ("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    return " ".join(texts).replace("\u00a0", " ")


def test_a_picture_has_its_title_its_caption_and_its_size_and_needs_nothing_else(
    browser, reports, tmp_path
):
    overview = reports / "run" / "index.html"
    with visiting(browser, overview, "#zoom=20-48", color_scheme="dark") as page:
        figure = live(page, "length")
        for mm in (85, 170):
            picture = taken(page, figure, "SVG", mm, tmp_path)
            root = ET.fromstring(picture)
            assert root.get("width") == f"{mm}mm"
            assert root.get("height") == f"{mm / 2:g}mm"
            texts = texts_of(picture)
            quantity = "mean over responses, characters, band ± std"
            assert texts.startswith(f"Response length, {quantity} ")
            assert texts.count(quantity) == 1
            assert "steps 20–48; run figures" in texts
            assert "n =" not in texts, (
                "the number of the run is not that of these steps"
            )
            outside = picture.replace(b"http://www.w3.org/2000/svg", b"")
            assert not re.search(
                rb"http|url\((?!#)|var\(|<image|<style|style=", outside
            )
            assert b"#14171a" not in picture, "light colours"
            assert re.findall(rb'font-family="([^"]*)"', picture)[0] == b"sans-serif"
            png = taken(page, figure, "PNG", mm, tmp_path)
            width, height = struct.unpack(">II", png[16:24])
            assert width == round(mm / 25.4 * 300)
            assert width / height == pytest.approx(2, rel=0.01)
            density = png[png.index(b"pHYs") + 4 :][:4]
            assert struct.unpack(">I", density)[0] == 11811  # pixels per metre: 300 dpi
        page.click(f"{figure} .plot .zoom")
        page.locator(f"{figure} .plot .zoom").wait_for(state="hidden")
        whole = taken(page, figure, "SVG", 170, tmp_path)
        assert f"n = {6 * STEPS} responses" in texts_of(whole)


def test_a_picture_says_what_its_bar_marks(browser, reports, tmp_path):
    with visiting(browser, reports / "run" / "index.html") as page:
        figure = live(page, "reward")
        texts = texts_of(taken(page, figure, "SVG", 170, tmp_path))
        assert f"; marked: reward collapse since step {FALLS_AT}" in texts
        page.goto(f"{page.url}#zoom=20-48")
        figure = live(page, "reward")
        texts = texts_of(taken(page, figure, "SVG", 170, tmp_path))
        assert "marked" not in texts, "the steps that are zoomed to have no bar"


def test_what_moved_is_one_picture_drawn_without_vega(browser, reports, tmp_path):
    with visiting(browser, reports / "run" / "index.html") as page:
        picture = taken(page, "section.moved", "SVG", 85, tmp_path)
        names = page.locator("figure.strip figcaption").all_inner_texts()
    texts = texts_of(picture)
    assert texts.startswith("What moved ") and "onset: " in texts
    for name in names:
        assert f"{name.removesuffix('?').strip()} " in texts
    assert "?" not in texts
    assert not re.search(rb"var\(|non-scaling|preserveAspectRatio|class=", picture)
    edges = {
        node.get("width")
        for node in ET.fromstring(picture).iter(f"{SVG}svg")
        if node.get("x")
    }
    inner = 425 - 2 * 8  # without its margins
    assert edges == {str(inner), str(inner - 52 - 16)}


def test_a_picture_and_its_caption_can_be_copied(browser, reports):
    overview = reports / "run" / "index.html"
    rights = ["clipboard-read", "clipboard-write"]
    with visiting(browser, overview, permissions=rights) as page:
        figure = live(page, "length")
        page.click(f"{figure} .chart-menu > button")
        page.click(f'{figure} .picture-tools button:text-is("Copy figure text")')
        page.wait_for_selector(f'{figure} button:text-is("Copied")')
        text = page.evaluate("navigator.clipboard.readText()")
        assert text.startswith(
            "Response length of the run figures (mean over responses"
        )
        assert f"steps 0–{STEPS - 1}; n = {6 * STEPS} responses" in text
        page.keyboard.press("Escape")
        figure = live(page, "reward")
        page.click(f"{figure} .chart-menu > button")
        page.click(f'{figure} .picture-tools button:text-is("Copy figure text")')
        page.wait_for_selector(f'{figure} button:text-is("Copied")')
        text = page.evaluate("navigator.clipboard.readText()")
        assert re.search(r"Vertical lines: .*onset: 40 \(39–40\)", text)
        page.click(f'{figure} .picture-tools button:text-is("Copy image")')
        page.wait_for_selector(f'{figure} .picture-tools .note:text-is("Copied")')
        kinds = "navigator.clipboard.read().then(items => items[0].types)"
        assert page.evaluate(kinds) == ["image/png"]


def test_a_picture_that_cannot_be_copied_says_what_to_do(browser, reports):
    with visiting(browser, reports / "run" / "index.html") as page:
        page.evaluate(
            "void (navigator.clipboard.write = () => Promise.reject(new Error()))"
        )
        figure = live(page, "reward")
        page.click(f"{figure} .chart-menu > button")
        page.click(f'{figure} .picture-tools button:text-is("Copy image")')
        page.wait_for_selector(f'{figure} .note:has-text("PNG downloads it")')


def pages_of(page: Page) -> int:
    """Return the number of pages that a browser prints."""
    printed = page.pdf(prefer_css_page_size=True)
    return len(re.findall(rb"/Type\s*/Page\b", printed))


def test_a_printed_overview_has_four_pages_at_most(browser, hacking, reports):
    for overview in (hacking / "index.html", reports / "run" / "index.html"):
        with visiting(browser, overview, color_scheme="dark") as page:
            live(page, "reward")
            assert 2 <= pages_of(page) <= 4
            # Afterwards the chart is live again.
            until(page, "document.querySelector('[data-chart=reward] .vega-embed')")


def test_printed_steps_and_prompts_are_short(browser, hacking):
    for name, most in (("steps/59.html", 3), ("prompts.html", 2)):
        with visiting(browser, hacking / name) as page:
            assert pages_of(page) <= most


def test_a_printed_step_has_whole_figures_and_nothing_to_press(browser, hacking):
    step = hacking / "steps" / "59.html"
    with visiting(browser, step, "#r=1&token=3") as page:
        page.wait_for_selector(".tip:not([hidden])")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 700, "height": 1000})
        assert page.locator(".tip:visible").count() == 0
        pressed = page.locator(".response button:not(.term):visible")
        assert pressed.all_inner_texts() == []
        cut = """all => all.filter(one => one.scrollWidth > one.clientWidth)
            .map(one => one.innerText)"""
        assert page.eval_on_selector_all(".figure :is(dt, .change)", cut) == []


def test_paper_has_the_light_drawing_in_its_width_and_ten_rows_of_a_long_table(
    browser, hacking
):
    paper = {"width": 688, "height": 1000}
    overview = hacking / "index.html"
    with visiting(browser, overview, color_scheme="dark", viewport=paper) as page:
        figure = live(page, "reward")
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawing = page.locator(f"{figure} .plot > svg.fluid")
        assert box_of(drawing)["width"] == pytest.approx(688, abs=2)
        ink = "svg => getComputedStyle(svg.querySelector('text')).fill"
        assert drawing.evaluate(ink) == "rgb(89, 99, 110)"  # muted, in the light theme
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator(f"{figure} .plot .vega-embed").count() == 1
        rows = page.locator('[data-table="steps"] tbody tr:visible')
        steps = [row.get_attribute("data-n") for row in rows.all()]
        assert len(steps) == 10
        assert (steps[0], steps[-1]) == ("0", "59")
        for control in (".chart-menu", ".list-tools", "nav", ".chart-tools"):
            assert not page.locator(control).first.is_visible()


def test_a_zoomed_chart_is_printed_as_it_is_in_light_colours(browser, hacking):
    overview = hacking / "index.html"
    with visiting(browser, overview, "#zoom=20-48", color_scheme="dark") as page:
        figure = live(page, "reward")
        page.emulate_media(media="print", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        drawing = f"{figure} .plot .vega-embed svg"
        until(
            page,
            "s => document.querySelector(s).getAttribute('width') === '703'",
            drawing,
        )
        colours = page.locator(drawing).evaluate(
            "svg => [...svg.querySelectorAll('text')].map(text => text.getAttribute('fill'))"
        )
        assert "#59636e" in colours and "#9aa4af" not in colours
        assert steps_below(page, figure)[0] == 20
