"""Call a function of a user's file in a process of its own, with a time limit for each call.

Such a function may print, hang, leak memory or end its process: none of it reaches this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any, NamedTuple, cast

from rlreport.errors import UsageError
from rlreport.system import function_server
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

# Importing a large package may take far longer than a call
START_SECONDS = 120.0


class FunctionName(NamedTuple):
    """Which function of which file; without a ``name``, the only one that can be used."""

    file: Path
    name: str

    @classmethod
    def of(cls, text: str | Path) -> FunctionName:
        """Return what ``FILE.py`` or ``FILE.py:NAME`` means; raise UsageError without the file."""
        text = os.fspath(text)
        path, _, name = text.rpartition(":")
        if not (path and name.isidentifier()):
            path, name = text, ""
        file = Path(path)
        if not file.is_file():
            raise UsageError(f"{path}: there is no such file of Python code")
        return cls(file, name)

    def __str__(self) -> str:
        return f"{self.file.name}:{self.name}" if self.name else self.file.name


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes.

    Attributes:
        name: of the function.
        per_row: whether it takes one response (verl) instead of a list of them (TRL).
        required: names of the parameters without a default.
        optional: names of the others.
        is_open: whether it takes any further arguments by name.
    """

    name: str
    per_row: bool
    required: tuple[str, ...]
    optional: tuple[str, ...]
    is_open: bool


class Results(NamedTuple):
    """The rewards of a call, None where there is none; ``reasons``: index -> why there is none."""

    rewards: list[float | None]
    reasons: dict[int, str]


class CallError(Exception):
    """A call gave nothing; ``reason`` says why. ``stopped``: it ended the function's process."""

    def __init__(self, reason: str, *, stopped: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.stopped = stopped


class FunctionProcess:
    """A process with the function; it is started again after a call that ended it."""

    def __init__(self, function: FunctionName, seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._timed_out = False
        self.signature = self._start()

    def call(self, arguments: Mapping[str, Any], size: int) -> Results:
        """Call the function for ``size`` responses.

        Raises:
            CallError: the call raised an exception, took too long, or ended its process.
            UsageError: what it returned is not one reward for each response.
        """
        if self._process is None:
            self._start()
        call = {"arguments": arguments, "size": size, "per_row": self.signature.per_row}
        answer = self._exchange(json.dumps(call).encode(), self._seconds)
        if "failed" in answer:
            raise CallError(safe_text(answer["failed"]))
        self._refuse(answer)
        reasons = {int(n): safe_text(why) for n, why in answer["reasons"].items()}
        return Results(answer["rewards"], reasons)

    def close(self) -> None:
        """End the process, and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # a request may still be in the buffer
                cast("IO[bytes]", stream).close()
        process.wait()

    def _start(self) -> Signature:
        # -B: nothing is written beside the user's file
        command = [sys.executable, "-P", "-B", "-X", "utf8", function_server.__file__]
        command += [str(self._function.file.absolute()), self._function.name]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that ``_kill`` reaches what it started, too
        )
        try:
            described = self._exchange(b"", max(START_SECONDS, self._seconds))
        except CallError as error:
            raise UsageError(
                f"{self._function.file.name} cannot be imported: {error}"
            ) from None
        self._refuse(described)
        return Signature(
            name=described["name"],
            per_row=described["per_row"],
            required=tuple(described["required"]),
            optional=tuple(described["optional"]),
            is_open=described["open"],
        )

    def _refuse(self, answer: Mapping[str, Any]) -> None:
        if "refused" in answer:
            self.close()
            raise UsageError(f"{self._function}: {answer['refused']}")

    def _exchange(self, request: bytes, seconds: float) -> dict[str, Any]:
        """Send a line, if it is not empty, and return the line that answers it."""
        process = self._process
        assert process is not None
        answer = b""
        self._timed_out = False
        timer = Timer(seconds, self._stop, [process])
        timer.daemon = True
        timer.start()
        try:
            with suppress(OSError):  # it ended: reading then gives nothing
                if request:
                    stdin = cast("IO[bytes]", process.stdin)
                    stdin.write(request + b"\n")
                    stdin.flush()
                answer = cast("IO[bytes]", process.stdout).readline()
        except (
            BaseException
        ):  # such as the exception of a signal: the answer is still to come
            self.close()
            raise
        finally:
            timer.cancel()
        if answer.endswith(b"\n") and not self._timed_out:
            result: dict[str, Any] = json.loads(answer)
            return result
        self.close()
        if self._timed_out:
            reason = message(
                "took longer than {seconds} seconds", seconds=f"{seconds:g}"
            )
        else:
            status = _status(process.returncode)
            reason = message("ended its process ({status})", status=status)
        raise CallError(reason, stopped=True)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        self._timed_out = True
        _kill(process)


@contextmanager
def function_process(
    function: FunctionName, seconds: float
) -> Iterator[FunctionProcess]:
    """Yield a process with the function, and end it; raise UsageError if it cannot be used."""
    process = FunctionProcess(function, seconds)
    try:
        yield process
    finally:
        process.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):  # it has ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _status(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit status {code}"
