"""The interface of log formats, which recognize files and convert their objects to rows.

A canonical row is a dict with fields of ``rlreport.fields``. Other numbers, booleans and short
strings become extra columns. If ``advantages`` is a single number, ``RowReader`` repeats it for
all tokens; without tokens it becomes the column ``advantage``.
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
    """Location of an object: file name relative to the log folder, line from 1, index from 0."""

    name: str
    line: int = 0
    index: int = 0


class Match(NamedTuple):
    """A format's claim on a file: its confidence (1 to 100), and the reason in words.

    The claim with the highest confidence wins; ties go to the format registered first. ``plain``
    claims with 40, native rows with 60, and formats with unique keys with 80 to 95.
    """

    confidence: int
    reason: str


@runtime_checkable
class Format(Protocol):
    """One log format. Stateless, so that any object can be read on its own, in any process.

    A format may also have:

    - ``rewarded = False``: its files have no rewards, so missing rewards are not reported as NaN;
    - ``alone = True``: its rows depend only on the object and the name of the file, not on other
      files, so that results may be cached (see ``rlreport.read.chunk``);
    - ``with_siblings(path, listed)``, called once for each local file with its path and the paths
      of all files of the logs: it returns the format configured for the file's siblings (it must be
      picklable, and may have a ``remark`` for the reader of the report), or a text that explains
      why the file should not be read.

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
        """The names of its files, as globs."""
        ...

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim on the file ``name`` with these first objects, or None."""
        ...

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of one object; raise RowError if it cannot be converted.

        If only one of several rows cannot be read, an ``UnreadRow`` is yielded in its place.
        """
        ...

    def split(self, name: str) -> str | None:
        """Return ``train``, ``val`` or ``eval`` if the path names a split, else None."""
        ...


class FileStamp(NamedTuple):
    """A file next to a log; cached contents are valid while size and time stay the same."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """Return the stamp of a file, None if it does not exist."""
        if not path.is_file():
            return None
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns)


class BaseFormat:
    """Base class of the formats of this package.

    Attributes:
        claims: sets of keys; at least half of the objects of a file have all keys of one set.
        confidence: confidence of its claims.
        columnar: whether these keys have lists, so that each line is a whole step.
        alone, rewarded: see ``Format``.
        evaluates: whether it logs only evaluations.
        sibling: another file that provides values for its rows.
        remark: a remark about the file for readers of the report.
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
            having = [obj for obj in objects if has_keys([obj], *keys)]
            # A few rows may lack one, such as those of a failed grader.
            if having and 2 * len(having) >= len(objects) and all(map(self.recognizes, having)):
                writer = self.writer(having[0])
                reason = has_phrase(keys)
                return Match(self.confidence, f"{reason}: {writer}" if writer else reason)
        return None

    def writer(self, obj: Row) -> str:
        """Return which version of the framework wrote an object, "" if that cannot be told."""
        return ""

    def recognizes(self, obj: Row) -> bool:
        """Return whether an object that has the keys of a claim is of this format."""
        return not self.columnar or all(isinstance(obj.get(k), list) for k in self.claims[0])

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Self | str:
        """Return the format configured for the siblings of ``path``, or why not to read it."""
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
    """Return the split named by a word of the path; the file name has precedence."""
    for part in reversed(name.split("/")):
        for split, word in _SPLIT_WORDS:
            if word.search(part):
                return split
    return None


def has_keys(objects: Sequence[Row], *keys: str) -> bool:
    """Return whether there are objects and all of them have every key."""
    return bool(objects) and all(key in obj for obj in objects for key in keys)


def has_phrase(keys: Sequence[str]) -> str:
    """Return keys as a phrase: ``has `a`, `b` and `c```."""
    *first, last = (f"`{key}`" for key in keys)
    return f"has {', '.join(first)} and {last}" if first else f"has {last}"
