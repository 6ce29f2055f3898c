"""The distribution of the reward over the steps: quantile bands, or a heat map of few values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.extent import Axis, drawable
from rlreport.draw.fill import fill
from rlreport.draw.frame import Frame
from rlreport.draw.labels import figure, finite_or_none
from rlreport.draw.series import Series
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message, sentences

FEW_VALUES = 12
MOST_COLUMNS = 120


def distribution_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Draws how the policy's reward is spread in each step.

    Rewards that take at most 12 values (right or wrong, a rubric) make a heat map of their
    shares, as quantiles would jump between them; others the median and two bands.
    """
    responses = tables.responses
    finite = responses.loc[np.isfinite(responses["reward"]), ["step", "reward"]]
    if finite.empty:
        return
    reward = drawable(finite["reward"].to_numpy(dtype=np.float64))
    values, places = np.unique(reward, return_inverse=True)
    if len(values) > FEW_VALUES:
        yield _bands(frame, finite.assign(reward=reward))
        return
    # As data of a chart: what differs by rounding alone is one value.
    values = np.array([finite_or_none(value) for value in values])
    yield _heat(frame, finite.assign(reward=values[places]), np.unique(values))


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
        message("Reward distribution"),
        [
            Series("median", message("median"), p50, p25, p75),
            Series("p5_p95", "", np.full_like(p50, np.nan), p5, p95),
        ],
        axis=message("reward: median, middle 50%, middle 90%"),
        note=message("The dark band holds the middle half of the responses, the light one 90%."),
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
    plot = fill(
        "steps_heat",
        cells,
        {
            "x": Axis(*frame.extent, message("step"), format=",d"),
            "y": Axis(
                float(heights[0]),
                float(heights[-1]),
                message("reward; the stronger the colour, the larger its share of the step"),
                values=[finite_or_none(value) for value in values] if len(values) <= 6 else None,
            ),
        },
        size="half",
        right=92,
        own={"marked": marks, "marked_bar": marks},
    )
    # Of the steps themselves: a column may hold several.
    ends = [
        finite.loc[finite["step"] == step, "reward"].to_numpy(np.float64)
        for step in (finite["step"].min(), finite["step"].max())
    ]
    words = [
        message(
            "Reward {value}: {first} of the responses in the first step, {last} in the last.",
            value=figure(value),
            first=figure(first, True),
            last=figure(last, True),
        )
        for value in values
        for first, last in [[float((rewards == value).mean()) for rewards in ends]]
    ]
    return Chart(
        "reward_distribution",
        message("Reward distribution"),
        sentences(words),
        plot.spec,
        plot.vega,
    )
