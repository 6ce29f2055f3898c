"""What a log format is: it recognises its files and turns their objects into canonical rows.

A canonical row is a dict with fields of ``rlreport.fields``, and any further number, boolean or
short string, kept as a column. ``RowReader`` spreads an ``advantages`` of one number over the
tokens; without tokens it is the column ``advantage``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from rlreport.errors import RowError, UnreadRow

__all__ = [
    "BaseFormat", "Format", "Match", "Row", "RowError", "Where", "each", "has_keys", "named",
    "split_of",
]  # fmt: skip

Row = dict[str, Any]
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Where:
    """Where an object lies: file name relative to the logs' folder, line from 1, index from 0."""

    name: str
    line: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A format's claim on a file: how sure it is (1 to 100), and why, in words.

    The surest claim has the file, of equal ones that of the format registered first. ``plain``
    claims with 40, native rows with 60, a format whose keys no other has with 80 to 95.
    """

    confidence: int
    reason: str


@runtime_checkable
class Format(Protocol):
    """One log format. Stateless, so that any object can be read on its own, in any process.

    Three things a format may have beside the members below:

    - ``rewarded = False``: its files hold no rewards; the NaN that its rows have for one is then
      no number that was lost;
    - ``alone = True``: its rows depend on the object and the file's name alone, and on no other
      file, so that what a scan found may be kept (see ``rlreport.read.chunk``);
    - ``beside(path, listed)``, called once for each local file with its path and the paths of
      all files of the logs: it returns the format as that file's neighbours make it (which has
      to be picklable, and may have a ``remark`` for the reader of the report), or a text that
      says why the file is not to be read.
    """

    @property
    def id(self) -> str:
        """The name used on the command line."""
        ...

    @property
    def description(self) -> str:
        """One line for ``rlreport formats``."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """What its files are called, as globs."""
        ...

    @property
    def container(self) -> str:
        """``lines``, ``json`` (one object or array a file), ``parquet``, ``torch``, …."""
        ...

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim on the file ``name`` whose first objects are given, or None."""
        ...

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of one object; raise RowError where it cannot be one.

        Of several rows, one that cannot be read stands as an ``UnreadRow`` (see ``each``).
        """
        ...

    def split(self, name: str) -> str | None:
        """Return ``train``, ``val`` or ``eval`` where the path tells, else None."""
        ...


def each(entries: Iterable[Entry], row_of: Callable[[Entry], Row]) -> Iterator[Row]:
    """Yield the row of each entry of an object, or why there is none: it costs no other."""
    for entry in entries:
        try:
            yield row_of(entry)
        except RowError as error:
            yield UnreadRow(error)


class FileStamp(NamedTuple):
    """A file beside a log, as it was found: what is remembered of it holds as long as this does."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """Return the stamp of a file; None where there is none."""
        if not path.is_file():
            return None
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns)


_SPLIT_WORDS = (
    ("val", re.compile(r"(?<![a-z])(?:val|valid|validation)(?![a-z])", re.IGNORECASE)),
    ("eval", re.compile(r"(?<![a-z])(?:evals?|evaluation|test)(?![a-z])", re.IGNORECASE)),
    ("train", re.compile(r"(?<![a-z])(?:train|training)(?![a-z])", re.IGNORECASE)),
)


def split_of(name: str) -> str | None:
    """Return the split that a word of the path names, the file's own name first."""
    for part in reversed(name.split("/")):
        for split, word in _SPLIT_WORDS:
            if word.search(part):
                return split
    return None


def has_keys(objects: Sequence[Row], *keys: str) -> bool:
    """Tell whether there are objects and each holds every key."""
    return bool(objects) and all(key in obj for obj in objects for key in keys)


def named(keys: Sequence[str]) -> str:
    """Return keys as a phrase: ``has `a`, `b` and `c```."""
    quoted = [f"`{key}`" for key in keys]
    return "has " + (
        quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
    )


def match_columns(objects: Sequence[Row], *keys: str) -> Match | None:
    """Claim lines that hold a whole step: objects in which each of ``keys`` is a list."""
    columns = all(isinstance(obj.get(key), list) for obj in objects for key in keys)
    return Match(95, f"{named(keys)}, as columns") if objects and columns else None


class BaseFormat:
    """What most formats of this package have in common.

    Attributes:
        keys: claimed are files whose objects all hold these.
        container: see ``Format``.
        alone: see ``Format``.
        evaluates: it logs evaluations and nothing else.
    """

    keys: tuple[str, ...] = ()
    container = "lines"
    alone = True
    evaluates = False

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim files by ``keys``."""
        return Match(95, named(self.keys)) if has_keys(objects, *self.keys) else None

    def split(self, name: str) -> str | None:
        """Return the split that the path names, if it is not always an evaluation."""
        return "eval" if self.evaluates else split_of(name)
