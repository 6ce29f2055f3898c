"""Charts of the prompts page: what prompts gained, and what their groups taught."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.distribution import FEW_VALUES
from rlreport.draw.extent import Axis, bins, counts, drawable, limits
from rlreport.draw.fill import fill
from rlreport.draw.frame import Frame, of_training
from rlreport.draw.labels import figure
from rlreport.draw.series import DASHED, Series
from rlreport.draw.theme import LIGHT
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message

LEAST_PROMPTS = 5
"""Prompts seen in two steps or more, below which a distribution of gains says nothing."""


def prompt_charts(tables: Tables) -> list[Chart]:
    """The charts, still to be drawn, of the prompts page that the tables can feed."""
    if tables.steps.empty:
        return []
    return [chart for chart in _charts(of_training(tables)) if chart is not None]


def _charts(tables: Tables) -> Iterator[Chart | None]:
    steps = tables.steps
    frame = Frame(steps["step"].to_numpy(np.float64))
    yield _gains(tables.prompts)
    best_of_group = steps["group_best_mean"].to_numpy(np.float64)
    mean = np.where(np.isnan(best_of_group), np.nan, steps["reward_mean"].to_numpy(np.float64))
    yield curve_chart(
        frame,
        "group_best",
        message("Best of a group"),
        [
            Series("best", message("best"), best_of_group),
            Series("mean", message("mean"), mean, colour=LIGHT["muted"], dash=DASHED),
        ],
        axis=message("reward: mean over groups of the best, mean over responses"),
        note=message("The gap is what taking the best response of each group would earn."),
    )
    no_variance = steps["zero_variance_groups"].to_numpy(np.float64)
    solved, grade = _solved(tables.responses, frame.steps)
    yield curve_chart(
        frame,
        "group_shares",
        message("Groups solved, and groups without variance"),
        [
            Series("solved", message("solved"), solved),
            Series(
                "zero", message("no variance"), no_variance, colour=LIGHT["reference"], dash=DASHED
            ),
        ],
        axis=message("share of groups"),
        percent=True,
        note=message("Solved: a response earns {grade}, the run's best.", grade=figure(grade))
        if grade is not None
        else "",
    )


def _gains(prompts: pd.DataFrame) -> Chart | None:
    """How much the mean reward of each prompt rose from its first step to its last."""
    gain = prompts.loc[prompts["steps"] > 1, "reward_gain"].to_numpy(np.float64)
    gain = gain[np.isfinite(gain)]
    if len(gain) < LEAST_PROMPTS:
        return None
    shown = drawable(gain)
    step, low, high = bins(shown)
    rows = [{"from": a, "to": b, "y": n} for a, b, n in counts(shown, step, low, high)]
    most = limits([np.array([float(row["y"]) for row in rows])])[1]
    plot = fill(
        "columns",
        rows,
        {
            "x": Axis(low, high, message("gain of mean reward, first to last step of the prompt")),
            "y": Axis(0.0, most, message("prompts")),
        },
        size="half",
    )
    median = 2 * float(np.median(gain / 2))  # a sum of two may be larger than a float holds
    rose, fell = int((gain > 0).sum()), int((gain < 0).sum())
    return Chart(
        "prompt_gain",
        message("Reward gain of the prompts"),
        message(
            "Of {seen:count} prompts seen in two steps or more, {rose:count} gained reward and "
            "{fell:count} lost; median gain {median}, from {low} to {high}.",
            seen=len(gain),
            rose=rose,
            fell=fell,
            median=figure(median),
            low=figure(float(gain.min())),
            high=figure(float(gain.max())),
        ),
        plot.spec,
        plot.vega,
    )


def _solved(responses: pd.DataFrame, steps: Floats) -> tuple[Floats, float | None]:
    """Share of each step's groups in which a response earns the run's best reward, and that.

    All NaN where rewards are no grades (more than FEW_VALUES of them, or only one), or where
    no group has two responses: a best reward that nothing else reaches is no solution.
    """
    reward = responses["reward"].to_numpy(np.float64)
    values = np.unique(reward[np.isfinite(reward)])
    nothing = np.full(len(steps), np.nan)
    if not 1 < len(values) <= FEW_VALUES:
        return nothing, None
    by_group = responses[np.isfinite(reward)].groupby(["step", "group"])["reward"]
    groups = by_group.agg(["max", "size"])
    groups = groups[groups["size"] > 1]
    if groups.empty:
        return nothing, None
    best = float(values[-1])
    share = (groups["max"] == best).groupby(level="step").mean()
    return share.reindex(steps.astype(np.int64)).to_numpy(np.float64), best
