"""Measures long runs: CPU, memory and pages of many steps and of many files.

    python -m benchmarks.long_runs FOLDER                everything
    python -m benchmarks.long_runs FOLDER metrics        cases whose name begins with a word

from the checkout. Logs are written to FOLDER once, reports to FOLDER/reports. Printed are CPU
seconds of all processes, the largest sum of their memory (PSS) at a time, and the size of the
overview; of pages, CPU seconds of the browser until it rests after opening and after an action.
CPU is measured, as seconds of the clock depend on what else a machine does. An index of many
reports: ``benchmarks/bench_index.py``.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks import long_logs
from tests.browser import program

Write = Callable[[Path], None]


def _metrics(steps: int, suffix: str = ".jsonl", seed: int = 0) -> Write:
    return lambda folder: long_logs.write_metrics(
        folder / f"metrics{suffix}", steps, seed
    )


def _responses(steps: int, each: int, seed: int = 0) -> Write:
    return lambda folder: long_logs.write_responses(
        folder / "rollouts.jsonl", steps, each, seed
    )


def _step_files(steps: int) -> Write:
    return lambda folder: long_logs.write_step_files(folder / "rollouts", steps, 8)


def _among_others(folder: Path) -> None:
    long_logs.write_step_files(folder / "rollouts", 100, 8)
    long_logs.write_other_files(folder, 2_900)


# Name -> what writes its logs, and those of another run to compare it with
CASES: dict[str, tuple[Write, Write | None]] = {
    "metrics-1000": (_metrics(1_000), None),
    "metrics-10000": (_metrics(10_000), _metrics(10_000, seed=1)),
    "metrics-20000": (_metrics(20_000), None),
    "metrics-100000": (_metrics(100_000), _metrics(100_000, seed=1)),
    "metrics-csv-100000": (_metrics(100_000, ".csv"), None),
    "rollouts-1000x8": (_responses(1_000, 8), None),
    "rollouts-5000x8": (_responses(5_000, 8), None),
    "rollouts-10000x8": (_responses(10_000, 8), _responses(10_000, 8, seed=1)),
    "rollouts-100000x1": (_responses(100_000, 1), _responses(100_000, 1, seed=1)),
    "files-3000": (_step_files(3_000), None),
    "files-1": (_responses(3_000, 8), None),
    "files-among-2900-others": (_among_others, None),
    "files-1-alone": (_responses(100, 8), None),
}
# Pages of a report that are opened
PAGES = ("index.html", "prompts.html", "responses.html", "data.html", "steps/0.html")


class Cost(NamedTuple):
    """What a command takes."""

    cpu: float  # seconds, of all its processes
    memory: float  # MB, the largest sum of PSS over its processes


def cost_of(*arguments: str) -> Cost:
    """Return what ``rlreport ARGUMENTS`` takes; end the program if it fails."""
    before = _cpu_of_children()
    process = subprocess.Popen(
        [sys.executable, "-m", "rlreport", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, _memory_of(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(
            f"rlreport {' '.join(arguments)}: exit status {process.returncode}"
        )
    return Cost(_cpu_of_children() - before, peak / 1e6)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory_of(pid: int) -> int:
    """Return the bytes of a process and of those that it started, shared ones once."""
    total = 0
    try:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            total += process.memory_full_info().pss
    except psutil.Error:  # one has just ended
        return 0
    return total


def measure_commands(name: str, folder: Path, reports: Path) -> None:
    """Print what commands take for the logs of a case."""
    first, second = CASES[name]
    logs = _logs(folder / name, first)
    out = reports / name
    page = reports / f"{name}.html"
    costs = {
        "build": cost_of("build", str(logs), "-o", str(out), "-q"),
        "build .html": cost_of("build", str(logs), "-o", str(page), "-q"),
        "check": cost_of("check", str(logs)),
        "inspect": cost_of("inspect", str(logs), "-q"),
    }
    if second is not None:
        other = _logs(folder / f"{name}-other", second)
        compared = reports / f"{name}-compared"
        costs["compare"] = cost_of(
            "compare", str(logs), str(other), "-o", str(compared), "-q"
        )
    overview = (out / "index.html").stat().st_size / 1e6
    for command, cost in costs.items():
        size = f"{overview:9.2f}" if command == "build" else ""
        line = f"{name:24} {command:12} {cost.cpu:9.2f} {cost.memory:9.0f} {size}"
        print(line.rstrip(), flush=True)


def _logs(folder: Path, write: Write) -> Path:
    """Return a folder with logs, which are written if it is not there."""
    if not folder.exists():
        write(folder)
    return folder


# What readers do on a page: name -> selector of an element, and the script that acts on it
_ACTIONS = {
    "sort": ("th[data-key]:nth-child(3) button", "node => node.click()"),
    "search": (
        "input[type=search]",
        """node => {
            node.value = "19";
            node.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
    ),
    "pick a step": (
        "input[type=range]",
        """node => {
            node.value = String(Number(node.max) >> 1);
            node.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
    ),
}


class Tab:
    """A tab of a browser whose CPU is measured."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._parent = psutil.Process()

    def cpu(self) -> float:
        """Return the CPU seconds of all processes of the browser so far."""
        total = 0.0
        for process in self._parent.children(recursive=True):
            try:
                if "chrom" in process.name().lower():
                    times = process.cpu_times()
                    total += times.user + times.system
            except psutil.Error:  # it has just ended
                continue
        return total

    def at_rest(self) -> float:
        """Wait until the browser does nothing; return its CPU seconds so far."""
        last = self.cpu()
        while True:
            self.page.wait_for_timeout(200)
            now = self.cpu()
            if now - last < 0.02:
                return now
            last = now

    def open(self, path: Path) -> float:
        """Open a page; return the CPU seconds that it takes."""
        self.page.goto("about:blank")
        before = self.at_rest()
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.at_rest() - before

    def act(self, name: str) -> float | None:
        """Do one of _ACTIONS; return its CPU seconds, None if the page has no such element."""
        selector, script = _ACTIONS[name]
        node = self.page.query_selector(selector)
        if node is None:
            return None
        before = self.at_rest()
        node.evaluate(script)
        return self.at_rest() - before


@contextmanager
def browser_tab() -> Iterator[Tab]:
    """Start a browser; yield a tab of it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=["--no-sandbox"]
        )
        yield Tab(browser.new_page(viewport={"width": 1400, "height": 900}))
        browser.close()


def measure_pages(name: str, reports: Path) -> None:
    """Print the CPU that pages of a case's report take in the browser."""
    with browser_tab() as tab:
        for page in PAGES:
            path = reports / name / page
            if not path.exists():
                continue
            seconds: dict[str, float | None] = {"open": tab.open(path)}
            for action in _ACTIONS:
                seconds[action] = tab.act(action)
            texts = [
                f"{action} {value:.2f}"
                for action, value in seconds.items()
                if value is not None
            ]
            print(f"{name:24} {page:15} {', '.join(texts)}", flush=True)


def main() -> None:
    """Print tables of the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*", help="beginnings of names of cases")
    options = parser.parse_args()
    reports = options.folder / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    names = [name for name in CASES if name.startswith(tuple(options.words or [""]))]
    print(f"{'logs':24} {'command':12} {'CPU s':>9} {'MB':>9} {'page MB':>9}")
    for name in names:
        measure_commands(name, options.folder, reports)
    print(f"\n{'logs':24} {'page':15} CPU s")
    for name in names:
        measure_pages(name, reports)


if __name__ == "__main__":
    main()
