"""How a training ended. This module imports little, as a process that only waits imports it."""

from __future__ import annotations

from typing import TypedDict

# The configuration's entry of this name, from --meta or the callback, is shown above the verdict,
# unless it begins with FINISHED.
ENDED = "ended"

FINISHED = "finished"
STOPPED = "stopped"  # by ``sys.exit``, or by an exception that the script caught
INTERRUPTED = "Ctrl-C"
KILLED = "killed"  # or exited without notice, as by ``os._exit``


class Ended(TypedDict):
    """How a training ended."""

    how: str  # one of the above, a signal such as SIGTERM, or the name of an exception
    text: str  # message of the exception, else ""
    step: int | None  # the last step, None if it is not known
