"""Charts whose x axis is no step: reward against KL, and the critic's error by position."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.draw.axis import tick_format, y_limits
from rlreport.draw.chart import Chart
from rlreport.draw.designs import template
from rlreport.draw.layout import encoding, fill
from rlreport.draw.series import MOST_POINTS
from rlreport.draw.words import figure, finite_or_none


def frontier_chart(steps: pd.DataFrame) -> Chart | None:
    """Mean reward against mean KL, a path from the first step to the last.

    Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization": how
    much reward the policy buys for its distance from the reference. None without KL.
    """
    table = steps[["step", "kl_k1_mean", "reward_mean"]].dropna()
    if len(table) < 3:
        return None
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
    x_limits, limits = y_limits([kl]), y_limits([reward])
    spec = fill(
        template("path"),
        {"values": rows},
        size="half",
        right=72,
        layers={"label": ends, "halo": ends},
    )
    channels = encoding(spec, "line")
    for axis, title, extent in (
        ("x", "KL (k1), nats a response", x_limits),
        ("y", "mean reward", limits),
    ):
        channels[axis]["title"] = title
        channels[axis]["scale"]["domain"] = list(extent)
        channels[axis]["axis"].update(tick_format(extent, percent=False))
    return Chart(
        "reward_kl_frontier",
        "Reward against KL",
        f"From reward {figure(reward[0])} at {figure(kl[0])} nats (step {at[0]:,}) to "
        f"{figure(reward[-1])} at {figure(kl[-1])} nats (step {at[-1]:,}); highest reward "
        f"{figure(reward.max())} at {figure(kl[reward.argmax()])} nats "
        f"(step {at[reward.argmax()]:,}).",
        spec,
        "",
    )


def error_by_position_chart(positions: pd.DataFrame) -> Chart | None:
    """The critic's mean |value − return| over the response, in tenths; None without values."""
    if positions.empty or not np.isfinite(positions["abs_error_mean"]).any():
        return None
    table = positions.sort_values("decile")
    errors = table["abs_error_mean"].to_numpy(dtype=np.float64)
    tenths = table["decile"].to_numpy(dtype=np.float64)
    rows = [
        {"from": tenth / 10, "to": (tenth + 1) / 10, "y": finite_or_none(error)}
        for tenth, error in zip(tenths.tolist(), errors, strict=True)
    ]
    limits = (0.0, y_limits([errors])[1])
    spec = fill(template("columns"), {"values": rows}, size="half")
    channels = encoding(spec, "columns")
    channels["x"]["title"] = "position in the response"
    channels["x"]["scale"]["domain"] = [0, 1]
    channels["x"]["axis"]["format"] = "~%"
    channels["y"]["title"] = "mean |value − return|"
    channels["y"]["scale"]["domain"] = list(limits)
    channels["y"]["axis"].update(tick_format(limits, percent=False))
    largest = int(np.nanargmax(errors))
    return Chart(
        "error_by_position",
        "Error of the critic by position",
        f"{figure(errors[0])} in the first tenth of the response, {figure(errors[-1])} in the "
        f"last; largest {figure(errors[largest])}, in tenth {tenths[largest] + 1:.0f}.",
        spec,
        "",
    )
