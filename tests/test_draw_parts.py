"""The parts of the reward: their curves, and their shares of its variance."""

import numpy as np
import pandas as pd
import pytest

from rlreport.draw.chart import Chart
from rlreport.draw.run_charts import MOST_PARTS, variance_shares
from rlreport.tables import Tables
from tests.tables_builder import charts_of_run, table_of_rows, tables_of

STEPS, SIZE = 4, 50


def made(**parts: np.ndarray) -> Tables:
    """A run whose reward is the sum of the parts that judged a response."""
    reward = np.nansum(list(parts.values()), axis=0)
    rows = [{"step": i // SIZE, "reward": value} for i, value in enumerate(reward)]
    return tables_of(table_of_rows(rows), extras=parts)


def noise(seed: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, scale, STEPS * SIZE)


def drawn(chart: Chart) -> pd.DataFrame:
    """Values by step, a column a curve."""
    return pd.DataFrame(chart.spec["data"]["values"]).pivot(
        index="step", columns="series", values="value"
    )


def test_shares_of_the_variance_are_those_of_numpy_and_add_up_to_1():
    tables = made(right=noise(1, 2.0), style=noise(2))
    shares = variance_shares(tables, ["right", "style"])
    for step in range(STEPS):
        rows = slice(step * SIZE, (step + 1) * SIZE)
        reward = tables.responses["reward"][rows]
        for name in ("right", "style"):
            covariance = np.cov(tables.extras[name][rows], reward, ddof=0)[0, 1]
            assert shares.loc[step, name] == pytest.approx(covariance / np.var(reward))
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * STEPS)
    found = drawn(charts_of_run(tables)["reward_part_shares"])
    np.testing.assert_allclose(found["part_right"], shares["right"], rtol=1e-5)
    np.testing.assert_allclose(found["part_style"], shares["style"], rtol=1e-5)


def test_shares_add_up_to_1_where_a_part_or_the_reward_is_missing():
    half = np.where(np.arange(STEPS * SIZE) % 2, np.nan, noise(3))
    shares = variance_shares(made(all=noise(4), half=half), ["all", "half"])
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * STEPS)
    assert (shares["half"] > 0).all()
    tables = made(a=noise(5), b=noise(6))
    tables.responses.loc[::7, "reward"] = np.nan
    shares = variance_shares(tables, ["a", "b"])
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * STEPS)


def test_one_part_and_a_reward_that_does_not_vary_have_a_curve_and_no_shares():
    still = np.zeros(STEPS * SIZE)
    assert variance_shares(made(a=still, b=still), ["a", "b"]).isna().all(axis=None)
    for parts in ({"a": still, "b": still}, {"only": noise(7)}):
        found = charts_of_run(made(**parts))
        assert "reward_parts" in found
        assert "reward_part_shares" not in found


def test_of_many_parts_those_that_range_widest_are_drawn_in_their_order():
    rise = np.repeat(np.arange(STEPS), SIZE)
    parts = {f"p{i}": (i + 1) * rise + noise(i, 0.01) for i in range(MOST_PARTS + 2)}
    found = charts_of_run(made(**parts))
    for name in ("reward_parts", "reward_part_shares"):
        assert sorted(map(str, drawn(found[name]))) == [
            f"part_p{i}" for i in range(2, MOST_PARTS + 2)
        ]
    assert "2 more are not drawn." in found["reward_parts"].description
