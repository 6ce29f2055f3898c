"""The parts of the reward: their curves."""

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.run_charts import MOST_PARTS
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


def test_one_part_and_a_reward_that_does_not_vary_have_a_curve():
    still = np.zeros(STEPS * SIZE)
    for parts in ({"a": still, "b": still}, {"only": noise(7)}):
        assert "reward_parts" in charts_of_run(made(**parts))


def test_of_many_parts_those_that_range_widest_are_drawn_in_their_order():
    rise = np.repeat(np.arange(STEPS), SIZE)
    parts = {f"p{i}": (i + 1) * rise + noise(i, 0.01) for i in range(MOST_PARTS + 2)}
    chart = charts_of_run(made(**parts))["reward_parts"]
    assert sorted(map(str, drawn(chart))) == [f"part_p{i}" for i in range(2, MOST_PARTS + 2)]
    assert "2 more are not drawn." in chart.description
