"""What the charts over the steps of one page share: the extent, and the marks of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import SEVERITIES, Finding
from rlreport.figures.ragged import Floats, spans
from rlreport.tables import Tables
from rlreport.text.messages import message, told


@dataclass(frozen=True, slots=True)
class Frame:
    """What the charts over the steps of one page share.

    Attributes:
        steps: float64 (S,), ascending.
        findings: marked on the charts they name.
        within: extent of the axis where it is not that of ``steps``.
        in_progress: step that is still written, marked on every chart.
    """

    steps: Floats
    findings: Sequence[Finding] = ()
    within: tuple[float, float] | None = None
    in_progress: int | None = None

    @property
    def extent(self) -> tuple[float, float]:
        """First and last step; half a step to each side of a lone one."""
        if self.within is not None:
            return self.within
        first, last = float(self.steps[0]), float(self.steps[-1])
        half = max(0.5, abs(first) * 1e-9)  # far beyond 2**53, half a step would vanish
        return (first, last) if last - first > half else (first - half, last + half)

    @property
    def edges(self) -> Floats:
        """float64 (S + 1,): where each step's share of the axis begins and ends."""
        middles = (self.steps[1:] + self.steps[:-1]) / 2
        return np.concatenate([[self.extent[0]], middles, [self.extent[1]]])

    def marks(self, name: str) -> list[dict[str, Any]]:
        """Runs of steps that findings show on the chart ``name``; least severe first."""
        rows = []
        if self.in_progress is not None:
            for low, high in self._runs([self.in_progress]):
                rows.append({"from": low, "to": high, "severity": "info", "finding": self._going()})
        for severity in reversed(SEVERITIES):
            for finding in self.findings:
                if finding.severity != severity or name not in finding.charts:
                    continue
                for low, high in self._runs(self._shown(finding)):
                    rows.append(
                        {"from": low, "to": high, "severity": severity, "finding": finding.title}
                    )
        return rows

    def legend(self, name: str) -> tuple[tuple[str, str], ...]:
        """Severity and words of each finding marked on the chart ``name``."""
        said: list[tuple[str, str]] = []
        if self.in_progress is not None:
            said.append(("info", self._going()))
        for finding in self.findings:
            if name not in finding.charts or not self._runs(self._shown(finding)):
                continue
            since = finding.onset.step if finding.onset else None
            places: dict[str, Any] = {
                "name": finding.name or finding.title,
                "since": since,
                "until": finding.until,
            }
            if since is None:
                words = places["name"]
            elif finding.until is None:
                words = told("{name}, since step {since}", places)
            else:
                words = told("{name}, since step {since} until step {until}", places)
            said.append((finding.severity, words))
        return tuple(said)

    def _going(self) -> str:
        return message("step {step} is in progress", step=self.in_progress)

    def _shown(self, finding: Finding) -> Sequence[float]:
        """Steps that a finding is marked at: from its onset on where it has one."""
        if finding.onset is None:
            return finding.steps
        last = np.inf if finding.until is None else finding.until
        inside = (self.steps >= finding.onset.step) & (self.steps <= last)
        named: list[float] = self.steps[inside].tolist()
        return named

    def _runs(self, steps: Sequence[float]) -> list[tuple[float, float]]:
        """Neighbouring steps as spans, reaching half way to the steps on both sides."""
        named = np.isin(self.steps, np.asarray(steps, dtype=np.float64))
        if not named.any():
            return []
        edges = self.edges
        return [(float(edges[start]), float(edges[stop])) for start, stop in spans(named)]


def of_training(tables: Tables) -> Tables:
    """The tables without responses and prompts of validation, with all steps."""
    if tables.validation.empty:
        return tables
    own = tables.prompts[tables.prompts["validation"] == 0]
    return replace(tables.training(), steps=tables.steps, prompts=own)


def floats(table: pd.DataFrame, column: str) -> Floats:
    """A column as float64 with NaN where it is missing; all NaN where the table has none."""
    if column not in table:
        return np.full(len(table), np.nan)
    return table[column].to_numpy(dtype=np.float64, na_value=np.nan)
