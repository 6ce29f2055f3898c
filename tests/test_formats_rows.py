"""Every framework's log becomes canonical rows with the right figures, quirks included."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlreport.fields import FIELDS, Field
from rlreport.figures.metadata import normalize_turns_and_mask
from rlreport.formats import RowError, RowReader, Where, detect, format_by_id
from rlreport.formats.containers import container_of, iterate
from rlreport.formats.trl import repeated_files
from tests.format_logs import ANSWERS, QUESTIONS, STEPS, WRITERS, reward_of, samples

Row = dict[str, Any]
NO_REWARD = {"prime_rl_tokens"}
NO_TEXT = {"prime_rl_tokens", "open_instruct"}


def objects_of(path: Path) -> list[tuple[int, Row]]:
    if container_of(path.name) == "lines":
        return list(enumerate(map(orjson.loads, path.read_bytes().splitlines())))
    return list(iterate(path, container_of(path.name) or ""))


def rows_of(root: Path, split: str | None = None) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or container_of(name) is None:
            continue
        objects = objects_of(path)
        found = detect(name, [obj for _, obj in objects])
        if found is None or (split and found.format.split(name) != split):
            continue
        read = RowReader(found.format)
        for index, obj in objects:
            rows += read(obj, Where(name, index + 1, index))
    return rows


def rows(identity: str, obj: Row, name: str = "log.jsonl") -> list[Row]:
    return list(RowReader(format_by_id(identity))(obj, Where(name, 1)))


@pytest.fixture
def logged(tmp_path: Path) -> Callable[[str], list[Row]]:
    def write_and_read(folder: str) -> list[Row]:
        WRITERS[folder][1](tmp_path)
        return rows_of(tmp_path, split="val" if folder == "verl" else None)

    return write_and_read


@pytest.mark.parametrize("folder", sorted(set(WRITERS) - {"nemo_rl", "verifiers_old"}))
def test_each_format_yields_its_steps_rewards_and_texts(
    folder: str, logged: Callable[[str], list[Row]]
) -> None:
    read = logged(folder)
    assert sorted(row["step"] for row in read) == sorted(step for step, _, _ in samples())
    if folder in NO_REWARD:
        assert all(math.isnan(row["reward"]) for row in read)
    else:
        expected = sorted(round(reward_of(*sample), 9) for sample in samples())
        assert sorted(round(row["reward"], 9) for row in read) == expected
    for row in read:
        if folder not in NO_TEXT:
            assert any(question in row["prompt"] for question in QUESTIONS)
            assert row["response"].strip(".").startswith((*ANSWERS, "5"))
        tokens = row.get("response_tokens")
        for name in ("logprobs", "sampler_logprobs"):
            assert tokens is None or name not in row or len(row[name]) <= len(tokens)


GROUPED = ("verl_v1", "verifiers", "areal", "roll", "open_instruct", "rllm", "art")


@pytest.mark.parametrize("folder", GROUPED)
def test_groups_hold_the_responses_to_one_prompt(
    folder: str, logged: Callable[[str], list[Row]]
) -> None:
    prompts: dict[str, set[str]] = {}
    for row in logged(folder):
        prompts.setdefault(row["group_id"], set()).add(row["prompt"])
    assert len(prompts) == len(QUESTIONS)
    assert all(len(of_group) == 1 for of_group in prompts.values())


def test_prompts_of_messages_keep_their_turns(logged: Callable[[str], list[Row]]) -> None:
    assert {tuple(row["prompt_turns"][0]) for row in logged("art")} == {
        ("user", q) for q in QUESTIONS
    }


def test_one_advantage_for_a_response_holds_for_each_token(
    logged: Callable[[str], list[Row]],
) -> None:
    assert {tuple(row["advantages"]) for row in logged("open_instruct")} == {(0.7, 0.7)}


def test_nemo_rl_train_and_val_are_apart(tmp_path: Path) -> None:
    WRITERS["nemo_rl"][1](tmp_path)
    train, val = rows_of(tmp_path, "train"), rows_of(tmp_path, "val")
    assert len(train) == len(val) == len(list(samples()))
    assert all("logprobs" in row for row in train)
    assert not any("logprobs" in row for row in val)


def test_nemo_rl_takes_the_filtered_rewards(tmp_path: Path) -> None:
    WRITERS["nemo_rl"][1](tmp_path)
    assert max(row["reward"] for row in rows_of(tmp_path, "train")) < 99


def test_nemo_rl_step_is_only_in_the_path(tmp_path: Path) -> None:
    WRITERS["nemo_rl"][1](tmp_path)
    assert {row["step"] for row in rows_of(tmp_path)} == set(STEPS)


def nemo(**changes: Any) -> Row:
    sample: Row = {
        "content": [["2+2?", "4"]], "rewards": [1.0], "input_lengths": [3],
        "token_ids": [[7, 8, 9, 0]], "token_loss_mask": [[1, 1, 1, 1]],
        "advantages": [[0.1, 0.2, 0.3, 0.0]], "generation_logprobs": [[0.0, -0.1, -0.2, 0.0]],
        "prev_logprobs": [[0.0, -0.3, -0.4, 0.0]], "idx": 0, **changes,
    }  # fmt: skip
    return rows("nemo_rl", sample, "train_data_step4.jsonl")[0]


def test_nemo_rl_drops_the_placeholder_at_position_0() -> None:
    row = nemo()
    assert row["logprobs"] == [-0.3, -0.4]
    assert row["sampler_logprobs"] == [-0.1, -0.2]
    assert row["response_tokens"] == ["#8", "#9"]


def test_nemo_rl_padding_is_cut_by_input_lengths() -> None:
    assert nemo(input_lengths=[2])["token_ids"] == [8]
    assert nemo(input_lengths=["2"])["token_ids"] == [8]


def test_nemo_rl_values_stringified_by_default_str() -> None:
    row = nemo(rewards=["0.5"], correct=["True"], loss=["tensor(0.25)"])
    assert (row["reward"], row["correct"], row["loss"]) == (0.5, True, 0.25)


def verl(**changes: Any) -> Row:
    base = {"input": "q", "output": "a", "gts": "4", "score": 1.0, "step": 5}
    return rows("verl", {**base, **changes}, "5.jsonl")[0]


def test_verl_values_stringified_by_default_str() -> None:
    row = verl(score="0.5", acc="True", overlong="False", overlong_reward="-0.25", pred="4")
    assert row["reward"] == 0.5
    assert (row["acc"], row["overlong"], row["pred"]) == (True, False, "4")
    assert row["reward_parts"] == {"overlong_reward": -0.25}


def test_verl_score_may_be_nan() -> None:
    assert math.isnan(verl(score=math.nan)["reward"])
    assert math.isnan(verl(score="nan")["reward"])


def test_verl_reward_that_differs_from_the_score_is_kept_beside_it() -> None:
    assert "reward_logged" not in verl(reward=1.0)
    assert verl(reward=0.25)["reward_logged"] == 0.25


def test_verl_extras_that_take_a_field_s_name_do_not_replace_it() -> None:
    assert verl(response="other", turns=3)["response"] == "a"
    assert verl(turns=3)["turns_logged"] == 3


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


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
@pytest.mark.parametrize("identity", sorted(FOREIGN))
def test_a_foreign_column_with_the_name_of_a_field_is_never_taken_for_it(
    identity: str, field: Field
) -> None:
    name, obj = field.name, FOREIGN[identity]
    if name in obj or name in ("step", "reward"):
        return  # the framework's own, or of the same meaning in every log
    path = "global_step_3_evals/x.jsonl" if identity == "skyrl" else "rollout/3/7.jsonl"
    (plain,) = rows(identity, obj, path)
    for value in (0.25, "other", True):
        if identity == "trl" and not isinstance(value, str):
            continue  # every further number of TRL's rows is a reward function's
        (row,) = rows(identity, {**obj, name: value}, path)
        assert row.pop(f"{name}_logged") == value
        assert row == plain


def test_verl_uid_without_a_suffix_is_a_group_of_its_own() -> None:
    assert verl(uid="3f2c_0_0")["group_id"] == "3f2c"
    assert verl(uid="my_run_uuid")["group_id"] == "my_run_uuid"


def test_verl_ground_truth_may_be_a_structure() -> None:
    assert verl(gts={"target": [1, 2]})["ground_truth"] == '{"target": [1, 2]}'


def test_verl_step_may_be_in_the_file_s_name_only() -> None:
    obj = {"input": "q", "output": "a", "gts": None, "score": 1}
    assert rows("verl", obj, "run/17.jsonl")[0]["step"] == 17


def trl(**changes: Any) -> Row:
    base: Row = {"step": 5, "prompt": "q", "completion": "a", "advantage": 0.7}
    return rows("trl", {**base, **changes}, "completions/completions_00005.parquet")[0]


def test_trl_total_is_the_sum_of_the_functions_that_judged() -> None:
    row = trl(accuracy_reward=1.0, format_reward=None, length=0.5, my_extra="4", n=3)
    assert row["reward"] == 1.5
    assert row["reward_parts"]["length"] == 0.5
    assert math.isnan(row["reward_parts"]["format_reward"])
    assert (row["my_extra"], row["n"], row["advantage"]) == ("4", 3, 0.7)


def test_trl_row_that_no_function_judged_has_no_reward() -> None:
    assert trl(accuracy_reward=None)["reward"] is None


def test_trl_logged_total_is_preferred() -> None:
    assert trl(reward=2.0, accuracy_reward=1.0)["reward"] == 2.0


def test_trl_conversations_are_read_as_text_and_turns() -> None:
    row = trl(
        prompt=[{"role": "user", "content": "2+2?"}],
        completion=[{"role": "assistant", "content": "4"}],
        right=1.0,
    )
    assert (row["prompt"], row["response"]) == ("2+2?", "4")
    assert row["prompt_turns"] == [["user", "2+2?"]]


def test_trl_step_may_be_in_the_file_s_name_only() -> None:
    assert trl(step=None, r=1.0)["step"] == 5


def test_trl_repeats_rows_under_a_new_step(tmp_path: Path) -> None:
    made = {"prompt": ["q"], "completion": ["a"], "right": [1.0], "advantage": [0.0]}
    logs = []
    for step, answer in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")):
        path = tmp_path / f"completions_{step:05d}.parquet"
        pq.write_table(pa.table({"step": [step], **made, "completion": [answer]}), path)
        logs.append((path.name, path))
    assert repeated_files(logs) == {
        "completions_00002.parquet": "completions_00001.parquet",
        "completions_00004.parquet": "completions_00003.parquet",
        "completions_00005.parquet": "completions_00003.parquet",
    }


def test_skyrl_sums_a_list_of_scores() -> None:
    obj = {
        "input_prompt": "q",
        "output_response": "a",
        "score": [0.25, 0.5],
        "stop_reason": "length",
    }
    row = rows("skyrl", obj, "global_step_8_evals/gsm8k.jsonl")[0]
    assert (row["reward"], row["step"], row["finish_reason"]) == (0.75, 8, "length")


def test_skyrl_evaluation_outside_training_is_one_step() -> None:
    obj = {"input_prompt": "q", "output_response": "a", "score": 1.0}
    assert rows("skyrl", obj, "eval_only/gsm8k.jsonl")[0]["step"] == 0


def test_prime_rl_keeps_sampler_and_trainer_logprobs_apart(
    logged: Callable[[str], list[Row]],
) -> None:
    row = logged("prime_rl_tokens")[0]
    assert row["logprobs"] == [-0.12, -0.3]
    assert row["sampler_logprobs"] == [-0.11, -0.3]
    assert row["entropy_mean"] == pytest.approx(0.4)
    assert (row["prompt"], row["response"]) == ("#17", "#19 #20")


def test_verifiers_total_is_score_times_weight(logged: Callable[[str], list[Row]]) -> None:
    row = logged("verifiers")[0]
    assert row["reward_parts"] == {"correct": pytest.approx(reward_of(1, 0, 0)), "style": 0.0}
    assert (row["token_ids"], row["logprobs"], row["advantages"]) == ([19], [-0.11], [0.7])
    assert (row["ground_truth"], row["finish_reason"]) == (ANSWERS[0], "done")


def test_a_response_is_what_was_sampled_and_tools_answers_are_turns() -> None:
    call = {"function": {"name": "calc", "arguments": "{}"}}
    nodes = [
        {"message": {"role": "user", "content": "2+2?"}, "sampled": False},
        {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "sampled": True},
        {"message": {"role": "tool", "content": "4"}, "sampled": False},
        {"message": {"role": "assistant", "content": "It is 4."}, "sampled": True},
    ]
    trace = {"nodes": nodes, "rewards": {"right": {"score": 1.0, "weight": None}}}
    row = rows("verifiers", {"traces": [trace], "run": {"work": {"step": 2}}})[0]
    assert row["prompt"] == "2+2?"
    assert row["response"] == "calc({})\nIt is 4."
    assert row["turns"] == [
        {"role": "assistant", "text": "", "sampled": True,
         "calls": [{"name": "calc", "arguments": {}}]},
        {"role": "tool", "text": "4", "sampled": False},
        {"role": "assistant", "text": "It is 4.", "sampled": True},
    ]  # fmt: skip
    assert (row["step"], row["reward"]) == (2, 1.0)


def test_verifiers_before_v1_is_a_report_of_one_step(tmp_path: Path) -> None:
    WRITERS["verifiers_old"][1](tmp_path)
    read = rows_of(tmp_path)
    assert {row["step"] for row in read} == {0}
    assert {row["finish_reason"] for row in read} == {"done", "length"}
    assert {row["group_id"] for row in read} == {"0", "1"}
    assert {row["correct"] for row in read} == {1.0}


def test_areal_step_is_the_folder_s_version() -> None:
    obj = {"task_id": 7, "prompt": "q", "completion": "a", "reward": 1, "head_version": 2,
           "tail_version": 3}  # fmt: skip
    assert rows("areal", obj, "rollout/12/7.jsonl")[0]["step"] == 12
    assert rows("areal", obj, "7.jsonl")[0]["step"] == 3


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(RowError, match=r"column `scores` has 1 values, `responses` has 2"):
        rows("roll", {"prompt": ["a", "b"], "responses": ["a", "b"], "scores": [1.0]})


def test_swift_columns_explode_and_sum_the_reward_functions(
    logged: Callable[[str], list[Row]],
) -> None:
    row = logged("swift")[0]
    assert set(row["reward_parts"]) == {"MathAccuracy", "Format"}
    assert (row["difficulty"], row["advantage"]) == (2.5, 0.7)


def test_open_instruct_responses_without_a_token_are_read() -> None:
    obj = {"step": 5, "prompt_tokens": [1], "response_tokens": [], "reward": 1.0}
    (row,) = rows("open_instruct", obj)
    assert (row["response"], row["token_ids"], row["reward"]) == ("", [], 1.0)


def test_rllm_solver_and_judge_are_groups_apart() -> None:
    step = {"observation": "q", "model_response": "a", "reward": 0.5}
    obj = {
        "training_step": 1, "task": {"question": "q"}, "task_hash": "t",
        "trajectories": [{"name": "solver", "reward": None, "steps": [step, step]},
                         {"name": "judge", "reward": 1.0, "steps": [step]}],
    }  # fmt: skip
    solver, judge = rows("rllm", obj)
    assert (solver["group_id"], judge["group_id"]) == ("t:solver", "t:judge")
    assert (solver["reward"], solver["response"], judge["reward"]) == (1.0, "a\na", 1.0)


def test_art_metrics_and_metadata_become_columns(logged: Callable[[str], list[Row]]) -> None:
    row = logged("art")[0]
    assert (row["duration"], row["id"]) == (1.2, 3)


def test_an_evaluation_without_steps_is_step_0() -> None:
    obj = {"prompt": "q", "response": "a", "reward": 1.0}
    found = detect("eval.jsonl", [obj])
    assert found is not None and "no step" in found.reason
    assert next(found.format.rows(obj, Where("eval.jsonl")))["step"] == 0


def test_native_rows_of_messages_are_read() -> None:
    obj = {
        "step": 1, "prompt": [{"role": "user", "content": "q"}],
        "response": [{"role": "assistant", "content": "a"}], "reward": 1.0,
    }  # fmt: skip
    found = detect("rank_0.jsonl", [obj])
    assert found is not None
    row = next(found.format.rows(obj, Where("rank_0.jsonl")))
    assert (row["prompt"], row["response"], row["prompt_turns"]) == ("q", "a", [["user", "q"]])


@pytest.mark.parametrize("identity", ["trl", "verl", "nemo_rl", "skyrl", "areal", "open_instruct",
                                      "roll", "swift", "rllm", "art", "verifiers",
                                      "prime_rl_tokens"])  # fmt: skip
def test_an_object_of_another_kind_costs_one_row(identity: str) -> None:
    odds: list[Row] = [{}, {"step": 1, "traces": 3}]
    for odd in (*odds, {"step": None, "completion": "a", "score": {}}):
        with pytest.raises(RowError, match=r".+"):
            rows(identity, odd)


def test_json_writers_nan_reaches_every_number(tmp_path: Path) -> None:
    path = tmp_path / "episode.json"
    path.write_text(json.dumps({"training_step": 1, "trajectories": [{"reward": math.nan}]}))
    ((_, obj),) = iterate(path, "json")
    assert math.isnan(rows("rllm", obj)[0]["reward"])


def plain(**changes: Any) -> tuple[Row, RowReader]:
    base: Row = {"step": 1, "prompt": "q", "response": "a", "reward": 1.0}
    reader = RowReader(format_by_id("plain"))
    return next(iter(reader({**base, **changes}, Where("log.jsonl", 1)))), reader


TOKENS = {"response_tokens": ["a", "b", "c"], "logprobs": [-0.5] * 3}


@pytest.mark.parametrize("mask", [[1, 0], [1, 0, 1, 1], [1, 0, 2], "110", [0.5, 1, 1]])
def test_a_mask_that_is_none_is_left_out_and_counted(mask: object) -> None:
    row, _ = plain(**TOKENS, response_mask=mask)
    assert normalize_turns_and_mask(row) == ["bad_mask"]
    assert "response_mask" not in row
    assert (row["logprobs"], normalize_turns_and_mask(row)) == ([-0.5] * 3, [])


def turn(**changes: Any) -> Row:
    return {"role": "assistant", "text": "t", **changes}


@pytest.mark.parametrize(
    "spans", [[[0, 2], [1, 3]], [[0, 4]], [[2, 1]], [[1.0, 2]], ["01"], [[-1, 2]]]
)
def test_spans_that_overlap_or_leave_the_response_are_left_out(spans: list[Any]) -> None:
    row, _ = plain(**TOKENS, turns=[turn(tokens=span) for span in spans])
    assert normalize_turns_and_mask(row) == ["bad_spans"]
    assert [t["text"] for t in row["turns"]] == ["t"] * len(spans)
    assert not any("tokens" in t for t in row["turns"])


@pytest.mark.parametrize("turns", [["hello"], [{"text": "no role"}], "hello", 3])
def test_turns_that_are_none_are_left_out_and_counted(turns: object) -> None:
    row, _ = plain(turns=turns)
    assert normalize_turns_and_mask(row) == ["bad_turns"]
    assert (row["response"], "turns" in row) == ("a", False)


def test_odd_turns_are_shown_as_they_are() -> None:
    image = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5_000_000}}
    ]
    calls = [{"function": {"name": "calc", "arguments": "{no json"}}]
    messages = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": image},
        *[{"role": "assistant", "content": str(i)} for i in range(10_000)],
    ]
    row, _ = plain(response=messages)
    assert normalize_turns_and_mask(row) == []
    assert row["turns"][0] == {
        "role": "assistant", "text": "", "sampled": True,
        "calls": [{"name": "calc", "arguments": "{no json"}],
    }  # fmt: skip
    assert (row["turns"][1]["text"], len(row["turns"])) == ("[image_url]", 10_002)
    assert row["response"].startswith("calc({no json)\n0\n1")


def test_fields_that_nobody_reads_are_named_wherever_they_lie() -> None:
    _, reader = plain(logprob=[-0.5], info={"a": 1}, note="x" * 300, empty=[], absent=None, n=1)
    assert reader.take_not_taken() == {
        "logprob": (1, "list"), "info": (1, "object"), "note": (1, "text"),
    }  # fmt: skip
    reader = RowReader(format_by_id("rllm"))
    step = {"observation": "q", "model_response": "a", "reward": 0.5, "mystery": 1}
    obj = {"training_step": 1, "trajectories": [{"reward": 1.0, "steps": [step, step]}]}
    list(reader({**obj, "artifacts": {"x": 1}}, Where("episode.json")))
    left = reader.take_not_taken()
    assert left["artifacts"] == (1, "object")
    assert left["trajectories.steps.mystery"] == (2, "number")
    assert not any(name.endswith("model_response") for name in left)
    columns = {"step": ["1"], "prompt": ["p"], "completion": ["c"], "R": [1.0], "trace": [{"a": 1}]}
    reader = RowReader(format_by_id("swift"))
    list(reader(columns, Where("completions.jsonl")))
    assert reader.take_not_taken() == {"trace": (1, "object")}


def test_nulls_that_parquet_adds_to_tool_arguments_are_dropped() -> None:
    call = {"function": {"name": "calc", "arguments": {"x": 1, "path": None}}}
    row = trl(
        completion=[{"role": "assistant", "content": "", "tool_calls": [call], "name": None}],
        right=1.0,
    )
    assert row["turns"][0]["calls"] == [{"name": "calc", "arguments": {"x": 1}}]
    assert row["response"] == 'calc({"x": 1})'
