"""Signals that end the program: at once while it starts, and only afterwards while files move.

This module imports little, as it is imported first.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

# Signals after which the program cleans up and ends: of Ctrl-C, of a job scheduler, and of a
# terminal that closes (Windows has no such signal)
ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)

INTERRUPTED = 128 + signal.SIGINT  # exit status after Ctrl-C, as in shells


class Terminated(SystemExit):
    """Raised after a signal other than that of Ctrl-C; its code is the exit status."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def end_at_once() -> None:
    """Let Ctrl-C end this process without a traceback, unless it is ignored or handled.

    This is for the time in which modules are imported: nothing needs to be cleaned up, and
    compiled modules turn the exception KeyboardInterrupt into other errors.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):  # standard error may be closed
        os.write(2, b"rlreport: interrupted\n")
    os._exit(128 + number)


def handle(handler: Any) -> None:
    """Make ``handler`` handle the signals that end the program, in the main thread only.

    Those that are ignored (after ``nohup``, or in the background of a shell script) stay so, and so
    do handlers of a program that calls this one; SIGTERM is always handled.
    """
    if not _in_main_thread():
        return
    # What Python sets at its start, and ``end_at_once``; others are of the calling program.
    own_or_usual = (signal.SIG_DFL, signal.default_int_handler, _exit)
    for number in ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) in own_or_usual:
            signal.signal(number, handler)


def ignore() -> None:
    """Ignore the signals that end the program, as it is ending."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def held() -> Iterator[None]:
    """Hold back the signals that end the program, and deliver them when the block has ended.

    Only the main thread can do so. Other threads need not: signals interrupt the main thread only.
    """
    if not _in_main_thread():
        yield
        return
    received: list[int] = []
    handlers: dict[int, Any] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        received.append(number)

    # Within the ``try``, so that an error half-way sets back the handlers that were replaced.
    try:
        for number in ENDING:
            handler = signal.getsignal(number)
            # None is a handler that was not set by Python, which could not be set again.
            if handler not in (None, signal.SIG_IGN):
                handlers[number] = handler
                signal.signal(number, hold)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
