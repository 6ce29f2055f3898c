"""Charts as figures: as wide as their place, with names and rules in them, and smooth curves."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from rlreport.check.finding import Onset, Rank, Severity, ToldFinding
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.curves import ChartStyle, DrawnCurve, curve_chart
from rlreport.draw.frame import Frame
from rlreport.draw.names import NamedLine, name_places
from rlreport.draw.rules import QUIET, RunRule, label_sides
from rlreport.draw.smoothing import running_median
from rlreport.draw.svg import drawn, png
from tests.tables_builder import STEP, tables

NOISE = np.random.default_rng(0)


def chart_of(*curves: DrawnCurve) -> Chart:
    count = len(curves[0].values)
    chart = curve_chart(
        Frame(np.arange(float(count))), "one", "One", curves, ChartStyle()
    )
    assert chart is not None
    (result,) = drawn([chart])
    return result


def curve(key: str, values: np.ndarray, title: str = "") -> DrawnCurve:
    return DrawnCurve(key, title or key, np.asarray(values, np.float64))


def rows_of(chart: Chart, layer: str) -> list[dict]:
    """Return the rows of a layer of the specification, [] if the chart lacks it."""
    for one in chart.spec["layer"]:
        if one["name"] == layer:
            return one["data"]["values"]
    return []


def static_rows(chart: Chart, layer: str) -> list[dict]:
    """Return the rows of a layer of the drawing."""
    for source in chart.vega["data"]:
        if source["name"] == layer:
            return source["values"]
    return []


def test_a_drawing_has_no_width_of_its_own_and_its_places_are_shares_of_the_plot():
    rising = np.arange(41.0)
    chart = chart_of(curve("a", rising), curve("b", rising[::-1]))
    root = ET.fromstring(chart.svg)
    assert root.get("viewBox") is None
    assert (root.get("width"), root.get("height")) == ("100%", "200")
    for text in root.iter():
        if text.tag.endswith("}text"):
            x = text.get("x", "")
            assert x.endswith("%") or float(x) < 0, (
                "left of the plot, texts keep their place"
            )
    steps = {
        text.text: text.get("x")
        for text in root.iter()
        if text.tag.endswith("}text") and text.get("y") == "145.5"
    }
    assert steps["0"] == "0%"
    assert steps["20"] == "50%"
    assert steps["40"] == "100%"
    stretched = [node for node in root.iter() if node.get("preserveAspectRatio")]
    assert stretched
    assert {node.get("width") for node in stretched} == {"100%"}


@pytest.mark.parametrize(
    ("titles", "in_plot"),
    [
        (["policy"], set()),  # the title names it
        (["policy", "reference"], {"policy", "reference"}),
        (["a", "b", "c"], {"a", "b", "c"}),
        (["a", "b", "c", "d"], None),
        (["short", "a name from a log"], None),
    ],
)
def test_names_of_few_curves_are_in_the_plot_and_all_others_in_a_key(titles, in_plot):
    curves = [
        curve(f"c{k}", np.arange(20.0) * k, title) for k, title in enumerate(titles)
    ]
    chart = chart_of(*curves)
    written = {row["label"] for row in rows_of(chart, "label")}
    if in_plot is None:
        assert [entry.title for entry in chart.key] == titles
        assert not written
    else:
        assert not chart.key
        assert written == in_plot


PLACES = json.loads(
    (Path(__file__).parent / "data/name_places.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", PLACES, ids=lambda case: case["what"])
def test_names_stand_beside_the_ends_of_their_lines_and_cover_none(case):
    lines = []
    for line in case["lines"]:
        x = np.array(line["x"])
        lines.append(NamedLine(line["name"], x, np.array(line["y"])))
    found = name_places(lines, case["height"])
    if case["places"] is None:
        assert found is None
    else:
        assert found == pytest.approx(case["places"], abs=1e-3)


def test_names_that_have_no_room_beside_their_lines_are_in_the_key():
    steep = np.r_[np.zeros(45), np.linspace(0, 10, 15)]
    chart = chart_of(curve("steep", steep), curve("level", np.zeros(60)))
    assert [entry.title for entry in chart.key] == ["steep", "level"]
    assert not rows_of(chart, "label") and not rows_of(chart, "halo")


SIDES = {20: 1, 40: 1, 60: -1, 90: -1}


@pytest.mark.parametrize(("step", "side"), SIDES.items())
def test_a_rules_label_is_where_the_narrowest_plot_has_room(step, side):
    words = "checkpoint to keep: 60"
    assert label_sides([(step / 100, words)]) == [side]
    # Of two labels, the one before its rule is behind it if the plot's edge is too near.
    sides = label_sides([(0.43, words), (0.9, "onset: 90")])
    assert sides == [1, -1]
    assert label_sides([(0.5, words), (0.6, "onset: 60")]) == [-1, 1]


def test_a_picture_for_mail_has_the_key_below_its_plot():
    curves = [curve(f"c{k}", np.full(20, k)) for k in range(4)]
    chart = chart_of(*curves)
    heights = []
    for one in (chart, replace(chart, key=())):
        picture = png(one, 600)
        heights.append(int.from_bytes(picture[20:24], "big"))
    assert heights[0] > heights[1]


def test_a_name_is_below_the_end_of_a_curve_that_falls_and_above_others():
    falling = np.r_[np.full(46, 8.0), 7.0, 6.0, 5.0, 4.0]
    level = np.full(50, 1.0)
    chart = chart_of(curve("falls", falling), curve("stays", level))
    labels = {row["label"]: row["y"] for row in rows_of(chart, "label")}
    assert labels["falls"] < 4.0
    assert labels["stays"] > 1.0


RULES = (
    RunRule(10, "checkpoint to keep: 10", "healthy", dashed=True),
    RunRule(20, "onset: 20 (18–21)", "critical", dashed=False, within=(18, 21)),
)


def ruled() -> dict[str, Chart]:
    reward = np.where(STEP < 20, 0.8, 0.2)
    made = tables(reward=reward, response_tokens=STEP + 5.0)
    finding = ToldFinding(
        "one",
        Severity.CRITICAL,
        Rank.CAUSE,
        onset=Onset(20, 18, 21),
        charts=("reward",),
        name="collapse",
    )
    return {one.name: one for one in overview_charts(made, [finding], rules=RULES)}


def test_the_onset_and_the_checkpoint_are_labelled_rules_on_the_findings_charts():
    chart = ruled()["reward"]
    assert [row["step"] for row in rows_of(chart, "rule")] == [10, 20]
    assert {row["opacity"] for row in rows_of(chart, "rule")} == {1}
    labels = [row["label"] for row in rows_of(chart, "rule_label")]
    assert labels == ["checkpoint to keep: 10", "onset: 20 (18–21)"]
    (interval,) = rows_of(chart, "interval")
    assert (interval["from"], interval["to"]) == (18, 21)
    # The interval is shaded, what follows has a bar: not both.
    assert not rows_of(chart, "marked")
    assert rows_of(chart, "marked_bar")
    (static,) = drawn([chart])
    assert "onset: 20 (18–21)" in static.svg
    assert "Events: checkpoint to keep: 10; onset: 20 (18–21)." in chart.description


def test_other_charts_have_quiet_rules_at_the_same_steps_without_labels():
    chart = ruled()["length"]
    assert [row["step"] for row in rows_of(chart, "rule")] == [10, 20]
    assert {row["opacity"] for row in rows_of(chart, "rule")} == {QUIET}
    assert not rows_of(chart, "rule_label")
    assert not rows_of(chart, "interval")


def test_values_of_a_sparse_curve_are_points_and_those_of_a_dense_one_are_not():
    sparse = np.full(200, np.nan)
    sparse[::20] = np.linspace(0, 1, 10)
    dense = np.linspace(0, 1, 200)
    chart = chart_of(curve("eval", sparse), curve("loss", dense))
    points = rows_of(chart, "point")
    assert [row["step"] for row in points] == list(range(0, 200, 20))
    assert {row["series"] for row in points} == {"eval"}
    assert chart.svg.count("<circle") == 10


def ink(svg: str, width: float) -> float:
    """Return the length of the lines of a drawing that are ``width`` wide, in its pixels."""
    length = 0.0
    for path in re.findall(rf'<path d="(M[^"]*)"[^>]*stroke-width="{width:g}"', svg):
        points = np.array(re.findall(r"(-?[\d.]+),(-?[\d.]+)", path), np.float64)
        ways = np.diff(points, axis=0)
        length += float(np.linalg.norm(ways, axis=1).sum())
    return length


def test_300_noisy_steps_are_a_smooth_line_before_dots():
    values = 0.3 + 0.001 * np.arange(300) + NOISE.normal(0, 0.3, 300)
    chart = chart_of(curve("a", values))
    assert chart.smoothing == "running median of 13 values"
    plot = 596
    # A line through the values themselves would be twenty times as long.
    assert plot <= ink(chart.svg, 1.75) < 1.5 * plot
    assert ink(chart.svg, 1) < 3 * plot, "the axis alone"
    assert chart.svg.count("h0M") == 299
    assert static_rows(chart, "raw_dots") and not static_rows(chart, "raw")
    live = {layer["name"]: layer["mark"]["type"] for layer in chart.spec["layer"]}
    assert live["interaction_raw"] == "circle"


def test_60_noisy_steps_are_a_moving_average_before_a_thin_line():
    chart = chart_of(curve("a", NOISE.normal(0, 1, 60)))
    assert chart.smoothing == "moving average, factor 0.6"
    assert static_rows(chart, "raw") and not static_rows(chart, "raw_dots")


def test_a_running_median_keeps_a_valley_and_where_it_begins():
    values = np.ones(400)
    values[200:218] = 0.0
    smooth = running_median(values + NOISE.normal(0, 0.05, 400))
    assert smooth[190] > 0.8
    assert smooth[209] < 0.2
    assert smooth[228] > 0.8
    half = np.flatnonzero(smooth < 0.5)
    assert abs(half[0] - 200) <= 2 and abs(half[-1] - 217) <= 2


def test_missing_values_stay_missing_in_a_running_median():
    values = NOISE.normal(0, 1, 300)
    values[[0, 100, 101, 299]] = np.nan
    assert np.array_equal(np.isnan(running_median(values)), np.isnan(values))
