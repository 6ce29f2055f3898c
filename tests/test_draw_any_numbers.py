"""Any numbers draw: huge, tiny, tied, missing, alone; and say nothing on the terminal."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlreport import api
from rlreport.draw.chart import correlation, limits, mean
from rlreport.draw.curves import sparkline
from rlreport.draw.overview import overview_charts
from rlreport.draw.run_charts import prompt_charts, token_charts
from tests.draw_tables import charts_of_step, response_table, tables_of
from tests.reading import tokens, write
from tests.running import SEARCH
from tests.test_draw_hostile import check

LARGEST = float(np.finfo(np.float64).max)
FIGURES = ("reward", "ref_reward", "kl_k1", "response_tokens", "value_mean")
ODD = (0.3, 0.30000000000000004, 1e308, -1e308, LARGEST, -LARGEST, 5e-324, 0.0, 1.0, np.nan)

numbers = st.one_of(st.floats(), st.sampled_from((*ODD, np.inf, -np.inf)), st.floats(-9, 9))
runs = st.lists(st.lists(st.tuples(*[numbers] * len(FIGURES)), min_size=1, max_size=5), max_size=3)


def every_chart(run: list[list[tuple[float, ...]]]) -> None:
    """Draws every chart that such figures can feed, warnings being errors."""
    table = response_table(
        [
            {"step": step, "response_chars": 9} | dict(zip(FIGURES, row, strict=True))
            for step, rows in enumerate(run)
            for row in rows
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, on the way to tables for the test
        table["reward_gap"] = table["reward"] - table["ref_reward"]
        figures = table["reward"].to_numpy()
        tables = tables_of(
            table,
            extras={"right": figures, "style": table["kl_k1"].to_numpy()},
            metrics=pd.DataFrame({"step": range(len(table)), "kl": figures}),
        )
        tables.prompts = pd.DataFrame({"reward_gain": figures, "steps": 2})
        tables.positions = pd.DataFrame({"decile": range(len(table)), "abs_error_mean": figures})
        tables.steps["group_best_mean"] = tables.steps["reward_mean"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(overview_charts(tables))
        check(prompt_charts(tables))
        shares = table.assign(ngram="a", share=np.clip(figures, 0.0, 1.0))
        check(token_charts(shares))
        first = table[table["step"] == 0]
        for step in range(len(run)):
            check(charts_of_step(table[table["step"] == step], first, step=step))
        sparkline(figures)


@pytest.mark.untraced
@settings(max_examples=5 * SEARCH)
@given(runs.filter(bool))
@example([[(value,) * len(FIGURES)] for value in ODD])
@example([[(0.3,) * 5, (0.30000000000000004,) * 5]])
@example([[(1e308,) * 5, (-1e308,) * 5]])
@example([[(LARGEST, -LARGEST, 5e-324, 1.0, 0.0)] * 3 + [(-LARGEST, LARGEST, 0.0, 2.0, 1.0)]])
@example([[(5e-324,) * 5, (1e-323,) * 5], [(2e-323,) * 5]])
@example([[(v * 1e308, -v, v, v, v)] for v in np.linspace(-1.0, 1.0, 20).tolist()])
@example([[(v, -v, v, v, v) for v in np.linspace(0.0, 1e-310, 700).tolist()]])
def test_any_figures_draw_without_a_warning(run: list[list[tuple[float, ...]]]) -> None:
    every_chart(run)


@given(st.lists(numbers, min_size=1))
def test_an_axis_is_finite_and_holds_what_is_drawn(values: list[float]) -> None:
    low, high = limits([np.array(values)])
    assert np.isfinite([low, high, high - low]).all()
    assert low < high
    for value in values:
        if abs(value) <= 1e300:
            assert low <= value <= high or abs(value) < 1e-290


@given(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=30), st.integers(0, 9))
def test_means_and_correlations_are_those_of_numpy(values: list[float], seed: int) -> None:
    one = np.array(values)
    other = one + np.random.default_rng(seed).normal(size=len(one))
    assert mean(one) == pytest.approx(one.mean(), rel=1e-9, abs=1e-9 * np.abs(one).max())
    r = correlation(one, other)
    if not np.isnan(r) and np.ptp(one) > 1e-3:
        assert r == pytest.approx(np.corrcoef(one, other)[0, 1], abs=1e-6)


def test_figures_of_any_size_have_a_mean_and_a_correlation() -> None:
    assert mean(np.array([LARGEST, LARGEST, LARGEST])) == pytest.approx(LARGEST)
    assert mean(np.array([1e308, -1e308, 1e308])) == pytest.approx(1e308 / 3)
    assert mean(np.array([np.nan, np.inf, 2.0])) == 2.0
    assert np.isnan(mean(np.array([np.nan])))
    huge = np.array([1e300, 2e300, 4e300])
    assert correlation(huge, -huge) == pytest.approx(-1.0)
    assert np.isnan(correlation(np.array([0.3, 0.3, 0.30000000000000004]), huge))


@pytest.mark.parametrize(
    "rewards",
    [
        (0.3, 0.30000000000000004),
        (1e308, -1e308),
        (LARGEST, LARGEST, LARGEST, -LARGEST),
        (5e-324, 1e-323, 0.0),
        (np.nan, np.nan),
        (1.0, np.nan, 1e308, -5e-324, np.inf),
    ],
    ids=str,
)
def test_rewards_of_any_size_build_without_a_warning(
    tmp_path: Path, rewards: tuple[float, ...]
) -> None:
    rows = [
        tokens("a", "b", step=step, reward=reward, ref_reward=-reward, token_rewards=[0.0, reward])
        | {"values": [reward, -reward], "reward_parts": {"a": reward, "b": 1.0}, "own": reward}
        for step in range(2)
        for reward in rewards
    ]
    logs = write(tmp_path / "log.jsonl", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        api.build(logs, tmp_path / "report", workers=1)
    assert (tmp_path / "report" / "index.html").exists()
