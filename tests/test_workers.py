"""Workers: results in order, one clear error when a process is killed, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlreport.errors import RlreportError
from rlreport.system.workers import AHEAD, QUEUED, Workers
from tests import jobs

ROOT = Path(__file__).resolve().parents[1]
MANY = 100_000
"""Jobs that would take half an hour: processes have time to start, however slow the machine."""

WORK = """
import os, sys
from rlreport.system.workers import Workers
from tests import jobs
with Workers(3) as workers:
    for _ in workers.map(jobs.where, range(100_000), 0.02):
        print("working", flush=True)
"""


def below() -> list[psutil.Process]:
    """Return the worker processes of this one (a tracker stays for the next)."""
    processes = psutil.Process().children()
    return [process for process in processes if "loky.backend.popen" in " ".join(process.cmdline())]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_their_jobs(count, parallel):
    with Workers(count) as workers:
        for jobs_in_all in (0, 1, 7, 60):
            results = workers.map(jobs.named, iter(range(jobs_in_all)), "page", parallel=parallel)
            assert list(results) == [f"page {i}" for i in range(jobs_in_all)]


def test_this_process_works_along_with_the_others():
    processes = set()
    with Workers(3) as workers:
        for process in workers.map(jobs.where, range(MANY), 0.01):
            processes.add(process)
            if len(processes) == 3:
                break
    assert os.getpid() in processes


def test_small_jobs_start_no_process():
    with Workers(3) as workers:
        assert set(workers.map(jobs.where, range(5), 0.0, parallel=False)) == {os.getpid()}
        assert below() == []


def test_jobs_are_taken_only_when_there_is_room_for_their_results():
    taken = []

    def taking():
        for job in range(MANY):
            taken.append(job)
            yield job

    with Workers(2) as workers:
        results = workers.map(jobs.named, taking(), "page")
        for done in range(1, 20):
            next(results)
            assert len(taken) <= done + AHEAD * (QUEUED + 1) + 1


def test_what_jobs_share_is_sent_to_a_process_once(tmp_path):
    shared = jobs.Counted(tmp_path / "count")
    with Workers(3) as workers:
        processes = set(workers.map(jobs.use, range(400), shared))
    assert shared.file.read_text() == "x" * len(processes - {os.getpid()})


def test_workers_can_be_used_again_after_results_were_given_up():
    with Workers(2) as workers:
        given_up: Any = workers.map(jobs.named, range(MANY), "first")
        assert next(given_up) == "first 0"
        given_up.close()
        assert list(workers.map(jobs.named, range(20), "second"))[-1] == "second 19"


def test_two_maps_at_once_keep_their_jobs_apart():
    with Workers(2) as workers:
        one = workers.map(jobs.named, range(50), "one")
        two = workers.map(jobs.named, range(50), "two")
        pairs = list(zip(one, two, strict=True))
    assert pairs == [(f"one {i}", f"two {i}") for i in range(50)]


def test_a_killed_process_is_one_clear_error(capfd):
    with Workers(2) as workers, pytest.raises(RlreportError) as caught:
        list(workers.map(jobs.suicide, range(MANY), os.getpid()))
    assert str(caught.value) == ("a worker process was killed (out of memory?); try --workers 1")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_error_of_ours_reaches_the_caller(count):
    with Workers(count) as workers, pytest.raises(RlreportError, match=r"^job 9 cannot be done$"):
        list(workers.map(jobs.fail_at, range(MANY), 9))


def test_no_process_is_left_when_the_workers_end():
    with Workers(3) as workers:
        results = workers.map(jobs.where, range(MANY), 0.02)
        next(results)
        assert len(below()) == 2
    assert below() == []


@pytest.mark.parametrize("shared_bytes", [1, 8 << 20])
def test_no_thread_is_left_when_the_workers_end(shared_bytes):
    # A thread of loky that outlives them may hold semaphores when Python exits, which loky's
    # resource tracker then reports as leaked. The larger jobs do not fit into the pipe at once.
    before = set(threading.enumerate())
    for _ in range(5):
        with Workers(3) as workers:
            next(workers.map(jobs.named, range(MANY), "x" * shared_bytes))
        assert set(threading.enumerate()) <= before


def test_without_semaphores_this_process_does_all_jobs(monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(import_module("loky.backend.synchronize"), "_SemLock", refuse)
    environment, path = dict(os.environ), list(sys.path)
    with Workers(3) as workers:
        assert set(workers.map(jobs.where, range(20), 0.0)) == {os.getpid()}
        assert below() == []
    assert (dict(os.environ), sys.path) == (environment, path)


def test_output_of_a_job_goes_to_standard_error(capfd):
    with Workers(2) as workers:
        assert len(set(workers.map(jobs.printed, range(20), None))) > 1
    out, err = capfd.readouterr()
    assert out.count("printed") + err.count("printed") == 20
    assert "printed" in err


def working(**environment: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Return a program whose workers are busy, and its processes: workers and trackers."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + 60
    children: list[psutil.Process] = []
    while len(children) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
        children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 4
    return process, children


def gone(children: list[psutil.Process]) -> bool:
    """Whether all have ended."""
    return not psutil.wait_procs(children, timeout=60)[1]


@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_stopped(number, to_all):
    process, children = working()
    if to_all and number != signal.SIGKILL:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert gone(children)
    assert process.returncode == -number
    if number == signal.SIGINT:  # the parent's own traceback, and nobody else's
        assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize("kind", ["script", "-c", "-m"])
def test_no_process_imports_from_the_current_folder(kind, tmp_path, capfd):
    # Modules that Python, multiprocessing, loky, NumPy and we import. ``python -m`` itself imports
    # types, from the current folder, before there is a program.
    names = ("types", "pickle", "multiprocessing", "loky", "secrets", "numbers")
    for name in names[kind == "-m" :]:
        trap = "import os; open(os.environ['TRAP'], 'a').write(__file__ + chr(10))"
        (tmp_path / f"{name}.py").write_text(trap)
    script = (
        "import sys\n"
        "here = sys.path.pop(0)\n"  # the program itself imports what it should
        "from rlreport.system.workers import Workers\n"
        "from tests import jobs\n"
        "import loky, multiprocessing.resource_tracker, pickle, secrets, numbers\n"
        "sys.path.insert(0, here)\n"
        "with Workers(2) as workers:\n"
        "    for file in workers.map(jobs.imported, ['numbers'] * 40, None):\n"
        "        assert not file.startswith(sys.argv[1]), file\n"
        "print('done')\n"
    )
    (tmp_path / "program.py").write_text(script)
    command = {"script": ["program.py"], "-c": ["-c", script], "-m": ["-m", "program"]}[kind]
    trap = tmp_path / "trapped"
    done = subprocess.run(
        [sys.executable, *command, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRAP": str(trap)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
    assert not trap.exists(), trap.read_text()
