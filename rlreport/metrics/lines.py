"""Lines of files of metrics, and counts of those that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlreport.read.lines import ByteRange, Lines
from rlreport.read.listing import COMPRESSIONS
from rlreport.system.documents import (
    MAX_LINE,
    LimitError,
)
from rlreport.system.stores import Source
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import safe_text
from rlreport.text.messages import message, translatable

# Why rows of a metrics file are not used
STEP = translatable(
    "rows of trainer metrics whose step is not a whole number, left out"
)
JSON = translatable("lines of trainer metrics that are not valid JSON, left out")
CELLS = translatable(
    "rows of trainer metrics with the wrong number of columns, left out"
)
ROUNDED = translatable(
    "trainer metrics that the console prints as 0.000 at all steps, left out as their values are "
    "unknown"
)
NUMBERED = translatable(
    "rows of trainer metrics without a step, numbered in their order"
)
REST = translatable("the file of trainer metrics cannot be read from here on")


class UnusedRows:
    """Rows of a metrics file that are unusable or read in an unusual way, counted by reason.

    Attributes:
        settings: the configuration of the run that rows have instead of metrics.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()
        self._first_lines: dict[str, int | None] = {}
        self._remarks: dict[str, NoteKind] = {}

    def remark(self, text: str, kind: NoteKind = NoteKind.METRICS) -> None:
        """Add a remark on the whole file, once; of kind FORMAT, it is told at once."""
        self._remarks[text] = kind

    def add(self, why: str, line: int | None, count: int = 1) -> None:
        self._counts[why] += count
        self._first_lines.setdefault(why, line)

    def notes(self, file: str) -> list[Note]:
        """Return one note per reason and remark."""
        notes = [
            Note(NoteKind.METRICS, message(why), count, file, self._first_lines[why])
            for why, count in self._counts.items()
        ]
        return notes + [
            Note(kind, text, 1, file) for text, kind in self._remarks.items()
        ]


_MAX_NAMED = 5  # in a note


def first_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first of some names as a part of a note, and "…" if there are more."""
    more = ["…"] if len(names) > _MAX_NAMED else []
    return (*(f"`{safe_text(name)}`" for name in names[:_MAX_NAMED]), *more)


SEARCHED_LEVELS = 6  # of folders below the one that the user gave
MAX_UNPACKED = 4_000_000_000  # Maximum decompressed size of a metrics file in bytes

_BOOLEANS = {"True": 1.0, "False": 0.0}


def lines_of(
    path: Path, longest: int = MAX_LINE, unused: UnusedRows | None = None
) -> Generator[bytes]:
    """Yield the decompressed lines of a file, as far as it can be read.

    If it cannot be read to its end, ``unused`` counts that, with the last line that was read.

    Raises:
        ValueError: not even the first line can be read.
        LimitError: a line has more than ``longest`` bytes, or all more than MAX_UNPACKED.
    """
    compression = COMPRESSIONS.get(path.suffix, "")
    source = Source("", str(path), path.stat().st_size, compression)
    lines = Lines(ByteRange(0, source), longest)
    line = None
    count = 0
    for line in lines:
        if line.data is None:  # its data is left out, as it is too long
            raise LimitError(
                message("a line is longer than {most:count} bytes", most=longest)
            )
        if line.offset > MAX_UNPACKED:
            raise LimitError(
                message("larger than {most:count} bytes", most=MAX_UNPACKED)
            )
        count += 1
        yield line.data
    # Known only at the end: why the file could not be read further
    if lines.damage and line is None:
        raise ValueError(lines.damage)
    if lines.damage and unused is not None:
        unused.add(REST, count)


def number(cell: str) -> float | None:
    """Return the number in a cell (True is 1, "nan" is NaN), None if there is none."""
    try:
        return float(_BOOLEANS.get(cell, cell))
    except ValueError:
        return None


def falls(steps: Iterable[int]) -> bool:
    """Return whether a step is lower than the one before it, as after a restart."""
    return any(after < before for before, after in pairwise(steps))
