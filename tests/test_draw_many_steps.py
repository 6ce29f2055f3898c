"""Charts and sparklines of more steps than they draw show the lowest and the highest values."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from rlreport.draw.chart import Chart
from rlreport.draw.curves import (
    MOST_POINTS,
    SPARKLINE_POINTS,
    Frame,
    Series,
    curve_chart,
    sparkline,
)
from rlreport.draw.overview import overview_charts
from rlreport.draw.svg import drawn
from tests.draw_tables import response_table, tables_of


def metric_chart(values: np.ndarray) -> Chart:
    """Return the chart of a trainer metric beside a reward at the same steps."""
    rows = [{"step": step, "reward": 0.5} for step in range(len(values))]
    metrics = pd.DataFrame({"step": np.arange(len(values)), "spiky": values})
    tables = tables_of(response_table(rows))
    tables.metrics = metrics
    return next(c for c in overview_charts(tables) if c.name == "metric_spiky")


def axis_of(chart: Chart) -> tuple[str, tuple[float, float]]:
    line = next(layer for layer in chart.spec["layer"] if layer["name"] == "line")
    y = line["encoding"]["y"]
    return y["title"], tuple(y["scale"]["domain"])


def spiky(count: int) -> np.ndarray:
    """Values of which the mean of neighbours hides one spike up and one down."""
    values = np.linspace(1.0, 2.0, count)
    values[count // 3], values[count // 2] = 48.0, -7.0
    return values


def test_averaged_points_have_the_range_of_their_steps() -> None:
    values = spiky(1_000)
    chart = metric_chart(values)
    rows = chart.spec["data"]["values"]
    assert len(rows) == 250
    assert rows[0]["value"] == pytest.approx(values[:4].mean(), rel=1e-4)
    assert [(row["min"], row["max"]) for row in rows] == [
        pytest.approx((four.min(), four.max()), rel=1e-4) for four in values.reshape(-1, 4)
    ]
    title, (low, high) = axis_of(chart)
    assert title == "mean and range of 4 steps"
    assert low < -7.0
    assert high > 48.0
    assert "Each point is the mean of up to 4 steps; their range is shaded." in chart.description
    assert "range" in [layer["name"] for layer in chart.spec["layer"]]


def test_a_chart_that_draws_every_step_shows_them_as_logged() -> None:
    chart = metric_chart(spiky(MOST_POINTS))
    rows = chart.spec["data"]["values"]
    assert len(rows) == MOST_POINTS
    assert not {"min", "max"} & {key for row in rows for key in row}
    assert axis_of(chart)[0] == "as logged"
    assert "range" not in [layer["name"] for layer in chart.spec["layer"]]


def test_a_logarithmic_axis_includes_the_range() -> None:
    values = np.full(1_000, 0.01)
    values[500], values[700] = 90.0, 1e-5
    title, (low, high) = axis_of(metric_chart(values))
    assert title == "mean and range of 4 steps, logarithmic"
    assert 0 < low < 1e-5
    assert high > 90.0


def test_missing_values_leave_gaps_in_the_range_and_a_point_between_gaps_has_one() -> None:
    values = spiky(1_000)
    values[400:480] = np.nan
    values[440:442] = 3.0, 30.0
    rows = metric_chart(values).spec["data"]["values"]
    assert [rows[i]["max"] for i in (100, 109, 111, 119)] == [None] * 4
    assert (rows[110]["min"], rows[110]["value"], rows[110]["max"]) == (3.0, 16.5, 30.0)
    # The drawing has a stroke around the range, as an area of one point has no width.
    svg = drawn([metric_chart(values)])[0].svg
    assert 'fill-opacity="0.3"' in svg
    assert 'stroke-opacity="0.3"' in svg


def test_a_band_of_standard_deviations_and_the_range_are_told_apart() -> None:
    steps, values = np.arange(1_000.0), spiky(1_000)
    series = Series("kl", "KL", values, low=values - 0.1, high=values + 0.1)
    chart = curve_chart(Frame(steps), "kl", "KL", [series], axis="nats, band ± 1 × std")
    assert chart is not None
    assert axis_of(chart)[0] == "nats, band ± 1 × std; mean and range of 4 steps"
    spike = max(chart.spec["data"]["values"], key=lambda row: row["max"])
    assert (spike["max"], spike["high"] < 20) == (48.0, True)


def heights(path: str) -> list[tuple[float, float]]:
    """Return the points (across, up) of a sparkline, with 1 for its highest value."""
    points = re.findall(r"[ML](\S+?) (\S+?)(?=[ML]|$)", path)
    return [(float(x), (22 - float(y)) / 20) for x, y in points]


def test_a_sparkline_keeps_the_lowest_and_highest_values_in_order() -> None:
    values = spiky(1_000)
    points = heights(sparkline(values))
    assert len(points) <= SPARKLINE_POINTS
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert (points[0][0], points[-1][0]) == (0.0, 100.0)
    tops = {up: x for x, up in points}
    assert tops[1.0] == pytest.approx(100 * 333 / 999, abs=0.1)
    assert tops[0.0] == pytest.approx(100 * 500 / 999, abs=0.1)


def test_a_sparkline_has_gaps_only_where_all_neighbours_are_missing() -> None:
    values = spiky(1_000)
    values[np.arange(1_000) % 10 != 0] = np.nan
    assert sparkline(values).count("M") == 1
    values[400:600] = np.nan
    assert sparkline(values).count("M") == 2
