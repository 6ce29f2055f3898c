"""Number the rows of a console: which phases of training it has, and at which step a row is."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from rlreport.metrics.console_rows import Cells, Row
from rlreport.metrics.progress_bars import Bar, Bars
from rlreport.text.messages import translatable

# Names of metrics of reinforcement learning; rows of supervised training have none of them
_OF_RL = re.compile(r"reward|score|objective/|advantage|\badv_|\bval[-_/]")
# Matches a zero with a fixed number of decimals; Python prints 0 itself as 0 or 0.0
_ROUNDED_ZERO = re.compile(r"-?0\.00+")

MAX_PHASES = 10_000
MAX_NAMES = 10_000  # number of metrics whose rounding is looked at

BY_BAR = translatable(
    "rows of the console have no step: they are at the steps of the progress bar"
)
BY_INTERVAL = translatable(
    "rows of the console have no step: they are counted, times `logging_steps`"
)
BY_TOTAL = translatable(
    "rows of the console have no step: they are counted, and spread over the steps of the progress "
    "bar, which reached its end"
)
BY_COUNT = translatable(
    "rows of the console have no step, and neither a progress bar nor `logging_steps` tells it: "
    "they are numbered 1, 2, 3, …"
)


def is_of_rl(names: Iterable[str]) -> bool:
    """Return whether one of the metrics is of reinforcement learning."""
    return any(map(_OF_RL.search, names))


@dataclass(slots=True)
class _Placement:
    """How far a progress bar was at the rows of a phase."""

    first: int
    last: int
    names: frozenset[str]
    rows: int = 1
    is_usable: bool = True  # whether it moved on from each row to the next

    def add(self, done: int, names: frozenset[str]) -> None:
        # What else is printed at the same step has other names.
        is_same_step = done == self.last and self.names.isdisjoint(names)
        if done <= self.last and not is_same_step:
            self.is_usable = False
        self.names = names | self.names if is_same_step else names
        self.last = done
        self.rows += 1


@dataclass(slots=True)
class Phase:
    """Rows of one training, such as those of SFT before those of GRPO.

    Attributes:
        total: number of steps that are planned, None if it is not known.
        logging_steps: that of the configuration, None if it is not known.
        printed: number of rows, with those of evaluations and the summary.
        rows: number of rows of training.
        is_rl: whether they have a reward or another metric of reinforcement learning.
        has_steps: whether rows have steps.
        numbering: BY_BAR, BY_INTERVAL, BY_TOTAL or BY_COUNT; "" if rows have steps.
        interval: number of steps from one row to the next.
        bar: the progress bar that tells steps.
        redraws: the step of each printed row, if bars were redrawn after them.
        names: metrics.
        exact: metrics with a value that is not rounded to 0.
    """

    total: int | None = None
    logging_steps: float | None = None
    printed: int = 0
    rows: int = 0
    is_rl: bool = False
    has_steps: bool = True
    is_ended: bool = False  # by a summary
    numbering: str = ""
    interval: int | None = None
    bar: Bar | None = None
    redraws: array[int] | None = None
    names: set[str] = field(default_factory=set)
    exact: set[str] = field(default_factory=set)
    placements: dict[Bar, _Placement] = field(default_factory=dict)
    step: int | None = None
    epoch: float | None = None

    def add(self, row: Row) -> None:
        """Note what the next row of the phase tells of it."""
        self.printed += 1
        if row.total:
            self.total = row.total
        self.step = row.step
        if row.kind == "summary":
            self.is_ended = True
            return
        self._add_names(row.cells)
        if row.kind == "train":
            self._add_training(row)

    def _add_training(self, row: Row) -> None:
        self.rows += 1
        self.epoch = row.epoch
        if is_of_rl(row.cells):
            self.is_rl = True
        if row.step is None:
            self.has_steps = False
            self._place_by_bars(row)

    def _place_by_bars(self, row: Row) -> None:
        """Note how far each progress bar is at a row without a step."""
        names = frozenset(row.cells)
        for bar, done in row.bars.items():
            if bar in self.placements:
                self.placements[bar].add(done, names)
            else:
                self.placements[bar] = _Placement(done, done, names)

    def _add_names(self, cells: Cells) -> None:
        for name in cells.keys() - self.exact:
            if len(self.names) < MAX_NAMES:
                self.names.add(name)
                if not _ROUNDED_ZERO.fullmatch(cells[name]):
                    self.exact.add(name)

    def is_followed_by(self, row: Row) -> bool:
        """Return whether a row belongs to this phase."""
        # Evaluations belong to the rows before them.
        if row.kind != "train" or not self.printed:
            return True
        if self.is_ended or self._falls_in(row):
            return False
        return row.total is None or self.total in (None, row.total)

    def _falls_in(self, row: Row) -> bool:
        """Return whether a row is before the last one: training was started again."""
        if row.step is not None and self.step is not None:
            return row.step < self.step
        if row.epoch is not None and self.epoch is not None and row.epoch < self.epoch:
            return True
        usable = self._usable()
        return bool(usable) and all(
            row.bars.get(bar, 0) < self.placements[bar].last for bar in usable
        )

    def _usable(self) -> list[Bar]:
        """Return the bars that moved on from each row of training to the next."""
        return [
            bar
            for bar, placement in self.placements.items()
            if placement.rows == self.rows and placement.is_usable
        ]

    def finish(self, bars: Bars) -> None:
        """Decide how rows are numbered, when the phase is complete."""
        if self.has_steps:
            return
        usable = self._usable()
        self.bar, self.redraws = self._redraws(bars, usable)
        if self.bar is None and usable:
            # The bar of training has no description, and is longer than that of an evaluation.
            self.bar = max(usable, key=lambda bar: (not bar.description, bar.total))
        if self.bar is not None:
            self.numbering = BY_BAR
            self.total = self.bar.total
        elif self.logging_steps is not None and self.logging_steps >= 1:
            self.numbering = BY_INTERVAL
            self.interval = int(self.logging_steps)
        else:
            total = self._complete_total(bars)
            self.numbering = BY_TOTAL if total else BY_COUNT
            self.interval = total // self.rows if total else None

    def _complete_total(self, bars: Bars) -> int | None:
        """Return the number of steps of a training that came to its end, a multiple of its rows.

        A notebook keeps only some drawings of a bar, so that it does not move with each row.
        """
        if not self.is_ended or not self.rows:
            return None
        totals = [
            bar.total
            for bar, done in bars.done.items()
            if done == bar.total and not bar.description and bar.total >= self.rows
        ]
        total = max(totals, default=1)
        return total if total % self.rows == 0 and total >= self.rows else None

    def _redraws(
        self, bars: Bars, usable: list[Bar]
    ) -> tuple[Bar | None, array[int] | None]:
        """Return the bar that was redrawn after each printed row, and the steps of these."""
        for bar, steps in bars.redraws.items():
            changes = [after - before for before, after in pairwise(steps)]
            is_each = len(steps) == self.printed and min(changes, default=1) >= 0
            # If training was interrupted, the last rows may be lost: the others are at the first
            # redraws, if there are no redraws of another cause.
            is_even = len(steps) > 2 and len(set(changes)) == 1 and changes[0] > 0
            is_cut = (
                len(steps) > self.printed == self.rows and not self.is_ended and is_even
            )
            if is_each or (is_cut and not usable):
                return bar, array("q", steps)
        return None, None


@dataclass(slots=True)
class Survey:
    """What a console has, known after it was read once."""

    phases: list[Phase]

    @property
    def used(self) -> list[Phase]:
        """The phases that are reported: those of RL or, without any, all."""
        return [phase for phase in self.phases if phase.is_rl] or self.phases

    @property
    def rounded(self) -> set[str]:
        """The metrics that are printed as 0 with a fixed number of decimals in all rows."""
        names: set[str] = set()
        exact: set[str] = set()
        for phase in self.used:
            names |= phase.names
            exact |= phase.exact
        return names - exact


def survey(
    rows: Iterable[Row], bars: Bars, logging_steps: Callable[[], float | None]
) -> Survey:
    """Read all rows; ``logging_steps`` returns what is known of it so far."""
    phases = [Phase()]
    for row in rows:
        phase = phases[-1]
        if not phase.is_followed_by(row) and len(phases) < MAX_PHASES:
            phase.finish(bars)
            bars.forget_redraws()
            phase = Phase()
            phases.append(phase)
        if not phase.printed:
            phase.logging_steps = logging_steps()
        phase.add(row)
    phases[-1].finish(bars)
    return Survey(phases)


def numbered(rows: Iterable[Row], found: Survey) -> Iterator[tuple[Phase, Row]]:
    """Yield each row with its phase, and its step; without rows that summarise a training."""
    left = iter(found.phases)
    phase = next(left)
    printed = 0  # number of rows of the phase so far
    trained = 0
    step = 0  # of the row before
    for row in rows:
        if printed == phase.printed:
            phase = next(left)
            printed = trained = step = 0
        if row.kind == "train":
            trained += 1
        if row.step is None:
            row.step = _step_of(row, phase, printed, trained, step)
        step = row.step
        printed += 1
        if row.kind != "summary":
            yield phase, row


def _step_of(row: Row, phase: Phase, printed: int, trained: int, before: int) -> int:
    if phase.redraws is not None:
        return phase.redraws[printed]
    if phase.bar is not None:
        return row.bars.get(phase.bar, before)
    # An evaluation belongs to the row before it.
    return trained * (phase.interval or 1) if row.kind == "train" else before
