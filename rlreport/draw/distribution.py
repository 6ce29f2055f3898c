"""The distribution of the reward over the steps: quantile bands, or a heat map of few values."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.draw.axis import Floats, tick_format
from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.designs import template
from rlreport.draw.frame import Frame
from rlreport.draw.layout import encoding, fill
from rlreport.draw.series import Series
from rlreport.draw.words import figure, finite_or_none

FEW_VALUES = 12
MOST_COLUMNS = 120


def distribution_chart(frame: Frame, responses: pd.DataFrame) -> Chart | None:
    """Draws how the policy's reward is spread in each step; None without rewards.

    Rewards that take at most 12 values (right or wrong, a rubric) make a heat map of their
    shares, as quantiles would jump between them; others the median and two bands.
    """
    finite = responses.loc[np.isfinite(responses["reward"]), ["step", "reward"]]
    if finite.empty:
        return None
    values = np.unique(finite["reward"].to_numpy(dtype=np.float64))
    if len(values) <= FEW_VALUES:
        return _heat(frame, finite, values)
    return _bands(frame, finite)


def _bands(frame: Frame, finite: pd.DataFrame) -> Chart | None:
    quantiles = (
        finite.groupby("step")["reward"]
        .quantile(np.array([0.05, 0.25, 0.5, 0.75, 0.95]))
        .unstack()
        .reindex(frame.steps)
        .to_numpy(dtype=np.float64)
    )
    p5, p25, p50, p75, p95 = quantiles.T
    return curve_chart(
        frame,
        "reward_distribution",
        "Reward distribution",
        [
            Series("median", "median", p50, p25, p75),
            Series("p5_p95", "", np.full_like(p50, np.nan), p5, p95),
        ],
        axis="reward: median, middle 50 %, middle 90 %",
        note="The dark band holds the middle half of the responses, the light one 90 %.",
    )


def _heat(frame: Frame, finite: pd.DataFrame, values: Floats) -> Chart:
    every = -(-len(frame.steps) // MOST_COLUMNS)
    edges = np.append(frame.edges[:-1][::every], frame.edges[-1])
    middles = (values[1:] + values[:-1]) / 2
    # Half a step to the next value; a lone huge one would swallow 0.5.
    half = float(np.diff(values).min()) / 2 if len(values) > 1 else max(0.5, abs(values[0]) / 100)
    heights = np.concatenate([[values[0] - half], middles, [values[-1] + half]])
    counts, _, _ = np.histogram2d(
        finite["step"].to_numpy(dtype=np.float64),
        finite["reward"].to_numpy(dtype=np.float64),
        bins=[edges, heights],
    )
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    columns, levels = np.nonzero(shares)
    cells = [
        {
            "from": finite_or_none(edges[i]),
            "to": finite_or_none(edges[i + 1]),
            "low": finite_or_none(heights[j]),
            "high": finite_or_none(heights[j + 1]),
            "share": finite_or_none(shares[i, j]),
        }
        for i, j in zip(columns, levels, strict=True)
    ]
    marks = frame.marks("reward_distribution")
    spec = fill(
        template("steps_heat"),
        {"values": cells},
        size="half",
        right=92,
        layers={"marked": marks, "marked_bar": marks},
    )
    cell = encoding(spec, "cells")
    cell["x"]["scale"]["domain"] = list(frame.extent)
    cell["x"]["title"] = "step"
    cell["y"]["title"] = "reward; the stronger the colour, the larger its share of the step"
    limits = (float(heights[0]), float(heights[-1]))
    cell["y"]["scale"]["domain"] = list(limits)
    cell["y"]["axis"].update(tick_format(limits, percent=False))
    if len(values) <= 6:
        cell["y"]["axis"]["values"] = [finite_or_none(value) for value in values]
    cell["color"]["scale"]["domain"] = [0, 1]
    words = [
        f"Reward {figure(value)}: {figure(first, True)} of the responses in the first step, "
        f"{figure(last, True)} in the last."
        for value, first, last in zip(values, shares[0], shares[-1], strict=True)
    ]
    return Chart("reward_distribution", "Reward distribution", " ".join(words), spec, "")
