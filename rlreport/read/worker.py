"""A reading process: splits come in on standard input, one partial goes out on standard output."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import IO

from rlreport.errors import RlreportError
from rlreport.read.scan import Scanner
from rlreport.read.workers import write_message


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Scan splits until None comes, then send the partial.

    Messages out are (kind, value): ``advanced`` with bytes read, ``done`` after a split,
    ``partial`` at the end, ``error`` with an RlreportError.
    """
    options, figures = pickle.load(incoming)
    scanner = Scanner(options, figures)
    try:
        while (split := pickle.load(incoming)) is not None:
            scanner.add(split, lambda count: write_message(outgoing, ("advanced", count)))
            write_message(outgoing, ("done", None))
        write_message(outgoing, ("partial", scanner.partial()))
    except RlreportError as error:
        write_message(outgoing, ("error", error))


def main() -> None:
    """Serve the parent process."""
    # Ctrl-C is the parent's to answer; it ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not land among the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, outgoing)
    except (EOFError, BrokenPipeError):
        # The parent is gone.
        sys.exit(1)


if __name__ == "__main__":
    main()
