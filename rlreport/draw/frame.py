"""The step axis and the marks that all charts over the steps of a page share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rlreport.check.course import Course
from rlreport.check.finding import Severity, ToldFinding
from rlreport.draw.chart import Axis
from rlreport.draw.rules import PlacedRules, RunRule
from rlreport.figures.ragged import Floats, spans
from rlreport.text.messages import message

# A step axis that spans fewer steps than this has ticks at whole steps only
MANY_STEPS = 6


class Focus(NamedTuple):
    """The steps around an event, which the chart that shows it is limited to."""

    chart: str  # its name
    limits: tuple[float, float]  # first and last step


@dataclass(frozen=True, slots=True)
class Frame:
    """Step axis and findings that all charts over steps of one page share."""

    steps: Floats  # float64 (S,), ascending
    # findings to mark on the charts that they refer to
    findings: Sequence[ToldFinding] = ()
    # first and last step of the axis, None for those of ``steps``
    within: tuple[float, float] | None = None
    # courses whose events are marked on the charts of their quantities
    courses: Sequence[Course] = ()
    # steps that one of the charts shows, None if all show all
    focus: Focus | None = None
    rules: Sequence[RunRule] = ()  # on all charts
    labels_rules: bool = False  # whether all charts label them, above their curves

    def rules_on(self, chart: str) -> PlacedRules:
        """Return the rules on a chart (its name), labelled if all are or a finding refers to it."""
        is_named = any(chart in finding.charts for finding in self.findings)
        labelled = self.labels_rules or is_named
        return PlacedRules.on_axis(self.rules, self.extent, labelled=labelled)

    def within_focus(self, chart: str) -> Frame:
        """Return the frame of a chart (its name): the focus, if it is this chart's."""
        if self.focus is None or self.focus.chart != chart:
            return self
        low, high = self.focus.limits
        inside = (self.steps >= low) & (self.steps <= high)
        return replace(self, steps=self.steps[inside], within=(low, high))

    @property
    def extent(self) -> tuple[float, float]:
        """Limits of the axis: ``within``, or first and last step, widened if too close."""
        if self.within is not None:
            return self.within
        first = float(self.steps[0])
        last = float(self.steps[-1])
        # Half a step; beyond ±5e8 a billionth of the step, as rounding loses half a step near the
        # largest step, 2**53.
        half = max(0.5, abs(first) * 1e-9)
        if last - first > half:
            return (first, last)
        return (first - half, last + half)

    @property
    def edges(self) -> Floats:
        """Boundaries halfway between steps, and the axis limits at the ends; float64 (S + 1,)."""
        first, last = self.extent
        middles = (self.steps[1:] + self.steps[:-1]) / 2
        return np.concatenate([[first], middles, [last]])

    def axis(self, count: int | None = None) -> Axis:
        """Return the x axis with about ``count`` ticks (None: as usual), or one per step if few."""
        low, high = self.extent
        if high - low < MANY_STEPS:
            count = max(1, int(high - low))
        return Axis(low, high, message("step"), format=",d", count=count)

    def marks(self, chart: str) -> list[Mark]:
        """Return a mark for each finding that refers to the chart and to a step on this axis.

        ``chart`` is its name.
        """
        marks = []
        for finding in self.findings:
            if chart not in finding.charts:
                continue
            if finding.onset is None:
                is_marked = np.isin(self.steps, finding.steps)
            else:
                # It lasts from its onset, without ``until`` to the end of the run.
                last = np.inf if finding.until is None else finding.until
                is_marked = (self.steps >= finding.onset.step) & (self.steps <= last)
            # [start, end] of each block of marked steps, extended halfway to its neighbours: a step
            # lies between the edges of its own index and of the next one.
            blocks: list[list[float]] = self.edges[spans(is_marked)].tolist()
            is_ruled = finding.onset is not None and any(
                rule.step == finding.onset.step for rule in self.rules
            )
            words = _in_legend(finding)
            marks.append(Mark(finding.severity, finding.title, words, blocks, is_ruled))
        return [mark for mark in marks if mark.spans]


def _in_legend(finding: ToldFinding) -> str:
    """Return the name of a finding, with its onset if it lasts from there to the end."""
    name = finding.name or finding.title
    onset = finding.onset
    if (
        not finding.name
        or onset is None
        or onset.from_start
        or finding.until is not None
    ):
        return name
    return message("{name} since step {step}", name=name, step=onset.step)


class Mark(NamedTuple):
    """Steps to shade on a chart: those of a finding (detected problem)."""

    severity: Severity  # sets the colour
    title: str  # text of the tooltip
    words: str  # text of the legend
    spans: list[list[float]]  # [start, end] of each marked range of steps
    # whether a rule has its onset; then it has a bar above the plot, and no shade in it
    is_ruled: bool = False


def mark_layers(marks: Sequence[Mark]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the layers of marked steps of a design, later ones on top."""
    shaded: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    for mark in marks:
        finding = {"severity": mark.severity, "finding": mark.title}
        spans = [{"from": low, "to": high} | finding for low, high in mark.spans]
        bars += spans
        # The interval of the onset is shaded already.
        shaded += [] if mark.is_ruled else spans
    return {"marked": shaded, "marked_bar": bars}
