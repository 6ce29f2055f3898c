"""Workers: results in order, one clear error when a process is killed, nothing left running."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlreport.errors import RlreportError
from rlreport.system import workers as workers_module
from rlreport.system.workers import AHEAD, Workers, job_process
from tests import jobs

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
MANY = 100_000
"""Jobs that would take half an hour: processes have time to start, however slow the machine."""

WORK = """
from rlreport.system.workers import Workers
from tests import jobs
with Workers(3) as workers:
    for _ in workers.map(jobs.where, range(100_000), 0.02):
        print("working", flush=True)
"""


@pytest.fixture(params=["forked", "spawned"])
def start(request, monkeypatch):
    forks = request.param == "forked" and sys.platform == "linux"
    monkeypatch.setattr(workers_module, "can_fork", lambda: forks)
    return request.param


@pytest.fixture
def below():
    """What returns the worker processes, not those that other tests keep, such as a browser's."""
    earlier = psutil.Process().children()

    def workers() -> list[psutil.Process]:
        started = [
            child for child in psutil.Process().children() if child not in earlier
        ]
        # Python's tracker of resources stays for later.
        return [
            child
            for child in started
            if "resource_tracker" not in " ".join(child.cmdline())
        ]

    return workers


WAYS = pytest.mark.parametrize(
    ("count", "start"),
    [(1, "forked"), (3, "forked"), (3, "spawned")],
    indirect=["start"],
)
"""One worker is this process, however others would start."""


@WAYS
def test_results_come_in_the_order_of_their_jobs(count, start):
    with Workers(count) as workers:
        for jobs_in_all in (0, 1, 7, 60):
            results = workers.map(jobs.named, iter(range(jobs_in_all)), "page")
            assert list(results) == [f"page {i}" for i in range(jobs_in_all)]
        larger_than_a_pipe = workers.map(jobs.repeated, range(40), 1 << 20)
        assert [result[:3] for result in larger_than_a_pipe] == [
            b"%03d" % i for i in range(40)
        ]


@pytest.mark.parametrize(
    ("forks", "seconds", "processes"),
    [
        (True, 0.1, 0),
        (True, 1, 2),
        (False, 1, 0),
        (False, 10, 2),
    ],
)
def test_processes_start_only_for_work_that_is_worth_it(
    monkeypatch, forks, seconds, processes, below
):
    monkeypatch.setattr(workers_module, "can_fork", lambda: forks)
    with Workers(2) as workers:
        results = workers.map(jobs.where, range(40), 0.01, seconds=seconds)
        assert (next(results) == os.getpid()) is (processes == 0)
        assert len(below()) == processes


def test_a_process_is_forked_only_with_one_thread_and_before_v8_starts():
    script = (
        "import sys, threading, types\n"
        "from rlreport.system.workers import Workers, can_fork\n"
        "from tests import jobs\n"
        "with Workers(2) as workers:\n"
        "    first, second = (workers.map(jobs.where, range(9), 0.01) for _ in range(2))\n"
        "    next(first), next(second)\n"
        "    said = [can_fork()]\n"  # two maps leave this process with one thread
        "end = threading.Event()\n"
        "thread = threading.Thread(target=end.wait)\n"
        "thread.start(); said.append(can_fork())\n"
        "end.set(); thread.join(); said.append(can_fork())\n"
        "sys.modules['vl_convert'] = types; print(*said, can_fork())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "False", "True", "False"], done.stderr


def test_what_jobs_share_is_inherited_or_sent_to_a_process_once(tmp_path, start):
    shared = jobs.Counted(tmp_path / "count")
    with Workers(2) as workers:
        assert len(list(workers.map(jobs.use, range(100), shared))) == 100
    loads = shared.file.read_text() if shared.file.exists() else ""
    assert loads == ("" if start == "forked" else "xx")


def test_only_a_few_jobs_are_done_ahead_of_the_result_that_is_taken(tmp_path, start):
    with Workers(2) as workers:
        results = workers.map(jobs.written, range(MANY), tmp_path)
        for done in range(1, 20):
            next(results)
            assert len(list(tmp_path.iterdir())) <= done + 2 * AHEAD


def test_workers_can_be_used_again_after_results_were_given_up(start, below):
    with Workers(2) as workers:
        given_up: Any = workers.map(jobs.repeated, range(MANY), 1 << 24)
        for i in range(
            5
        ):  # processes are killed at different moments, also amid a pipe
            next(given_up)
            time.sleep(0.003 * i)
        given_up.close()
        assert below() == []
        assert list(workers.map(jobs.named, range(20), "second"))[-1] == "second 19"


def test_two_maps_at_once_keep_their_jobs_apart(start):
    with Workers(2) as workers:
        one = workers.map(jobs.named, range(50), "one")
        two = workers.map(jobs.named, range(50), "two")
        pairs = list(zip(one, two, strict=True))
    assert pairs == [(f"one {i}", f"two {i}") for i in range(50)]


@pytest.mark.parametrize("job", [jobs.suicide, jobs.suicide_while_sending])
def test_a_killed_process_is_one_clear_error(job, capfd, start):
    with Workers(2) as workers, pytest.raises(RlreportError) as caught:
        list(workers.map(job, range(MANY), os.getpid()))
    assert str(caught.value) == (
        "a worker process was killed (out of memory?); try --workers 1"
    )
    assert capfd.readouterr() == ("", "")


@WAYS
def test_the_first_error_of_a_job_reaches_the_caller(count, start, below):
    with (
        Workers(count) as workers,
        pytest.raises(RlreportError, match=r"^job 9 cannot be done$"),
    ):
        list(workers.map(jobs.fail_at, range(MANY), 9))
    with (
        Workers(count) as workers,
        pytest.raises(ConnectionError, match=r"^no store\b"),
    ):
        list(workers.map(jobs.disconnected, range(9), None))
    assert below() == []


def test_no_process_or_thread_is_left_when_the_workers_end(start, below):
    before = set(threading.enumerate())
    with Workers(3) as workers:
        results = workers.map(jobs.where, range(MANY), 0.02)
        next(results)
        assert len(below()) == 3
    assert below() == []
    assert set(threading.enumerate()) <= before


def test_output_of_a_job_goes_to_standard_error(capfd, start):
    with Workers(2) as workers:
        assert len(set(workers.map(jobs.printed, range(20), None))) > 1
    out, err = capfd.readouterr()
    assert (out, err.count("printed")) == ("", 20)


def working() -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 3
    return process, children


@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_parent_is_stopped(number, to_all):
    process, children = working()
    if to_all and number != signal.SIGKILL:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert not psutil.wait_procs(children, timeout=60)[1]
    assert process.returncode == -number
    if number == signal.SIGINT:  # the parent's own traceback, and nobody else's
        assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("script", "fork"),
        ("script", "spawn"),
        ("-c", "spawn"),
        ("-m", "spawn"),
    ],
)
def test_no_process_imports_from_the_current_folder(kind, how, tmp_path, capfd):
    # Modules that Python, multiprocessing, NumPy and we import. ``python -m`` itself imports
    # types, from the current folder, before there is a program.
    names = ("types", "pickle", "multiprocessing", "secrets", "numbers")
    for name in names[kind == "-m" :]:
        trap = "import os; open(os.environ['TRAP'], 'a').write(__file__ + chr(10))"
        (tmp_path / f"{name}.py").write_text(trap)
    script = (
        "import sys\n"
        "here = sys.path.pop(0)\n"  # the program itself imports what it should
        "from rlreport.system.workers import Workers, can_fork\n"
        "from tests import jobs\n"
        "import multiprocessing.resource_tracker, pickle, secrets, numbers\n"
        "from rlreport.system import workers as module\n"
        "module.can_fork = lambda: sys.argv[2] == 'fork' and can_fork()\n"
        "sys.path.insert(0, here)\n"
        "with Workers(2) as workers:\n"
        "    for file in workers.map(jobs.imported, ['numbers'] * 40, None):\n"
        "        assert not file.startswith(sys.argv[1]), file\n"
        "print('done')\n"
    )
    (tmp_path / "program.py").write_text(script)
    commands = {
        "script": ["program.py"],
        "-c": ["-c", script],
        "-m": ["-m", "program"],
    }
    trap = tmp_path / "trapped"
    done = subprocess.run(
        [sys.executable, *commands[kind], str(tmp_path), how],
        cwd=tmp_path,
        env={**ENVIRONMENT, "TRAP": str(trap)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
    assert not trap.exists(), trap.read_text()


FORKED = pytest.mark.skipif(sys.platform != "linux", reason="forks")


@pytest.fixture
def forks(monkeypatch):
    """Pretend that this process has one thread, whatever runs the tests."""
    monkeypatch.setattr(workers_module, "can_fork", lambda: True)


@FORKED
def test_a_process_does_jobs_while_this_one_goes_on_and_ends_with_its_context(
    forks, below
):
    with job_process(jobs.slept) as process:
        assert process is not None
        start = time.perf_counter()
        number = process.send(0.5)
        assert time.perf_counter() - start < 0.4
        (child,) = below()
        assert process.result(number) == child.pid
        process.send(60.0)  # nobody wants its result
    assert below() == []
    assert time.perf_counter() - start < 30


@FORKED
def test_results_of_a_process_are_taken_in_any_order_however_large(forks):
    with job_process(jobs.doubled) as process:
        assert process is not None
        larger_than_a_pipe = [bytes([65 + i]) * (1 << 20) for i in range(6)]
        numbers = [process.send(job) for job in larger_than_a_pipe]
        for number in reversed(numbers):
            assert process.result(number) == larger_than_a_pipe[number] * 2


@FORKED
def test_an_error_of_a_job_reaches_the_caller_and_the_next_job_is_done(forks):
    with job_process(jobs.divided) as process:
        assert process is not None
        first = process.send(0)
        second = process.send(4)
        with pytest.raises(ZeroDivisionError):
            process.result(first)
        assert process.result(second) == 0.25


@FORKED
def test_a_process_that_was_killed_is_one_clear_error(forks, capfd):
    with job_process(jobs.killed) as process, pytest.raises(RlreportError) as caught:
        assert process is not None
        process.result(process.send(0))
    assert str(caught.value) == (
        "a worker process was killed (out of memory?); try --workers 1"
    )
    assert capfd.readouterr() == ("", "")


def test_no_process_is_started_for_jobs_where_none_can_be_forked(monkeypatch):
    monkeypatch.setattr(workers_module, "can_fork", lambda: False)
    with job_process(jobs.divided) as process:
        assert process is None
