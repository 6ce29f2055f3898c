"""The picture of docs/accuracy.md: how often faults are found, by their size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from benchmarks.accuracy.counts import found_at
from benchmarks.accuracy.families import FAMILIES
from benchmarks.accuracy.measure import POWER, Seen

WIDTH = 200
HEIGHT = 120
COLUMNS = 3
INK = "#3b5b92"


def power_picture(seen: Sequence[Seen]) -> str:
    """Return an SVG with a panel per family of ``POWER``: share found against strength."""
    points = pd.DataFrame(_points(seen))
    share = alt.Y("found:Q", title="found", axis=alt.Axis(format="%", tickCount=5))
    share = share.scale(domain=[0, 1])
    panels = [
        alt.layer(
            _chart(points, name)
            .mark_rule(color=INK)
            .encode(y=alt.Y("low:Q", title="found"), y2="high:Q"),
            _chart(points, name).mark_line(color=INK, point=True).encode(y=share),
        ).properties(width=WIDTH, height=HEIGHT, title=name)
        for name in points["name"].unique()
    ]
    chart = alt.concat(*panels, columns=COLUMNS).configure_view(stroke=None)
    chart = chart.configure(background="white")
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def _chart(points: pd.DataFrame, name: str) -> alt.Chart:
    of_family = points[points["name"] == name]
    unit = str(of_family["unit"].iloc[0])
    return alt.Chart(of_family).encode(x=alt.X("strength:Q", title=unit))


def _points(seen: Sequence[Seen]) -> Iterator[dict[str, Any]]:
    for family in FAMILIES:
        if family.check not in POWER:
            continue
        for strength in (0.0, *family.strengths):
            found = found_at(seen, family.key, strength)
            if found.runs:
                low, high = found.bounds
                yield {
                    "name": f"{family.check}: {family.name}",
                    "unit": family.unit,
                    "strength": strength,
                    "found": found.share,
                    "low": low,
                    "high": high,
                }
