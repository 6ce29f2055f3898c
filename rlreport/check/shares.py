"""What checks of a share have in common: it rose, or is high anyway."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Met
from rlreport.check.limits import Limit, Limits
from rlreport.check.noise import Change
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats


class RiseOrShare(Limits):
    """Thresholds of a check that compares a share with its start, and with a limit."""

    rise: Limit[float]
    share: Limit[float]


def rise_or_share(
    run: Run, moved: Change, limits: type[RiseOrShare]
) -> tuple[list[Met], list[Met]]:
    """Return the threshold of the rise where the share rose, and all that it met."""
    rise = run.met(limits.rise, ">=", moved.difference) if moved.rose else []
    return rise, [*rise, *run.met(limits.share, ">", moved.last)]


def judge_share(
    check: Check,
    run: Run,
    values: Floats,
    limits: type[RiseOrShare],
    weights: Floats | None = None,
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
    rise, met = rise_or_share(run, moved, limits)
    if not met:
        return None
    return check.of_values(
        run,
        "warning",
        met,
        values,
        weights,
        always=not rise,
        among=values > 0,
        share=moved.last,
        before=moved.first,
    )


def part_of(part: Floats, whole: Floats) -> Floats:
    """Return a part over its whole, float64 (rows,), NaN where there is none."""
    known = np.isfinite(part) & (whole > 0)
    found: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=known)
    return found
