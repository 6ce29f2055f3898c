"""Times an index of made-up reports: to make, to open, to filter and to sort.

``python -m benchmarks.bench_index REPORT FOLDER [COUNT]`` from the checkout: the ``report.json`` of
the report REPORT, varied COUNT times (500), is written to FOLDER, and the index of all of them.
"""

from __future__ import annotations

import copy
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import rlreport
from tests.browser import program

LEVELS = ("critical", "warning", "unclear", "unjudged", "healthy")
RUNS = 5  # of each time, of which the best is printed


def varied(sample: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a report's data with another name, verdict, configuration and other values."""
    random = np.random.default_rng(number)
    about = copy.deepcopy(sample)
    about["run"] = f"qwen2.5-7b_grpo_lr{number % 7}_run-{number}"
    about["verdict"]["level"] = LEVELS[int(random.integers(len(LEVELS)))]
    for curve in about["curves"]:
        factor = float(random.uniform(0.3, 1.2))
        for key in ("first", "lowest", "highest", "last"):
            curve[key] *= factor
        noise = random.normal(1, 0.1, len(curve["values"]))
        curve["values"] = (np.array(curve["values"]) * factor * noise).tolist()
    entries = {f"optim.group_{k % 5}.setting_{k}": number % (k + 2) for k in range(40)}
    about["card"]["entries"] = {**entries, "output_dir": f"runs/{number}"}
    return about


def write_reports(sample: dict[str, Any], folder: Path, count: int) -> None:
    for number in range(count):
        path = folder / f"run-{number}" / "data" / "report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(varied(sample, number)), encoding="utf-8")


# Milliseconds from an action until the next frame is painted
_TIMED = """async ([selector, value]) => {
  const node = document.querySelector(selector);
  const start = performance.now();
  if (value === null) node.click();
  else {
    node.value = value;
    node.dispatchEvent(new Event(node.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
  }
  document.body.offsetHeight;
  return performance.now() - start;
}"""


def milliseconds(page: Page, selector: str, *values: str | None) -> float:
    """Return the longest time of actions in turn: clicks, or values that are chosen or typed."""
    actions = [(selector, value) for value in values] * RUNS
    return max(page.evaluate(_TIMED, [*action]) for action in actions[len(values) :])


def measure(path: Path) -> dict[str, float]:
    """Return milliseconds of what readers do, and of opening the page."""
    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        opened = []
        for _ in range(RUNS):
            start = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            opened.append(1000 * (time.perf_counter() - start))
        found["open"] = min(opened)
        page.wait_for_selector(".metric select")
        found["filter by verdict"] = milliseconds(page, ".levels button", None)
        last = '.runs-table th[data-key="last"] button'
        found["sort"] = milliseconds(page, last, None)
        search = '.runs-table input[type="search"]'
        found["search"] = milliseconds(page, search, "run-4", "run-49", "")
        found["other metric"] = milliseconds(page, ".metric select", "length", "reward")
        browser.close()
    return found


def main() -> None:
    """Print seconds, memory and size of the index, and how long readers wait."""
    report, folder = map(Path, sys.argv[1:3])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    sample = json.loads((report / "data/report.json").read_text("utf-8"))
    write_reports(sample, folder, count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    made = rlreport.index([folder], folder / "index.html")
    seconds = time.process_time() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    size = made.out.stat().st_size / 1e6
    print(
        f"{made.reports} reports: {seconds:.1f} s, {memory:.0f} MB, page {size:.2f} MB"
    )
    for name, time_ in measure(made.out).items():
        print(f"{name}: {time_:.0f} ms")


if __name__ == "__main__":
    main()
