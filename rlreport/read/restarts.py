"""Runs that were restarted: steps that come again, further down the same file."""

from __future__ import annotations

import numpy as np

from rlreport.figures.ragged import Ints


def superseded(steps: Ints) -> tuple[Ints, Ints]:
    """Find rows whose step is logged again after the file went back to an earlier step.

    Args:
        steps: int64 (R,), steps of one file's rows in the file's order.

    Returns:
        indices of the rows that a later attempt replaces, and the steps that were logged by
        more than one attempt, ascending. Both are empty where steps hop back and forth on
        most rows: such a file is not in the order of its steps.
    """
    nothing = np.zeros(0, dtype=np.int64)
    back = np.diff(steps) < 0
    changes = int((np.diff(steps) != 0).sum())
    if not back.any() or 4 * int(back.sum()) > changes:
        return nothing, nothing
    attempt = np.concatenate([[0], np.cumsum(back)])
    order = np.lexsort((attempt, steps))
    ends = np.flatnonzero(np.append(steps[order][1:] != steps[order][:-1], True))
    distinct = steps[order][ends]
    last_attempt = attempt[order][ends][np.searchsorted(distinct, steps)]
    older = np.flatnonzero(attempt < last_attempt)
    return older, np.unique(steps[older])
