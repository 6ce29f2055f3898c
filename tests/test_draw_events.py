"""What happened to a quantity is marked on its chart: which events, with which words, and where."""

from typing import Any

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.course import Course, Quantity, course_of
from rlreport.check.finding import Onset, Rank, Severity, ToldFinding
from rlreport.check.series import Series
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.events import DrawnEvent, Side, events_to_draw, rules_of
from rlreport.draw.svg import drawn
from rlreport.tables import Tables
from rlreport.text.language import language
from tests.tables_builder import INDEX, STEP, STEPS, tables

NOISE = 0.02 * np.where((STEP + INDEX) % 2, 1.0, -1.0)
STEP_NOISE = np.where(np.arange(STEPS) % 2, 0.01, -0.01)
FALLS_AT = 20


def falling() -> Tables:
    return tables(reward=np.where(STEP < FALLS_AT, 0.8, 0.2) + NOISE)


def charts(made: Tables, *findings: ToldFinding) -> dict[str, Chart]:
    courses = list(run_checks(made).courses.values())
    return {one.name: one for one in overview_charts(made, findings, courses)}


def rules(chart: Chart) -> list[dict[str, Any]]:
    """The rows of the rules of a chart, which are those of the labels, too."""
    data = {one["name"]: one.get("data") for one in chart.spec["layer"]}
    assert ("event" in data) == ("event_label" in data)
    if "event" not in data:
        return []
    assert data["event"] == data["event_label"]
    return data["event"]["values"]


def course(values: Any, quantity: Quantity) -> Course:
    array = np.asarray(values, np.float64)
    found = course_of(Series(np.arange(len(array)), array), "column", quantity)
    assert found is not None
    return found


def words(values: Any, quantity: Quantity = "reward") -> list[str]:
    noisy = np.asarray(values) + STEP_NOISE[: len(values)]
    return [event.words for event in events_to_draw(course(noisy, quantity))]


def levels(*parts: tuple[int, float]) -> list[float]:
    """So many values of each level."""
    values: list[float] = []
    for count, level in parts:
        values += [level] * count
    return values


def test_a_fall_is_a_rule_with_a_label_in_both_drawings_and_in_the_description() -> (
    None
):
    made = charts(falling())
    chart = made["reward"]
    assert rules(chart) == [{"step": FALLS_AT, "event": "fell at 20", "side": "after"}]
    assert "Events: fell at 20." in chart.description
    (static,) = drawn([chart])
    assert ">fell at 20<" in static.svg
    assert 'stroke-dasharray="4,3"' in static.svg
    (chinese,) = drawn([chart], language("zh"))
    assert "第 20 步下降" in chinese.svg
    assert not rules(made["reward_distribution"])


def test_a_rule_stands_at_the_edge_of_steps_that_are_shaded_from_the_same_step() -> (
    None
):
    def shaded_from(step: int) -> ToldFinding:
        onset = Onset(step, step, step)
        return ToldFinding(
            "one", Severity.WARNING, Rank.CAUSE, onset=onset, charts=("reward",)
        )

    (same,) = rules(charts(falling(), shaded_from(FALLS_AT))["reward"])
    assert (same["step"], same["event"]) == (FALLS_AT - 0.5, "fell at 20")
    (other,) = rules(charts(falling(), shaded_from(FALLS_AT - 2))["reward"])
    assert other["step"] == FALLS_AT


def test_a_kl_above_its_limit_is_marked_on_the_chart_of_the_kl() -> None:
    made = charts(tables(kl_k1=np.where(STEP < 12, 1.0, 30.0)))
    assert [rule["event"] for rule in rules(made["kl"])] == ["above the limit from 12"]
    back = (STEP >= 12) & (STEP < 25)
    made = charts(tables(kl_k1=np.where(back, 30.0, 1.0)))
    assert "above the limit 12–24" in [rule["event"] for rule in rules(made["kl"])]
    made = charts(tables(kl_k1=np.full(len(STEP), 30.0)))
    assert [rule["event"] for rule in rules(made["kl"])] == ["above the limit"]


VALLEY = levels((15, 0.8), (10, 0.2), (15, 0.8))
HUMP = levels((15, 0.2), (10, 0.8), (15, 0.2))
RISE = levels((20, 0.2), (20, 0.8))


@pytest.mark.parametrize(
    ("values", "quantity", "expected"),
    [
        (VALLEY, "reward", ["valley 15–24"]),
        (HUMP, "length", ["hump 15–24"]),
        (HUMP, "reward", ["fell at 25", "dead from 25"]),
        (RISE, "reward", ["rose at 20"]),
        (RISE[::-1], "entropy", ["fell at 20"]),
        ([0.5] * 40, "reward", []),
    ],
)
def test_what_happened_is_told_once(
    values: list[float], quantity: Quantity, expected: list[str]
) -> None:
    assert words(values, quantity) == expected


def test_a_spike_is_not_marked() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.01, 100)
    values[50] = 3.0
    spiked = course(values, "reward")
    assert [event.kind for event in spiked.events] == ["spike"]
    assert events_to_draw(spiked) == ()


def event(step: int, size: float = 1.0, side: Side = "after") -> DrawnEvent:
    return DrawnEvent(step, f"fell at {step}", side, size)


def placed(*events: DrawnEvent) -> list[tuple[int, Side]]:
    found = rules_of([("policy", events)], (0.0, 1000.0))
    return [(rule.step, rule.side) for rule in found]


def test_the_three_largest_events_have_rules_from_left_to_right() -> None:
    sizes = {700: 0.3, 10: 0.9, 300: 0.2, 450: 0.8}
    rules = placed(*(event(step, size) for step, size in sizes.items()))
    assert [step for step, _ in rules] == [10, 450, 700]


def test_no_label_covers_another_or_ends_beyond_the_plot() -> None:
    assert placed(event(300), event(350, 0.5)) == [(300, "after")]
    assert placed(event(300), event(301, 0.5, "before")) == [(300, "after")]
    both = placed(event(530), event(500, 0.5, "before"))
    assert both == [(500, "before"), (530, "after")]
    assert placed(event(990)) == [(990, "before")]
    assert placed(event(5, side="before")) == [(5, "after")]
    assert placed(event(1001)) == []


def test_the_label_of_a_second_curve_names_it() -> None:
    curves = [("policy", [event(100)]), ("validation", [event(900)])]
    found = rules_of(curves, (0.0, 1000.0))
    assert [rule.words for rule in found] == ["fell at 100", "validation: fell at 900"]
