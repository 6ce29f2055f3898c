"""vl-convert, here or in a process beside this one.

vl-convert holds Python's lock while it works, and its V8 takes a third of a second to start.
In a process of its own it starts while the rest of the program is still imported, and draws
one page while Python prepares the next.

This module needs neither NumPy nor pandas, so that the process starts fast.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from rlreport import child
from rlreport.errors import RlreportError

_KILLED = "the process that draws charts was killed (out of memory?); try --workers 1"
_WARM_UP = '{"width": 1, "height": 1}'


def convert(function: str, *given: object, **options: object) -> Any:
    """Calls a function of ``vl_convert``: beside this process where an engine runs, else here.

    Raises:
        ValueError: it refused what was given.
        RlreportError: the process beside was killed.
    """
    engine = _shared.engine
    if engine is None:
        return _converted(function, given, options)
    return engine.ask(function, given, options)


@contextlib.contextmanager
def drawing_beside() -> Iterator[None]:
    """Runs an engine: one for all threads of this process, until the last of its users is done."""
    with _shared.lock:
        if _shared.engine is None:
            _shared.engine = _Engine()
        _shared.users += 1
    try:
        yield
    finally:
        with _shared.lock:
            _shared.users -= 1
            if not _shared.users:
                _shared.engine.end()
                _shared.engine = None


def start_drawing() -> None:
    """Starts V8 in this process, before the first chart."""
    _converted("vega_to_svg", (_WARM_UP,), {"allowed_base_urls": []})


class _Engine:
    """A child process that calls ``vl_convert``, one call at a time."""

    def __init__(self) -> None:
        self._process = child.start("rlreport.draw.engine")
        self._turn = threading.Lock()

    def ask(self, *call: object) -> Any:
        pipes = self._process.stdin, self._process.stdout
        try:
            with self._turn:
                child.send(pipes[0], call)
                answer = pickle.load(pipes[1])  # type: ignore[arg-type]
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            raise RlreportError(_KILLED) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        child.end(self._process)


@dataclass(slots=True)
class _Shared:
    """The engine of this process, and how many use it."""

    engine: _Engine | None = None
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_shared = _Shared()


def _converted(function: str, given: tuple[object, ...], options: dict[str, object]) -> Any:
    import vl_convert  # starts V8

    return getattr(vl_convert, function)(*given, **options)


def _serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Answers calls until the parent is gone."""
    while True:
        call = pickle.load(incoming)
        try:
            answer = _converted(*call)
        except ValueError as error:
            answer = error
        child.send(outgoing, answer)


def main() -> None:
    """Serves the parent process."""
    with child.serving() as (incoming, outgoing):
        start_drawing()
        _serve(incoming, outgoing)


if __name__ == "__main__":
    main()
