"""Runs that were restarted log some steps twice; rows that are left out leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.errors import UnusableInputError
from rlreport.options import ReadOptions
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from rlreport.summarise import step_bigrams
from tests.reading import kinds, read, row, token_figures, tokens, write

OLDER = [
    tokens("old", "x", step=step, turns=[{"role": "assistant", "text": "a", "sampled": True},
                                         {"role": "tool", "text": "b", "sampled": False}])
    for step in range(10)
]  # fmt: skip
NEWER = [tokens("new", "y", step=step) for step in range(5, 15)]


def steps_of(scan: Scan, split: int) -> list[int]:
    return scan.responses.loc[scan.responses["validation"] == split, "step"].tolist()


def test_validation_of_an_earlier_step_is_no_restart(tmp_path: Path) -> None:
    rows = [row(step) for step in range(20)]
    rows[10:10] = [row(5, split="val"), row(5, split="val")]
    path = write(tmp_path / "a.jsonl", rows)
    for restarts in ("all", "last"):
        scan = read(path, restarts=restarts)
        assert "restart" not in kinds(scan)
        assert steps_of(scan, 0) == list(range(20))
        assert steps_of(scan, 1) == [5, 5]


def test_validation_that_a_restart_logged_again_counts_once(tmp_path: Path) -> None:
    def attempt(steps: range, reward: float) -> list[dict]:
        own = [row(step, reward=reward) for step in steps]
        own[1:1] = [row(5, split="val", reward=reward)]
        return own

    path = write(tmp_path / "a.jsonl", [*attempt(range(5, 15), 0.0), *attempt(range(5, 20), 1.0)])
    scan = read(path, restarts="last")
    assert steps_of(scan, 0) == list(range(5, 20))
    assert steps_of(scan, 1) == [5]
    assert set(scan.responses["reward"]) == {1.0}


@pytest.mark.parametrize("lines", ["a.jsonl", "a.jsonl.gz"])
def test_what_a_restart_replaced_is_in_no_sum(lines: str, tmp_path: Path) -> None:
    import gzip

    def written(name: str, rows: list[dict]) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder / "a.jsonl", rows)
        if lines.endswith(".gz"):
            path.with_name(lines).write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        return folder

    restarted = read(written("restarted", OLDER + NEWER), restarts="last")
    alone = read(written("alone", OLDER[:5] + NEWER))
    assert "restart" in kinds(restarted)
    for name in ("positions", "tools"):
        pd.testing.assert_frame_equal(getattr(restarted, name), getattr(alone, name))
    pd.testing.assert_frame_equal(token_figures(restarted), token_figures(alone))
    pd.testing.assert_frame_equal(
        step_bigrams(restarted.ngrams, restarted.responses),
        step_bigrams(alone.ngrams, alone.responses),
    )
    places = ["offset", "line", "line_hash"]
    left = restarted.responses.drop(columns=places, errors="ignore")
    pd.testing.assert_frame_equal(left, alone.responses.drop(columns=places, errors="ignore"))
    assert restarted.fields == alone.fields


def test_a_cached_scan_with_the_replaced_rows_is_not_taken_for_one_without(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", OLDER + NEWER)
    rows = {
        restarts: len(read(path, restarts=restarts, cache=str(tmp_path / "kept")).responses)
        for restarts in ("all", "last", "all", "last")
    }
    assert rows == {"all": 20, "last": 15}


def attempt(folder: Path, name: str, steps: range, rows: int = 4, **fields: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, [row(s, prompt=f"{s} {i}", **fields) for s in steps for i in range(rows)])


@pytest.mark.parametrize(
    "names",
    [
        ("attempt_1.jsonl", "attempt_2.jsonl"),
        ("a/rank_0.jsonl", "a/rank_1.jsonl", "b/rank_0.jsonl", "b/rank_1.jsonl"),
    ],
)
def test_a_file_per_attempt_is_noted_and_the_last_one_can_be_chosen(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    half = len(names) // 2
    for i, name in enumerate(names):
        steps = range(61) if i < half else range(50, 101)
        attempt(tmp_path, name, steps, reward=float(i >= half))
    scan = read(tmp_path)
    (note,) = (note for note in scan.notes if note.kind == "restart")
    assert note.text == (
        "steps 50 to 60 were logged again in later files, as after a restart; all rows kept "
        "(--restarts last leaves out these rows)"
    )
    assert (note.count, note.file) == (11 * 4 * half, names[0])
    last = read(tmp_path, restarts="last")
    assert len(scan.responses) - len(last.responses) == note.count
    assert set(last.responses.loc[last.responses["step"] >= 50, "reward"]) == {1.0}
    assert set(last.responses["step"]) == set(range(101))
    assert "older rows left out" in next(n.text for n in last.notes if n.kind == "restart")


def test_an_attempt_that_ended_within_a_step_is_noted(tmp_path: Path) -> None:
    attempt(tmp_path, "a.jsonl", range(10), rows=8)
    with (tmp_path / "a.jsonl").open("ab") as log:
        log.write(write(tmp_path / "part", [row(10, prompt="10 0")]).read_bytes())
    (tmp_path / "part").unlink()
    attempt(tmp_path, "b.jsonl", range(10, 20), rows=8)
    (note,) = (note for note in read(tmp_path).notes if note.kind == "restart")
    assert (note.count, note.file) == (1, "a.jsonl")
    assert "steps 10 were logged again" in note.text


@pytest.mark.parametrize(
    "files",
    [
        {"rank_0.jsonl": range(61), "rank_1.jsonl": range(60)},
        {"worker_0.jsonl": range(60), "worker_3.jsonl": range(30, 100)},
        {"x.jsonl": range(60), "y.jsonl": range(60)},
        {"math.jsonl": range(100), "code.jsonl": range(50, 60)},
        {f"{step}.jsonl": range(step, step + 1) for step in range(30)},
        {"early.jsonl": range(50), "late.jsonl": range(50, 100)},
    ],
)
def test_other_files_with_the_same_steps_are_no_attempts(
    files: dict[str, range], tmp_path: Path
) -> None:
    for name, steps in files.items():
        attempt(tmp_path, name, steps)
    scan = read(tmp_path, restarts="last")
    assert "restart" not in kinds(scan)
    assert len(scan.responses) == sum(4 * len(steps) for steps in files.values())


def test_a_log_that_is_continued_in_a_new_file_within_a_step_has_no_attempts(
    tmp_path: Path,
) -> None:
    rows = [row(step, prompt=str(i)) for step in range(20) for i in range(8)]
    write(tmp_path / "log.jsonl", rows[:83])
    write(tmp_path / "log.new.jsonl", rows[83:])
    scan = read(tmp_path, restarts="last")
    assert "restart" not in kinds(scan)
    assert len(scan.responses) == len(rows)


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
