"""Tell fresh starts of a run from resumptions in a log of metrics whose step falls.

A log is cut into pieces where the step of a metric falls. A piece is one of these:

- a resumption from a checkpoint: it begins after the first step of the start before, and repeats
  its tail only. Later rows replace earlier ones;
- a fresh start: it begins where the start before began, and repeats its steps. Starts are never
  merged;
- the same training with its counter set back: it repeats steps as a fresh start does, but what the
  trainer counts or measures goes on. Its steps are numbered on;
- a copy of what was logged before, or rows that were written late: merged.

A log whose step falls all the time is unsorted, and one that several writers took turns at is, too:
both are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.metric_rows import COUNTER, NO_METRICS
from rlreport.metrics.roles import roles_of
from rlreport.read.restarts import (
    StartChoice,
    begins_afresh,
    begins_anew,
    shift_after,
    shifts_of_starts,
    starts_note,
)
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message, plural, span

# If more than one in this many changes of the step is a fall, the log is in no order
UNSORTED_FALLS = 4
# Fraction of the steps that each of several writers logs
_OF_ALL_WRITERS = 0.9

# Fraction of the values in common that are equal in a copy; the rest may be rounded otherwise
_COPIED = 0.9
_COPY_TOLERANCE = 1e-3  # relative difference up to which rounded values count as equal

# Number of values of a metric in a piece that suffice to see where it goes
_MIN_VALUES = 5
_WINDOW = 8  # a piece begins and ends with one in this many of its values, but at most:
_MAX_WINDOW = 10
# Minimum change of a metric within a piece, in its standard deviations: a ramp changes by 3.5 of
# them, a step by at least 2; noise alone rarely by 2
_CHANGE = 2.0
# A metric goes on if it begins at least this far from where it began to where it ended, and is
# set back if it begins at most as far from where it began
_GOES_ON = 0.75

# Ranges of seconds and milliseconds since 1970: such series go on from one start to the next
_CLOCKS = ((1e9, 3e9), (1e12, 3e12))


class Series(NamedTuple):
    """The values of a metric in the order of the log, and the number of the piece of each."""

    steps: Ints
    values: Floats
    pieces: Ints


@dataclass(slots=True)
class Arrangement:
    """What the pieces of a log are; arrays have one entry per piece."""

    starts: Ints  # number of the start that the piece belongs to
    shifts: Ints  # number to add to its steps
    rows: Ints  # number of its distinct steps
    unsorted: bool = False  # whether all pieces are one, to be sorted by step
    # distinct steps of each start, as they are numbered in the report
    steps: list[Ints] = field(default_factory=list)
    # for each start, steps that resumptions logged again, once for each time
    repeated: list[Ints] = field(default_factory=list)
    # number of times that the counter of each start was set back
    set_back: list[int] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        """Number of distinct steps of each start."""
        return [len(steps) for steps in self.steps]

    def are_read(self, choice: StartChoice) -> NDArray[np.bool_]:
        """Return which pieces are read, bool (pieces,)."""
        if choice.start is None:
            return np.ones(len(self.starts), bool)
        is_read: NDArray[np.bool_] = self.starts == choice.start
        return is_read

    def shifts_of(self, choice: StartChoice) -> Ints:
        """Return the number to add to the steps of each piece, (pieces,)."""
        if choice.start is not None:
            return self.shifts
        of_starts = np.array(shifts_of_starts(self.steps), np.int64)
        shifts: Ints = self.shifts + of_starts[self.starts]
        return shifts


def arranged(series: Mapping[str, Series], pieces: int, changes: int) -> Arrangement:
    """Return what the pieces of a log are; there are ``pieces`` of them.

    ``series`` has the values of each metric, ``changes`` is how often the step changes from one
    record to the next.
    """
    steps_of = _steps_by_piece(series, pieces)
    starts = np.zeros(pieces, np.int64)
    shifts = np.zeros(pieces, np.int64)
    rows = np.array([len(steps) for steps in steps_of], np.int64)
    falls = pieces - 1  # each piece but the first begins where the step falls
    # The step falls too often, or several writers took turns: the log is to be sorted.
    if UNSORTED_FALLS * falls > changes or _written_in_turns(steps_of):
        if not _is_set_back_at_each_fall(series, steps_of):
            return Arrangement(starts, shifts, rows, unsorted=True)
        goes_on = np.ones(pieces, bool)
    else:
        goes_on = np.zeros(pieces, bool)
    all_starts = [_Start.of(steps_of[0])]
    for piece in range(1, pieces):
        steps = steps_of[piece]
        start = all_starts[-1]
        if not len(steps):  # all its metrics are left out
            pass
        elif goes_on[piece]:
            start.set_back(steps)
        elif _repeats_values(series, piece):
            start.add(steps, is_resumption=False)
        elif start.is_begun_afresh(steps, steps_of[piece - 1]):
            if _goes_on(series, piece):
                # The same training, whose counter begins again
                start.set_back(steps)
            else:
                all_starts.append(_Start.of(steps))
        elif start.is_begun_anew(steps) and _counters_go_on(series, piece):
            # Too short to tell by its steps that it is counted anew
            start.set_back(steps)
        else:
            # Written late, or resumed from a checkpoint
            start.add(steps, is_resumption=True)
        starts[piece] = len(all_starts) - 1
        shifts[piece] = all_starts[-1].shift
    return Arrangement(
        starts,
        shifts,
        rows,
        steps=[start.steps for start in all_starts],
        repeated=[start.repeated for start in all_starts],
        set_back=[start.times_set_back for start in all_starts],
    )


@dataclass(slots=True)
class _Start:
    """A start of the run, of which the pieces so far are known.

    Attributes:
        steps: its distinct steps, as they are numbered in the report.
        counted: its distinct steps as logged, since its counter was last set back.
        repeated: steps that resumptions logged again, once for each time.
        shift: number to add to logged steps.
        times_set_back: how often its counter was set back.
    """

    steps: Ints
    counted: Ints
    repeated: Ints
    shift: int = 0
    times_set_back: int = 0

    @classmethod
    def of(cls, steps: Ints) -> _Start:
        return cls(steps, counted=steps, repeated=np.zeros(0, np.int64))

    def is_begun_anew(self, steps: Ints) -> bool:
        """Return whether a piece begins at or before the first step since the counter began."""
        return len(self.counted) > 0 and begins_anew(steps, self.counted)

    def is_begun_afresh(self, steps: Ints, before: Ints) -> bool:
        """Return whether a piece repeats the start; ``before`` are steps of the piece before it."""
        return self.is_begun_anew(steps) and begins_afresh(
            steps, self.counted, before=before
        )

    def add(self, steps: Ints, *, is_resumption: bool) -> None:
        """Add the steps of a piece that resumes the start, or copies a part of it."""
        numbered = steps + self.shift
        if is_resumption:
            again = np.intersect1d(numbered, self.steps)
            self.repeated = np.concatenate([self.repeated, again])
        self.steps = np.union1d(self.steps, numbered)
        self.counted = np.union1d(self.counted, steps)

    def set_back(self, steps: Ints) -> None:
        """Add the steps of a piece in which training goes on, but is counted anew."""
        # Its first step follows on the last one so far.
        self.shift = shift_after(int(self.steps[-1]), steps)
        self.steps = np.concatenate([self.steps, steps + self.shift])
        self.counted = steps
        self.times_set_back += 1


def _steps_by_piece(series: Mapping[str, Series], pieces: int) -> list[Ints]:
    """Return the distinct steps of metrics in each piece, ascending."""
    tables = [
        pd.DataFrame({"piece": one.pieces, "step": one.steps}).drop_duplicates()
        for name, one in series.items()
        if not name.startswith(COUNTER)
    ]
    if not tables:
        return [np.zeros(0, np.int64)] * pieces
    table = pd.concat(tables).drop_duplicates().sort_values(["piece", "step"])
    steps = table["step"].to_numpy(np.int64)
    # Where each piece begins, and the end of the last one
    bounds = np.searchsorted(table["piece"], np.arange(pieces + 1))
    return [steps[first:stop] for first, stop in pairwise(bounds)]


def _written_in_turns(steps_of: Sequence[Ints]) -> bool:
    """Return whether several writers, such as ranks, logged all steps, some steps in each turn.

    Each step is then in as many pieces as there are writers, and there are more pieces than that.
    """
    _, times = np.unique(np.concatenate(steps_of), return_counts=True)
    writers = int(np.median(times))
    in_turns = writers > 1 and len(steps_of) > 2 * writers
    return in_turns and bool(np.mean(times == writers) >= _OF_ALL_WRITERS)


def _is_set_back_at_each_fall(
    series: Mapping[str, Series], steps_of: Sequence[Ints]
) -> bool:
    """Return whether each piece counts anew, while what else is counted goes on at each fall.

    So a counter of few steps, such as of the batches of a short epoch, is told from a log that is
    in no order, of which many steps fall, too.
    """
    first = steps_of[0]
    for steps in steps_of[1:]:
        if not len(steps) or not len(first) or not begins_anew(steps, first):
            return False
    for name, one in series.items():
        if not _is_counter(name) and not _rises(one):
            continue
        is_fall = np.diff(one.pieces) > 0
        in_each_piece = np.count_nonzero(is_fall) == len(steps_of) - 1
        if in_each_piece and not _tells_time(one.values) and not _is_step(one):
            change = np.diff(one.values)
            if (change >= 0).all() and (change[is_fall] > 0).all():
                return True
    return False


def _repeats_values(series: Mapping[str, Series], piece: int) -> bool:
    """Return whether a piece is a copy of values that the pieces before it have."""
    before = {name: _before_piece(one, piece) for name, one in series.items()}
    again = {name: _in_piece(one, piece) for name, one in series.items()}
    return is_copy(before, again)


def _before_piece(one: Series, piece: int) -> Series:
    return _where(one, one.pieces < piece)


def _in_piece(one: Series, piece: int) -> Series:
    return _where(one, one.pieces == piece)


def _where(one: Series, chosen: NDArray[np.bool_]) -> Series:
    return Series(one.steps[chosen], one.values[chosen], one.pieces[chosen])


def is_copy(logged: Mapping[str, Series], again: Mapping[str, Series]) -> bool:
    """Return whether ``again`` has the values of ``logged``, perhaps rounded, at common steps.

    Metrics that are constant, such as settings, do not tell, nor do counters.
    """
    equal = 0  # number of values in common that are equal, over all metrics
    common = 0
    for name in logged.keys() & again.keys():
        if name.startswith(COUNTER):
            continue
        one = logged[name]
        two = again[name]
        # The first value at each common step
        _, at_one, at_two = np.intersect1d(one.steps, two.steps, return_indices=True)
        first = one.values[at_one]
        second = two.values[at_two]
        is_finite = np.isfinite(first) & np.isfinite(second)
        first = first[is_finite]
        second = second[is_finite]
        if not len(first) or np.ptp(first) == 0:
            continue
        close = np.isclose(first, second, rtol=_COPY_TOLERANCE, atol=0)
        equal += int(close.sum())
        common += len(first)
    return common > 0 and equal >= _COPIED * common


def _goes_on(series: Mapping[str, Series], piece: int) -> bool:
    """Return whether what is logged in ``piece`` goes on where it was in the piece before.

    Counters such as ``epoch`` decide; without any, most of the metrics that changed before do.
    """
    of_counters = _votes_of_counters(series, piece)
    if any(of_counters):
        return sum(of_counters) > 0
    # A schedule of learning rates belongs to the counter, not to the policy.
    learning_rate = roles_of(series).get("learning_rate")
    votes: list[int] = []
    for name, one in series.items():
        before = _in_piece(one, piece - 1)
        after = _in_piece(one, piece)
        # A metric that is the step itself is set back with it.
        if not len(before.values) or not len(after.values) or _is_step(one):
            continue
        if _is_counter(name) or name == learning_rate:
            continue
        if _rises(one):
            votes.append(_tally_on(before, after))
        else:
            votes.append(_moves_on(before.values, after.values))
    return sum(votes) > 0


def _counters_go_on(series: Mapping[str, Series], piece: int) -> bool:
    return sum(_votes_of_counters(series, piece)) > 0


def _votes_of_counters(series: Mapping[str, Series], piece: int) -> list[int]:
    """Return for each counter such as ``epoch`` whether it goes on in a piece.

    1 if it goes on, −1 if it is set back, 0 if it does not tell.
    """
    votes: list[int] = []
    for name, one in series.items():
        if _is_counter(name) and not _is_step(one):
            before = _in_piece(one, piece - 1).values
            after = _in_piece(one, piece).values
            if len(before) and len(after):
                votes.append(_counts_on(before, after))
    return votes


def _is_counter(name: str) -> bool:
    return name.startswith(COUNTER) or name.rpartition("/")[2] in NO_METRICS


def _is_step(one: Series) -> bool:
    return bool((one.steps == one.values).all())


def _rises(one: Series) -> bool:
    """Return whether a metric only rises within pieces, as a number of tokens or a duration does.

    Times since 1970 rise from one start to the next, too, so they do not count.
    """
    change = np.diff(one.values)[np.diff(one.pieces) == 0]
    only_rises = len(change) >= _MIN_VALUES and bool((change > 0).all())
    return only_rises and not _tells_time(one.values)


def _tally_on(before: Series, after: Series) -> int:
    """Return 1 if a metric that only rises goes on, -1 if it is set back, 0 if it does not tell."""
    if after.values[0] > before.values[-1]:
        return 1
    _, at_before, at_after = np.intersect1d(
        before.steps, after.steps, return_indices=True
    )
    # Computed from the step, such as a number of samples, it says no more than the step.
    is_of_step = np.array_equal(before.values[at_before], after.values[at_after])
    return 0 if is_of_step else -1


def _counts_on(before: Floats, after: Floats) -> int:
    """Return 1 if a counter goes on, -1 if it is set back, 0 if it does not tell."""
    if after[0] > before[-1]:
        return 1
    return -1 if after[0] < before[-1] else 0


def _moves_on(before: Floats, after: Floats) -> int:
    """Return 1 if a metric goes on where it ended, -1 if where it began, 0 if it does not tell.

    ``before`` and ``after`` are its values in two successive pieces of a log.
    """
    before = before[np.isfinite(before)]
    after = after[np.isfinite(after)]
    if min(len(before), len(after)) < _MIN_VALUES or _tells_time(before):
        return 0
    width = min(_MAX_WINDOW, max(1, len(before) // _WINDOW), len(after))
    first = before[:width].mean()
    last = before[-width:].mean()
    now = after[:width].mean()
    change = last - first
    # It ended where it began: the next value says nothing.
    if abs(change) <= _CHANGE * before.std():
        return 0
    covered = (now - first) / change  # 0 where it began, 1 where it ended
    if covered >= _GOES_ON:
        return 1
    return -1 if covered <= 1 - _GOES_ON else 0


def _tells_time(values: Floats) -> bool:
    """Return whether values are times since 1970."""
    low = values.min()
    high = values.max()
    return any(start <= low and high <= end for start, end in _CLOCKS)


def start_notes(
    found: Arrangement, choice: StartChoice, restarts: str | int | None
) -> list[Note]:
    """Return what a report says about starts, resumptions and a counter that was set back.

    ``choice`` is which start is read, by the option ``restarts``.
    """
    notes: list[Note] = []
    if found.unsorted:
        return notes
    if len(found.steps) > 1:
        note = starts_note(
            found.lengths,
            choice,
            restarts,
            log=message("one log of trainer metrics"),
            rows=int(found.rows[~found.are_read(choice)].sum()),
        )
        notes.append(note)
    # Of the starts that are read
    read = range(len(found.steps)) if choice.start is None else [choice.start]
    set_back = sum(found.set_back[start] for start in read)
    if set_back:
        text = plural(
            "the step of the trainer metrics is set back {count} time while training goes on: "
            "steps are numbered on from there",
            "the step of the trainer metrics is set back {count} times while training goes on: "
            "steps are numbered on from there",
            set_back,
        )
        notes.append(Note(NoteKind.FORMAT, text, set_back))
    for start in read:
        repeated = found.repeated[start]
        if len(repeated):
            text = message(
                "trainer metrics logged again, as after a resumption from a checkpoint: {steps}; "
                "the later rows count",
                steps=span((int(repeated.min()), int(repeated.max()))),
            )
            notes.append(Note(NoteKind.METRICS, text, len(repeated)))
    return notes
