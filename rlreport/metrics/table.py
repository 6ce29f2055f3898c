"""Build the table of trainer metrics, one value per step and metric, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.metric_rows import MAX_NAME
from rlreport.metrics.readers import Block
from rlreport.metrics.roles import roles_of
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

# Maximum number of metrics; further ones, in the order of the log, are left out
MAX_METRICS = 2_000

# Maximum number of rows; of more steps, consecutive ones are merged into one row
MAX_STEPS = 20_000

# Maximum number of values in memory; beyond it, consecutive steps are merged
MAX_VALUES = 5_000_000

MAX_BROKEN = 1_000  # Maximum number of steps per metric that are reported as NaN or infinite
_GRAD_NORM = re.compile(r"grad\w*norm", re.IGNORECASE)


class Part(NamedTuple):
    """Values of a metric at its ``steps``; ``broken`` marks those logged as NaN or infinity."""

    steps: Ints
    values: Floats
    broken: NDArray[np.bool_]

    def merged(self, width: int, *, largest: bool) -> Part:
        """Merge runs of values whose steps fall into the same interval of ``width`` steps.

        A merged value has the first step of the interval. It is the mean of the finite values, or
        the largest if ``largest``; NaN if none is finite.
        """
        at = self.steps - self.steps % width
        starts = np.flatnonzero(np.diff(at, prepend=at[0] - 1))
        finite = np.isfinite(self.values)
        with np.errstate(over="ignore", invalid="ignore"):
            if largest:
                values = np.maximum.reduceat(np.where(finite, self.values, -np.inf), starts)
            else:
                counts = np.add.reduceat(finite.astype(np.int64), starts)
                values = np.add.reduceat(np.where(finite, self.values, 0.0), starts) / counts
        values = np.where(np.isfinite(values), values, np.nan)
        return Part(at[starts], values, np.logical_or.reduceat(self.broken, starts))


@dataclass(slots=True)
class MetricsTable:
    """Collects blocks of metrics (``add``) and returns them as a table (``frame``)."""

    # metric -> its values, in one or more pieces
    parts: dict[str, list[Part]] = field(default_factory=dict)
    width: int = 1  # number of consecutive steps that are merged into one row
    # hashes of the names of metrics beyond MAX_METRICS
    left_out: set[int] = field(default_factory=set)
    size: int = 0  # number of values in memory

    def add(self, blocks: Iterable[Block]) -> None:
        """Add blocks in the order of the log."""
        for steps, columns in blocks:
            for name, values in columns.items():
                self._add(safe_text(name), [Part(steps, values, ~np.isfinite(values))])
            if self.size > MAX_VALUES:
                self._merge(self.width)
                if self.size > MAX_VALUES // 2:
                    self._merge(2 * self.width)

    def extend(self, other: MetricsTable) -> None:
        """Append the values of another table."""
        for name, parts in other.parts.items():
            self._add(name, parts)
        self.left_out |= other.left_out
        self._merge(max(self.width, other.width))

    def _add(self, name: str, parts: list[Part]) -> None:
        if len(name) > MAX_NAME:
            return
        if name not in self.parts and len(self.parts) >= MAX_METRICS:
            self.left_out.add(hash(name))
            return
        self.parts.setdefault(name, []).extend(parts)
        self.size += sum(len(part.steps) for part in parts)

    def _merge(self, width: int) -> None:
        self.width, self.size = width, 0
        for name, parts in self.parts.items():
            joined = Part(*map(np.concatenate, zip(*parts, strict=True)))
            merged = joined.merged(width, largest=bool(_GRAD_NORM.search(name)))
            self.parts[name] = [merged]
            self.size += len(merged.steps)

    @property
    def steps(self) -> Ints:
        """The distinct steps of all metrics, int64, ascending."""
        steps = np.empty(0, np.int64)
        for metric_steps in self.steps_of().values():
            if not np.array_equal(metric_steps, steps):  # usually all metrics have equal steps
                steps = np.union1d(steps, metric_steps)
        return steps

    def frame(self) -> tuple[pd.DataFrame, dict[str, list[int]]]:
        """Return the table, and the first MAX_BROKEN steps at which each metric was not finite.

        The table has ``step`` (int64, ascending) and one float64 column per metric, by name.
        Consecutive values at one step, such as one per update, become their mean, or for gradient
        norms their maximum. If a step is logged again later, as after a restart, the later value
        counts. Values that are not finite are NaN.
        """
        self._merge(self.width)
        while (rows := len(self.steps)) > MAX_STEPS or rows * len(self.parts) > MAX_VALUES:
            self._merge(2 * self.width)
        steps = self.steps
        columns: dict[str, NDArray[Any]] = {"step": steps}
        broken: dict[str, list[int]] = {}
        for name in sorted(set(self.parts) - {"step"}):
            (part,) = self.parts[name]
            indices = np.searchsorted(steps, part.steps)
            columns[name], bad = np.full(len(steps), np.nan), np.zeros(len(steps), bool)
            columns[name][indices], bad[indices] = part.values, part.broken
            if bad.any():
                broken[name] = steps[bad][:MAX_BROKEN].tolist()
        _drop_placeholders(columns)
        return pd.DataFrame(columns), broken

    def steps_of(self) -> dict[str, Ints]:
        """Return metric -> its steps in the order of the log."""
        return {
            name: np.concatenate([part.steps for part in parts])
            for name, parts in self.parts.items()
        }

    @property
    def limits(self) -> list[str]:
        """Sentences for the report on what was left out or merged to limit the size."""
        sentences = []
        if self.left_out:
            sentences.append(
                message(
                    "{n:count} metrics beyond the first {most:count} left out",
                    n=len(self.left_out),
                    most=MAX_METRICS,
                )
            )
        if self.width > 1:
            sentences.append(
                message(
                    "too many steps: each row averages up to {width:count} steps and is labelled "
                    "with the first",
                    width=self.width,
                )
            )
        return sentences


def _drop_placeholders(columns: dict[str, NDArray[Any]]) -> None:
    """Replace zeros of the validation reward by NaN at steps without an evaluation, in place.

    At such steps some trainers log 0 as reward and null for other metrics with the same prefix.
    """
    name = roles_of(columns).get("validation")
    if name is None:
        return
    prefix = re.match(r"[^_/.-]*[_/.-]", name)
    values = columns[name]
    siblings = [other for other in columns if prefix and other.startswith(prefix[0])]
    for missing in (np.isnan(columns[sibling]) for sibling in siblings):
        if missing.any() and not values[missing].any() and values[~missing].any():
            columns[name] = np.where(missing, np.nan, values)
            return
