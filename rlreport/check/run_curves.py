"""Short curves of a run's quantities, by which many runs are listed side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlreport.check.course import Course, Quantity, course_of
from rlreport.check.quantities import series_of
from rlreport.check.run import Run, has
from rlreport.check.series import Series
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import significant
from rlreport.metrics.roles import has_role

MOST_POINTS = 50  # of a curve; longer ones have means of neighbours
_DIGITS = 6  # of a value

# Name of a quantity without a course in the verdict -> role of the trainer's metric, and column of
# the table of steps that is used without it; "" for none. Twins: labels of pages/index_metrics.py
_FIGURES = {
    "grad_norm": ("grad_norm", ""),
    "clip_fraction": ("clip_fraction", ""),
    "truncated": ("truncated", ""),
    "eos_rate": ("", "eos_rate"),
    "zero_variance": ("zero_variance", "zero_variance_groups"),
    "pass_at_k": ("", "pass_at_k"),
    "distinct_2": ("", "distinct_2"),
    "tool_errors": ("tool_errors", "tool_error_share"),
    "turns": ("turns", "turns_mean"),
    "mismatch_k3": ("mismatch_k3", "mismatch_k3"),
}


def run_curves(run: Run, courses: Mapping[Quantity, Course]) -> list[dict[str, Any]]:
    """Return ``curves`` of ``report.json``: an entry a quantity, those of ``courses`` first."""
    found: dict[str, Course] = {}
    for quantity, course in courses.items():
        found[_name(quantity, course)] = course
    for name, (role, column) in _FIGURES.items():
        series = series_of(run, role) if role else None
        series = series or _of_steps(run, column)
        of_figure = course_of(series, series.name or column) if series else None
        if of_figure is not None:
            found[name] = of_figure
    return [_entry(name, course) for name, course in found.items()]


def _name(quantity: Quantity, course: Course) -> str:
    """Return a quantity's name; of one that may have two units, that in the other unit differs."""
    if quantity == "kl" and has_role(course.column, "kl_token"):
        return "kl_token"  # the mean over tokens, not the sum over a response
    if quantity == "length" and re.search("char", course.column):
        return "length_chars"
    return quantity


def _of_steps(run: Run, column: str) -> Series | None:
    steps = run.tables.steps
    if not column or not has(steps, column):
        return None
    values = steps[column].to_numpy(np.float64)
    return Series(steps["step"].to_numpy(np.int64), values).without_gaps()


def _entry(name: str, course: Course) -> dict[str, Any]:
    curve = course.curve
    steps, values = _thinned(course.steps.astype(np.float64), course.values)
    return {
        "quantity": name,
        "unit": course.unit,
        "first": curve.first.value,
        "lowest": curve.lowest.value,
        "highest": curve.highest.value,
        "last": curve.last.value,
        "steps": steps,
        "values": values,
    }


def _thinned(steps: Floats, values: Floats) -> tuple[list[int], list[float]]:
    """Return at most MOST_POINTS points, of more the means of neighbours."""
    count = len(values)
    points = min(count, MOST_POINTS)
    if count > points:
        starts = np.arange(points) * count // points
        sizes = np.diff(starts, append=count)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.add.reduceat(steps, starts) / sizes
            values = np.add.reduceat(values, starts) / sizes
    finite = np.isfinite(values)  # sums of numbers near the largest float64 are not
    whole_steps = np.round(steps[finite]).astype(np.int64)
    return whole_steps.tolist(), significant(values[finite], _DIGITS).tolist()
