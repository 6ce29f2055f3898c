"""Rows of frameworks' logs, where ``tests/data/net/rows`` does not say it: what is left out."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlreport.fields import FIELDS
from rlreport.figures.metadata import normalize_turns_and_mask
from rlreport.formats import RowError, RowReader, Where, format_by_id, slime
from rlreport.formats.base import FileStamp
from rlreport.formats.trl import repeated_files
from rlreport.system.stores import Source

Row = dict[str, Any]


def rows(identity: str, obj: Row, name: str = "log.jsonl") -> list[Row]:
    return list(RowReader(format_by_id(identity))(obj, Where(name, 1)))


FOREIGN = {
    "verl": {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 5},
    "skyrl": {"input_prompt": "q", "output_response": "a", "score": 1.0},
    "areal": {"task_id": 7, "prompt": "q", "completion": "a", "reward": 1.0},
    "open_instruct": {
        "step": 5, "prompt_idx": 1, "prompt_tokens": [1], "response_tokens": [2], "reward": 1.0,
        "logprobs": [-0.1], "finish_reason": "stop", "ground_truth": [2],
    },
    "trl": {"step": 5, "prompt": "q", "completion": "a", "f_reward": 1.0, "advantage": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("identity", sorted(FOREIGN))
def test_a_foreign_column_with_the_name_of_a_field_is_never_taken_for_it(identity: str) -> None:
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
    row = {"step": None, "prompt": "q", "completion": "a", "advantage": 0.7, "right": 1.0}
    assert rows("trl", row, "completions/completions_00005.parquet")[0]["step"] == 5


def test_trl_repeats_rows_under_a_new_step(tmp_path: Path) -> None:
    made = {"prompt": ["q"], "completion": ["a"], "right": [1.0], "advantage": [0.0]}
    logs = []
    for step, answer in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")):
        path = tmp_path / f"completions_{step:05d}.parquet"
        pq.write_table(pa.table({"step": [step], **made, "completion": [answer]}), path)
        logs.append(Source(path.name, str(path), path.stat().st_size))
    assert repeated_files(logs, "parquet") == {
        "completions_00002.parquet": "completions_00001.parquet",
        "completions_00004.parquet": "completions_00003.parquet",
        "completions_00005.parquet": "completions_00003.parquet",
    }


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(RowError, match=r"column `scores` has 1 values, `responses` has 2"):
        rows("roll", {"prompt": ["a", "b"], "responses": ["a", "b"], "scores": [1.0]})


def test_rllm_solver_and_judge_are_groups_apart() -> None:
    made = [{"name": name, "steps": [{"model_response": "a"}]} for name in ("solver", "judge")]
    solver, judge = rows("rllm", {"training_step": 1, "task_hash": "t", "trajectories": made})
    assert (solver["group_id"], judge["group_id"]) == ("t:solver", "t:judge")


@pytest.mark.parametrize("identity", ["trl", "verl", "nemo_rl", "skyrl", "areal", "open_instruct",
                                      "roll", "swift", "rllm", "art", "verifiers",
                                      "prime_rl_tokens"])  # fmt: skip
def test_an_object_of_another_kind_costs_one_row(identity: str) -> None:
    odds: list[Row] = [{}, {"step": 1, "traces": 3}]
    for odd in (*odds, {"step": None, "completion": "a", "score": {}}):
        with pytest.raises(RowError, match=r".+"):
            rows(identity, odd)


PLAIN: Row = {"step": 1, "prompt": "q", "response": "a", "reward": 1.0}


def plain(**changes: Any) -> Row:
    return rows("plain", {**PLAIN, **changes})[0]


TOKENS = {"response_tokens": ["a", "b", "c"], "logprobs": [-0.5] * 3}


def turn(**changes: Any) -> Row:
    return {"role": "assistant", "text": "t", **changes}


@pytest.mark.parametrize(
    "spans", [[[0, 2], [1, 3]], [[0, 4]], [[2, 1]], [[1.0, 2]], ["01"], [[-1, 2]]]
)
def test_spans_that_overlap_or_leave_the_response_are_left_out(spans: list[Any]) -> None:
    row = plain(**TOKENS, turns=[turn(tokens=span) for span in spans])
    assert normalize_turns_and_mask(row) == ["bad_spans"]
    assert [t["text"] for t in row["turns"]] == ["t"] * len(spans)
    assert not any("tokens" in t for t in row["turns"])


def test_a_call_whose_arguments_are_no_json_is_shown_as_it_is() -> None:
    calls = [{"function": {"name": "calc", "arguments": "{no json"}}]
    row = plain(response=[{"role": "assistant", "tool_calls": calls}])
    assert normalize_turns_and_mask(row) == []
    (said,) = row["turns"]
    assert (said["text"], said["calls"]) == ("", [{"name": "calc", "arguments": "{no json"}])
    assert row["response"] == "calc({no json)"


def test_fields_that_nobody_reads_are_named_wherever_they_lie() -> None:
    def unread(identity: str, obj: Row, name: str) -> dict[str, str]:
        return RowReader(format_by_id(identity)).preview([obj], name).unread

    more = {"logprob": [-0.5], "info": {"a": 1}, "note": "x" * 300, "empty": [], "gone": None}
    assert unread("plain", PLAIN | more, "log.jsonl") == {
        "logprob": "list", "info": "object", "note": "text",
    }  # fmt: skip
    step = {"observation": "q", "model_response": "a", "reward": 0.5, "mystery": 1}
    obj = {"training_step": 1, "trajectories": [{"reward": 1.0, "steps": [step, step]}]}
    left = unread("rllm", {**obj, "artifacts": {"x": 1}}, "episode.json")
    assert left["artifacts"] == "object"
    assert left["trajectories.steps.mystery"] == "number"
    assert not any(name.endswith("model_response") for name in left)
    columns = {"step": ["1"], "prompt": ["p"], "completion": ["c"], "R": [1.0], "trace": [{"a": 1}]}
    assert unread("swift", columns, "completions.jsonl") == {"trace": "object"}


def test_token_arrays_beside_trajectories_are_read_in_blocks(tmp_path: Path) -> None:
    path, arrays = tmp_path / "rollout_1.parquet", {"loss_mask": [[1]] * 70}
    table = {"sample_index": range(70), "tokens": [[7, i] for i in range(70)], **arrays}
    more = {"response_length": [1] * 70, "rollout_log_probs": [[-0.5]] * 70}
    pq.write_table(pa.table({**table, **more}), path)
    reader = RowReader(slime.Slime(FileStamp.of(path)))
    slime._token_rows.cache_clear()
    for i in range(69, -1, -1):
        sample = {"sample_index": i, "prompt": "q", "messages": [], "status": "completed"}
        (row,) = reader(sample, Where("1.jsonl"))
        assert (row["prompt_token_ids"], row["token_ids"]) == ([7], [i])
    assert slime._token_rows.cache_info().misses == 3  # decodes of a row group, formerly 70
