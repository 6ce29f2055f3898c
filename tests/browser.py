"""A browser for the tests: pages opened from ``file://`` that must stay silent and offline."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    FloatRect,
    Locator,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Where Chromium is; None lets Playwright use its own, if ``playwright install`` got one."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process; it limits calls of the history as users' do."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program(),
            args=["--no-sandbox"],
            ignore_default_args=["--disable-ipc-flooding-protection"],
        )
        yield running
        running.close()


class Tab:
    """A tab of a browser: its page, what that says and asks for, and how to empty it."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        context = browser.new_context(**options)
        self.page = context.new_page()
        self.said, self.asked = watch(context, self.page)
        self._protocol = context.new_cdp_session(self.page)

    def open(
        self,
        address: str,
        *,
        viewport: ViewportSize | None = None,
        color_scheme: Literal["light", "dark"] = "light",
        reduced_motion: Literal["reduce", "no-preference"] = "no-preference",
    ) -> None:
        """Opens an address as in a tab just made."""
        size: ViewportSize = {"width": 1400, "height": 900}
        self.page.set_viewport_size(viewport or size)
        self.page.emulate_media(
            media="null", color_scheme=color_scheme, reduced_motion=reduced_motion
        )
        self.said.clear()
        self.asked.clear()
        self.page.goto(address)
        self._forget_history()

    def _forget_history(self, patience: float = 10) -> None:
        """Empties the history, also where Chromium still moves the page between processes."""
        end = time.monotonic() + patience
        while True:
            try:
                self._protocol.send("Page.resetNavigationHistory")
            except Error:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
                self._protocol = self.page.context.new_cdp_session(self.page)
            else:
                return

    def empty(self) -> bool:
        """Forgets everything of its pages; False where it cannot."""
        if self.page.is_closed() or len(self.page.context.pages) > 1:
            return False
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        return True


# A new tab starts a process of Chromium, which costs more than most pages do.
_idle: dict[tuple[Browser, str], Tab] = {}


@contextmanager
def visiting(
    browser: Browser,
    page: Path,
    address: str = "",
    *,
    java_script_enabled: bool = True,
    permissions: Sequence[str] = (),
    **looks: Any,
) -> Iterator[Page]:
    """Opens a page; leaving fails if it wrote to the console or asked for anything off disk."""
    options = {
        "java_script_enabled": java_script_enabled,
        "permissions": list(permissions),
    }
    kind = (browser, str(options))
    tab = _idle.pop(kind, None) or Tab(browser, **options)
    left = False
    try:
        tab.open(page.as_uri() + address, **looks)
        if java_script_enabled:
            tab.page.wait_for_selector("html[data-ready]", state="attached")
        yield tab.page
        assert not tab.said, tab.said
        assert not tab.asked, tab.asked
        left = tab.empty()
    finally:
        if left:
            _idle[kind] = tab
        else:
            tab.page.context.close()


def until(
    page: Page, expression: str, arg: Any = None, timeout: float = 10_000
) -> None:
    """Wait until JavaScript is true.

    Playwright's own wait is refused by the content policy of a page when it asks a second time.
    """
    end = time.monotonic() + timeout / 1000
    while True:
        try:
            if page.evaluate(expression, arg):
                return
        except Error:  # the page has just been left for another
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def in_url(page: Page, part: str) -> None:
    """Waits until the URL's hash has a part: it is written a few times a second at most."""
    until(page, "part => location.hash.includes(part)", arg=part, timeout=2000)


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe finds serious or critical in a page: the rule, and the first element against it.

    A dark page differs from the light one in its colours alone, and so it is asked for these.
    """
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"):
        options["runOnly"] = ["color-contrast", "link-in-text-block"]
    return [
        (violation["id"], violation["nodes"][0]["html"][:200])
        for violation in Axe().run(page, None, options).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def watch(context: BrowserContext, page: Page) -> tuple[list[str], list[str]]:
    """Lists that fill with what a page says on the console, and with requests off disk."""
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    def note_request(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            asked.append(request.url)

    context.on("request", note_request)
    return said, asked


def box_of(element: Locator) -> FloatRect:
    """Where an element is in the window; it must be there."""
    box = element.bounding_box()
    assert box is not None
    return box


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
    column = page.eval_on_selector(
        f'{table} th[data-key="{key}"]', "th => th.cellIndex"
    )
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
