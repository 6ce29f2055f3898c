"""The chart of a family of runs: the score of each configuration over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart, curves_of
from rlreport.draw.frame import Frame
from rlreport.draw.theme import LIGHT, PALETTE, THIN
from rlreport.figures.ragged import Floats
from rlreport.pages.index_groups import Group, by_score, score_of, shared_start
from rlreport.pages.index_metrics import QUANTITIES, Metric
from rlreport.text.clean import shortened
from rlreport.text.messages import clauses, message, plural

# Maximum number of characters of a curve's name: names mostly differ in their last ones
_LONGEST_LABEL = 40
# Of more configurations than there are styles, so many have a curve of their own: all styles before
# that of the others; and so many of them are broken ones
_MOST_OWN = [colour for colour, _ in PALETTE].index(LIGHT["muted"])
_MOST_BROKEN = 3
# So many configurations at most have a line each; of more, those without a colour are a band
_MOST_LINES = 20


def score_chart(groups: Sequence[Group], name: str) -> Chart | None:
    """Return a chart of a family's validation or reward; None if fewer than two groups have any.

    Each group has its mean and, of several runs, their range. Of more groups than there are
    styles, broken ones and those that are highest at the end have a colour; the others are thin
    grey lines or, if they are many, one curve with their mean and their range.
    """
    score = score_of(groups)
    drawn = [group for group in by_score(groups) if _runs_with([group], score)]
    if len(drawn) < 2:
        return None
    own, others = _chosen(drawn)
    steps = np.unique(
        np.concatenate([metric.steps for metric in _runs_with(drawn, score)])
    )
    labels = _labels(own, shared_start(drawn))
    no_values = np.full(len(steps), np.nan)
    curves = curves_of([(label, no_values) for label in labels])
    curves = [
        _curve(curve, [group], score, steps)
        for curve, group in zip(curves, own, strict=True)
    ]
    axis = [message(QUANTITIES[score].label)]
    has_lines = len(drawn) <= _MOST_LINES
    if (others and not has_lines) or any(group.is_several for group in own):
        axis.append(message("mean and range of several runs"))
    if others and has_lines:
        # They share one colour, which the key cannot tell apart.
        grey = message("thin grey lines: {count:count} others", count=len(others))
        axis.append(grey)
        for number, group in enumerate(others):
            line = DrawnCurve(
                f"other_{number}", "", np.empty(0), LIGHT["muted"], width=THIN
            )
            line = _curve(line, [group], score, steps)
            curves.append(replace(line, low=None, high=None))
    elif others:
        words = message("{count:count} others", count=len(others))
        rest = DrawnCurve("others", words, np.empty(0), LIGHT["muted"], width=THIN)
        curves.append(_curve(rest, others, score, steps))
    # Filters of the table below do not apply to it.
    title = plural(
        "{score} of {count} configuration",
        "{score} of all {count} configurations",
        len(drawn),
        score=message(QUANTITIES[score].label),
    )
    chart = curve_chart(
        Frame(steps),
        name,
        title,
        curves,
        ChartStyle(clauses(axis), wide=True, has_key=True),
    )
    # The file of an index is without Vega, which draws interactive charts.
    return chart and replace(chart, interactive=False)


def _chosen(ranked: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """Return the groups with a curve of their own, and those that share one; the best are first."""
    if len(ranked) <= len(PALETTE):
        return [*ranked], []
    broken = [group for group in ranked if group.is_broken]
    chosen = broken[-_MOST_BROKEN:]  # the lowest of them
    chosen += [group for group in ranked if group not in chosen]
    chosen = chosen[:_MOST_OWN]
    own = [group for group in ranked if group in chosen]
    return own, [group for group in ranked if group not in chosen]


def _runs_with(groups: Sequence[Group], score: str) -> list[Metric]:
    """Return the score of each run of the groups that has one."""
    found = []
    for group in groups:
        metrics = [run.metrics.get(score, Metric()) for run in group.runs]
        found += [metric for metric in metrics if len(metric.values)]
    return found


def _labels(groups: Sequence[Group], shared: str) -> list[str]:
    """Return the groups' names; long ones without their ``shared`` start, or only their ends."""
    names = [group.name for group in groups]
    if max(map(len, names)) > _LONGEST_LABEL:
        names = [name.removeprefix(shared) for name in names]
    # ``shortened`` cuts the end of a text, so that the name is reversed for it.
    return [shortened(name[::-1], _LONGEST_LABEL)[::-1] for name in names]


def _curve(
    curve: DrawnCurve, groups: Sequence[Group], score: str, steps: Floats
) -> DrawnCurve:
    """Return a curve with the mean of the groups' runs and, of several, their range."""
    # Runs may log other steps: between those of a run its score is interpolated, and outside of
    # them it is not known.
    unknown = np.nan
    of_runs = [
        np.interp(steps, metric.steps, metric.values, left=unknown, right=unknown)
        for metric in _runs_with(groups, score)
    ]
    runs = pd.DataFrame(of_runs)
    curve = replace(curve, values=runs.mean().to_numpy())
    if len(runs) < 2:
        return curve
    low = runs.min().to_numpy()
    high = runs.max().to_numpy()
    return replace(curve, low=low, high=high)
