"""Cut files into byte ranges that can be scanned apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rlreport.read.log_format import NATIVE_LINES, LogFormat
from rlreport.read.sources import Source

SPLIT_BYTES = 8 << 20


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
    """

    file: int
    source: Source
    start: int = 0
    stop: int | None = None
    format: LogFormat = NATIVE_LINES

    @property
    def weight(self) -> int:
        """Bytes on disk that it stands for, for progress."""
        stop = self.source.size if self.stop is None else self.stop
        return stop - self.start


def plan_splits(
    sources: Sequence[Source],
    formats: Sequence[LogFormat],
    *,
    split_bytes: int = SPLIT_BYTES,
) -> list[Split]:
    """Cut every source into splits of about ``split_bytes``.

    In order of their place in the file: rank files grow side by side, so rows of one step
    are read at about the same time, which keeps the tables by step small.

    Args:
        sources: the files.
        formats: format of each.
        split_bytes: the most a split of an uncompressed file covers.
    """
    splits: list[Split] = []
    for file, (source, log_format) in enumerate(zip(sources, formats, strict=True)):
        if source.compression or log_format.container != "lines":
            splits.append(Split(file, source, format=log_format))
            continue
        parts = max(1, -(-source.size // split_bytes))
        cuts = [source.size * part // parts for part in range(parts + 1)]
        splits += [Split(file, source, start, stop, log_format) for start, stop in pairwise(cuts)]
    return sorted(splits, key=lambda split: (split.start / max(1, split.source.size), split.file))
