"""What the designs of charts have in common, authored with Altair."""

from __future__ import annotations

from typing import Any

import altair as alt

from rlreport.draw.layout import OWN, PADDING, ROWS, Spec
from rlreport.draw.theme import LIGHT, unsigned_scale, vega_config


def finish(chart: alt.LayerChart) -> Spec:
    """The specification of a design, sized by us and in the house's look."""
    spec: Spec = chart.to_dict(validate=False)
    spec["autosize"] = {"type": "none"}
    spec["config"] = vega_config()
    return spec


def over_rows() -> alt.Chart:
    """A layer over the chart's data."""
    return alt.Chart(alt.NamedData(name=ROWS["name"]))


def over_own() -> alt.Chart:
    """A layer with data of its own."""
    return alt.Chart(alt.NamedData(name=OWN["name"]))


def x_axis(**changes: Any) -> alt.Axis:
    """The axis below; labels that touch in a narrow column give way."""
    usual = {"titleAnchor": "end", "titlePadding": 2, "tickCount": 6, "labelOverlap": "greedy"}
    return alt.Axis(**{**usual, **changes})


def y_axis(**changes: Any) -> alt.Axis:
    """The axis on the left; its title lies flat above it, from the chart's left edge."""
    return alt.Axis(**{"tickCount": 5, "titleX": -PADDING["left"], "titleY": -13, **changes})


def zero() -> alt.Chart:
    """A rule where the value is 0."""
    rule: alt.Chart = (
        over_own()
        .mark_rule(strokeWidth=1, color=LIGHT["muted"], strokeDash=[2, 2])
        .encode(y="zero:Q")
        .properties(name="zero")
    )
    return rule


def independent(*layers: alt.Chart) -> alt.LayerChart:
    """Layers that share positions but not the colours of marks and series."""
    layered: alt.LayerChart = alt.layer(*layers).resolve_scale(
        color="independent", strokeDash="independent"
    )
    return layered


def share_colour() -> alt.Color:
    """The unsigned scale over ``share``."""
    return alt.Color(
        "share:Q",
        scale=alt.Scale(type="quantize", range=unsigned_scale()),
        legend=None,
    )
