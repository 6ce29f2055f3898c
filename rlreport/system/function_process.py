"""Call a function of a user's file in a process of its own, with a time limit for each call.

Such a function may print, hang, leak memory or end its process: none of it reaches this process.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import IO, Any, NamedTuple, cast

from rlreport.errors import UsageError
from rlreport.text.clean import printable, shortened
from rlreport.text.messages import message
from rlreport.text.secrets import is_secret

# Run as a script: it would import much into this process
_SERVER = Path(__file__).with_name("function_server.py")
# Importing a large package may take far longer than a call
START_SECONDS = 120.0
# How long a process may take to end after it has closed its pipe, before it is killed
_END_SECONDS = 1.0
_MOST_BYTES = 16 << 20  # of an answer
_MOST_TEXT = 200  # characters of an exception's text


class FunctionName(NamedTuple):
    """Which function of which file; without a ``name``, the only one that can be used."""

    file: Path
    name: str

    @classmethod
    def of(cls, text: str | Path) -> FunctionName:
        """Return what ``FILE.py`` or ``FILE.py:NAME`` means; raise UsageError without the file."""
        text = os.fspath(text)
        path, _, name = text.rpartition(":")
        has_name = bool(path) and name.isidentifier()
        found = cls(Path(path), name) if has_name else cls(Path(text), "")
        if not found.file.is_file():
            raise UsageError(f"{found.file}: there is no such file of Python code")
        return found

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
        self._process: _Process | None = None
        self.signature = self._start()

    def call(self, arguments: Mapping[str, Any], size: int) -> Results:
        """Call the function for ``size`` responses.

        Raises:
            CallError: the call raised an exception, took too long, or ended its process.
            UsageError: what it returned is not one reward for each response.
        """
        if self._process is None:
            self._start()
        call = {
            "arguments": arguments,
            "size": size,
            "per_row": self.signature.per_row,
        }
        answer = self._exchange(call, self._seconds)
        if "failed" in answer:
            raise CallError(_with_text(answer["failed"], answer["text"]))
        self._refuse(answer)
        reasons: dict[int, str] = {}
        for number, why in answer["reasons"].items():
            reasons[int(number)] = why
        return Results(answer["rewards"], reasons)

    def close(self) -> None:
        """End the process, and all that it started."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _start(self) -> Signature:
        """Start the process with the user's function, and return what the function takes."""
        # -B: nothing is written beside the user's file
        command = [sys.executable, "-P", "-B", "-X", "utf8", str(_SERVER)]
        command += [str(self._function.file.absolute()), self._function.name]
        self._process = _Process(command)
        try:
            described = self._exchange({}, max(START_SECONDS, self._seconds))
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
            why = _with_text(answer["refused"], answer["text"])
            raise UsageError(f"{self._function}: {why}")

    def _exchange(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request, and return the answer."""
        process = self._process
        assert process is not None
        try:
            return process.exchange(request, seconds)
        except TimeoutError:
            reason = message(
                "took longer than {seconds} seconds", seconds=f"{seconds:g}"
            )
        except EOFError:
            reason = _end(process.status())
        except BaseException:
            # Such as the exception of a signal: the answer is still to come.
            self.close()
            raise
        self.close()
        raise CallError(reason, stopped=True)


class _Process:
    """A process that runs ``function_server``, with threads that read and write its pipes.

    Reading ends in time even if a process that the function started keeps the pipes open.
    """

    def __init__(self, command: list[str]) -> None:
        self._popen = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that ``_kill`` reaches what it started, too
        )
        # An answer has the token and the number of its request. Whatever else the function or
        # what it started may write into the pipe is discarded.
        self._token = secrets.token_hex(16)
        self._number = 0
        self._is_closed = False
        self._unread = b""
        self._chunks: Queue[bytes] = Queue(maxsize=16)  # b"" at the end
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def exchange(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and return its answer; raise TimeoutError, or EOFError if it closed."""
        end = time.monotonic() + seconds
        self._number += 1
        own = {"token": self._token, "number": self._number}
        line = json.dumps({**request, **own}).encode() + b"\n"
        Thread(target=self._write, args=[line], daemon=True).start()
        while True:
            line = self._line(end)
            # Searched first, as parsing anything else could take long
            if self._token.encode() not in line:
                continue
            with suppress(ValueError, RecursionError):
                answer = json.loads(line)
                if isinstance(answer, dict) and own.items() <= answer.items():
                    return answer

    def status(self) -> int | None:
        """Return the exit status of a process that closed its pipe, None if it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(_END_SECONDS)
        return None

    def close(self) -> None:
        """End the process, and all that it started."""
        self._is_closed = True
        _kill(self._popen)
        with suppress(OSError):
            cast("IO[bytes]", self._popen.stdin).close()
        self._popen.wait()
        self._reader.join(0.2)  # it closes the other pipe

    def _line(self, end: float) -> bytes:
        """Return the next line, without its end."""
        line, is_whole, rest = self._unread.partition(b"\n")
        parts = [line]
        size = len(line)
        while not is_whole:
            try:
                chunk = self._chunks.get(timeout=max(end - time.monotonic(), 0))
            except Empty:
                raise TimeoutError from None
            if not chunk:
                raise EOFError
            if time.monotonic() > end:  # it writes without end
                raise TimeoutError
            line, is_whole, rest = chunk.partition(b"\n")
            size += len(line)
            if size <= _MOST_BYTES:
                parts.append(line)
            else:
                parts.clear()
        self._unread = rest
        return b"".join(parts)

    def _read(self) -> None:
        with cast("IO[bytes]", self._popen.stdout) as stream:
            is_open = True
            while is_open and not self._is_closed:
                chunk = b""
                with suppress(OSError):
                    chunk = stream.read(1 << 16)
                self._put(chunk)
                is_open = bool(chunk)

    def _put(self, chunk: bytes) -> None:
        while not self._is_closed:
            with suppress(Full):
                self._chunks.put(chunk, timeout=0.1)
                return

    def _write(self, line: bytes) -> None:
        stream = cast("IO[bytes]", self._popen.stdin)
        with suppress(OSError, ValueError):  # it ended, or was ended
            while line:
                line = line[stream.write(line) :]


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


def _end(code: int | None) -> str:
    """Return how a process ended that closed its pipe, as a reason."""
    if code is None:
        return message("closed the files through which rlreport calls it")
    status = f"exit status {code}"
    if code < 0:
        with suppress(ValueError):
            status = signal.Signals(-code).name
    return message("ended its process ({status})", status=status)


def _with_text(what: str, text: str) -> str:
    """Return ``what`` with an exception's text in one line, unless that may hold a secret."""
    # Judged before it is cut, as its end may be the secret
    if not text or is_secret("error", text):
        return what
    return f"{what}: {shortened(printable(' '.join(text.split())), _MOST_TEXT)}"
