"""Cut files into byte ranges that can be scanned apart, and put together what comes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlreport.errors import RlreportError, RowError, UnreadRow
from rlreport.read.sources import Source

if TYPE_CHECKING:
    from rlreport.formats import RowReader

NATIVE = "rlboard"
SPLIT_BYTES = 32 << 20
"""Files are cut at multiples of this: a file that grows keeps the splits it had."""

_TASK_BYTES = 32 << 20
CLUSTER_TASK_BYTES = 128 << 20
"""Bytes of a task: on a cluster, starting one and moving its result cost more."""

_TASK_SPLITS = 256
_SMALL_BYTES = 4 << 20
_SMALL_PACKED_BYTES = 64 << 10

Span = tuple[tuple[int, int], tuple[int, int]]
"""Rows of a file from one (offset, sub) to another, both included."""

Value = TypeVar("Value")
Nodes = dict[tuple[int, int], Value]
"""Values by (level, index) in an aligned tree: 2^level leaves from index · 2^level on."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A file's format: picklable, and light where the format is the native one.

    Attributes:
        id: shown to the user.
        container: ``lines``, ``json`` or ``parquet``.
        reader: turns an object into canonical rows; None for native rows, which need none.
        why: why the file is taken for this, in words.
        split: ``train``, ``val`` or ``eval``: that of its rows that name none.
        main: the split that is judged, as a rule ``train``.
        watched: the split whose rows stand beside, None for none; all others are left out.
        replaced: spans of rows to leave out, as a restarted run logged them again: of the split
            that is judged, and of what stands beside it; ascending.
    """

    id: str = NATIVE
    container: str = "lines"
    reader: RowReader | None = None
    why: str = ""
    split: str = "train"
    main: str = "train"
    watched: str | None = "val"
    replaced: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())

    def is_replaced(self, watched: bool, offset: int, sub: int) -> bool:
        """Tell whether a row lies among those to leave out."""
        spans = self.replaced[watched]
        place = bisect_right(spans, (offset, sub), key=lambda span: span[0]) - 1
        return place >= 0 and (offset, sub) <= spans[place][1]

    @property
    def rewarded(self) -> bool:
        """Whether its files hold rewards at all."""
        return self.reader is None or self.reader.rewarded

    def rows(self, obj: dict[str, Any], name: str, line: int, index: int) -> list[dict[str, Any]]:
        """Return the canonical rows of an object; an ``UnreadRow`` for one that cannot be read.

        Raises:
            RowError: it cannot be one.
        """
        if self.reader is None:
            return [obj]
        from rlreport.formats.base import Where

        try:
            return [
                UnreadRow(self._refused(row.error)) if isinstance(row, UnreadRow) else row
                for row in self.reader(obj, Where(name, line, index))
            ]
        except RlreportError:
            raise
        except Exception as error:
            # Formats meet objects of any shape, and may come from other packages.
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> RowError:
        said = str(error) if isinstance(error, ValueError) else repr(error)
        return RowError(f"no {self.id} row: {said:.200}")


NATIVE_LINES = LogFormat()


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: the lines that *start* at an offset in [start, stop).

    Any cut is good: a line belongs to the split in which its first byte lies. A compressed
    file, and a format that is not lines, is one split.

    Attributes:
        file: index of the source.
        source: the file.
        start, stop: decompressed bytes; ``stop`` is None for "to the end".
        format: the log format.
        leaf: its place among all splits.
    """

    file: int
    source: Source
    start: int = 0
    stop: int | None = None
    format: LogFormat = NATIVE_LINES
    leaf: int = 0

    @property
    def weight(self) -> int:
        """Bytes on disk that it stands for, for progress."""
        stop = self.source.size if self.stop is None else self.stop
        return stop - self.start

    @property
    def small(self) -> bool:
        """Whether it surely fits into memory, so that others may be read along with it."""
        return self.weight <= (_SMALL_PACKED_BYTES if self.stop is None else _SMALL_BYTES)


def plan_splits(
    sources: Sequence[Source], formats: Sequence[LogFormat], *, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Cut every source at multiples of ``split_bytes``, whoever will scan it.

    Args:
        sources: the files.
        formats: format of each.
        split_bytes: the most a split of an uncompressed file covers.
    """
    splits: list[Split] = []
    for file, (source, log_format) in enumerate(zip(sources, formats, strict=True)):
        if source.compression or log_format.container != "lines":
            splits.append(Split(file, source, format=log_format, leaf=len(splits)))
            continue
        for start in range(0, max(1, source.size), split_bytes):
            stop = min(start + split_bytes, source.size)
            splits.append(Split(file, source, start, stop, log_format, len(splits)))
    return splits


def plan_tasks(splits: Sequence[Split], *, task_bytes: int | None = None) -> list[list[Split]]:
    """Return aligned subtrees of splits, each for one process to scan at a time.

    Args:
        splits: all of them.
        task_bytes: the most that several splits of a task cover, if not the usual.
    """
    if not splits:
        return []
    width = 1 << (len(splits) - 1).bit_length()
    return list(_subtrees(splits, width, task_bytes or _TASK_BYTES))


def _subtrees(splits: Sequence[Split], width: int, task_bytes: int) -> Iterator[list[Split]]:
    weight = sum(split.weight for split in splits)
    if len(splits) <= 1 or (weight <= task_bytes and len(splits) <= _TASK_SPLITS):
        if splits:
            yield list(splits)
        return
    half = width // 2
    yield from _subtrees(splits[:half], half, task_bytes)
    yield from _subtrees(splits[half:], half, task_bytes)


def plant(
    nodes: Nodes[Value],
    place: tuple[int, int],
    value: Value,
    merge: Callable[[Value, Value], Value],
) -> None:
    """Put a value into the tree, and merge what now has its sibling there, left before right.

    So the same leaves give the same value bit for bit, in whatever order they come.

    Args:
        nodes: the tree, changed in place.
        place: level and index. A value that is there already is the earlier part of this one.
        value: what to put there.
        merge: makes one value of two.
    """
    level, index = place
    if (earlier := nodes.pop(place, None)) is not None:
        value = merge(earlier, value)
    while (sibling := nodes.pop((level, index ^ 1), None)) is not None:
        value = merge(sibling, value) if index & 1 else merge(value, sibling)
        level, index = level + 1, index >> 1
    nodes[level, index] = value


def root(nodes: Nodes[Value], merge: Callable[[Value, Value], Value]) -> Value | None:
    """Merge a tree whose leaves are all there into one value; None of an empty one."""
    nodes = dict(nodes)
    while len(nodes) > 1:
        # Without a sibling a node stands for its parent too.
        level, index = min(nodes)
        plant(nodes, (level + 1, index >> 1), nodes.pop((level, index)), merge)
    return next(iter(nodes.values()), None)
