"""A reading process: splits come in on standard input, one partial goes out on standard output."""

from __future__ import annotations

import pickle
from typing import IO

from rlreport import child
from rlreport.errors import RlreportError
from rlreport.read.scan import Scanner


def serve(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Scan splits until None comes, then send the partial.

    Messages out are (kind, value): ``advanced`` with bytes read, ``done`` after a split,
    ``partial`` at the end, ``error`` with an RlreportError.
    """
    options, figures = pickle.load(incoming)
    scanner = Scanner(options, figures)
    try:
        while (split := pickle.load(incoming)) is not None:
            scanner.add(split, lambda count: child.send(outgoing, ("advanced", count)))
            child.send(outgoing, ("done", None))
        child.send(outgoing, ("partial", scanner.partial()))
    except RlreportError as error:
        child.send(outgoing, ("error", error))


def main() -> None:
    """Serve the parent process."""
    with child.serving() as (incoming, outgoing):
        serve(incoming, outgoing)


if __name__ == "__main__":
    main()
