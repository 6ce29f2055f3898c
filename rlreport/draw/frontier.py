"""Charts whose x axis is no step: reward against KL, and the critic's error by position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlreport.columns import STEP
from rlreport.draw.chart import Chart
from rlreport.draw.designs import fill
from rlreport.draw.extent import Axis, limits
from rlreport.draw.frame import Frame
from rlreport.draw.series import MOST_POINTS
from rlreport.draw.words import figure, finite_or_none
from rlreport.tables import Tables


def frontier_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Draws mean reward against mean KL, a path from the first step to the last.

    Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization": how
    much reward the policy buys for its distance from the reference.
    """
    steps = tables.steps
    table = steps[np.isfinite(steps["kl_k1_mean"]) & np.isfinite(steps["reward_mean"])]
    if len(table) < 3:
        return
    every = -(-len(table) // MOST_POINTS)
    kept = np.unique(np.append(np.arange(0, len(table), every), len(table) - 1))
    at = table["step"].to_numpy()[kept]
    kl = table["kl_k1_mean"].to_numpy(dtype=np.float64)[kept]
    reward = table["reward_mean"].to_numpy(dtype=np.float64)[kept]
    rows = [
        {"step": int(step), "x": finite_or_none(x), "y": finite_or_none(y)}
        for step, x, y in zip(at, kl, reward, strict=True)
    ]
    ends = [{**rows[i], "label": f"step {rows[i]['step']:,}"} for i in (0, -1)]
    plot = fill(
        "path",
        rows,
        {
            "x": Axis(*limits([kl]), STEP["kl_k1_mean"].title),
            "y": Axis(*limits([reward]), "mean reward"),
        },
        size="half",
        right=72,
        own={"label": ends, "halo": ends},
    )
    yield Chart(
        "reward_kl_frontier",
        "Reward against KL",
        f"From reward {figure(reward[0])} at {figure(kl[0])} nats (step {at[0]:,}) to "
        f"{figure(reward[-1])} at {figure(kl[-1])} nats (step {at[-1]:,}); highest reward "
        f"{figure(reward.max())} at {figure(kl[reward.argmax()])} nats "
        f"(step {at[reward.argmax()]:,}).",
        plot.spec,
        plot.vega,
    )


def error_by_position_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Draws the critic's mean |value − return| over the response, in tenths."""
    positions = tables.positions
    if positions.empty or not np.isfinite(positions["abs_error_mean"]).any():
        return
    table = positions.sort_values("decile")
    errors = table["abs_error_mean"].to_numpy(dtype=np.float64)
    tenths = table["decile"].to_numpy(dtype=np.float64)
    rows = [
        {"from": tenth / 10, "to": (tenth + 1) / 10, "y": finite_or_none(error)}
        for tenth, error in zip(tenths.tolist(), errors, strict=True)
    ]
    plot = fill(
        "columns",
        rows,
        {
            "x": Axis(0.0, 1.0, "position in the response", percent=True),
            "y": Axis(0.0, limits([errors])[1], "mean |value − return|"),
        },
        size="half",
    )
    largest = int(np.nanargmax(errors))
    yield Chart(
        "error_by_position",
        "Error of the critic by position",
        f"{figure(errors[0])} in the first tenth of the response, {figure(errors[-1])} in the "
        f"last; largest {figure(errors[largest])}, in tenth {tenths[largest] + 1:.0f}.",
        plot.spec,
        plot.vega,
    )
