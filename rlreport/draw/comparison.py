"""Charts that compare two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.draw.chart import Chart
from rlreport.draw.curves import DrawnCurve, Frame, curve_chart, floats, path_chart
from rlreport.draw.theme import DASHED, LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import figure, message, sentences, translatable

# Per step: reward of run NEW − that of BASE, and the band's low and high edge; (S,) each
Band = tuple[Floats, Floats, Floats]


def comparison_charts(
    steps: Floats, base: Floats, new: Floats, band: Band, paths: Sequence[pd.DataFrame]
) -> list[Chart]:
    charts = []
    if len(steps):
        frame = Frame(steps, _findings(steps, band))
        difference, low, high = band
        has_band = bool(np.isfinite(low).any())
        charts = [
            curve_chart(
                frame,
                "reward",
                message("Reward of both runs"),
                _runs(base, new)[::-1],
                axis=message("mean reward"),
                wide=True,
            ),
            curve_chart(
                frame,
                "difference",
                message("Difference of the reward, NEW − BASE"),
                [
                    DrawnCurve(
                        "difference", "NEW − BASE", difference, low=low, high=high
                    )
                ],
                axis=message(
                    "difference of the reward, with a 95% band for all steps at once"
                )
                if has_band
                else message("difference of the reward, without a band"),
                note=message(
                    "The band is a 95% confidence band for all steps together; steps where it "
                    "excludes 0 are marked."
                )
                if has_band
                else "",
            ),
        ]
    if paths and not any(path.empty for path in paths):
        charts.append(_path_chart(paths))
    return [chart for chart in charts if chart is not None]


def _runs(base: Floats, new: Floats) -> list[DrawnCurve]:
    return [
        DrawnCurve("BASE", "BASE", base, LIGHT["muted"], DASHED),
        DrawnCurve("NEW", "NEW", new),
    ]


def _findings(steps: Floats, band: Band) -> list[ToldFinding]:
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
        if mask.any():
            numbers = tuple(map(int, steps[mask]))
            title = message(literal, some=len(numbers), all=len(steps))
            findings.append(
                ToldFinding(
                    name,
                    severity,
                    Rank.NOTE,
                    steps=numbers,
                    charts=("difference",),
                    title=title,
                )
            )
    return findings


def _path_chart(tables: Sequence[pd.DataFrame]) -> Chart:
    paths = []
    endings = []
    curves = _runs(*(floats(table, "reward") for table in tables))
    for curve, table in zip(curves, tables, strict=True):
        distance = floats(table, "distance")
        paths.append((curve, floats(table, "step"), distance, {-1: curve.key}))
        endings.append(
            message(
                "{name} ends with reward {reward} at a √KL of {distance}.",
                name=curve.key,
                reward=figure(curve.values[-1]),
                distance=figure(distance[-1]),
            )
        )
    return path_chart(
        "reward_at_equal_kl",
        message("Reward at the same distance from the reference"),
        sentences(endings),
        message("√KL (√nats)"),
        paths,
    )
