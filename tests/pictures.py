"""Makes the pictures of the READMEs and of the gallery, light and dark.

``python -m tests.pictures REPORT LANGUAGE`` makes that of a README, ``python -m tests.pictures
REPORTS`` those of the sample reports in a folder.
"""

import base64
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Locator, Page, ViewportSize, sync_playwright

from tests.browser import program

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH = 1400
SCALE = 1.5
PANEL = 2350  # of a window in which the panel of a response is as wide as WIDTH
RESPONSE = "steps/59.html#r=12"  # one of those that the verdict is about
BELOW = {
    "en": "Step 59, response 12: how much likelier each token is than under the reference",
    "zh": "第 59 步，回复 12：每个词元的概率与参考模型相比高出多少",
}
MARK = {"en": "", "zh": "zh-"}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
# Picture of the gallery -> page of a sample report, in the folder of all of them
GALLERY = {
    "healthy": "healthy/index.html",
    "reward-hacking": "reward_hacking/index.html",
    "chinese": "reward_hacking_zh/index.html",
    "comparison": "compare.html",
}
_GALLERY_SIZE = (1200, 800)


def picture(browser: Browser, report: Path, theme: Theme, below_it: str) -> bytes:
    """Return, as WebP, the overview down to its first chart, and a response's tokens below."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": 1400},
        color_scheme=theme,
        device_scale_factor=SCALE,
    )
    page = context.new_page()
    _open(page, f"{report.resolve().as_uri()}/index.html")
    above = _shot(
        page, page.locator("header.site"), page.locator(".charts .plot").first
    )
    colour, ground, font = page.evaluate(
        "() => (s => [s.color, s.backgroundColor, s.fontFamily])(getComputedStyle(document.body))"
    )
    page.set_viewport_size({"width": PANEL, "height": 1400})
    _open(page, f"{report.resolve().as_uri()}/{RESPONSE}")
    below = _shot(
        page, page.locator(".token-pair .legend"), page.locator(".token-text")
    )
    page.set_viewport_size({"width": WIDTH, "height": 1400})
    page.goto("about:blank")
    page.set_content(
        f"""<body style='margin: 0; color: {colour}; background: {ground}; font: 15px {font}'>
        <main style="padding-bottom: 24px"><img style="width: 100%" src="{above}">
        <p style="margin: 12px 24px; font-weight: 600">{below_it}</p>
        <img style="margin: 0 24px; width: calc(100% - 48px)" src="{below}"></main>"""
    )
    return _taken(page, page.locator("main"), page.locator("main"), "webp")


def _open(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_timeout(1000)  # charts are drawn anew


def _shot(page: Page, first: Locator, last: Locator) -> str:
    return (
        "data:image/png;base64,"
        + base64.b64encode(_taken(page, first, last, "png")).decode()
    )


def _taken(page: Page, first: Locator, last: Locator, form: str) -> bytes:
    """Return what lies between two elements, as wide as the wider."""
    top = first.bounding_box()
    bottom = last.bounding_box()
    assert top
    assert bottom
    clip = {
        "x": min(top["x"], bottom["x"]),
        "y": top["y"] + page.evaluate("scrollY"),
        "width": max(top["width"], bottom["width"]),
        "height": bottom["y"] + bottom["height"] - top["y"],
        "scale": SCALE,
    }
    asked = {"format": form, "quality": 90, "clip": clip}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)
    return base64.b64decode(taken["data"])


def first_screen(browser: Browser, page_of_report: Path, theme: Theme) -> bytes:
    """Return, as WebP, what a window shows first of a page."""
    width, height = _GALLERY_SIZE
    size: ViewportSize = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=theme)
    page = context.new_page()
    _open(page, page_of_report.resolve().as_uri())
    clip = {"x": 0, "y": 0, **size, "scale": 1}
    asked = {"format": "webp", "quality": 80, "clip": clip}
    taken = context.new_cdp_session(page).send("Page.captureScreenshot", asked)
    context.close()
    return base64.b64decode(taken["data"])


def gallery(browser: Browser, reports: Path) -> None:
    """Write the pictures of the sample reports in a folder, once for each theme."""
    for name, page in GALLERY.items():
        for theme in THEMES:
            made = first_screen(browser, reports / page, theme)
            (FOLDER / f"sample-{name}-{theme}.webp").write_bytes(made)


def of_readme(browser: Browser, report: Path, language: str) -> None:
    """Write the picture of a README, once for each theme."""
    for theme in THEMES:
        made = picture(browser, report, theme, BELOW[language])
        (FOLDER / f"overview-{MARK[language]}{theme}.webp").write_bytes(made)


def main(reports: Path, *languages: str) -> None:
    """Write the picture of the README in a language, or without one those of the gallery."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=["--no-sandbox"]
        )
        for language in languages:
            of_readme(browser, reports, language)
        if not languages:
            gallery(browser, reports)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
