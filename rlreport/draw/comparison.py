"""Charts that compare two runs, BASE and NEW: rewards, their difference, reward against √KL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.check.finding import SEVERITIES, Finding
from rlreport.choose.detail import evenly
from rlreport.draw.axes import Axis, figure, limits, records
from rlreport.draw.chart import Chart, fill
from rlreport.draw.curves import Frame, curve_chart, floats, looks
from rlreport.draw.series import MOST_POINTS, Series
from rlreport.draw.theme import DASHED, LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, message, sentences

# Per step: reward of run NEW − that of BASE, and the band's low and high edge; (S,) each
Band = tuple[Floats, Floats, Floats]


def comparison_charts(
    steps: Floats, base: Floats, new: Floats, band: Band, paths: Sequence[pd.DataFrame]
) -> list[Chart]:
    """Return the charts of the comparison for which both runs have data, not yet rendered as SVG.

    Args:
        steps: float64 (S,), steps that both runs have.
        base: mean reward of BASE at these steps.
        new: mean reward of NEW at these steps.
        band: difference of the mean reward with its confidence band, see ``Band``.
        paths: tables ``step``, ``distance`` (√KL), ``reward`` of BASE and NEW; empty without KL.
    """
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
                [Series("difference", "NEW − BASE", difference, low=low, high=high)],
                axis=message("difference of the reward, with a 95% band for all steps at once")
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
        charts.append(_paths(paths))
    return [chart for chart in charts if chart is not None]


def _runs(base: Floats, new: Floats) -> list[Series]:
    return [Series("BASE", "BASE", base, LIGHT["muted"], DASHED), Series("NEW", "NEW", new)]


def _findings(steps: Floats, band: Band) -> list[Finding]:
    """Return findings that shade the steps at which the confidence band excludes 0."""
    _, low, high = band
    below = marked("The whole band lies below 0 at {some:count} of {all:count} steps")
    above = marked("The whole band lies above 0 at {some:count} of {all:count} steps")
    findings = []
    for name, severity, mask, literal in (
        ("below 0", SEVERITIES[1], high < 0, below),
        ("above 0", SEVERITIES[2], low > 0, above),
    ):
        if mask.any():
            numbers = tuple(map(int, steps[mask]))
            title = message(literal, some=len(numbers), all=len(steps))
            findings.append(
                Finding(name, severity, "note", steps=numbers, charts=("difference",), title=title)
            )
    return findings


def _paths(paths: Sequence[pd.DataFrame]) -> Chart:
    rows, ends, endings = [], [], []
    for name, path in zip(("BASE", "NEW"), paths, strict=True):
        table = path.iloc[evenly(len(path), MOST_POINTS)]
        points = records(
            {
                "step": table["step"].astype(int).tolist(),
                "series": [name] * len(table),
                "x": floats(table, "distance"),
                "y": floats(table, "reward"),
            }
        )
        rows += points
        ends.append({**points[-1], "label": name})
        endings.append(
            message(
                "{name} ends with reward {reward} at a √KL of {distance}.",
                name=name,
                reward=figure(float(path["reward"].iloc[-1])),
                distance=figure(float(path["distance"].iloc[-1])),
            )
        )
    forms = fill(
        "paths",
        {"rows": rows, "label": ends, "halo": ends},
        (
            Axis(*limits([floats(path, "distance") for path in paths]), message("√KL (√nats)")),
            Axis(*limits([floats(path, "reward") for path in paths]), message("mean reward")),
        ),
        looks(_runs(np.zeros(1), np.zeros(1))),
        right=72,
    )
    title = message("Reward at the same distance from the reference")
    return Chart("reward_at_equal_kl", title, sentences(endings), *forms)
