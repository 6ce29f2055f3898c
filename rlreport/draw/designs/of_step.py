"""Designs of a step's charts, authored with Altair, without data."""

from __future__ import annotations

from typing import Any

import altair as alt

from rlreport.draw.designs.parts import (
    design,
    over_own,
    over_rows,
    share_colour,
    x_axis,
    y_axis,
    zero,
)
from rlreport.draw.layout import INTERACTION, VALUE_FORMAT, Spec
from rlreport.draw.theme import LIGHT
from rlreport.text.messages import marked

KEPT = "datum.kept !== false"
"""Responses that pass the filters of the page, which marks the others."""


def histogram() -> Spec:
    """Shares of responses by reward: policy filled, reference dashed, the first step behind.

    Data: rows with ``reward`` and ``ref_reward``; a row that stands for several has
    ``weight``. ``ghost`` has its own: ``low``, ``high``, ``share``. The bins' extent and
    width are set where they stand, in the ``bin`` transforms.
    """
    shared_x = alt.X("low:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis())
    shared_y = alt.Y("share:Q", scale=alt.Scale(nice=False), axis=y_axis(tickCount=4))

    def binned(field: str) -> alt.Chart:
        return (
            over_rows()
            .transform_filter(f"isValid(datum.{field})")
            .transform_calculate(weight="isValid(datum.weight) ? datum.weight : 1")
            # Shares are of all responses of the page, so that the axis holds what a filter leaves.
            .transform_joinaggregate(total="sum(weight)")
            .transform_filter(KEPT)
            .transform_bin(["low", "high"], field, bin=alt.BinParams(step=1))
            .transform_aggregate(count="sum(weight)", total="max(total)", groupby=["low", "high"])
            .transform_calculate(share="datum.count / datum.total")
        )

    tooltip = [
        alt.Tooltip("low:Q", title=marked("from"), format=VALUE_FORMAT),
        alt.Tooltip("high:Q", title=marked("to"), format=VALUE_FORMAT),
        alt.Tooltip("share:Q", title=marked("share"), format=".1%"),
        alt.Tooltip("count:Q", title=marked("responses"), format=",d"),
    ]
    ghost = (
        over_own("ghost")
        .mark_bar(color=LIGHT["muted"], fillOpacity=0.28, binSpacing=0)
        .encode(x=shared_x, x2="high:Q", y=shared_y, y2=alt.datum(0))
    )
    policy = (
        binned("reward")
        .mark_bar(color=LIGHT["policy"], fillOpacity=0.7, binSpacing=1)
        .encode(x=shared_x, x2="high:Q", y=shared_y, y2=alt.datum(0), tooltip=tooltip)
        .properties(name="policy")
    )
    reference = (
        binned("ref_reward")
        .mark_bar(
            fill=LIGHT["reference"],
            fillOpacity=0,
            stroke=LIGHT["reference"],
            strokeDash=[4, 2],
            strokeWidth=1.5,
            binSpacing=0,
        )
        .encode(x=shared_x, x2="high:Q", y=shared_y, y2=alt.datum(0))
        .properties(name="reference")
    )
    key = (
        over_own("key")
        .mark_text(align="right", baseline="alphabetic")
        .encode(
            x=alt.X("px:Q", scale=None, axis=None),
            y=alt.value(-13),
            text="label:N",
            color=alt.Color("colour:N", scale=None),
        )
    )
    return design(ghost, policy, reference, key, _brush(["x"], "reward:Q", None))


def _brush(encodings: list[Any], x: str, y: str | None) -> alt.Chart:
    """An invisible layer over raw rows, so that the brush speaks of columns, not of bins."""
    brush = alt.selection_interval(name="brush", encodings=encodings)
    layer: alt.Chart = (
        over_rows()
        .mark_point(opacity=0)
        .encode(x=x, y=y if y else alt.value(0))
        .add_params(brush)
        .properties(name=f"{INTERACTION}_brush")
    )
    return layer


def ordered_bars() -> Spec:
    """A signed figure of each response, smallest first. Data: rows with the field ``reward_gap``.

    A row that stands for several has ``weight``.
    """
    bars = (
        over_rows()
        .transform_filter("isValid(datum.reward_gap)")
        .transform_calculate(weight="isValid(datum.weight) ? datum.weight : 1")
        .transform_window(
            to="sum(weight)",
            sort=[alt.SortField("reward_gap"), alt.SortField("n")],
            frame=[None, 0],
        )
        .transform_calculate(
            before="datum.to - datum.weight",
            side="datum.reward_gap < 0 ? 'below' : 'above'",
        )
        .mark_bar(binSpacing=0)
        .encode(
            x=alt.X(
                "before:Q", scale=alt.Scale(nice=False), axis=x_axis(format=",d", tickMinStep=1)
            ),
            x2="to:Q",
            y=alt.Y("reward_gap:Q", scale=alt.Scale(nice=False, zero=True), axis=y_axis()),
            y2=alt.datum(0),
            # Those left out keep their place, and the axis its extent.
            opacity=alt.condition(KEPT, alt.value(1), alt.value(0)),
            color=alt.Color(
                "side:N",
                scale=alt.Scale(
                    domain=["above", "below"], range=[LIGHT["policy"], LIGHT["reference"]]
                ),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("n:Q", title=marked("response")),
                alt.Tooltip("reward_gap:Q", title=marked("reward gap"), format=VALUE_FORMAT),
                alt.Tooltip("reward:Q", title=marked("reward"), format=VALUE_FORMAT),
            ],
        )
        .properties(name="bars")
    )
    return design(bars, zero())


def scatter() -> Spec:
    """Responses in a plane, brushed over both axes. The fields of x and y are set by the caller."""
    point = (
        over_rows()
        .transform_filter(KEPT)
        .mark_circle(color=LIGHT["policy"], size=26, opacity=1, fillOpacity=0.5)
        .encode(
            x=alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis()),
            y=alt.Y("y:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis()),
            tooltip=[alt.Tooltip("n:Q", title=marked("response"))],
        )
        .properties(name="point")
    )
    brush = _brush(["x", "y"], "x:Q", "y:Q")
    return design(point, brush)


def plane_heat() -> Spec:
    """Counts in cells of a plane. Data: ``x``, ``x2``, ``y``, ``y2``, ``share``."""
    cells = (
        over_rows()
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis()),
            x2="x2:Q",
            y=alt.Y("y:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis()),
            y2="y2:Q",
            color=share_colour(),
        )
        .properties(name="cells")
    )
    return design(cells)
