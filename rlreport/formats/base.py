"""What a log format is: it recognises its files and turns their objects into canonical rows.

A canonical row is a dict with fields of ``rlreport.fields``, and any further number, boolean or
short string, kept as a column. ``RowReader`` spreads an ``advantages`` of one number over the
tokens; without tokens it is the column ``advantage``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from rlreport.errors import RowError

__all__ = ["BaseFormat", "FileStamp", "Format", "Match", "Row", "RowError", "Where"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Where:
    """Where an object lies: file name relative to the logs' folder, line from 1, index from 0."""

    name: str
    line: int = 0
    index: int = 0


class Match(NamedTuple):
    """A format's claim on a file: how sure it is (1 to 100), and why, in words.

    The surest claim has the file, of equal ones that of the format registered first. ``plain``
    claims with 40, native rows with 60, a format whose keys no other has with 80 to 95.
    """

    confidence: int
    reason: str


@runtime_checkable
class Format(Protocol):
    """One log format. Stateless, so that any object can be read on its own, in any process.

    A format may also have:

    - ``rewarded = False``: its files hold no rewards; the NaN that its rows have for one is then
      no number that was lost;
    - ``alone = True``: its rows depend on the object and the file's name alone, and on no other
      file, so that what a scan found may be kept (see ``rlreport.read.chunk``);
    - ``beside(path, listed)``, called once for each local file with its path and the paths of
      all files of the logs: it returns the format as that file's neighbours make it (which has
      to be picklable, and may have a ``remark`` for the reader of the report), or a text that
      says why the file is not to be read.

    Attributes:
        id: the name used on the command line.
        description: one line for ``rlreport formats``.
        container: ``lines``, ``json`` (one object or array a file), ``parquet``, ``torch``, ….
    """

    id: str
    description: str
    container: str

    @property
    def files(self) -> tuple[str, ...]:
        """What its files are called, as globs."""
        ...

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim on the file ``name`` whose first objects are given, or None."""
        ...

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of one object; raise RowError where it cannot be one.

        Of several rows, one that cannot be read stands as an ``UnreadRow``.
        """
        ...

    def split(self, name: str) -> str | None:
        """Return ``train``, ``val`` or ``eval`` where the path tells, else None."""
        ...


class FileStamp(NamedTuple):
    """A file near a log: what is remembered of it holds as long as size and time do."""

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


class BaseFormat:
    """What the formats of this package have in common.

    Attributes:
        claims: keys that all objects of its files hold; several sets where its files differ.
        confidence: of its claims.
        columnar: these keys hold lists: each line is a whole step.
        alone, rewarded: see ``Format``.
        evaluates: it logs evaluations and nothing else.
        sibling: another file that its rows take values from.
        remark: what a reader of the report should know about the file.
    """

    id = ""
    description = ""
    files: tuple[str, ...] = ()
    container = "lines"
    claims: tuple[tuple[str, ...], ...] = ()
    confidence = 95
    columnar = False
    alone = True
    rewarded = True
    evaluates = False

    def __init__(self, sibling: FileStamp | None = None, remark: str = "") -> None:
        self.sibling = sibling
        self.remark = remark

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim files by the keys of their objects."""
        for keys in self.claims:
            if has_keys(objects, *keys) and all(map(self.recognizes, objects)):
                return Match(self.confidence, has_phrase(keys))
        return None

    def recognizes(self, obj: Row) -> bool:
        """Tell whether an object that holds the keys of a claim is of this format."""
        return not self.columnar or all(isinstance(obj.get(k), list) for k in self.claims[0])

    def beside(self, path: Path, listed: Collection[Path]) -> Self | str:
        """Return the format as the files near ``path`` make it, or why it is not to be read."""
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of an object."""
        raise NotImplementedError

    def split(self, name: str) -> str | None:
        """Return the split that the path names, if it is not always an evaluation."""
        return "eval" if self.evaluates else split_of(name)


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


def has_phrase(keys: Sequence[str]) -> str:
    """Return keys as a phrase: ``has `a`, `b` and `c```."""
    *first, last = (f"`{key}`" for key in keys)
    return f"has {', '.join(first)} and {last}" if first else f"has {last}"
