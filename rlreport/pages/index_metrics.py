"""The metrics that an index shows of each run, one at a time: their levels and small lines."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlreport.columns import STEP
from rlreport.comparison.saved import section
from rlreport.draw.sparkline import sparkline
from rlreport.figures.ragged import Floats
from rlreport.formats.logged import dicts
from rlreport.metrics.roles import has_role
from rlreport.pages.page_data import IndexMetricData
from rlreport.text.messages import message, translatable
from rlreport.text.numbers import NumberKind

# Maximum number of points of a curve that are read: reports of others may have any number
_MOST_POINTS = 2_000
_MAX_STEP = 1e15
# A page without a metric that several runs have shows this one
DEFAULT = "reward"
SCORES = ("reward", "validation", "second_reward", "accuracy")


class Quantity(NamedTuple):
    """A quantity of ``curves`` in ``report.json``."""

    label: str
    unit: str = ""
    written: NumberKind = "number"


def _of_steps(column: str) -> Quantity:
    """Return a quantity that is named as a column of the table of steps."""
    named = STEP[column]
    return Quantity(named.label, named.unit, named.kind)


# In the order in which readers choose among them
QUANTITIES = {
    "reward": Quantity(translatable("Reward")),
    "validation": Quantity(translatable("Validation")),
    "second_reward": _of_steps("valid_reward_mean"),
    "accuracy": Quantity(translatable("Accuracy")),
    "kl": _of_steps("kl_k1_mean"),
    "kl_token": Quantity(translatable("KL per token"), translatable("nats per token")),
    "length": _of_steps("response_tokens_mean"),
    "length_chars": _of_steps("response_chars_mean"),
    "entropy": _of_steps("surprisal_mean"),
    "grad_norm": Quantity(translatable("Gradient norm")),
    "clip_fraction": Quantity(translatable("Clip fraction"), written="share"),
    "truncated": Quantity(translatable("Cut off"), written="share"),
    "eos_rate": _of_steps("eos_rate"),
    "zero_variance": _of_steps("zero_variance_groups"),
    "pass_at_k": _of_steps("pass_at_k"),
    "distinct_2": _of_steps("distinct_2"),
    "tool_errors": _of_steps("tool_error_share"),
    "turns": _of_steps("turns_mean"),
    "mismatch_k3": _of_steps("mismatch_k3"),
}


class Metric(NamedTuple):
    """A quantity of one run."""

    first: float = math.nan
    best: float = math.nan  # the highest level; of a score that is the best one
    last: float = math.nan
    is_percentage: bool = False
    # float64 (P,), ascending steps and the values at them, all finite
    steps: Floats = np.empty(0)
    values: Floats = np.empty(0)
    # standard errors of the levels, NaN where the report has none
    best_se: float = math.nan
    last_se: float = math.nan

    @property
    def path(self) -> str:
        """The curve as SVG path data in a box of 100 × 24, "" for fewer than two points."""
        return sparkline(self.values, self.steps.astype(np.int64))

    @property
    def is_logged(self) -> bool:
        return math.isfinite(self.last)


def metrics_of(about: Mapping[str, Any]) -> dict[str, Metric]:
    """Return quantity -> what the ``report.json`` of a run says of it, of those in QUANTITIES."""
    curves = about.get("curves")
    is_earlier = not isinstance(curves, list)
    entries = _earlier_entries(about) if is_earlier else dicts(curves)
    found: dict[str, Metric] = {}
    for entry in entries:
        quantity = entry.get("quantity")
        if not isinstance(quantity, str) or quantity not in QUANTITIES:
            continue
        metric = _with_errors(_metric(entry), _course_of(about, quantity))
        if metric.is_logged:
            found.setdefault(quantity, metric)
    return found


def _metric(entry: Mapping[str, Any]) -> Metric:
    steps, values = _curve(entry)
    return Metric(
        number(entry.get("first")),
        number(entry.get("highest")),
        number(entry.get("last")),
        entry.get("unit") == "%",
        steps,
        values,
    )


def _course_of(about: Mapping[str, Any], quantity: str) -> Mapping[str, Any]:
    """Return the course of a quantity in a report, {} without one."""
    for course in dicts(section(about, "verdict").get("course")):
        if course.get("quantity") == quantity:
            return course
    return {}


def _with_errors(metric: Metric, course: Mapping[str, Any]) -> Metric:
    return metric._replace(
        best_se=_error_of(metric.best, course, ("best", "highest")),
        last_se=_error_of(metric.last, course, ("last",)),
    )


def _error_of(level: float, course: Mapping[str, Any], parts: Sequence[str]) -> float:
    """Return the standard error of a level: that of the part of the course with its value."""
    for part in parts:
        of_part = section(course, part)
        error = number(of_part.get("se"))
        # Another series of the quantity may have other levels.
        if error >= 0 and math.isclose(number(of_part.get("value")), level):
            return error
    return math.nan


def _curve(entry: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return the steps of a curve, ascending, and its values, without what are no numbers."""
    points: dict[float, float] = {}
    steps = _numbers(entry.get("steps"))
    values = _numbers(entry.get("values"))
    for step, value in zip(steps, values, strict=False):  # the file may be damaged
        if abs(step) <= _MAX_STEP and math.isfinite(value):
            points[step] = value
    ordered = sorted(points)
    return np.array(ordered), np.array([points[step] for step in ordered])


def _earlier_entries(about: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the entries of a report without ``curves``, which was built before there were any."""
    for course in dicts(section(about, "verdict").get("course")):
        quantity = course.get("quantity")
        column = str(section(course, "series").get("column"))
        if quantity == "kl" and has_role(column, "kl_token"):
            quantity = "kl_token"
        elif quantity == "length" and "char" in column:
            quantity = "length_chars"
        levels = {
            part: section(course, part).get("value")
            for part in ("first", "highest", "last")
        }
        levels["highest"] = section(course, "best").get("value", levels["highest"])
        curve = section(about, "reward") if quantity == "reward" else {}
        yield {"quantity": quantity, "unit": course.get("unit"), **levels, **curve}


def number(value: object) -> float:
    """Return a value of JSON as a float, NaN if it is not a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if abs(value) <= sys.float_info.max else math.nan


def _numbers(values: object) -> list[float]:
    if not isinstance(values, list):
        return []
    return list(map(number, values[:_MOST_POINTS]))


def offered(runs: Sequence[Mapping[str, Metric]]) -> list[str]:
    """Return the quantities that two of the runs have, of a single run all that it has."""
    counts = Counter[str]()
    for metrics in runs:
        counts.update(metrics.keys())
    least = min(2, len(runs))
    return [quantity for quantity in QUANTITIES if counts[quantity] >= max(1, least)]


def labels(quantity: str) -> tuple[str, str, str, str]:
    """Return the headers of a quantity: of its first, best and last level, and of its curve."""
    name = message(QUANTITIES[quantity].label)
    best = message("{name}, highest", name=name)
    if quantity in SCORES:
        best = message("{name}, best", name=name)
    return (
        message("{name}, first", name=name),
        best,
        message("{name}, last", name=name),
        message("{name} over steps", name=name),
    )


def metric_data(quantity: str, runs: Sequence[Mapping[str, Metric]]) -> IndexMetricData:
    """Return what scripts need to show a quantity of all runs."""
    metrics = [metrics.get(quantity, Metric()) for metrics in runs]
    return {
        "key": quantity,
        "label": message(QUANTITIES[quantity].label),
        "headers": list(labels(quantity)),
        "unit": message(QUANTITIES[quantity].unit),
        "written": QUANTITIES[quantity].written,
        "first": [metric.first for metric in metrics],
        "best": [metric.best for metric in metrics],
        "last": [metric.last for metric in metrics],
        "percentages": [metric.is_percentage for metric in metrics],
        "paths": [metric.path for metric in metrics],
    }
