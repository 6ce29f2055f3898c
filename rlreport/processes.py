"""Processes of this machine for the pool: loky's, far from the current folder and from signals."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ENVIRONMENT = {
    # NumPy's linear algebra, which no job uses, would start a thread a core.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrays of a batch come and go: glibc would give their memory back after each.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    # loky would replace a process that holds 300 MB more than at first.
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e18",
    # Set but empty: a crash is told by the one line of its parent alone.
    "PYTHONFAULTHANDLER": "",
}
_starting = threading.Lock()


def start(count: int) -> Executor | None:
    """Start loky's processes; None where the system does not let us."""
    import multiprocessing

    if not hasattr(signal, "pthread_sigmask") or multiprocessing.current_process().daemon:
        return None  # no POSIX; a daemon of multiprocessing may not have children
    if sys.stdout is None or sys.stderr is None:
        return None  # which loky flushes
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        return None  # under python -E the trackers would import from the current folder
    try:
        from multiprocessing import resource_tracker

        from loky.process_executor import ProcessPoolExecutor

        # Without psutil and pgrep loky kills a process alone; ours have no children.
        warnings.filterwarnings("ignore", "Failed to kill subprocesses", UserWarning)
        with _starting, _apart() as environment:
            resource_tracker.ensure_running()  # it lifts the block of signals
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            executor: Executor = ProcessPoolExecutor(
                count,
                initializer=_stand_by,
                initargs=(os.getpid(),),
                env={**_ENVIRONMENT, **environment},
            )
            executor.submit(os.getpid)  # the first job starts them all, and loky's tracker
    except (ImportError, OSError, NotImplementedError):  # as without /dev/shm
        return None
    return executor


def stop(executor: Executor) -> None:
    """Kill an executor's processes, and wait for the threads that serve them.

    loky does not wait for the thread that sends jobs. If Python exits while that thread frees its
    semaphores, they stay, and loky's resource tracker reports them as leaked.
    """
    jobs: Any = executor._call_queue  # type: ignore[attr-defined]
    executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]
    jobs._reader.close()  # else the thread may wait forever for room in the pipe
    if jobs._thread is not None:
        jobs._thread.join(timeout=5)


@contextlib.contextmanager
def _apart() -> Iterator[dict[str, str]]:
    """Let what is started neither import from the current folder nor hear Ctrl-C and SIGTERM.

    loky hands ``sys.path`` on to its processes; its tracker and Python's have the environment
    alone. Signals blocked here stay blocked there: they are this process's to answer.
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
    """``sys.path`` without the current folder that Python puts first for ``-m``, ``-c``, a script.

    What the user put there (PYTHONPATH, ``.pth`` files) stays; rlreport's own home comes last.
    """
    first, home = sys.path[:1], str(Path(__file__).resolve().parents[1])
    if first and not sys.flags.safe_path and Path(first[0]).resolve() == Path.cwd():
        first = []
    kept = [path for path in (*first, *sys.path[1:]) if path]
    return kept if home in kept else [*kept, home]


def _stand_by(parent: int) -> None:
    """Make a process ready for jobs, and end it when its parent is gone."""
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # whatever a library prints is no part of what the program prints

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
