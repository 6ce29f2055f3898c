"""Designs (templates) of all charts, written with Altair and compiled to Vega.

A design is a Vega-Lite specification without data. Compilation to Vega keeps its placeholders,
such as ``$x.low``; ``rlreport.draw.chart.fill`` replaces them in both forms. The docstring of each
design lists the fields of its data, and the layers that have data of their own; such a layer is
omitted from a chart that has no data for it.

``designs.json`` contains both forms (Vega-Lite only, for charts that ``draw.direct`` draws), so
that Altair and the compiler are not needed at run time. ``hatch_build.py`` writes it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import altair as alt
import orjson

from rlreport.draw.theme import (
    DESIGNS,
    DOTS,
    INTERACTION,
    LIGHT,
    PADDING,
    TITLES,
    VALUE_FORMAT,
    Spec,
    design_sources,
    vega_config,
)
from rlreport.text.messages import translatable

Channel = TypeVar("Channel", alt.Color, alt.Stroke, alt.StrokeDash, alt.Size)
Look = dict[str, Any]
ROWS = "rows"
BAND = {"fillOpacity": 0.13}
RAW = {"strokeOpacity": 0.4, "strokeWidth": 1}
RANGE = {"fillOpacity": 0.3, "strokeOpacity": 0.3, "strokeWidth": 1}
THIN = {"strokeWidth": 1, "color": LIGHT["muted"]}
EVENT = THIN | {"strokeDash": [4, 3], "strokeOpacity": 0.8}
# Beside the rule of an event, at the top of the plot
EVENT_LABEL = {
    "baseline": "alphabetic",
    "align": {"expr": "datum.side == 'after' ? 'left' : 'right'"},
    "dx": {"expr": "datum.side == 'after' ? 4 : -4"},
}
HALO = {"color": LIGHT["page"], "stroke": LIGHT["page"], "strokeWidth": 4}
# Vega expression, true for responses that pass the page's filters; the page sets ``kept``
PASSES_FILTERS = "datum.kept !== false"
_AT = {"x": "x:Q", "y": "y:Q"}


def curves(scale: Any) -> Spec:
    """Return the design of curves over the steps, with bands, labels and shaded steps.

    ``scale`` is the type of the y scale.

    Data: ``step``, ``series``, ``value``, ``low``, ``high`` (band), ``min``, ``max`` (of the values
    at several steps, if ``value`` is their mean). Layers with their own data: ``zero`` (``zero``),
    ``marked`` and ``marked_bar`` (``from``, ``to``, ``severity``, ``finding``),
    ``event`` and ``event_label`` (``step``, ``event``, ``side``), those of the run's rules:
    ``interval`` (``from``, ``to``, ``colour``), ``rule`` (``step``, ``colour``, ``dashed``,
    ``opacity``) and ``rule_label`` (``step``, ``label``, ``side``, ``place``, ``colour``),
    ``raw`` and ``raw_dots`` (logged values behind smoothed lines) and ``point`` (all with the
    fields of the data), ``label`` and ``halo`` behind it (``step``, ``series``, ``y``, ``label``).
    """
    color = _by_series(alt.Color)
    dash = _by_series(alt.StrokeDash)
    stroke = _by_series(alt.Stroke)
    width = _by_series(alt.Size)
    x = _x("step", tickMinStep=1)
    y = _y("value", scale)
    pointer, *selections = _pointer()
    return _design(
        *_mark_layers(),
        _zero(),
        *_rule_layers(),
        _data_layer("event", "rule", EVENT, x="step:Q"),
        _layer(
            "band",
            "area",
            BAND,
            x="step:Q",
            y="low:Q",
            y2="high:Q",
            color=color,
        ),
        # Between gaps the area has no width; its stroke shows the range of a single point there.
        _layer(
            "range",
            "area",
            RANGE,
            x="step:Q",
            y="min:Q",
            y2="max:Q",
            color=color,
            stroke=stroke,
        ),
        _data_layer(
            "raw", "line", RAW, x="step:Q", y="value:Q", color=color, strokeDash=dash
        ),
        _data_layer("raw_dots", "circle", DOTS, x="step:Q", y="value:Q", color=color),
        _layer("line", "line", x=x, y=y, color=color, strokeDash=dash, size=width),
        _data_layer(
            "point",
            "circle",
            {"size": 30, "opacity": 1},
            x="step:Q",
            y="value:Q",
            color=color,
        ),
        *_label_layers(color),
        # The tooltip needs one row per step with the values of all series in columns, such as
        # ``policy_value``.
        pointer.transform_fold(
            ["value", "low", "high", "min", "max"], as_=["part", "number"]
        )
        .transform_calculate(named="datum.series + '_' + datum.part")
        .transform_pivot("named", value="number", groupby=["step"])
        .add_params(*selections),
    )


def _pointer() -> tuple[Any, Any, Any]:
    """Return the layer of a line at the step under the pointer, and the two selections it needs."""
    hover = alt.selection_point(
        name="hover",
        on="pointerover",
        clear="pointerout",
        fields=["step"],
        nearest=True,
        empty=False,
    )
    # The page sets ``at`` to the step under the pointer in another of its charts.
    at = alt.param(name="at", expr="isValid(hover.step) ? hover.step[0] : null")
    # A line at that step: each step has one, which is transparent at all other times.
    at_step = alt.condition("datum.step === at", alt.value(1), alt.value(0))
    return _layer(INTERACTION, "rule", THIN, x="step:Q", opacity=at_step), hover, at


def stacked() -> Spec:
    """Return the design of areas over the steps that lie on each other.

    Data: ``step``, ``series``, ``low`` and ``high`` (edges of the area), ``value`` (its middle) and
    ``amount``. Layers with their own data: ``marked``, ``marked_bar`` and those of the run's rules
    as of ``curves``, ``label`` and ``halo`` behind it (``step``, ``series``, ``y``, ``label``).
    """
    color = _by_series(alt.Color)
    label = {"align": "right", "dx": -4, "dy": 4, "baseline": "alphabetic"}
    place = {"x": "step:Q", "y": "y:Q", "text": "label:N"}
    pointer, *selections = _pointer()
    area = _layer(
        "area",
        "area",
        # The stroke shows a step between gaps, where the area has no width.
        {"strokeWidth": 0.5},
        x=_x("step", tickMinStep=1),
        y=_y("low"),
        y2="high:Q",
        color=color,
        stroke=_by_series(alt.Stroke),
    )
    return _design(
        area,
        *_mark_layers(),
        *_rule_layers(),
        _data_layer("halo", "text", label | HALO, **place),
        _data_layer("label", "text", label | {"color": LIGHT["text"]}, **place),
        # The tooltip needs one row per step with the amounts of all series in columns.
        pointer.transform_calculate(named="datum.series + '_amount'")
        .transform_pivot("named", value="amount", groupby=["step"])
        .add_params(*selections),
    )


def _label_layers(color: alt.Color) -> list[Any]:
    """Return the layers of texts in the plot: names of curves, labels of events and of rules."""
    look = {"align": "right", "dx": -2, "baseline": "alphabetic"}
    name = {"x": "step:Q", "y": "y:Q", "text": "label:N"}
    event = {"x": "step:Q", "text": "event:N"}
    return [
        _data_layer("halo", "text", look | HALO, **name),
        _data_layer("label", "text", look, **name, color=color),
        _data_layer("event_label", "text", EVENT_LABEL | {"y": 9}, **event),
        _rule_label(),
    ]


def paths() -> Spec:
    """Return the design of one path per series. Data: ``step``, ``series``, ``x``, ``y``.

    Layers with their own data: ``label`` (``x``, ``y``, ``series``, ``label``) and ``halo``, the
    same texts in the page's colour behind it, so that they can be read on lines.
    """
    color = _by_series(alt.Color)
    dash = _by_series(alt.StrokeDash)
    place = {**EVENT_LABEL, "dy": -5}
    line = _layer("line", "line", {"strokeOpacity": 0.5}, **_plane(), order="step:Q")
    step = _tip("step", ",d", title=translatable("step"))
    point = _layer(
        "point",
        "circle",
        {"size": 22, "opacity": 1},
        **_AT,
        tooltip=[step, _tip("x"), _tip("y")],
    )
    return _design(
        line.encode(color=color, strokeDash=dash),
        point.encode(color=color),
        _data_layer("halo", "text", place | HALO, **_AT, text="label:N"),
        _data_layer("label", "text", place, **_AT, text="label:N", color=color),
    )


def histogram() -> Spec:
    """Return the design of a histogram of rewards.

    Data: rows with ``reward`` and ``ref_reward``; a row that represents several responses has
    their number as ``weight``. Layers with their own data: ``ghost`` (the run's first step:
    ``low``, ``high``, ``share``) and ``key`` (the legend: ``px``, the right end of a text in
    pixels, ``label``, ``colour``).
    """
    place: Look = {
        "x": _x("low"),
        "x2": "high:Q",
        "y": _y("share"),
        "y2": alt.datum(0),
    }
    first_step = _ink("muted", fillOpacity=0.28, binSpacing=0)
    policy = _ink("policy", fillOpacity=0.7, binSpacing=1)
    reference = {
        "fill": LIGHT["reference"],
        "fillOpacity": 0,
        "stroke": LIGHT["reference"],
        "strokeDash": [4, 2],
        "strokeWidth": 1.5,
        "binSpacing": 0,
    }
    tooltip = [
        _tip("low", title=translatable("from")),
        _tip("high", title=translatable("to")),
        _tip("share", ".1%", title=translatable("share")),
        _tip("count", ",d", title=translatable("responses")),
    ]
    policy_bars = _layer("policy", "bar", policy, **place, tooltip=tooltip)
    reference_bars = _layer("reference", "bar", reference, **place)
    return _design(
        _data_layer("ghost", "bar", first_step, **place),
        _bin_shares(policy_bars, "reward"),
        _bin_shares(reference_bars, "ref_reward"),
        _data_layer(
            "key",
            "text",
            {"align": "right", "baseline": "alphabetic"},
            x=alt.X("px:Q", scale=None, axis=None),
            y=alt.value(-13),  # pixels, above the plot
            text="label:N",
            color=alt.Color("colour:N", scale=None),
        ),
        _brush(["x"], x="reward:Q", y=alt.value(0)),
    )


def _bin_shares(bars: Any, field: str) -> Any:
    """Return ``bars`` (a layer) with a bar per bin of ``field``: the share of responses in it.

    It has the fields ``low``, ``high`` (limits of the bin), ``count`` and ``share``.
    """
    # Shares refer to all responses of the page, so that filters do not change the axis.
    with_total = (
        bars.transform_filter(f"isValid(datum.{field})")
        .transform_calculate(weight="isValid(datum.weight) ? datum.weight : 1")
        .transform_joinaggregate(total="sum(weight)")
        .transform_filter(PASSES_FILTERS)
    )
    # ``_add_placeholders`` replaces the step 1, as Altair takes numbers only.
    binned = with_total.transform_bin(["low", "high"], field, bin=alt.BinParams(step=1))
    # All rows have the same total; max keeps it.
    counted = binned.transform_aggregate(
        count="sum(weight)", total="max(total)", groupby=["low", "high"]
    )
    return counted.transform_calculate(share="datum.count / datum.total")


def ordered_bars() -> Spec:
    """Return the design of a bar per response, ordered by ``reward_gap``, and a line at 0.

    Data: ``n``, ``reward``, ``reward_gap``; ``weight`` if a row represents several responses.
    """
    side = alt.Scale(
        domain=["above", "below"], range=[LIGHT["policy"], LIGHT["reference"]]
    )
    bars = _layer(
        "bars",
        "bar",
        {"binSpacing": 0},
        x=_x("before", tickMinStep=1),
        x2="to:Q",
        y=_y("reward_gap"),
        y2=alt.datum(0),
        # Filtered bars become transparent, so that the others and the axis do not move.
        opacity=alt.condition(PASSES_FILTERS, alt.value(1), alt.value(0)),
        color=alt.Color("side:N", scale=side, legend=None),
        tooltip=[
            alt.Tooltip("n:Q", title=translatable("response")),
            _tip("reward_gap", title=translatable("reward gap")),
            _tip("reward", title=translatable("reward")),
        ],
    )
    order = [alt.SortField("reward_gap"), alt.SortField("n")]
    # A bar is as wide as its weight, and begins where the weights of those before it end.
    ordered = (
        bars.transform_filter("isValid(datum.reward_gap)")
        .transform_calculate(weight="isValid(datum.weight) ? datum.weight : 1")
        .transform_window(to="sum(weight)", sort=order, frame=[None, 0])
        .transform_calculate(
            before="datum.to - datum.weight",
            side="datum.reward_gap < 0 ? 'below' : 'above'",
        )
    )
    return _design(ordered, _zero())


def scatter() -> Spec:
    """Return the design of a scatter plot of responses; the caller sets the fields of x and y."""
    look = _ink("policy", size=26, opacity=1, fillOpacity=0.5)
    tooltip = [alt.Tooltip("n:Q", title=translatable("response"))]
    point = _layer("point", "circle", look, **_plane(), tooltip=tooltip)
    return _design(
        point.transform_filter(PASSES_FILTERS), _brush(["x", "y"], x="x:Q", y="y:Q")
    )


def _design(*layers: Any) -> Spec:
    """Return layers as a specification without data, with placeholders such as "$x.low"."""
    chart = alt.layer(*layers).resolve_scale(
        color="independent", strokeDash="independent"
    )
    spec: Spec = chart.to_dict(validate=False)
    spec |= {
        "data": {"name": ROWS},
        # The size of the plot and its padding are given, see ``chart.fill``.
        "autosize": {"type": "none"},
        "config": vega_config(),
    }
    for layer in spec["layer"]:
        if layer.get("data") == spec["data"]:  # inherited from the chart
            del layer["data"]
        _add_placeholders(layer)
    return spec


def _add_placeholders(layer: Spec) -> None:
    """Put in the placeholders that ``chart.fill`` replaces: Altair would refuse some of them."""
    for transform in layer.get("transform", []):
        if "bin" in transform:
            transform["bin"] = {
                "step": "$bins.step",
                "extent": ["$bins.low", "$bins.high"],
            }
    for channel in ("x", "y"):
        encoding = layer["encoding"].get(channel, {})
        if encoding.get("axis"):
            encoding["title"] = f"${channel}.title"
            encoding["scale"]["domain"] = [f"${channel}.low", f"${channel}.high"]
            encoding["axis"] |= {
                "format": f"${channel}.format",
                "tickCount": f"${channel}.count",
                "values": f"${channel}.values",
            }


def _layer(
    name: str, mark: Any, look: Look | None = None, data: str = ROWS, **encoding: Any
) -> Any:
    look = look or {}
    chart = alt.Chart(alt.NamedData(name=data), mark=alt.MarkDef(type=mark, **look))
    return chart.encode(**encoding).properties(name=name)


def _data_layer(name: str, mark: str, look: Look, **encoding: Any) -> Any:
    """Return a layer with data of its own, which have the layer's name."""
    return _layer(name, mark, look, name, **encoding)


def _ink(colour: str, **look: Any) -> Look:
    return {"color": LIGHT[colour], **look}


def _x(field: str, **axis: Any) -> alt.X:
    """Return the x channel; in interactive charts, axis labels that would overlap are dropped."""
    look = alt.Axis(
        titleAnchor="end",
        titleY=TITLES["x"],
        labelOverlap="greedy",
        labelSeparation=6,
        **axis,
    )
    scale = alt.Scale(nice=False, zero=False)
    return alt.X(f"{field}:Q", scale=scale, axis=look)


def _y(field: str, scale: Any = "linear") -> alt.Y:
    look = alt.Axis(titleX=-PADDING["left"], titleY=TITLES["y"])
    options = {} if scale == "linear" else {"type": scale}
    limits = alt.Scale(nice=False, zero=False, **options)
    return alt.Y(f"{field}:Q", scale=limits, axis=look)


def _plane() -> dict[str, Any]:
    return {"x": _x("x"), "y": _y("y")}


def _tip(field: str, format: str = VALUE_FORMAT, **options: Any) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", format=format, **options)


def _by_series(channel: type[Channel]) -> Channel:
    """Return a channel that gives each series its own colour, dashes or width."""
    field = "series:N"
    values = "$series.color"
    if channel is alt.StrokeDash:
        values = "$series.dash"
    elif channel is alt.Size:
        # The size of a line is its width; Vega warns of sizes of a nominal field.
        values = "$series.width"
        field = "series:O"
    scale = alt.Scale(type="ordinal", domain=["$series.key"], range=[values])
    return channel(field, scale=scale, legend=None)


def _zero() -> Any:
    return _data_layer("zero", "rule", THIN | {"strokeDash": [2, 2]}, y="zero:Q")


def _mark_layers() -> list[Any]:
    """Return the layers of shaded steps: a pale area over the plot, and a bar above it."""
    names = ["critical", "warning", "info"]
    scale = alt.Scale(domain=names, range=[LIGHT[name] for name in names])
    place = {
        "x": "from:Q",
        "x2": "to:Q",
        "color": alt.Color("severity:N", scale=scale, legend=None),
    }
    bar = {"y": alt.value(-5), "y2": alt.value(-1)}  # pixels, above the plot
    tip = alt.Tooltip("finding:N", title=translatable("finding"))
    return [
        _data_layer("marked", "rect", {"fillOpacity": 0.07}, **place),
        _data_layer(
            "marked_bar", "rect", {"fillOpacity": 1}, **place, **bar, tooltip=tip
        ),
    ]


def _rule_layers() -> list[Any]:
    """Return the layers of the rules of the run: a pale interval, and a line."""
    own_colour = alt.Color("colour:N", scale=None)
    dashes = alt.Scale(domain=[0, 1], range=[[1, 0], [4, 3]])
    return [
        _data_layer(
            "interval",
            "rect",
            {"fillOpacity": 0.1},
            x="from:Q",
            x2="to:Q",
            color=own_colour,
        ),
        _data_layer(
            "rule",
            "rule",
            {"strokeWidth": 1},
            x="step:Q",
            color=own_colour,
            strokeDash=alt.StrokeDash("dashed:O", scale=dashes, legend=None),
            strokeOpacity=alt.StrokeOpacity("opacity:Q", scale=None),
        ),
    ]


def _rule_label() -> Any:
    return _data_layer(
        "rule_label",
        "text",
        EVENT_LABEL,
        x="step:Q",
        y=alt.Y("place:Q", scale=None, axis=None),
        text="label:N",
        color=alt.Color("colour:N", scale=None),
    )


def _brush(encodings: list[Any], **places: Any) -> Any:
    """Return an invisible layer of points, so that dragging selects responses, not bars."""
    brush = alt.selection_interval(name="brush", encodings=encodings)
    points = _layer(f"{INTERACTION}_brush", "point", {"opacity": 0}, **places)
    return points.add_params(brush)


def compile_designs() -> bytes:
    """Return the content of ``designs.json``: all designs; those that Vega draws also compiled."""
    specs = {"paths": paths(), "stacked": stacked()}
    # The compiled form depends on the scale, which thus cannot be a placeholder.
    for scale in ("linear", "log", "symlog"):
        specs[f"curves_{scale}"] = curves(scale)
    designs = {
        name: {"spec": spec, "vega": _compile(spec)} for name, spec in specs.items()
    }
    # Charts of step pages are drawn by ``draw.direct``.
    for function in (histogram, ordered_bars, scatter):
        designs[function.__name__] = {"spec": function()}
    content = {"sources": design_sources(), "designs": designs}
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


def _compile(spec: Spec) -> Spec:
    """Return a design in its Vega form, for static drawing: without interaction."""
    import vl_convert  # starts V8

    static: Spec = {key: value for key, value in spec.items() if key != "params"}
    static["layer"] = [
        layer for layer in spec["layer"] if not layer["name"].startswith(INTERACTION)
    ]
    vega: Spec = vl_convert.vegalite_to_vega(static)
    # The compiler makes two axes of one with a grid: its lines, and its labels.
    grid_axes = {axis["scale"]: axis for axis in vega["axes"] if axis["grid"]}
    vega["axes"] = [axis for axis in vega["axes"] if not axis["grid"]]
    for axis in vega["axes"]:
        # Dropping overlapping labels depends on text widths, and therefore on installed fonts.
        axis |= {"labelOverlap": False, "values": f"${axis['scale']}.values"}
        # One axis with a grid is drawn twice as fast as two axes.
        grid = grid_axes.get(axis["scale"])
        if grid is not None:
            axis |= {"grid": True, "gridScale": grid["gridScale"]}
    # Draw grids below everything else.
    vega["axes"].sort(key=lambda axis: not axis["grid"])
    return vega


if __name__ == "__main__":
    DESIGNS.write_bytes(compile_designs())
