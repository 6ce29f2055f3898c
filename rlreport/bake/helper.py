"""A process that bakes: a function and what its jobs share come in, then jobs; pages go out."""

from __future__ import annotations

import pickle
from typing import IO

from rlreport import child
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
        child.send(outgoing, answer)


def main() -> None:
    """Serves the parent process."""
    with child.serving() as (incoming, outgoing):
        # Loaded before the first job, while the parent reads the logs.
        import rlreport.bake.pages  # noqa: F401

        serve(incoming, outgoing)


if __name__ == "__main__":
    main()
