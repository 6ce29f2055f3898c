"""Moving averages over the steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rlreport.draw.curves import SMOOTHING, Series, smoothed
from rlreport.draw.overview import overview_charts
from rlreport.draw.svg import drawn
from tests.draw_tables import response_table, tables_of


@pytest.mark.parametrize("factor", SMOOTHING)
def test_averages_are_those_of_pandas_and_pass_over_what_is_missing(factor: float) -> None:
    values = np.random.default_rng(0).normal(size=50)
    values[[0, 7, 8, 49]] = np.nan
    expected = pd.Series(values).dropna().ewm(alpha=1 - factor, adjust=True).mean()
    found = smoothed(values, factor)
    np.testing.assert_allclose(found[np.isfinite(values)], expected)
    assert np.isnan(found[[0, 7, 8, 49]]).all()


def test_charts_carry_them_from_ten_steps_on() -> None:
    def rows(steps: int) -> list[dict]:
        table = response_table([{"step": s, "reward": float(s % 3)} for s in range(steps)])
        return overview_charts(tables_of(table))[0].spec["data"]["values"]

    reward = np.array([s % 3 for s in range(12)], dtype=float)
    for factor in SMOOTHING:
        found = [row[f"ema_{factor * 10:.0f}"] for row in rows(12)]
        np.testing.assert_allclose(found, smoothed(reward, factor), rtol=1e-3)
    assert not any("ema" in key for row in rows(9) for key in row)


STEPS = np.arange(40.0)


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
        (1e308 * (-1) ** STEPS, True),
        (np.full(40, np.nan), False),
    ],
)
def test_only_noisy_curves_are_smoothed(values: np.ndarray, noisy: bool) -> None:
    assert Series("a", "a", values).noisy is noisy


def test_a_noisy_curve_is_drawn_smoothed_with_the_logged_values_behind() -> None:
    def lines(reward: np.ndarray) -> int:
        table = [{"step": s, "reward": r} for s, r in enumerate(reward.tolist())]
        chart = drawn(overview_charts(tables_of(response_table(table)))[:1])[0]
        assert chart.smoothed == chart.description.count("smoothed")
        return chart.svg.count('stroke-opacity="0.4"')

    assert lines(STEPS) == 0
    assert lines(STEPS % 3) > 0
