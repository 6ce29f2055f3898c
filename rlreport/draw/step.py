"""The charts of one step: distribution, gap to the reference, and what the reward goes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.draw.axis import Axis, Floats, y_limits
from rlreport.draw.bins import bins, counts
from rlreport.draw.chart import Chart
from rlreport.draw.designs import STEP_RIGHT, page_spec
from rlreport.draw.drawing import Drawing, draw, drawing
from rlreport.draw.layout import PADDING, VALUE_FORMAT, WIDTH, Spec, copied, encoding
from rlreport.draw.shrink import Place
from rlreport.draw.stencil import Stencil, stencil_of
from rlreport.draw.theme import LIGHT
from rlreport.draw.words import figure, finite_or_none, six_digits

MOST_DOTS = 600
"""Above this many responses a scatter is drawn as a heat map of counts."""

MOST_BARS = 200
_CELLS = (36, 20)
_FIELDS = ("n", "reward", "ref_reward", "reward_gap", "kl_k1", "response_tokens", "response_chars")

Rows = list[dict[str, Any]]
Made = tuple[Chart, Drawing]
"""A chart, not yet drawn, and how to draw it."""


@dataclass(frozen=True, slots=True)
class Design:
    """A chart without data: Vega-Lite for the page, and its stencil for baking."""

    spec: Spec
    stencil: Stencil


@dataclass(frozen=True, slots=True)
class StepDesigns:
    """The step charts' designs: made once, sent to every worker."""

    histogram: Design
    bars: Design
    scatter: Design
    heat: Design


def step_designs() -> StepDesigns:
    """Gets the designs."""
    specs = map(page_spec, ("histogram", "ordered_bars", "scatter", "plane_heat"))
    return StepDesigns(*(Design(spec, stencil_of(spec)) for spec in specs))


def step_charts(
    rows: pd.DataFrame,
    first_rows: pd.DataFrame | None,
    designs: StepDesigns,
    *,
    step: int,
) -> list[Chart]:
    """Draws a step's charts from all its responses.

    Args:
        rows: response table of the step.
        first_rows: that of the first step, drawn as a ghost behind; None draws none.
        designs: from ``step_designs``.
        step: the step.

    Returns:
        Charts the log can feed. Their baked SVG shows all responses; their specification
        takes the dataset ``rows`` from the page, which filters it.
    """
    columns = {name: rows[name].to_numpy(np.float64) for name in _FIELDS}
    ghost = None
    if first_rows is not None and first_rows["step"].iloc[0] != step:
        ghost = first_rows["reward"].to_numpy(np.float64)
    length = "response_chars" if np.isnan(columns["response_tokens"]).all() else "response_tokens"
    unit = "tokens" if length == "response_tokens" else "characters"
    made = (
        _histogram(columns, ghost, designs.histogram),
        _gap(columns, designs.bars),
        _plane(columns, "kl_k1", "KL (k1), nats a response", "Reward against KL", designs),
        _plane(columns, length, f"length, {unit}", "Reward against length", designs),
    )
    there = [one for one in made if one is not None]
    svgs = draw([drawable for _, drawable in there])
    return [replace(chart, svg=svg) for (chart, _), svg in zip(there, svgs, strict=True)]


def _histogram(columns: dict[str, Floats], ghost: Floats | None, design: Design) -> Made | None:
    reward, reference = columns["reward"], columns["ref_reward"]
    first = np.array([]) if ghost is None else ghost
    finite = np.concatenate([v[np.isfinite(v)] for v in (reward, reference, first)])
    if not np.isfinite(reward).any():
        return None
    step, low, high = bins(finite)
    held = [_counted(values, step, low, high) for values in (reward, reference, first)]
    sizes = [sum(n for *_, n in each) for each in held]
    top = 1.08 * max(n / size for each, size in zip(held, sizes, strict=True) for *_, n in each)
    x = Axis(low, high, "reward")
    y = Axis(0.0, top, "share of responses", percent=True)
    keys = [("policy", "policy")]
    if held[1]:
        keys.append(("reference", "reference"))
    if held[2]:
        keys.append(("first step", "muted"))
    ghosts = [{"low": a, "high": b, "share": n / sizes[2]} for a, b, n in held[2]]
    spec = _titled(design, "policy", x, y, {"ghost": ghosts, "key": _key(keys)})
    for layer in spec["layer"]:
        for transform in layer.get("transform", []):
            if "bin" in transform:
                transform["bin"] = {"step": step, "extent": [low, high]}
    said = (
        f"Policy: mean {figure(float(np.nanmean(reward)))}, from "
        f"{figure(float(np.nanmin(reward)))} to {figure(float(np.nanmax(reward)))}."
    )
    if held[1]:
        said += f" Reference: mean {figure(float(np.nanmean(reference)))}."
    if held[2]:
        said += f" First step: mean {figure(float(np.nanmean(first)))}."
    # A row a bin, standing for its responses: Vega need not sort hundreds into them.
    rows = [
        {key: (a + b) / 2, "weight": n}
        for key, each in (("reward", held[0]), ("ref_reward", held[1]))
        for a, b, n in each
    ]
    vega = design.stencil.filled(spec, rows, bins=(step, low, high))
    chart = Chart("step_reward", "Reward of the responses", said, spec, "", responses=True)
    return chart, drawing(chart.name, said, spec, vega)


def _gap(columns: dict[str, Floats], design: Design) -> Made | None:
    gap = columns["reward_gap"]
    known = np.isfinite(gap)
    if not known.any():
        return None
    count = int(known.sum())
    drawn = {name: values[known] for name, values in columns.items()}
    if count > MOST_BARS:
        drawn = _thinned(drawn, "reward_gap")
    low, high = y_limits([np.append(gap[known], 0.0)])
    x = Axis(0.0, float(count), "responses, smallest gap first")
    y = Axis(low, high, "reward − reference reward")
    better, worse = int((gap[known] > 0).sum()), int((gap[known] < 0).sum())
    said = (
        f"{better:,} of {count:,} responses beat the reference, {worse:,} fall short; "
        f"mean gap {figure(float(gap[known].mean()))}."
    )
    fields = {name: name for name in ("reward_gap", "reward", "weight") if name in drawn}
    spec = _titled(design, "bars", x, y, {"zero": [{"zero": 0}]})
    # In order, so that bars of a colour become one path.
    order = np.argsort(drawn["reward_gap"], kind="stable")
    rows = _rows({name: values[order] for name, values in drawn.items()}, **fields)
    drawable = drawing("step_gap", said, spec, design.stencil.filled(spec, rows))
    # The page draws the shown responses, which may be fewer than were logged.
    del spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    return Chart("step_gap", "Gap to the reference", said, spec, "", responses=True), drawable


def _plane(
    columns: dict[str, Floats], field: str, axis: str, title: str, designs: StepDesigns
) -> Made | None:
    known = np.isfinite(columns[field]) & np.isfinite(columns["reward"])
    if not known.any():
        return None
    across, up = columns[field][known], columns["reward"][known]
    x, y = Axis(*y_limits([across]), axis), Axis(*y_limits([up]), "reward")
    varied = len(up) > 2 and across.std() > 0 and up.std() > 0
    r = figure(float(np.corrcoef(across, up)[0, 1])) if varied else ""
    said = f"{len(up):,} responses, " + (f"correlation {r}." if varied else "no correlation.")
    name = "step_reward_kl" if field == "kl_k1" else "step_reward_length"
    if len(up) > MOST_DOTS:
        cells = _cells(across, up, x, y)
        spec = _titled(designs.heat, "cells", x, y, {})
        vega = designs.heat.stencil.filled(spec, cells)
        spec["data"] = {"values": cells}
        return (
            Chart(name, title, said, spec, "", interactive=False),
            drawing(name, said, spec, vega),
        )
    spec = _titled(designs.scatter, "point", x, y, {})
    # Hundreds of dots would take half of the time that a page's charts take.
    one_dot = [{"x": float(across[0]), "y": float(up[0])}]
    vega = designs.scatter.stencil.filled(spec, one_dot)
    drawable = drawing(name, said, spec, vega, _places(across, up, x, y, spec))
    for layer in spec["layer"]:
        layer["encoding"]["x"]["field"], layer["encoding"]["y"]["field"] = field, "reward"
        layer["encoding"].setdefault("tooltip", []).extend(
            {"field": f, "type": "quantitative", "title": text, "format": VALUE_FORMAT}
            for f, text in ((field, axis), ("reward", "reward"))
        )
    return Chart(name, title, said, spec, "", responses=True), drawable


def _titled(design: Design, layer: str, x: Axis, y: Axis, own: dict[str, Sequence[Any]]) -> Spec:
    """The page's specification with its axes, and the data of its own layers."""
    spec = copied(design.spec)
    for each in spec["layer"]:
        if each["name"] in own:
            each["data"] = {"values": list(own[each["name"]])}
    spec["layer"] = [each for each in spec["layer"] if own.get(each["name"], True)]
    channels = encoding(spec, layer)
    for channel, axis in (("x", x), ("y", y)):
        channels[channel]["scale"]["domain"] = [axis.low, axis.high]
        channels[channel]["title"] = axis.title
        channels[channel]["axis"].update(axis.format)
    return spec


def _rows(columns: dict[str, Floats], **fields: str) -> Rows:
    """Rows ``{n, …}``: field of the row → its column."""
    names = ("n", *fields)
    values = zip(*(columns[fields.get(name, name)].tolist() for name in names), strict=True)
    return [
        {k: int(v) if k == "n" else finite_or_none(v) for k, v in zip(names, row, strict=True)}
        for row in values
    ]


def _places(across: Floats, up: Floats, x: Axis, y: Axis, spec: Spec) -> list[Place]:
    """Where Vega would draw dots in the plot: by d3's linear scale, to the last bit."""
    width, height = spec["width"], spec["height"]
    return [
        (
            width * ((six_digits(a) - x.low) / (x.high - x.low)),
            height * (1 - (six_digits(b) - y.low) / (y.high - y.low)),
        )
        for a, b in zip(across.tolist(), up.tolist(), strict=True)
    ]


def _cells(across: Floats, up: Floats, x: Axis, y: Axis) -> Rows:
    extent = [(x.low, x.high), (y.low, y.high)]
    counts, x_edges, y_edges = np.histogram2d(across, up, bins=_CELLS, range=extent)
    return [
        {
            "x": float(x_edges[i]),
            "x2": float(x_edges[i + 1]),
            "y": float(y_edges[j]),
            "y2": float(y_edges[j + 1]),
            "share": float(counts[i, j] / counts.max()),
        }
        for i, j in np.argwhere(counts > 0).tolist()
    ]


def _counted(
    values: Floats, step: float, low: float, high: float
) -> list[tuple[float, float, int]]:
    """Start, end and number of the finite values of each bin that holds any."""
    return counts(values[np.isfinite(values)], step, low, high)


def _key(named: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Names of what is drawn, in its colours, above the plot's right end."""
    right = WIDTH["step"] - PADDING["left"] - STEP_RIGHT
    keys = []
    for text, colour in reversed(named):
        keys.append({"px": right, "label": text, "colour": LIGHT[colour]})
        right -= 6 * len(text) + 12
    return keys


def _thinned(columns: dict[str, Floats], by: str) -> dict[str, Floats]:
    """MOST_BARS responses evenly over the order by ``by``, each standing for its share."""
    order = np.argsort(columns[by], kind="stable")
    places = np.linspace(0, len(order) - 1, MOST_BARS).round().astype(int)
    kept = {name: values[order[places]] for name, values in columns.items()}
    kept["weight"] = np.full(MOST_BARS, len(order) / MOST_BARS)
    return kept
