"""Relations between logged fields that hold in a correct run, evaluated by blocks of steps.

A fault that is there from the first step on changes nothing, so no curve shows it. It does violate
a relation that a correct trainer obeys: the best reward is earned by right answers, advantages
follow rewards, the KL of an untrained policy is 0. A check of such a relation computes a figure of
the responses in each block (``figures_by_block``), which tells what was violated, since when and by
how much (``BlockFigures``); that of a share is one call of ``judge_violations``. The checks are in
``check.judges``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check
from rlreport.check.evidence import Ranking
from rlreport.check.finding import Facts, Onset, Result, Severity
from rlreport.check.limits import Limit, Tested
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import rounded

# A relation is judged in at most so many blocks of consecutive steps...
MOST_BLOCKS = 10
# ... with at least so many responses each
LEAST_ROWS = 32

Bools = NDArray[np.bool_]


class Figure(NamedTuple):
    """A relation's figure of some responses, and whether it violates the relation."""

    value: float  # NaN if it cannot be observed; then nothing is violated
    is_violated: bool = False


NOT_OBSERVED = Figure(math.nan)


@dataclass(frozen=True, slots=True)
class BlockFigures:
    """A relation's figure by block of steps.

    Attributes:
        run: the run.
        windows: the blocks, in the order of their steps; none if the run has too few responses.
        figures: the figure of each block.
        since_first: whether the first responses of the run alone violate the relation.
    """

    run: Run
    windows: tuple[Window, ...]
    figures: tuple[Figure, ...]
    since_first: bool

    @property
    def values(self) -> Floats:
        """The figures as numbers, float64 (blocks,), NaN where nothing can be observed."""
        return np.array([figure.value for figure in self.figures], np.float64)

    @property
    def violated(self) -> Bools:
        """Which blocks violate the relation, bool (blocks,)."""
        return np.array([figure.is_violated for figure in self.figures], bool)

    @property
    def is_observed(self) -> bool:
        """Whether any block has a figure."""
        return bool(np.isfinite(self.values).any())

    @property
    def is_violated(self) -> bool:
        return bool(self.violated.any())

    @property
    def first_violated(self) -> int:
        """Index of the first block that violates the relation."""
        return int(np.argmax(self.violated))

    @property
    def onset(self) -> Onset:
        """When the violation began: within the first violated block or the one before it."""
        index = self.first_violated
        if self.since_first:
            return self.run.from_start()
        steps = self.windows[index].steps
        # The end of the block before may be violated, too little to tell in that block.
        low = self.windows[max(index - 1, 0)].steps
        return Onset(steps[0], low[0], steps[-1])

    @property
    def until(self) -> int | None:
        """The last step of the last violated block, None if that is the last block observed."""
        observed = np.flatnonzero(np.isfinite(self.values))
        last = int(np.flatnonzero(self.violated)[-1])
        return None if last == observed[-1] else self.windows[last].steps[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of all violated blocks."""
        steps: list[int] = []
        for window, is_violated in zip(self.windows, self.violated, strict=True):
            if is_violated:
                steps += window.steps
        return tuple(steps)

    @property
    def rows(self) -> Bools:
        """Which responses lie in violated blocks, bool (rows,)."""
        chosen = np.zeros(len(self.run.responses), bool)
        for window, is_violated in zip(self.windows, self.violated, strict=True):
            chosen[window.rows] |= is_violated
        return chosen


def blocks(
    run: Run,
    *,
    among: Bools | None = None,
    least_rows: int = LEAST_ROWS,
    most: int = MOST_BLOCKS,
) -> tuple[Window, ...]:
    """Split the steps of a run into blocks of consecutive steps with about as many responses.

    Args:
        run: the run.
        among: which responses count, bool (rows,); by default all.
        least_rows: the least number of counted responses in a block. With fewer in the whole run
            there is no block.
        most: the largest number of blocks.
    """
    if among is None:
        among = np.ones(len(run.responses), bool)
    counts = np.bincount(run.step_index[among], minlength=len(run.steps))
    total = int(counts.sum())
    number = min(most, total // least_rows)
    if not number:
        return ()
    # Of the responses so far, the part that each step completes decides on its block.
    before = np.cumsum(counts) - counts
    block_of_step = np.minimum(before * number // total, number - 1)
    starts = np.flatnonzero(np.diff(block_of_step, prepend=-1))
    kept = _with_enough(counts, starts.tolist(), least_rows)
    stops = [*kept[1:], len(run.steps)]
    return tuple(
        run.window(start, stop) for start, stop in zip(kept, stops, strict=True)
    )


def _with_enough(
    counts: NDArray[np.int64], starts: Sequence[int], least_rows: int
) -> list[int]:
    """Return the starts of blocks, joining blocks with too few responses to their neighbours.

    Args:
        counts: the number of responses of each step.
        starts: the indices of the steps at which blocks start; the first is 0.
        least_rows: the least number of responses of a block.
    """
    kept = [0]
    for start in starts[1:]:
        if counts[kept[-1] : start].sum() >= least_rows:
            kept.append(start)
    if len(kept) > 1 and counts[kept[-1] :].sum() < least_rows:
        kept.pop()
    return kept


def figures_by_block(
    run: Run,
    figure: Callable[[Window], Figure],
    *,
    among: Bools | None = None,
    least_rows: int = LEAST_ROWS,
    most: int = MOST_BLOCKS,
) -> BlockFigures:
    """Return a relation's figure in each block of a run.

    Args:
        run: the run.
        figure: returns the figure of the responses in a window of steps.
        among: which responses count for the size of blocks, bool (rows,); by default all.
        least_rows: see ``blocks``.
        most: see ``blocks``.
    """
    windows = blocks(run, among=among, least_rows=least_rows, most=most)
    figures = tuple(map(figure, windows))
    return with_start(run, windows, figures, figure, among=among, least_rows=least_rows)


def with_start(
    run: Run,
    windows: tuple[Window, ...],
    figures: tuple[Figure, ...],
    figure: Callable[[Window], Figure],
    *,
    among: Bools | None = None,
    least_rows: int = LEAST_ROWS,
) -> BlockFigures:
    """Return figures of blocks, and whether the first ``least_rows`` responses violate, too.

    A block may begin with some steps that are correct: only what the smallest number of first
    steps shows was so from the first step on.
    """
    since_first = bool(figures) and figures[0].is_violated
    if since_first:
        counted = run.step_index if among is None else run.step_index[among]
        stop = int(counted[least_rows - 1]) + 1
        since_first = figure(run.window(0, stop)).is_violated
    return BlockFigures(run, windows, figures, since_first)


def judge_violations(
    check: Check,
    run: Run,
    violates: Floats,
    limit: Limit[float],
    ranking: Ranking,
    *,
    severity: Severity = Severity.WARNING,
    facts: Callable[[Bools], Facts] = lambda rows: MappingProxyType({}),
) -> Result:
    """Find that too large a share of responses violates a relation in a block of steps.

    ``violates`` is 1 for a response that does, 0 for another, NaN if it is not known, float64
    (rows,); the other arguments are those of ``judge_ratio``.
    """
    counted = np.where(np.isfinite(violates), 1.0, np.nan)
    return judge_ratio(
        check,
        run,
        (violates, counted),
        limit,
        ranking,
        severity=severity,
        facts=facts,
    )


def judge_ratio(
    check: Check,
    run: Run,
    parts: tuple[Floats, Floats],
    limit: Limit[float],
    ranking: Ranking,
    *,
    severity: Severity = Severity.WARNING,
    facts: Callable[[Bools], Facts] = lambda rows: MappingProxyType({}),
) -> Result:
    """Find that a part of a whole, added up in a block of steps, is too large a share of it.

    Args:
        check: the check.
        run: the run that is judged.
        parts: the part and the whole of each response, float64 (rows,) each, NaN if unknown.
        limit: the limit of the share.
        ranking: how to choose examples.
        severity: of a finding.
        facts: returns further facts, of the responses in violated blocks.
    """
    part, whole = parts
    is_known = np.isfinite(part) & np.isfinite(whole)

    def share(window: Window) -> Figure:
        rows = is_known[window.rows]
        total = float(whole[window.rows][rows].sum())
        if not total > 0:
            return NOT_OBSERVED
        value = rounded(float(part[window.rows][rows].sum()) / total)
        return Figure(value, run.limits.test(limit, ">", value).met)

    blocks = figures_by_block(run, share, among=is_known)
    if not blocks.is_observed:
        return Result()
    if not blocks.is_violated:
        highest = float(np.nanmax(blocks.values))
        return Result(tested=(run.limits.test(limit, ">", highest),))
    rows = blocks.rows & is_known
    level = rounded(float(part[rows].sum() / whole[rows].sum()))
    tested = (run.limits.test(limit, ">", level),)
    return found_in_blocks(
        check,
        blocks,
        tested,
        {"share": level, **facts(rows)},
        ranking,
        severity=severity,
    )


def found_in_blocks(
    check: Check,
    blocks: BlockFigures,
    tested: Iterable[Tested],
    facts: Facts,
    ranking: Ranking,
    *,
    severity: Severity = Severity.WARNING,
) -> Result:
    """Return a finding about the blocks of steps that violate a relation."""
    return check.found(
        blocks.run,
        severity,
        tested,
        facts,
        ranking,
        onset=blocks.onset,
        until=blocks.until,
        steps=blocks.steps,
    )
