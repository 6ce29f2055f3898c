"""Choose which steps get a page, and in which detail, so that a report fits its size limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from rlreport.errors import OutputError
from rlreport.pages.context import RunReport
from rlreport.pages.data import data_files
from rlreport.pages.plan import (
    LEVELS,
    StepPlan,
    affordable,
    expected_bytes,
    fewer_steps,
    fitting_level,
)
from rlreport.pages.responses import rows_listed
from rlreport.text.numbers import byte_size

# Share of the size limit given to pages of steps until the size of other pages is known
FOR_STEPS = 0.75

# Share of the size limit that ``data/metrics.csv`` may take in a report with pages of steps
METRICS_SHARE = 0.3

CAUTION = 0.9  # Fraction of the available bytes that a second, more detailed rendering may use

# Writes a report and returns its size in bytes
Write: TypeAlias = Callable[[RunReport], int]
# Renders the pages of a report's steps at a level of detail
Render: TypeAlias = Callable[[RunReport, int], RunReport]


class Fitted(NamedTuple):
    """The report that was written last, and its size in bytes."""

    report: RunReport
    size: int


def fit_without_steps(report: RunReport, write: Write, limit: int) -> Fitted:
    """Write a report without pages of steps; if it is too large, without the trainer metrics."""
    size = write(report)
    if size > limit and report.data.metrics:
        report = _without_metrics(report)
        size = write(report)
    if size > limit:
        raise too_large(limit, size)
    return Fitted(report, size)


def fit_steps(report: RunReport, render: Render, write: Write, limit: int) -> Fitted:
    """Write the most detailed report of up to ``limit`` bytes.

    The sizes of pages are estimated at first. Too large: try again with less room. Fits at once:
    try again if the measured sizes allow more detail. Too large in the least detail: leave out the
    data files.

    Raises:
        OutputError: even the smallest report is too large.
    """
    if len(report.data.metrics) > METRICS_SHARE * limit:
        report = _without_metrics(report)
    # Bytes of all pages of steps, as ``expected_bytes`` estimates them
    room = FOR_STEPS * limit
    is_first = True  # until a report has been written
    while True:
        choice = _Choice.within(room, report.plans)
        draft = replace(
            report, plans=choice.steps, listed=rows_listed(choice.steps, limit)
        )
        draft = render(draft, choice.level)
        size = write(draft)
        weight = sum(page.weight for page in draft.step_pages)
        # Actual bytes that the other pages leave, and as many in the unit of ``room``: expected
        # bytes, which differ from actual ones by a factor that is known now.
        left = limit - (size - weight)
        step_room = left * expected_bytes(choice.steps, choice.level) / weight
        if size <= limit:
            better = _Choice.within(CAUTION * step_room, report.plans)
            # The second report that fits is the last: a third would gain little.
            if not is_first or better.detail <= choice.detail:
                return Fitted(draft, size)
            room = CAUTION * step_room
        elif not choice.is_least:
            # The expected sizes of steps may be off by different factors: never try the same again.
            room = min(step_room, CAUTION * room)
        elif report.data.responses_count or report.data.metrics:
            # Without data files there is room again: start anew.
            empty = data_files(report.run, room=0, context=report.shared)
            report = replace(report, data=empty)
            room = FOR_STEPS * limit
        else:
            raise too_large(limit, size)
        is_first = False
        del draft  # free the memory of its pages before the next ones are rendered


class _Choice(NamedTuple):
    """Steps that get a page, and the index of their level of detail in LEVELS."""

    steps: list[StepPlan]
    level: int

    @classmethod
    def within(cls, room: float, plans: list[StepPlan]) -> _Choice:
        steps = fewer_steps(plans, affordable(plans, room))
        return cls(steps, fitting_level(steps, room))

    @property
    def detail(self) -> tuple[int, int]:
        """More steps are more detail than a better level, of which 0 is the best."""
        return len(self.steps), -self.level

    @property
    def is_least(self) -> bool:
        # The first and the last step always have a page.
        return len(self.steps) <= 2 and self.level == len(LEVELS) - 1


def _without_metrics(report: RunReport) -> RunReport:
    return replace(report, data=report.data._replace(metrics=b""))


def too_large(limit: int, size: int) -> OutputError:
    return OutputError(
        f"--max-size {byte_size(limit)}: the smallest possible report of these logs has {size:,} "
        "bytes, because figures and charts are always included; raise --max-size or choose "
        "another format"
    )
