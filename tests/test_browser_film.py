"""The film strip and the panel of a prompt in the browser, in a folder and in one file."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser, Page

import rlreport
from rlreport.draw.film_strip import film_strip, picture
from rlreport.draw.film_text import excerpt
from rlreport.draw.theme import tokens as colours
from rlreport.pages.html import canonical_json
from rlreport.pages.scripts import join_scripts
from tests.browser import in_url, serious, until, visiting
from tests.film_cases import WIDTHS, strip, tokens_of
from tests.reading import row, tokens, write

STATIC = Path(__file__).resolve().parents[1] / "static" / "js"
ENTRY = """import { excerpt } from "./prompts/film-text.js";
import { filmStrip, markup, picture } from "./prompts/film-strip.js";
globalThis.drawn = (data, width, colours) =>
  [markup(filmStrip(data, width)), picture(data, width, colours)];
globalThis.excerpt = excerpt;
"""
QUESTION = "What is 3 + 4?\nAnswer in words. " + "Take care. " * 120


@pytest.fixture(scope="module")
def scripts(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page with the functions of ENTRY."""
    folder = tmp_path_factory.mktemp("scripts") / "js"
    shutil.copytree(STATIC, folder)
    (folder / "entry.js").write_text(ENTRY, "utf-8")
    page = browser.new_page()
    page.evaluate(join_scripts(folder, "entry.js"))
    return page


def test_python_and_the_browser_draw_the_same_strip(scripts: Page) -> None:
    light = colours("light")
    for seed in range(60):
        # Lone surrogates do not reach a page, see ``canonical_json``.
        data = json.loads(canonical_json(strip(seed)))
        width = WIDTHS[seed % len(WIDTHS)]
        drawn = scripts.evaluate(
            "([data, width, colours]) => drawn(data, width, colours)",
            [data, width, light],
        )
        assert drawn[0] == film_strip(data, width).markup(), seed
        assert drawn[1] == picture(data, width), seed


def test_python_and_the_browser_cut_answers_alike(scripts: Page) -> None:
    for seed in range(80):
        texts, bins, cited = json.loads(canonical_json(tokens_of(seed)))
        part = scripts.evaluate(
            "([texts, bins, cited]) => excerpt(texts, bins, cited)",
            [texts, bins, cited],
        )
        expected = excerpt(texts, bins, cited)._asdict()
        assert part == json.loads(json.dumps(expected)), seed


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 prompts, seven times each but the last one, as folder and as one file."""
    folder = tmp_path_factory.mktemp("film")
    rows = []
    for step in range(7):
        for prompt in range(39):
            question = QUESTION if prompt == 3 else f"Question {prompt}?"
            strings = [f"Ġstep{step}", "Ġsays", f"Ġ{prompt}", "ðŁİ", "ī"]
            made = tokens(
                *strings,
                step=step,
                prompt=question,
                response=f" step{step} says {prompt}🎉",
                reward=float(prompt % 5 + step),
            )
            rows.append(made)
    for n in range(5):
        rows.append(row(6, prompt="Asked once", response=f"Answer {n}", reward=n))
    log = write(folder / "log" / "rank_0.jsonl", rows)
    for out in ("report", "report.html"):
        rlreport.build(log, folder / out, workers=1, title="A run")
    return folder


@pytest.fixture(params=["folder", "one file"])
def prompts(
    request: pytest.FixtureRequest, reports: Path
) -> tuple[Path, Callable[[str], str]]:
    """The page of prompts, and the address in it of a state."""
    if request.param == "folder":
        return reports / "report" / "prompts.html", lambda state: f"#{state}"
    return reports / "report.html", lambda state: f"#/prompts?{state}"


def opened(page: Page, prompt: int) -> None:
    """Wait until the panel of a prompt is filled."""
    page.wait_for_selector(f'.response.prompt h2:text-is("Prompt {prompt}")')
    page.wait_for_selector(".prompt-body:not([aria-busy]) .answers")


def test_prompt_opens_by_click_and_key_and_closes(
    browser: Browser, prompts: tuple[Path, Callable[[str], str]]
) -> None:
    path, address = prompts
    with visiting(browser, path, address("prompts.sort=prompt")) as page:
        page.click('.prompt-table tr[data-n="5"]')
        opened(page, 5)
        in_url(page, "p=5")
        in_url(page, "prompts.sort=prompt")  # the order of the list stays
        before = page.eval_on_selector_all(
            ".prompt-table tbody tr", "rows => rows.map(row => row.dataset.n)"
        )
        page.keyboard.press("j")
        following = before[before.index("5") + 1]
        opened(page, int(following))
        in_url(page, f"p={following}")
        page.keyboard.press("k")
        opened(page, 5)
        page.keyboard.press("Escape")
        until(page, "document.querySelector('.response.prompt').hidden")
        assert "p=" not in page.evaluate("location.hash.replace('prompts.', '')")
        page.go_back()
        opened(page, 5)


def test_panel_shows_prompt_strip_and_answers_that_lead_to_responses(
    browser: Browser, prompts: tuple[Path, Callable[[str], str]]
) -> None:
    path, address = prompts
    with visiting(browser, path, address("p=3")) as page:
        opened(page, 3)
        assert "Answer in words." in page.inner_text('[data-text="prompt"] .prose')
        page.click("button.whole")
        rows = page.locator(".film-strip a")
        assert rows.count() == 6
        label = rows.first.get_attribute("aria-label")
        assert label == "step 0, reward 3.00: step0 says 3🎉"
        # Tokens are coloured, and those of another step are underlined.
        assert page.locator('.film-strip path[fill^="var(--div-"]').count() > 11
        assert page.locator(".answers tbody tr").count() == 7
        assert (
            page.inner_text(".answers tbody tr:first-child td.text") == "step0 says 3🎉"
        )
        assert not serious(page)
        rows.nth(5).click()
        page.wait_for_selector(".page.step .response:not([hidden])")
        assert "step6 says 3🎉" in page.inner_text(".page.step .response")


def test_prompt_of_one_step_shows_worst_median_and_best(
    browser: Browser, prompts: tuple[Path, Callable[[str], str]]
) -> None:
    path, address = prompts
    with visiting(browser, path, address("p=39")) as page:
        opened(page, 39)
        labels = [
            link.get_attribute("aria-label") or ""
            for link in page.locator(".film-strip a").all()
        ]
        names = [label.split(": ")[0].split(", ")[2] for label in labels]
        assert names == ["worst", "median", "best"]
        assert "at one step only" in page.inner_text(".prompt-body")


def test_unknown_prompt_is_said_to_be_unknown(
    browser: Browser, prompts: tuple[Path, Callable[[str], str]]
) -> None:
    path, address = prompts
    with visiting(browser, path, address("p=4711")) as page:
        page.wait_for_selector(".prompt-body .note")
        assert "no response" in page.inner_text(".prompt-body")


@pytest.mark.parametrize("width", [390, 800])
def test_strip_is_drawn_for_the_width_of_the_window(
    browser: Browser, reports: Path, width: int
) -> None:
    page_size = {"width": width, "height": 900}
    path = reports / "report" / "index.html"
    with visiting(browser, path, viewport=page_size) as page:
        until(page, "document.querySelector('.film-strip svg').clientWidth < 800")
        fits = "box => box.scrollWidth <= box.clientWidth"
        assert page.eval_on_selector(".film-strip", fits)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_picture_is_exported_in_light_colours_with_its_title(
    browser: Browser, reports: Path
) -> None:
    path = reports / "report" / "prompts.html"
    allowed = ["clipboard-read", "clipboard-write"]
    with visiting(
        browser, path, "#p=3", color_scheme="dark", permissions=allowed
    ) as page:
        opened(page, 3)
        page.click('.film-tools button:text-is("Copy image")')
        page.wait_for_selector('.film-tools button:text-is("Copied")')
        with page.expect_download() as svg:
            page.click('.film-tools button:text-is("SVG")')
        assert svg.value.suggested_filename == "prompt-3-170mm.svg"
        text = Path(svg.value.path()).read_text("utf-8")
        ET.XML(text)
        assert "What is 3 + 4? Answer in words." in text
        assert ">Run A run, steps 0–6." in text
        assert "var(" not in text
        assert re.search(r'fill="#ffffff"', text)
        with page.expect_download() as png:
            page.click('.film-tools button:text-is("PNG")')
        assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("scripts_run", [True, False])
def test_strip_fits_the_paper(
    browser: Browser, reports: Path, scripts_run: bool
) -> None:
    path = reports / "report" / "index.html"
    with visiting(browser, path, java_script_enabled=scripts_run) as page:
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 688, "height": 900})
        edges = page.evaluate(
            "Array.from(document.querySelectorAll('.film-strip, .film-strip > svg'),"
            " node => node.getBoundingClientRect().right)"
        )
        assert edges[1] <= edges[0] + 1


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_page_that_opens_with_a_prompt_shows_it(
    browser: Browser, prompts: tuple[Path, Callable[[str], str]], width: int
) -> None:
    path, address = prompts
    size = {"width": width, "height": 900}
    with visiting(browser, path, address("p=3"), viewport=size) as page:
        opened(page, 3)
        until(
            page,
            "(top => top >= 0 && top < 100)"
            "(document.querySelector('.response.prompt h2').getBoundingClientRect().top)",
        )


def test_without_scripts_the_overview_has_the_strip(
    browser: Browser, reports: Path
) -> None:
    path = reports / "report" / "index.html"
    with visiting(browser, path, java_script_enabled=False) as page:
        assert page.locator(".film-strip a").count() == 6
        assert page.locator(".film-strip text").first.is_visible()
