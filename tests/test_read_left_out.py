"""Rows that are left out leave nothing behind, and what is left out of the sample is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlreport
from rlreport.errors import UnusableInputError
from rlreport.options import ReadOptions
from rlreport.read.logs import read_logs
from tests.reading import kinds, read, row, tokens, write


def failed(step: int) -> dict[str, object]:
    return row(step, response="", reward=None, errors=["timeout"])


def test_failed_rollouts_that_a_restart_logged_again_are_not_counted(tmp_path: Path) -> None:
    first = [row(step) if n else failed(step) for step in range(6) for n in range(4)]
    again = [row(step) for step in range(3, 8) for _ in range(4)]
    path = write(tmp_path / "a.jsonl", [*first, *again])
    assert read(path, restarts="last").failed == {0: 1, 1: 1, 2: 1}
    assert read(path).failed == dict.fromkeys(range(6), 1)


def test_of_the_rows_of_a_rollout_the_last_of_its_file_and_step_counts(tmp_path: Path) -> None:
    def rows(rank: int) -> list[dict[str, object]]:
        ids = ["a", "a", "b", 7, "a", 7, None, None]
        return [
            row(step, reward=10.0 * rank + i, rollout_id=one)
            for step in (0, 1)
            for i, one in enumerate(ids)
        ]

    for rank in (0, 1):
        write(tmp_path / f"rank_{rank}.jsonl", rows(rank))
    scan = read(tmp_path)
    last = [2.0, 4.0, 5.0, 6.0, 7.0]
    for _, step in scan.responses.groupby("step"):
        assert step["reward"].tolist() == [*last, *(10 + one for one in last)]
    noted = [note for note in scan.notes if note.kind == "earlier_rows"]
    assert [(note.file, note.count) for note in noted] == [("rank_0.jsonl", 6), ("rank_1.jsonl", 6)]
    assert [file.rows for file in scan.files] == [10, 10]


def test_files_count_the_responses_that_are_kept(tmp_path: Path) -> None:
    lines = [row(step) for step in (0, 1, 2, 1, 2, 3)]
    scan = read(write(tmp_path / "a.jsonl", lines), restarts="last")
    assert [file.rows for file in scan.files] == [len(scan.responses)] == [4]


def test_columns_of_rows_that_are_left_out_take_no_room(tmp_path: Path) -> None:
    many = {f"a{i:02}": 1.0 for i in range(64)}
    lines = [row(0), row(1, **many), row(2), row(1), row(2), row(3)]
    for line in lines:
        line["zscore"] = 0.5
    scan = read(write(tmp_path / "a.jsonl", lines), restarts="last")
    assert list(scan.extras) == ["zscore"]
    assert "many_extras" not in kinds(scan)


def test_one_response_with_tokens_does_not_hide_the_words_of_the_others(tmp_path: Path) -> None:
    lines = [row(step, response="one two three four") for step in range(3) for _ in range(4)]
    lines[5] = tokens("a", "b", "c", step=1)
    scan = read(write(tmp_path / "a.jsonl", lines))
    assert scan.ngrams is not None
    assert (scan.ngrams.unit, len(scan.ngrams.rows)) == ("word", 11)
    assert {note.kind: note.count for note in scan.notes} == {"mixed_units": 1}
    # Every response counts for the distinct-2 of its step, by its own units.
    assert np.isfinite(scan.responses["distinct_2"]).all()
    assert scan.every is not None
    assert len(scan.every.rows) == 12


def test_responses_that_count_in_part_are_noted(tmp_path: Path) -> None:
    lines = [row(0, response="w " * 3000), row(0, response="w " * 2000)]
    scan = read(write(tmp_path / "a.jsonl", lines))
    assert {note.kind: note.count for note in scan.notes} == {"shortened": 1}


def test_validation_outside_the_sample_does_not_make_figures_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.choice.MAX_SAMPLED", 6)
    lines = [row(0, split=split) for split in ("train", "train", "val", "val") for _ in range(3)]
    scan = read(write(tmp_path / "a.jsonl", lines))
    assert (scan.sampled, scan.sampled_of, len(scan.responses)) == (6, 6, 12)


def test_names_of_unrecognized_fields_are_redacted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(step, SECRETLIST=["a"]) for step in range(5)])
    rlreport.build(path, tmp_path / "out", redact="names", workers=1)
    held = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert not [file for file in held if b"SECRETLIST" in file.read_bytes()]


def test_a_log_without_responses_says_why(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, trainable=False)] * 3)
    with pytest.raises(UnusableInputError, match="3 rows of agents that are not trained"):
        read_logs([path], ReadOptions(workers=1))
