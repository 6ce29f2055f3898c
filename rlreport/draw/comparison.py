"""Charts that compare two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.draw.chart import Chart
from rlreport.draw.curves import (
    ChartStyle,
    DrawnCurve,
    curve_chart,
    floats,
)
from rlreport.draw.frame import Frame
from rlreport.draw.paths import Path, path_chart
from rlreport.draw.theme import DASHED, LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import figure, message, sentences, translatable

# Per step: reward of run NEW − that of BASE, and the band's low and high edge; (S,) each
Band = tuple[Floats, Floats, Floats]


def comparison_charts(
    steps: Floats, base: Floats, new: Floats, band: Band, paths: Sequence[pd.DataFrame]
) -> list[Chart]:
    """Return charts of both rewards, of their difference, and of reward against KL.

    Args:
        steps: the steps that both runs have, float64 (S,).
        base: mean reward of BASE at each of them, float64 (S,).
        new: that of NEW.
        band: difference of the rewards, and its limits.
        paths: ``step``, ``distance`` and ``reward`` of BASE and of NEW, or [] without KL.
    """
    charts = []
    if len(steps):
        frame = Frame(steps, _findings(steps, band))
        charts += [_reward_chart(frame, base, new), _difference_chart(frame, band)]
    if paths and not any(path.empty for path in paths):
        charts.append(_path_chart(paths))
    return [chart for chart in charts if chart is not None]


def _reward_chart(frame: Frame, base: Floats, new: Floats) -> Chart | None:
    """Return the chart of the mean rewards of BASE and NEW, which is on top."""
    base_curve, new_curve = _curves(base, new)
    return curve_chart(
        frame,
        "reward",
        message("Reward of both runs"),
        [new_curve, base_curve],
        ChartStyle(message("mean reward"), wide=True),
    )


def _difference_chart(frame: Frame, band: Band) -> Chart | None:
    """Return the chart of the difference, which says in its axis whether it has a band."""
    difference, low, high = band
    if np.isfinite(low).any():
        axis = message(
            "difference of the reward, with a 95% band for all steps at once"
        )
        note = message(
            "The band is a 95% confidence band for all steps together; steps where it "
            "excludes 0 are marked."
        )
    else:
        axis = message("difference of the reward, without a band")
        note = ""
    curve = DrawnCurve("difference", "NEW − BASE", difference, low=low, high=high)
    return curve_chart(
        frame,
        "difference",
        message("Difference of the reward, NEW − BASE"),
        [curve],
        ChartStyle(axis),
        note=note,
    )


def _curves(base: Floats, new: Floats) -> tuple[DrawnCurve, DrawnCurve]:
    return (
        DrawnCurve("BASE", "BASE", base, LIGHT["muted"], DASHED),
        DrawnCurve("NEW", "NEW", new),
    )


def _findings(steps: Floats, band: Band) -> list[ToldFinding]:
    """Return findings that mark the steps where the whole band lies on one side of 0.

    They are made for the chart of the difference only, as charts shade steps of findings.
    """
    _, low, high = band
    below = translatable(
        "The whole band lies below 0 at {some:count} of {all:count} steps"
    )
    above = translatable(
        "The whole band lies above 0 at {some:count} of {all:count} steps"
    )
    findings = []
    for name, severity, mask, literal in (
        ("below 0", Severity.WARNING, high < 0, below),
        ("above 0", Severity.INFO, low > 0, above),
    ):
        if not mask.any():
            continue
        marked_steps = tuple(map(int, steps[mask]))
        finding = ToldFinding(
            id=name,
            severity=severity,  # sets the colour of the marks
            rank=Rank.NOTE,
            steps=marked_steps,
            charts=("difference",),
            title=message(literal, some=len(marked_steps), all=len(steps)),
        )
        findings.append(finding)
    return findings


def _path_chart(tables: Sequence[pd.DataFrame]) -> Chart:
    """Return the chart of reward against √KL; ``tables``: ``paths`` of ``comparison_charts``."""
    base, new = tables
    paths = []
    endings = []
    curves = _curves(floats(base, "reward"), floats(new, "reward"))
    for curve, table in zip(curves, tables, strict=True):
        steps = floats(table, "step")
        distance = floats(table, "distance")
        label_at_end = {-1: curve.key}  # −1: at the last point
        paths.append(Path(curve, steps, distance, label_at_end))
        ending = message(
            "{name} ends with reward {reward} at a √KL of {distance}.",
            name=curve.key,
            reward=figure(curve.values[-1]),
            distance=figure(distance[-1]),
        )
        endings.append(ending)
    return path_chart(
        "reward_at_equal_kl",
        message("Reward at the same distance from the reference"),
        sentences(endings),
        message("√KL (√nats)"),
        paths,
    )
