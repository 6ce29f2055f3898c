"""One run gives one report, whichever tracker it was logged to."""

import functools
import json
from pathlib import Path

import pandas as pd
import pytest

import rlreport
from rlreport.formats.tracker_steps import trainer_step, with_trainer_steps
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.read.logs import read_logs
from rlreport.read.trl_folders import Trainer
from rlreport.tables import NoteKind
from tests.reading import read, write
from tests.tracked import (
    RESPONSES,
    STEPS,
    TRACKERS,
    WITH_TABLES,
    history,
    wandb_file,
)

EXPECTED = pd.DataFrame(history())


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    @functools.cache
    def folder(tracker: str) -> Path:
        return TRACKERS[tracker](tmp_path_factory.mktemp("runs") / tracker)

    return folder


def metrics_in(found: TrainerMetrics) -> pd.DataFrame:
    """The metrics that all trackers have, at the steps of the training."""
    table = found.table.rename(columns=lambda name: name.removeprefix("train/"))
    return table[list(EXPECTED)].dropna().reset_index(drop=True)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_metrics_of_a_run_are_at_the_trainers_steps(tracker, folder_of):
    found = find_and_read([folder_of(tracker)])
    pd.testing.assert_frame_equal(metrics_in(found), EXPECTED, rtol=1e-6)
    assert not [note for note in found.notes if note.kind == NoteKind.FORMAT]


@pytest.mark.parametrize("tracker", WITH_TABLES)
def test_the_last_table_is_read_once_though_it_is_logged_twice(tracker, folder_of):
    scan = read(folder_of(tracker))
    assert len(scan.responses) == STEPS * RESPONSES
    assert scan.responses.groupby("step").size().tolist() == [RESPONSES] * STEPS
    (note,) = [note for note in scan.notes if note.kind == NoteKind.REPEATED_FILE]
    assert note.count == 1
    assert f"their {RESPONSES} rows are left out" in note.text


def test_the_verdict_does_not_depend_on_the_tracker(folder_of, tmp_path):
    sentences: dict[str, set[str]] = {"tables": set(), "metrics": set()}
    for tracker in TRACKERS:
        out = tmp_path / tracker
        report = rlreport.build(folder_of(tracker), out, workers=1)
        kind = "tables" if tracker in WITH_TABLES else "metrics"
        sentences[kind].add(report.verdict.sentence)
        steps = report.tables.steps["step"].tolist()
        assert steps == [*range(1, STEPS + 1)]
    assert len(sentences["tables"]) == 1
    assert len(sentences["metrics"]) == 1


def test_metrics_that_mlflow_has_at_step_0_only_are_left_out_and_said_once(folder_of):
    found = find_and_read([folder_of("mlflow")])
    assert not [name for name in found.table if str(name).startswith("profiling")]
    (note,) = found.notes
    assert "at step 0 only" in note.text and note.count == 2


def test_an_evaluation_at_step_0_of_several_is_no_metric_without_a_step(tmp_path):
    write(tmp_path / "run" / "meta.yaml", ["run_id: 0\n"])
    metrics = tmp_path / "run" / "metrics"
    write(metrics / "reward", [f"{s} 0.5 {s}\n" for s in range(1, 9)])
    write(metrics / "eval_reward", ["0 0.1 0\n", "8 0.3 8\n"])
    found = find_and_read([tmp_path])
    assert found.table["step"].tolist() == [*range(9)]
    assert not found.notes


def test_one_note_counts_the_files_that_are_not_named_like_a_log(folder_of):
    folder = folder_of("mlflow")
    metrics = find_and_read([folder]).paths
    scan = read_logs([folder], trainer=Trainer(metrics))
    notes = [note for note in scan.notes if note.kind == NoteKind.OTHER_FILE]
    # Five parameters, and the run's meta.yaml
    assert [note.count for note in notes] == [6]


def test_a_table_without_steps_is_at_the_step_that_the_trainer_counted_last(tmp_path):
    import sqlite3

    path = tmp_path / "project.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE metrics (run_name TEXT, step INTEGER, timestamp TEXT, metrics TEXT)"
        )
        for step in range(1, 7):
            row = {"prompt": "q", "completion": f"answer {step}", "reward": 0.5 * step}
            table = {"_type": "trackio.table", "_value": [row, {**row, "prompt": "r"}]}
            for own, event in (
                (2 * step, {"train/global_step": step, "train/reward": 0.5 * step}),
                (2 * step + 1, {"samples": table}),
            ):
                values = ("one", own, "2026-11-28", json.dumps(event))
                database.execute("INSERT INTO metrics VALUES (?, ?, ?, ?)", values)
    steps = read(path).responses["step"].unique()
    assert steps.tolist() == [*range(1, 7)]


def steps_of(rows: list[tuple[int | None, dict[str, int]]]) -> list[int | None]:
    logged = ((own, trainer_step(row), row) for own, row in rows)
    return [step for step, _ in with_trainer_steps(logged)]


@pytest.mark.parametrize(
    ("rows", "steps"),
    [
        # The trainer logs no step: the tracker's count is the step.
        (
            [(0, {}), (1, {}), (2, {})],
            [0, 1, 2],
        ),
        # Rows between two steps are of the first of them.
        (
            [
                (0, {"train/global_step": 1}),
                (1, {}),
                (2, {"train/global_step": 2}),
            ],
            [1, 1, 2],
        ),
        # What is logged before the first step is of that one at the latest.
        (
            [
                (0, {}),
                (5, {}),
                (9, {"trainer/global_step": 3}),
            ],
            [0, 3, 3],
        ),
        (
            [
                (None, {}),
                (1, {"global_step": 4}),
                (None, {}),
            ],
            [4, 4, 4],
        ),
        # A restart sets the trainer's step back, but not the tracker's count.
        (
            [
                (7, {"global_step": 2}),
                (8, {"global_step": 1}),
                (9, {}),
            ],
            [2, 1, 1],
        ),
    ],
)
def test_the_trainers_step_counts_and_not_the_trackers(rows, steps):
    assert steps_of(rows) == steps


def test_a_history_of_wandb_is_at_the_trainers_steps(tmp_path):
    rows = []
    for step in range(1, 11):
        rows.append({"_step": 5 * step, "train/global_step": step, "train/reward": 0.5})
        rows.append({"_step": 5 * step + 1, "eval/reward": 0.4})
    found = find_and_read([write(tmp_path / "history.jsonl", rows)])
    assert found.table["step"].tolist() == [*range(1, 11)]


def test_a_log_without_a_step_of_the_trainer_is_not_held_in_memory():
    taken = 0

    def rows():
        nonlocal taken
        for own in range(100_000):
            taken += 1
            yield own, None, {"loss": 1.0}

    steps = with_trainer_steps(rows())
    next(steps)
    assert taken <= 1_000


def test_a_wandb_file_that_is_cut_says_so(tmp_path):
    rows = [
        {"_step": step, "train/global_step": step, "reward": 0.5}
        for step in range(1, 40)
    ]
    path = wandb_file(tmp_path / "run-1.wandb", rows)
    assert not find_and_read([path]).notes
    path.write_bytes(path.read_bytes()[:-10])
    (note,) = find_and_read([path]).notes
    assert "cannot be read from here on" in note.text


def shifted(path: Path, shift: int) -> Path:
    """Rollouts whose steps are ``shift`` after those of the metrics of their reward."""
    rows = []
    entries = []
    for step in range(1, 21):
        mean = 0.0
        for n in range(4):
            reward = ((step * 7 + n * 3) % 11) / 10
            mean += reward / 4
            row = {"prompt": f"q{n}", "response": f"a {step} {n}", "reward": reward}
            rows.append({"step": step + shift, **row})
        entries.append({"step": step, "reward": mean, "entropy": 2 - step / 100})
    write(path / "rollouts" / "rank_0.jsonl", rows)
    write(path / "trainer_state.json", [json.dumps({"log_history": entries})])
    return path


@pytest.mark.parametrize("shift", [-1, 0, 1, 2])
def test_rollouts_one_step_beside_the_metrics_of_their_reward_are_said_to_be(
    shift, tmp_path
):
    folder = shifted(tmp_path / "run", shift)
    report = rlreport.build(folder, tmp_path / "out", workers=1)
    texts = [str(note.text) for note in report.tables.notes]
    said = [text for text in texts if "the trainer metrics: their mean" in text]
    places = {-1: ["one step before"], 1: ["one step after"]}
    assert len(said) == len(places.get(shift, []))
    for text, place in zip(said, places.get(shift, []), strict=True):
        assert place in text
    # A note alone: the steps are those of the log.
    assert report.tables.steps["step"].min() == 1 + shift
