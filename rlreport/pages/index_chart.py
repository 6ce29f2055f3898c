"""The chart of a family of runs: the score of each configuration over the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.draw.chart import Chart
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart, curves_of
from rlreport.draw.frame import Frame
from rlreport.draw.theme import LIGHT, PALETTE, THIN
from rlreport.figures.ragged import Floats
from rlreport.pages.index_groups import Group, mean, score_of
from rlreport.pages.index_metrics import QUANTITIES, Metric
from rlreport.text.clean import shortened
from rlreport.text.messages import clauses, message

# Maximum number of characters of a curve's name, which are its last ones
_LONGEST_LABEL = 40
# Of more configurations than there are styles, so many broken ones have a curve of their own
_MOST_BROKEN = 3


def score_chart(groups: Sequence[Group], name: str, title: str) -> Chart | None:
    """Return a chart of a family's validation or reward; None if fewer than two groups have any.

    Each group has its mean and, of several runs, their range. Of more groups than there are
    styles, broken ones and those that are highest at the end have a curve; the others are one
    curve with their mean and their range, so that none is left out.
    """
    score = score_of(groups)
    drawn = [group for group in groups if any(map(len, _curves(group, score)))]
    if len(drawn) < 2:
        return None
    own, others = _chosen(drawn, score)
    steps = _all_steps(drawn, score)
    curves = curves_of([(_label(group), np.full(len(steps), np.nan)) for group in own])
    curves = [
        _curve(curve, [group], score, steps)
        for curve, group in zip(curves, own, strict=True)
    ]
    axis = [message(QUANTITIES[score].label)]
    if others or any(group.is_several for group in own):
        axis.append(message("mean and range of several runs"))
    if others:
        words = message("{count:count} others", count=len(others))
        rest = DrawnCurve("others", words, np.empty(0), LIGHT["muted"], width=THIN)
        curves.append(_curve(rest, others, score, steps))
    chart = curve_chart(
        Frame(steps),
        name,
        title,
        curves,
        ChartStyle(clauses(axis), wide=True, has_key=True),
    )
    # The file of an index is without Vega, which draws interactive charts.
    return chart and replace(chart, interactive=False)


def _chosen(
    groups: Sequence[Group], score: str
) -> tuple[Sequence[Group], Sequence[Group]]:
    """Return the groups with a curve of their own, and those that share one."""
    if len(groups) <= len(PALETTE):
        return groups, ()
    most = len([colour for colour, _ in PALETTE if colour != LIGHT["muted"]]) - 1

    def rank(group: Group) -> float:
        last = mean(group.values(score))
        return math.inf if math.isnan(last) else -last

    ranked = sorted(groups, key=rank)
    broken = [g for g in ranked if any(run.level == "critical" for run in g.runs)]
    own = broken[-_MOST_BROKEN:]  # the lowest of them
    own += [group for group in ranked if group not in own][: most - len(own)]
    own.sort(key=rank)
    return own, [group for group in groups if group not in own]


def _curves(group: Group, score: str) -> list[Floats]:
    return [run.metrics.get(score, Metric()).values for run in group.runs]


def _all_steps(groups: Sequence[Group], score: str) -> Floats:
    steps = [
        run.metrics.get(score, Metric()).steps for group in groups for run in group.runs
    ]
    return np.unique(np.concatenate(steps))


def _label(group: Group) -> str:
    """Return the end of the group's name, in which names mostly differ."""
    # ``shortened`` cuts the end of a text, so that the name is reversed for it.
    return shortened(group.name[::-1], _LONGEST_LABEL)[::-1]


def _curve(
    curve: DrawnCurve, groups: Sequence[Group], score: str, steps: Floats
) -> DrawnCurve:
    """Return a curve with the mean of the groups' runs and, of several, their range."""
    rows = []
    for group in groups:
        for run in group.runs:
            metric = run.metrics.get(score)
            if metric is None or not len(metric.values):
                continue
            # Runs may log other steps: between those of a run its score is interpolated, and
            # outside of them it is not known.
            rows.append(
                np.interp(steps, metric.steps, metric.values, left=np.nan, right=np.nan)
            )
    values = np.array(rows)
    is_known = np.isfinite(values)
    counts = is_known.sum(axis=0)
    filled = np.where(is_known, values, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.where(counts > 0, filled.sum(axis=0) / np.maximum(counts, 1), np.nan)
    if len(rows) < 2:
        return replace(curve, values=means)
    low = np.where(is_known, values, np.inf).min(axis=0)
    high = np.where(is_known, values, -np.inf).max(axis=0)
    return replace(
        curve,
        values=means,
        low=np.where(counts > 0, low, np.nan),
        high=np.where(counts > 0, high, np.nan),
    )
