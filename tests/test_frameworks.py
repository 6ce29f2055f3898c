"""Dumps that the frameworks' own code wrote (``tests/data/frameworks``): what their rows are, is
kept in ``tests/data/net/rows``; here is what those files do not say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rlreport.figures.metadata import normalize_turns_and_mask
from rlreport.formats import RowReader, Where, detect
from rlreport.formats.containers import container_of, iterate
from rlreport.read.tables import Scan
from rlreport.system.stores import zstd
from tests.reading import kinds, read

DUMPS = Path(__file__).parent / "data" / "frameworks"

Row = dict[str, Any]


def objects_of(path: Path) -> list[Row]:
    if container_of(path.name) == "lines":
        with path.open("rb") as file:
            data = zstd.ZstdFile(file).read() if path.suffix == ".zst" else file.read()
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
        form = found and found.format.with_siblings(path, frozenset(paths))
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
    assert by_step(scan) == {1: pytest.approx(np.nansum(parts, axis=0).mean())}
    assert by_step(scan)[1] == pytest.approx(logged["reward"])
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


def test_prime_rl_reads_each_rollout_once_and_marks_what_was_trained() -> None:
    rows = rows_of(DUMPS / "verifiers" / "prime")
    assert [row.get("trained") for row in rows] == [True, False, False, False, None]
    effective = DUMPS / "verifiers" / "prime" / "rollouts" / "step_3" / "train" / "effective"
    assert by_step(read(effective)) == {3: 1.0}


# The others


def test_skyrl_counts_trajectories_and_not_their_turns(tmp_path: Path) -> None:
    folder = DUMPS / "skyrl" / "dumped_evals"
    scan = read(folder)
    # At step 6 prompts do not repeat what came before: the index tells trajectories.
    for step in (4, 6):
        kept = folder / f"global_step_{step}_evals" / "aggregated_results.jsonl"
        truth = json.loads(kept.read_text())["eval/calc/avg_score"]
        assert by_step(scan)[step] == pytest.approx(truth) == pytest.approx(2 / 3)
    # Several samples of a prompt have its index, too: then the mean is that of rows.
    shutil.copytree(folder / "global_step_6_evals", tmp_path / "global_step_6_evals")
    means = tmp_path / "global_step_6_evals" / "aggregated_results.jsonl"
    means.write_text('{"eval/calc/avg_score": 0.4}')
    assert by_step(read(tmp_path)) == {6: pytest.approx(0.4)}
    assert by_step(read(folder / "eval_only")) == {0: 0.5}


@pytest.mark.parametrize("good", [1, 5])
def test_a_row_without_a_needed_key_costs_itself_alone(good: int, tmp_path: Path) -> None:
    rows = [{"input": "2+2?", "output": "4", "gts": "4", "score": 1.0, "step": 1}] * good
    rows.insert(0, {"input": "2+2?", "output": "4", "gts": "4", "step": 1})
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = read(tmp_path)
    assert len(scan.responses) == good
    assert [(bad.line, bad.reason) for bad in scan.bad_lines] == [(1, "no verl row: no `score`")]


@pytest.mark.parametrize(
    ("folder", "error"), [("verifiers/eval", "SandboxError: no box"), ("inspect", "no box")]
)
def test_a_failed_rollout_keeps_its_error_and_has_no_total(folder: str, error: str) -> None:
    failed = rows_of(DUMPS / folder)[-1]
    assert (failed["errors"], failed["trainable"], failed["reward"]) == ([error], False, None)
