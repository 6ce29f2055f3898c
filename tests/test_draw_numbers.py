"""Marks stand where the data say: baked charts are read back and compared with pandas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Finding
from rlreport.draw.chart import Chart
from rlreport.draw.drawing import Drawing, draw
from rlreport.draw.layout import PADDING
from rlreport.draw.overview import overview_charts
from rlreport.draw.prompts import prompt_charts
from rlreport.draw.step import step_charts, step_designs
from rlreport.draw.tokens import token_charts
from rlreport.draw.words import finite_or_none
from tests.draw_tables import response_table, responses_of, tables_of

NUMBER = re.compile(r"-?\d+\.?\d*")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def step_of(shared_data) -> tuple[pd.DataFrame, dict[str, Chart]]:
    responses = responses_of(shared_data / "ppo_healthy")
    rows = responses[responses["step"] == responses["step"].max()]
    first = responses[responses["step"] == responses["step"].min()]
    charts = step_charts(rows, first, step_designs(), step=int(rows["step"].iloc[0]))
    return rows, {chart.name: chart for chart in charts}


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


def filled(chart: Chart, colour: str) -> Iterator[list[float]]:
    """Numbers of each path filled with ``colour``, whose fill may stand on a group."""
    root = ET.fromstring(chart.svg)
    above = {child: parent for parent in root.iter() for child in parent}
    for path in root.iter(f"{SVG}path"):
        holder: ET.Element | None = path
        while holder is not None and holder.get("fill") is None:
            holder = above.get(holder)
        if holder is not None and holder.get("fill") == f"var(--{colour})":
            yield from ([float(n) for n in NUMBER.findall(p)] for p in path.get("d", "").split("M"))


def test_bars_of_the_histogram_are_shares_of_responses(step_of) -> None:
    rows, charts = step_of
    chart = charts["step_reward"]
    # x, y, width, height of each bar: its outline starts at the top left.
    heights = [numbers[3] for numbers in filled(chart, "policy") if len(numbers) >= 4]
    step = next(
        transform["bin"]["step"]
        for layer in chart.spec["layer"]
        for transform in layer.get("transform", [])
        if "bin" in transform
    )
    low, high = extent(chart, "x")
    edges = low + step * np.arange(round((high - low) / step) + 1)
    held = np.histogram(rows["reward"], bins=edges)[0]
    assert held.sum() == len(rows)
    top = extent(chart, "y")[1]
    shares = sorted(height / chart.spec["height"] * top for height in heights)
    np.testing.assert_allclose(shares, sorted(held[held > 0] / len(rows)), atol=slack(chart, "y"))


@pytest.mark.parametrize(
    ("name", "column"), [("step_reward_kl", "kl_k1"), ("step_reward_length", "response_tokens")]
)
def test_dots_of_a_scatter_are_responses(step_of, name: str, column: str) -> None:
    rows, charts = step_of
    chart = charts[name]
    dots = sorted(
        (
            value_at(chart, "x", float(dot.get("cx", 0))),
            value_at(chart, "y", float(dot.get("cy", 0))),
        )
        for dot in ET.fromstring(chart.svg).iter(f"{SVG}circle")
    )
    assert len(dots) == len(rows)
    for axis, key in enumerate((column, "reward")):
        np.testing.assert_allclose(
            sorted(dot[axis] for dot in dots),
            np.sort(rows[key]),
            atol=slack(chart, "xy"[axis]),
        )


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9, 1e120])
def test_dots_stand_to_the_tenth_where_vega_puts_them(monkeypatch, size: float) -> None:
    drawn: list[Drawing] = []
    monkeypatch.setattr("rlreport.draw.step.draw", lambda made: drawn.extend(made) or draw(made))
    spread = np.random.default_rng(3).standard_cauchy((2, 500))
    rows = [{"step": 1, "reward": size * a, "kl_k1": size * b} for a, b in spread.T]
    table = response_table(rows)
    step_charts(table, None, step_designs(), step=1)
    ours = next(one for one in drawn if one.name == "step_reward_kl")
    x, y = (map(finite_or_none, table[key]) for key in ("kl_k1", "reward"))
    all_rows = [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]
    data = [
        {**source, "values": all_rows} if source["name"] == "rows" else source
        for source in ours.vega["data"]
    ]
    vegas = replace(ours, vega={**ours.vega, "data": data}, dots=())
    assert len(ours.dots) == 500
    assert draw([ours]) == draw([vegas])


def test_bars_of_the_gap_are_ordered_and_complete(step_of) -> None:
    rows, charts = step_of
    gap = rows["reward_gap"]
    said = charts["step_gap"].description
    assert said.startswith(f"{(gap > 0).sum()} of {len(rows)} responses beat the reference, ")
    low, high = extent(charts["step_gap"], "y")
    assert low <= gap.min() <= gap.max() <= high


def test_curves_hold_the_means_of_pandas(shared_data) -> None:
    responses = responses_of(shared_data / "ppo_healthy")
    charts = {chart.name: chart for chart in overview_charts(tables_of(responses), band=2.0)}
    data = pd.DataFrame(charts["reward"].spec["data"]["values"])
    policy = data[data["series"] == "policy"].set_index("step")
    by_step = responses.groupby("step")["reward"]
    np.testing.assert_allclose(policy["value"], by_step.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        policy["high"] - policy["low"], 4 * by_step.std(ddof=0), rtol=1e-4, atol=1e-5
    )
    assert "± 2 × std" in charts["reward"].svg
    k1 = pd.DataFrame(charts["kl"].spec["data"]["values"]).query("series == 'k1'")
    np.testing.assert_allclose(k1["value"], responses.groupby("step")["kl_k1"].mean(), rtol=1e-5)


def test_a_line_runs_through_its_values() -> None:
    values = [0.0, 3.0, 1.0, 2.0]
    table = response_table([{"step": i, "reward": value} for i, value in enumerate(values)])
    chart = overview_charts(tables_of(table))[0]
    path = next(d for d in re.findall(r'd="(M[^"]*)"', chart.svg) if d.count("L") == 3)
    line = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]
    for (x, y), (step, value) in zip(line, enumerate(values), strict=True):
        assert value_at(chart, "x", x) == pytest.approx(step, abs=slack(chart, "x"))
        assert value_at(chart, "y", y) == pytest.approx(value, abs=slack(chart, "y"))


def test_steps_that_findings_name_are_marked() -> None:
    table = response_table([{"step": s, "reward": float(s)} for s in range(9)])
    finding = Finding("reward_up", "warning", "It rose", steps=(3, 4, 7), charts=("reward",))
    chart = overview_charts(tables_of(table), [finding])[0]
    marked = next(x["data"]["values"] for x in chart.spec["layer"] if x["name"] == "marked")
    assert [(m["from"], m["to"]) for m in marked] == [(2.5, 4.5), (6.5, 7.5)]
    assert "It rose" in chart.description
    assert "var(--warning)" in chart.svg


def test_ticks_stand_where_their_labels_say(step_of) -> None:
    chart = step_of[1]["step_reward_kl"]
    texts = [
        (float(text.get("x", 0)), float((text.text or "").replace("−", "-")))
        for text in ET.fromstring(chart.svg).iter(f"{SVG}text")
        if text.get("text-anchor") == "middle"
    ]
    assert len(texts) >= 3
    for x, value in texts:
        assert value_at(chart, "x", x - PADDING["left"]) == pytest.approx(
            value, abs=slack(chart, "x")
        )


def test_labels_of_curves_never_overlap() -> None:
    table = response_table(
        [{"step": s, "reward": 1.0, "ref_reward": 1.001, "valid_reward": 1.002} for s in range(5)]
    )
    chart = overview_charts(tables_of(table))[0]
    height = {
        text.text: float(text.get("y", 0)) for text in ET.fromstring(chart.svg).iter(f"{SVG}text")
    }
    places = sorted(height[name] for name in ("policy", "reference", "valid, policy"))
    assert all(below - above >= 12 for above, below in pairwise(places))


def test_solved_groups_are_counted_by_the_best_reward() -> None:
    rewards = {(0, 0): [0, 1], (0, 1): [0, 0], (1, 2): [1, 1], (1, 3): [0, 1], (1, 4): [1]}
    table = response_table(
        [
            {"step": step, "group": group, "reward": float(reward)}
            for (step, group), held in rewards.items()
            for reward in held
        ]
    )
    charts = {chart.name: chart for chart in prompt_charts(tables_of(table))}
    solved = pd.DataFrame(charts["group_shares"].spec["data"]["values"]).query("series == 'solved'")
    assert solved["value"].tolist() == [0.5, 1.0]


def test_gains_count_prompts_seen_twice_or_more() -> None:
    tables = tables_of(response_table([{"step": s, "reward": float(s)} for s in range(3)]))
    gains = [-0.5, 0.0, 0.25, 0.25, 0.75, np.nan, 9.0]
    tables.prompts = pd.DataFrame({"reward_gain": gains, "steps": [2, 2, 3, 2, 2, 2, 1]})
    chart = next(c for c in prompt_charts(tables) if c.name == "prompt_gain")
    assert sum(row["y"] for row in chart.spec["data"]["values"]) == 5
    assert chart.description.startswith(
        "Of 5 prompts seen in two steps or more, 3 gained reward and 1 lost; median gain 0.250"
    )


def test_spreading_texts_are_drawn_most_telling_first() -> None:
    names = [f"text {i}" for i in range(8)]
    shares = pd.DataFrame(
        [{"step": s, "ngram": n, "share": i / 10} for i, n in enumerate(names) for s in (1, 2)]
    )
    (chart,) = token_charts(shares)
    data = pd.DataFrame(chart.spec["data"]["values"])
    assert sorted(data["series"].unique()) == [f"text_{i}" for i in range(6)]
    assert data.groupby("series")["value"].first().tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert "“text 0”" in chart.svg
    assert "2 more are in the table." in chart.description
