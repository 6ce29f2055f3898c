"""The interface of log formats: recognize a file, and convert its objects to canonical rows.

A canonical row is a dict with the fields of ``rlreport.fields``. Its other numbers, booleans and
short strings become extra columns. If ``advantages`` is a single number, it applies to all tokens;
in a row without tokens it becomes the column ``advantage``.

To add a format, derive a class from ``BaseFormat``, set ``id``, ``description``, ``files`` and
``claims``, and write ``rows``. The reader calls the methods in this order: ``match`` with the first
objects of each file; ``with_siblings`` of the format that matched; ``rows`` for each object;
``split`` for each row that names no data split.
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
    """Location of an object.

    Attributes:
        name: path of the file in the folder of the logs.
        line: line number from 1 in a file of lines, else 0.
        index: number of the object from 0 in a file without lines.
        step: the step in the file's path, None without one.
        member: name of the object's file in ``name``, if that is an archive, else "".
    """

    name: str
    line: int = 0
    index: int = 0
    step: AssumedStep | None = None
    member: str = ""

    @property
    def path(self) -> str:
        """Path of the object's file, including the archive that contains the file."""
        return f"{self.name}/{self.member}" if self.member else self.name


class Match(NamedTuple):
    """A format's claim that it can read a file.

    The claim with the highest confidence wins; ties go to the format registered first.

    Attributes:
        confidence: 1 to 100: 40 for just prompt, response and reward (``plain``), 60 for canonical
            rows, 65 to 97 for keys that are typical of one format, 100 for ``--map``.
        reason: why the file matches, for readers: such as "has `traces`: verifiers 1.2".
    """

    confidence: int
    reason: str


class FileStamp(NamedTuple):
    """What identifies the content of a file.

    Attributes:
        path: the file's path.
        size: its size in bytes.
        modified: its modification time in ns.
    """

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """Return the stamp of a file as it is now, None if there is no such file."""
        if not path.is_file():
            return None
        stat = path.stat()
        return cls(str(path), stat.st_size, stat.st_mtime_ns)


class BaseFormat:
    """A log format. It keeps no state between objects, so that any process can read each of them.

    Attributes:
        id: the name used on the command line.
        description: one line for ``rlreport formats``.
        files: the typical names of its files, as glob patterns; for readers only.
        container: the typical container: ``lines``, ``json`` (one object or array per file),
            ``parquet``, ``torch``, …; for readers only, as the container is found by a file's name.
        claims: sets of keys; a file matches if half of its objects or more have all keys of a set.
        confidence: confidence of a claim, from 1 to 100 (see ``Match``).
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
        # None stands for a file that does not exist.
        self.siblings = tuple(filter(None, siblings))
        self.remark = remark

    @property
    def sibling(self) -> FileStamp | None:
        """The first file that is read together with the log, None without any."""
        return next(iter(self.siblings), None)

    @property
    def cacheable(self) -> bool:
        """Whether rows may be cached: the format is built in and reads no sibling files."""
        return self.alone and type(self).__module__.startswith("rlreport.")

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim on a file, None if the format does not fit.

        Args:
            name: path of the file in the folder of the logs.
            objects: the file's first objects, at least one.

        Returns:
            A claim if half of the objects or more have the keys (and types) of one of ``claims``.
            All of them need not: some may lack a key, for example after the grader failed.
        """
        # The first set of keys that fits is named: formats list the most specific one first.
        for keys in self.claims:
            wanted = set(keys)
            having_keys = [obj for obj in objects if wanted <= obj.keys()]
            matches = [obj for obj in having_keys if self.recognizes(obj)]
            if matches and 2 * len(matches) >= len(objects):
                reason = "has " + ", ".join(f"`{key}`" for key in keys)
                writer = self.writer(matches[0])
                if writer:
                    reason = f"{reason}: {writer}"
                return Match(self.confidence, reason)
        return None

    def writer(self, obj: Row) -> str:
        """Return the framework version that wrote an object, "" if it is unknown."""
        return ""

    def recognizes(self, obj: Row) -> bool:
        """Return whether an object with the keys in ``claims`` also has this format's types."""
        if not self.columnar:
            return True
        return all(isinstance(obj.get(key), list) for key in self.claims[0])

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Self | str:
        """Return the format set up to also read files next to a log, or why the log is not read.

        Args:
            path: path of the log.
            listed: the paths of all log files of the run.

        Returns:
            The format with ``siblings``, which must be picklable; or a sentence for readers, if
            another file has the same rows.
        """
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of one object of a log, usually one.

        Keys of ``obj`` that are read with ``get`` or ``[]`` count as recognized; the reader reports
        the others. If only some of its rows cannot be read, yield an ``UnreadRow`` for each.

        Args:
            obj: a logged object; the format may change it.
            where: location of the object, for example for a step in the path.

        Raises:
            RowError: if the object cannot be converted; its text is shown with the line's number.
        """
        raise NotImplementedError

    def split(self, name: str) -> str | None:
        """Return the data split of a file's rows that name none.

        Args:
            name: path of the file in the folder of the logs.

        Returns:
            ``eval`` if the format ``evaluates``, else the split in the path, or None.
        """
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
    """Return the split that a word in the path names (e.g. ``val``), else None.

    The file's name comes first, then its folders from the innermost.
    """
    for part in reversed(name.split("/")):
        for split, word in _SPLIT_WORDS:
            if word.search(part):
                return split
    return None


def has_keys(objects: Sequence[Row], *keys: str) -> bool:
    """Return whether every object has all ``keys``; False if there are no objects."""
    if not objects:
        return False
    wanted = set(keys)
    return all(wanted <= obj.keys() for obj in objects)
