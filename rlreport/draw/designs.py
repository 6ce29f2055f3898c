"""The designs of all charts, authored with Altair and compiled to Vega.

A design is a Vega-Lite specification without data. Its placeholders, such as ``$x.low``, stay as
they are when it is compiled; ``rlreport.draw.chart.fill`` replaces them in both forms. Layers with
their own data are named in each docstring; without data they are left out.

``designs.json`` holds both forms, so that a run needs neither Altair nor a compiler. It is written
when the package is built (``hatch_build.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import altair as alt
import orjson

from rlreport.draw.chart import DESIGNS, Spec, design_sources
from rlreport.draw.theme import (
    INTERACTION,
    LIGHT,
    PADDING,
    TITLES,
    VALUE_FORMAT,
    unsigned_scale,
    vega_config,
)
from rlreport.text.messages import marked

Channel = TypeVar("Channel", alt.Color, alt.StrokeDash)
ROWS = "rows"
PASSES_FILTERS = "datum.kept !== false"
"""The page marks the responses that its filters leave out."""


def curves(scale: str = "") -> Spec:
    """Curves over the steps with bands, direct labels and the marks of findings.

    Data: ``step``, ``series``, ``value``, ``low``, ``high``. Layers with their own data:
    ``marked`` and ``marked_bar`` (``from``, ``to``, ``severity``, ``finding``), ``guide``
    (``low``, ``high``: the range that guidance calls unremarkable), ``zero``,
    ``point`` (as data), ``label`` (``step``, ``series``, ``y``, ``label``).
    """
    color, dash = _by_series(alt.Color), _by_series(alt.StrokeDash)
    band = _layer("band").mark_area(fillOpacity=0.13)
    guide = _layer("guide", "guide").mark_rect(fillOpacity=0.1, color=LIGHT["healthy"])
    line = _layer("line").mark_line()
    point = _layer("point", "point").mark_circle(size=30, opacity=1)
    label = _text("label", align="left", dx=7, dy=3, baseline="alphabetic")
    hover = alt.selection_point(
        name="hover",
        on="pointerover",
        clear="pointerout",
        fields=["step"],
        nearest=True,
        empty=False,
    )
    # A page sets ``at`` to the step that the pointer is at on another of its charts.
    at = alt.param(name="at", expr="isValid(hover.step) ? hover.step[0] : null")
    pointer = (
        _layer(INTERACTION)
        .transform_fold(["value", "low", "high"], as_=["part", "number"])
        .transform_calculate(named="datum.series + '_' + datum.part")
        .transform_pivot("named", value="number", groupby=["step"])
        .mark_rule(strokeWidth=1, color=LIGHT["muted"])
    )
    return _design(
        *_finding_marks(),
        guide.encode(y="low:Q", y2="high:Q"),
        _zero(),
        band.encode(x="step:Q", y="low:Q", y2="high:Q", color=color),
        line.encode(
            x=_x("step", tickMinStep=1),
            y=_y("value", **({"type": scale} if scale else {})),
            color=color,
            strokeDash=dash,
        ),
        point.encode(x="step:Q", y="value:Q", color=color),
        label.encode(x="step:Q", y="y:Q", text="label:N", color=color),
        pointer.encode(
            x="step:Q", opacity=alt.condition("datum.step === at", alt.value(1), alt.value(0))
        ).add_params(hover, at),
    )


def steps_heat() -> Spec:
    """Shares in cells over the steps. Data: ``from``, ``to``, ``low``, ``high``, ``share``.

    Layers with their own data: ``marked``, ``marked_bar``.
    """
    cells = _layer("cells").mark_rect(strokeWidth=0)
    return _design(
        cells.encode(
            x=_x("from", tickMinStep=1),
            x2="to:Q",
            y=_y("low"),
            y2="high:Q",
            color=_share_color(domain=[0, 1]),
            tooltip=[
                _tip("from", marked("step from"), None),
                _tip("low", marked("from")),
                _tip("high", marked("to")),
                _tip("share", marked("share"), ".1%"),
            ],
        ),
        *_finding_marks(),
    )


def path() -> Spec:
    """A path through a plane, one point a step. Data: ``step``, ``x``, ``y``.

    Layers with their own data: ``label`` and the ``halo`` behind it.
    """
    place = {"align": "left", "dx": 4, "dy": -5, "baseline": "alphabetic"}
    line = _layer("line").mark_line(color=LIGHT["policy"], strokeOpacity=0.45)
    point = _layer("point").mark_circle(color=LIGHT["policy"], size=22, opacity=1)
    return _path(line, point, _text("label", **place, color=LIGHT["text"]), place)


def paths() -> Spec:
    """Paths through a plane, told apart by series. Data: ``step``, ``series``, ``x``, ``y``.

    Layers with their own data: ``label`` (``x``, ``y``, ``series``, ``label``) and the ``halo``
    behind it.
    """
    color, dash = _by_series(alt.Color), _by_series(alt.StrokeDash)
    place = {"align": "left", "dx": 7, "baseline": "middle"}
    line = _layer("line").mark_line(strokeOpacity=0.5).encode(color=color, strokeDash=dash)
    point = _layer("point").mark_circle(size=22, opacity=1).encode(color=color)
    label = _text("label", **place).encode(color=color)
    return _path(line, point, label, place, _tip("series", marked("run"), None, "N"))


def _path(
    line: alt.Chart, point: alt.Chart, label: alt.Chart, place: dict[str, Any], *tips: alt.Tooltip
) -> Spec:
    halo = _text("halo", **place, color=LIGHT["page"], stroke=LIGHT["page"], strokeWidth=4)
    tooltip = [*tips, _tip("step", marked("step"), ",d"), _tip("x"), _tip("y")]
    return _design(
        line.encode(x=_x("x"), y=_y("y"), order="step:Q"),
        point.encode(x="x:Q", y="y:Q", tooltip=tooltip),
        *(text.encode(x="x:Q", y="y:Q", text="label:N") for text in (halo, label)),
    )


def columns() -> Spec:
    """Columns over ranges of x. Data: ``from``, ``to``, ``y``."""
    bars = _layer("columns").mark_bar(color=LIGHT["policy"], binSpacing=2)
    tooltip = [_tip("from", marked("from")), _tip("to", marked("to")), _tip("y")]
    return _design(
        bars.encode(x=_x("from"), x2="to:Q", y=_y("y"), y2=alt.datum(0), tooltip=tooltip)
    )


def histogram() -> Spec:
    """Shares of responses by reward: policy filled, reference dashed, the first step behind.

    Data: rows with ``reward`` and ``ref_reward``; a row that stands for several has
    ``weight``. Layers with their own data: ``ghost`` (``low``, ``high``, ``share``) and ``key``.
    """
    place = {"x": _x("low"), "x2": "high:Q", "y": _y("share"), "y2": alt.datum(0)}

    def binned(name: str, field: str) -> alt.Chart:
        return (
            _layer(name)
            .transform_filter(f"isValid(datum.{field})")
            .transform_calculate(weight="isValid(datum.weight) ? datum.weight : 1")
            # Shares are of all responses of the page, so that the axis holds what a filter leaves.
            .transform_joinaggregate(total="sum(weight)")
            .transform_filter(PASSES_FILTERS)
            .transform_bin(["low", "high"], field, bin=alt.BinParams(step=1))
            .transform_aggregate(count="sum(weight)", total="max(total)", groupby=["low", "high"])
            .transform_calculate(share="datum.count / datum.total")
            .encode(**place)
        )

    ghost = _layer("ghost", "ghost").encode(**place)
    policy = binned("policy", "reward").encode(
        tooltip=[
            _tip("low", marked("from")),
            _tip("high", marked("to")),
            _tip("share", marked("share"), ".1%"),
            _tip("count", marked("responses"), ",d"),
        ]
    )
    return _design(
        ghost.mark_bar(color=LIGHT["muted"], fillOpacity=0.28, binSpacing=0),
        policy.mark_bar(color=LIGHT["policy"], fillOpacity=0.7, binSpacing=1),
        binned("reference", "ref_reward").mark_bar(
            fill=LIGHT["reference"],
            fillOpacity=0,
            stroke=LIGHT["reference"],
            strokeDash=[4, 2],
            strokeWidth=1.5,
            binSpacing=0,
        ),
        _text("key", align="right", baseline="alphabetic").encode(
            x=alt.X("px:Q", scale=None, axis=None),
            y=alt.value(-13),
            text="label:N",
            color=alt.Color("colour:N", scale=None),
        ),
        _brush(["x"], x="reward:Q", y=alt.value(0)),
    )


def ordered_bars() -> Spec:
    """A signed figure of each response, smallest first. Data: rows with the field ``reward_gap``.

    A row that stands for several has ``weight``. Layer with its own data: ``zero``.
    """
    side = alt.Scale(domain=["above", "below"], range=[LIGHT["policy"], LIGHT["reference"]])
    bars = (
        _layer("bars")
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
            x=_x("before", tickMinStep=1),
            x2="to:Q",
            y=_y("reward_gap"),
            y2=alt.datum(0),
            # Those left out keep their place, and the axis its extent.
            opacity=alt.condition(PASSES_FILTERS, alt.value(1), alt.value(0)),
            color=alt.Color("side:N", scale=side, legend=None),
            tooltip=[
                _tip("n", marked("response"), None),
                _tip("reward_gap", marked("reward gap")),
                _tip("reward", marked("reward")),
            ],
        )
    )
    return _design(bars, _zero())


def scatter() -> Spec:
    """Responses in a plane, brushed over both axes. The fields of x and y are placeholders."""
    point = (
        _layer("point")
        .transform_filter(PASSES_FILTERS)
        .mark_circle(color=LIGHT["policy"], size=26, opacity=1, fillOpacity=0.5)
        .encode(x=_x("x"), y=_y("y"), tooltip=[_tip("n", marked("response"), None)])
    )
    return _design(point, _brush(["x", "y"], x="x:Q", y="y:Q"))


def plane_heat() -> Spec:
    """Counts in cells of a plane. Data: ``x``, ``x2``, ``y``, ``y2``, ``share``."""
    cells = _layer("cells").mark_rect(strokeWidth=0)
    return _design(cells.encode(x=_x("x"), x2="x2:Q", y=_y("y"), y2="y2:Q", color=_share_color()))


def _design(*layers: alt.Chart) -> Spec:
    """Return the Vega-Lite of layers that share positions but not colours, in the report's look."""
    chart = alt.layer(*layers).resolve_scale(color="independent", strokeDash="independent")
    spec: Spec = chart.to_dict(validate=False)
    spec |= {"data": {"name": ROWS}, "autosize": {"type": "none"}, "config": vega_config()}
    for layer in spec["layer"]:
        if layer.get("data") == spec["data"]:
            del layer["data"]
        for transform in layer.get("transform", []):
            if "bin" in transform:
                transform["bin"] = {"step": "$bins.step", "extent": ["$bins.low", "$bins.high"]}
        for channel in ("x", "y"):
            place = layer["encoding"].get(channel, {})
            if place.get("axis"):
                place["title"] = f"${channel}.title"
                place["scale"]["domain"] = [f"${channel}.low", f"${channel}.high"]
                ticks = {"format": "format", "tickCount": "count", "values": "values"}
                place["axis"] |= {key: f"${channel}.{name}" for key, name in ticks.items()}
    return spec


def _layer(name: str, data: str = ROWS) -> alt.Chart:
    chart: alt.Chart = alt.Chart(alt.NamedData(name=data)).properties(name=name)
    return chart


def _text(name: str, **look: Any) -> alt.Chart:
    chart: alt.Chart = _layer(name, name).mark_text(**look)
    return chart


def _x(field: str, **axis: Any) -> alt.X:
    """The axis below; labels that touch in a narrow column give way."""
    look = alt.Axis(titleAnchor="end", titleY=TITLES["x"], labelOverlap="greedy", **axis)
    return alt.X(f"{field}:Q", scale=alt.Scale(nice=False, zero=False), axis=look)


def _y(field: str, **scale: Any) -> alt.Y:
    """The axis on the left; its title lies flat above it, from the chart's left edge."""
    look = alt.Axis(titleX=-PADDING["left"], titleY=TITLES["y"])
    return alt.Y(f"{field}:Q", scale=alt.Scale(nice=False, zero=False, **scale), axis=look)


def _tip(
    field: str, title: str | None = None, format: str | None = VALUE_FORMAT, type: str = "Q"
) -> alt.Tooltip:
    given = {key: value for key, value in {"title": title, "format": format}.items() if value}
    return alt.Tooltip(f"{field}:{type}", **given)


def _by_series(channel: type[Channel]) -> Channel:
    name = "color" if channel is alt.Color else "dash"
    scale = alt.Scale(domain=["$series.key"], range=[f"$series.{name}"])
    return channel("series:N", scale=scale, legend=None)


def _share_color(**scale: Any) -> alt.Color:
    return alt.Color(
        "share:Q", scale=alt.Scale(type="quantize", range=unsigned_scale(), **scale), legend=None
    )


def _zero() -> alt.Chart:
    rule = _layer("zero", "zero").mark_rule(strokeWidth=1, color=LIGHT["muted"], strokeDash=[2, 2])
    chart: alt.Chart = rule.encode(y="zero:Q")
    return chart


def _finding_marks() -> list[alt.Chart]:
    """The steps that findings name: a tint over the plot under a bar in the severity's colour."""
    names = ["critical", "warning", "info"]
    severity = alt.Color(
        "severity:N",
        scale=alt.Scale(domain=names, range=[LIGHT[name] for name in names]),
        legend=None,
    )
    tint = _layer("marked", "marked").mark_rect(fillOpacity=0.07)
    bar = _layer("marked_bar", "marked_bar").mark_rect(fillOpacity=1)
    tip = _tip("finding", marked("finding"), None, "N")
    return [
        tint.encode(x="from:Q", x2="to:Q", color=severity),
        bar.encode(
            x="from:Q", x2="to:Q", y=alt.value(-5), y2=alt.value(-1), color=severity, tooltip=tip
        ),
    ]


def _brush(encodings: list[Any], **places: Any) -> alt.Chart:
    """An invisible layer over raw rows, so that the brush speaks of columns, not of bins."""
    brush = alt.selection_interval(name="brush", encodings=encodings)
    layer = _layer(f"{INTERACTION}_brush").mark_point(opacity=0)
    chart: alt.Chart = layer.encode(**places).add_params(brush)
    return chart


def compile_designs() -> bytes:
    """Author and compile every design; return the content of ``designs.json``."""
    authors = (steps_heat, path, paths, columns, histogram, ordered_bars, scatter, plane_heat)
    specs = {author.__name__: author() for author in authors}
    specs |= {"curves_linear": curves(), "curves_log": curves("log")}
    specs |= {"curves_symlog": curves("symlog")}
    designs = {name: {"spec": spec, "vega": _compiled(spec)} for name, spec in specs.items()}
    content = {"sources": design_sources(), "designs": designs}
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


def _compiled(spec: Spec) -> Spec:
    """Return the Vega of what is drawn on paper, for any data."""
    import vl_convert  # starts V8

    still: dict[str, Any] = {key: value for key, value in spec.items() if key != "params"}
    still["layer"] = [layer for layer in spec["layer"] if not layer["name"].startswith(INTERACTION)]
    vega: Spec = vl_convert.vegalite_to_vega(still)
    lines = {axis["scale"]: axis for axis in vega["axes"] if axis["grid"]}
    vega["axes"] = [axis for axis in vega["axes"] if not axis["grid"]]
    for axis in vega["axes"]:
        # Which labels are dropped depends on the width of text, and so on the fonts of a machine.
        axis |= {"labelOverlap": False, "values": f"${axis['scale']}.values"}
        if axis["scale"] in lines:  # one axis costs half of two
            axis |= {"grid": True, "gridScale": lines[axis["scale"]]["gridScale"]}
    vega["axes"].sort(key=lambda axis: not axis["grid"])  # under all else
    for mark in _marks(vega):
        mark["encode"]["update"].pop("tooltip", None)
    return vega


def _marks(group: Spec) -> Iterator[Spec]:
    for mark in group["marks"]:
        if "marks" in mark:
            yield from _marks(mark)
        else:
            yield mark


if __name__ == "__main__":
    DESIGNS.write_bytes(compile_designs())
