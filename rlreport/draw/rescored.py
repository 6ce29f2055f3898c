"""Charts of the reward and of the second reward, for the responses that have both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlreport.check.flips import flips
from rlreport.check.run import Run
from rlreport.draw.chart import Chart, on_one_scale
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart
from rlreport.draw.frame import Frame
from rlreport.draw.theme import DASHED, LIGHT
from rlreport.text.messages import message


def rescored_charts(run: Run, function: str) -> list[Chart]:
    """Return a chart of both means by step, or one of each if they have different scales.

    ``function`` is the name of the function that gave the second reward.
    """
    return [chart for chart in _charts(run, function) if chart is not None]


def _charts(run: Run, function: str) -> Iterator[Chart | None]:
    """Yield the charts of the logged and of the second reward, over the same responses."""
    found = flips(run)
    if not len(run.steps) or not found.is_known.any():
        return
    frame = Frame(run.steps.astype(np.float64))
    style = ChartStyle(message("mean over responses with both rewards"), wide=True)
    old = DrawnCurve(
        "reward",
        message("reward"),
        run.by_step(found.reward),
        colour=LIGHT["muted"],
        dash=DASHED,
    )
    new = DrawnCurve("second", message("second reward"), run.by_step(found.second))
    title = message("Reward and {function}", function=function)
    if on_one_scale([old.values], [new.values]):
        yield curve_chart(frame, "rescored", title, [new, old], style)
        return
    yield curve_chart(frame, "rescored", function, [new], style)
    yield curve_chart(frame, "rescored_reward", message("Reward"), [old], style)
