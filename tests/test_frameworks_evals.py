"""Dumps of slime, Miles, trackers and evaluation tools, as ``test_frameworks``: what is kept of
their rows in ``tests/data/net/rows``, is not said again."""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.errors import UnusableInputError
from rlreport.formats import RowError
from rlreport.formats.containers import iterate
from tests.format_table import rows_in
from tests.net import DUMPS
from tests.reading import read
from tests.test_frameworks import by_step

Row = dict[str, Any]


# slime and Miles

SLIME_LOGPROBS = [-0.5, -1.0, 0.0, 0.0, -0.25]
TOOL_TURNS = [
    {"role": "assistant", "text": "<tool>calc</tool>", "sampled": True},
    {"role": "tool", "text": "4", "sampled": False, "tool": "calc"},
    {"role": "assistant", "text": "It is 4.", "sampled": True},
]


def are_slime_samples(rows: list[Row], step: int) -> None:
    """The samples of ``make_dumps.py`` at a step."""
    first, second, cut, failed = rows
    assert {row["step"] for row in rows} == {step}
    assert [row["group_id"] for row in rows] == [str(2 * step)] * 2 + [str(2 * step + 1)] * 2
    assert [row["index"] for row in rows] == [4 * step + i for i in range(4)]
    assert [row["reward"] for row in rows[:3]] == [step, 0.0, 0.25]
    assert first["token_ids"] == second["token_ids"] == [3, 4, 5, 6, 7, 8]
    assert (first["prompt_token_ids"], cut["prompt_token_ids"]) == ([1, 2], [1, 2, 3])
    assert first["response_mask"] == [1, 1, 0, 0, 1, 1]
    assert first["logprobs"] == [*SLIME_LOGPROBS, -0.125 * step]
    assert first["policy_version"] == [2, 3]
    assert (first["source"], first["non_generation_time"]) == ("gsm8k", 0.5)
    assert (cut["token_ids"], cut["logprobs"]) == ([9, 9], [-2.0, -3.0])
    assert cut["reward_parts"] == {"score": 0.25, "acc": 0.0}
    assert [row["finish_reason"] for row in rows] == ["stop", "stop", "length", "error"]
    assert [row["ground_truth"] for row in rows] == ["4"] * 4
    assert failed["reward"] is None
    assert (failed["errors"], failed["trainable"]) == (["no box"], False)


def test_slime_dumps_are_read_without_running_their_pickle() -> None:
    pytest.importorskip("torch")
    rows = [row for _, row in rows_in(DUMPS / "slime")]
    are_slime_samples(rows[:4], 1)
    are_slime_samples(rows[4:8], 2)
    assert (rows[8]["split"], rows[8]["step"], rows[8]["reward"]) == ("eval", 2, 5.0)
    scan = read(DUMPS / "slime", split="train")
    assert by_step(scan) == {1: np.mean([1.0, 0.0, 0.25]), 2: np.mean([2.0, 0.0, 0.25])}
    assert scan.bad_count == 0
    assert scan.responses["response_tokens"].tolist() == [4.0, 4.0, 2.0] * 2
    assert by_step(read(DUMPS / "slime", split="eval")) == {2: 5.0}


def test_miles_conversations_are_joined_to_their_samples() -> None:
    pytest.importorskip("torch")
    rows = [row for _, row in rows_in(DUMPS / "miles")]
    are_slime_samples(rows[:4], 1)
    spans = [[0, 2], [2, 4], [4, 6]]
    made = [{**turn, "tokens": span} for turn, span in zip(TOOL_TURNS, spans, strict=True)]
    assert rows[0]["turns"] == made
    assert rows[0]["response"] == "<tool>calc</tool>\nIt is 4."
    assert rows[0]["prompt"] == "2+2?"
    assert "turns" not in rows[2]
    scan = read(DUMPS / "miles")
    assert len(scan.responses) == 3
    said = [n.text for n in scan.notes if n.kind == "not_a_log"]
    assert len(said) == 2 and any("conversations of the rollouts" in text for text in said)


def test_without_torch_a_dump_says_how_to_export_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnusableInputError, match=r"needs torch .*python -c"):
        read(DUMPS / "slime")
    scan = read(DUMPS / "miles")
    assert by_step(scan) == {1: 0.5}
    assert any("needs torch" in n.text for n in scan.notes)


class Runs:
    """A pickle that creates a file when it is loaded the usual way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_pickles_run_nothing_and_cost_their_file_only(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    shutil.copytree(DUMPS / "slime", tmp_path / "run")
    touched, folder = tmp_path / "touched", tmp_path / "run" / "rollout_data"
    torch.save({"rollout_id": 3, "samples": [Runs(touched)]}, folder / "3.pt")
    (folder / "4.pt").write_bytes(pickle.dumps(Runs(touched)))
    torch.save({"w": torch.ones(3)}, folder / "5.pt")
    with zipfile.ZipFile(folder / "6.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(1 << 20))
    (folder / "7.pt").write_bytes((folder / "1.pt").read_bytes()[:900])
    laugh: list[Any] = ["ha"]
    for _ in range(40):
        laugh = [laugh] * 8
    torch.save({"rollout_id": 8, "samples": [{"prompt": laugh}]}, folder / "8.pt")
    wide = torch.zeros(1).expand(1 << 40)
    torch.save({"rollout_id": 9, "samples": [{"prompt": "p", "tokens": wide}]}, folder / "9.pt")
    scan = read(tmp_path / "run", split="train")
    assert not touched.exists()
    assert len(scan.responses) == 6
    said = {str(n.file): n.text for n in scan.notes if n.kind == "not_a_log"}
    assert sorted(said) == [f"rollout_data/{i}.pt" for i in range(3, 10)]
    assert all(text.startswith("not read: no ") for text in said.values()), said


def test_cut_dumps_cost_a_reason(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data = (DUMPS / "slime" / "rollout_data" / "1.pt").read_bytes()
    for size in range(0, len(data), 290):
        path = tmp_path / "1.pt"
        path.write_bytes(data[:size])
        with pytest.raises(RowError):
            list(iterate(path, "torch"))


# Trackio and W&B


def test_a_database_is_never_written_to_and_runs_nothing(tmp_path: Path) -> None:
    shutil.copytree(DUMPS / "trackio", tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    (tmp_path / "run" / "other.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    hostile = sqlite3.connect(tmp_path / "run" / "view.db")
    hostile.execute(
        "CREATE VIEW traces AS WITH RECURSIVE n(run_name) AS (SELECT 1 UNION ALL SELECT run_name"
        " FROM n) SELECT run_name, 1 step, 1 timestamp, 1 key, 1 trace_index, 1 messages,"
        " 1 metadata FROM n"
    )
    hostile.close()
    scan = read(tmp_path / "run")
    assert by_step(scan) == {1: np.mean([1.5, 0.0, 1.0, 0.0]), 2: np.mean([2.5, 0.0, 2.0, 0.0])}
    assert {path: path.read_bytes() for path in before} == before
    refused = {n.file for n in scan.notes if n.kind == "not_a_log"}
    assert refused == {"other.db", "view.db"}


# Inspect


def test_a_damaged_sample_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    good = {"id": 1, "epoch": 1, "input": "2+2?", "target": "4", "scores": {"m": {"value": "C"}}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(good))
        archive.writestr("samples/2_epoch_1.json", "{")
        archive.writestr("samples/3_epoch_1.json", b" " * 65_000_000)
        archive.writestr("samples/4_epoch_1.json", "[1]")
    scan = read(path)
    assert (len(scan.responses), scan.bad_count) == (1, 3)
    assert scan.responses["reward"].tolist() == [1.0]
