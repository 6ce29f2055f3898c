"""Curves: averages of many steps with their range, and moving averages over the steps."""

import re

import numpy as np
import pandas as pd
import pytest

from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.curves import MOST_POINTS, ChartStyle, DrawnCurve, curve_chart
from rlreport.draw.frame import Frame
from rlreport.draw.smoothing import SMOOTHING
from rlreport.draw.sparkline import SPARKLINE_POINTS, sparkline
from rlreport.draw.svg import drawn
from tests.tables_builder import (
    charts_of_run,
    line_of,
    response_table,
    table_of_rows,
    tables_of,
)

STEPS = np.arange(40.0)


def metric_chart(values: np.ndarray) -> Chart:
    """Return the chart of a trainer metric beside a reward at the same steps."""
    rows = [{"step": step, "reward": 0.5} for step in range(len(values))]
    metrics = pd.DataFrame({"step": np.arange(len(values)), "spiky": values})
    tables = tables_of(table_of_rows(rows))
    tables.metrics = metrics
    return charts_of_run(tables)["metric_spiky"]


def first_chart(reward: np.ndarray) -> Chart:
    """Return the first chart of a run with this reward at its steps."""
    responses = response_table({"step": np.arange(len(reward)), "reward": reward})
    return overview_charts(tables_of(responses))[0]


def axis_of(chart: Chart) -> tuple[str, tuple[float, float]]:
    y = line_of(chart.spec)["y"]
    return y["title"], tuple(y["scale"]["domain"])


def spiky(count: int) -> np.ndarray:
    """Values of which the mean of neighbours hides one spike up and one down."""
    values = np.linspace(1.0, 2.0, count)
    values[count // 3] = 48.0
    values[count // 2] = -7.0
    return values


def test_averaged_points_have_the_range_of_their_steps():
    values = spiky(1_000)
    chart = metric_chart(values)
    rows = chart.spec["data"]["values"]
    assert len(rows) == 250
    fours = values.reshape(-1, 4)
    assert rows[0]["value"] == pytest.approx(fours[0].mean(), rel=1e-4)
    lowest = [row["min"] for row in rows]
    highest = [row["max"] for row in rows]
    assert lowest == pytest.approx(fours.min(axis=1), rel=1e-4)
    assert highest == pytest.approx(fours.max(axis=1), rel=1e-4)
    title, (low, high) = axis_of(chart)
    assert title == "mean and range of 4 steps"
    assert low < -7.0
    assert high > 48.0
    assert "Each point is the mean of up to 4 steps." in chart.description
    assert "range" in [layer["name"] for layer in chart.spec["layer"]]


def test_a_chart_that_draws_every_step_shows_them_as_logged_and_a_logarithmic_axis_the_range():
    chart = metric_chart(spiky(MOST_POINTS))
    rows = chart.spec["data"]["values"]
    assert len(rows) == MOST_POINTS
    assert not any("min" in row or "max" in row for row in rows)
    assert axis_of(chart)[0] == "as logged"
    assert "range" not in [layer["name"] for layer in chart.spec["layer"]]
    values = np.full(1_000, 0.01)
    values[500] = 90.0
    values[700] = 1e-5
    title, (low, high) = axis_of(metric_chart(values))
    assert title == "mean and range of 4 steps, logarithmic"
    assert 0 < low < 1e-5
    assert high > 90.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_noise_far_from_zero_looks_flat(sign):
    values = sign * (100 + 0.001 * (np.arange(40) % 2))
    _, (low, high) = axis_of(metric_chart(values))
    assert high - low >= 0.02 * 100
    assert low < values.min() and values.max() < high
    rising = sign * (100 + np.arange(40))
    _, (low, high) = axis_of(metric_chart(rising))
    assert high - low == pytest.approx(1.12 * 39), "a margin only where the curve moves"


def test_missing_values_leave_gaps_in_the_range_and_a_point_between_gaps_has_one():
    values = spiky(1_000)
    values[400:480] = np.nan
    values[440:442] = 3.0, 30.0
    rows = metric_chart(values).spec["data"]["values"]
    for i in (100, 109, 111, 119):
        assert rows[i]["max"] is None
    between_gaps = rows[110]
    assert between_gaps["min"] == 3.0
    assert between_gaps["value"] == 16.5
    assert between_gaps["max"] == 30.0
    # The drawing has a stroke around the range, as an area of one point has no width.
    svg = drawn([metric_chart(values)])[0].svg
    assert 'fill-opacity="0.3"' in svg
    assert 'stroke-opacity="0.3"' in svg


def test_a_band_of_standard_deviations_and_the_range_are_told_apart():
    steps = np.arange(1_000.0)
    values = spiky(1_000)
    series = DrawnCurve("kl", "KL", values, low=values - 0.1, high=values + 0.1)
    style = ChartStyle("nats, band ± 1 × std")
    chart = curve_chart(Frame(steps), "kl", "KL", [series], style)
    assert chart is not None
    assert axis_of(chart)[0] == "nats, band ± 1 × std; mean and range of 4 steps"
    spike = max(chart.spec["data"]["values"], key=lambda row: row["max"])
    assert (spike["max"], spike["high"] < 20) == (48.0, True)


def test_a_sparkline_has_means_in_order_and_gaps_where_all_neighbours_are_missing():
    values = spiky(1_000)
    across = [float(x) for x in re.findall(r"[ML](\S+) ", sparkline(values))]
    assert len(across) <= SPARKLINE_POINTS
    assert across == sorted(across)
    assert across[0] < 1 and across[-1] > 99
    values[np.arange(1_000) % 10 != 0] = np.nan
    assert sparkline(values).count("M") == 1
    values[400:600] = np.nan
    assert sparkline(values).count("M") == 2


def test_averages_are_those_of_pandas_pass_over_what_is_missing_and_begin_at_ten_steps():
    def rows(reward: np.ndarray) -> list[dict]:
        return first_chart(reward).spec["data"]["values"]

    is_missing = np.isin(STEPS, [0, 7, 8, 39])
    reward = np.where(is_missing, np.nan, STEPS % 3)
    for factor in SMOOTHING:
        averaged = pd.Series(reward).dropna().ewm(alpha=1 - factor, adjust=True)
        expected = averaged.mean()
        found = [row[f"ema_{factor * 10:.0f}"] for row in rows(reward)]
        known = [value for value in found if value is not None]
        np.testing.assert_allclose(known, expected, rtol=1e-3)
    for row in rows(reward[:9]):
        assert not any("ema" in key for key in row)


@pytest.mark.parametrize(
    ("values", "noisy"),
    [
        (STEPS % 3, True),
        (np.random.default_rng(0).normal(size=40), True),
        (np.random.default_rng(0).normal(size=9), False),
        (STEPS, False),
        (np.exp(STEPS / 8), False),
        (np.where(STEPS > 20, 1.0, 0.0), False),
        (np.full(40, 3.0), False),
        (1e150 * (-1) ** STEPS, True),
        (np.full(40, np.nan), False),
    ],
)
def test_only_noisy_curves_are_smoothed(values: np.ndarray, noisy: bool) -> None:
    assert DrawnCurve("a", "a", values).is_noisy is noisy


def test_a_noisy_curve_is_drawn_smoothed_with_the_logged_values_behind():
    def lines(reward: np.ndarray) -> int:
        (chart,) = drawn([first_chart(reward)])
        assert bool(chart.smoothing) == chart.description.count("smoothed")
        return chart.svg.count('stroke-opacity="0.4"')

    assert lines(STEPS) == 0
    assert lines(STEPS % 3) > 0
