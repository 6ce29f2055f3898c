"""Scan splits side by side in processes of their own."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Sequence

from rlreport import child
from rlreport.errors import RlreportError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Phase, Progress
from rlreport.read.merge import merge
from rlreport.read.partial import Partial
from rlreport.read.scan import Scanner
from rlreport.read.splits import Split

LEAST_BYTES = 24 << 20
"""Smaller logs are read sooner in this process than workers start."""

_AHEAD = 2
_KEPT_ARRAY = 32 << 20
_KEPT_IN_ALL = 64 << 20


def scan_splits(
    splits: Sequence[Split], options: ReadOptions, figures: FigureOptions, progress: Progress
) -> Partial:
    """Scan all splits and merge what was found.

    Raises:
        RlreportError: a worker was killed, or what it raised.
    """
    size = sum(split.weight for split in splits)
    processes = min(options.workers or os.cpu_count() or 1, len(splits))
    with progress.phase("reading", size, "B") as phase:
        if processes <= 1 or size < LEAST_BYTES:
            scanner = Scanner(options, figures)
            for split in splits:
                scanner.add(split, phase.advance)
            return merge([scanner.partial()], spend=True)
        return merge(_Crew(processes, options, figures).scan(splits, phase), spend=True)


class _Crew:
    """This process and workers beside it, each of which is fed splits over a pipe."""

    def __init__(self, processes: int, options: ReadOptions, figures: FigureOptions) -> None:
        self._messages: queue.SimpleQueue[tuple[int, str, object]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._shares: list[deque[Split]] = []
        self._partials: dict[int, Partial] = {}
        self._count = processes
        self._settings = (options, figures)

    def scan(self, splits: Sequence[Split], phase: Phase) -> list[Partial]:
        """Scan all splits: the last share here, the others beside."""
        self._shares = _shares(splits, self._count)
        beside = self._count - 1
        scanner = Scanner(*self._settings)

        def advanced(count: int) -> None:
            phase.advance(count)
            while not self._messages.empty():
                self._answer(phase)

        try:
            for number in range(beside):
                self._start(number)
                for _ in range(_AHEAD):
                    self._send(number, _next(self._shares, number))
            while (split := _next(self._shares, beside)) is not None:
                scanner.add(split, advanced)
            own = scanner.partial()
            while len(self._partials) < beside:
                self._answer(phase)
        finally:
            self._stop()
        return [own, *self._partials.values()]

    def _answer(self, phase: Phase) -> None:
        """Do what the next message asks for, once it is there."""
        number, kind, value = self._messages.get()
        if kind == "advanced":
            phase.advance(value)  # type: ignore[arg-type]
        elif kind == "done":
            self._send(number, _next(self._shares, number))
        elif kind == "partial":
            self._partials[number] = value  # type: ignore[assignment]
        elif kind == "error":
            raise value  # type: ignore[misc]
        elif number not in self._partials:
            raise RlreportError(self._death(number))

    def _start(self, number: int) -> None:
        process = child.start(
            "rlreport.read.worker",
            {
                # NumPy's linear algebra, which no worker uses, would start a thread a core.
                "OPENBLAS_NUM_THREADS": "1",
                # Arrays of a batch come and go: glibc would give their memory back after each.
                "MALLOC_MMAP_THRESHOLD_": str(_KEPT_ARRAY),
                "MALLOC_TRIM_THRESHOLD_": str(_KEPT_IN_ALL),
            },
        )
        self._processes.append(process)
        self._send(number, self._settings)
        threading.Thread(target=self._listen, args=(number, process), daemon=True).start()

    def _send(self, number: int, message: object) -> None:
        pipe = self._processes[number].stdin
        # A worker that is gone is noticed by its silence.
        with contextlib.suppress(BrokenPipeError, ValueError):
            child.send(pipe, message)

    def _listen(self, number: int, process: subprocess.Popen[bytes]) -> None:
        try:
            while True:
                kind, value = pickle.load(process.stdout)  # type: ignore[arg-type]
                self._messages.put((number, kind, value))
        except (EOFError, pickle.UnpicklingError, ValueError, OSError):
            self._messages.put((number, "gone", None))

    def _death(self, number: int) -> str:
        status = self._processes[number].wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return (
            f"a reading process was killed ({how}; out of memory?); "
            "try --workers 1, or a smaller --max-line"
        )

    def _stop(self) -> None:
        for process in self._processes:
            child.end(process)


def _shares(splits: Sequence[Split], count: int) -> list[deque[Split]]:
    """Deal splits out: files that cannot be cut to whoever has least, the rest in one piece.

    A worker that reads neighbouring splits meets few steps, which keeps its tables small.
    """
    shares: list[list[Split]] = [[] for _ in range(count)]
    loads = [0] * count
    for split in sorted(splits, key=lambda split: (split.stop is not None, -split.weight)):
        if split.stop is None:
            least = loads.index(min(loads))
            shares[least].append(split)
            loads[least] += split.weight
    rest = deque(split for split in splits if split.stop is not None)
    fair = sum(split.weight for split in splits) / count
    for number in range(count):
        while rest and (loads[number] < fair or number == count - 1):
            split = rest.popleft()
            shares[number].append(split)
            loads[number] += split.weight
    return [deque(share) for share in shares]


def _next(shares: list[deque[Split]], number: int) -> Split | None:
    """Take the next split of a worker's share; of the longest one's end when it has none left."""
    if shares[number]:
        return shares[number].popleft()
    longest = max(shares, key=lambda share: sum(split.weight for split in share))
    return longest.pop() if longest else None
