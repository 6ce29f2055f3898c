"""Marks stand where the data say: baked charts are read back and compared with pandas."""

import re
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Onset, Rank, Severity, ToldFinding
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.run_charts import MOST_PARTS, text_charts
from rlreport.draw.svg import drawn
from tests.tables_builder import charts_of_run, table_of_rows, tables_of


def extent(chart: Chart, channel: str) -> tuple[float, float]:
    for layer in chart.spec["layer"]:
        place = layer["encoding"].get(channel)
        if isinstance(place, dict) and (place.get("scale") or {}).get("domain"):
            low, high = place["scale"]["domain"]
            return low, high
    raise AssertionError(f"no {channel} axis in {chart.name}")


def value_at(chart: Chart, channel: str, pixel: float) -> float:
    """The value that a pixel of the plot stands for."""
    low, high = extent(chart, channel)
    share = pixel / chart.spec["width" if channel == "x" else "height"]
    if channel == "y":
        share = 1 - share  # pixels count downwards
    return low + share * (high - low)


def slack(chart: Chart, channel: str) -> float:
    """What a tenth of a pixel stands for: coordinates have one decimal."""
    low, high = extent(chart, channel)
    return 0.11 * (high - low) / chart.spec["width" if channel == "x" else "height"]


@pytest.mark.parametrize(
    "first", [0, 500], ids=["from the start", "of a run that was resumed"]
)
def test_a_line_runs_through_its_values_and_its_axis_begins_at_the_first_step(first):
    values = [0.0, 3.0, 1.0, 2.0]
    table = table_of_rows(
        [{"step": first + i, "reward": v} for i, v in enumerate(values)]
    )
    chart = drawn(overview_charts(tables_of(table)))[0]
    paths = re.findall(r'd="(M[^"]*)"', chart.svg)
    path = next(path for path in paths if path.count("L") == 3)
    pairs = re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)
    line = [(float(x), float(y)) for x, y in pairs]
    across = np.linspace(0, chart.spec["width"], 4)
    assert [x for x, _ in line] == pytest.approx(across, abs=0.1)
    steps = [value_at(chart, "x", x) for x, _ in line]
    assert steps == pytest.approx(range(first, first + 4), abs=slack(chart, "x"))
    rewards = [value_at(chart, "y", y) for _, y in line]
    assert rewards == pytest.approx(values, abs=slack(chart, "y"))


def marked(*, steps: tuple[int, ...] = (), **named: Any) -> list[tuple[float, float]]:
    """Where the chart of the reward of nine steps is shaded for a finding."""
    rows = [{"step": step, "reward": float(step)} for step in range(9)]
    table = table_of_rows(rows)
    found = ToldFinding(
        "one", Severity.WARNING, Rank.NOTE, steps=steps, charts=("reward",), **named
    )
    layers = charts_of_run(tables_of(table), [found])["reward"].spec["layer"]
    rows = next(
        layer["data"]["values"] for layer in layers if layer["name"] == "marked"
    )
    return [(row["from"], row["to"]) for row in rows]


def test_steps_of_a_finding_are_shaded_from_its_onset_to_where_it_ended():
    two_parts = [(2.5, 4.5), (6.5, 7.5)]
    assert marked(steps=(3, 4, 7)) == two_parts
    onset = Onset(3, 3, 3)
    assert marked(steps=(8,), onset=onset) == [(2.5, 8.0)]
    assert marked(steps=(4,), onset=onset, until=5) == [(2.5, 5.5)]


def heights(element: ET.Element, above: float = 0.0) -> dict[str, float]:
    """Where the texts of a drawing stand, counted downwards."""
    found: dict[str, float] = {}
    for child in element:
        moved = re.findall(r"translate\([^,]*,([^)]*)\)", child.get("transform", ""))
        y = above + sum(map(float, moved))
        found[child.text or ""] = y + float(child.get("y", 0))
        found |= heights(child, y)
    return found


@pytest.mark.parametrize(("gap", "in_key"), [(0.001, True), (0.3, False)])
def test_labels_of_curves_never_overlap(gap, in_key):
    table = table_of_rows(
        [
            {"step": s, "reward": 1.0, "ref_reward": 1 + gap, "valid_reward": 1 - gap}
            for s in range(5)
        ]
    )
    chart = drawn(overview_charts(tables_of(table)))[0]
    names = ("policy", "reference", "second, policy")
    assert {entry.title for entry in chart.key} == (set(names) if in_key else set())
    found = heights(ET.fromstring(chart.svg))
    places = sorted(found[name] for name in names if name in found)
    assert len(places) == (0 if in_key else 3)
    assert all(below - above >= 12 for above, below in pairwise(places))


def test_spreading_texts_are_drawn_most_telling_first():
    names = [f"text {i}" for i in range(8)]
    shares = pd.DataFrame(
        [
            {"step": s, "ngram": n, "share": i / 10}
            for (i, n), s in product(enumerate(names), (1, 2))
        ]
    )
    (chart,) = drawn(text_charts(shares, {}))
    data = pd.DataFrame(chart.spec["data"]["values"])
    assert sorted(data["series"].unique()) == [f"text_{i}" for i in range(6)]
    assert data.groupby("series")["value"].first().tolist() == [
        0.0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
    ]
    assert "“text 0”" in chart.svg
    assert "2 curves are left out." in chart.description


def test_of_many_parts_of_the_reward_those_that_range_widest_are_drawn_in_their_order():
    rows = table_of_rows([{"step": step, "reward": 0.0} for step in range(4)])
    for count, first in ((1, 0), (MOST_PARTS + 2, 2)):
        parts = {f"p{i}": i * np.arange(4.0) for i in range(count)}
        chart = charts_of_run(tables_of(rows, extras=parts))["reward_parts"]
        series = {row["series"] for row in chart.spec["data"]["values"]}
        assert series == {f"part_p{i}" for i in range(first, count)}
        assert ("2 curves are left out." in chart.description) == (first == 2)


def test_the_highest_reward_and_the_first_step_are_described_however_many_steps_are_drawn():
    table = table_of_rows(
        [
            {"step": s, "reward": 5.0 if s == 201 else s / 1000, "kl_k1": float(s)}
            for s in range(450)
        ]
    )
    chart = charts_of_run(tables_of(table))["reward_kl_frontier"]
    assert "highest reward 5.00 at 201 nats (step 201)" in chart.description


def test_of_few_rewards_the_share_of_each_is_drawn() -> None:
    rows = []
    for step in range(4):
        last = 1.0 if step > 1 else 0.0
        for reward in (0.0, 0.5, last, np.nan):
            rows.append({"step": step, "reward": reward})
    table = table_of_rows(rows)
    chart = charts_of_run(tables_of(table))["reward_distribution"]
    assert "1.00: 0% at step 0, 33.3% at step 3" in chart.description
    data = pd.DataFrame(chart.spec["data"]["values"]).pivot(
        index="step", columns="series", values="value"
    )
    np.testing.assert_allclose(data.sum(axis=1), 1.0, atol=1e-5)
