"""Bakes pages in this process and beside it, in order.

A few pages are baked by a second thread, which goes on while a process beside draws the charts
of the first. Many are baked by helper processes, which cost a second each before their first
page and draw by themselves.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from rlreport import child
from rlreport.errors import RlreportError

Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

_KILLED = (
    "a process that bakes pages was killed (out of memory?); try --workers 1 or a smaller "
    "--max-responses"
)
LEAST_FOR_HELPERS = 48
"""Fewer pages are baked sooner without other processes."""

MOST_WAITING = 16
"""Pages baked ahead of the one that is asked for next."""


class Oven:
    """Threads and processes that bake; a context manager, as they end with it."""

    def __init__(self, workers: int) -> None:
        """Makes an oven of ``workers`` workers, 0 for one a core; with one, all is done here."""
        self._beside = (workers or os.cpu_count() or 1) - 1
        self._helpers: list[_Helper] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the processes, whatever they do."""
        for helper in self._helpers:
            child.end(helper.process)

    def expect(self, count: int) -> None:
        """Lets helper processes start, where so many jobs are to come, while there are none yet."""
        if count >= LEAST_FOR_HELPERS:
            self._helpers += [_Helper() for _ in range(self._beside - len(self._helpers))]

    def start(
        self,
        bake: Callable[[Job, Shared], Result],
        jobs: Iterable[Job],
        shared: Shared,
        *,
        count: int,
    ) -> Batch[Job, Shared, Result]:
        """Begins to bake: what is beside takes jobs at once, this thread when it iterates.

        Args:
            bake: a picklable function.
            jobs: picklable values; only those being baked are in memory.
            shared: a picklable value; each process and thread has its own copy.
            count: number of jobs.
        """
        batch = Batch(bake, jobs, shared)
        if count < LEAST_FOR_HELPERS:
            threads = [threading.Thread(target=_bake_beside, args=(batch,), daemon=True)]
            threads = threads[: self._beside]
        else:
            self.expect(count)
            threads = [
                threading.Thread(target=helper.feed, args=(batch,), daemon=True)
                for helper in self._helpers
            ]
        for thread in threads:
            thread.start()
        return batch


class Batch(Generic[Job, Shared, Result]):
    """Pages being baked; iterating yields ``bake(job, shared)`` in the order of the jobs.

    Raises, while iterated, what baking raised, and RlreportError when a helper was killed.
    """

    def __init__(
        self, bake: Callable[[Job, Shared], Result], jobs: Iterable[Job], shared: Shared
    ) -> None:
        self.bake = bake
        self.shared = shared
        self._jobs = enumerate(jobs)
        self._done: dict[int, Result | Exception] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._taken = 0

    def take(self, *, wait: bool) -> tuple[int, Job] | None:
        """The next job and its number; None when there is none, or none yet without ``wait``."""
        with self._changed:
            while len(self._done) >= MOST_WAITING and not self._ended:
                if not wait:
                    return None
                self._changed.wait()
            if self._ended:
                return None
            job = next(self._jobs, None)
            if job is None:
                self._ended = True
                self._changed.notify_all()
            else:
                self._taken += 1
            return job

    def put(self, number: int, result: Result | Exception) -> None:
        """Hands in what became of a job."""
        with self._changed:
            self._done[number] = result
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Result]:
        try:
            number = 0
            while (result := self._result(number)) is not None:
                if isinstance(result[0], Exception):
                    raise result[0]
                yield result[0]
                number += 1
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _result(self, number: int) -> tuple[Result | Exception] | None:
        """What became of a job, baking here while helpers are at it; None after the last."""
        while True:
            with self._changed:
                if number in self._done:
                    self._changed.notify_all()
                    return (self._done.pop(number),)
            own = self.take(wait=False)
            if own is not None:
                self.put(own[0], self.bake(own[1], self.shared))
                continue
            with self._changed:
                if self._ended and number >= self._taken:
                    return None
                if number not in self._done:
                    self._changed.wait()


def _bake_beside(batch: Batch[Job, Shared, Result]) -> None:
    """Bakes in this process, in a thread of its own with its own copy of what jobs share."""
    shared = pickle.loads(pickle.dumps(batch.shared))
    while (job := batch.take(wait=True)) is not None:
        try:
            batch.put(job[0], batch.bake(job[1], shared))
        except Exception as error:  # raised where the batch is iterated
            batch.put(job[0], error)


class _Helper:
    """A child process that bakes one job at a time."""

    def __init__(self) -> None:
        self.process = child.start("rlreport.bake.helper")
        # A batch that was given up may still have a job in here when the next one starts.
        self._busy = threading.Lock()

    def feed(self, batch: Batch[Job, Shared, Result]) -> None:
        """Bakes one job after the other; runs in a thread of its own."""
        job = None
        with self._busy:
            try:
                self._ask((batch.bake, batch.shared))
                while (job := batch.take(wait=True)) is not None:
                    batch.put(job[0], self._ask(job[1]))
            except (OSError, EOFError, ValueError, pickle.UnpicklingError):
                if job is not None:
                    batch.put(job[0], RlreportError(_KILLED))

    def _ask(self, message: object) -> Any:
        """Sends a message and waits for the answer; EOFError when the process is gone."""
        if self.process.stdout is None:
            raise EOFError
        child.send(self.process.stdin, message)
        return pickle.load(self.process.stdout)
