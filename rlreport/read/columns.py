"""Columns of rows put together batch by batch and partial by partial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.read.batch import Batch

MOST_EXTRAS = 64
_ABSENT = {"group_hash": 0, "finish_source": 0, "bigrams": 0}

Columns = dict[str, NDArray[np.generic]]


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Put columns one after the other; rows that lack one hold NaN (0 for a few)."""
    lengths = [len(part["step"]) for part in parts]
    joined: Columns = {}
    for name in sorted({name for part in parts for name in part}):
        kind = next(part[name].dtype for part in parts if name in part)
        joined[name] = np.concatenate(
            [
                part[name]
                if name in part
                else np.full(length, _ABSENT.get(name, np.nan), dtype=kind)
                for part, length in zip(parts, lengths, strict=True)
            ]
        )
    return joined


@dataclass(slots=True)
class Extra:
    """A further scalar of some rows.

    Attributes:
        rows, numbers: int64 and float64 (K,), rows that hold a number, and the number.
        texts: row -> text.
    """

    rows: NDArray[np.int64]
    numbers: NDArray[np.float64]
    texts: dict[int, str] = field(default_factory=dict)


class ExtraColumns:
    """Collects further scalars: the first 64 names in alphabetical order."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Extra]] = {}
        self._dropped = False

    def add(self, batch: Batch, base: int) -> None:
        """Add the extras of a batch whose first row is row ``base``."""
        for name, pairs in batch.extras.items():
            numbers = [(base + row, value) for row, value in pairs if not isinstance(value, str)]
            texts = {base + row: value for row, value in pairs if isinstance(value, str)}
            self._add(name, _extra(numbers, texts))
        self._trim()

    def update(self, extras: dict[str, Extra], base: int, *, dropped: bool) -> None:
        """Add the extras of a partial whose first row becomes row ``base``."""
        for name, extra in extras.items():
            texts = {base + row: text for row, text in extra.texts.items()}
            self._add(name, Extra(extra.rows + base, extra.numbers, texts))
        self._dropped = self._dropped or dropped
        self._trim()

    def settled(self) -> tuple[dict[str, Extra], bool]:
        """Return the extras by name, and whether names were left out."""
        result: dict[str, Extra] = {}
        for name in sorted(self._parts):
            parts = self._parts[name]
            texts: dict[int, str] = {}
            for part in parts:
                texts.update(part.texts)
            result[name] = Extra(
                np.concatenate([part.rows for part in parts]),
                np.concatenate([part.numbers for part in parts]),
                texts,
            )
        return result, self._dropped

    def _add(self, name: str, extra: Extra) -> None:
        self._parts.setdefault(name, []).append(extra)

    def _trim(self) -> None:
        # A name that is not among the first 64 here cannot be among the first 64 of all.
        for name in sorted(self._parts)[MOST_EXTRAS:]:
            del self._parts[name]
            self._dropped = True


def _extra(numbers: list[tuple[int, float]], texts: dict[int, str]) -> Extra:
    rows = np.array([row for row, _ in numbers], dtype=np.int64)
    return Extra(rows, np.array([value for _, value in numbers], dtype=np.float64), texts)
