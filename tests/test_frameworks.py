"""Dumps that the frameworks' own code wrote (``tests/data/frameworks``): every figure is checked
against what was given to that code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rlreport.figures.metadata import normalize_turns_and_mask
from rlreport.formats import RowReader, Where, beside, detect
from rlreport.formats.containers import container_of, iterate
from rlreport.read.tables import Scan
from rlreport.system.stores import ZstdFile
from tests.reading import kinds, read

DUMPS = Path(__file__).parent / "data" / "frameworks"

Row = dict[str, Any]


def objects_of(path: Path) -> list[Row]:
    if container_of(path.name) == "lines":
        with path.open("rb") as file:
            data = ZstdFile(file).read() if path.suffix == ".zst" else file.read()
        return [json.loads(line) for line in data.splitlines()]
    return [obj for _, obj in iterate(path, container_of(path.name) or "")]


def rows_of(root: Path) -> list[Row]:
    """The canonical rows of every log under ``root``, files by name."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    rows: list[Row] = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        objects = objects_of(path)
        found = detect(name, objects)
        form = found and beside(found.format, str(path), frozenset(paths))
        if not form or isinstance(form, str):
            continue
        reader = RowReader(form)
        for i, obj in enumerate(objects):
            made = list(reader(obj, Where(name, i + 1, i)))
            assert [normalize_turns_and_mask(row) for row in made] == [[]] * len(made)
            rows += made
    return rows


def note(scan: Scan, kind: str) -> str:
    return next(note.text for note in scan.notes if note.kind == kind)


def sampled(row: Row, name: str) -> list[float]:
    return [v for v, own in zip(row[name], row["response_mask"], strict=True) if own]


def by_step(scan: Scan, column: str = "reward") -> dict[int, float]:
    judged = scan.responses[scan.responses["validation"] == 0]
    means = judged.groupby("step")[column].mean()
    return dict(zip(means.index.tolist(), means.tolist(), strict=True))


# TRL


def trl_columns(step: int) -> tuple[dict[str, list[Any]], Row]:
    table = pq.read_table(DUMPS / "trl" / "completions" / f"completions_{step:05d}.parquet")
    history = json.loads((DUMPS / "trl" / "trainer_state.json").read_text())["log_history"]
    return table.to_pydict(), {k: v for e in history if e["step"] == step for k, v in e.items()}


def test_trl_rewards_are_those_that_its_trainer_names() -> None:
    scan = read(DUMPS / "trl")
    table, logged = trl_columns(1)
    parts = np.array([table["length_reward"], table["letter_reward"]], dtype=float)
    assert scan.reward_parts == ["length_reward", "letter_reward"] or scan.reward_parts == [
        "letter_reward", "length_reward",
    ]  # fmt: skip
    assert by_step(scan) == {1: pytest.approx(np.nansum(parts, axis=0).mean())}
    assert by_step(scan)[1] == pytest.approx(logged["reward"])
    assert scan.extras["temperature_reward_hint"].tolist() == [0.5] * 12
    assert "format" not in kinds(scan)


def test_trl_evaluations_are_a_split_of_their_own() -> None:
    scan = read(DUMPS / "trl", split="val")
    assert by_step(scan) == {
        step: pytest.approx(trl_columns(step)[1]["eval_reward"]) for step in (2, 3)
    }
    both = read(DUMPS / "trl")
    beside = both.responses[both.responses["validation"] == 1]
    assert beside.groupby("step")["reward"].mean().to_dict() == by_step(scan)
    assert note(both, "split").startswith(
        "responses of split val are shown, but only those of train"
    )


def test_trl_without_its_state_says_what_was_taken(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl" / "completions", tmp_path / "completions")
    scan = read(tmp_path)
    assert len(scan.responses) == 12
    assert note(scan, "format").endswith(
        "`length_reward`, `letter_reward`, `temperature_reward_hint`"
    )


def test_trl_says_where_its_mean_is_another(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl", tmp_path / "run")
    state = tmp_path / "run" / "trainer_state.json"
    text = json.loads(state.read_text())
    for entry in text["log_history"]:
        if "reward" in entry:
            entry["reward"] = 9.0
    state.write_text(json.dumps(text))
    assert "the trainer's is 9" in note(read(tmp_path), "format")


def test_rollouts_given_to_write_are_read_in_place_of_trl_s(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trl", tmp_path / "run")
    (tmp_path / "run" / "rollouts").mkdir()
    own = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
    (tmp_path / "run" / "rollouts" / "rank_0.jsonl").write_text(json.dumps(own) + "\n")
    assert len(read(tmp_path).responses) == 1
    assert len(read(tmp_path / "run" / "completions", split="val").responses) == 8


# verifiers and prime-rl


@pytest.mark.parametrize("folder", ["eval", "prime"])
def test_verifiers_judges_and_failures_are_no_responses(folder: str) -> None:
    scan = read(DUMPS / "verifiers" / folder)
    assert by_step(scan) == {3: 0.5}
    assert scan.failed == {3: 1}
    assert len(scan.responses) == 2
    assert scan.responses["finished"].tolist() == [1.0, 0.0]
    assert scan.bad_count == 0
    counted = {n.kind: n.count for n in scan.notes if n.kind in ("untrained", "failed")}
    assert sum(counted.values()) == 3


def test_verifiers_token_figures_are_the_sampled_tokens_own() -> None:
    row = rows_of(DUMPS / "verifiers" / "eval")[0]
    assert row["token_ids"] == [4, 5, 6, 7, 8, 9]
    assert row["response_mask"] == [1, 1, 0, 0, 0, 1]
    assert sampled(row, "logprobs") == [-0.5, -1.5, -0.25]
    assert sampled(row, "sampler_logprobs") == [-0.5, -1.0, -0.25]
    assert sampled(row, "ref_logprobs") == [-1.0, -2.0, -0.5]
    assert sampled(row, "advantages") == [0.75] * 3
    assert row["entropy_mean"] == np.mean([0.5, 1.0, 0.0])
    scan = read(DUMPS / "verifiers" / "eval")
    log_ratio = np.array([-0.5, -1.5, -0.25]) - np.array([-1.0, -2.0, -0.5])
    assert scan.responses["kl_k1"].tolist() == pytest.approx([log_ratio.sum()] * 2)
    assert scan.responses["response_tokens"].tolist() == [3.0, 3.0]
    ratio = np.exp(np.abs([0.0, -0.5, 0.0])).mean()
    assert scan.responses["mismatch_ratio"].tolist() == pytest.approx([ratio] * 2)


def test_verifiers_turns_agents_versions_and_times() -> None:
    first, judge, cut, _, failed = rows_of(DUMPS / "verifiers" / "eval")
    call = {"name": "calc", "arguments": {"x": "2+2"}, "id": "c1"}
    assert first["turns"] == [
        {"role": "assistant", "text": "", "sampled": True, "thinking": "Use it.",
         "calls": [call], "seconds": 1.5, "tokens": [0, 2]},
        {"role": "tool", "text": "4", "sampled": False, "tool": "calc", "tokens": [2, 4]},
        {"role": "assistant", "text": "It is 4.", "sampled": True, "seconds": 1.5,
         "tokens": [4, 6]},
    ]  # fmt: skip
    assert (first["policy_version"], first["seconds"], first["split"]) == ([1, 2], 7.0, "train")
    assert (first["agent"], first["trainable"]) == ("solver", True)
    assert (judge["agent"], judge["trainable"]) == ("judge", False)
    assert (first["finish_reason"], cut["finish_reason"]) == ("agent_completed", "length")
    assert (failed["errors"], failed["trainable"]) == (["SandboxError: no box"], False)
    assert failed["prompt"] == "2+2?"


def test_prime_rl_reads_each_rollout_once_and_marks_what_was_trained() -> None:
    rows = rows_of(DUMPS / "verifiers" / "prime")
    assert [row.get("trained") for row in rows] == [True, False, False, False, None]
    effective = DUMPS / "verifiers" / "prime" / "rollouts" / "step_3" / "train" / "effective"
    assert by_step(read(effective)) == {3: 1.0}


# The others


def test_agilerl_keeps_agents_and_groups_apart() -> None:
    scan = read(DUMPS / "agilerl")
    assert by_step(scan) == {10: 0.5, 20: 0.5}
    assert scan.responses.groupby("step")["group"].nunique().tolist() == [2, 2]
    assert scan.extras["agent"].tolist()[:4] == ["agent 0", "agent 0", "agent 1", "agent 1"]
    assert "LOG TRUNCATED" in rows_of(DUMPS / "agilerl")[1]["response"]


def test_nemo_rl_messages_stay_with_their_group() -> None:
    single, multi = rows_of(DUMPS / "nemo_rl")[:2]
    assert (single["prompt"], multi["prompt"]) == ("2+2?", "2+2?")
    assert (single["response"], multi["response"]) == ("4.", "calc(2+2)\nIt is 5.")
    assert [turn["tokens"] for turn in multi["turns"]] == [[0, 1], [1, 3], [3, 5]]
    assert sampled(multi, "logprobs") == [-1.0, -0.5, -0.25]
    scan = read(DUMPS / "nemo_rl")
    assert by_step(scan) == {1: 0.5, 2: 0.75, 3: 0.5}
    judged = scan.responses[scan.responses["validation"] == 0]
    assert judged["response_tokens"].tolist() == [2.0, 3.0] * 3
    assert judged.groupby("step")["group"].nunique().tolist() == [1, 1, 1]
    assert by_step(read(DUMPS / "nemo_rl", split="val")) == {2: 1.0}


def test_nemo_rl_without_content_is_read_from_its_ids() -> None:
    rows = [row for row in rows_of(DUMPS / "nemo_rl") if row["step"] == 3]
    assert [(row["prompt"], row["response"]) for row in rows] == [
        ("#1 #2 #3", "#4 #5"), ("#1 #2 #3", "#6 #9 #4"),
    ]  # fmt: skip


def test_skyrl_counts_trajectories_and_not_their_turns(tmp_path: Path) -> None:
    folder = DUMPS / "skyrl" / "dumped_evals"
    scan = read(folder)
    # At step 6 prompts do not repeat what came before: the index tells trajectories.
    for step in (4, 6):
        kept = folder / f"global_step_{step}_evals" / "aggregated_results.jsonl"
        truth = json.loads(kept.read_text())["eval/calc/avg_score"]
        assert by_step(scan)[step] == pytest.approx(truth) == pytest.approx(2 / 3)
    assert scan.responses.groupby("step").size().tolist() == [3, 3]
    assert scan.responses.loc[scan.responses["step"] == 4, "group"].nunique() == 1
    # Several samples of a prompt have its index, too: then the mean is that of rows.
    shutil.copytree(folder / "global_step_6_evals", tmp_path / "global_step_6_evals")
    means = tmp_path / "global_step_6_evals" / "aggregated_results.jsonl"
    means.write_text('{"eval/calc/avg_score": 0.4}')
    assert by_step(read(tmp_path)) == {6: pytest.approx(0.4)}
    first = rows_of(folder)[0]
    assert [(turn["sampled"], turn["text"]) for turn in first["turns"]] == [
        (True, "<assistant>4"), (False, "<tool>ok, 4"), (True, "<assistant>8"),
    ]  # fmt: skip
    assert by_step(read(folder / "eval_only")) == {0: 0.5}


def test_swift_megatron_and_ray() -> None:
    assert by_step(read(DUMPS / "swift" / "megatron")) == {0: 0.75, 1: 1.0}
    assert by_step(read(DUMPS / "swift" / "ray")) == {0: 0.5, 1: 0.75}


def test_roll_agentic() -> None:
    scan = read(DUMPS / "roll_agentic")
    assert by_step(scan) == {3: 0.5, 4: 0.5}
    assert scan.responses["finished"].tolist() == [1.0, 0.0] * 2
    row = rows_of(DUMPS / "roll_agentic")[1]
    assert row["errors"] == ["timeout"]
    assert (row["seconds"], row["group_id"], row["split"]) == (2.5, "math_0_3_7", "train")
    assert [turn["role"] for turn in row["turns"]] == ["assistant", "tool", "assistant"]
    assert row["turns"][1]["tool"] == "calc"
    assert "tools (text" in note(scan, "not_taken")


def test_areal_versions() -> None:
    rows = rows_of(DUMPS / "areal")
    assert [row["policy_version"] for row in rows] == [[2, 3], [2, 3], 3, 3]
    assert by_step(read(DUMPS / "areal")) == {3: (1 + 7 / 16 + 1 + 0.5) / 4}


def test_open_instruct_tool_errors() -> None:
    first, second = rows_of(DUMPS / "open_instruct")
    assert (first["errors"], "errors" in second) == (["no such file"], False)
    assert (first["num_calls"], first["tool_runtimes"]) == (1, 0.5)
    scan = read(DUMPS / "open_instruct")
    assert by_step(scan) == {3: 5.0}
    assert scan.responses["surprisal_mean"].tolist() == [0.375, 1.5]


def test_rllm_judges_are_apart_and_evaluations_are_read() -> None:
    train, evaluation = DUMPS / "rllm" / "episodes", DUMPS / "rllm" / "eval_results"
    scan = read(train)
    assert by_step(scan) == {5: 0.5}
    assert (len(scan.responses), scan.responses["group"].nunique()) == (2, 1)
    row = rows_of(train)[0]
    assert (row["agent"], row["seconds"], row["response"]) == (
        "solver", 1.5, "calc(2+2)\nIt is 4.",
    )  # fmt: skip
    assert [turn.get("reward") for turn in row["turns"]] == [0.0, None, 1.0]
    assert by_step(read(evaluation)) == {0: 0.5}
    tried = rows_of(evaluation)
    assert [(r["split"], r["policy_version"], r["group_id"]) for r in tried] == [
        ("eval", 4, "t1")
    ] * 2
    assert [row["logprobs"] for row in tried] == [[-0.5, -0.25]] * 2


def test_art_tool_calls_are_in_the_response() -> None:
    scan = read(DUMPS / "art")
    assert scan.responses["reward"].tolist() == [1.0, 0.0, 1.0, 0.25]
    assert scan.responses["group"].nunique() == 2
    row = rows_of(DUMPS / "art")[0]
    assert row["response"] == 'calc({"x": 4})\nIt is 4.'
    assert row["turns"][0]["calls"] == [{"name": "calc", "arguments": {"x": 4}, "id": "c1"}]


def test_verl_fields_that_nobody_reads_are_named() -> None:
    scan = read(DUMPS / "verl")
    assert by_step(scan) == {1: 0.5, 2: 1.0}
    assert note(scan, "not_taken") == "unrecognized fields: info (object, 4)"
    assert scan.extras["ref_reward_logged"].tolist() == [0.25, 0.5] * 2
    assert scan.responses["ref_reward"].isna().all()


@pytest.mark.parametrize("good", [1, 5])
def test_a_row_without_a_needed_key_costs_itself_alone(good: int, tmp_path: Path) -> None:
    rows = [{"input": "2+2?", "output": "4", "gts": "4", "score": 1.0, "step": 1}] * good
    rows.insert(0, {"input": "2+2?", "output": "4", "gts": "4", "step": 1})
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = read(tmp_path)
    assert len(scan.responses) == good
    assert [(bad.line, bad.reason) for bad in scan.bad_lines] == [(1, "no verl row: no `score`")]


def test_a_total_that_no_function_gave_is_no_number() -> None:
    assert rows_of(DUMPS / "verifiers" / "eval")[4]["reward"] is None


def test_of_a_session_of_verls_v1_trainer_the_last_output_counts() -> None:
    # The writer was given four sessions of two prompts, of which one has two outputs.
    for folder in ("rollouts", "validation"):
        scan = read(DUMPS / "verl_v1" / folder)
        assert by_step(scan) == {1: 0.5, 2: 0.5}
        assert len(scan.responses) == 8
        assert scan.responses["group"].nunique() == 4
        assert (
            note(scan, "earlier_rows")
            == "earlier rows of a rollout, excluded (only its last row counts)"
        )
    scan = read(DUMPS / "verl_v1")
    assert (scan.responses["validation"] == 1).sum() == 8
    assert [n.count for n in scan.notes if n.kind == "earlier_rows"] == [1] * 4


# Which version wrote it


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("verifiers/eval", "has `traces`: verifiers 0.4.1"),
        ("verl", "has `input`, `output`, `gts` and `score`: legacy trainer"),
        ("verl_v1", "has `input`, `output`, `gts` and `score`: V1 trainer"),
    ],
)
def test_the_reason_names_the_version_of_the_writer(folder: str, reason: str) -> None:
    assert {str(file.why) for file in read(DUMPS / folder).files} == {reason}
