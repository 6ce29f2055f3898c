"""Texts and tokens of all rows, in temporary files.

A worker puts those of the rows it reads into a ``PartFolder``, a file for some MB of a log, and the
main process moves them to the ``RolloutSpool``: neither ever holds those of a whole log in memory,
although one worker reads a compressed file of any size.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlreport.errors import OutputError
from rlreport.figures.ragged import Ints, offsets_of
from rlreport.figures.tokens import KEPT
from rlreport.read.rollouts import (
    ABSENT,
    TEXTS,
    RolloutPart,
    Rollouts,
    RowIds,
)
from rlreport.read.vocabulary import Numbers
from rlreport.signals import held
from rlreport.text.tokens import detect_style

# A packed ``RolloutPart``, or the file that holds it
Parcel: TypeAlias = bytes | Path

_STYLE_TOKENS = 5000  # token strings from which their encoding is detected
_CALL = TEXTS.index("call")
_PIECE = 1 << 18  # values that are written at a time where a figure was not logged


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A temporary folder for packed parts; without a path, parts stay in memory."""

    path: Path | None = None

    def put(self, pieces: Sequence[bytes | memoryview]) -> Parcel:
        """Write a packed part to a new file; return the file, or the part itself without a path."""
        if self.path is None:
            return b"".join(pieces)
        file = self.path / secrets.token_hex(8)
        try:
            with file.open("wb") as stream:
                stream.writelines(pieces)
        except OSError as error:
            raise _cannot_write(error) from None
        return file


@contextmanager
def part_folder() -> Iterator[PartFolder]:
    """Yield a new folder, and remove it at the end."""
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    path = Path(tempfile.gettempdir()) / f"rlreport-{secrets.token_hex(8)}"
    try:
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            raise _cannot_write(error) from None
        yield PartFolder(path)
    finally:
        with held():
            shutil.rmtree(path, ignore_errors=True)


def packed_part(parcel: Parcel) -> bytes:
    return parcel.read_bytes() if isinstance(parcel, Path) else parcel


class _Column:
    """Values in an unnamed temporary file, which is deleted when its process ends."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype
        self.size = 0
        self._file: IO[bytes] | None = None

    def append(self, values: NDArray[Any]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="rlreport-")  # noqa: SIM115 - kept open
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self._file.flush()  # here, where a full disk is reported
        self.size += len(values)

    def append_unlogged(self, count: int) -> None:
        """Append NaN ``count`` times, in pieces: ``count`` may be all tokens so far."""
        for start in range(0, count, _PIECE):
            self.append(np.full(min(_PIECE, count - start), np.nan, np.float32))

    def mapped(self) -> NDArray[Any]:
        """Return all values appended so far, mapped into memory."""
        # An empty file cannot be mapped.
        if self._file is None or not self.size:
            return np.empty(0, self.dtype)
        mapped = np.memmap(self._file, self.dtype, "r", shape=(self.size,))
        # Slices of a plain array are made faster than those of a memmap.
        return mapped.view(np.ndarray)


class SpooledTexts(NamedTuple):
    """A text of each of R rows, in a temporary file."""

    spans: (
        Ints  # int64 (R, 2): where it starts and ends in ``texts``, ABSENT without one
    )
    texts: NDArray[np.uint8]  # UTF-8

    def text(self, row: int) -> str | None:
        start, stop = self.spans[row].tolist()
        if start == ABSENT:
            return None
        return self.texts[start:stop].tobytes().decode()

    def size(self, rows: Ints) -> int:
        """Return how many bytes the texts of these rows have."""
        starts, stops = self.spans[rows].T
        return int((stops - starts).sum())


class _RowFields(NamedTuple):
    """What is kept in memory of R rows."""

    spans: Ints  # see ``RolloutPart``
    lengths: Ints
    flags: NDArray[np.uint8]


class RolloutSpool:
    """The texts and tokens of all rows read so far, in temporary files of a column each."""

    def __init__(self) -> None:
        # The first part has no rows, so that there is always something to concatenate.
        self._row_parts = [
            _RowFields(
                spans=np.zeros((0, len(TEXTS), 2), np.int64),
                lengths=np.zeros(0, np.int64),
                flags=np.zeros(0, np.uint8),
            )
        ]
        self._numbers = Numbers()
        self._texts = _Column(np.uint8)
        self._ids = _Column(np.int32)
        self._sampled = _Column(np.bool_)
        self._figures: dict[str, _Column] = {}

    def take(self, parcels: Sequence[Parcel]) -> None:
        """Append parts, and remove their files."""
        try:
            for parcel in parcels:
                self._append(RolloutPart.unpacked(packed_part(parcel)))
                # At once, so that the disk never holds two copies of all parts
                if isinstance(parcel, Path):
                    parcel.unlink()
        except OSError as error:
            raise _cannot_write(error) from None

    def _append(self, part: RolloutPart) -> None:
        """Append the responses of a part: their tokens become ids of the spool's vocabulary."""
        # Spans are positions in the column of texts, which already has those of earlier parts.
        is_logged = part.spans != ABSENT
        spans = np.where(is_logged, part.spans + self._texts.size, ABSENT)
        # Copies: the arrays of an unpacked part keep all its bytes in memory.
        row_fields = _RowFields(spans, part.lengths.copy(), part.flags.copy())
        self._row_parts.append(row_fields)
        # Each column of figures has a value for every token, NaN where one was not logged.
        for name in part.figures:
            if name not in self._figures:
                self._figures[name] = _Column(np.float32)
                self._figures[name].append_unlogged(self._ids.size)
        for name, column in self._figures.items():
            if name in part.figures:
                column.append(part.figures[name])
            else:
                column.append_unlogged(len(part.ids))
        self._texts.append(part.texts)
        self._sampled.append(part.sampled)
        if len(part.ids):
            numbers = self._numbers.of(part.vocabulary)
            self._ids.append(numbers[part.ids])

    def calls(self, order: Ints) -> SpooledTexts:
        """Return what a reward function takes of the appended rows at the indices ``order``."""
        spans = np.concatenate([part.spans[:, _CALL] for part in self._row_parts])
        return SpooledTexts(spans[order], self._texts.mapped())

    def rollouts(self, places: RowIds, order: Ints) -> Rollouts:
        """Return the appended responses at the indices ``order``, with the ids ``places``.

        They share the files, which stay open; rows that are not chosen take no memory.
        """
        spans, lengths, flags = map(np.concatenate, zip(*self._row_parts, strict=True))
        starts = offsets_of(lengths)[:-1]
        vocabulary = list(self._numbers)
        spans = spans[order]
        spans[:, _CALL] = ABSENT  # pages need no reward function
        return Rollouts(
            places=places,
            spans=spans,
            starts=starts[order],
            lengths=lengths[order],
            flags=flags[order],
            texts=self._texts.mapped(),
            ids=self._ids.mapped(),
            sampled=self._sampled.mapped(),
            figures={n: self._figures[n].mapped() for n in KEPT if n in self._figures},
            vocabulary=vocabulary,
            style=detect_style(vocabulary[:_STYLE_TOKENS]),
        )


def no_rollouts() -> Rollouts:
    nothing = np.zeros(0, np.int64)
    places = RowIds(nothing, nothing, nothing, nothing, nothing, [])
    return RolloutSpool().rollouts(places, nothing)


def _cannot_write(error: OSError) -> OutputError:
    return OutputError(
        f"cannot write temporary files to {tempfile.gettempdir()}: {error.strerror}"
    )
