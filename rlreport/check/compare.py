"""Comparisons with a threshold that rounding in a mean cannot tip over."""

from __future__ import annotations

import math


def above(value: float, limit: float) -> bool:
    """Say whether the value is over the limit by more than rounding; NaN is not."""
    return value > limit and not math.isclose(value, limit, rel_tol=1e-9)


def below(value: float, limit: float) -> bool:
    """Say whether the value is under the limit by more than rounding; NaN is not."""
    return value < limit and not math.isclose(value, limit, rel_tol=1e-9)


def at_least(value: float, limit: float) -> bool:
    """Say whether the value reaches the limit, give or take rounding; NaN does not."""
    return value >= limit or math.isclose(value, limit, rel_tol=1e-9)
