"""Other frameworks' logs through both passes: lines, columns in a line, documents, parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlreport.errors import UsageError
from rlreport.options import ReadOptions
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from tests.reading import kinds, read, row, write


def responses(scan: Scan, options: ReadOptions | None = None) -> list[str]:
    """The response texts as the second pass reads them, in the order of the table."""
    rows = range(len(scan.responses))
    found = scan.rollouts.read(rows)
    return [rollout.response for rollout in found]


def verl(step: int, text: str, score: object) -> dict[str, object]:
    """A row as verl dumps it."""
    return {"input": "2+2?", "output": text, "gts": "4", "score": score, "step": step, "acc": True}


def test_a_byte_order_mark_is_no_part_of_another_frameworks_first_row(tmp_path: Path) -> None:
    rows = [verl(1, text, 0.5) for text in ("a", "b")]
    scan = read(write(tmp_path / "1.jsonl", [b"\xef\xbb\xbf", *rows]))
    assert responses(scan) == ["a", "b"]
    assert scan.prompt_texts() == ["2+2?"]


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


@pytest.mark.parametrize("workers", [1, 2])
def test_a_misspelt_field_is_named_in_one_note(tmp_path: Path, workers: int) -> None:
    for name in ("a", "b"):
        rows = [row(i, logprob=[-0.5], meta={"a": 1}) for i in range(3)]
        write(tmp_path / f"{name}.jsonl", rows)
    scan = read_logs([tmp_path], ReadOptions(workers=workers))
    (said,) = [note.text for note in scan.notes if note.kind == "not_taken"]
    assert said == "unrecognized fields: logprob (list), meta (object)"
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
