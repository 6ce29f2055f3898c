"""Designs of the charts over a run, authored with Altair, without data.

Layers with data of their own are named in each docstring; those that get none are left out.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from rlreport.draw.designs.parts import (
    by_series,
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


def _marks() -> list[alt.Chart]:
    """The steps that findings name: a tint over the plot under a bar in the severity's colour."""
    severity = alt.Color(
        "severity:N",
        scale=alt.Scale(
            domain=["critical", "warning", "info"],
            range=[LIGHT["critical"], LIGHT["warning"], LIGHT["info"]],
        ),
        legend=None,
    )
    tint = over_own("marked").mark_rect(fillOpacity=0.07)
    bar = over_own("marked_bar").mark_rect(fillOpacity=1)
    return [
        tint.encode(x="from:Q", x2="to:Q", color=severity),
        bar.encode(
            x="from:Q",
            x2="to:Q",
            y=alt.value(-5),
            y2=alt.value(-1),
            color=severity,
            tooltip=alt.Tooltip("finding:N", title=marked("finding")),
        ),
    ]


def curves() -> Spec:
    """Curves over the steps with bands, direct labels and the marks of findings.

    Data: ``step``, ``series``, ``value``, ``low``, ``high``. Layers with data of their own:
    ``marked`` and ``marked_bar`` (``from``, ``to``, ``severity``, ``finding``), ``guide``
    (``low``, ``high``: the range that guidance calls unremarkable), ``zero``,
    ``point`` (as data), ``label`` (``step``, ``series``, ``y``, ``label``).
    """
    series, dash = by_series(alt.Color), by_series(alt.StrokeDash)
    x = alt.X("step:Q", scale=alt.Scale(nice=False), axis=x_axis(tickMinStep=1, format=",d"))
    y = alt.Y("value:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis())
    band = (
        over_rows()
        .mark_area(fillOpacity=0.13)
        .encode(x="step:Q", y="low:Q", y2="high:Q", color=series)
        .properties(name="band")
    )
    guide = (
        over_own("guide")
        .mark_rect(fillOpacity=0.1, color=LIGHT["healthy"])
        .encode(y="low:Q", y2="high:Q")
    )
    line = over_rows().mark_line().encode(x=x, y=y, color=series, strokeDash=dash)
    point = (
        over_own("point")
        .mark_circle(size=30, opacity=1)
        .encode(x="step:Q", y="value:Q", color=series)
    )
    label = (
        over_own("label")
        .mark_text(align="left", dx=7, dy=3, baseline="alphabetic")
        .encode(x="step:Q", y="y:Q", text="label:N", color=series)
    )
    hover = alt.selection_point(
        name="hover",
        on="pointerover",
        clear="pointerout",
        fields=["step"],
        nearest=True,
        empty=False,
    )
    at = alt.param(name="at", expr="isValid(hover.step) ? hover.step[0] : null")
    pointer = (
        over_rows()
        .transform_fold(["value", "low", "high"], as_=["part", "number"])
        .transform_calculate(named="datum.series + '_' + datum.part")
        .transform_pivot("named", value="number", groupby=["step"])
        .mark_rule(strokeWidth=1, color=LIGHT["muted"])
        .encode(
            x="step:Q",
            # A page sets ``at`` to the step that the pointer is at on another of its charts.
            opacity=alt.condition("datum.step === at", alt.value(1), alt.value(0)),
        )
        .add_params(hover, at)
    )
    return design(
        *_marks(),
        guide,
        zero(),
        band,
        line.properties(name="line"),
        point,
        label,
        pointer.properties(name=INTERACTION),
    )


def steps_heat() -> Spec:
    """Shares in cells over the steps. Data: ``from``, ``to``, ``low``, ``high``, ``share``.

    Layers with data of their own: ``marked``, ``marked_bar``.
    """
    cells = (
        over_rows()
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(nice=False), axis=x_axis(tickMinStep=1, format=",d")),
            x2="to:Q",
            y=alt.Y("low:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis()),
            y2="high:Q",
            color=share_colour(domain=[0, 1]),
            tooltip=[
                alt.Tooltip("from:Q", title=marked("step from")),
                alt.Tooltip("low:Q", title=marked("from"), format=VALUE_FORMAT),
                alt.Tooltip("high:Q", title=marked("to"), format=VALUE_FORMAT),
                alt.Tooltip("share:Q", title=marked("share"), format=".1%"),
            ],
        )
        .properties(name="cells")
    )
    return design(cells, *_marks())


def path() -> Spec:
    """A path through a plane, one point a step. Data: ``step``, ``x``, ``y``.

    Layers with data of their own: ``label`` and the ``halo`` behind it.
    """
    x = alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis())
    y = alt.Y("y:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis())
    base = over_rows().encode(x=x, y=y, order="step:Q")
    line = base.mark_line(color=LIGHT["policy"], strokeOpacity=0.45).properties(name="line")
    point = (
        over_rows()
        .mark_circle(color=LIGHT["policy"], size=22, opacity=1)
        .encode(
            x="x:Q",
            y="y:Q",
            tooltip=[
                alt.Tooltip("step:Q", title=marked("step"), format=",d"),
                alt.Tooltip("x:Q", format=VALUE_FORMAT),
                alt.Tooltip("y:Q", format=VALUE_FORMAT),
            ],
        )
        .properties(name="point")
    )
    place: dict[str, Any] = {"align": "left", "dx": 4, "dy": -5, "baseline": "alphabetic"}
    page = LIGHT["page"]
    halo, label = (
        over_own(name).mark_text(**place, **look).encode(x="x:Q", y="y:Q", text="label:N")
        for name, look in (
            ("halo", {"color": page, "stroke": page, "strokeWidth": 4}),
            ("label", {"color": LIGHT["text"]}),
        )
    )
    return design(line, point, halo, label)


def paths() -> Spec:
    """Paths through a plane, told apart by series. Data: ``step``, ``series``, ``x``, ``y``.

    Layers with data of their own: ``label`` (``x``, ``y``, ``series``, ``label``) and the
    ``halo`` behind it.
    """
    series, dash = by_series(alt.Color), by_series(alt.StrokeDash)
    x = alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis())
    y = alt.Y("y:Q", scale=alt.Scale(nice=False, zero=False), axis=y_axis())
    line = (
        over_rows()
        .mark_line(strokeOpacity=0.5)
        .encode(x=x, y=y, order="step:Q", color=series, strokeDash=dash)
        .properties(name="line")
    )
    point = (
        over_rows()
        .mark_circle(size=22, opacity=1)
        .encode(
            x="x:Q",
            y="y:Q",
            color=series,
            tooltip=[
                alt.Tooltip("series:N", title=marked("run")),
                alt.Tooltip("step:Q", title=marked("step"), format=",d"),
                alt.Tooltip("x:Q", format=VALUE_FORMAT),
                alt.Tooltip("y:Q", format=VALUE_FORMAT),
            ],
        )
        .properties(name="point")
    )
    place: dict[str, Any] = {"align": "left", "dx": 7, "baseline": "middle"}
    page = LIGHT["page"]
    halo = (
        over_own("halo")
        .mark_text(**place, color=page, stroke=page, strokeWidth=4)
        .encode(x="x:Q", y="y:Q", text="label:N")
    )
    label = (
        over_own("label").mark_text(**place).encode(x="x:Q", y="y:Q", text="label:N", color=series)
    )
    return design(line, point, halo, label)


def columns() -> Spec:
    """Columns over ranges of x. Data: ``from``, ``to``, ``y``."""
    bars = (
        over_rows()
        .mark_bar(color=LIGHT["policy"], binSpacing=2)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(nice=False, zero=False), axis=x_axis()),
            x2="to:Q",
            y=alt.Y("y:Q", scale=alt.Scale(nice=False), axis=y_axis()),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("from:Q", title=marked("from"), format=VALUE_FORMAT),
                alt.Tooltip("to:Q", title=marked("to"), format=VALUE_FORMAT),
                alt.Tooltip("y:Q", format=VALUE_FORMAT),
            ],
        )
        .properties(name="columns")
    )
    return design(bars)
