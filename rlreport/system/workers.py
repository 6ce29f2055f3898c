"""Run jobs in parallel with ``Workers.map``, in processes of this machine or of a Ray cluster."""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rlreport.errors import RlreportError
from rlreport.text.language import ENGLISH, Language

if TYPE_CHECKING:
    from rlreport.system.ray_executor import RayCluster

Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

FORK_SECONDS = 0.3  # shorter work is done sooner in this process: forking takes 20 ms
SPAWN_SECONDS = 3.0  # a process that is not forked needs half a second to import this package
AHEAD = 4  # jobs per process that are started before the result of an earlier one is taken
_QUEUED = 2  # jobs sent to a forked process: the running one, and the next
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_KILLED = "a worker process was killed (out of memory?); try --workers 1"


class Workers:
    """A context manager that runs jobs in several processes, and ends them."""

    def __init__(
        self, count: int = 0, ray: str | None = None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Connect to the Ray cluster, if any; local processes start with the first jobs."""
        self._count = count or os.cpu_count() or 1
        self._at_end = ExitStack()
        self._cluster: RayCluster | None = None
        if ray is not None:
            from rlreport.system.ray_executor import RayCluster

            self._cluster = RayCluster(ray, say)
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
    ) -> Iterator[Result]:
        """Yield ``function(job, shared)`` for each job, in the order of the jobs.

        ``function`` is at the top level of a module, as it may be pickled, like the jobs. Forked
        processes inherit ``shared``, others get a pickle. ``seconds``, the estimated time of all
        jobs in one process, decides whether other processes are worth their start. ``ahead``: jobs
        per process that may start before the result of an earlier one is taken.
        """
        results = self._results(function, list(jobs), shared, seconds, ahead)
        self._at_end.callback(results.close)
        return results

    def _results(
        self,
        function: Callable[[Any, Any], Result],
        jobs: Sequence[Any],
        shared: Any,
        seconds: float,
        ahead: int,
    ) -> Generator[Result]:
        count = min(self._count, len(jobs))
        if self._cluster is not None:
            yield from self._cluster.map(function, jobs, shared)
        elif count > 1 and seconds >= FORK_SECONDS and can_fork():
            yield from _map_forked((function, jobs, shared), len(jobs), count, ahead)
        elif (
            count > 1 and seconds >= SPAWN_SECONDS and (executor := _spawn(count, function, shared))
        ):
            yield from _map_spawned(executor, jobs, ahead * count)
        else:
            yield from (function(job, shared) for job in jobs)


def can_fork() -> bool:
    """Return whether this process can fork: on Linux, with one thread, before V8 has started.

    A forked process has only the thread that forked it; locks of other threads stay locked.
    """
    if sys.platform != "linux" or not hasattr(os, "fork") or "vl_convert" in sys.modules:
        return False
    try:
        threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    except OSError:
        return False
    # pandas imports pyarrow where it is installed; its allocator prepares its own thread for forks.
    count = sum(name != "jemalloc_bg_thd" for name in threads)
    return count == 1 and not multiprocessing.current_process().daemon


def _map_forked(
    work: tuple[Any, Sequence[Any], Any], jobs: int, count: int, ahead: int
) -> Iterator[Any]:
    outcomes: dict[int, bytes] = {}
    first_unsent = 0
    with _forked(count, work) as connections:
        sent: dict[Any, deque[int]] = {connection: deque() for connection in connections}
        for index in range(jobs):
            try:
                while index not in outcomes:
                    while first_unsent < min(jobs, index + ahead * count):
                        freest = min(connections, key=lambda connection: len(sent[connection]))
                        if len(sent[freest]) == _QUEUED:
                            break
                        freest.send(first_unsent)
                        sent[freest].append(first_unsent)
                        first_unsent += 1
                    for ready in wait(connections):
                        outcome = ready.recv_bytes()  # type: ignore[union-attr]
                        outcomes[sent[ready].popleft()] = outcome
            except (EOFError, ConnectionError):
                raise RlreportError(_KILLED) from None
            result, error = pickle.loads(outcomes.pop(index))
            if error is not None:
                raise error
            yield result


@contextmanager
def _signals_blocked() -> Iterator[None]:
    # They stay blocked in processes that start meanwhile, until these are prepared for them.
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _forked(count: int, work: tuple[Any, ...]) -> Iterator[list[Connection]]:
    # Each process has a pipe of its own, so that it can be killed at any moment: if processes
    # shared a pipe and its lock, the lock would stay locked, or half a result stay in the pipe.
    context = multiprocessing.get_context("fork")
    processes = []
    connections = []
    try:
        with _signals_blocked():
            for _ in range(count):
                ours, theirs = context.Pipe()
                connections.append(ours)
                process = context.Process(
                    target=_do_jobs, args=(os.getpid(), theirs, *work), daemon=True
                )
                process.start()
                processes.append(process)
                theirs.close()
        yield connections
        for connection in connections:
            connection.send(None)
    except BaseException:
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()


def _do_jobs(
    parent: int,
    connection: Connection,
    function: Callable[[Job, Shared], Any],
    jobs: Sequence[Job],
    shared: Shared,
) -> None:
    _prepare(parent)
    while (index := connection.recv()) is not None:
        try:
            outcome = pickle.dumps((function(jobs[index], shared), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            if not isinstance(error, RlreportError):
                error.add_note(traceback.format_exc())  # a pickle has no traceback
            outcome = pickle.dumps((None, error))
        connection.send_bytes(outcome)


def _spawn(count: int, function: Callable[..., Any], shared: Any) -> Executor | None:
    if multiprocessing.current_process().daemon:
        return None
    path, environment = sys.path, dict(os.environ)
    # Python lets scripts import from the current folder, which may be untrusted.
    outside = [p for p in path if p and (p != path[0] or Path(p).resolve() != Path.cwd())]
    safe = {"PYTHONSAFEPATH": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        import loky

        sys.path = [*outside, str(Path(__file__).resolve().parents[2])]
        os.environ.update(safe)
        work = os.getpid(), function, shared
        with _signals_blocked():
            executor: Executor = loky.ProcessPoolExecutor(
                count, initializer=_prepare, initargs=work, env=safe
            )
            executor.submit(int)  # starts all processes
        return executor
    except (ImportError, OSError, NotImplementedError):  # such as without /dev/shm
        return None
    finally:
        sys.path = path
        for name in safe.keys() - environment:
            del os.environ[name]
        os.environ.update(environment)


def _map_spawned(executor: Executor, jobs: Sequence[Any], ahead: int) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    try:
        for job in jobs:
            pending.append(executor.submit(_do_job, job))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenExecutor:
        raise RlreportError(_KILLED) from None
    finally:
        executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]


_work: list[Any] = []  # of a spawned process: the function and the shared value


def _do_job(job: Any) -> Any:
    function, shared = _work
    return function(job, shared)


def _prepare(parent: int, *work: Any) -> None:
    _work[:] = work
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends this
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    gc.freeze()  # else the search for cycles copies the inherited memory
    collect_rarely()
    if sys.__stdout__ and sys.__stderr__:  # else these file descriptors may be of other files
        os.dup2(2, 1)  # standard output is for results


def release_memory() -> None:
    """Make glibc return freed memory to the operating system; no effect elsewhere."""
    with suppress(OSError, TypeError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def collect_rarely() -> None:
    """Make Python's garbage collector run less often in this process.

    Call it only in processes that rlreport owns. Rows and table cells are many objects without
    reference cycles; searching them for cycles took a sixth of the time to render a page.
    """
    gc.set_threshold(200_000, 50, 1000)


class Phase:
    """A context manager for a phase of work, whose progress bar, if any, is closed at its end."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def advance(self, amount: float) -> None:
        if self._bar is not None:
            self._bar.update(amount)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Progress:
    """Prints progress to standard error: bars or lines; nothing if ``quiet``."""

    def __init__(self, quiet: bool = True, language: Language = ENGLISH) -> None:
        self._quiet, self._language = quiet, language

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """Start a phase of ``total`` units of work, such as "pages"; the unit "B" is bytes."""
        in_bytes = unit == "B"
        name, unit = self._language.of((name, unit))
        if self._quiet or not total:
            return Phase()
        if not sys.stderr.isatty():
            amount = f"{total / 1e6:,.1f} MB" if in_bytes else f"{total:,.0f} {unit}"
            with suppress(OSError):  # standard error may be a file on a full disk
                print(f"{name}: {amount}", file=sys.stderr, flush=True)
            return Phase()
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # its thread would keep this process from forking
        bar = tqdm(
            total=total,
            desc=name,
            unit=unit if in_bytes else f" {unit}",
            unit_scale=in_bytes,
            leave=False,
            file=sys.stderr,
            dynamic_ncols=True,
        )
        return Phase(bar)

    def say(self, line: str) -> None:
        """Print a line above the bar, for example why the work is delayed; nothing if quiet."""
        if not self._quiet:
            from tqdm import tqdm

            with suppress(OSError):
                tqdm.write(line, file=sys.stderr)
