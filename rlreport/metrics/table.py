"""One table of the metrics of a run, made of records in the order of the log, in bounded memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.fields import LARGEST_NUMBER
from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.metric_rows import CLOCKS, COUNTER, MAX_NAME, Record
from rlreport.metrics.roles import roles_of
from rlreport.metrics.starts import Arrangement, Series, arranged, is_copy
from rlreport.read.restarts import StartChoice, choose_start
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

# Maximum number of metrics; further ones, in the order of the log, are left out
MAX_METRICS = 2_000
# Maximum number of rows; of more steps, consecutive ones are merged into one row
MAX_STEPS = 20_000
# Maximum number of values in memory; beyond it, consecutive steps are merged
MAX_VALUES = 5_000_000
_BLOCK_ROWS = 1_000
# Maximum number of steps per metric that are reported as NaN or infinite
MAX_BROKEN = 1_000
_GRAD_NORM = re.compile(r"grad\w*norm", re.IGNORECASE)


class Part(NamedTuple):
    """Values of a metric at its ``steps``; ``broken`` marks those logged as NaN or too large.

    ``pieces`` has the number of the piece of the log that a value is in, see ``metrics.starts``.
    """

    steps: Ints
    values: Floats
    broken: NDArray[np.bool_]
    pieces: Ints

    def merged(self, width: int, *, largest: bool) -> Part:
        """Merge adjacent values whose steps are in the same interval of ``width`` steps and piece.

        A merged value has the first step of the interval. It is the mean of the values, NaN if any
        is NaN; with ``largest`` it is the largest value that is not NaN.
        """
        if not len(self.steps):
            return self
        # The first step of each value's interval
        intervals = self.steps - self.steps % width
        # Values to merge start with the first one, where the interval changes, or with a piece.
        # Prepended is what makes the first value differ.
        new_interval = np.diff(intervals, prepend=intervals[0] - 1) != 0
        new_piece = np.diff(self.pieces, prepend=self.pieces[0]) != 0
        starts = np.flatnonzero(new_interval | new_piece)
        if largest:
            values = np.fmax.reduceat(self.values, starts)
        else:
            lengths = np.diff(starts, append=len(intervals))
            values = np.add.reduceat(self.values, starts) / lengths
        return Part(
            steps=intervals[starts],
            values=values,
            broken=np.logical_or.reduceat(self.broken, starts),
            pieces=self.pieces[starts],
        )

    def of_pieces(self, kept: NDArray[np.bool_]) -> Part:
        """Return the values of the pieces of the log that are ``kept``, bool (pieces,)."""
        return self.in_order(np.flatnonzero(kept[self.pieces]))

    def in_order(self, rows: Ints) -> Part:
        """Return the values at ``rows``, in this order."""
        return Part(
            steps=self.steps[rows],
            values=self.values[rows],
            broken=self.broken[rows],
            pieces=self.pieces[rows],
        )


class Arranged(NamedTuple):
    """What the pieces of a log are, and which start of the run is read."""

    pieces: Arrangement
    choice: StartChoice


def _joined(parts: list[Part]) -> Part:
    return Part(
        steps=np.concatenate([part.steps for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        broken=np.concatenate([part.broken for part in parts]),
        pieces=np.concatenate([part.pieces for part in parts]),
    )


def _part_of(logged: Iterable[tuple[int, float, int]]) -> Part:
    """Return the part of (step, value, piece) of each value of a metric."""
    steps, values, pieces = zip(*logged, strict=True)
    numbers = np.array(values, np.float64)
    broken = ~(np.abs(numbers) <= LARGEST_NUMBER)  # NaN compares as false
    # A number that is too large counts as infinite: its value is NaN, too.
    return Part(
        steps=np.array(steps, np.int64),
        values=np.where(broken, np.nan, numbers),
        broken=broken,
        pieces=np.array(pieces, np.int64),
    )


@dataclass(slots=True)
class MetricsTable:
    """The metrics of one or more logs.

    Attributes:
        parts: metric, or COUNTER -> its values in the order of the log, in one or more parts.
        width: number of consecutive steps that are merged into one row.
        left_out: hashes of the names of metrics beyond MAX_METRICS.
        size: number of values in memory.
        metrics: number of metrics.
        piece: number of the last piece of the log; a piece ends where the step falls.
        changes: number of changes of the step from one record to the next.
    """

    parts: dict[str, list[Part]] = field(default_factory=dict)
    width: int = 1
    left_out: set[int] = field(default_factory=set)
    size: int = 0
    metrics: int = 0
    piece: int = 0
    changes: int = 0

    def add(self, records: Iterator[Record]) -> None:
        """Add the records of a log, a block of them at a time to bound memory."""
        last: dict[str, int] = {}  # metric -> its last step in the piece
        # The highest step of the piece: only a record below it may have a step that falls.
        highest = -1
        step_before = None
        while block := list(islice(records, _BLOCK_ROWS)):
            columns: defaultdict[str, list[tuple[int, float, int]]] = defaultdict(list)
            for step, numbers in block:
                # A piece ends where the step of a metric falls. The step of the record alone may
                # fall without that, as evaluations may be logged late.
                falls = step < highest
                if falls and any(step < last.get(name, step) for name in numbers):
                    self.piece += 1
                    last.clear()
                    highest = step
                highest = max(highest, step)
                if step != step_before:
                    self.changes += 1
                step_before = step
                for name, number in numbers.items():
                    columns[name].append((step, number, self.piece))
                    if not name.startswith(COUNTER):
                        last[name] = step
            for name, logged in columns.items():
                self._add(safe_text(name), [_part_of(logged)])
            if self.size > MAX_VALUES:
                self._make_room()

    def _make_room(self) -> None:
        """Merge values of the same row; if these are few, make rows of twice as many steps."""
        self._merge(self.width)
        if self.size > MAX_VALUES // 2:
            self._merge(2 * self.width)

    def extend(self, other: MetricsTable) -> None:
        """Add the metrics of another log of the run, as if it followed this one."""
        first_piece = self._piece_of_next(other)
        for name, parts in other.parts.items():
            renumbered = [
                part._replace(pieces=part.pieces + first_piece) for part in parts
            ]
            self._add(name, renumbered)
        self.piece = max(self.piece, other.piece + first_piece)
        self.changes += other.changes
        self.left_out |= other.left_out
        self._merge(max(self.width, other.width))

    def _piece_of_next(self, other: MetricsTable) -> int:
        """Return the number of the piece of this log in which another one begins.

        Logs with as many pieces were probably written at the same time, so that their pieces
        correspond: if they have no metric in common, or one is a copy of the other.
        """
        common = self.names & other.names
        same_pieces = self.piece == other.piece
        # Without a common metric, no step falls where the other log begins: no new piece.
        if not common:
            return 0 if same_pieces else self.piece
        falls = any(self._falls_after(name, other) for name in common)
        if same_pieces and falls and is_copy(self._series(), other._series()):
            return 0
        return self.piece + 1 if falls else self.piece

    def is_copied_by(self, other: MetricsTable) -> bool:
        """Return whether another log has the same values, perhaps rounded, at common steps."""
        return is_copy(self._series(), other._series())

    def _falls_after(self, name: str, other: MetricsTable) -> bool:
        """Return whether a metric of another log begins before its last step in this one."""
        last = self.parts[name][-1].steps[-1]
        return bool(other.parts[name][0].steps[0] < last)

    def arrange(self, restarts: str | int | None = None) -> Arranged | None:
        """Keep the start that is read, with its steps numbered on.

        Return what the pieces of the log are, None if it is one piece. ``restarts`` is the option
        that says which start is read.
        """
        if not self.piece:
            return None
        found = arranged(self._series(), self.piece + 1, self.changes)
        choice = choose_start(found.lengths, restarts)
        kept = found.are_read(choice)
        shifts = found.shifts_of(choice)
        for name, parts in self.parts.items():
            part = _joined(parts).of_pieces(kept)
            part = part._replace(steps=part.steps + shifts[part.pieces])
            if found.unsorted:
                part = part.in_order(np.argsort(part.steps, kind="stable"))
                part = part._replace(pieces=np.zeros_like(part.pieces))
            self.parts[name] = [part]
        # Metrics that only earlier starts have
        for name, (part,) in list(self.parts.items()):
            if not len(part.steps):
                del self.parts[name]
        self.piece = 0  # the next log follows on one piece
        self._merge(self.width)
        return Arranged(found, choice)

    def _series(self) -> dict[str, Series]:
        series: dict[str, Series] = {}
        for name, parts in self.parts.items():
            if name in CLOCKS:  # they go on in a fresh start, too
                continue
            joined = _joined(parts)
            series[name] = Series(joined.steps, joined.values, joined.pieces)
        return series

    @property
    def names(self) -> set[str]:
        """The metrics, without counters such as ``epoch``."""
        return {name for name in self.parts if not name.startswith(COUNTER)}

    def _add(self, name: str, parts: list[Part]) -> None:
        """Add values of a metric or counter, unless it is one too many or its name too long.

        Counters have no limit of their own: NO_METRICS are few.
        """
        if len(name) > MAX_NAME:
            return
        if name not in self.parts and not name.startswith(COUNTER):
            if self.metrics >= MAX_METRICS:
                self.left_out.add(hash(name))
                return
            self.metrics += 1
        self.parts.setdefault(name, []).extend(parts)
        self.size += sum(len(part.steps) for part in parts)

    def _merge(self, width: int) -> None:
        """Make rows of ``width`` steps, with one value of each metric in a row and piece."""
        self.width = width
        self.size = 0
        for name, parts in self.parts.items():
            # A mean would hide the spike for which gradient norms are watched.
            # Of times, the last one: when the steps were done.
            largest = name in CLOCKS or bool(_GRAD_NORM.search(name))
            merged = _joined(parts).merged(width, largest=largest)
            self.parts[name] = [merged]
            self.size += len(merged.steps)

    @property
    def steps(self) -> Ints:
        """The distinct steps of all metrics, int64, ascending."""
        # Most metrics have the same steps, as one record has them all: sort them once.
        different: list[Ints] = [np.empty(0, np.int64)]
        for steps in self.steps_of().values():
            if not np.array_equal(steps, different[-1]):
                different.append(steps)
        return np.unique(np.concatenate(different))

    def _is_small(self) -> bool:
        rows = len(self.steps)
        return rows <= MAX_STEPS and rows * len(self.parts) <= MAX_VALUES

    def frame(self) -> tuple[pd.DataFrame, dict[str, list[int]]]:
        """Return the table, and the first MAX_BROKEN steps at which each metric was not finite.

        The table has ``step`` (int64, ascending) and one float64 column per metric, by name.
        Consecutive values at one step, such as one per update, become their mean, or for gradient
        norms their maximum. If a step is logged again later, as after a restart, the later value
        counts. Values that are not finite are NaN. Steps beyond MAX_STEPS or MAX_VALUES are merged.
        """
        self._merge(self.width)  # what was added since the last time
        while not self._is_small():
            self._merge(2 * self.width)
        steps = self.steps
        columns: dict[str, NDArray[Any]] = {"step": steps}
        broken: dict[str, list[int]] = {}
        for name in sorted(self.names - {"step"}):
            (part,) = self.parts[name]
            rows = np.searchsorted(steps, part.steps)
            # Of several values at one step, the last assignment counts.
            columns[name] = np.full(len(steps), np.nan)
            columns[name][rows] = part.values
            is_broken = np.zeros(len(steps), bool)
            is_broken[rows] = part.broken
            if is_broken.any():
                broken[name] = steps[is_broken][:MAX_BROKEN].tolist()
        _drop_placeholders(columns)
        return pd.DataFrame(columns), broken

    def clocks(self) -> dict[str, Part]:
        """Return the times of the log by CLOCKS, in its order."""
        return {
            name: _joined(self.parts[name])
            for name in sorted(CLOCKS & self.parts.keys())
        }

    def steps_of(self) -> dict[str, Ints]:
        """Return metric -> the steps of its values, in the order of the log."""
        steps_of: dict[str, Ints] = {}
        for name in self.names:
            parts = self.parts[name]
            steps_of[name] = np.concatenate([part.steps for part in parts])
        return steps_of

    @property
    def limits(self) -> list[str]:
        """A sentence for each limit that the metrics exceeded."""
        sentences: list[str] = []
        if self.left_out:
            beyond = message(
                "{n:count} metrics beyond the first {most:count} left out",
                n=len(self.left_out),
                most=MAX_METRICS,
            )
            sentences.append(beyond)
        if self.width > 1:
            merged = message(
                "too many steps: each row averages up to {width:count} steps and is labelled "
                "with the first",
                width=self.width,
            )
            sentences.append(merged)
        return sentences


def _drop_placeholders(columns: dict[str, NDArray[Any]]) -> None:
    """Set validation rewards of 0 that only fill steps without an evaluation to NaN, in place."""
    name = roles_of(columns.keys() - {"step"}).get("validation")
    if name is None:
        return
    # Metrics of the same evaluation begin with the same word: ``val/`` or ``eval_``.
    prefix = re.match(r"[^_/.-]*[_/.-]", name)
    if prefix is None:
        return
    values = columns[name]
    for other, others in columns.items():
        if not other.startswith(prefix[0]):
            continue
        # Another metric of the evaluation is missing where there was none. If the reward is 0 at
        # just these steps, but not at all others, 0 is a placeholder.
        missing = np.isnan(others)
        is_zero_there = missing.any() and not values[missing].any()
        if is_zero_there and values[~missing].any():
            columns[name] = np.where(missing, np.nan, values)
            return
