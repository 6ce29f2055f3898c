"""Logged values mean the same whatever JSON writer they went through."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.formats import RowError, RowReader, Where, format_by_id
from rlreport.formats.logged import columns, step_in_path, step_of, total
from rlreport.formats.mapping import look_up
from rlreport.system import coerce


@pytest.mark.parametrize(
    ("logged", "meant"),
    [
        (1, 1.0), (0.5, 0.5), (True, 1.0), ("0.5", 0.5), (" 2 ", 2.0), ("True", 1.0),
        ("False", 0.0), ("1e-3", 0.001), ("-inf", -math.inf), ([0.25], 0.25),
        ("tensor(0.5)", 0.5), ("tensor(0.5, device='cuda:0')", 0.5), ("np.float64(2.0)", 2.0),
        ("np.int64(3)", 3.0),
    ],
)  # fmt: skip
def test_numbers_survive_their_writers(logged: object, meant: float) -> None:
    assert coerce.number(logged) == meant


@pytest.mark.parametrize("logged", [None, math.nan, "nan", "NaN", "None", "null", "", 10**400])
def test_what_is_missing_or_too_large_is_nan(logged: object) -> None:
    assert math.isnan(coerce.number(logged))


@pytest.mark.parametrize("logged", ["four", {}, [], [1, 2], {"a": 1}])
def test_what_is_no_number_says_so(logged: object) -> None:
    with pytest.raises(RowError, match="expected a number, found"):
        coerce.number(logged)


@pytest.mark.parametrize("answer", ["4", "12", "four", "1/2", "0.5.1", "x" * 60, "-", "1,5"])
def test_answers_stay_text(answer: str) -> None:
    assert coerce.unquoted(answer) == answer


@given(st.floats(allow_nan=False))
def test_every_stringified_float_is_that_float_again(value: float) -> None:
    assert coerce.unquoted(str(value)) == value


def test_steps_are_whole_numbers() -> None:
    assert [*map(coerce.integer, (3, 3.0, "3", " 3 ", "-3"))] == [3, 3, 3, 3, -3]
    assert [*map(coerce.integer, (True, 3.5, "3.5", None, [3], "9" * 30))] == [None] * 6


def test_a_path_says_the_step_by_a_named_or_the_first_group() -> None:
    assert step_in_path("a/step_7/x", re.compile(r"(a)/step_(?P<step>\d+)")) == 7
    assert step_in_path("a/step_7/x", re.compile(r"step_(\d+)|it_(\d+)")) == 7
    assert step_in_path("a/it_8/x", re.compile(r"step_(\d+)|it_(\d+)")) == 8
    assert step_in_path("a/x", re.compile(r"step_(\d+)")) is None
    with pytest.raises(RowError, match="no step"):
        step_of(None, Where("a/x"), re.compile(r"step_(\d+)"))


def test_columns_are_numbers_booleans_and_short_strings() -> None:
    obj: dict[str, Any] = {
        "kept": 1, "flag": "True", "note": "ok", "long": "x" * 201, "list": [1], "none": None,
        "values": 3, "used": 5,
    }  # fmt: skip
    assert columns(obj, {"used"}) == {"kept": 1, "flag": True, "note": "ok", "values_logged": 3}


def test_totals_skip_what_is_missing() -> None:
    assert total([0.1, math.nan, 0.2]) == pytest.approx(0.3)
    assert total([math.nan]) is None
    assert total([]) is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", (True, 1)), ("a.b.c", (False, None)), ("x.y", (True, 2)), ("l.0", (True, 5)),
        ("l.-1.z", (True, 6)), ("l.2", (False, None)), ("l.z", (False, None)), ("q", (False, None)),
    ],
)  # fmt: skip
def test_dotted_paths_lead_into_objects_and_lists(path: str, found: tuple[bool, Any]) -> None:
    assert look_up({"a": {"b": 1}, "x.y": 2, "l": [5, {"z": 6}]}, path) == found


def test_a_reward_part_beyond_float64_is_left_out_and_the_row_is_kept() -> None:
    obj = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 5, "reward": 10**400}
    assert "reward_logged" not in next(RowReader(format_by_id("verl"))(obj, Where("5.jsonl")))
    assert coerce.reals({"a": 10**400, "b": 1}) == {"b": 1.0}
