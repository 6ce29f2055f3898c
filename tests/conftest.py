"""Fixtures shared by all tests."""

from __future__ import annotations

import gzip
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import browser

__all__ = ["browser", "shared_data"]

# A busy machine is slow, not wrong. The same examples every time: whoever changes one thing is
# not to be told of another. ``--hypothesis-profile=search`` looks for new ones.
busy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy", busy, derandomize=True)
settings.register_profile("search", busy, max_examples=1000)
settings.load_profile("busy")

# A job in the background inherits that Ctrl-C is ignored, and would hand it on to the programs
# whose answer to Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


ROOT = Path(__file__).resolve().parents[1]
REAL_RUNS = {
    "ppo_healthy": ROOT / "sample_logs" / "healthy",
    "ppo_reward_hacking": ROOT / "sample_logs" / "reward_hacking",
    "eval_poem_task": ROOT / "tests" / "data" / "eval_poem_task",
    "grpo_math": ROOT / "tests" / "data" / "grpo_math",
}


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of real runs as plain ``.jsonl``: ``ppo_healthy``, ``grpo_math``, …"""
    folder = tmp_path_factory.mktemp("real_runs")
    for name, source in REAL_RUNS.items():
        run = folder / name
        run.mkdir()
        for log in sorted(source.glob("*.jsonl*")):
            if log.suffix == ".gz":
                (run / log.stem).write_bytes(gzip.decompress(log.read_bytes()))
            else:
                shutil.copyfile(log, run / log.name)
    return folder
