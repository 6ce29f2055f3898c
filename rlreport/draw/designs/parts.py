"""What the designs of charts have in common, authored with Altair."""

from __future__ import annotations

from typing import Any, TypeVar

import altair as alt

from rlreport.draw.layout import PADDING, ROWS, SERIES, TITLES, Spec
from rlreport.draw.theme import LIGHT, unsigned_scale, vega_config

Channel = TypeVar("Channel", alt.Color, alt.StrokeDash)


def design(*layers: alt.Chart) -> Spec:
    """The Vega-Lite of layers that share positions but not colours, in the house's look.

    It is without data; what else is filled in stands there with some value.
    """
    chart = alt.layer(*layers).resolve_scale(color="independent", strokeDash="independent")
    spec: Spec = chart.to_dict(validate=False)
    spec |= {"data": {"name": ROWS}, "autosize": {"type": "none"}, "config": vega_config()}
    for layer in spec["layer"]:
        if layer.get("data") == spec["data"]:
            del layer["data"]
        for channel in ("x", "y"):
            place = layer["encoding"].get(channel, {})
            if place.get("axis"):
                place["title"] = channel
                place["scale"]["domain"] = [0, 1]
    return spec


def over_rows() -> alt.Chart:
    """A layer over the chart's data."""
    return alt.Chart(alt.NamedData(name=ROWS))


def over_own(name: str) -> alt.Chart:
    """The layer ``name``, with data of its own."""
    chart: alt.Chart = alt.Chart(alt.NamedData(name=name)).properties(name=name)
    return chart


def by_series(channel: type[Channel]) -> Channel:
    """A channel that tells series apart; which, is filled in."""
    return channel("series:N", scale=alt.Scale(domain=SERIES, range=SERIES), legend=None)


def x_axis(**changes: Any) -> alt.Axis:
    """The axis below; labels that touch in a narrow column give way."""
    usual = {"titleAnchor": "end", "titleY": TITLES["x"], "tickCount": 6, "labelOverlap": "greedy"}
    return alt.Axis(**{**usual, **changes})


def y_axis(**changes: Any) -> alt.Axis:
    """The axis on the left; its title lies flat above it, from the chart's left edge."""
    usual = {"tickCount": 5, "titleX": -PADDING["left"], "titleY": TITLES["y"]}
    return alt.Axis(**{**usual, **changes})


def zero() -> alt.Chart:
    """A rule where the value is 0."""
    rule: alt.Chart = (
        over_own("zero")
        .mark_rule(strokeWidth=1, color=LIGHT["muted"], strokeDash=[2, 2])
        .encode(y="zero:Q")
    )
    return rule


def share_colour(**scale: Any) -> alt.Color:
    """The unsigned scale over ``share``; ``scale`` may say its extent."""
    return alt.Color(
        "share:Q",
        scale=alt.Scale(type="quantize", range=unsigned_scale(), **scale),
        legend=None,
    )
