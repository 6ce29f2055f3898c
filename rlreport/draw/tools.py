"""Chart of the error rate of each tool."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rlreport.draw.axes import unique_names
from rlreport.draw.chart import Chart
from rlreport.draw.curves import Frame, curve_chart
from rlreport.draw.series import Series
from rlreport.draw.theme import PALETTE
from rlreport.tables import Tables
from rlreport.text.messages import message, plural

MOST_TOOLS = 5  # Maximum number of curves; the tools that answered the most calls are drawn


def tool_label(name: object) -> str:
    """Return the displayed name of a tool; the logged name may be empty."""
    return str(name) or message("tool without a name")


def tool_error_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of each tool's error rate, if there are errors and at least two tools."""
    if tables.tools.empty or not tables.tools["errors"].any():
        return
    by_step = tables.tools.set_index(["step", "tool"])
    rates: pd.DataFrame = (by_step["errors"] / by_step["answers"]).unstack()
    answers = tables.tools.groupby("tool")["answers"].sum().to_dict()
    order = sorted(answers, key=lambda tool: (-answers[tool], tool))
    if len(order) < 2:
        return
    shares = rates.reindex(frame.steps)[order[:MOST_TOOLS]]
    names = [tool_label(tool) for tool in shares]
    omitted_count = len(order) - len(names)
    yield curve_chart(
        frame,
        "tool_errors",
        message("Error rate of each tool"),
        [
            Series(f"tool_{key}", name, shares[tool].to_numpy(np.float64), *style)
            for key, name, tool, style in zip(
                unique_names(names), names, shares, PALETTE, strict=False
            )
        ],
        axis=message("share of a tool's answers that are errors"),
        percent=True,
        labels=150,
        note=plural(
            "{count} tool that is called less often is not drawn.",
            "{count} tools that are called less often are not drawn.",
            omitted_count,
        )
        if omitted_count
        else "",
    )
