"""Run jobs in parallel with ``Workers.map``, in processes of this machine or of a cluster."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rlreport.errors import RlreportError
from rlreport.text.language import ENGLISH, Language

if TYPE_CHECKING:
    from rlreport.system.ray_executor import RayExecutor


Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

QUEUED = 2  # jobs submitted per process: the running one, and the next
AHEAD = 4  # results that may wait, per submitted job, for an earlier result
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ENVIRONMENT = {
    # Otherwise NumPy's linear algebra, which no job uses, starts a thread per core.
    "OPENBLAS_NUM_THREADS": "1",
    # Keep freed memory: otherwise glibc returns it to the system after every batch.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    # Otherwise loky replaces a process whose memory grew by 300 MB.
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",
    # Print no traceback if a worker crashes, as the parent reports the crash in one line.
    "PYTHONFAULTHANDLER": "",
}
_start_lock = threading.Lock()
_map_numbers = itertools.count()


class Workers:
    """A context manager for a pool of worker processes; this process runs jobs, too."""

    def __init__(
        self, count: int = 0, ray: str | None = None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Connect to the Ray cluster, if one is given; local processes start with the first jobs.

        Args:
            count: number of local processes, including this one; 0 for one per core.
            ray: address of a Ray cluster that runs the jobs instead; None for this machine.
            say: called with a message if the cluster delays the work.

        Raises:
            RlreportError: the cluster cannot be reached, or Ray is not installed.
        """
        self._count = count or os.cpu_count() or 1
        self._executor: Executor | None = None
        self._cluster: RayExecutor | None = None
        if ray is not None:
            from rlreport.system.ray_executor import RayExecutor

            self._cluster = RayExecutor(ray, say)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the worker processes, even while they run jobs."""
        if self._cluster is not None:
            self._cluster.shutdown()
        executor, self._executor = self._executor, None
        if executor is not None:
            _stop_executor(executor)

    def map(
        self,
        function: Callable[[Job, Shared], Result],
        jobs: Iterable[Job],
        shared: Shared,
        *,
        parallel: bool = True,
    ) -> Iterator[Result]:
        """Yield ``function(job, shared)`` for each job, in the order of the jobs.

        Args:
            function: a function defined at the top level of a module, as it is pickled.
            jobs: picklable values; the iterable is consumed as jobs are submitted.
            shared: a picklable value that is passed to all jobs.
            parallel: False to run small jobs in this process only; a cluster ignores it.

        Raises:
            RlreportError: a worker process was killed.
            Exception: the exception of a job.
        """
        executor = self._local_pool() if parallel and self._cluster is None else None
        if executor is None and self._cluster is None:
            yield from (function(job, shared) for job in jobs)
            return
        number = next(_map_numbers)
        blob = pickle.dumps((function, shared), pickle.HIGHEST_PROTOCOL)
        if self._cluster is not None:
            yield from self._cluster.map(partial(_run, number), blob, jobs)
            return
        assert executor is not None
        most_queued = QUEUED * (self._count - 1)
        pending: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                if sum(not future.done() for future in pending) < most_queued:
                    pending.append(executor.submit(_run, number, blob, job))
                else:  # the queue of the worker processes is full
                    pending.append(_run_here(function, job, shared))
                while pending and (pending[0].done() or len(pending) > AHEAD * (most_queued + 1)):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenExecutor:
            raise RlreportError(
                "a worker process was killed (out of memory?); try --workers 1"
            ) from None

    def check_files(self, paths: Sequence[str], tokenizer: str | None = None) -> None:
        """Check that every node of the cluster sees the same files; do nothing without a cluster.

        Raises:
            UsageError: a node does not see a file, or has another version of this program.
        """
        if self._cluster is not None:
            self._cluster.check(paths, tokenizer)

    def _local_pool(self) -> Executor | None:
        """Return the pool of local processes, started if necessary; None if there can be none."""
        if self._executor is None and self._count > 1:
            self._executor = _local_executor(self._count - 1)
            if self._executor is None:
                self._count = 1
        return self._executor


def _run_here(
    function: Callable[[Job, Shared], Result], job: Job, shared: Shared
) -> Future[Result]:
    """Run a job in this process; return a finished future with its result or exception."""
    future: Future[Result] = Future()
    try:
        future.set_result(function(job, shared))
    except Exception as error:
        future.set_exception(error)
    return future


_shared: dict[int, tuple[Callable[[Any, Any], Any], Any]] = {}
"""In a worker process: number of the current ``map`` call -> (function, shared value)."""


def _run(number: int, blob: bytes, job: Any) -> Any:
    """Run a job in a worker process; unpickle ``blob`` only once per ``number`` (``map`` call)."""
    if number not in _shared:
        _shared.clear()
        _shared[number] = pickle.loads(blob)
    function, shared = _shared[number]
    return function(job, shared)


def _local_executor(count: int) -> Executor | None:
    """Start ``count`` processes with loky; return None if this system cannot start any."""
    import multiprocessing

    if not hasattr(signal, "pthread_sigmask") or multiprocessing.current_process().daemon:
        return None  # not POSIX; a daemonic process may not have children
    if sys.stdout is None or sys.stderr is None:
        return None  # loky flushes both streams
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        return None  # python -E: resource trackers would import from the current folder
    try:
        from multiprocessing import resource_tracker

        from loky.process_executor import ProcessPoolExecutor

        # loky warns if it cannot kill children of a worker; our workers have none.
        warnings.filterwarnings("ignore", "Failed to kill subprocesses", UserWarning)
        with _start_lock, _isolated() as environment:
            resource_tracker.ensure_running()  # unblocks signals
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            executor: Executor = ProcessPoolExecutor(
                count,
                initializer=_start_worker,
                initargs=(os.getpid(),),
                env={**_ENVIRONMENT, **environment},
            )
            executor.submit(os.getpid)  # the first job starts the processes and loky's tracker
    except (ImportError, OSError, NotImplementedError):  # such as without /dev/shm
        return None
    return executor


def _stop_executor(executor: Executor) -> None:
    """Kill loky's processes, and wait for loky's thread that sends jobs to them.

    If Python exited before this thread ends, it would warn of leaked semaphores. The jobs are not
    cancelled first, as loky's shutdown would then fail.
    """
    jobs: Any = executor._call_queue  # type: ignore[attr-defined]
    executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]
    jobs._reader.close()  # else the thread may wait forever for room in the pipe
    if jobs._thread is not None:
        jobs._thread.join(timeout=5)


@contextlib.contextmanager
def _isolated() -> Iterator[dict[str, str]]:
    """Isolate processes started in this context; yield environment variables for them.

    The processes do not import from the current folder: workers get a safe ``sys.path``, and
    Python's and loky's resource trackers a safe environment. SIGINT and SIGTERM are blocked in
    these processes, as only this process handles them.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    path, old_environment = sys.path, dict(os.environ)
    try:
        sys.path = _safe_path()
        safe = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        os.environ.update(safe)
        yield safe
    finally:
        sys.path = path
        for name in ("PYTHONSAFEPATH", "PYTHONPATH"):
            os.environ.pop(name, None)
            if name in old_environment:
                os.environ[name] = old_environment[name]
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _safe_path() -> list[str]:
    """Return ``sys.path`` without the current folder, which Python puts first for scripts.

    Folders that the user added (PYTHONPATH, ``.pth`` files) stay. If the folder that contains
    rlreport is missing, it is added at the end.
    """
    first, home = sys.path[:1], str(Path(__file__).resolve().parents[2])
    if first and not sys.flags.safe_path and Path(first[0]).resolve() == Path.cwd():
        first = []
    path = [path for path in (*first, *sys.path[1:]) if path]
    return path if home in path else [*path, home]


def release_memory() -> None:
    """Make glibc return freed memory to the operating system; no effect elsewhere."""
    with contextlib.suppress(OSError, TypeError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def collect_rarely() -> None:
    """Make Python's garbage collector run less often in this process.

    Call it only in processes that rlreport owns. Rows and table cells are many objects without
    reference cycles; searching them for cycles took a sixth of the time to render a page.
    """
    gc.set_threshold(100_000, 50, 1000)


def _start_worker(parent: int) -> None:
    """Prepare a worker process, and end it when the process ``parent`` has ended."""
    collect_rarely()
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # print to standard error, as standard output is for results

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
