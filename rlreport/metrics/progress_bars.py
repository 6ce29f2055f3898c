"""Read the progress bars of tqdm in a console log: how far each of them is."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

# Maximum number of bars that are followed at a time, and of redraws of each
MAX_BARS = 32
MAX_REDRAWS = 1_000_000

# " 12%|███▌   | 48/400 [02:01<11:20,  1.93s/it]"
_BAR = re.compile(
    rb"\d{1,3}%\|(?:[^|]{0,2000}\|)? *(\d{1,12})/(\d{1,12}) \[[^\]]{0,80}\]?"
)
_DESCRIPTION = re.compile(rb"([A-Za-z][^:|{}\[\]]{0,80}): *$")
_SIGN = b"%|"
_SHORTEST_CLEAR = 8  # spaces


class Bar(NamedTuple):
    """What tells one progress bar from others: its description and the number it goes up to."""

    description: str
    total: int


@dataclass(slots=True)
class Bars:
    """The progress bars of a console so far.

    Before tqdm writes a line, it clears its bars, and afterwards it draws them again. The redrawn
    bar tells the step of the line, even if lines and bars are in different buffers, so that lines
    reach the file late.

    Attributes:
        done: bar -> how far it is.
        redraws: bar -> how far it was at each redraw.
    """

    done: dict[Bar, int] = field(default_factory=dict)
    redraws: dict[Bar, array[int]] = field(default_factory=dict)
    is_cleared: bool = False

    def read(self, piece: bytes) -> bytes:
        """Take a piece of the console; return it without the bars in it."""
        if _SIGN not in piece:
            if len(piece) >= _SHORTEST_CLEAR and piece.isspace():
                self.is_cleared = True
            return piece
        kept: list[bytes] = []
        end = 0
        for match in _BAR.finditer(piece):
            before = piece[end : match.start()]
            end = match.end()
            name = _DESCRIPTION.search(before[-90:])
            if name is not None:
                before = before[: len(before) - len(name[0])]
            kept.append(before)
            description = name[1].decode(errors="replace") if name else ""
            self._draw(Bar(description, int(match[2])), int(match[1]))
        return b"".join([*kept, piece[end:]])

    def forget_redraws(self) -> None:
        """Count redraws from here on only, as another training begins."""
        for bar in self.redraws:
            self.redraws[bar] = array("q")

    def _draw(self, bar: Bar, done: int) -> None:
        if bar not in self.done:
            if len(self.done) >= MAX_BARS:
                oldest = next(iter(self.done))
                self.done.pop(oldest)
                self.redraws.pop(oldest, None)
            self.redraws[bar] = array("q")
        self.done[bar] = done
        if self.is_cleared and len(self.redraws[bar]) < MAX_REDRAWS:
            self.redraws[bar].append(done)
        # Several bars are cleared and redrawn at once, each in a piece of its own.
        self.is_cleared = False
