"""Texts and tokens of all rows, in temporary files.

A worker puts those of the rows it reads into a ``PartFolder``, a file for some MB of a log, and the
main process moves them to the ``RolloutSpool``: neither ever holds those of a whole log in memory,
although one worker reads a compressed file of any size. If the main process is the only one that
reads, it appends them to the spool at once.
"""

from __future__ import annotations

import mmap
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
from rlreport.read.digests import DIGEST_BYTES
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
            raise cannot_write(error) from None
        return file


@contextmanager
def part_folder() -> Iterator[PartFolder]:
    """Yield a new folder, and remove it at the end."""
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    path = _temporary_folder() / f"rlreport-{secrets.token_hex(8)}"
    try:
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            raise cannot_write(error) from None
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

    def mapped(self, maps: list[mmap.mmap] | None = None) -> NDArray[Any]:
        """Return all values appended so far, mapped into memory; add the map to ``maps``."""
        # An empty file cannot be mapped.
        if self._file is None or not self.size:
            return np.empty(0, self.dtype)
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        if maps is not None:
            maps.append(mapped)
        return np.frombuffer(mapped, self.dtype)


class SpooledTexts(NamedTuple):
    """A text of each of R rows, in a temporary file."""

    # int64 (R, 2): where it starts and ends in ``texts``, ABSENT without one
    spans: Ints
    texts: NDArray[np.uint8]  # UTF-8
    maps: Sequence[mmap.mmap]  # the file that ``texts`` is in

    def text(self, row: int) -> str | None:
        start, stop = self.spans[row].tolist()
        if start == ABSENT:
            return None
        return self.texts[start:stop].tobytes().decode()

    def size(self, rows: Ints) -> int:
        """Return how many bytes the texts of these rows have."""
        starts, stops = self.spans[rows].T
        return int((stops - starts).sum())


class RolloutSpool:
    """The texts and tokens of all rows read so far, in temporary files of a column each."""

    def __init__(self) -> None:
        # Of each row, see ``RolloutPart``; 2 * len(TEXTS) spans
        self._spans = _Column(np.int64)
        self._lengths = _Column(np.int64)
        self._flags = _Column(np.uint8)
        self._digests = _Column(np.uint8)
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
            raise cannot_write(error) from None

    def append(self, part: RolloutPart) -> None:
        """Append a part that this process read."""
        try:
            self._append(part)
        except OSError as error:
            raise cannot_write(error) from None

    def _append(self, part: RolloutPart) -> None:
        """Append the responses of a part: their tokens become ids of the spool's vocabulary."""
        # Spans are positions in the column of texts, which already has those of earlier parts.
        is_logged = part.spans != ABSENT
        spans = np.where(is_logged, part.spans + self._texts.size, ABSENT)
        self._spans.append(spans.ravel())
        self._lengths.append(part.lengths)
        self._flags.append(part.flags)
        self._digests.append(part.digests.ravel())
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
        maps: list[mmap.mmap] = []
        spans = self._spans_of_rows()[order, _CALL]
        return SpooledTexts(spans, self._texts.mapped(maps), maps)

    def _spans_of_rows(self) -> Ints:
        """Return the spans of all appended rows, mapped into memory, as in ``RolloutPart``."""
        return self._spans.mapped().reshape(-1, len(TEXTS), 2)

    def rollouts(self, places: RowIds, order: Ints) -> Rollouts:
        """Return the appended responses at the indices ``order``, with the ids ``places``.

        They share the files, which stay open; rows that are not chosen take no memory.
        """
        lengths = self._lengths.mapped()
        starts = offsets_of(lengths)[:-1]
        vocabulary = list(self._numbers)
        spans = self._spans_of_rows()[order]
        spans[:, _CALL] = ABSENT  # pages need no reward function
        width = DIGEST_BYTES if self._digests.size else 0  # none without a cache
        digests = self._digests.mapped().reshape(len(lengths), width)
        maps: list[mmap.mmap] = []
        figures = {}
        for name in KEPT:
            if name in self._figures:
                figures[name] = self._figures[name].mapped(maps)
        return Rollouts(
            places=places,
            spans=spans,
            starts=starts[order],
            lengths=lengths[order],
            flags=self._flags.mapped()[order],
            texts=self._texts.mapped(maps),
            ids=self._ids.mapped(maps),
            sampled=self._sampled.mapped(maps),
            figures=figures,
            vocabulary=vocabulary,
            digests=digests[order],
            style=detect_style(vocabulary[:_STYLE_TOKENS]),
            maps=maps,
        )


def no_rollouts() -> Rollouts:
    nothing = np.zeros(0, np.int64)
    places = RowIds(nothing, nothing, nothing, nothing, nothing, [])
    return RolloutSpool().rollouts(places, nothing)


def cannot_write(error: OSError) -> OutputError:
    """Return the error to raise where a temporary file cannot be written."""
    return OutputError(
        f"cannot write temporary files to {_temporary_folder()}: {error.strerror}"
    )


def _temporary_folder() -> Path:
    """Return the folder for temporary files; OutputError if Python finds none to write to."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # its text has the folders that were tried
        raise OutputError(
            f"cannot write temporary files: {error.strerror}; set TMPDIR to a folder that can be "
            "written to"
        ) from None
