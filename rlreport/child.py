"""Plain child processes that talk to this one over pipes, a pickle a message.

Not ``multiprocessing``: nothing of the caller's main module is imported again, and a child
whose parent dies meets a closed pipe and ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import IO


def start(module: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start ``python -m module`` with pipes to its standard input and output.

    Args:
        module: one whose ``main`` answers inside ``serving``.
        environment: variables beside those of this process.
    """
    paths = os.pathsep.join(path or "." for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
        # Ctrl-C on a terminal reaches a whole group; it is the parent's to answer.
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child, whatever it does."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def send(pipe: IO[bytes] | None, message: object) -> None:
    """Write a message that ``pickle.load`` reads at the other end.

    Raises:
        OSError: the other end is gone.
    """
    if pipe is None:
        raise BrokenPipeError
    pickle.dump(message, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()


@contextlib.contextmanager
def serving() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Give a child's ``main`` the pipes from and to its parent; ends it when the parent is gone."""
    # Ctrl-C is the parent's to answer; it ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not land among the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield sys.stdin.buffer, outgoing
    except (EOFError, BrokenPipeError):
        sys.exit(1)
