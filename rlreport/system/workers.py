"""Run jobs in parallel with ``Workers.map``, in processes of this machine or of a Ray cluster."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from functools import partial
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
AHEAD = 4  # usual ``ahead`` of ``Workers.map``
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_numbers = itertools.count()


class Workers:
    """A context manager that runs jobs in several processes, and ends them."""

    def __init__(
        self, count: int = 0, ray: str | None = None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Connect to the Ray cluster, if one is given; local processes start with the first jobs.

        Args:
            count: number of local processes; 0 for one per core.
            ray: address of a Ray cluster that runs the jobs instead; None for this machine.
            say: called with a message if the cluster delays the work.

        Raises:
            RlreportError: the cluster cannot be reached, or Ray is not installed.
        """
        self._count = count or os.cpu_count() or 1
        self._spawned: Executor | None = None
        self._cluster: RayCluster | None = None
        if ray is not None:
            from rlreport.system.ray_executor import RayCluster

            self._cluster = RayCluster(ray, say)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._cluster is not None:
            self._cluster.close()
        if self._spawned is not None:
            self._spawned.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]

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

        Args:
            function: a function defined at the top level of a module, as it may be pickled.
            jobs: values that may be pickled.
            shared: a value that all jobs get. Forked processes inherit it; others get a pickle.
            seconds: estimated time of all jobs in one process, by which it is decided whether
                other processes are worth their start. A cluster always runs all jobs.
            ahead: jobs per process that are submitted before an earlier result is taken.

        Raises:
            RlreportError: a worker process was killed.
            Exception: the exception of a job.
        """
        job_list = list(jobs)
        count = min(self._count, len(job_list))
        if self._cluster is not None:
            return self._cluster.map(function, job_list, shared)
        if count > 1 and seconds >= FORK_SECONDS and can_fork():
            return _map_forked(function, job_list, shared, count, ahead)
        if count > 1 and seconds >= SPAWN_SECONDS and (executor := self._spawn()):
            work = partial(_run_pickled, next(_numbers), pickle.dumps((function, shared)))
            return _results(executor, work, job_list, ahead * count)
        return (function(job, shared) for job in job_list)

    def _spawn(self) -> Executor | None:
        if self._spawned is None and not multiprocessing.current_process().daemon:
            with suppress(ImportError, OSError, NotImplementedError):  # such as without /dev/shm
                import loky

                # Modules are not imported from the current folder, which may be untrusted.
                environment = {"PYTHONSAFEPATH": "1", "OPENBLAS_NUM_THREADS": "1"}
                self._spawned = loky.ProcessPoolExecutor(
                    self._count, initializer=_prepare, initargs=(os.getpid(),), env=environment
                )
        return self._spawned


def can_fork() -> bool:
    """Return whether this process can fork: on Linux, with one thread, before V8 has started.

    A forked process has only the thread that forked it; locks of other threads stay locked.
    """
    if sys.platform != "linux" or "vl_convert" in sys.modules:
        return False
    try:
        threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    except OSError:
        return False
    # pandas imports pyarrow where it is installed; its allocator prepares its own thread for forks.
    count = sum(name != "jemalloc_bg_thd" for name in threads)
    return count == 1 and not multiprocessing.current_process().daemon


_inherited: list[tuple[Callable[[Any, Any], Any], Sequence[Any], Any]] = []
"""Functions, jobs and shared values of the ``map`` calls that forked this process."""


def _map_forked(
    function: Callable[[Job, Shared], Result],
    jobs: Sequence[Job],
    shared: Shared,
    count: int,
    ahead: int,
) -> Iterator[Result]:
    before = set(multiprocessing.active_children())
    _inherited.append((function, jobs, shared))
    # Signals stay blocked in the new processes until they are prepared for them.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        context = multiprocessing.get_context("fork")
        executor = ProcessPoolExecutor(count, context, _prepare, (os.getpid(),))
        first = executor.submit(_run_inherited, 0)  # forks all processes
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _inherited.pop()
    done = False
    try:
        results = _results(executor, _run_inherited, range(1, len(jobs)), ahead * count, first)
        yield from results
        done = True
    finally:
        if not done:
            for process in set(multiprocessing.active_children()) - before:
                process.kill()
        executor.shutdown(cancel_futures=True)


def _run_inherited(index: int) -> Any:
    function, jobs, shared = _inherited[-1]
    return function(jobs[index], shared)


_unpickled: dict[int, tuple[Callable[[Any, Any], Any], Any]] = {}
"""In a spawned process: number of the current ``map`` call -> (function, shared value)."""


def _run_pickled(number: int, pickled: bytes, job: Any) -> Any:
    if number not in _unpickled:
        _unpickled.clear()
        _unpickled[number] = pickle.loads(pickled)
    function, shared = _unpickled[number]
    return function(job, shared)


def _results(
    executor: Executor,
    run: Callable[[Any], Result],
    jobs: Iterable[Any],
    ahead: int,
    *submitted: Future[Result],
) -> Iterator[Result]:
    """Submit jobs, at most ``ahead`` of the result that is taken next; yield results in order."""
    pending = deque(submitted)
    try:
        for job in jobs:
            pending.append(executor.submit(run, job))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenExecutor:
        raise RlreportError(
            "a worker process was killed (out of memory?); try --workers 1"
        ) from None


def _prepare(parent: int) -> None:
    """Prepare a worker process, which ends when the process ``parent`` ends."""
    with suppress(OSError, AttributeError):  # only Linux has prctl
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends this
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    gc.freeze()  # else the search for cycles copies the inherited memory
    collect_rarely()
    with suppress(OSError):
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
    gc.set_threshold(100_000, 50, 1000)


class Phase:
    """A context manager for a phase of work, whose progress bar, if any, is closed at its end."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def advance(self, amount: float) -> None:
        """Advance the bar by ``amount`` units."""
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
