"""The process that waits for the end of a training, and builds its report: ``python -m …``.

It has a session of its own, so that signals to the training's terminal or process group do not
reach it, and ignores those that a job scheduler sends to every process. It ends after the last
build, which starts at the training's word or at its death. Each build is another process, so that
this one stays small: it imports a few modules of the standard library.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from rlreport.ended import KILLED, Ended
from rlreport.training import messages
from rlreport.training.messages import Message, Request

_SECONDS_BETWEEN_LOOKS = 0.5  # for the death of the training
_SECONDS_TO_STOP = 3  # after which a build that does not stop is killed


class _Inbox:
    """Reads messages, one a line, from standard input."""

    def __init__(self) -> None:
        self._data = b""
        self.parent = os.getppid()

    def next(self) -> Any:
        """Wait for a message and return it; None if the training has died without one."""
        while b"\n" not in self._data:
            data = self._read()
            if not data:
                return None
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        return json.loads(line)

    def _read(self) -> bytes:
        """Wait for data; return b"" if the training has died.

        The end of the pipe alone does not tell: processes that the training forked have it open.
        """
        # Windows cannot wait for a pipe in this way, and has no forked processes.
        while os.name == "posix":
            # Asked first: what a dead training wrote last is still read.
            has_died = os.getppid() != self.parent
            wait = 0 if has_died else _SECONDS_BETWEEN_LOOKS
            if select.select([0], [], [], wait)[0]:
                break
            if has_died:
                return b""
        return os.read(0, 1 << 16)


class _Build:
    """A process that builds a report."""

    def __init__(self, request: Request, message: Message) -> None:
        self.ended = message.get("ended")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rlreport.training.builder"],
            stdin=subprocess.PIPE,
            # Nobody waits for the answer of a build during the training.
            stdout=None if self.ended else subprocess.DEVNULL,
            stderr=None if self.ended else subprocess.DEVNULL,
        )
        line = json.dumps({"request": request, "ended": self.ended})
        with suppress(OSError):  # it ended at once
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode())
            self._process.stdin.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        """End the build if it runs, and leave the earlier report as it is."""
        if not self.is_running:
            return
        if os.name == "posix":
            self._process.send_signal(signal.SIGINT)
        else:
            self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> int:
    """Build reports until the training ends; return the exit status of the last build."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # Unlike what is ignored, this is not inherited: so a build can be stopped from its start on.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    inbox = _Inbox()
    request: Request | None = inbox.next()
    if request is None:
        return 0
    if os.name == "posix":
        inbox.parent = request["parent"]  # it may have died before this process began
    build: _Build | None = None
    while True:
        message: Message = inbox.next() or _last_message(build)
        if message["type"] == messages.BUILD:
            build = _next_build(build, request, message)
            continue
        is_same = build is not None and build.ended == message.get("ended")
        if build is not None and not is_same:
            build.stop()
        if message["type"] == messages.CANCEL:
            return 0
        if build is None or not is_same:
            build = _Build(request, message)
        return build.wait()


def _last_message(build: _Build | None) -> Message:
    """Return the message that a training did not send which was killed."""
    killed = Ended(how=KILLED, text="", step=None)
    return {"type": messages.END, "ended": (build and build.ended) or killed}


def _next_build(build: _Build | None, request: Request, message: Message) -> _Build:
    """Start a build; if an earlier one runs, it goes on instead, unless the training is ending."""
    if build is not None and build.is_running:
        if not message.get("ended"):
            return build
        build.stop()
    return _Build(request, message)


if __name__ == "__main__":
    sys.exit(main())
