"""Where every response lies in the logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import IO, TYPE_CHECKING

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.remote import AHEAD, read_ranges
from rlreport.read.sources import Source
from rlreport.read.splits import LogFormat
from rlreport.text.tokens import Style
from rlreport.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("file", "line", "offset", "length", "sub", "step", "n")
_MOST_OPEN = 16
_MOST_STRINGS = 1 << 18
_GOT_BYTES = 32 << 20
_GOT_ROWS = 512


def _no_rows() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class RowLocations:
    """All that the second pass needs: picklable, 56 bytes a response.

    Attributes:
        sources, formats: by file.
        file, line, offset, length, sub, step, n: int64 (R,), columns of the response table.
        style: how the run's token strings are written; None where it cannot be told.
    """

    sources: list[Source]
    formats: list[LogFormat]
    file: Ints = field(default_factory=_no_rows)
    line: Ints = field(default_factory=_no_rows)
    offset: Ints = field(default_factory=_no_rows)
    length: Ints = field(default_factory=_no_rows)
    sub: Ints = field(default_factory=_no_rows)
    step: Ints = field(default_factory=_no_rows)
    n: Ints = field(default_factory=_no_rows)
    style: Style | None = None
    _open: dict[int, IO[bytes]] = field(default_factory=dict, repr=False, compare=False)
    _vocabulary: Vocabulary | None = field(default=None, repr=False, compare=False)
    _expected: list[int] = field(default_factory=list, repr=False, compare=False)
    _got: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    def without_rows(self) -> RowLocations:
        """Return what is the same for all rows, for whoever gets rows with ``take_rows``."""
        return RowLocations(self.sources, self.formats, style=self.style)

    def take_rows(self, rows: pd.DataFrame) -> None:
        """Let these rows of the response table be all there are, numbered from 0."""
        for name in _COLUMNS:
            setattr(self, name, rows[name].to_numpy())

    def expect(self, rows: Sequence[int]) -> None:
        """Say which rows will be read next, and in which order: those in stores come together."""
        self._expected, self._got = list(reversed(rows)), {}

    def read(self, row: int) -> bytes:
        """Return the bytes of a row's line.

        Streams stay open: a compressed file is unpacked once, not once a step, as long as
        rows are asked for in ascending order.

        Raises:
            OSError: the file cannot be read.
        """
        file = int(self.file[row])
        offset, length = int(self.offset[row]), int(self.length[row])
        if self._ranged(row):
            if row not in self._got:
                self._get_with_next(row)
            return self._got.pop(row)
        stream = self._open.get(file)
        if stream is None or (stream.tell() > offset and self.sources[file].compression):
            if stream is not None:
                stream.close()
                del self._open[file]
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            stream = self._open[file] = self.sources[file].open(AHEAD)
        stream.seek(offset)
        return stream.read(length)

    def _ranged(self, row: int) -> bool:
        """Whether a row is a range of bytes in a store."""
        source = self.sources[self.file[row]]
        return bool(source.store and not source.compression)

    def _get_with_next(self, row: int) -> None:
        """Get a row's line and those that are expected after it, as many as fit into memory."""
        wanted, size, store = [row], int(self.length[row]), self.sources[self.file[row]].store
        while self._expected and self._expected.pop() != row:
            pass
        while self._expected and size < _GOT_BYTES and len(wanted) < _GOT_ROWS:
            following = self._expected.pop()
            if self._ranged(following) and self.sources[self.file[following]].store == store:
                wanted.append(following)
                size += int(self.length[following])
        ranges = [
            (self.sources[self.file[i]], int(self.offset[i]), int(self.offset[i] + self.length[i]))
            for i in wanted
        ]
        self._got = dict(zip(wanted, read_ranges(ranges), strict=True))

    def vocabulary(self, pad_tokens: tuple[str, ...]) -> Vocabulary:
        """Return the numbers of token strings, kept from one page to the next."""
        if self._vocabulary is None or len(self._vocabulary) > _MOST_STRINGS:
            self._vocabulary = Vocabulary(pad_tokens)
        return self._vocabulary

    def close(self) -> None:
        """Close what was opened."""
        for stream in self._open.values():
            stream.close()
        self._open.clear()

    def __reduce__(self) -> tuple[type[RowLocations], tuple[object, ...]]:
        """Leave open streams and the vocabulary behind."""
        shared = (item.name for item in fields(self) if item.repr)
        return RowLocations, tuple(getattr(self, name) for name in shared)
