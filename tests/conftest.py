"""Fixtures shared by all tests."""

import contextlib
import gzip
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser, Page

from tests.browser import browser, visiting
from tests.hostile import STRINGS, hostile_rows, write_log
from tests.pages import Made, write_step
from tests.running import SEARCH, build
from tests.store import Store, serving

__all__ = ["browser", "shared_data"]

# A busy machine is slow, not wrong. The same examples every time: whoever changes one thing is
# not to be told of another. ``--hypothesis-profile=search`` looks for new ones.
busy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy", busy, derandomize=True, max_examples=30 * SEARCH)
settings.register_profile("search", busy, max_examples=1000)
settings.load_profile("busy")

# A job in the background inherits that Ctrl-C is ignored, and would hand it on to the programs
# whose answer to Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Files for CI only, as they take long, like tests with a server of objects.
IN_CI = [
    "browser_interaction",
    "browser_one_file",
    "browser_panel",
    "browser_responses",
    "cache_pages",
    "workers",
]
# Files that take longest are begun first, lest workers of xdist wait for the last of them.
SLOW = [
    "ray",
    "packaging",
    *IN_CI,
    "deliver_same",
    "deliver_size",
    "browser_list",
    "browser_pages",
    "compare",
    "deliver_redact",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem[5:] in IN_CI or "store" in getattr(item, "fixturenames", ()):
            item.add_marker("ci")
    order = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: order.get(item.path.stem[5:], len(order)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # pytest-cov's own no_cover does nothing in a worker of xdist, where two measure at once.
    traced = sys.gettrace()
    if item.get_closest_marker("untraced"):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(traced)


@pytest.fixture(scope="session", autouse=True)
def current_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder to run all tests in, wherever pytest was started."""
    folder = tmp_path_factory.mktemp("current")
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(autouse=True)
def nothing_written_to_the_current_folder(current_folder: Path) -> Iterator[None]:
    """Fail a test that writes to the folder in which it was started."""
    yield
    written = [path.name for path in current_folder.iterdir()]
    if written:
        shutil.rmtree(current_folder)
        current_folder.mkdir()
        os.chdir(current_folder)
    assert not written, f"written to the current folder: {written}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for S3 addresses, which writes down what it was asked for."""
    with serving(tmp_path_factory.mktemp("store")) as found:
        yield found


ROOT = Path(__file__).resolve().parents[1]
REAL_RUNS = {
    "ppo_healthy": ROOT / "sample_logs" / "healthy",
    "ppo_reward_hacking": ROOT / "sample_logs" / "reward_hacking",
    "eval_poem_task": ROOT / "tests" / "data" / "eval_poem_task",
    "grpo_math": ROOT / "tests" / "data" / "grpo_math",
}


def once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """What ``make(place)`` made, once a session: processes of xdist wait for the first of them."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    place = base / name
    making = base / f"{name}.making"
    with FileLock(base / f"{name}.lock"):
        if not place.exists():
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(place)
    return place


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of real runs as plain ``.jsonl``: ``ppo_healthy``, ``grpo_math``, …"""
    return once(tmp_path_factory, "real_runs", unpack_runs)


def unpack_runs(folder: Path) -> None:
    for name, source in REAL_RUNS.items():
        run = folder / name
        run.mkdir()
        for log in sorted(source.glob("*.jsonl*")):
            if log.suffix == ".gz":
                (run / log.stem).write_bytes(gzip.decompress(log.read_bytes()))
            else:
                shutil.copyfile(log, run / log.name)


@pytest.fixture(scope="session")
def hostile_reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with reports of a hostile log: ``run``, ``run.html``."""

    def make(folder: Path) -> None:
        log = write_log(folder / "log.jsonl", hostile_rows())
        grade = folder / "grade.py"
        grade.write_text(
            "def is_long(prompts, completions, **_):\n"
            "    return [float(len(str(text)) > 40) for text in completions]\n"
        )
        options = ("--title", STRINGS[0], "--workers", 1, "--score", grade)
        for name in ("run", "run.html"):
            build(log, folder / name, *options)

    return once(tmp_path_factory, "hostile_reports", make)


@pytest.fixture(scope="session")
def real_report(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Gives the report folder of a real run, built by the command line, to be looked at only."""

    def report(run: str) -> Path:
        def make(folder: Path) -> None:
            build(shared_data / run, folder / "report", "--workers", 1)

        return once(tmp_path_factory, f"report_of_{run}", make) / "report"

    return report


@pytest.fixture(scope="session")
def hacking(real_report: Callable[[str], Path]) -> Path:
    """The report folder of the run whose reward is hacked."""
    return real_report("ppo_reward_hacking")


@pytest.fixture(scope="session")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a step of 37 responses; modules may have another."""
    made = Made(responses=37, tokens=40)
    place = once(tmp_path_factory, "step", lambda folder: write_step(folder, made))
    return place / "report" / "steps" / "100.html"


@pytest.fixture
def page(browser: Browser, step: Path) -> Iterator[Page]:
    """The page that a module's ``step`` gives, opened."""
    with visiting(browser, step) as opened:
        yield opened
