"""A series: one number at each step, such as the mean reward, and the curve that it is read as."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from rlreport.check.curve import Curve, read_curve
from rlreport.check.prepared import Kind
from rlreport.figures.ragged import Floats, Ints

SeriesSource = Literal["rollouts", "metrics"]
MIN_STEPS = 5  # Fewest values of a series that is judged without sampling errors


@dataclass(frozen=True)
class Series:
    """One number per step, such as the mean reward."""

    steps: Ints  # int64 (S,), ascending
    values: Floats  # float64 (S,), NaN at steps without a value
    # float64 (S,), the standard error of each value, or None if unknown
    errors: Floats | None = None
    # whether it was computed from ``rollouts`` or logged in the trainer's ``metrics``
    source: SeriesSource = "rollouts"
    name: str = ""  # name of the metric, "" if it was computed from rollouts
    kind: Kind = Kind.SERIES

    def without_gaps(self) -> Series:
        """Return the series without the steps whose value is NaN or infinite."""
        finite = np.isfinite(self.values)
        errors = None if self.errors is None else self.errors[finite]
        return Series(
            steps=self.steps[finite],
            values=self.values[finite],
            errors=errors,
            source=self.source,
            name=self.name,
            kind=self.kind,
        )

    @cached_property
    def curve(self) -> Curve | None:
        """What the series did, None without a finite value."""
        return read_curve(self.steps, self.values, errors=self.errors, kind=self.kind)
