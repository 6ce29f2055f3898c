"""A browser for the tests: pages opened from ``file://`` that must stay silent and offline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Where Chromium is; None lets Playwright use its own, if ``playwright install`` got one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        yield running
        running.close()


@contextmanager
def visiting(browser: Browser, page: Path, address: str = "", **options: Any) -> Iterator[Page]:
    """Opens a page; leaving fails if it wrote to the console or asked for anything off disk."""
    size = {"width": 1400, "height": 900}
    context = browser.new_context(**{"viewport": size, **options})
    opened = context.new_page()
    said, asked = watch(context, opened)
    opened.goto(page.as_uri() + address)
    if options.get("java_script_enabled", True):
        opened.wait_for_selector("html[data-ready]", state="attached")
    try:
        yield opened
        assert not said, said
        assert not asked, asked
    finally:
        context.close()


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe finds serious or critical in a page: the rule, and the first element against it.

    A dark page differs from the light one in its colours alone, and so it is asked for these.
    """
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"):
        options["runOnly"] = ["color-contrast", "link-in-text-block"]
    return [
        (violation["id"], violation["nodes"][0]["html"][:200])
        for violation in Axe().run(page, options=options).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def watch(context: BrowserContext, page: Page) -> tuple[list[str], list[str]]:
    """Lists that fill with what a page says on the console, and with requests off disk."""
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    context.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else asked.append(request.url)
        ),
    )
    return said, asked


def rest(page: Page, milliseconds: int) -> None:
    """Waits by the page's own clock: what it had set for then has happened, however slow it is."""
    page.evaluate("ms => new Promise(done => setTimeout(done, ms))", milliseconds)


def copy(page: Page, button: str) -> None:
    """Presses a button that copies, and waits until it says so: it does for a moment only."""
    page.eval_on_selector(
        button,
        """button => { window.said = new Promise(done => {
            new MutationObserver(() => done(button.textContent)).observe(button, {childList: true})
        }) }""",
    )
    page.click(button)
    assert page.evaluate("said") == "Copied"


def numbers(page: Page, key: str, table: str = ".responses") -> list[float]:
    """Exact values of the rows now listed, in order."""
    column = page.eval_on_selector(f'{table} th[data-key="{key}"]', "th => th.cellIndex")
    values: list[float] = page.eval_on_selector_all(
        f"{table} tbody tr[data-n]",
        "(rows, at) => rows.map(row => Number(row.cells[at].title || row.cells[at].dataset.v))",
        column,
    )
    return values


def listed(page: Page, table: str = ".responses") -> list[str]:
    """The n of the rows now listed, in order."""
    names: list[str] = page.eval_on_selector_all(
        f"{table} tbody tr[data-n]", "rows => rows.map(row => row.dataset.n)"
    )
    return names
