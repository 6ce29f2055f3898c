"""Charts of two runs: both on one axis, their difference, and reward against distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.check.finding import Finding
from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.extent import Axis, limits
from rlreport.draw.fill import fill
from rlreport.draw.frame import Frame
from rlreport.draw.labels import figure, finite_or_none
from rlreport.draw.series import DASHED, Series, every_nth
from rlreport.draw.theme import LIGHT
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked, message, sentences

BASE, NEW = "BASE", "NEW"
_LOOKS = {BASE: (LIGHT["muted"], DASHED), NEW: (LIGHT["policy"], (1, 0))}


def comparison_charts(
    steps: Floats,
    base: Floats,
    new: Floats,
    band: tuple[Floats, Floats, Floats],
    paths: Sequence[pd.DataFrame],
) -> list[Chart]:
    """Draw what two runs feed.

    Args:
        steps: float64 (S,), steps of both runs.
        base: mean reward of BASE at these steps.
        new: mean reward of NEW there.
        band: the difference by step, and the low and high edge of its band.
        paths: ``step``, ``distance`` and ``reward`` of BASE and of NEW; empty without KL.
    """
    charts = []
    if len(steps):
        frame = Frame(steps, _marked(steps, band))
        charts.append(
            curve_chart(
                frame,
                "reward",
                message("Reward of both runs"),
                [_series(NEW, new), _series(BASE, base)],
                axis=message("mean reward"),
                wide=True,
            )
        )
        charts.append(
            curve_chart(
                frame,
                "difference",
                message("Difference of the reward, NEW − BASE"),
                [Series("difference", "NEW − BASE", *band)],
                axis=message("difference of the reward, with a 95% band for all steps at once"),
                note=message(
                    "The band holds for all steps at once; steps where it excludes 0 are marked."
                ),
            )
        )
    if paths:
        charts.append(_paths(paths))
    return [chart for chart in charts if chart is not None]


def _series(name: str, values: Floats) -> Series:
    colour, dash = _LOOKS[name]
    return Series(name, name, values, None, None, colour, dash)


def _marked(steps: Floats, band: tuple[Floats, Floats, Floats]) -> list[Finding]:
    _, low, high = band
    found: list[Finding] = []
    for words, outside, said in (
        (
            "below 0",
            high < 0,
            marked("The whole band lies below 0 at {some:count} of {all:count} steps"),
        ),
        (
            "above 0",
            low > 0,
            marked("The whole band lies above 0 at {some:count} of {all:count} steps"),
        ),
    ):
        if outside.any():
            named = tuple(int(step) for step in steps[outside])
            title = message(said, some=len(named), all=len(steps))
            severity = "warning" if words == "below 0" else "info"
            found.append(
                Finding(
                    words,
                    severity,  # type: ignore[arg-type]
                    "note",
                    steps=named,
                    charts=("difference",),
                    title=title,
                )
            )
    return found


def _paths(paths: Sequence[pd.DataFrame]) -> Chart | None:
    rows, ends, told = [], [], []
    for name, path in zip((BASE, NEW), paths, strict=True):
        if path.empty:
            return None
        kept = path.iloc[every_nth(len(path))]
        own = [
            {"step": int(step), "series": name, "x": finite_or_none(x), "y": finite_or_none(y)}
            for step, x, y in zip(kept["step"], kept["distance"], kept["reward"], strict=True)
        ]
        rows += own
        ends.append({**own[-1], "label": name})
        last = kept.iloc[-1]
        told.append(
            message(
                "{name} ends with reward {reward} at a √KL of {distance}.",
                name=name,
                reward=figure(float(last["reward"])),
                distance=figure(float(last["distance"])),
            )
        )
    distances, rewards = (
        [path[column].to_numpy(np.float64) for path in paths] for column in ("distance", "reward")
    )
    plot = fill(
        "paths",
        rows,
        {
            "x": Axis(*limits(distances), message("√KL (√nats)")),
            "y": Axis(*limits(rewards), message("mean reward")),
        },
        size="half",
        right=72,
        own={"label": ends, "halo": ends},
        series=[_series(name, np.zeros(1)) for name in (BASE, NEW)],
    )
    return Chart(
        "reward_at_equal_kl",
        message("Reward at the same distance from the reference"),
        sentences(told),
        plot.spec,
        plot.vega,
    )
