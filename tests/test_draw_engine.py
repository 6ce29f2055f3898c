"""Charts are drawn beside Python, the same as here, and nothing is left when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from rlreport.draw import engine
from rlreport.draw.engine import convert, drawing_beside
from rlreport.errors import RlreportError

RULE = '{"width": 9, "height": 9, "marks": [{"type": "rule"}]}'
ORPHAN = """
import os, psutil, signal
from rlreport.draw.engine import drawing_beside
with drawing_beside():
    print(psutil.Process().children()[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the engine of all tests: these end and kill theirs."""
    monkeypatch.setattr(engine, "_shared", engine._Shared())


def beside() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "rlreport.draw.engine" in p.cmdline()]


def test_it_draws_the_same_beside_and_here() -> None:
    here = convert("vega_to_svg", RULE, allowed_base_urls=[])
    others = len(beside())
    with drawing_beside():
        with drawing_beside():
            assert len(beside()) == others + 1
        assert convert("vega_to_svg", RULE, allowed_base_urls=[]) == here
        assert len(beside()) == others + 1
    assert len(beside()) == others


def test_what_is_refused_is_refused_as_here() -> None:
    with drawing_beside():
        for _ in range(2):
            with pytest.raises(ValueError):
                convert("vegalite_to_vega", "{")
        assert convert("vega_to_svg", RULE, allowed_base_urls=[]).startswith("<svg")


def test_threads_take_turns() -> None:
    charts = [RULE.replace("9", str(size)) for size in range(1, 40)]
    here = [convert("vega_to_svg", chart) for chart in charts]
    with drawing_beside(), ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda chart: convert("vega_to_svg", chart), charts)) == here
    assert len(set(here)) == len(charts)


def test_python_goes_on_while_a_chart_is_drawn() -> None:
    points = ",".join(f'{{"x": {i % 200}}}' for i in range(30_000))
    slow = (
        '{"width": 200, "height": 200, "data": [{"name": "t", "values": [' + points + "]}],"
        '"marks": [{"type": "symbol", "from": {"data": "t"}}]}'
    )
    with drawing_beside():
        convert("vega_to_svg", RULE)
        drawing = threading.Thread(target=convert, args=("vega_to_svg", slow))
        drawing.start()
        turns = 0
        while drawing.is_alive():
            turns += 1
    assert turns > 1000


def test_a_killed_engine_is_one_clear_error() -> None:
    with drawing_beside():
        convert("vega_to_svg", RULE)
        max(beside(), key=psutil.Process.create_time).kill()
        with pytest.raises(RlreportError, match="draws charts was killed"):
            convert("vega_to_svg", RULE)


def test_it_ends_with_its_parent() -> None:
    command = [sys.executable, "-c", ORPHAN]
    orphan = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    engine = int(orphan.stdout)
    if psutil.pid_exists(engine):
        psutil.wait_procs([psutil.Process(engine)], timeout=10)
    assert not psutil.pid_exists(engine) or psutil.Process(engine).status() == "zombie"
