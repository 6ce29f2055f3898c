"""Live charts: zoom, crosshair, smoothing, logarithms, downloads, any column against any."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import rest, until, visiting

pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def report(real_report: Callable[[str], Path]) -> Path:
    return real_report("ppo_reward_hacking")


def live(page: Page, name: str) -> str:
    """Waits until a chart is live; returns its selector."""
    figure = f'figure[data-chart="{name}"]'
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f'{figure}[data-live="true"]')
    return figure


def test_a_drag_zooms_all_charts_and_a_double_click_shows_the_run_again(
    browser: Browser, report: Path
) -> None:
    with visiting(browser, report / "index.html") as page:
        figure = live(page, "kl")
        address, back = page.url, page.locator(".chart-tools button")
        box = page.locator(f"{figure} .plot").bounding_box()
        assert box is not None
        x, y = box["x"], box["y"] + 100
        page.mouse.move(x + 200, y)
        until(page, "document.querySelector('.tip').innerText.includes('lower band')")
        page.mouse.down()
        page.mouse.move(x + 400, y, steps=8)
        page.mouse.up()
        back.filter(has_text="show all").wait_for()
        rest(page, 600)  # longer than a click waits before it opens a step
        box = page.locator(f"{figure} .plot").bounding_box()
        assert box is not None
        page.mouse.dblclick(box["x"] + 300, box["y"] + 100)
        back.wait_for(state="hidden")
        rest(page, 600)
        assert page.url == address


@pytest.mark.parametrize("kind", ["PNG", "SVG", "CSV", "Vega-Lite"])
def test_a_chart_can_be_taken_along_in_two_clicks(
    browser: Browser, report: Path, tmp_path: Path, kind: str
) -> None:
    with visiting(browser, report / "index.html") as page:
        figure = live(page, "reward")
        page.click(f"{figure} .chart-menu > button")
        with page.expect_download() as download:
            page.click(f'{figure} .chart-menu button:text-is("{kind}")')
        taken = tmp_path / download.value.suggested_filename
        download.value.save_as(taken)
    exported = json.loads((report / "data" / "charts" / "reward.vl.json").read_bytes())
    data = taken.read_bytes()
    match kind:
        case "PNG":
            assert data.startswith(b"\x89PNG")
        case "SVG":
            assert data.startswith(b"<svg")
        case "CSV":
            assert len(data.splitlines()) == len(exported["data"]["values"]) + 1
        case "Vega-Lite":
            found = json.loads(data)
            assert found["layer"] == exported["layer"]
            assert found["config"] == exported["config"]


def test_a_logarithmic_axis_by_choice(browser: Browser, report: Path) -> None:
    with visiting(browser, report / "index.html") as page:
        figure = live(page, "length")
        page.click(f"{figure} .chart-menu > button")
        page.check(f"{figure} .chart-menu input")
        page.wait_for_selector(f'{figure} .plot text:has-text("logarithmic")')


def test_any_column_of_a_steps_responses_against_any_other(browser: Browser, report: Path) -> None:
    step = next((report / "steps").glob("*.html"))
    with visiting(browser, step) as page:
        page.click(".explore summary")
        page.wait_for_selector('.explore figure[data-live="true"]')
        assert page.locator(".explore figcaption > span").inner_text() == "Reward against KL"
        page.locator(".explore select").first.select_option(label="Length (tokens)")
        page.wait_for_selector('.explore figcaption > span:has-text("Length against KL")')
        dots = page.locator(".explore .plot .mark-symbol path").count()
        assert dots == page.locator("section.responses tbody tr[data-n]").count()
