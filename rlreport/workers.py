"""Worker processes: all parallelism is ``Workers.map``, on this machine or on a cluster."""

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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rlreport.errors import RlreportError

if TYPE_CHECKING:
    from rlreport.ray_executor import RayExecutor

Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

QUEUED = 2  # jobs submitted per process: the one it works on, and the next
AHEAD = 4  # results per submitted job that are buffered while an earlier one is pending
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ENVIRONMENT = {
    # NumPy's linear algebra, which no job uses, would start a thread per core.
    "OPENBLAS_NUM_THREADS": "1",
    # Batches allocate and free large arrays: glibc would return the memory each time.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    # loky would replace a process whose memory grew by 300 MB.
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",
    # Set but empty: a crash is reported in one line by the parent.
    "PYTHONFAULTHANDLER": "",
}
_start_lock = threading.Lock()
_map_numbers = itertools.count()


class Workers:
    """A pool of worker processes, and this process; leaving the context ends the others."""

    def __init__(
        self, count: int = 0, ray: str | None = None, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """Processes start with the first jobs.

        Args:
            count: number of processes, this one included; 0 for one per core.
            ray: address of a Ray cluster whose processes do the work instead.
            say: called with a message if the work is delayed.

        Raises:
            RlreportError: the cluster cannot be reached, or Ray is not installed.
        """
        self._count = count or os.cpu_count() or 1
        self._executor: Executor | None = None
        self._cluster: RayExecutor | None = None
        if ray is not None:
            from rlreport.ray_executor import RayExecutor

            self._cluster = RayExecutor(ray, say)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes, even while they run jobs."""
        if self._cluster is not None:
            self._cluster.shutdown()
        executor, self._executor = self._executor, None
        if executor is not None:
            _end(executor)

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
            function: a function of a module.
            jobs: picklable values; taken from the iterable as they are submitted.
            shared: a picklable value that all jobs need.
            parallel: False if the jobs are too small to start processes for.

        Raises:
            RlreportError: a process was killed.
            Exception: what a job raised.
        """
        executor = self._started() if parallel and self._cluster is None else None
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
                if sum(not one.done() for one in pending) < most_queued:
                    pending.append(executor.submit(_run, number, blob, job))
                else:  # the others have enough to do
                    pending.append(_done(function, job, shared))
                while pending and (pending[0].done() or len(pending) > AHEAD * (most_queued + 1)):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenExecutor:
            raise RlreportError(
                "a worker process was killed (out of memory?); try --workers 1"
            ) from None

    def check_files(self, paths: Sequence[str], tokenizer: str | None = None) -> None:
        """Check that every node of a cluster sees the same local files.

        Raises:
            UsageError: a node does not, or has another version of this program.
        """
        if self._cluster is not None:
            self._cluster.check(paths, tokenizer)

    def _started(self) -> Executor | None:
        if self._executor is None and self._count > 1:
            self._executor = _local_executor(self._count - 1)
            if self._executor is None:
                self._count = 1
        return self._executor


def _done(function: Callable[[Job, Shared], Result], job: Job, shared: Shared) -> Future[Result]:
    """Run a job in this process; the future holds its result or exception."""
    future: Future[Result] = Future()
    try:
        future.set_result(function(job, shared))
    except Exception as error:
        future.set_exception(error)
    return future


_shared: dict[int, tuple[Callable[[Any, Any], Any], Any]] = {}


def _run(number: int, blob: bytes, job: Any) -> Any:
    """Run a job in a worker; the shared value of one ``map`` is unpickled only once."""
    if number not in _shared:
        _shared.clear()
        _shared[number] = pickle.loads(blob)
    function, shared = _shared[number]
    return function(job, shared)


def _local_executor(count: int) -> Executor | None:
    """Start loky's processes; None if the system does not allow it."""
    import multiprocessing

    if not hasattr(signal, "pthread_sigmask") or multiprocessing.current_process().daemon:
        return None  # not POSIX; a daemonic process may not have children
    if sys.stdout is None or sys.stderr is None:
        return None  # loky flushes both
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        return None  # under python -E the trackers would import from the current folder
    try:
        from multiprocessing import resource_tracker

        from loky.process_executor import ProcessPoolExecutor

        # Without psutil and pgrep loky kills a process but not its children; ours have none.
        warnings.filterwarnings("ignore", "Failed to kill subprocesses", UserWarning)
        with _start_lock, _isolated() as environment:
            resource_tracker.ensure_running()  # it unblocks signals
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


def _end(executor: Executor) -> None:
    """Kill loky's processes, and wait for its thread that sends jobs.

    loky does not wait: if Python exits while the thread frees its semaphores, the resource
    tracker reports them as leaked. Jobs are not cancelled first, as loky's shutdown would fail.
    """
    jobs: Any = executor._call_queue  # type: ignore[attr-defined]
    executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]
    jobs._reader.close()  # else the thread may wait forever for room in the pipe
    if jobs._thread is not None:
        jobs._thread.join(timeout=5)


@contextlib.contextmanager
def _isolated() -> Iterator[dict[str, str]]:
    """Start processes that neither import from the current folder nor get Ctrl-C and SIGTERM.

    loky passes ``sys.path`` on to its processes; the resource trackers only have the
    environment. Signals that are blocked here stay blocked there: this process handles them.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    path, before = sys.path, dict(os.environ)
    try:
        sys.path = _safe_path()
        safe = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        os.environ.update(safe)
        yield safe
    finally:
        sys.path = path
        for name in ("PYTHONSAFEPATH", "PYTHONPATH"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _safe_path() -> list[str]:
    """Return ``sys.path`` without the current folder, which Python puts first for scripts.

    What the user added (PYTHONPATH, ``.pth`` files) stays; the folder of rlreport comes last.
    """
    first, home = sys.path[:1], str(Path(__file__).resolve().parents[1])
    if first and not sys.flags.safe_path and Path(first[0]).resolve() == Path.cwd():
        first = []
    path = [path for path in (*first, *sys.path[1:]) if path]
    return path if home in path else [*path, home]


def release_memory() -> None:
    """Return freed memory to the system; glibc keeps what is fragmented."""
    with contextlib.suppress(OSError, TypeError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def collect_rarely() -> None:
    """Run the garbage collector less often, in a process that this package started.

    Parsed rows and cells of tables are many objects without cycles; looking for cycles among
    them took a sixth of the time of rendering a page.
    """
    gc.set_threshold(100_000, 50, 1000)


def _start_worker(parent: int) -> None:
    """Prepare a worker process, which ends when its parent is gone."""
    collect_rarely()
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # what a library prints is not part of our output

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
