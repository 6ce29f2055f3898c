"""Charts of one step: rewards, reward minus the reference's, reward against KL and length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rlreport.choose.detail import evenly
from rlreport.columns import RESPONSE
from rlreport.draw.axes import (
    Axis,
    bins,
    correlation,
    counts,
    drawable,
    figure,
    limits,
    mean,
    records,
)
from rlreport.draw.chart import PAGE_ROWS, Chart, Rows, fill, layer_named
from rlreport.draw.curves import floats
from rlreport.draw.theme import LIGHT, PADDING, VALUE_FORMAT, WIDTH
from rlreport.figures.ragged import Floats
from rlreport.tables import length_column
from rlreport.text.messages import message, plural, sentences

RIGHT = 12  # Padding right of the plot of a step chart, in pixels
MOST_DOTS = 600  # Above this many responses a scatter plot is drawn as a heat map of counts
MOST_BARS = 200  # maximum number of bars in the chart of reward gaps
_CELLS = (36, 20)  # columns and rows of a heat map


def step_charts(rows: pd.DataFrame, first_rows: pd.DataFrame, *, step: int) -> list[Chart]:
    """Return the charts of one step that have data, not yet rendered as SVG.

    The static drawings show all responses. Interactive charts use the page's dataset ``rows``,
    which the page's script filters.

    Args:
        rows: response table of the step.
        first_rows: response table of the first step, drawn in the background unless it is ``step``.
        step: number of the step.
    """
    ghost = first_rows[first_rows["step"] != step]
    length = length_column(rows)
    charts = (
        _histogram(floats(rows, "reward"), floats(rows, "ref_reward"), floats(ghost, "reward")),
        _gap(rows),
        _plane(rows, "kl_k1", "step_reward_kl", message("Reward against KL")),
        _plane(rows, length, "step_reward_length", message("Reward against length")),
    )
    return [chart for chart in charts if chart is not None]


def _histogram(reward: Floats, reference: Floats, first_step: Floats) -> Chart | None:
    policy, reference, ghost = (x[np.isfinite(x)] for x in (reward, reference, first_step))
    if not policy.size:
        return None
    arrays = [drawable(values) for values in (policy, reference, ghost)]
    edges = bins(np.concatenate(arrays))
    histograms = [counts(values, *edges) for values in arrays]
    shares = [
        n / len(values) for bars, values in zip(histograms, arrays, strict=True) for *_, n in bars
    ]
    legend = [(message("policy"), LIGHT["policy"])]
    words = [
        message(
            "Policy: mean {mean}, from {low} to {high}.",
            mean=figure(mean(policy)),
            low=figure(float(policy.min())),
            high=figure(float(policy.max())),
        )
    ]
    if reference.size:
        legend.append((message("reference"), LIGHT["reference"]))
        words.append(message("Reference: mean {mean}.", mean=figure(mean(reference))))
    if ghost.size:
        legend.append((message("first step"), LIGHT["muted"]))
        words.append(message("First step: mean {mean}.", mean=figure(mean(ghost))))
    spec, vega = fill(
        "histogram",
        {
            # One row per bin, weighted by its count, so that Vega need not bin every response.
            "rows": [
                {field: (low + high) / 2, "weight": n}
                for field, bars in zip(("reward", "ref_reward"), histograms, strict=False)
                for low, high, n in bars
            ],
            "ghost": [{"low": a, "high": b, "share": n / len(ghost)} for a, b, n in histograms[2]],
            "key": _key(legend),
        },
        (
            Axis(*edges[1:], message("reward")),
            Axis(0.0, 1.08 * max(shares), message("share of responses"), percent=True, count=4),
        ),
        dict(zip(("$bins.step", "$bins.low", "$bins.high"), edges, strict=True)),
        size="step",
        right=RIGHT,
    )
    title = message("Reward of the responses")
    return Chart("step_reward", title, sentences(words), spec | {"data": PAGE_ROWS}, vega)


def _gap(rows: pd.DataFrame) -> Chart | None:
    table = rows[np.isfinite(rows["reward_gap"])]
    if table.empty:
        return None
    gap, count = floats(table, "reward_gap"), len(table)
    words = plural(
        "{better:count} of {count} response beats the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        "{better:count} of {count} responses beat the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        count,
        better=int((gap > 0).sum()),
        worse=int((gap < 0).sum()),
        gap=figure(mean(gap)),
    )
    columns: dict[str, Any] = {}
    if count > MOST_BARS:  # bars at evenly spaced ranks, for equally many responses
        table = table.sort_values("reward_gap", kind="stable").iloc[evenly(count, MOST_BARS)]
        columns = {"weight": [count / MOST_BARS] * MOST_BARS}
    spec, vega = fill(
        "ordered_bars",
        {
            "rows": _rows(table, {"reward_gap": "reward_gap", "reward": "reward"}, columns),
            "zero": [{"zero": 0}],
        },
        (
            Axis(0.0, float(count), message("responses, smallest gap first"), format=",d"),
            Axis(*limits([np.append(gap, 0.0)]), message("reward − reference reward")),
        ),
        size="step",
        right=RIGHT,
    )
    # Let the axis fit the page's rows, which may be fewer than all logged responses.
    del layer_named(spec, "bars")["encoding"]["x"]["scale"]["domain"]
    title = message("Gap to the reference")
    return Chart("step_gap", title, words, spec | {"data": PAGE_ROWS}, vega)


def _plane(rows: pd.DataFrame, field: str, name: str, title: str) -> Chart | None:
    table = rows[np.isfinite(rows[field]) & np.isfinite(rows["reward"])]
    if table.empty:
        return None
    across, up = drawable(floats(table, field)), drawable(floats(table, "reward"))
    titles = {field: RESPONSE[field].title, "reward": message("reward")}
    x, y = Axis(*limits([across]), titles[field]), Axis(*limits([up]), titles["reward"])
    r = correlation(across, up)
    words = (
        plural("{count} response, no correlation.", "{count} responses, no correlation.", len(up))
        if np.isnan(r)
        else message("{count:count} responses, correlation {r}.", count=len(up), r=figure(r))
    )
    if len(up) > MOST_DOTS:
        forms = fill(
            "plane_heat", {"rows": _cells(across, up, x, y)}, (x, y), size="step", right=RIGHT
        )
        return Chart(name, title, words, *forms, interactive=False)
    dots = _rows(table, {"x": field, "y": "reward"}, {})
    spec, vega = fill("scatter", {"rows": dots}, (x, y), size="step", right=RIGHT)
    # Name the fields like the columns of the page's dataset, which the brush filters.
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        encoding["x"]["field"], encoding["y"]["field"] = field, "reward"
        encoding.setdefault("tooltip", []).extend(
            {"field": key, "type": "quantitative", "title": text, "format": VALUE_FORMAT}
            for key, text in titles.items()
        )
    return Chart(name, title, words, spec | {"data": PAGE_ROWS}, vega)


def _rows(table: pd.DataFrame, fields: dict[str, str], more: dict[str, Any]) -> Rows:
    """Return a row per response: ``n``, ``fields`` (field → table column) and columns ``more``."""
    values = {field: drawable(floats(table, column)) for field, column in fields.items()}
    return records({"n": table["n"].tolist(), **values, **more})


def _cells(across: Floats, up: Floats, x: Axis, y: Axis) -> Rows:
    extent = [(x.low, x.high), (y.low, y.high)]
    cell_counts, x_edges, y_edges = np.histogram2d(across, up, bins=_CELLS, range=extent)
    i, j = np.nonzero(cell_counts)
    cells = {
        "x": x_edges[i],
        "x2": x_edges[i + 1],
        "y": y_edges[j],
        "y2": y_edges[j + 1],
        "share": cell_counts[i, j] / cell_counts.max(),
    }
    return [dict(zip(cells, row, strict=True)) for row in np.transpose([*cells.values()]).tolist()]


def _key(names: list[tuple[str, str]]) -> Rows:
    """Return the entries of a colour legend, placed right-aligned above the plot."""
    right = WIDTH["step"] - PADDING["left"] - RIGHT
    keys = []
    for text, colour in reversed(names):
        keys.append({"px": right, "label": text, "colour": colour})
        right -= 6 * len(text) + 12
    return keys
