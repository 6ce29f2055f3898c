"""Made-up runs for the checks' tests: exact figures, so that a threshold can be met exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlreport.check.check import Result
from rlreport.check.finding import Finding
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.tables_builder import make_tables

STEPS = 40
WINDOW = 8
SIZE = 100
STEP = np.repeat(np.arange(STEPS), SIZE)
INDEX = np.tile(np.arange(SIZE), STEPS)
SIGN = np.where(INDEX % 2, 1.0, -1.0)
"""±1, of mean zero inside every step."""


def run(check_id: str, tables: Tables) -> Result:
    """Run one check with the default thresholds."""
    (check,) = (check for check in CHECKS if check.id == check_id)
    return check.run(Run(tables))


def severity(check_id: str, tables: Tables) -> str | None:
    """Return the severity that a check finds, None if it is content; it must be able to run."""
    result = run(check_id, tables)
    assert result is None or isinstance(result, Finding), result
    return result.severity if result else None


def find(check_id: str, tables: Tables) -> Finding:
    """Run one check that must find something."""
    result = run(check_id, tables)
    assert isinstance(result, Finding), result
    return result


def title(finding: Finding) -> str:
    """Return the words of a finding."""
    return BY_ID[finding.id].format_title(finding.facts)


def moved(first: float, last: float) -> Any:
    """Return a figure that is ``first`` until the last window, then ``last``."""
    return np.where(STEP < STEPS - WINDOW, first, last).astype(float)


def share(first: float, last: float) -> Any:
    """Return 1 for a share of each step's responses, 0 for the rest."""
    return (np.round(moved(first, last) * SIZE) > INDEX).astype(float)


def tables(**columns: Any) -> Tables:
    """Make a run of 40 steps with 100 responses each; a scalar fills its column."""
    filled = {name: np.broadcast_to(np.asarray(v), STEP.shape) for name, v in columns.items()}
    return make_tables({"step": STEP, "reward": SIGN, **filled})


def solve(z: float, z_of: Callable[[float], float], low: float, high: float) -> float:
    """Return the shift at which an increasing ``z_of`` meets ``z``."""
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if z_of(middle) < z else (low, middle)
    return (low + high) / 2
