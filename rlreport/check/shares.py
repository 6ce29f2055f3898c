"""What checks of a share have in common: it rose, or is high anyway."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.compare import above, at_least
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats


class RiseOrShare(Protocol):
    """Thresholds of a check that compares a share with its start, and with a limit."""

    @property
    def rise(self) -> float:
        """Rise since the first window."""

    @property
    def share(self) -> float:
        """Share in the last window."""


def judge_share(
    check: Check, run: Run, values: Floats, limits: RiseOrShare, weights: Floats | None = None
) -> Result:
    """Return a finding where a share rose by points since the start, or is high.

    Args:
        check: whose finding it is.
        run: what is judged.
        values: float64 (rows,), the share of each response; NaN where it says nothing.
        limits: of the check.
        weights: float64 (rows,), what each share is of.
    """
    moved = run.change(values, weights)
    rose = at_least(moved.difference, limits.rise) and moved.z >= run.limits.trend.z
    high = above(moved.last, limits.share)
    if not (rose or high):
        return None
    series = run.by_step(values, weights)
    onset = run.onset(series, always=not rose)
    met = [check.met(run, "rise", ">=", moved.difference)] if rose else []
    met += [check.met(run, "share", ">", moved.last)] if high else []
    return check.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(values, onset, among=values > 0),
        series=series,
        share=moved.last,
        before=moved.first if np.isfinite(moved.first) else None,
    )


def part_of(part: Floats, whole: Floats) -> Floats:
    """Return a part over its whole, float64 (rows,), NaN where there is none."""
    known = np.isfinite(part) & (whole > 0)
    found: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=known)
    return found
