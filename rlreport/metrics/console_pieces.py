"""Cut a console log into the pieces of text that one write to the terminal left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, starmap
from pathlib import Path

from rlreport.metrics.lines import MAX_UNPACKED, REST, UnusedRows
from rlreport.metrics.notebooks import is_notebook, notebook_lines
from rlreport.read.lines import ByteRange, Lines
from rlreport.read.listing import COMPRESSIONS
from rlreport.system.documents import LimitError
from rlreport.system.stores import Source
from rlreport.text.messages import message

# Maximum size of a piece in bytes. A longer line is several pieces, so that memory is bounded.
MAX_PIECE = 64 << 10

# Colours and movements of the cursor
_ANSI = re.compile(rb"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_ESCAPE = b"\x1b"


def pieces_of(
    path: Path, unused: UnusedRows, most: int | None = None
) -> Iterator[tuple[int, bytes]]:
    r"""Return (number of the line, text) of each piece between line ends, without ANSI codes.

    Progress bars go back to the beginning of their line, so ``\r`` ends a piece, too. If the file
    cannot be read to its end, ``unused`` counts that. No more than about ``most`` bytes are read.
    Of a notebook, the lines are those that its cells printed.

    Raises:
        ValueError: not even its first bytes can be read.
        LimitError: it has more than MAX_UNPACKED bytes.
    """
    if is_notebook(path):
        lines_of_cells = enumerate(notebook_lines(path), 1)
        return chain.from_iterable(starmap(_pieces, lines_of_cells))
    return _pieces_of_file(path, unused, most)


def _pieces_of_file(
    path: Path, unused: UnusedRows, most: int | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a file with lines, see ``pieces_of``."""
    compression = COMPRESSIONS.get(path.suffix, "")
    source = Source("", str(path), path.stat().st_size, compression)
    lines = Lines(ByteRange(0, source))
    number = 1
    rest = b""  # of a line that the last block did not end
    size = 0
    with closing(lines.blocks()) as blocks:
        for block in blocks:
            size += len(block)
            if most is not None and size > most:
                break
            if size > MAX_UNPACKED:
                raise LimitError(
                    message("larger than {most:count} bytes", most=MAX_UNPACKED)
                )
            *ended, rest = (rest + block).split(b"\n")
            for line in ended:
                yield from _pieces(number, line)
                number += 1
            # What is complete of a long line is not kept.
            if len(rest) > MAX_PIECE:
                *ended, rest = rest.split(b"\r")
                for line in ended:
                    yield from _pieces(number, line)
                while len(rest) > MAX_PIECE:
                    yield from _pieces(number, rest[:MAX_PIECE])
                    rest = rest[MAX_PIECE:]
    if rest:
        yield from _pieces(number, rest)
    if lines.damage and not size:
        raise ValueError(lines.damage)
    if lines.damage:
        unused.add(REST, number)


def _pieces(number: int, line: bytes) -> Iterator[tuple[int, bytes]]:
    if _ESCAPE in line:
        line = _ANSI.sub(b"", line)
    for part in line.split(b"\r"):
        for start in range(0, len(part), MAX_PIECE):
            yield number, part[start : start + MAX_PIECE]
