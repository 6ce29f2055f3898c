"""Starts, resumptions and a counter that was set back are told apart in logs of metrics."""

import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.errors import UsageError
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.options import ReadOptions
from rlreport.tables import NoteKind
from tests.reading import write
from tests.tracked import wandb_file

Row = dict[str, Any]


def logged(
    steps: Iterable[int], start: float = 0.2, end: float = 0.6, seed: int = 0
) -> list[Row]:
    """Rows of a reward that goes from ``start`` to ``end``, while entropy mirrors it."""
    steps = list(steps)
    rng = np.random.default_rng([seed, len(steps)])
    noise = rng.normal(0, 0.02, len(steps))
    course = np.linspace(start, end, len(steps)) + noise
    rows = []
    for step, value in zip(steps, course.tolist(), strict=True):
        reward = round(value, 6)
        entropy = round(2 - value, 6)
        rows.append({"step": step, "reward": reward, "entropy": entropy})
    return rows


def in_turns(*writers: Sequence[Row], size: int) -> list[Row]:
    """Rows of several writers, ``size`` of each at a time."""
    starts = range(0, len(writers[0]), size)
    turns: list[Row] = []
    for start in starts:
        for rows in writers:
            turns += rows[start : start + size]
    return turns


def with_late_evaluations(rows: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        found.append(row)
        if row["step"] % 10 == 0:
            found.append({"step": row["step"] - 3, "eval/reward": 0.5})
    return found


def flat(seed: int) -> list[Row]:
    """Rows of a reward that stays as it is."""
    return logged(range(1, 101), 0.4, 0.4, seed)


def with_tokens(rows: Sequence[Row]) -> list[Row]:
    """Rows with a number of tokens that goes up from row to row."""
    return [
        {**row, "num_tokens": 64.5 * i + row["reward"]} for i, row in enumerate(rows)
    ]


UP = logged(range(1, 101))
OTHER = logged(range(1, 101), seed=1)
HIGHER = logged(range(1, 101), 0.6, 0.9)
LOW = logged(range(1, 41), 0.2, 0.3)
RESUMPTION = logged(range(51, 151), 0.4, 0.9)
FLAT = [flat(seed) for seed in range(3)]
# A counter of the batches of an epoch, of which there are only three
SHORT_EPOCHS: list[Row] = []
for _epoch in range(10):
    for _batch in range(1, 4):
        _value = 0.5 + 0.01 * _epoch + 0.003 * _batch
        SHORT_EPOCHS.append({"step": _batch, "reward": _value, "epoch": _epoch})
TOKENS = [with_tokens(rows) for rows in FLAT]
EPOCHS: list[Row] = []
for _epoch, _rows in enumerate(FLAT):
    EPOCHS += [{**_row, "epoch": _epoch} for _row in _rows]
SHUFFLED = random.Random(0).sample(UP, 100)
NOT_JUDGED = "several_starts"
LEFT_OUT = "is the run"
NUMBERED_ON = "is set back"
RESUMED = "resumption"

# What is logged: rows, the steps that are read, and a word of the note ("" for no note)
CASES: dict[str, tuple[list[Row], range, str]] = {
    "one start": (UP, range(1, 101), ""),
    "resumed from a checkpoint": (
        UP + RESUMPTION,
        range(1, 151),
        RESUMED,
    ),
    "resumed twice from one checkpoint": (
        UP + logged(range(51, 81), 0.4, 0.5) + RESUMPTION,
        range(1, 151),
        RESUMED,
    ),
    "three starts of one length": ([*chain(*FLAT)], range(1, 101), NOT_JUDGED),
    "three starts, ever shorter": (
        FLAT[0] + FLAT[1][:60] + FLAT[2][:30],
        range(1, 31),
        NOT_JUDGED,
    ),
    "three starts that rise": (
        UP + OTHER + logged(range(1, 101), seed=2),
        range(1, 101),
        NOT_JUDGED,
    ),
    "the last start is the longest": (
        LOW + UP,
        range(1, 101),
        LEFT_OUT,
    ),
    "a crash at the second step": (logged([1, 2]) + UP, range(1, 101), LEFT_OUT),
    "a start that is not evaluated at step 0": (
        logged(range(101)) + logged(range(1, 51), 0.2, 0.4),
        range(1, 51),
        NOT_JUDGED,
    ),
    "in no order": (SHUFFLED, range(1, 101), ""),
    "descending": (UP[::-1], range(1, 101), ""),
    "two parts in the other order": (UP[50:] + UP[:50], range(1, 101), ""),
    "two writers": (in_turns(UP, OTHER, size=1), range(1, 101), ""),
    "two writers with buffers": (in_turns(UP, OTHER, size=10), range(1, 101), ""),
    "the same rows twice": (UP + UP, range(1, 101), ""),
    "late evaluations": (with_late_evaluations(UP), range(1, 101), ""),
    "set back, while reward and entropy go on": (
        UP + HIGHER,
        range(1, 201),
        NUMBERED_ON,
    ),
    "set back by every epoch": (
        EPOCHS,
        range(1, 301),
        NUMBERED_ON,
    ),
    "set back by every short epoch": (SHORT_EPOCHS, range(1, 31), NUMBERED_ON),
    "set back, too briefly to tell by its steps": (
        [{**row, "epoch": 0} for row in UP]
        + [{**row, "epoch": 1} for row in OTHER[:2]],
        range(1, 103),
        NUMBERED_ON,
    ),
    "set back, while the number of tokens goes on": (
        TOKENS[0]
        + [{**row, "num_tokens": row["num_tokens"] + 9000} for row in TOKENS[1]],
        range(1, 201),
        NUMBERED_ON,
    ),
    "set back with the number of tokens": (
        TOKENS[0] + TOKENS[1],
        range(1, 101),
        NOT_JUDGED,
    ),
    "steps and epochs set back": (
        [{**row, "epoch": row["step"] / 50} for row in EPOCHS],
        range(1, 101),
        NOT_JUDGED,
    ),
    "resumed after it was set back": (
        UP + HIGHER + logged(range(91, 121), 0.87, 0.95),
        range(1, 221),
        NUMBERED_ON,
    ),
}


def jsonl(folder: Path, rows: list[Row]) -> Path:
    return write(folder / "metrics.jsonl", rows)


def csv(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(folder / "metrics.csv", index=False)
    return folder / "metrics.csv"


def history(folder: Path, rows: list[Row]) -> Path:
    return write(folder / "trainer_state.json", [json.dumps({"log_history": rows})])


def mlflow(folder: Path, rows: list[Row]) -> Path:
    write(folder / "run" / "meta.yaml", ["run_id: 0\n"])
    for name in set().union(*rows) - {"step"}:
        lines = []
        for i, row in enumerate(rows):
            if name in row:
                lines.append(f"{i} {row[name]} {row['step']}\n")
        write(folder / "run" / "metrics" / name, lines)
    return folder


def tensorboard(folder: Path, rows: list[Row], start: int = 1_700_000_000) -> Path:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{start}.host.0.0"
    with path.open("wb") as stream:
        records = RecordWriter(stream)
        version = Event(wall_time=start, file_version="brain.Event:2")
        records.write(version.SerializeToString())
        for i, row in enumerate(rows):
            values = []
            for name, value in row.items():
                if name != "step":
                    values.append(Summary.Value(tag=name, simple_value=value))
            event = Event(
                wall_time=start + i,
                step=int(row["step"]),
                summary=Summary(value=values),
            )
            records.write(event.SerializeToString())
    return path


def wandb(folder: Path, rows: list[Row]) -> Path:
    events = []
    for own, row in enumerate(rows):
        event = {name: row[name] for name in row if name != "step"}
        events.append({**event, "_step": own, "global_step": row["step"]})
    return wandb_file(folder / "run-1.wandb", events)


def trackio(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "project.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE metrics (run_name TEXT, step INTEGER, metrics TEXT)"
        )
        for own, row in enumerate(rows):
            event = {name: row[name] for name in row if name != "step"}
            logged_row = {**event, "train/global_step": row["step"]}
            values = ("one", 2 * own + 1, json.dumps(logged_row))
            database.execute("INSERT INTO metrics VALUES (?, ?, ?)", values)
    return path


WRITERS: dict[str, Callable[[Path, list[Row]], Path]] = {
    "jsonl": jsonl,
    "csv": csv,
    "history": history,
    "mlflow": mlflow,
    "tensorboard": tensorboard,
    "wandb": wandb,
    "trackio": trackio,
}


def notes(read: TrainerMetrics) -> str:
    return " ".join(f"{note.kind} {note.text}" for note in read.notes)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("case", CASES)
def test_starts_are_told_from_resumptions_in_every_kind_of_log(case, writer, tmp_path):
    rows, steps, word = CASES[case]
    WRITERS[writer](tmp_path / "logs", rows)
    read = find_and_read([tmp_path / "logs"])
    assert read.table["step"].tolist() == [*steps]
    assert word in notes(read)
    assert bool(word) == bool(read.notes)
    assert "epoch" not in read.table or writer in ("mlflow", "tensorboard")


def test_event_files_of_several_starts_in_one_folder_are_several_starts(tmp_path):
    for i, rows in enumerate(FLAT):
        tensorboard(tmp_path, rows[: 100 - 30 * i], 1_700_000_000 + 1000 * i)
    read = find_and_read([tmp_path])
    assert len(read.table) == 40
    assert [note.kind for note in read.notes] == [NoteKind.SEVERAL_STARTS]
    assert "3 starts" in notes(read) and "100, 70, 40 steps" in notes(read)


def test_the_same_run_in_two_files_is_one_start(tmp_path):
    jsonl(tmp_path, UP)
    rounded = [{**row, "reward": round(row["reward"], 4)} for row in UP]
    csv(tmp_path, rounded)
    read = find_and_read([tmp_path])
    assert len(read.table) == 100
    assert not read.notes


def test_rows_of_later_attempts_count_and_the_tail_that_was_not_logged_again_stays(
    tmp_path,
):
    jsonl(tmp_path, UP + logged(range(51, 81), 5, 5))
    table = find_and_read([tmp_path]).table.set_index("step")
    assert table.loc[51:80, "reward"].min() > 4
    assert table.loc[81:, "reward"].max() < 1
    assert len(table) == 100


def test_rows_of_writers_in_turns_are_averaged(tmp_path):
    other = [{**row, "reward": row["reward"] + 1} for row in UP]
    jsonl(tmp_path, in_turns(UP, other, size=10))
    table = find_and_read([tmp_path]).table
    means = [row["reward"] + 0.5 for row in UP]
    assert table["reward"].tolist() == pytest.approx(means)


def random_log(rng: random.Random) -> list[Row]:
    """Rows of a run that is resumed, started again and counted anew, in parts of random lengths."""
    rows: list[Row] = []
    epoch = 0
    last = 0
    for _ in range(rng.randint(1, 6)):
        kind = rng.choice(["resumed", "started", "set back", "goes on"])
        first = last + 1
        if kind == "resumed":
            first = rng.randint(max(1, last - 20), max(1, last - 1))
        elif kind != "goes on":
            first = rng.choice([0, 1])
        # Several rows of one step, one after another, would be averaged.
        if first == last:
            first += 1
        if kind == "set back":
            epoch += 1
        elif kind == "started":
            epoch = 0
        last = first + rng.randint(1, 30)
        for step in range(first, last):
            rows.append({"step": step, "reward": rng.random(), "epoch": epoch})
        last -= 1
    return rows


def rows_that_are_used(rows: Sequence[Row], read: TrainerMetrics) -> int:
    """Number of rows whose reward is in the table that was read."""
    rewards = np.array([row["reward"] for row in rows])
    read_rewards = read.table["reward"].to_numpy()
    is_same = np.isclose(rewards[:, None], read_rewards, rtol=1e-6)
    return int(is_same.any(axis=1).sum())


def rows_that_notes_name(read: TrainerMetrics) -> int:
    """Number of rows that notes say are left out, or replaced by later ones."""
    named = 0
    for note in read.notes:
        left_out = re.search(r"the ([\d,]+) rows", str(note.text))
        if left_out:
            named += int(left_out[1].replace(",", ""))
        elif RESUMED in note.text:
            named += note.count
    return named


@pytest.mark.parametrize("writer", WRITERS)
def test_no_row_of_a_random_log_vanishes_in_silence(writer, tmp_path):
    for seed in range(30 if writer == "jsonl" else 12):
        rows = random_log(random.Random(seed))
        folder = tmp_path / str(seed)
        WRITERS[writer](folder, rows)
        for restarts in (None, "all", "last", 1):
            read = find_and_read([folder], restarts=restarts)
            used = rows_that_are_used(rows, read)
            assert used + rows_that_notes_name(read) == len(rows), seed


def test_no_row_of_event_files_in_one_folder_vanishes_in_silence(tmp_path):
    for seed in range(8):
        rows = random_log(random.Random(seed))
        # A process that is started again opens another file.
        files: list[list[Row]] = [[]]
        for row in rows:
            if files[-1] and row["step"] < files[-1][-1]["step"]:
                files.append([])
            files[-1].append(row)
        folder = tmp_path / str(seed)
        for i, of_file in enumerate(files):
            tensorboard(folder, of_file, 1_700_000_000 + 10_000 * i)
        read = find_and_read([folder])
        used = rows_that_are_used(rows, read)
        assert used + rows_that_notes_name(read) == len(rows), seed


@pytest.mark.parametrize(
    ("restarts", "steps", "word"),
    [
        (1, 40, "start 1, of 40 steps"),
        ("2", 60, "start 2, of 60 steps"),
        ("last", 50, "start 3, of 50 steps"),
        ("all", 150, "are read as one training"),
    ],
)
def test_the_start_that_is_read_can_be_chosen(restarts, steps, word, tmp_path):
    first, second, third = FLAT
    starts = first[:40] + second[:60] + third[:50]
    jsonl(tmp_path / "logs", starts)
    options = ReadOptions(restarts=restarts)
    read = find_and_read([tmp_path / "logs"], restarts=options.restarts)
    assert len(read.table) == steps
    assert word in notes(read)
    assert NOT_JUDGED not in notes(read)


@pytest.mark.parametrize("restarts", [3, "3"])
def test_a_start_that_is_not_there_is_refused(restarts, tmp_path):
    jsonl(tmp_path / "logs", FLAT[0] + FLAT[1])
    with pytest.raises(UsageError, match="2 starts, of 100, 100 steps"):
        built(tmp_path, restarts=restarts)
    jsonl(tmp_path / "logs", UP)
    with pytest.raises(UsageError, match="the logs have 1 start"):
        built(tmp_path, restarts=restarts)


@pytest.mark.parametrize("restarts", [0, "first", "-1", True, 1.5])
def test_a_choice_of_starts_that_is_none_is_refused(restarts):
    with pytest.raises(UsageError, match="restarts must be all, last or the number"):
        ReadOptions(restarts=restarts)


def built(folder: Path, **options: Any) -> rlreport.Report:
    return rlreport.build(folder / "logs", folder / "out", workers=1, **options)


def test_several_starts_are_not_judged_unless_they_are_said_to_be_one_run(tmp_path):
    jsonl(tmp_path / "logs", [*chain(*FLAT)])
    report = built(tmp_path)
    assert report.verdict.level == "unjudged"
    assert report.verdict.sentence.startswith("Not judged: 3 starts in one log.")
    assert "--restarts all" in report.verdict.sentence
    assert [finding.id for finding in report.verdict.findings] == ["mixed_runs"]
    merged = built(tmp_path, merge=True)
    assert merged.verdict.level == "unclear"
    assert merged.tables.metrics["step"].tolist() == [*range(1, 301)]


def test_the_longest_last_start_is_judged_and_what_is_left_out_is_said(tmp_path):
    jsonl(tmp_path / "logs", LOW + UP)
    report = built(tmp_path)
    assert report.verdict.level == "healthy"
    notes = [note for note in report.tables.notes if note.kind == NoteKind.FORMAT]
    left_out = "the 40 rows of the starts before it are left out"
    assert left_out in str(notes[0].text)


def test_a_counter_set_back_in_one_training_hides_no_row(tmp_path):
    jsonl(tmp_path / "logs", UP + HIGHER)
    report = built(tmp_path)
    assert report.verdict.level == "healthy"
    assert "rose from 0.2" in report.verdict.sentence
    assert "to 0.8" in report.verdict.sentence
