"""Other frameworks' logs through both passes: lines, columns in a line, documents, parquet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlreport.display import fetch, prompt_texts
from rlreport.errors import UsageError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from tests.reading import kinds, read, row, write


def responses(scan: Scan, options: ReadOptions | None = None) -> list[str]:
    """The response texts as the second pass reads them, in the order of the table."""
    rows = range(len(scan.responses))
    found = fetch(scan.locations(), rows, options or ReadOptions(), FigureOptions())
    return [rollout.response for rollout in found]


def verl(step: int, text: str, score: object) -> dict[str, object]:
    """A row as verl dumps it."""
    return {"input": "2+2?", "output": text, "gts": "4", "score": score, "step": step, "acc": True}


def test_lines_of_another_framework(tmp_path: Path) -> None:
    for step in (1, 2):
        write(tmp_path / f"{step}.jsonl", [verl(step, f"{step}{i}", "0.5") for i in range(3)])
    scan = read(tmp_path)
    assert {file.format for file in scan.files} == {"verl"}
    assert scan.responses["step"].tolist() == [1, 1, 1, 2, 2, 2]
    assert responses(scan) == ["10", "11", "12", "20", "21", "22"]
    assert prompt_texts(scan, ReadOptions()) == ["2+2?"]
    assert scan.extras["acc"].tolist() == [1.0] * 6


def test_a_byte_order_mark_is_no_part_of_another_frameworks_first_row(tmp_path: Path) -> None:
    rows = [verl(1, text, 0.5) for text in ("a", "b")]
    scan = read(write(tmp_path / "1.jsonl", [b"\xef\xbb\xbf", *rows]))
    assert responses(scan) == ["a", "b"]
    assert prompt_texts(scan, ReadOptions()) == ["2+2?"]


def test_a_line_that_holds_columns_gives_several_rows(tmp_path: Path) -> None:
    line = {
        "global_step": [3, 3], "id": ["q", "q"], "prompt": ["2+2?", "2+2?"], "tag": ["m", "m"],
        "ground_truth": ["4", "4"], "responses": ["4", "5"], "scores": [1.0, 0.0],
    }  # fmt: skip
    scan = read(write(tmp_path / "rollout_dump_data.step_3.jsonl", [line, line]))
    assert scan.responses[["line", "sub"]].to_numpy().tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
    assert responses(scan) == ["4", "5", "4", "5"]


def test_parquet_is_read_in_both_passes(tmp_path: Path) -> None:
    folder = tmp_path / "completions"
    folder.mkdir()
    for step in (5, 10):
        frame = pd.DataFrame(
            {
                "step": [step] * 4,
                "prompt": ["2+2?"] * 4,
                "completion": [f"{step}-{i}" for i in range(4)],
                "accuracy_reward": [1.0, 0.0, 1.0, 0.0],
                "format_reward": [0.5, np.nan, 0.5, 0.5],
                "advantage": [0.7, -0.7, 0.7, -0.7],
            }
        )
        frame.to_parquet(folder / f"completions_{step:05}.parquet")
    scan = read(tmp_path)
    assert {file.format for file in scan.files} == {"trl"}
    assert scan.reward_parts == ["accuracy_reward", "format_reward"]
    assert responses(scan)[:2] == ["5-0", "5-1"]
    assert len(scan.responses) == 8


def test_documents_that_are_not_lines(tmp_path: Path) -> None:
    rows = [row(i, response=f"r{i}") for i in range(3)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    scan = read(tmp_path)
    assert responses(scan) == ["r0", "r1", "r2"]


def test_fields_named_by_the_user(tmp_path: Path) -> None:
    rows = [{"q": "Q", "out": {"text": f"a{i}"}, "points": i} for i in range(3)]
    path = write(tmp_path / "step_7.jsonl", rows)
    options = {
        "mapping": {"prompt": "q", "response": "out.text", "reward": "points"},
        "step_from_path": r"step_(\d+)",
    }
    scan = read(path, **options)
    assert scan.responses["step"].tolist() == [7, 7, 7]
    assert scan.responses["reward"].tolist() == [0.0, 1.0, 2.0]
    assert responses(scan) == ["a0", "a1", "a2"]


def test_validation_stands_beside_training_and_further_splits_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "train_rows.jsonl", [row(1)])
    write(tmp_path / "val_rows.jsonl", [row(1), row(2)])
    write(tmp_path / "eval_rows.jsonl", [row(1)] * 3)
    scan = read(tmp_path)
    assert scan.responses["validation"].tolist() == [0, 1, 1]
    assert scan.extras["split"].tolist() == ["train", "val", "val"]
    assert {"split", "other_split"} <= kinds(scan)
    only = read(tmp_path, split="val").responses
    assert only["validation"].tolist() == [0, 0]
    with pytest.raises(UsageError, match="train, val"):
        read(tmp_path, split="test")


def test_rows_that_name_their_split_are_read_whatever_the_path_says(tmp_path: Path) -> None:
    rows = [row(1) | {"split": "train"}, row(1) | {"split": "val"}]
    scan = read(write(tmp_path / "valid_run.jsonl", rows))
    assert scan.responses["validation"].tolist() == [0, 1]
    assert kinds(scan) == {"split"}


def test_an_odd_entry_of_columns_costs_only_itself(tmp_path: Path) -> None:
    line = {"step": ["3", None], "prompt": ["p", "p"], "completion": ["4", "5"], "Acc": [1.0, 0.0]}
    good = {**line, "step": ["3", "3"]}
    scan = read(write(tmp_path / "completions.jsonl", [good, line]))
    assert {file.format for file in scan.files} == {"swift"}
    assert (len(scan.responses), [bad.line for bad in scan.bad_lines]) == (3, [2])


def test_a_format_that_fails_is_a_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("surprise")

    path = write(tmp_path / "1.jsonl", [verl(1, "a", 1.0)] * 2)
    monkeypatch.setattr("rlreport.formats.simple.Verl.rows", fail)
    write(tmp_path / "native.jsonl", [row(1)])
    scan = read(tmp_path)
    assert [bad.line for bad in scan.bad_lines if bad.file == path.name] == [1, 2]
    assert "KeyError('surprise')" in scan.bad_lines[0].reason


def test_ids_without_strings_are_shown_as_numbers(tmp_path: Path) -> None:
    line = {
        "step": 3, "sample_idx": 0, "prompt_idx": 0, "prompt_tokens": [17, 10],
        "response_tokens": [19, 20], "reward": 10.0, "advantage": 0.7, "finish_reason": "stop",
        "dataset": "gsm8k", "ground_truth": [19], "request_info": None, "logprobs": [-0.1, -0.2],
    }  # fmt: skip
    scan = read(write(tmp_path / "run_rollouts_000000.jsonl", [line]))
    (rollout,) = fetch(scan.locations(), [0], ReadOptions(), FigureOptions())
    assert rollout.raw_tokens == ["#19", "#20"]
    assert scan.responses["finished"].tolist() == [1.0]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_misspelt_field_is_named_in_one_note(tmp_path: Path, workers: int) -> None:
    for name in ("a", "b"):
        rows = [row(i, logprob=[-0.5], meta={"a": 1}) for i in range(3)]
        write(tmp_path / f"{name}.jsonl", rows)
    scan = read_logs([tmp_path], ReadOptions(workers=workers))
    (said,) = [note.text for note in scan.notes if note.kind == "not_taken"]
    assert said == "unrecognized fields: logprob (list, 6), meta (object, 6)"
    assert read(tmp_path, strict=True).bad_count == 0


def test_rows_of_another_split_than_their_file_s_stand_beside(tmp_path: Path) -> None:
    def episode(kind: str) -> dict[str, object]:
        node = {"message": {"role": "assistant", "content": kind}, "sampled": True}
        trace = {"nodes": [node], "rewards": {"r": {"score": 1.0}}}
        return {"run": {"work": {"type": kind, "step": 1}}, "traces": [trace], "task": {}}

    path = write(tmp_path / "traces.jsonl", [episode("train"), episode("eval"), episode("train")])
    scan = read(path)
    assert responses(scan) == ["train", "train", "eval"]
    assert scan.responses["validation"].tolist() == [0, 0, 1]
    assert responses(read(path, split="eval")) == ["eval"]
    assert kinds(read(path, split="train")) == {"other_split_rows"}
