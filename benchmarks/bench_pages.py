"""Times what a reader waits for in a browser; prints medians of five.

``python -m benchmarks.bench_pages`` from the checkout, with the tests' requirements.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.pages import Made, write_list, write_step

RUNS = 5
AFTER_PAINT = (
    "requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)))"
)

READY = """() => new Promise(done => {
  requestAnimationFrame(() => setTimeout(() => done(performance.now())));
})"""
SORT = f"""() => new Promise(done => {{
  const start = performance.now();
  document.querySelector('th[data-key="kl_k1"] button').click();
  {AFTER_PAINT};
}})"""
OPEN = f"""() => new Promise(done => {{
  const start = performance.now();
  document.querySelector('tr[data-n="0"] a').click();
  const look = () => document.querySelector('.token-text .t')
    ? {AFTER_PAINT} : requestAnimationFrame(look);
  look();
}})"""
SEARCH = f"""() => new Promise(done => {{
  const search = document.querySelector('input[type=search]');
  const type = text => {{
    search.value = text;
    search.dispatchEvent(new Event('input'));
  }};
  type('a');
  const start = performance.now();
  type('an');
  {AFTER_PAINT};
}})"""
RECOLOUR = f"""() => new Promise(done => {{
  const select = document.querySelector('[name="metric"]');
  select.value = 'value';
  const start = performance.now();
  select.dispatchEvent(new Event('change'));
  {AFTER_PAINT};
}})"""


def main() -> None:
    """Print each median and its limit, in milliseconds."""
    folder = Path(tempfile.mkdtemp())
    try:
        many = write_step(
            folder / "many",
            Made(responses=1024, columns=20, tokens=300, with_tokens=128),
        )
        long = write_step(
            folder / "long", Made(responses=4, tokens=32_000, with_tokens=2)
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            ready = median(
                browser,
                many,
                lambda page: page.evaluate(READY),
            )
            report("step of 1,024 responses × 20 columns, interactive", ready, 600)
            report(
                "sorted", median(browser, many, lambda page: page.evaluate(SORT)), 100
            )
            report(
                "32,000 tokens, opened",
                median(browser, long, lambda page: page.evaluate(OPEN)),
                500,
            )
            run = write_list(folder / "run", 128, 128)
            report(
                "list of 16,384 rows, sorted", median(browser, run, listed(SORT)), 200
            )
            report("searched, a key", median(browser, run, listed(SEARCH)), 100)
            report("recoloured", median(browser, long, recolour), 150)
            browser.close()
    finally:
        shutil.rmtree(folder)


def listed(measure: str) -> Callable[[Page], float]:
    """Return a function that waits for the list of the run, then evaluates ``measure``."""

    def measured(page: Page) -> float:
        page.wait_for_selector(".list-tools .count")
        return float(page.evaluate(measure))

    return measured


def recolour(page: Page) -> float:
    """Open a response, then time the change of the token metric."""
    page.evaluate(OPEN)
    return float(page.evaluate(RECOLOUR))


def median(browser: Browser, path: Path, measure: Callable[[Page], float]) -> float:
    """Return the median of RUNS measurements, each on a newly opened page."""
    times = []
    for _ in range(RUNS):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        times.append(measure(page))
        page.close()
    return statistics.median(times)


def report(what: str, milliseconds: float, bar: float) -> None:
    """Print a measurement and its limit."""
    print(f"{what:52} {milliseconds:6.0f} ms   (at most {bar:.0f})")


if __name__ == "__main__":
    main()
