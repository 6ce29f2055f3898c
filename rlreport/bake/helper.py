"""A process that bakes: a function and what its jobs share come in, then jobs; pages go out."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import IO

from rlreport.errors import RlreportError


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Answers every job with what became of it, until the parent is gone.

    A pair of a function and a shared value begins a new batch, and is answered with True.
    """
    bake, shared = None, None
    while True:
        message = pickle.load(incoming)
        answer: object = True
        if isinstance(message, tuple):
            bake, shared = message
        elif bake is not None:
            try:
                answer = bake(message, shared)
            except RlreportError as error:
                answer = error
        pickle.dump(answer, outgoing, protocol=pickle.HIGHEST_PROTOCOL)
        outgoing.flush()


def main() -> None:
    """Serves the parent process."""
    # Ctrl-C is the parent's to answer; it ends its helpers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not land among the pages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Loaded before the first job, while the parent reads the logs.
    import rlreport.bake.pages  # noqa: F401
    from rlreport.draw.engine import start_drawing

    start_drawing()
    try:
        serve(sys.stdin.buffer, outgoing)
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
