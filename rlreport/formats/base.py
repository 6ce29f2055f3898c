"""The interface of log formats: recognize a file, and convert its objects to canonical rows.

A canonical row is a dict with the fields of ``rlreport.fields``. Its other numbers, booleans and
short strings become extra columns. If ``advantages`` is a single number, it applies to all tokens;
in a row without tokens it becomes the column ``advantage``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from rlreport.errors import RowError
from rlreport.fields import AssumedStep

__all__ = ["BaseFormat", "FileStamp", "Match", "Row", "RowError", "Where"]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Where:
    """Location of an object: file (path in the log folder), line from 1, index from 0."""

    name: str
    line: int = 0
    index: int = 0
    step: AssumedStep | None = None  # the step in the file's path, None without one
    member: str = ""  # name of the object's file in ``name``, if that is an archive

    @property
    def path(self) -> str:
        """Path of the object's file, including the archive that contains the file."""
        return f"{self.name}/{self.member}" if self.member else self.name


class Match(NamedTuple):
    """A format's claim that it can read a file: a confidence (1 to 100), and the reason as text.

    The claim with the highest confidence wins; ties go to the format registered first. The
    confidence is 40 for just prompt, response and reward (``plain``), 60 for canonical rows, 65 to
    97 for keys that are typical of one format, and 100 for ``--map``.
    """

    confidence: int
    reason: str


class FileStamp(NamedTuple):
    """Path, size and modification time (ns) of a file, which identify its content."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        if not path.is_file():
            return None
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns)


class BaseFormat:
    """A log format. It keeps no state between objects, so that any process can read each of them.

    Attributes:
        id: the name used on the command line.
        description: one line for ``rlreport formats``.
        files: the typical names of its files, as glob patterns.
        container: ``lines``, ``json`` (one object or array per file), ``parquet``, ``torch``, ….
        claims: sets of keys; a file matches if half of its objects or more have all keys of a set.
        confidence: confidence of a claim, from 1 to 100.
        columnar: whether the keys in ``claims`` hold lists, so that a line contains a whole step.
        alone: whether rows depend only on the object and the name of its file, not on other files.
        rewarded: whether its files have rewards; if not, missing ones are not reported as NaN.
        evaluates: whether the format logs only evaluations.
        siblings: the files next to the log that are read together with it.
        remark: a sentence about the file for readers of the report, or "".
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

    def __init__(self, *siblings: FileStamp | None, remark: str = "") -> None:
        self.siblings = tuple(filter(None, siblings))
        self.remark = remark

    @property
    def sibling(self) -> FileStamp | None:
        return next(iter(self.siblings), None)

    @property
    def cacheable(self) -> bool:
        """Whether rows may be cached: the format is built in and reads no sibling files."""
        return self.alone and type(self).__module__.startswith("rlreport.")

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim if half of the objects or more have the keys (and types) of a claim."""
        for keys in self.claims:
            matches = [
                obj
                for obj in objects
                if has_keys([obj], *keys) and self.recognizes(obj)
            ]
            # Some rows may lack a key, for example after the grader failed.
            if matches and 2 * len(matches) >= len(objects):
                writer = self.writer(matches[0])
                reason = "has " + ", ".join(f"`{key}`" for key in keys)
                return Match(
                    self.confidence, f"{reason}: {writer}" if writer else reason
                )
        return None

    def writer(self, obj: Row) -> str:
        """Return the framework version that wrote an object, "" if it is unknown."""
        return ""

    def recognizes(self, obj: Row) -> bool:
        """Return whether an object with the keys in ``claims`` also has this format's types."""
        return not self.columnar or all(
            isinstance(obj.get(k), list) for k in self.claims[0]
        )

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Self | str:
        """Return the format set up to also read files next to a log, or why the log is not read.

        ``listed`` are the paths of all log files of the run. The format must be picklable.
        """
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of one object; raise RowError if it cannot be converted.

        If only some of its rows cannot be read, yield an ``UnreadRow`` for each of them.
        """
        raise NotImplementedError

    def split(self, name: str) -> str | None:
        """Return ``eval`` if the format ``evaluates``, else the split in the path, or None."""
        return "eval" if self.evaluates else split_of(name)


_SPLIT_WORDS = (
    ("val", re.compile(r"(?<![a-z])(?:val|valid|validation)(?![a-z])", re.IGNORECASE)),
    (
        "eval",
        re.compile(r"(?<![a-z])(?:evals?|evaluation|test)(?![a-z])", re.IGNORECASE),
    ),
    ("train", re.compile(r"(?<![a-z])(?:train|training)(?![a-z])", re.IGNORECASE)),
)


@lru_cache  # called for every row
def split_of(name: str) -> str | None:
    """Return the split that a word in the path names (e.g. ``val``), file name first, else None."""
    for part in reversed(name.split("/")):
        for split, word in _SPLIT_WORDS:
            if word.search(part):
                return split
    return None


def has_keys(objects: Sequence[Row], *keys: str) -> bool:
    """Return whether every object has all ``keys``; False if there are no objects."""
    return bool(objects) and all(key in obj for obj in objects for key in keys)
