"""Follow a training to its end, whichever it is, and have its report built by another process."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from rlreport.ended import INTERRUPTED, STOPPED, Ended
from rlreport.system.import_path import safe_import_path
from rlreport.training import messages
from rlreport.training.messages import Answer, Message, Request

# Job schedulers kill a process some time after SIGTERM, often 30 s: the rest is for its own end.
SECONDS_AFTER_SIGNAL = 15.0
# Longest wait for a report otherwise; other processes of a distributed training may wait, too
SECONDS_AT_END = 300.0
_SECONDS_TO_CANCEL = 5.0


class Session:
    """The reports of one training: those on the way, and one at its end.

    It must be made by the process that trains. In processes forked from that one it does nothing.
    """

    def __init__(
        self, request: Request, cwd: str, last_step: Callable[[], int | None]
    ) -> None:
        """Start to follow a training.

        Args:
            request: what to build.
            cwd: the folder to which paths of the user are relative.
            last_step: returns the last step of the training, None if it is not known.

        Raises:
            OSError: no process can be started.
        """
        self._last_step = last_step
        self._pid = os.getpid()
        self._earlier_error = _last_error()
        self._is_over = False
        self._deadline: float | None = None  # since a signal ends the training
        self._is_waiting = False  # for the last report, after a signal
        self._process = _start(cwd)
        self._send(request)
        self._previous: Any = None  # handler of SIGTERM before this training
        self._handle_sigterm()
        self._shell = self._follow_cells()
        atexit.register(self._at_exit)

    @property
    def is_live(self) -> bool:
        """Whether this process trains, and the training has not ended."""
        return not self._is_over and os.getpid() == self._pid

    @property
    def was_signalled(self) -> bool:
        """Whether SIGTERM asked the training to end, and a handler of the user let it go on."""
        return self._deadline is not None

    def build(self) -> None:
        """Build a report while the training goes on, unless one is being built."""
        if self.is_live:
            self._send(Message(type=messages.BUILD))

    def cancel(self) -> None:
        """Forget the training without a report."""
        if not self.is_live:
            return
        self._is_over = True
        self._send(Message(type=messages.CANCEL))
        self._release()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=_SECONDS_TO_CANCEL)

    def end(self, how: str, text: str = "") -> Answer | None:
        """Have the last report built, and wait for it some time.

        Args:
            how: how the training ended, see ``rlreport.ended``.
            text: the message of an exception.

        Returns:
            The answer of the build; None if there is no training, or it is not waited for.
        """
        if not self.is_live:
            return None
        self._is_over = True
        after_signal = how in ("SIGTERM", INTERRUPTED)
        limit = SECONDS_AFTER_SIGNAL if after_signal else SECONDS_AT_END
        if self._deadline is not None:
            limit = max(0.0, self._deadline - time.monotonic())
        self._is_waiting = after_signal
        self._send(Message(type=messages.END, ended=self._ended(how, text)))
        try:
            return self._answer(limit)
        finally:
            self._release()

    def end_by(self, error: BaseException | None) -> Answer | None:
        """Do what ``end`` does for a training that an error ended, or ``sys.exit`` (None)."""
        if self.was_signalled:
            return self.end("SIGTERM")
        if error is None:
            return self.end(STOPPED)
        if isinstance(error, KeyboardInterrupt):
            return self.end(INTERRUPTED)
        if isinstance(error, SystemExit):
            code = error.code
            return self.end(STOPPED, f"exit status {code}" if code else "")
        return self.end(type(error).__name__, _message_of(error))

    def _ended(self, how: str, text: str = "") -> Ended:
        return Ended(how=how, text=text, step=self._last_step())

    def _send(self, message: Request | Message) -> None:
        """Write a line to the waiting process, without a buffer, as signals may interrupt this."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it is dead
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def _answer(self, limit: float) -> Answer | None:
        """Wait for the answer of the last build; None if that takes too long."""
        has_ended = False
        try:
            output, _ = self._process.communicate(timeout=limit)
            has_ended = True
        except subprocess.TimeoutExpired as error:
            output = error.output or b""  # the processes may take long to end
        except KeyboardInterrupt:
            output = b""
        lines = output.splitlines()
        if lines:
            answer: Answer = json.loads(lines[-1])
            return answer
        if has_ended:
            status = self._process.returncode
            return Answer(
                error=f"the process that builds it ended with status {status}"
            )
        self._leave()
        return None

    def _leave(self) -> None:
        """Let the last build go on after the end of this process, and print its answer itself."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.returncode = 0  # else Python warns that the process is running

    def _at_exit(self) -> None:
        """End a training that the end of this process interrupts."""
        if self.is_live:
            error = _last_error()
            is_new = error is not self._earlier_error
            say_answer(self.end_by(error if is_new else None))

    def _handle_sigterm(self) -> None:
        """Handle SIGTERM from now on, unless it is ignored."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._previous = signal.getsignal(signal.SIGTERM)
        # None is a handler that was not set by Python, which could not be called.
        if self._previous not in (None, signal.SIG_IGN):
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Have the last report built, and do what would have happened without this handler."""
        if os.getpid() != self._pid:
            _handle_as_before(self._previous, number, frame)
            return
        if callable(self._previous):
            # It may save a checkpoint or end this process: it comes first, and the report is built
            # meanwhile. It may let the training go on: that has another report at its end.
            if self.is_live:
                self._deadline = time.monotonic() + SECONDS_AFTER_SIGNAL
                ended = self._ended("SIGTERM")
                self._send(Message(type=messages.BUILD, ended=ended))
            self._previous(number, frame)
            return
        if self._is_waiting:  # for the report, after an earlier signal
            return
        if self.is_live:
            say_answer(self.end("SIGTERM"))
        sys.exit(128 + number)  # the status in shells

    def _follow_cells(self) -> Any:
        """Follow the cells of a notebook; return its shell, None without one."""
        if threading.current_thread() is not threading.main_thread():
            return None
        interactive = sys.modules.get("IPython")
        shell = interactive.get_ipython() if interactive else None
        if shell is not None:
            shell.events.register("post_run_cell", self._after_cell)
        return shell

    def _after_cell(self, result: Any = None) -> None:
        """End the training if the cell failed; if not, it may go on in a thread."""
        error = getattr(result, "error_in_exec", None)
        if error is not None and self.is_live:
            say_answer(self.end_by(error))

    def _release(self) -> None:
        """Set back what this session changed in the process."""
        atexit.unregister(self._at_exit)
        if self._shell is not None:
            with suppress(ValueError):  # it is not registered
                self._shell.events.unregister("post_run_cell", self._after_cell)
        # Another program's handler that was set meanwhile stays.
        is_ours = signal.getsignal(signal.SIGTERM) == self._on_sigterm
        if is_ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._previous)


def say_answer(answer: Answer | None) -> None:
    """Print the verdict and the path of a report, or warn that there is none; never raise."""
    if answer is None:
        say("rlreport: not waiting for the report; it is still being built")
    elif "error" in answer:
        warn(f"no report was built: {answer['error']}")
    else:
        for line in answer["lines"]:
            say(line)


def say(line: str) -> None:
    """Print a line to standard error; never raise."""
    from rlreport.text.clean import printable

    line = printable(line)  # the text of an error may have control characters
    try:
        print(line, file=sys.stderr, flush=True)
    except Exception:
        # The stream is closed, or a signal came while it was written to.
        with suppress(OSError):
            os.write(2, f"{line}\n".encode(errors="replace"))


def warn(text: str) -> None:
    """Warn; never raise, even if warnings are errors."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(text, stacklevel=3)


def is_main_process() -> bool:
    """Return whether this is the first of the processes that train together."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        rank = os.environ.get(name, "")
        if rank:
            return rank == "0"
    return True


def _start(cwd: str) -> subprocess.Popen[bytes]:
    """Start the process that waits for the end of the training."""
    if not sys.executable:
        raise OSError("the path of Python's executable is not known")
    separable = [one for one in safe_import_path(sys.path) if os.pathsep not in one]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(separable),
        "PYTHONSAFEPATH": "1",
        "CUDA_VISIBLE_DEVICES": "",  # the GPUs are for the training
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rlreport.training.waiter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )


def _handle_as_before(previous: Any, number: int, frame: FrameType | None) -> None:
    """Do in a forked process what a signal would do without this module."""
    if callable(previous):
        previous(number, frame)
        return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _last_error() -> BaseException | None:
    """Return the last exception that nobody caught."""
    error: BaseException | None = getattr(sys, "last_exc", None)
    return error or getattr(sys, "last_value", None)


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:10_000]
    except Exception:  # of a strange class
        return ""
