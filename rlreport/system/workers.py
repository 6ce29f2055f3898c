"""Run jobs in parallel, in processes of this machine or of a Ray cluster.

``Workers.map`` runs many jobs at once; a ``JobProcess`` runs one after the other, as they come up.
"""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from rlreport.errors import RlreportError
from rlreport.signals import ENDING
from rlreport.system.import_path import safe_import_path
from rlreport.system.memory import collect_rarely, keep_freed_memory
from rlreport.text.clean import printable
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message

if TYPE_CHECKING:
    from tqdm import tqdm

    from rlreport.system.ray_executor import RayCluster

Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

FORK_SECONDS = 0.3  # shorter work is done sooner in this process: forking takes 20 ms
# a process that is not forked needs half a second to import this package
SPAWN_SECONDS = 3.0
# jobs per process that are started before the result of an earlier one is taken
AHEAD = 4
_QUEUED = 2  # jobs sent to a forked process: the running one, and the next
_GRACE_SECONDS = 10  # in which a process that is stopped may clean up
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_KILLED = "a worker process was killed (out of memory?); try --workers 1"


class WorkerKilledError(RlreportError):
    """A process was killed while it did the job of this index; None if it did none."""

    def __init__(self, job: int | None = None) -> None:
        super().__init__(_KILLED)
        self.job = job


class _Work(NamedTuple):
    """What processes do: ``function(job, shared)`` for each job whose key they are sent."""

    function: Callable[[Any, Any], Any]
    jobs: Sequence[Any] | None  # a key is an index of it; None: it is the job itself
    shared: Any

    def do(self, key: Any) -> Any:
        job = key if self.jobs is None else self.jobs[key]
        return self.function(job, self.shared)


class Workers:
    """A context manager that runs jobs in several processes, and ends them."""

    def __init__(self, count: int = 0, ray: str | None = None) -> None:
        """Connect to the Ray cluster at ``ray``, if given; ``count`` 0 is one process per core."""
        self._count = count or os.cpu_count() or 1
        self._at_end = ExitStack()
        self._cluster: RayCluster | None = None
        if ray is not None:
            from rlreport.system.ray_executor import RayCluster

            self._cluster = RayCluster(ray)
            self._at_end.callback(self._cluster.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._at_end.close()

    def map(
        self,
        function: Callable[[Job, Shared], Result],
        jobs: Iterable[Job],
        shared: Shared,
        *,
        seconds: float = math.inf,
        ahead: int = AHEAD,
    ) -> Generator[Result]:
        """Yield ``function(job, shared)`` for each job, in the order of the jobs.

        ``function`` is at the top level of a module, as it may be pickled, like the jobs. Forked
        processes inherit ``shared``, others get a pickle. ``seconds``, the estimated time of all
        jobs in one process, decides whether other processes are worth their start. ``ahead``: jobs
        per process that may start before the result of an earlier one is taken.
        """
        all_jobs = list(jobs)
        count = min(self._count, len(all_jobs))
        alone = self.alone(len(all_jobs), seconds)

        def results() -> Generator[Result]:
            """Yield the results from Ray, from processes of this machine, or from this process."""
            if self._cluster is not None:
                yield from self._cluster.map(function, all_jobs, shared)
                return
            start = "" if alone else _start_method(seconds)
            if start:
                work = _Work(function, all_jobs, shared)
                yield from _map_in_processes(start, work, count, ahead)
                return
            for job in all_jobs:
                yield function(job, shared)

        generator = results()
        # A caller may not take all results; then ``close`` ends the processes.
        self._at_end.callback(generator.close)
        return generator

    def alone(self, jobs: int, seconds: float) -> bool:
        """Return whether ``map`` surely runs this many jobs in this process.

        ``seconds`` is the estimated time of all of them.
        """
        if self._cluster is not None:
            return False
        return min(self._count, jobs) <= 1 or seconds < FORK_SECONDS

    def on_each_node(
        self, function: Callable[[None, Shared], Result], shared: Shared
    ) -> list[Result]:
        """Return ``function(None, shared)`` of each node of the cluster; [] without a cluster."""
        if self._cluster is None:
            return []
        return self._cluster.on_each_node(function, shared)


def _start_method(seconds: float) -> str:
    """Return how to start processes, ``fork`` or ``spawn``; "" if they are not worth their start.

    ``seconds`` is what all jobs take in one process. ``spawn`` takes longer than ``fork``, but is
    always possible. A process that was started for jobs starts no others.
    """
    if multiprocessing.current_process().daemon:
        return ""
    if can_fork():
        return "fork"
    return "spawn" if seconds >= SPAWN_SECONDS else ""


def can_fork() -> bool:
    """Return whether this process can fork: on Linux, with one thread, before V8 has started.

    A forked process has only the thread that forked it; locks of other threads stay locked.
    """
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return False
    if "vl_convert" in sys.modules:  # which has V8
        return False
    try:
        names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    except OSError:
        return False
    # pandas imports pyarrow where it is installed; its allocator prepares its own thread for forks.
    others = [name for name in names if name.strip() != "jemalloc_bg_thd"]
    return len(others) == 1


def _map_in_processes(start: str, work: _Work, count: int, ahead: int) -> Iterator[Any]:
    """Yield the result of each job, done in ``count`` processes; see ``Workers.map``."""
    assert work.jobs is not None
    with _processes(start, work, count) as connections:
        queue = _JobQueue(connections, len(work.jobs))
        for index in range(len(work.jobs)):
            yield _result_of(queue.outcome_of(index, ahead=ahead * count))


def _result_of(outcome: bytes) -> Any:
    """Return the result of a job, or raise its error; see ``_do_jobs``."""
    result, error = pickle.loads(outcome)  # one of them is None
    if error is not None:
        raise error
    return result


class _JobQueue:
    """Sends jobs to processes by their index, and receives the outcomes in any order."""

    def __init__(self, connections: Sequence[Connection], jobs: int) -> None:
        self._jobs = jobs  # how many there are
        self._first_unsent = 0
        # Connection -> jobs sent to it whose outcome has not arrived; they are done in order
        self._sent: dict[Any, deque[int]] = {one: deque() for one in connections}
        self._outcomes: dict[int, bytes] = {}  # by job; those that nobody took yet

    def outcome_of(self, index: int, *, ahead: int) -> bytes:
        """Wait for the outcome of a job, a pickle; meanwhile, start jobs up to ``ahead`` after it.

        So results of later jobs do not fill the memory while an earlier one takes long.
        """
        while index not in self._outcomes:
            self._send(min(self._jobs, index + ahead))
            for ready in wait(list(self._sent)):
                with self._alive(ready):
                    outcome = ready.recv_bytes()  # type: ignore[union-attr]
                self._outcomes[self._sent[ready].popleft()] = outcome
        return self._outcomes.pop(index)

    @contextmanager
    def _alive(self, connection: Any) -> Iterator[None]:
        """Raise WorkerKilledError if the process at the other end has ended: its pipe is closed."""
        try:
            yield
        except (EOFError, ConnectionError):
            # Its jobs are done in order.
            raise WorkerKilledError(next(iter(self._sent[connection]), None)) from None

    def _send(self, stop: int) -> None:
        """Send jobs before ``stop``, each to the freest process, until all are busy."""
        while self._first_unsent < stop:
            freest = min(self._sent, key=lambda one: len(self._sent[one]))
            if len(self._sent[freest]) == _QUEUED:
                return
            with self._alive(freest):
                freest.send(self._first_unsent)
            self._sent[freest].append(self._first_unsent)
            self._first_unsent += 1


class JobProcess:
    """A process that does jobs for this one, which goes on meanwhile; see ``job_process``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = _this_thread()
        self._sent = 0  # jobs
        self._received = 0  # their outcomes
        self._outcomes: dict[int, bytes] = {}  # by job; those that nobody took yet

    @property
    def is_ours(self) -> bool:
        """Whether this thread started it: another one, or a process forked since, cannot use it."""
        return self._owner == _this_thread()

    def send(self, job: Any) -> int:
        """Let the process do a job after the earlier ones; return its number, for ``result``.

        All earlier results are received first: else both processes could wait to send.
        """
        with self._alive():
            self._receive(self._sent)
            self._connection.send(job)
        self._sent += 1
        return self._sent - 1

    def result(self, number: int) -> Any:
        """Wait for the result of a job, or raise its error; each can be taken once."""
        with self._alive():
            self._receive(number + 1)
        return _result_of(self._outcomes.pop(number))

    def _receive(self, count: int) -> None:
        while self._received < count:
            self._outcomes[self._received] = self._connection.recv_bytes()
            self._received += 1

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Raise WorkerKilledError if the process has ended: its pipe is closed."""
        try:
            yield
        except (EOFError, ConnectionError):
            raise WorkerKilledError from None


def _this_thread() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


@contextmanager
def job_process(function: Callable[[Job, None], Any]) -> Iterator[JobProcess | None]:
    """Yield a process that does ``function(job, None)`` for jobs, and end it with the context.

    ``function`` is at the top level of a module. None if no process can be forked: starting
    another one takes longer than what it is for.
    """
    if not can_fork() or multiprocessing.current_process().daemon:
        yield None
        return
    work = _Work(function, jobs=None, shared=None)
    with _processes("fork", work, count=1, finish=False) as (connection,):
        yield JobProcess(connection)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Keep signals blocked in processes started in this context, until ``_prepare_process``."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _safe_start() -> Iterator[None]:
    """Keep processes started in this context from importing the script, or from its folder.

    A process that is not forked takes over ``sys.path``, imports ``__main__``, and inherits the
    environment: all three are changed in this process meanwhile.
    """
    path = sys.path
    main = sys.modules["__main__"]
    environment = dict(os.environ)
    try:
        sys.path = safe_import_path(path)
        # A script may lack the usual guard against being imported.
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update({"PYTHONSAFEPATH": "1", "OPENBLAS_NUM_THREADS": "1"})
        yield
    finally:
        sys.path = path
        sys.modules["__main__"] = main
        for name in os.environ.keys() - environment:
            del os.environ[name]
        os.environ.update(environment)


@contextmanager
def _processes(
    start: str, work: _Work, count: int, *, finish: bool = True
) -> Iterator[list[Connection]]:
    """Start processes that do ``work``; yield a connection to each, by which jobs are sent.

    ``start`` is ``fork`` or ``spawn``. The processes end with the context. If it raises an error,
    or without ``finish``, they are stopped, whatever they do.
    """
    # Each process has a pipe of its own, so that it can be killed at any moment: if processes
    # shared a pipe and its lock, the lock would stay locked, or half a result stay in the pipe.
    context: Any = multiprocessing.get_context(start)
    processes: list[Any] = []
    connections: list[Connection] = []
    # Forked processes have the memory of this one; others get a pickle of the work.
    inherited = work if start == "fork" else None
    # A forked process imports nothing anew.
    imports = nullcontext() if inherited else _safe_start()
    try:
        with _signals_blocked(), imports:
            for _ in range(count):
                ours, theirs = context.Pipe()
                connections.append(ours)
                # The id of this process tells the other one if it has died.
                process = context.Process(
                    target=_do_jobs, args=(os.getpid(), theirs, inherited), daemon=True
                )
                process.start()
                processes.append(process)
                theirs.close()
        if not inherited:
            # Sent only now, so that all processes import this package at once.
            _send_to_all(connections, work)
        yield connections
        if finish:
            for connection in connections:
                connection.send(None)  # no more jobs follow
        else:
            _stop(processes)
    except BaseException:
        _stop(processes)
        raise
    finally:
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()


def _stop(processes: Sequence[Any]) -> None:
    """End processes: those that write files remove what is incomplete, see ``signals``."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_GRACE_SECONDS)
        if process.is_alive():
            process.kill()


def _send_to_all(connections: Sequence[Connection], work: _Work) -> None:
    """Send the work to all processes, which wait for it; pickle it only once."""
    data = pickle.dumps(tuple(work), pickle.HIGHEST_PROTOCOL)
    try:
        for connection in connections:
            connection.send_bytes(data)
    except ConnectionError:
        raise RlreportError(_KILLED) from None


def _do_jobs(parent_pid: int, connection: Connection, work: _Work | None) -> None:
    """Do the jobs whose keys arrive, until None does; ``work`` arrives first if not given.

    This is all that a process does which was started for jobs. The outcome of a job is a pickle of
    (result, None) or (None, error).
    """
    _prepare_process(parent_pid)
    work = work or _Work(*pickle.loads(connection.recv_bytes()))
    while (key := connection.recv()) is not None:
        try:
            result = work.do(key)
            outcome = pickle.dumps((result, None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            if not isinstance(error, RlreportError):
                error.add_note(traceback.format_exc())  # a pickle has no traceback
            outcome = pickle.dumps((None, error))
        connection.send_bytes(outcome)


def _prepare_process(parent_pid: int) -> None:
    """Prepare this process, which was started for jobs.

    It dies with its parent, and leaves Ctrl-C and similar signals to it. What it prints goes to
    standard error.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        # The parent may have died before that.
        if os.getppid() != parent_pid:
            os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A terminal sends the others to the parent, too, which then ends this process.
    for number in ENDING:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    gc.freeze()  # else the search for cycles copies the inherited memory
    collect_rarely()
    keep_freed_memory()
    # Without these streams, the descriptors 1 and 2 may be of other files.
    if sys.__stdout__ and sys.__stderr__:
        os.dup2(2, 1)  # standard output is for the results of the command


class Progress:
    """Prints progress to standard error: bars or lines; nothing if ``quiet``."""

    def __init__(self, quiet: bool = True, language: Language = ENGLISH) -> None:
        self._quiet = quiet
        self._language = language

    @contextmanager
    def phase(
        self, name: str, total: float, unit: str
    ) -> Iterator[Callable[[float], object]]:
        """Show progress in a unit ("pages", "B"); yield a function that adds to the amount done.

        A terminal shows a bar; elsewhere one line has the total, and the function does nothing.
        How long the rest takes is estimated only from pages: the first one takes longer than
        others, and what follows the reading of bytes does not depend on their number.
        """
        in_bytes = unit == "B"
        name, unit = self._language.of((name, unit))
        if self._quiet or not total:
            yield lambda amount: None
        elif not sys.stderr.isatty():
            amount = f"{total / 1e6:,.1f} MB" if in_bytes else f"{total:,.0f} {unit}"
            with suppress(OSError):  # standard error may be a file on a full disk
                print(f"{name}: {amount}", file=sys.stderr, flush=True)
            yield lambda amount: None
        else:
            with _bar(
                total=total,
                desc=name,
                unit=unit if in_bytes else f" {unit}",
                unit_scale=in_bytes,
                bar_format=_WITHOUT_ESTIMATE,
            ) as bar:

                def advance(amount: float) -> None:
                    if not in_bytes and bar.n + amount >= _FIRST_ESTIMATE:
                        bar.bar_format = _WITH_ESTIMATE
                    bar.update(amount)

                yield advance

    def warn(self, text: str) -> None:
        """Print a warning on what was read."""
        if not self._quiet:
            line = self._language.of(message("warning: {note}", note=text))
            with suppress(OSError):
                print(printable(line), file=sys.stderr, flush=True)

    @contextmanager
    def item(self, name: str) -> Iterator[None]:
        """Show which one of several things is being done, on a terminal until it is done."""
        if self._quiet:
            yield
            return
        line = printable(self._language.of(name))
        if sys.stderr.isatty():
            with _bar(bar_format="{desc}", desc=line):
                yield
            return
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)
        yield

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Show on a terminal that something is being done of which no part can be counted."""
        if self._quiet or not sys.stderr.isatty():
            yield
            return
        with _bar(desc=self._language.of(name), bar_format="{desc} …"):
            yield


_FIRST_ESTIMATE = 2  # pages after which the time of the others is estimated
_WITHOUT_ESTIMATE = "{l_bar}{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}]"
_WITH_ESTIMATE = "{l_bar}{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}]"


def _bar(**settings: Any) -> tqdm[Any]:
    """Return a bar on standard error, which disappears at its end."""
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread would keep this process from forking
    return tqdm(leave=False, file=sys.stderr, dynamic_ncols=True, **settings)
