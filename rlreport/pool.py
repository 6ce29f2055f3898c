"""The one place for processes: what is read and baked side by side goes through a ``Pool``.

A pool is this process, which takes jobs itself while it waits, and a
``concurrent.futures.Executor`` of others beside it: loky's, whose users need no ``__main__``
guard. Where there are none (one worker, no semaphores), this process does all jobs. With Ray the
others are a cluster's, and this process does none that they can do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rlreport.errors import RlreportError
from rlreport.processes import start, stop

if TYPE_CHECKING:
    from rlreport.cluster import RayExecutor

Job = TypeVar("Job")
Shared = TypeVar("Shared")
Result = TypeVar("Result")

QUEUED = 2
"""Jobs that a process beside has at once: the one it does and the next."""

RANGE = 4
"""Jobs at least that go to a process of a cluster at once, where they may go together."""

AHEAD = 8
"""Further results held until an earlier one is there."""

_KILLED = "a worker process was killed (out of memory?); try --workers 1"
_numbers = itertools.count()


class Pool:
    """This process and those beside it; a context manager, as they end with it."""

    def __init__(
        self,
        workers: int = 0,
        ray: str | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Make a pool.

        Args:
            workers: processes, this one included; 0 for one a core.
            ray: address of a Ray cluster whose processes work instead.
            say: told what holds it up.

        Raises:
            RlreportError: there is no such cluster, or no Ray.
        """
        self._beside = (workers or os.cpu_count() or 1) - 1
        self._executor: Executor | None = None
        self._count = 0
        self._common: _Common[Any, Any] | None = None
        self.cluster: RayExecutor | None = None
        if ray is not None:
            from rlreport.cluster import RayExecutor

            self.cluster = RayExecutor(ray, say)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes, whatever they do."""
        self.end()

    def end(self) -> None:
        """End the processes and give their memory back; the next jobs start others."""
        executor, self._executor, self._common = self._executor, None, None
        if self.cluster is not None:
            self.cluster.shutdown()
        if executor is not None:
            stop(executor)

    def warm(self, module: str, function: str, *, most: int | None = None) -> None:
        """Start the processes, and let them import a module and call a function of it.

        Args:
            module: to import.
            function: of it, called without arguments.
            most: processes that will do if none is started yet; unless given all of them, in
                place of fewer.
        """
        if self.cluster is not None:
            return
        if most is None and self._executor is not None and self._count < self._beside:
            self.end()
        executor, beside = self._started(most)
        if executor is not None:
            with contextlib.suppress(BrokenExecutor):  # which the next jobs tell
                for _ in range(beside):
                    executor.submit(_warm, module, function)

    def map(
        self,
        function: Callable[[Job, Shared], Result],
        jobs: Iterable[Job],
        shared: Shared,
        *,
        beside: bool = True,
        here: bool = True,
        ordered: bool = True,
        apart: bool = False,
    ) -> Iterator[Result]:
        """Begin jobs beside this process, and return an iterator over ``function(job, shared)``.

        Args:
            function: picklable, as a function of a module is.
            jobs: picklable values, taken when there is room for their results.
            shared: a picklable value, sent once to a process and not once a job; the very same
                in the next call is not sent again.
            beside: whether the jobs are worth processes; else all are done here when asked for.
            here: whether this process takes jobs too where there are others.
            ordered: in the order of the jobs, else as they are done.
            apart: results are pairs whose second stays where it was made, on a cluster: in its
                place comes what ``value`` and functions of ``merging`` take.

        Raises:
            RlreportError: a process was killed; or what a job raised. Both when iterated.
        """
        executor, count = self._started() if beside else (None, 0)
        cluster = self.cluster if executor is not None else None
        common = self._common
        if common is None or common.function is not function or common.shared is not shared:
            common = _Common(function, shared, cluster, count)
        if executor is not None:
            self._common = common
        return _Batch(executor, count, common, jobs, here, ordered, cluster, apart).results()

    @property
    def elsewhere(self) -> bool:
        """Whether work is done on other machines, and this process is to hold little of it."""
        return self.cluster is not None

    def ranges(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        """Cut jobs into ranges that are worth sending: single ones where processes are near."""
        size = 1
        if self.cluster is not None:
            size = max(RANGE, -(-len(jobs) // self.cluster.count))
        return [jobs[first : first + size] for first in range(0, len(jobs), size)]

    def everywhere(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function returns on every node of the cluster, or what is wrong there."""
        return [] if self.cluster is None else self.cluster.everywhere(function, *args)

    def merging(self, function: Callable[[Result, Result], Result]) -> Callable[[Any, Any], Any]:
        """Return what does the same with what was left apart, where that lies."""
        cluster = self.cluster
        if cluster is None:
            return function
        return lambda left, right: cluster.merge(function, left, right)

    def value(self, apart: Any) -> Any:
        """Return what was left apart."""
        return apart if self.cluster is None else self.cluster.value(apart)

    def _started(self, most: int | None = None) -> tuple[Executor | None, int]:
        """The executor beside this process, and the number of its processes."""
        if self.cluster is not None:
            return self.cluster, self.cluster.count
        if self._executor is None and self._beside:
            self._count = min(self._beside, most or self._beside)
            self._executor = start(self._count)
            self._beside = self._beside if self._executor else 0
        return self._executor, self._count if self._executor else 0


@dataclass(slots=True, eq=False)
class _Slot(Generic[Job]):
    """A job that was begun, and its result to be."""

    job: Job
    future: Future[Any] = field(default_factory=Future)


class _Common(Generic[Job, Shared]):
    """What jobs have in common, and how it goes to the processes beside."""

    def __init__(
        self,
        function: Callable[[Job, Shared], Any],
        shared: Shared,
        cluster: RayExecutor | None,
        beside: int,
    ) -> None:
        self.function, self.shared, self.number = function, shared, next(_numbers)
        self._cluster = cluster
        # A cluster keeps what is shared, and may hand a job to a process that was never there.
        self._unsent = beside if cluster is None else sys.maxsize

    def wanted(self) -> bool:
        """Whether the next job goes to a process that may not have it yet."""
        self._unsent -= 1
        return self._unsent >= 0

    @cached_property
    def packed(self) -> Any:
        """The bytes, or on a cluster what stands for them."""
        packed = pickle.dumps((self.function, self.shared), pickle.HIGHEST_PROTOCOL)
        return packed if self._cluster is None else self._cluster.share(packed)


class _Batch(Generic[Job, Shared, Result]):
    """Jobs on their way: a window of those begun whose results were not asked for yet.

    The processes beside are fed whenever one is done with a job, whatever this process does.
    """

    def __init__(
        self,
        executor: Executor | None,
        beside: int,
        common: _Common[Job, Shared],
        jobs: Iterable[Job],
        here: bool,
        ordered: bool,
        cluster: RayExecutor | None,
        apart: bool,
    ) -> None:
        self._executor, self._most, self._ordered = executor, QUEUED * beside, ordered
        self._cluster, self._apart = cluster, apart
        self._here = executor is None or (here and cluster is None)
        self._common, self._jobs, self._busy = common, iter(jobs), 0
        self._window: deque[_Slot[Job]] = deque()
        self._lock = threading.RLock()
        self._fill()

    def results(self) -> Iterator[Result]:
        try:
            while True:
                awaited = self._awaited()
                done = next((slot for slot in awaited if slot.future.done()), None)
                if done:
                    result = self._taken(done)
                    self._fill()  # there may have been no room when a process asked last
                    yield result
                elif self._here and (own := self._begun()):
                    self._work(own)
                elif awaited := self._awaited():  # as it is now: others may have begun jobs
                    wait([slot.future for slot in awaited], return_when=FIRST_COMPLETED)
                else:
                    return
        except BrokenExecutor:
            raise RlreportError(_KILLED) from None
        finally:
            with self._lock:  # what loky has is not cancelled: its shutdown fails on such jobs
                self._jobs = iter(())

    def _awaited(self) -> list[_Slot[Job]]:
        with self._lock:
            slots = list(self._window)
        return slots[:1] if self._ordered else slots

    def _begun(self) -> _Slot[Job] | None:
        """Take the next job; None when there is none, or no room for its result."""
        with self._lock:
            if len(self._window) < self._most + AHEAD:
                for job in self._jobs:
                    self._window.append(_Slot(job))
                    return self._window[-1]
        return None

    def _work(self, slot: _Slot[Job]) -> None:
        """Do a job in this process."""
        try:
            slot.future.set_result(self._common.function(slot.job, self._common.shared))
        except Exception as error:  # raised when its turn comes
            slot.future.set_exception(error)

    def _fill(self, done: Future[Any] | None = None) -> None:
        """Keep the processes beside busy; called by loky's thread when a job is done."""
        with self._lock:
            if done is not None:
                self._busy -= 1
                if done.exception():
                    return
            while self._busy < self._most and (slot := self._begun()):
                self._send(slot)

    def _send(self, slot: _Slot[Job], *, whole: bool = False) -> None:
        assert self._executor is not None
        self._busy += 1
        packed = self._common.packed if whole or self._common.wanted() else None
        submit: Callable[..., Future[Any]] = self._executor.submit
        if self._cluster is not None and self._apart:
            submit = self._cluster.submit_apart
        try:
            slot.future = submit(_run, slot.job, self._common.number, packed)
        except RuntimeError as error:  # no process is left
            slot.future.set_exception(error)
        else:
            slot.future.add_done_callback(self._fill)

    def _taken(self, slot: _Slot[Job]) -> Result:
        """Take a result out of the window; a job that came without what it needs is sent again."""
        while isinstance(result := slot.future.result(), _Missing):
            with self._lock:
                self._send(slot, whole=True)
        with self._lock:
            self._window.remove(slot)
        taken: Result = result
        return taken


class _Missing:
    """The answer of a process that does not have what the jobs share."""


_held: dict[int, tuple[Callable[[Any, Any], Any], Any]] = {}


def _run(job: Any, number: int, packed: bytes | None) -> Any:
    """Do a job in a process beside, which keeps what the jobs of one batch share."""
    if number not in _held:
        if packed is None:
            return _Missing()
        _held.clear()
        _held[number] = pickle.loads(packed)
    function, shared = _held[number]
    return function(job, shared)


def _warm(module: str, function: str) -> None:
    getattr(import_module(module), function)()
