"""Which curves share a chart, which of them leads, and which chart stands above all others."""

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.draw.catalogue import arranged
from rlreport.draw.chart import Chart, on_one_scale
from rlreport.draw.svg import drawn
from rlreport.draw.theme import BOLD, LINE, THIN
from tests.tables_builder import charts_of_run, line_of, table_of_rows, tables_of

STEPS = np.arange(40)
REWARD = np.linspace(0.0, 1.0, 40)


def charts(
    metrics: dict[str, np.ndarray], findings: tuple[ToldFinding, ...] = ()
) -> dict[str, Chart]:
    """The overview's charts of a run with REWARD and these metrics, NaN where not logged."""
    rows = []
    for step, mean in zip(STEPS, REWARD, strict=True):
        rows.append({"step": step, "reward": mean - 0.01})
        rows.append({"step": step, "reward": mean + 0.01})
    tables = tables_of(
        table_of_rows([{"response_tokens": 9.0 + r["step"], **r} for r in rows])
    )
    tables.metrics = pd.DataFrame({"step": STEPS, **metrics})
    return charts_of_run(tables, findings)


def widths(chart: Chart) -> dict[str, float]:
    scale = line_of(chart.spec)["size"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def every(number: int, values: np.ndarray) -> np.ndarray:
    return np.where(STEPS % number == 0, values, np.nan)


def finding(
    *names: str, name: str = "one", rank: Rank = Rank.CONSEQUENCE
) -> ToldFinding:
    return ToldFinding(
        name, Severity.WARNING, rank, charts=names, steps=(30, 31), name=name
    )


def test_validation_in_percent_has_a_chart_of_its_own_and_in_the_rewards_unit_has_none():
    percent = every(5, 16.0 + 28.0 * REWARD)
    apart = charts({"eval_acc": percent}, (finding("reward"),))
    assert set(widths(apart["reward"])) == {"policy"}
    validation = apart["reward_validation"]
    assert (validation.title, set(widths(validation))) == ("Validation", {"validation"})
    assert (
        validation.spec["layer"][0]["name"] == "marked"
    )  # as on the chart of the reward
    assert validation.shaded == apart["reward"].shaded
    together = charts({"eval_acc": percent / 100})
    assert set(widths(together["reward"])) == {"policy", "validation"}
    assert "reward_validation" not in together


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        ([0.2, 0.22, 0.21], True),
        ([0.0, 0.0], True),  # zeros have any scale
        ([9.0, 2.0], True),
        ([-0.5, 0.3], True),
        ([16.0, 44.0], False),  # the other curve would be flat
        ([0.001, 0.002], False),  # this one would be
        ([-900.0, 1.0], False),
    ],
)
def test_curves_share_an_axis_where_neither_would_be_flat(
    other: list[float], shared: bool
):
    first = [np.array([0.0, np.nan, 1.0])]
    second = [np.array(other), np.array([np.nan])]
    assert on_one_scale(first, second) is shared
    assert on_one_scale(second, first) is shared


def test_curves_of_like_size_share_no_axis_that_would_be_mostly_empty():
    high = np.array([990.0, 1000.0])
    low = np.array([200.0, 205.0])
    assert not on_one_scale([high], [low])


@pytest.mark.parametrize(
    ("number", "leads"),
    [
        (1, True),
        (2, True),
        (3, False),
    ],
)
def test_the_trainers_metric_is_the_bold_line_if_logged_at_half_of_the_steps(
    number, leads
):
    chart = charts({"reward": every(number, 0.9 * REWARD)})["reward"]
    bold, thin = ("trainer", "policy") if leads else ("policy", "trainer")
    assert widths(chart) == {bold: BOLD, thin: THIN}
    # In the key, as the lines end too close to each other for names in the plot.
    assert {entry.title for entry in chart.key} == {"trainer", "rollouts"}
    banded = {
        row["series"]
        for row in chart.spec["data"]["values"]
        if row.get("low") is not None
    }
    assert banded == (
        set() if leads else {"policy"}
    )  # a band is around the leading line only
    svg = drawn([chart])[0].svg
    assert f'stroke-width="{BOLD}"' in svg
    lone = charts({})["reward"]
    assert widths(lone) == {"policy": LINE}


def test_the_trainers_length_is_beside_that_of_the_rollouts_or_in_another_unit_apart():
    together = charts({"response_length": 20.0 + STEPS})
    assert widths(together["length"]) == {"trainer": BOLD, "policy": THIN}
    apart = charts({"response_length": 4000.0 + STEPS})
    assert set(widths(apart["length"])) == {"trainer"}
    assert apart["length_policy"].title == "Response length: rollouts"


def test_metrics_of_steps_without_rollouts_are_drawn_beside_the_rollouts():
    rows = [{"step": s, "reward": s} for s in range(6)]
    tables = tables_of(table_of_rows(rows))
    tables.metrics = pd.DataFrame({"step": range(100, 120), "reward": 0.5})
    chart = charts_of_run(tables)["reward"]
    assert widths(chart) == {"trainer": BOLD, "policy": THIN}
    steps: dict[str, list[int]] = {"trainer": [], "policy": []}
    for row in chart.spec["data"]["values"]:
        if row["value"] is not None and row["series"] in steps:
            steps[row["series"]].append(row["step"])
    assert steps["trainer"] == list(range(100, 120))
    assert steps["policy"] == list(range(6))


@pytest.mark.parametrize(
    ("lead", "first"),
    [
        (finding("reward", "gradient_norm", rank=Rank.CAUSE), "metric_grad_norm"),
        (finding("kl", "reward_kl_frontier"), "metric_objective_kl"),
        (finding("length"), "length"),
        (finding("reward", "reward_distribution"), "reward"),
        (finding("reward", rank=Rank.CAUSE), "reward"),
    ],
)
def test_the_leading_findings_own_chart_is_above_the_rewards(
    lead: ToldFinding, first: str
):
    metrics = {"grad_norm": 1.0 + STEPS**2, "objective/kl": 0.5 * STEPS}
    others = finding("length", name="other", rank=Rank.CAUSE)
    drawn = list(charts(metrics, (lead,)).values())
    found = arranged(drawn, [others, lead], "one")
    places = {chart.place: chart.name for chart in found}
    assert places["lead"] == first
    assert places.get("reward") == (None if first == "reward" else "reward")
    assert [chart.wide for chart in found if chart.name == first] == [True]
    assert found[0].name in (first, "reward")


def test_few_evaluations_are_drawn_as_logged_not_smoothed():
    jagged = every(4, 0.4 + 0.1 * (-1) ** (STEPS // 4))
    chart = charts({"eval_acc": jagged})["reward"]
    assert "validation" in widths(chart)
    assert not chart.smoothing


def test_powers_of_ten_fit_left_of_the_axis():
    norms = np.where(STEPS == 30, 5e7, 0.5)
    chart = charts({"grad_norm": norms})["metric_grad_norm"]
    assert line_of(chart.spec)["y"]["axis"]["format"] == "~e"
