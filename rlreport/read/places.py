"""Where every response lies in the logs, and how to go back there."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import IO

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.log_format import LogFormat
from rlreport.read.sources import Source
from rlreport.read.vocabulary import Vocabulary
from rlreport.text.tokens import Style

_MOST_OPEN = 16
_MOST_STRINGS = 1 << 18


@dataclass(slots=True)
class Places:
    """All that the second pass needs: picklable, 56 bytes a response.

    Attributes:
        sources, formats: by file.
        file, line, offset, length, sub, step, n: int64 (R,), columns of the response table.
        style: how the run's token strings are written; None where it cannot be told.
    """

    sources: list[Source]
    formats: list[LogFormat]
    file: Ints
    line: Ints
    offset: Ints
    length: Ints
    sub: Ints
    step: Ints
    n: Ints
    style: Style | None = None
    _open: dict[int, IO[bytes]] = field(default_factory=dict, repr=False, compare=False)
    _vocabulary: Vocabulary | None = field(default=None, repr=False, compare=False)

    def read(self, row: int) -> bytes:
        """Return the bytes of a row's line.

        Streams stay open: a compressed file is unpacked once, not once a step, as long as
        rows are asked for in ascending order.

        Raises:
            OSError: the file cannot be read.
        """
        file = int(self.file[row])
        offset, length = int(self.offset[row]), int(self.length[row])
        stream = self._open.get(file)
        if stream is None or (stream.tell() > offset and self.sources[file].compression):
            if stream is not None:
                stream.close()
                del self._open[file]
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            stream = self._open[file] = self.sources[file].open()
        stream.seek(offset)
        return stream.read(length)

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

    def __getstate__(self) -> dict[str, object]:
        """Leave open streams and the vocabulary behind."""
        own: dict[str, object] = {"_open": {}, "_vocabulary": None}
        return {item.name: getattr(self, item.name) for item in fields(self)} | own

    def __setstate__(self, state: dict[str, object]) -> None:
        """Start without open streams."""
        for name, value in state.items():
            setattr(self, name, value)


def reading_order(places: Places, rows: Ints) -> Ints:
    """Return the order in which rows are read fastest: by file and offset."""
    return np.lexsort((places.sub[rows], places.offset[rows], places.file[rows]))
