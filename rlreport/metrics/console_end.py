"""Tell from the last lines of a console whether it ends with an error, and with which."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rlreport.ended import ENDED
from rlreport.metrics.progress_bars import Bar, Bars
from rlreport.text.clean import printable, safe_text, shortened
from rlreport.text.messages import message
from rlreport.text.secrets import is_secret

_MOST_PIECES = 500  # of which a traceback is searched
_MOST_BYTES = 1_000  # of each of them
_MOST_TEXT = 200  # characters of an error
_UNNAMED = "Error"  # in place of the name of one that cannot be shown

_TRACEBACK = "Traceback (most recent call last):"
# What launchers put before each line of a process, such as ``[rank0]: ``
_PREFIX = re.compile(r"\[rank\d{1,6}\]: ?|\(\w{1,40} pid=[^)]{1,60}\) ")
_ERROR = re.compile(r"(?P<kind>[A-Za-z_][\w.]{0,200})(?P<text>: .*)?")
# Lines after an error that belong to it, or that a tracker writes when the process ends
_AFTER = re.compile(
    r"wandb: .*|CUDA kernel errors might be .*|For debugging consider .*"
    r"|Compile with `TORCH_USE_CUDA_DSA` .*|Device-side assertion.*"
    r"|Set the environment variable HYDRA_FULL_ERROR=1 .*"
)
# What Ray says before the error of a worker, which follows
_OF_WORKER = "ray.exceptions.RayTaskError("


@dataclass(slots=True)
class ConsoleEnd:
    """The last lines of a console, without its progress bars."""

    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_PIECES))

    def seen(self, pieces: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces of a console, and keep the last ones."""
        kept: deque[bytes] = deque(maxlen=_MOST_PIECES)
        for line, piece in pieces:
            if not piece.isspace() and piece:
                kept.append(piece[:_MOST_BYTES])
            yield line, piece
        bars = Bars()
        for piece in kept:
            without_bars = bars.read(piece).decode(errors="replace")
            text = _PREFIX.sub("", without_bars, count=1)
            if text.strip():
                self._lines.append(text.rstrip())

    def error(self) -> str:
        """Return the error with which the console ends, in one line; "" without any."""
        lines = list(self._lines)
        # It may stand right behind a bar, which is cut.
        starts = [i for i, line in enumerate(lines) if line.strip() == _TRACEBACK]
        if not starts:
            return ""
        after = lines[starts[-1] + 1 :]
        rest = [line for line in after if not line.startswith((" ", "\t"))]
        if len(rest) > 1 and rest[0].startswith(_OF_WORKER):
            del rest[0]
        if not rest or not all(map(_AFTER.fullmatch, rest[1:])):
            return ""
        error = _ERROR.fullmatch(rest[0])
        if error is None:
            return ""
        # Judged before it is cut, as its end may be the secret
        text = error["kind"] if is_secret(ENDED, rest[0]) else rest[0]
        if is_secret(ENDED, text):  # what stands for the kind may be one, too
            text = _UNNAMED
        return shortened(printable(safe_text(" ".join(text.split()))), _MOST_TEXT)

    def remark(self, bar: Bar | None, bars: Bars) -> str:
        """Return what to say of the end, "" without an error; ``bar`` tells its step."""
        error = self.error()
        if not error:
            return ""
        if bar is None or bar not in bars.done:
            return message("the console ends with an error: {error}", error=error)
        return message(
            "the console ends with an error: {error} (at step {step:count} of {total:count})",
            error=error,
            step=bars.done[bar],
            total=bar.total,
        )
