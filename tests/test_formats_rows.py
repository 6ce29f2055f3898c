"""Rows of frameworks' logs, where ``tests/data/net/rows`` does not say it, and their values."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.fields import FIELDS
from rlreport.formats.registry import RowError, RowReader, Where, format_by_id
from rlreport.formats.trl_folder import content_of, repeated_files
from rlreport.system import coerce
from rlreport.system.stores import Source

Row = dict[str, Any]


def rows(identity: str, obj: Row, name: str = "log.jsonl") -> list[Row]:
    return list(RowReader(format_by_id(identity))(obj, Where(name, 1)))


FOREIGN = {
    "verl": {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 5},
    "skyrl": {"input_prompt": "q", "output_response": "a", "score": 1.0},
    "areal": {"task_id": 7, "prompt": "q", "completion": "a", "reward": 1.0},
    "open_instruct": {
        "step": 5,
        "prompt_idx": 1,
        "prompt_tokens": [1],
        "response_tokens": [2],
        "reward": 1.0,
        "logprobs": [-0.1],
        "finish_reason": "stop",
        "ground_truth": [2],
    },
    "trl": {
        "step": 5,
        "prompt": "q",
        "completion": "a",
        "f_reward": 1.0,
        "advantage": 0.5,
    },
}


@pytest.mark.parametrize("identity", sorted(FOREIGN))
def test_a_foreign_column_with_the_name_of_a_field_is_never_taken_for_it(
    identity: str,
) -> None:
    obj = FOREIGN[identity]
    path = "global_step_3_evals/x.jsonl" if identity == "skyrl" else "rollout/3/7.jsonl"
    (plain,) = rows(identity, obj, path)
    # Further numbers of TRL's rows are reward functions'.
    values = ("other",) if identity == "trl" else (0.25, "other", True)
    # The framework's own, and those of the same meaning in every log, are theirs.
    names = {field.name for field in FIELDS} - {*obj, "step", "reward"}
    for name, value in product(sorted(names), values):
        (row,) = rows(identity, {**obj, name: value}, path)
        assert row.pop(f"{name}_logged") == value, name
        assert row == plain, name


def test_trl_step_may_be_in_the_file_s_name_only() -> None:
    row = {
        "step": None,
        "prompt": "q",
        "completion": "a",
        "advantage": 0.7,
        "right": 1.0,
    }
    assert rows("trl", row, "completions/completions_00005.parquet")[0]["step"] == 5


def test_trl_repeats_rows_under_a_new_step(tmp_path: Path) -> None:
    logs = []
    for step, answer in enumerate("aabbb", 1):
        path = tmp_path / f"completions_{step:05d}.parquet"
        row = {"step": step, "prompt": "q", "completion": answer}
        row |= {"right": 1.0, "advantage": 0.0}
        table = pa.Table.from_pylist([row])
        pq.write_table(table, path)
        logs.append(Source(path.name, str(path), path.stat().st_size))
    assert repeated_files({log.name: content_of(log) for log in logs}) == {
        "completions_00002.parquet": "completions_00001.parquet",
        "completions_00004.parquet": "completions_00003.parquet",
        "completions_00005.parquet": "completions_00003.parquet",
    }


@pytest.mark.parametrize(
    "identity",
    [
        "trl",
        "verl",
        "nemo_rl",
        "skyrl",
        "areal",
        "open_instruct",
        "roll",
        "swift",
        "rllm",
        "art",
        "verifiers",
        "prime_rl_tokens",
    ],
)
def test_an_object_of_another_kind_costs_one_row(identity: str) -> None:
    odds: list[Row] = [{}, {"step": 1, "traces": 3}]
    for odd in (*odds, {"step": None, "completion": "a", "score": {}}):
        with pytest.raises(RowError, match=r".+"):
            rows(identity, odd)


@pytest.mark.parametrize(
    ("logged", "meant"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        ("0.5", 0.5),
        (" 2 ", 2.0),
        ("True", 1.0),
        ("False", 0.0),
        ("1e-3", 0.001),
        ("-inf", -math.inf),
        ([0.25], 0.25),
        ("tensor(0.5)", 0.5),
        ("tensor(0.5, device='cuda:0')", 0.5),
        ("np.float64(2.0)", 2.0),
        ("np.int64(3)", 3.0),
        *(
            (missing, math.nan)
            for missing in (None, math.nan, "nan", "None", "null", "", 10**400)
        ),
        ("four", None),
        ({}, None),
        ([], None),
        ([1, 2], None),
        ({"a": 1}, None),
    ],
)
def test_numbers_survive_their_writers(logged: object, meant: float | None) -> None:
    if meant is None:
        with pytest.raises(RowError, match="expected a number, found"):
            coerce.number(logged)
    else:
        assert coerce.number(logged) == pytest.approx(meant, nan_ok=True)


@pytest.mark.parametrize(
    "answer", ["4", "12", "four", "1/2", "0.5.1", "x" * 60, "-", "1,5"]
)
def test_answers_stay_text(answer: str) -> None:
    assert coerce.unquoted(answer) == answer


@given(st.floats(allow_nan=False))
def test_every_stringified_float_is_that_float_again(value: float) -> None:
    assert coerce.unquoted(str(value)) == value


def test_steps_are_whole_numbers() -> None:
    for three in (3, 3.0, "3", " 3 "):
        assert coerce.integer(three) == 3
    assert coerce.integer("-3") == -3
    for other in (True, 3.5, "3.5", None, [3], "9" * 30):
        assert coerce.integer(other) is None


def test_a_reward_part_beyond_float64_is_left_out_and_the_row_is_kept() -> None:
    obj = {
        "input": "q",
        "output": "a",
        "gts": "4",
        "score": 1.0,
        "step": 5,
        "reward": 10**400,
    }
    assert "reward_logged" not in next(
        RowReader(format_by_id("verl"))(obj, Where("5.jsonl"))
    )
    assert coerce.reals({"a": 10**400, "b": 1}) == {"b": 1.0}
