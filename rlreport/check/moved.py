"""Which figures of a run moved: those that break near the onset of the lead finding, else most.

Candidates are all logged figures: quantities with a course, parts of the reward, columns of the
table of steps, further columns of the log, and the trainer's metrics. Counters, ids and settings
such as the learning rate are none. Of figures that are copies of each other, one remains.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rlreport.check import parts, quantities
from rlreport.check.breaks import (
    ENOUGH_Z,
    Move,
    move_of_stretch,
    moves_of,
    size_of,
)
from rlreport.check.course import SCORES, Course, Quantity, course_of
from rlreport.check.curve import Curve, level_width, read_curve
from rlreport.check.events import Event, EventKind
from rlreport.check.finding import Finding, Onset
from rlreport.check.pieces import PieceKind
from rlreport.check.run import Run
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.subjects import (
    CHART_OF_COLUMN,
    CHART_OF_QUANTITY,
    CHART_OF_ROLE,
    IDENTIFIER,
)
from rlreport.columns import STEP, Column
from rlreport.figures.ragged import Floats, Ints
from rlreport.metrics.roles import roles_of

# Most figures that are shown; below LEAST that break near the onset, others fill up
MOST = 8
LEAST = 4
# A single one says no more than its own chart
FEWEST = 2
# Most series whose curves are read only for this: each takes 5 to 25 ms
MOST_READ = 9
# Curves of metrics with so many values are read coarsely, which takes a third of the time
LONG = 200
# A break within this part of the run's steps, or so many logged steps, is near the onset
NEAR_SHARE = 0.03
NEAR_STEPS = 3
# Least rough z of a series whose curve is read: of two means, and of the range of many
ROUGH_Z = 3.0
ROUGH_Z_OF_MANY = 6.0
# A break with a wide interval is not near if its step is further away, as a part of the run
AROUND_SHARE = 0.25
# A change goes on while it has more than this part of its way before it
STILL_TO_GO = 0.1
# A figure with so many values that hardly ever falls is a counter, such as a number of tokens
COUNTED = 20
COUNTER_SHARE = 0.95
# A quantity that moved so much is shown, whenever that was
LARGE = 0.5
# The same of a stretch from which it recovered
LEAST_STRETCH = 0.2
# A stretch that has more of the run's steps is the run itself
MOST_STRETCH = 0.5
# Values that never leave this are rounding errors, such as the mean of normalized advantages
LEAST_VALUE = 1e-7

# Roles that are settings, or that courses and parts already have
_NOT_SHOWN = ("learning_rate", "reward_std", "loss")
_ROLES_OF: dict[Quantity, tuple[str, ...]] = {
    "reward": ("reward",),
    "validation": ("validation",),
    "kl": ("kl", "kl_token"),
    "length": ("length", "length_max"),
    "entropy": ("entropy",),
}
# Copies agree in this part of their changes, the smallest, up to this part of their variance
SMALL_CHANGES = 0.8
SMALL_UNEXPLAINED = 0.1
# Levels that differ by less are the same
SAME_LEVEL = 0.01

# Columns that estimate what a quantity has
_TWINS = ("kl_k3_mean",)
# Words in names of metrics that measure the machine: they are shown last
_OF_MACHINE = re.compile(
    r"(^|[/_.])(timings?|times?|per_sec(?:ond)?|tps|perf|throughput|latency|seconds|runtime|memory|mem|gpu|cpu|mfu)"
    r"([/_.]|$)"
)
# Settings and counters by their names
_SETTING = re.compile(
    r"(^|[/_.])(lr|learning_rate|epochs?|global_steps?|num_tokens|seen|samples|beta|kl_coeff?)$"
)
# Words that names of different figures have in common
_COMMON_WORDS = frozenset(
    "reward rewards rollout rollouts eval train mean score scores func".split()
)
_WORD = re.compile(r"[a-z]{4,}")
# What names of several figures of one quantity differ in
_STATISTIC = re.compile(r"[/_.@](mean|avg|max|min|std|median|p\d+|sum|var)(?=$|[/_.@])")


@dataclass(frozen=True, slots=True)
class Figure:
    """A logged figure."""

    course: Course
    column: Column | None = None  # of the table of steps, None for others
    # what logs it besides the columns of the table of steps
    of: str = "quantity"  # or "part", "column" (further ones of the log), "metric"
    name: str = ""  # as logged: of a part, a further column or a metric
    # chart of the overview that shows it, "" if it has none of such a name
    subject: str = ""

    @property
    def quantity(self) -> Quantity | None:
        return self.course.quantity

    @property
    def curve(self) -> Curve:
        return self.course.curve

    @property
    def is_share(self) -> bool:
        return self.column is not None and self.column.kind == "share"

    @property
    def is_of_machine(self) -> bool:
        return self.of == "metric" and bool(_OF_MACHINE.search(self.name.lower()))

    @property
    def series(self) -> Series:
        return Series(self.curve.steps, self.curve.values)


class Moved(NamedTuple):
    """A figure, and its break that counts."""

    figure: Figure
    move: Move
    is_near: bool  # whether that is near the onset of the lead finding


@dataclass(frozen=True, slots=True)
class MovedFigures:
    """The figures of a run that moved, in the order in which they are shown."""

    figures: tuple[Moved, ...] = ()
    onset: Onset | None = None  # of the lead finding, None if it has no date or no lead
    # step of the checkpoint to keep, None if it is the last or none
    keep: int | None = None

    def __bool__(self) -> bool:
        return bool(self.figures)


def moved_figures(
    run: Run,
    courses: Sequence[Course],
    lead: Finding | None,
    keep: int | None = None,
) -> MovedFigures:
    """Return which figures moved, none of them if fewer than FEWEST did.

    Args:
        run: the run.
        courses: the courses that are already read, of quantities and of columns of the table of
            steps.
        lead: the lead finding, None for a healthy run.
        keep: step of the checkpoint to keep.
    """
    onset = lead.onset if lead is not None else None
    if onset is not None and onset.from_start:
        onset = None
    figures = _figures(run, courses, onset)
    near = _near(run)
    subjects = _subjects_of(lead)
    moved = []
    for figure in figures:
        is_lead = figure.subject in subjects[:1]
        found = _move_of(figure, onset, near, is_lead=is_lead)
        if found is not None:
            moved.append(found)
    moved.sort(key=lambda one: _order(one, onset, subjects))
    chosen = _without_copies(moved)
    if onset is not None:
        # Those near the onset come first, then quantities that moved far at another time.
        enough = sum(one.is_near or _is_large(one) for one in chosen)
        chosen = chosen[: max(LEAST, enough)]
    if len(chosen) < FEWEST:
        chosen = []
    steps = run.steps
    is_last = keep is None or not len(steps) or keep >= int(steps[-1])
    return MovedFigures(tuple(chosen[:MOST]), onset, None if is_last else keep)


def _is_large(moved: Moved) -> bool:
    return moved.figure.quantity is not None and moved.move.size >= LARGE


def _near(run: Run) -> float:
    """Return how many steps from the onset a break may be."""
    steps = run.steps
    if len(steps) < 2:
        return 0.0
    span = float(steps[-1] - steps[0])
    return max(NEAR_SHARE * span, NEAR_STEPS * span / (len(steps) - 1))


def _subjects_of(lead: Finding | None) -> list[str]:
    """Return the charts of the lead finding; a cause is seen in another figure than the reward."""
    if lead is None:
        return []
    charts = list(lead.charts)
    if lead.rank == "cause":
        charts.sort(key=lambda chart: chart == "reward")
    return charts


def _order(
    moved: Moved, onset: Onset | None, subjects: Sequence[str]
) -> tuple[float, ...]:
    """Return the key by which figures are sorted.

    Those of the lead finding are first, those of the machine last; in between, figures near the
    onset, the nearest first, or without an onset the scores. Of equal ones the size decides.
    """
    figure = moved.figure
    is_lead = figure.subject in subjects and (moved.is_near or onset is None)
    rank = subjects.index(figure.subject) if is_lead else len(subjects)
    distance = 0
    if onset is not None:
        distance = moved.move.distance(onset) if moved.is_near else 0
    elif figure.quantity not in SCORES:
        distance = 1
    return (
        rank,
        figure.is_of_machine,
        0 if onset is None or moved.is_near else 1 + (not _is_large(moved)),
        distance,
        -moved.move.size,
    )


def _without_copies(moved: Sequence[Moved]) -> list[Moved]:
    """Return the figures without those that tell what one before them tells."""
    chosen: list[Moved] = []
    for one in moved:
        if len(chosen) == MOST:
            break
        if not any(_is_copy(one, other) for other in chosen):
            chosen.append(one)
    return chosen


def _is_copy(one: Moved, other: Moved) -> bool:
    """Return whether a figure is another one, scaled, or another statistic of the same values."""
    name = one.figure.course.column.lower()
    other_name = other.figure.course.column.lower()
    if _STATISTIC.sub("", name) == _STATISTIC.sub("", other_name):
        return True
    if _are_alike(one.figure.series, other.figure.series, parts.COPY):
        return True
    # A metric may be the same figure of other responses, as those of evaluations.
    common = set(_WORD.findall(name)) & set(_WORD.findall(other_name))
    if not common - _COMMON_WORDS:
        return False
    if np.allclose(one.move.levels, other.move.levels, rtol=SAME_LEVEL):
        return True
    return _are_alike(one.figure.series, other.figure.series, parts.ALIKE)


def _are_alike(one: Series, other: Series, unexplained: float = parts.COPY) -> bool:
    """Return whether a series is another one, scaled: also between the steps at which both jump.

    For ``unexplained`` see ``parts.is_copy``. Two figures that break at one step and are level
    else are no copies.
    """
    if not parts.is_copy(one, other, unexplained):
        return False
    _, in_one, in_other = np.intersect1d(one.steps, other.steps, return_indices=True)
    changes = np.diff(one.values[in_one])
    others = np.diff(other.values[in_other])
    finite = np.isfinite(changes) & np.isfinite(others)
    if not finite.any():
        # No two steps in a row have a value in both: only the values can tell
        return True
    steps = np.arange(len(changes))
    # The change from step to step without the largest ones
    small = np.abs(changes) <= np.quantile(np.abs(changes[finite]), SMALL_CHANGES)
    kept = steps[finite & small]
    still = Series(kept, changes[kept])
    if not np.ptp(still.values):
        return not np.ptp(others[kept])
    return parts.is_copy(Series(kept, others[kept]), still, SMALL_UNEXPLAINED)


# Candidates


def _figures(run: Run, courses: Sequence[Course], onset: Onset | None) -> list[Figure]:
    """Return all candidates, of those without a known course the MOST_READ that moved most."""
    figures = [_known(course) for course in courses if course.column not in _TWINS]
    unread = [
        one for one in _unread(run, courses) if _is_candidate(one.series, one.name)
    ]
    near = _near(run)
    moves = {id(one): _rough_move(one.series, onset, near) for one in unread}
    # Parts of the reward come first, figures of the machine last.
    unread.sort(key=lambda one: (one.rank, -moves[id(one)]))
    read = 0
    for one in unread:
        if read == MOST_READ:
            break
        if not moves[id(one)] > 0:
            continue
        if any(_are_alike(one.series, other.series) for other in figures):
            continue
        course = one.course()
        read += 1
        if course is not None:
            figures.append(one.read(course))
    return figures


class _Unread(NamedTuple):
    """A candidate whose curve is not read yet."""

    series: Series
    of: str
    name: str
    subject: str
    column: Column | None = None

    @property
    def rank(self) -> int:
        if self.of == "part":
            return 0
        return 2 if _OF_MACHINE.search(self.name.lower()) else 1

    def course(self) -> Course | None:
        """Return its course; that of a long metric is read faster, as there may be many."""
        series = self.series
        name = series.name or self.name
        if self.of == "part" or len(series.steps) < LONG:
            return course_of(series, name)
        curve = read_curve(series.steps, series.values, kind=series.kind, coarse=True)
        return None if curve is None else Course(None, curve, series.source, name)

    def read(self, course: Course) -> Figure:
        return Figure(course, self.column, self.of, self.name, self.subject)


def _known(course: Course) -> Figure:
    """Return the figure of a course."""
    quantity = course.quantity
    column = STEP.get(course.column) if course.source == "rollouts" else None
    if quantity is None:
        return Figure(
            course, column, "quantity", "", CHART_OF_COLUMN.get(course.column, "")
        )
    of = "part" if course.name else "quantity"
    return Figure(course, column, of, course.name, CHART_OF_QUANTITY[quantity])


def _unread(run: Run, courses: Sequence[Course]) -> Iterator[_Unread]:
    """Yield the candidates without a course."""
    known = {course.column for course in courses} | {course.name for course in courses}
    for name, part in quantities.reward_parts(run).items():
        if name not in known:
            yield _Unread(part, "part", name, "reward_parts")
    yield from _columns(run, courses, known)
    yield from _metrics(run, courses)


def _columns(run: Run, courses: Sequence[Course], known: set[str]) -> Iterator[_Unread]:
    """Yield the columns of the table of steps that charts show, and the further ones of the log."""
    if run.responses.empty:
        return  # then the columns are metrics
    steps = run.steps
    for name, chart in CHART_OF_COLUMN.items():
        if name in known:
            continue
        values = run.tables.steps[name].to_numpy(np.float64)
        yield _Unread(Series(steps, values), "quantity", name, chart, STEP[name])
    means = run.tables.extras_by_step
    if "step" not in means:
        return
    at = means["step"].to_numpy(np.int64)
    names = [str(name) for name in means.columns if name != "step"]
    copies = _metrics_of(courses, roles_of(names))
    for name in names:
        if name not in {*run.tables.reward_parts, *known, *copies}:
            values = means[name].to_numpy(np.float64)
            yield _Unread(Series(at, values), "column", name, "")


def _metrics(run: Run, courses: Sequence[Course]) -> Iterator[_Unread]:
    """Yield the trainer's metrics that no course and no part has, if their steps are the run's."""
    metrics = run.tables.metrics
    has_own_steps = run.tables.metrics_apart and not run.responses.empty
    if "step" not in metrics or has_own_steps:
        return
    taken = {part.name for part in quantities.reward_parts(run).values()}
    taken |= {course.column for course in courses if course.source == "metrics"}
    names = [str(name) for name in metrics.columns[1:]]
    by_role = run.roles
    taken |= _metrics_of(courses, by_role)
    taken |= {by_role[role] for role in _NOT_SHOWN if role in by_role}
    roles = {metric: role for role, metric in by_role.items()}
    steps = metrics["step"].to_numpy(np.int64)
    for name in names:
        role = roles.get(name, "")
        if name in taken:
            continue
        values = metrics[name].to_numpy(np.float64)
        series = Series(steps, values, None, "metrics", name)
        if role in quantities.SIZES:
            series = quantities.series_of(run, role) or series
        yield _Unread(series, "metric", name, CHART_OF_ROLE.get(role, ""))


def _metrics_of(courses: Sequence[Course], by_role: Mapping[str, str]) -> set[str]:
    """Return the names that are quantities with a course; ``by_role``: role -> name."""
    roles: list[str] = []
    for course in courses:
        if course.quantity is not None:
            roles += _ROLES_OF.get(course.quantity, ())
    return {by_role[role] for role in roles if role in by_role}


def _is_candidate(series: Series, name: str) -> bool:
    """Return whether a series is a measurement: no id, no setting and no counter."""
    if IDENTIFIER.search(name) or _SETTING.search(name.lower()):
        return False
    values = series.values[np.isfinite(series.values)]
    if len(values) < MIN_STEPS or np.abs(values).max() < LEAST_VALUE:
        return False
    changes = np.diff(values)
    if not changes.any():
        return False
    grows = max((changes > 0).mean(), (changes < 0).mean())
    return not (len(values) >= COUNTED and grows >= COUNTER_SHARE)


def _rough_move(series: Series, onset: Onset | None, near: float) -> float:
    """Return about how much a series moved around the onset, or over the run; 0 if not at all.

    It decides which curves are read: a curve takes a hundred times as long.
    """
    finite = np.isfinite(series.values)
    steps = series.steps[finite]
    values = series.values[finite]
    width = level_width(len(values))
    span = float(np.ptp(values))
    if not math.isfinite(span) or span == 0:
        return 0.0
    noise = float(np.median(np.abs(np.diff(values)))) / span
    if onset is None:
        change = float(np.ptp(_blocks(values, width))) / span
    else:
        change = _change_at(steps, values, onset, near) / span
    z = change / (noise * math.sqrt(2 / width) + 1e-9)
    least = ROUGH_Z if onset is not None else ROUGH_Z_OF_MANY
    return change * min(z / ENOUGH_Z, 1.0) if z >= least else 0.0


def _change_at(steps: Ints, values: Floats, onset: Onset, near: float) -> float:
    """Return the largest change of means from before an onset to after it; 0 if unknown."""
    width = level_width(len(values))
    befores = []
    lows = np.searchsorted(steps, (onset.low - near, onset.low))
    for low in lows.tolist():
        befores.append(_mean(values[max(low - width, 0) : low]))
    afters = []
    highs = np.searchsorted(steps, (onset.high, onset.high + near))
    for high in highs.tolist():
        afters.append(_mean(values[high : high + width]))
    changes = np.abs(np.subtract.outer(befores, afters))
    return float(np.nanmax(changes, initial=0.0))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _blocks(values: Floats, width: int) -> Floats:
    """Return the means of blocks of ``width`` values."""
    count = len(values) // width
    means: Floats = values[: count * width].reshape(count, width).mean(axis=1)
    return means


# Breaks


def _move_of(
    figure: Figure, onset: Onset | None, near: float, *, is_lead: bool = False
) -> Moved | None:
    """Return the break of a figure that is nearest to the onset, else its largest; None if flat.

    ``is_lead``: whether it is the figure of the lead finding, whose change may go on at the onset.
    """
    is_score = figure.quantity in SCORES
    moves = list(moves_of(figure.curve, is_score=is_score, is_share=figure.is_share))
    if not moves:
        return None
    if onset is not None:
        nearest = _nearest(figure, moves, onset, near)
        if is_lead and (nearest is None or not nearest.is_event):
            under_way = (move for move in moves if _goes_on(move, onset, figure.curve))
            nearest = next(under_way, nearest)
        if nearest is not None:
            return Moved(figure, nearest, is_near=True)
    largest = max(moves, key=lambda move: (move.is_event, move.size))
    return Moved(figure, largest, is_near=False)


def _nearest(
    figure: Figure, moves: Sequence[Move], onset: Onset, near: float
) -> Move | None:
    """Return the break that is nearest to the step of an onset, None if none is near."""
    steps = figure.curve.steps
    around = max(AROUND_SHARE * float(steps[-1] - steps[0]), near)
    is_close = [
        move.distance(onset) <= near and abs(move.step - onset.step) <= around
        for move in moves
    ]
    return min(
        itertools.compress(moves, is_close),
        key=lambda move: (
            move.steps_apart(onset),
            not move.is_event,
            abs(move.step - onset.step),
        ),
        default=None,
    )


def _goes_on(move: Move, onset: Onset, curve: Curve) -> bool:
    """Return whether a change to the last level has begun at an onset, and has not ended yet."""
    if not move.is_event or move.until is not None or move.low > onset.step:
        return False
    at = int(np.searchsorted(curve.steps, onset.step))
    there = float(curve.lines[min(at, len(curve) - 1)])
    left = abs(move.after - there)
    return left > STILL_TO_GO * abs(move.after - move.before)


@dataclass(frozen=True, slots=True)
class Recovery:
    """A stretch of steps after which figures came back, each with its extreme level."""

    steps: tuple[int, int]
    figures: Mapping[int, Event]  # index of the figure -> its valley or hump


def recoveries(moved: MovedFigures) -> list[Recovery]:
    """Return the stretches from which shown figures recovered, those that overlap as one.

    They are in the order of their figures. A score that rose and fell did not recover.
    """
    found: list[Recovery] = []
    for index, one in enumerate(moved.figures):
        event = _stretch_of(one, moved.onset)
        if event is None:
            continue
        for place, other in enumerate(found):
            if _overlap((event.onset, event.until), other.steps):
                figures = {**other.figures, index: event}
                found[place] = replace(other, figures=figures)
                break
        else:
            found.append(Recovery((event.onset, event.until), {index: event}))
    return found


def _stretch_of(moved: Moved, onset: Onset | None) -> Event | None:
    """Return the valley or hump of a quantity or a part, None without one that is to be told.

    That is the one which is its break or, if that is no such stretch, one that began since the
    onset of the lead finding.
    """
    figure = moved.figure
    is_score = figure.quantity in SCORES or figure.of == "part"
    if not is_score and figure.quantity is None:
        return None
    kinds = [EventKind.VALLEY] if is_score else [EventKind.VALLEY, EventKind.HUMP]
    for event in figure.curve.events:
        if (
            event.kind not in kinds
            or size_of(move_of_stretch(event, figure.curve)) < LEAST_STRETCH
        ):
            continue
        if not _has_recovered(figure.curve, event):
            continue
        if moved.move.until is not None:
            is_told = (event.onset, event.until) == (moved.move.step, moved.move.until)
        else:
            is_told = onset is None or event.onset >= onset.low
        if is_told:
            return event
    return None


def _has_recovered(curve: Curve, event: Event) -> bool:
    """Return whether the level after a valley or a hump is nearer to that before it than to it."""
    after = curve.values[curve.steps > event.until][: level_width(len(curve))]
    span = int(curve.steps[-1] - curve.steps[0])
    if not len(after) or event.until - event.onset > MOST_STRETCH * span:
        return False
    left = abs(float(after.mean()) - event.before)
    return left <= abs(event.level - event.before) / 2


def _overlap(steps: tuple[int, int], others: tuple[int, int]) -> bool:
    """Return whether two stretches have half of the longer one in common."""
    first, last = steps
    start, stop = others
    common = min(last, stop) - max(first, start) + 1
    longer = max(last - first, stop - start) + 1
    return 2 * common >= longer


# An event is looked at closely if it takes a smaller part of the run
FOCUSED_SHARE = 0.2
# Least number of steps of the run for that, and of steps on each side of the event
LEAST_RUN = 20
LEAST_ASIDE = 5
ASIDE_SHARE = 0.05


def focus_of(moved: MovedFigures, steps: Ints) -> tuple[float, float] | None:
    """Return the steps around the event of the lead finding, None if it takes much of the run.

    On both sides of it there are as many steps as it has.

    Args:
        moved: the first figure of it is that of the lead finding.
        steps: the steps of the run, int64 (S,).
    """
    if not moved or moved.onset is None or len(steps) < LEAST_RUN:
        return None
    first = moved.figures[0]
    if not first.is_near:
        return None
    start, end = _event_span(first, moved.onset)
    span = int(steps[-1] - steps[0])
    length = end - start + 1
    if length >= FOCUSED_SHARE * span:
        return None
    usual = span / (len(steps) - 1)
    aside = max(length, ASIDE_SHARE * span, LEAST_ASIDE * usual)
    low = max(start - aside, int(steps[0]))
    high = min(end + aside, int(steps[-1]))
    inside = steps[(steps >= low) & (steps <= high)]
    # Steps may be far apart, so that those nearest to the limits count.
    return float(inside[0]), float(inside[-1])


def _event_span(moved: Moved, onset: Onset) -> tuple[int, int]:
    """Return the first and the last step of an event: until it ended or reached its new level."""
    start = min(moved.move.step, onset.step)
    end = max(moved.move.step, onset.step)
    if moved.move.until is not None:
        return start, max(end, moved.move.until)
    for piece in moved.figure.curve.pieces:
        is_change = piece.kind in (PieceKind.RISE, PieceKind.FALL)
        if is_change and piece.steps[0] <= end <= piece.steps[1]:
            end = piece.steps[1]
    return start, end
