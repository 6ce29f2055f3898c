"""What short runs, equal means and the bars of response lists look like."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.svg import drawn
from rlreport.pages.step import number_cells
from tests.reading import row, write
from tests.tables_builder import table_of_rows, tables_of


@pytest.mark.parametrize("steps", [2, 3, 4, 6])
def test_no_tick_lies_between_two_steps(steps):
    rows = [
        {"step": s, "reward": 0.1 * n + 0.01 * s}
        for s, n in product(range(steps), range(8))
    ]
    tables = tables_of(table_of_rows(rows))
    (chart,) = (one for one in drawn(overview_charts(tables)) if one.name == "reward")
    ticks = re.findall(
        r"<text[^>]*>(\d+)</text>", chart.svg
    )  # those of rewards have a point
    assert ticks == [str(step) for step in range(steps)]


def test_log_probabilities_without_token_strings_are_no_choice_of_token_data(tmp_path):
    arrays = {"logprobs": [-0.5, -1.0], "ref_logprobs": [-0.7, -1.1]}
    places = product(range(3), range(4))
    rows = [row(step, reward=0.1 * n, **arrays) for step, n in places]
    report = rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "run")
    assert report.left_out == []
    table = (tmp_path / "run" / "texts.html").read_text("utf-8")
    assert "The log has no token strings" in table


def bars_of(values):
    return [
        cell.bar for cell in number_cells("number", np.array(values, dtype=np.float64))
    ]


@given(st.lists(st.floats(), max_size=30))
def test_a_bar_is_at_most_twenty_twentieths_and_the_largest_value_has_them_all(values):
    finite = [value for value in values if np.isfinite(value)]
    largest = max(map(abs, finite), default=0.0)
    for value, bar in zip(values, bars_of(values), strict=True):
        assert 0 <= bar <= 20
        assert bar == 0 or (np.isfinite(value) and value)
        assert bar == 20 or abs(value) != largest or not largest
    # Products of these would round up or overflow.
    assert bars_of([0.07, 1.1, 0.55]) == [2, 20, 10]
    assert bars_of([1.7e308, -1.7e308, 8.5e307]) == [20, 20, 10]
