"""TRL's folders as runs leave them: evaluations, an earlier run, a crash, weights, sparse logs."""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlreport.about.card import run_card
from rlreport.check import quantities
from rlreport.check.finding import Facts
from rlreport.check.judge import run_checks
from rlreport.check.judges.reward_parts import _unearned_title
from rlreport.check.run import Run
from rlreport.draw.run_charts import _groups
from rlreport.flows.load import load_run
from rlreport.formats.trainer_state import planned_in
from rlreport.metrics.roles import roles_of
from rlreport.metrics.settings import find_tracked, of_run
from rlreport.options import BuildOptions
from rlreport.pages.overview import _summary
from rlreport.system.workers import Progress
from rlreport.tables import NoteKind, Tables

Rows = list[dict[str, Any]]
ROWS = 8


def rewards(step: int, seed: int = 0, functions: int = 2) -> Rows:
    """Return the completions of a step, with random rewards of each function."""
    rng = np.random.default_rng([step, seed])
    rows = []
    for n in range(ROWS):
        row: dict[str, Any] = {
            "step": step,
            "prompt": f"Add {step} and {n // 4}.",
            "completion": f"Answer {rng.integers(1_000_000)}",
        }
        for i in range(functions):
            row["ab"[i]] = float(rng.integers(0, 100)) / 100
        rows.append(row | {"advantage": 0.0})
    return rows


def means(
    rows: Rows, prefix: str = "", weights: Sequence[float] = (1.0, 1.0)
) -> dict[str, float]:
    """Return what TRL logs of rows: null is left out of a function's mean, and 0 in the sum."""
    logged = {}
    total = np.zeros(len(rows))
    for name, weight in zip("ab", weights, strict=True):
        values = np.array([row[name] for row in rows], float)
        logged[f"{prefix}rewards/{name}/mean"] = float(np.float32(np.nanmean(values)))
        total += weight * np.nan_to_num(values)
    return logged | {f"{prefix}reward": float(np.float32(total.mean()))}


def write_files(folder: Path, rows_by_step: Mapping[int, Rows]) -> None:
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    for step, rows in rows_by_step.items():
        path = folder / "completions" / f"completions_{step:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)


def write_state(
    folder: Path, entries: Sequence[Mapping[str, Any]], planned: int, **more: object
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    last = max((entry["step"] for entry in entries), default=0)
    state: dict[str, Any] = {
        "global_step": last,
        "max_steps": planned,
        "num_train_epochs": 1,
    }
    state["log_history"] = list(entries)
    (folder / "trainer_state.json").write_text(json.dumps(state | more))


def load(folder: Path) -> Tables:
    return load_run([folder], BuildOptions(workers=1), Progress()).tables


def reward_by_step(tables: Tables) -> dict[int, float]:
    steps = tables.steps[tables.steps["responses"] > 0]
    numbers = steps["step"].tolist()
    reward_means = steps["reward_mean"].tolist()
    return dict(zip(numbers, reward_means, strict=True))


def texts(tables: Tables, kind: NoteKind) -> list[str]:
    return [str(note.text) for note in tables.notes if note.kind == kind]


# Evaluations


@pytest.mark.parametrize("logged_rows", [ROWS, 2 * ROWS])
def test_files_that_an_evaluation_overwrote_are_no_training_and_no_gap(
    tmp_path: Path, logged_rows: int
) -> None:
    trained = {step: rewards(step) for step in range(1, 13)}
    evaluated = {step: rewards(step, seed=1) for step in (4, 8, 12)}
    entries = []
    for step, rows in trained.items():
        entries.append({"step": step, **means(rows)})
        if step in evaluated:
            # The file may hold only the last rows of the evaluation.
            others = rewards(step, seed=2) if logged_rows > ROWS else []
            everything = [*others, *evaluated[step]]
            entries.append({"step": step, **means(everything, "eval_")})
    write_files(tmp_path, trained | evaluated)
    write_state(tmp_path, entries, planned=12)
    tables = load(tmp_path)
    only_trained = [1, 2, 3, 5, 6, 7, 9, 10, 11]
    assert sorted(reward_by_step(tables)) == only_trained
    assert tables.overwritten == [4, 8, 12]
    assert tables.partly_validated == ([4, 8, 12] if logged_rows > ROWS else [])
    by_step = tables.steps.set_index("step")["validation_reward_mean"].dropna()
    logged = {e["step"]: e["eval_reward"] for e in entries if "eval_reward" in e}
    assert by_step.to_dict() == pytest.approx(logged)
    assert len(texts(tables, NoteKind.EVALUATION)) == 1
    assert "broken_log" not in {finding.id for finding in run_checks(tables).findings}


def test_a_file_with_the_training_of_an_evaluated_step_is_training(
    tmp_path: Path,
) -> None:
    trained = {step: rewards(step) for step in range(1, 5)}
    entries = [{"step": step, **means(rows)} for step, rows in trained.items()]
    entries.append({"step": 4, **means(rewards(4, seed=1), "eval_")})
    write_files(tmp_path, trained)
    write_state(tmp_path, entries, planned=4)
    assert sorted(reward_by_step(load(tmp_path))) == [1, 2, 3, 4]


# A second run in the folder of a first one


def logged(rows_by_step: Mapping[int, Rows]) -> list[dict[str, Any]]:
    return [{"step": step, **means(rows)} for step, rows in rows_by_step.items()]


@pytest.mark.parametrize(
    ("planned", "summary"),
    [(5, False), (20, True)],
    ids=["planned end", "summary"],
)
def test_files_after_the_end_of_the_run_are_left_out(
    tmp_path: Path, planned: int, summary: bool
) -> None:
    first = {step: rewards(step, seed=1) for step in range(1, 13)}
    second = {step: rewards(step) for step in range(1, 6)}
    write_files(tmp_path, first | second)
    entries = logged(second) + ([{"step": 5, "train_runtime": 1.0}] if summary else [])
    write_state(tmp_path, entries, planned)
    tables = load(tmp_path)
    assert sorted(reward_by_step(tables)) == [1, 2, 3, 4, 5]
    (text,) = texts(tables, NoteKind.OTHER_RUN)
    assert "steps 6 to 12" in text


def test_files_after_the_metrics_of_a_checkpoint_are_kept_and_judged(
    tmp_path: Path,
) -> None:
    rows = {step: rewards(step) for step in range(1, 21)}
    write_files(tmp_path, rows)
    checkpoint = {step: rows[step] for step in range(1, 13)}
    write_state(tmp_path / "checkpoint-12", logged(checkpoint), planned=50)
    tables = load(tmp_path)
    assert len(reward_by_step(tables)) == 20
    assert not texts(tables, NoteKind.OTHER_RUN)
    assert tables.extent == (20, 50, 12)
    summary = str(_summary(tables))
    assert "end at step 12." in summary
    assert "The log ends at step 20 of 50." in summary
    assert quantities.reward(Run(tables)).source == "rollouts"


def test_a_run_that_had_all_its_steps_does_not_end_early(tmp_path: Path) -> None:
    rows = {step: rewards(step) for step in range(1, 13)}
    write_files(tmp_path, rows)
    write_state(tmp_path, logged(rows), planned=12)
    tables = load(tmp_path)
    assert tables.extent == (12, 12, None)
    assert " of 12." not in str(_summary(tables))
    assert quantities.reward(Run(tables)).source == "metrics"


def test_a_file_whose_mean_was_not_logged_is_of_another_run(tmp_path: Path) -> None:
    rows = {step: rewards(step) for step in range(1, 9)}
    write_files(tmp_path, rows | {3: rewards(3, seed=1)})
    write_state(tmp_path, logged(rows), planned=8)
    tables = load(tmp_path)
    assert sorted(reward_by_step(tables)) == [1, 2, 4, 5, 6, 7, 8]
    assert "of step 3 left out" in texts(tables, NoteKind.OTHER_RUN)[0]


def test_files_between_the_logged_steps_are_of_another_run(tmp_path: Path) -> None:
    first = {step: rewards(step, seed=1) for step in range(1, 9)}
    second = {step: rewards(step) for step in (2, 4, 6, 8)}
    write_files(tmp_path, first | second)
    write_state(tmp_path, logged(second), planned=8)
    assert sorted(reward_by_step(load(tmp_path))) == [2, 4, 6, 8]


def test_means_over_several_steps_speak_against_no_file(tmp_path: Path) -> None:
    everything = {step: rewards(step) for step in range(1, 16)}
    sparse = {step: everything[step] for step in (5, 10, 15)}
    entries = []
    for step in sparse:
        rows: Rows = []
        for one in range(step - 4, step + 1):
            rows += everything[one]
        entries.append({"step": step, **means(rows)})
    write_files(tmp_path, sparse)
    write_state(tmp_path, entries, planned=15, logging_steps=5)
    tables = load(tmp_path)
    assert sorted(reward_by_step(tables)) == [5, 10, 15]
    (text,) = texts(tables, NoteKind.PARTLY_LOGGED)
    assert text.startswith("24 of 120 responses logged (20%)")
    assert not texts(tables, NoteKind.WEIGHTS), "the logged means are plain sums"


def set_times(folder: Path, order: Sequence[int]) -> None:
    """Set the times of files, those of the first steps in ``order`` being the oldest."""
    for time, step in enumerate(order):
        path = folder / "completions" / f"completions_{step:05d}.parquet"
        os.utime(path, (1_000 + time, 1_000 + time))


@pytest.mark.parametrize(
    ("order", "read"),
    [
        ([5, 6, 7, 8, 1, 2, 3, 4], 4),  # an earlier run left the last files
        ([1, 2, 3, 4, 5, 6, 7, 8], 8),
        ([5, 2, 7, 8, 1, 6, 3, 4], 8),  # copied in any order
        ([8, 1, 2, 3, 4, 5, 6, 7], 8),  # a single file may be copied first
    ],
)
def test_without_metrics_files_older_than_those_of_earlier_steps_are_of_another_run(
    tmp_path: Path, order: list[int], read: int
) -> None:
    write_files(tmp_path, {step: rewards(step) for step in range(1, 9)})
    set_times(tmp_path, order)
    tables = load(tmp_path)
    assert len(reward_by_step(tables)) == read
    assert len(texts(tables, NoteKind.OTHER_RUN)) == (read < 8)


# Weights


def with_nulls(rows: Rows) -> Rows:
    """Return rows of which the second function does not apply to every fourth."""
    for row in rows[::4]:
        row["b"] = None
    return rows


def weighted(folder: Path, weights: Sequence[float], **state: Any) -> Tables:
    rows = {step: with_nulls(rewards(step)) for step in range(1, 9)}
    entries = [
        {"step": step, **means(one, weights=weights)} for step, one in rows.items()
    ]
    write_files(folder, rows)
    write_state(folder, entries, planned=8, **state)
    return load(folder)


def test_weights_are_solved_from_the_logged_rewards(tmp_path: Path) -> None:
    tables = weighted(tmp_path, [1.0, 0.3])
    first = means(with_nulls(rewards(1)), weights=[1.0, 0.3])["reward"]
    assert reward_by_step(tables)[1] == pytest.approx(first, rel=1e-6)
    (text,) = texts(tables, NoteKind.WEIGHTS)
    assert "1 × a + 0.3 × b" in text and "solved" in text


def test_a_plain_sum_needs_no_word_about_weights(tmp_path: Path) -> None:
    tables = weighted(tmp_path, [1.0, 1.0])
    assert not texts(tables, NoteKind.WEIGHTS)


def test_weights_of_the_configuration_count(tmp_path: Path) -> None:
    write_files(tmp_path, {step: rewards(step) for step in range(1, 4)})
    config = {"reward_weights": [0.5, 2.0], "learning_rate": 1e-5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tables = load(tmp_path)
    sums = [0.5 * row["a"] + 2.0 * row["b"] for row in rewards(2)]
    assert reward_by_step(tables)[2] == pytest.approx(np.mean(sums))
    assert "configuration" in texts(tables, NoteKind.WEIGHTS)[0]


def test_unknown_weights_are_told(tmp_path: Path) -> None:
    rows = {step: rewards(step) for step in range(1, 9)}
    write_files(tmp_path, rows)
    # Rewards that are no weighted sum, such as those with a KL penalty
    entries = [entry | {"reward": entry["reward"] ** 2} for entry in logged(rows)]
    write_state(tmp_path, entries, planned=8)
    tables = load(tmp_path)
    assert "not known" in texts(tables, NoteKind.WEIGHTS)[0]
    expected = np.mean([row["a"] + row["b"] for row in rows[2]])
    assert reward_by_step(tables)[2] == pytest.approx(expected)


# How far a run went


@pytest.mark.parametrize(
    ("settings", "planned"),
    [
        ({"max_steps": 50, "save_steps": 10}, 50),
        ({"args.max_steps": 50, "args.logging_steps": 1}, 50),
        ({"trainer.total_training_steps": 435}, 435),
        ({"max_steps": -1, "save_steps": 10}, None),  # epochs are planned
        ({"env.max_steps": 30, "logging_steps": 1}, None),  # of an episode
        ({"trainer.total_training_steps": None}, None),
    ],
)
def test_the_planned_steps_are_those_of_the_trainer(
    settings: dict[str, Any], planned: int | None
) -> None:
    assert planned_in(settings) == planned


# The card


def test_bookkeeping_of_a_trainer_state_is_no_setting(tmp_path: Path) -> None:
    write_state(
        tmp_path, [{"step": 1, "reward": 1.0}], planned=9, epoch=0.5, best_metric=1
    )
    assert run_card([tmp_path]).entries == {"max_steps": 9, "num_train_epochs": 1}


def trackio(folder: Path, runs: Sequence[str]) -> None:
    with sqlite3.connect(folder / "project.db") as database:
        database.execute("CREATE TABLE configs (run_name TEXT, config TEXT)")
        for i, name in enumerate(runs):
            config = json.dumps({"_Username": "me", "learning_rate": 0.1 + i})
            database.execute("INSERT INTO configs VALUES (?, ?)", (name, config))


def field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer; content and number are small."""
    tag = number << 3 | 2
    low = tag & 127 | 128  # seven bits, and that others follow
    head = bytes([tag]) if tag < 128 else bytes([low, tag >> 7])
    return head + bytes([len(content)]) + content


def wandb(folder: Path) -> None:
    item = field(1, b"learning_rate") + field(16, b"0.1")
    record = field(5, field(1, item))
    checksum = (0).to_bytes(4, "little")
    length = len(record).to_bytes(2, "little")
    chunk = checksum + length + b"\x01"
    content = b":W&B" + b"\0\0\0" + chunk + record
    (folder / "run-1a2b.wandb").write_bytes(content)


def wandb_finished(folder: Path) -> None:
    (folder / "run-1a2b.wandb").write_bytes(b":W&B" + b"\0\0\0")
    (folder / "files").mkdir()
    text = "_wandb:\n  value: {cli_version: 1}\nlearning_rate:\n  value: 0.1\n"
    (folder / "files" / "config.yaml").write_text(text)


def mlflow(folder: Path) -> None:
    (folder / "params").mkdir()
    (folder / "meta.yaml").write_text("run_id: abc\n")
    (folder / "params" / "learning_rate").write_text("0.1")


@pytest.mark.parametrize(
    "tracker",
    [wandb, wandb_finished, mlflow, lambda folder: trackio(folder, ["swift-fox"])],
    ids=["wandb", "wandb_finished", "mlflow", "trackio"],
)
def test_a_tracker_s_configuration_is_that_of_the_run(
    tmp_path: Path, tracker: Callable[[Path], None]
) -> None:
    tracker(tmp_path)
    found = of_run(find_tracked([tmp_path]))
    assert found is not None and found.settings == {"learning_rate": 0.1}
    card = run_card([], tracked=("tracker", {**found.settings, "api_key": "otterhush"}))
    assert card.entries == {"learning_rate": 0.1}


def test_configurations_of_several_runs_are_of_none_until_one_is_named(
    tmp_path: Path,
) -> None:
    trackio(tmp_path, ["a", "b"])
    assert of_run(find_tracked([tmp_path])) is None
    found = of_run(find_tracked([tmp_path]), "b")
    assert found is not None and found.settings["learning_rate"] == 1.1


# Charts and roles


def test_means_that_are_0_by_construction_have_no_chart(tmp_path: Path) -> None:
    rows = {step: rewards(step) for step in range(1, 9)}
    for step, one in rows.items():
        for n, row in enumerate(one):
            row["advantage"] = (1.0 if n % 2 else -1.0) + 1e-9 * step
    write_files(tmp_path, rows)
    for group in _groups(load(tmp_path)):
        assert "advantage" not in group.values


def test_online_dpo_has_roles() -> None:
    names = ["val/contain_eos_token", "objective/entropy"]
    assert roles_of(names) == {
        "truncated": "val/contain_eos_token",
        "entropy_response": "objective/entropy",
    }


# Words


def test_lengths_that_the_trainer_logs_are_told_in_tokens(tmp_path: Path) -> None:
    rows_by_step = {}
    entries = []
    for step in range(1, 31):
        rows = rewards(step, functions=1)
        for n, row in enumerate(rows):
            words = 20 + 5 * step + n
            row["completion"] = " ".join(f"word{step * n % 97}" for _ in range(words))
            row["a"] = words / 100
        tokens = 20.0 + 5 * step + 3.5
        reward = float(np.mean([row["a"] for row in rows]))
        entries.append(
            {"step": step, "reward": reward, "completions/mean_length": tokens}
        )
        rows_by_step[step] = rows
    write_files(tmp_path, rows_by_step)
    write_state(tmp_path, entries, planned=30)
    findings = {one.id: one for one in run_checks(load(tmp_path)).findings}
    facts = findings["length_hacking"].facts
    assert str(facts["unit"]) == "tokens"
    assert 100 < float(str(facts["end"])) < 200


@pytest.mark.parametrize(
    ("direction", "words"),
    [
        ({}, "did not clearly rise"),
        ({"right_rose": True}, "rose only from 0.170 to 0.270"),
        ({"right_fell": True}, "fell from 0.170 to 0.270"),
    ],
)
def test_a_score_that_rose_a_little_is_not_told_to_stay(
    direction: dict[str, bool], words: str
) -> None:
    facts: Facts = {
        "parts": ("politeness",),
        "share": 0.95,
        "start": 0.2,
        "end": 2.2,
        "right": "accuracy",
        "right_start": 0.17,
        "right_end": 0.27,
        "right_fell": False,
        **direction,
    }
    assert words in str(_unearned_title(facts))
