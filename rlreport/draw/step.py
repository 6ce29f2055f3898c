"""The charts of one step: distribution, gap to the reference, and what the reward goes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rlreport.choose.detail import evenly
from rlreport.columns import RESPONSE
from rlreport.draw.chart import Chart
from rlreport.draw.extent import Axis, bins, correlation, counts, drawable, limits, mean
from rlreport.draw.fill import Rows, fill
from rlreport.draw.labels import figure, finite_or_none
from rlreport.draw.layout import PADDING, VALUE_FORMAT, WIDTH
from rlreport.draw.theme import LIGHT
from rlreport.figures.ragged import Floats
from rlreport.tables import length_column
from rlreport.text.messages import message, plural, sentences

RIGHT = 12
"""Pixels right of a step chart's plot."""

MOST_DOTS = 600
"""Above this many responses a scatter is drawn as a heat map of counts."""

MOST_BARS = 200
_CELLS = (36, 20)
_FIELDS = ("n", "reward", "ref_reward", "reward_gap", "kl_k1", "response_tokens", "response_chars")


def step_charts(
    rows: pd.DataFrame,
    first_rows: pd.DataFrame,
    *,
    step: int,
) -> list[Chart]:
    """A step's charts, of all its responses.

    Args:
        rows: response table of the step.
        first_rows: that of the first step, drawn as a ghost behind, unless it is the same.
        step: the step.

    Returns:
        Charts the log can feed, still to be drawn. They show all responses; their specification
        takes the dataset ``rows`` from the page, which filters it.
    """
    columns = {name: rows[name].to_numpy(np.float64) for name in _FIELDS}
    ghost = np.array([])
    if first_rows["step"].iloc[0] != step:
        ghost = first_rows["reward"].to_numpy(np.float64)
    charts = (
        _histogram(columns["reward"], columns["ref_reward"], ghost),
        _gap(columns),
        _plane(columns, "kl_k1", message("Reward against KL")),
        _plane(columns, length_column(rows), message("Reward against length")),
    )
    return [chart for chart in charts if chart is not None]


def _histogram(reward: Floats, reference: Floats, ghost: Floats) -> Chart | None:
    told = [values[np.isfinite(values)] for values in (reward, reference, ghost)]
    if not told[0].size:
        return None
    shown = [drawable(values) for values in told]
    edges = bins(np.concatenate(shown))
    held = [counts(values, *edges) for values in shown]
    top = 1.08 * max(
        n / len(values) for each, values in zip(held, told, strict=True) for *_, n in each
    )
    keys = [
        key
        for key, values in zip(
            (
                (message("policy"), "policy"),
                (message("reference"), "reference"),
                (message("first step"), "muted"),
            ),
            told,
            strict=True,
        )
        if values.size
    ]
    plot = fill(
        "histogram",
        # A row a bin, standing for its responses: Vega need not sort hundreds into them.
        [
            {key: (low + high) / 2, "weight": n}
            for key, each in (("reward", held[0]), ("ref_reward", held[1]))
            for low, high, n in each
        ],
        {
            "x": Axis(*edges[1:], message("reward")),
            "y": Axis(0.0, top, message("share of responses"), percent=True),
        },
        size="step",
        right=RIGHT,
        own={
            "ghost": [{"low": a, "high": b, "share": n / len(told[2])} for a, b, n in held[2]],
            "key": _key(keys),
        },
        bins=edges,
        fed=True,
    )
    said = [
        message(
            "Policy: mean {mean}, from {low} to {high}.",
            mean=figure(mean(told[0])),
            low=figure(float(told[0].min())),
            high=figure(float(told[0].max())),
        )
    ]
    if told[1].size:
        said.append(message("Reference: mean {mean}.", mean=figure(mean(told[1]))))
    if told[2].size:
        said.append(message("First step: mean {mean}.", mean=figure(mean(told[2]))))
    title = message("Reward of the responses")
    return Chart("step_reward", title, sentences(said), plot.spec, plot.vega)


def _gap(columns: dict[str, Floats]) -> Chart | None:
    gap = columns["reward_gap"]
    known = np.isfinite(gap)
    if not known.any():
        return None
    count = int(known.sum())
    shown = {name: values[known] for name, values in columns.items()}
    if count > MOST_BARS:
        shown = _thinned(shown, "reward_gap")
    better, worse = int((gap[known] > 0).sum()), int((gap[known] < 0).sum())
    said = plural(
        "{better:count} of {count} response beats the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        "{better:count} of {count} responses beat the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        count,
        better=better,
        worse=worse,
        gap=figure(mean(gap)),
    )
    plot = fill(
        "ordered_bars",
        _rows(shown, **{n: n for n in ("reward_gap", "reward", "weight") if n in shown}),
        {
            "x": Axis(0.0, float(count), message("responses, smallest gap first"), format=",d"),
            "y": Axis(*limits([np.append(gap[known], 0.0)]), message("reward − reference reward")),
        },
        size="step",
        right=RIGHT,
        own={"zero": [{"zero": 0}]},
        fed=True,
    )
    # The page draws the shown responses, which may be fewer than were logged.
    del plot.encoding("bars")["x"]["scale"]["domain"]
    title = message("Gap to the reference")
    return Chart("step_gap", title, said, plot.spec, plot.vega)


def _plane(columns: dict[str, Floats], field: str, title: str) -> Chart | None:
    known = np.isfinite(columns[field]) & np.isfinite(columns["reward"])
    if not known.any():
        return None
    shown = {name: drawable(values[known]) for name, values in columns.items()}
    across, up = shown[field], shown["reward"]
    x, y = Axis(*limits([across]), RESPONSE[field].title), Axis(*limits([up]), message("reward"))
    r = correlation(across, up)
    if np.isnan(r):
        said = plural(
            "{count} response, no correlation.", "{count} responses, no correlation.", len(up)
        )
    else:
        said = message("{count:count} responses, correlation {r}.", count=len(up), r=figure(r))
    name = "step_reward_kl" if field == "kl_k1" else "step_reward_length"
    axes = {"x": x, "y": y}
    if len(up) > MOST_DOTS:
        plot = fill("plane_heat", _cells(across, up, x, y), axes, size="step", right=RIGHT)
        return Chart(name, title, said, plot.spec, plot.vega, interactive=False)
    rows = _rows(shown, x=field, y="reward")
    plot = fill("scatter", rows, axes, size="step", right=RIGHT, fed=True)
    # The page's rows name their columns, and so does what a brush limits.
    for layer in plot.spec["layer"]:
        layer["encoding"]["x"]["field"], layer["encoding"]["y"]["field"] = field, "reward"
        layer["encoding"].setdefault("tooltip", []).extend(
            {"field": f, "type": "quantitative", "title": text, "format": VALUE_FORMAT}
            for f, text in ((field, RESPONSE[field].title), ("reward", message("reward")))
        )
    return Chart(name, title, said, plot.spec, plot.vega)


def _rows(columns: dict[str, Floats], **fields: str) -> list[dict[str, Any]]:
    """Rows ``{n, …}``: field of the row → its column."""
    numbers = columns["n"].astype(np.int64).tolist()
    values = [map(finite_or_none, columns[name].tolist()) for name in fields.values()]
    return [
        dict(zip(("n", *fields), row, strict=True)) for row in zip(numbers, *values, strict=True)
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


def _key(named: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Names of what is drawn, in its colours, above the plot's right end."""
    right = WIDTH["step"] - PADDING["left"] - RIGHT
    keys = []
    for text, colour in reversed(named):
        keys.append({"px": right, "label": text, "colour": LIGHT[colour]})
        right -= 6 * len(text) + 12
    return keys


def _thinned(columns: dict[str, Floats], by: str) -> dict[str, Floats]:
    """MOST_BARS responses evenly over the order by ``by``, each standing for its share."""
    order = np.argsort(columns[by], kind="stable")
    places = order[evenly(len(order), MOST_BARS)]
    kept = {name: values[places] for name, values in columns.items()}
    kept["weight"] = np.full(MOST_BARS, len(order) / MOST_BARS)
    return kept
