"""Charts whose x axis is no step: reward against KL, and the critic's error by position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import STEP
from rlreport.draw.chart import Chart
from rlreport.draw.extent import Axis, limits
from rlreport.draw.fill import fill
from rlreport.draw.frame import Frame
from rlreport.draw.labels import figure, finite_or_none
from rlreport.draw.series import every_nth
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message


def frontier_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Draws mean reward against mean KL, a path from the first step to the last.

    Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization": how
    much reward the policy buys for its distance from the reference.
    """
    steps = tables.steps
    table = steps[np.isfinite(steps["kl_k1_mean"]) & np.isfinite(steps["reward_mean"])]
    if len(table) < 3:
        return
    kept = every_nth(len(table))
    at = table["step"].to_numpy()
    kl = table["kl_k1_mean"].to_numpy(dtype=np.float64)
    reward = table["reward_mean"].to_numpy(dtype=np.float64)
    rows = [
        {"step": int(step), "x": finite_or_none(x), "y": finite_or_none(y)}
        for step, x, y in zip(at[kept], kl[kept], reward[kept], strict=True)
    ]
    ends = [
        {**rows[i], "label": message("step {step:count}", step=rows[i]["step"])} for i in (0, -1)
    ]
    plot = fill(
        "path",
        rows,
        {
            "x": Axis(*limits([kl[kept]]), STEP["kl_k1_mean"].title),
            "y": Axis(*limits([reward[kept]]), message("mean reward")),
        },
        size="half",
        right=72,
        own={"label": ends, "halo": ends},
    )
    yield Chart(
        "reward_kl_frontier",
        message("Reward against KL"),
        message(
            "From reward {first} to {last}; highest reward {highest}.",
            first=_at(0, at, kl, reward),
            last=_at(-1, at, kl, reward),
            highest=_at(int(reward.argmax()), at, kl, reward),
        ),
        plot.spec,
        plot.vega,
    )


def _at(index: int, steps: NDArray[np.int64], kl: Floats, reward: Floats) -> str:
    return message(
        "{reward} at {kl} nats (step {step:count})",
        reward=figure(float(reward[index])),
        kl=figure(float(kl[index])),
        step=int(steps[index]),
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
            "x": Axis(0.0, 1.0, message("position in the response"), percent=True),
            "y": Axis(0.0, limits([errors])[1], message("mean |value − return|")),
        },
        size="half",
    )
    largest = int(np.nanargmax(errors))
    yield Chart(
        "error_by_position",
        message("Error of the critic by position"),
        message(
            "{first} in the first tenth of the response, {last} in the last; largest {largest}, "
            "in tenth {tenth}.",
            first=figure(errors[0]),
            last=figure(errors[-1]),
            largest=figure(errors[largest]),
            tenth=f"{tenths[largest] + 1:.0f}",
        ),
        plot.spec,
        plot.vega,
    )
