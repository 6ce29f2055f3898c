"""Times as data: when a run was logged, how long its steps and phases took, and its throughput."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import rlreport
from rlreport.cli.main import main
from rlreport.draw.time_charts import fitting_phases
from rlreport.flows.load import load_run
from rlreport.options import BuildOptions
from rlreport.pages.times_view import slow_in_words, times_in_words
from rlreport.system.timestamps import date_text, timestamp
from rlreport.system.workers import Progress
from rlreport.text.durations import duration
from rlreport.times import Times
from tests.schemas import validate

START = datetime(2026, 11, 2, 10, tzinfo=UTC)
SECONDS = 12.0  # of a step
STEPS = 20


def times(logs: Any) -> Times:
    return load_run([logs], BuildOptions(workers=1), Progress()).tables.times


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def at(step: float, seconds: float = SECONDS) -> datetime:
    """Return when a step is logged."""
    return START + timedelta(seconds=seconds * step)


def metrics(steps: int = STEPS, /, **fields: Any) -> list[dict[str, Any]]:
    """Return a row per step; ``fields`` are values, or functions of the step."""
    rows = []
    for step in range(steps):
        row = {"step": step, "reward": 0.1 * step, "loss": 1 / (step + 1)}
        for name, value in fields.items():
            row[name] = value(step) if callable(value) else value
        rows.append(row)
    return rows


# What a time is


@pytest.mark.parametrize(
    ("value", "seconds", "is_utc"),
    [
        (START.timestamp(), START.timestamp(), True),
        (START.timestamp() * 1e3, START.timestamp(), True),
        (int(START.timestamp() * 1e6), START.timestamp(), True),
        (int(START.timestamp() * 1e9), START.timestamp(), True),
        (str(START.timestamp()), START.timestamp(), True),
        ("2026-11-02T10:00:00Z", START.timestamp(), True),
        ("2026-11-02 10:00:00+00:00", START.timestamp(), True),
        ("2026-11-02T12:00:00.5+02:00", START.timestamp() + 0.5, True),
        ("2026-11-02T10:00:00", START.timestamp(), False),
        ("2026-11-02 10:00:00,000", START.timestamp(), False),
    ],
)
def test_a_time_is_known_by_its_size_or_its_form(
    value: Any, seconds: float, is_utc: bool
) -> None:
    found = timestamp(value)
    assert found is not None
    assert found.seconds == pytest.approx(seconds, abs=1e-3)
    assert found.is_utc == is_utc


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        12.3,
        0,
        -1e9,
        20261102,
        1e30,
        10**400,
        float("nan"),
        float("inf"),
        "",
        "today",
        "2026-11-02",
        "10:00:00",
        "2026-13-45T99:99",
        "9999-01-01T00:00",
        "1" * 5_000,
        [START.timestamp()],
    ],
    ids=lambda value: repr(value)[:20],
)
def test_other_values_are_no_times(value: Any) -> None:
    assert timestamp(value) is None


def test_dates_do_not_depend_on_the_time_zone_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        for zone in ("Asia/Tokyo", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            found = timestamp("2026-11-02T10:00:00")
            assert found is not None
            assert date_text(found.seconds, is_utc=False) == "2026-11-02T10:00:00"
            assert date_text(START.timestamp(), is_utc=True) == "2026-11-02T10:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()


# Sources of times


def iso_rows(path: Path) -> Path:
    return written(path / "log.jsonl", metrics(timestamp=lambda s: at(s).isoformat()))


def local_rows(path: Path) -> Path:
    naive = metrics(time=lambda s: at(s).replace(tzinfo=None).isoformat())
    return written(path / "log.jsonl", naive)


def wandb_rows(path: Path) -> Path:
    rows = metrics(
        _timestamp=lambda s: at(s).timestamp(), _runtime=lambda s: s * SECONDS
    )
    return written(path / "log.jsonl", rows)


def csv_rows(path: Path) -> Path:
    path.mkdir(parents=True)
    frame = pd.DataFrame(metrics(timestamp=lambda s: at(s).isoformat()))
    frame.to_csv(path / "log.csv", index=False)
    return path / "log.csv"


def mlflow_folder(path: Path) -> Path:
    folder = path / "metrics"
    folder.mkdir(parents=True)
    (path / "meta.yaml").write_text("run_id: a\n")
    for name in ("reward", "loss"):
        lines = [f"{at(s).timestamp() * 1e3:.0f} 0.{s} {s}\n" for s in range(STEPS)]
        (folder / name).write_text("".join(lines))
    return path


def trackio_database(path: Path) -> Path:
    path.mkdir(parents=True)
    database = sqlite3.connect(path / "project.db")
    database.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, "
        "step INTEGER, metrics TEXT)"
    )
    for step in range(STEPS):
        numbers = json.dumps({"reward": step})
        values = (at(step).isoformat(), "a", step, numbers)
        database.execute(
            "INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)",
            values,
        )
    database.commit()
    database.close()
    return path / "project.db"


def tensorboard_events(path: Path) -> Path:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(path))
    for step in range(STEPS):
        for tag in ("reward", "loss"):
            value = Summary.Value(tag=tag, simple_value=0.1 * step)
            summary = Summary(value=[value])
            event = Event(step=step, wall_time=at(step).timestamp(), summary=summary)
            writer.add_event(event)
    writer.close()
    return path


def rollout_rows(path: Path) -> Path:
    rows = []
    for row in metrics():
        for n in range(3):
            when = at(row["step"]) - timedelta(seconds=n)
            texts = {"prompt": f"p{n}", "response": f"r{n}"}
            rows.append({**row, **texts, "timestamp": when.timestamp()})
    return written(path / "log.jsonl", rows)


SOURCES: dict[str, Callable[[Path], Path]] = {
    "ISO": iso_rows,
    "local": local_rows,
    "W&B": wandb_rows,
    "CSV": csv_rows,
    "MLflow": mlflow_folder,
    "Trackio": trackio_database,
    "TensorBoard": tensorboard_events,
    "rollouts": rollout_rows,
}


@pytest.mark.parametrize("source", SOURCES)
def test_start_end_and_durations_are_read_from_each_source(
    source: str, tmp_path: Path
) -> None:
    found = times(SOURCES[source](tmp_path / "run"))
    assert found.is_utc == (source != "local")
    assert found.start == pytest.approx(START.timestamp(), abs=0.01)
    assert found.end == pytest.approx(at(STEPS - 1).timestamp(), abs=0.01)
    assert found.seconds == pytest.approx(SECONDS * (STEPS - 1), abs=0.01)
    assert found.step_seconds == pytest.approx(SECONDS, abs=0.01)
    assert found.pause_seconds == 0
    assert found.by_step["step"].tolist() == list(range(STEPS))
    # Nothing says how long the first step took.
    assert np.isnan(found.by_step["seconds"].iloc[0])
    assert found.by_step["seconds"].iloc[1:].to_numpy() == pytest.approx(SECONDS)


def test_a_log_without_times_has_none(tmp_path: Path) -> None:
    found = times(written(tmp_path / "log.jsonl", metrics(time=lambda s: 3.5 + s)))
    assert not found
    assert found.as_json() is None


def test_the_runtime_of_wandb_alone_gives_durations_without_dates(
    tmp_path: Path,
) -> None:
    rows = metrics(_runtime=lambda s: 30 + s * SECONDS)
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.start is None
    assert found.step_seconds == SECONDS
    assert found.seconds == 30 + SECONDS * (STEPS - 1)


def test_the_runtime_of_transformers_is_that_of_the_run(tmp_path: Path) -> None:
    history = [*metrics(), {"step": STEPS - 1, "train_runtime": 321.5}]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history}))
    found = times(path)
    assert found.seconds == 321.5
    assert found.step_seconds is None
    assert (
        "train_runtime"
        not in load_run([path], BuildOptions(workers=1), Progress()).tables.metrics
    )


# Durations are those of steps


def test_of_a_log_of_every_tenth_step_durations_are_per_step(tmp_path: Path) -> None:
    rows = metrics(100, timestamp=lambda s: at(s).isoformat())[::10]
    assert times(written(tmp_path / "log.jsonl", rows)).step_seconds == SECONDS


def resumed(seconds_of_pause: float, *, repeated: int) -> list[dict[str, Any]]:
    """Return metrics of a run that stops at step 19, and goes on ``repeated`` steps before."""
    rows = metrics(timestamp=lambda s: at(s).isoformat())
    later = metrics(40)[STEPS - repeated :]
    for number, row in enumerate(later):
        when = at(STEPS - 1 + number) + timedelta(seconds=seconds_of_pause)
        row["timestamp"] = when.isoformat()
    return [*rows, *later]


@pytest.mark.parametrize("repeated", [0, 5])
def test_a_resumption_is_no_duration_of_a_step(tmp_path: Path, repeated: int) -> None:
    pause = 7_200.0
    rows = resumed(pause, repeated=repeated)
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.by_step["step"].tolist() == list(range(40))
    assert found.by_step["seconds"].max() == SECONDS
    assert found.by_step["seconds"].isna().sum() == 2  # the first step, and this one
    assert found.pause_seconds == pytest.approx(pause + SECONDS * repeated, abs=SECONDS)
    assert found.seconds is not None
    assert found.seconds > pause


def test_a_fresh_start_after_a_failed_one_has_its_own_times(tmp_path: Path) -> None:
    failed = metrics(
        8,
        timestamp=lambda s: at(s).isoformat(),
        loss=lambda s: s,
    )
    later = metrics(40, timestamp=lambda s: at(s + 500).isoformat())
    found = times(written(tmp_path / "log.jsonl", [*failed, *later]))
    assert found.start == at(500).timestamp()
    assert found.pause_seconds == 0


def test_a_clock_that_is_set_back_makes_no_negative_duration(tmp_path: Path) -> None:
    shown = [*range(10), *range(5, 15)]
    rows = metrics(timestamp=lambda s: at(shown[s]).isoformat())
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.by_step["seconds"].min() == SECONDS
    assert found.step_seconds == SECONDS
    assert found.pause_seconds == 0


def test_times_of_an_upload_are_no_durations(tmp_path: Path) -> None:
    rows = metrics(timestamp=lambda s: at(s // 5 / 10).isoformat())
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.step_seconds is None
    assert found.start == START.timestamp()


# Metrics of durations and throughput


def test_phases_are_those_of_a_step_and_the_longest_come_first(tmp_path: Path) -> None:
    rows = metrics(
        **{
            "timing_s/step": SECONDS,
            "timing_s/gen": 8.0,
            "timing_s/update_actor": 3.0,
            "timing_s/testing": 0.0,
            "timing_per_token_ms/gen": 0.4,
            "perf/time_per_step": SECONDS,
            "perf/throughput": 900.0,
            "perf/total_num_tokens": 10_800,
        }
    )
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.step_seconds == SECONDS
    assert found.step_source == "timing_s/step"
    assert [(one.name, one.seconds) for one in found.phases] == [
        ("gen", 8.0),
        ("update_actor", 3.0),
    ]
    (throughput,) = found.throughput
    assert throughput == (900.0, True, "perf/throughput")


@pytest.mark.parametrize(
    ("names", "step", "phases"),
    [
        ({"step_time": 2.0}, 2.0, []),  # TRL
        ({"train/step_time": 2.0}, 2.0, []),
        ({"train/step_time_s": 2.0}, 2.0, []),
        ({"step_time_ms": 2_000.0}, 2.0, []),
        ({"timing/train/total_step_time": 2.0}, 2.0, []),  # NeMo-RL
        ({"time/total": 2.0, "time/sampling": 1.5}, 2.0, ["sampling"]),  # Tinker
        ({"perf/step_time": 2.0, "perf/rollout_time": 1.0}, 2.0, ["rollout"]),  # slime
        ({"timing_s/gen_ms": 500.0}, None, ["gen"]),
        ({"time/fps": 80, "time/iterations": 3}, None, []),  # no durations
        ({"time/elapsed": 80.0, "timing_s/gen/max": 3.0}, None, []),
        ({"runtime": 3.0, "perf/mfu": 0.4, "lifetime": 1.0}, None, []),
    ],
    ids=repr,
)
def test_durations_are_known_by_their_names(
    tmp_path: Path, names: dict[str, float], step: float | None, phases: list[str]
) -> None:
    found = times(written(tmp_path / "log.jsonl", metrics(**names)))
    assert found.step_seconds == step
    assert [phase.name for phase in found.phases] == phases


def test_what_grows_all_the_time_is_no_duration_of_a_step(tmp_path: Path) -> None:
    rows = metrics(**{"time/training": lambda s: 5.0 + 5 * s})
    assert not times(written(tmp_path / "log.jsonl", rows)).phases


def test_a_duration_that_the_clock_contradicts_is_left_out(tmp_path: Path) -> None:
    rows = metrics(
        timestamp=lambda s: at(s).isoformat(),
        **{"time/step": 12_000.0, "time/gen": 8_000.0},
    )
    found = times(written(tmp_path / "log.jsonl", rows))
    assert found.step_seconds == SECONDS
    assert found.step_source == ""
    assert found.phases == ()


@pytest.mark.parametrize(
    ("name", "per_gpu"),
    [
        ("tokens_per_second", False),
        ("tokens_per_sec", False),
        ("train/tokens_per_second", False),
        ("performance/tokens_per_sec_per_gpu", True),
        ("perf/tokens_per_gpu_per_sec", True),
        ("perf/actor_train_tok_per_s", False),
    ],
)
def test_throughput_is_known_by_its_name(
    tmp_path: Path, name: str, per_gpu: bool
) -> None:
    log = written(tmp_path / "log.jsonl", metrics(**{name: 900.0}))
    (one,) = times(log).throughput
    assert one == (900.0, per_gpu, name)


@pytest.mark.parametrize("name", ["perf/throughput", "tokens", "samples_per_second"])
def test_other_rates_are_no_throughput(tmp_path: Path, name: str) -> None:
    rows = metrics(**{name: 900.0})
    assert times(written(tmp_path / "log.jsonl", rows)).throughput == ()


def test_a_counter_of_tokens_and_durations_give_a_throughput(tmp_path: Path) -> None:
    rows = metrics(num_tokens=lambda s: 1_000 * s, step_time=4.0)
    (one,) = times(written(tmp_path / "log.jsonl", rows)).throughput
    assert one == (250.0, False, "num_tokens")


def test_a_counter_that_is_not_the_trainers_gives_no_throughput(
    tmp_path: Path,
) -> None:
    rows = metrics(
        num_tokens=lambda s: 1_000 * s,
        step_time=4.0,
        timestamp=lambda s: at(s, 4.0).isoformat(),
    )
    for row in rows:
        row["step"] *= 3  # of a logger
    assert times(written(tmp_path / "log.jsonl", rows)).throughput == ()


def test_turns_have_their_mean_duration(tmp_path: Path) -> None:
    rows = []
    for row in metrics():
        turns = [
            {"role": "assistant", "content": "a", "sampled": True, "seconds": 3.0},
            {"role": "tool", "content": "b", "sampled": False, "seconds": 1.0},
            {"role": "assistant", "content": "c", "sampled": True},
        ]
        rows.append({**row, "prompt": "p", "response": "abc", "turns": turns})
    path = written(tmp_path / "log.jsonl", rows)
    assert times(path).turn_seconds == 2.0


# What users get


def test_report_json_and_inspect_tell_the_times(tmp_path: Path) -> None:
    rows = metrics(
        timestamp=lambda s: at(s).isoformat(), **{"timing_s/gen": 8.0, "step_time": 11}
    )
    log = written(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "out", workers=1)
    about = json.loads((tmp_path / "out" / "data" / "report.json").read_bytes())
    validate(about, "report")
    assert about["times"] == {
        "start": "2026-11-02T10:00:00Z",
        "end": "2026-11-02T10:03:48Z",
        "seconds": 228.0,
        "pause_seconds": 0.0,
        "seconds_per_step": 11.0,
        "seconds_per_step_from": "step_time",
        "phases": [{"name": "gen", "seconds_per_step": 8.0, "from": "timing_s/gen"}],
        "tokens_per_second": [],
        "seconds_per_turn": None,
    }
    printed = CliRunner().invoke(main, ["inspect", str(log), "--quiet"]).output
    assert (
        "times\n  2026-11-02T10:00:00Z to 2026-11-02T10:03:48Z, 3 min 48 s in all, "
        "11 s per step\n  per step: gen 8 s\n"
    ) in printed


def test_the_times_of_files_do_not_count(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", metrics())
    os.utime(log, (1e9, 1e9))
    assert not times(log)


def test_redaction_of_names_removes_those_of_metrics(tmp_path: Path) -> None:
    rows = metrics(**{"time/secretphase": 8.0, "secret/tokens_per_second": 5.0})
    log = written(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "out", redact="names", workers=1)
    text = (tmp_path / "out" / "data" / "report.json").read_text()
    assert "secret" not in text
    assert json.loads(text)["times"]["tokens_per_second"][0]["median"] == 5.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0512, "0.0512 s"),
        (59.94, "59.9 s"),
        (200, "3 min 20 s"),
        (7_500, "2 h 5 min"),
        (3_600_000, "1,000 h 0 min"),
    ],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# What pages show


def test_when_a_run_was_is_told_with_its_time_zone(tmp_path: Path) -> None:
    rows = metrics(timestamp=lambda s: at(s).isoformat())
    utc = times(written(tmp_path / "utc.jsonl", rows))
    assert times_in_words(utc) == "2026-11-02 10:00 to 10:03 UTC (3 min 48 s)"
    next_day = START.timestamp() + 86_400
    local = replace(utc, is_utc=False, end=next_day, pause_seconds=3600)
    assert times_in_words(local) == (
        "2026-11-02 10:00 to 2026-11-03 10:00 local time (24 h 0 min, 1 h 0 min of it in pauses)"
    )
    assert times_in_words(replace(utc, end=utc.start)) == "2026-11-02 10:00 UTC"
    assert times_in_words(Times(seconds=90.0)) == "1 min 30 s"
    assert times_in_words(Times()) == ""


def by_step(*seconds: float, first: int = 0, apart: int = 1) -> pd.DataFrame:
    steps = first + apart * np.arange(len(seconds))
    return pd.DataFrame({"step": steps, "time": np.nan, "seconds": seconds})


def test_a_step_that_took_ten_times_the_median_is_slow() -> None:
    found = Times(by_step=by_step(3.0, 3.0, 30.0, 29.9, 3.0), step_seconds=3.0)
    assert [(one.step, one.first, one.factor) for one in found.slow_steps] == [
        (2, 2, 10.0)
    ]
    assert slow_in_words(found) == "Step 2 took 30 s, 10 times the median (3 s)."
    assert slow_in_words(Times(by_step=by_step(3.0, 4.0), step_seconds=3.5)) == ""
    assert Times().slow_steps == []


def test_of_a_log_that_skips_steps_all_that_a_duration_stands_for_are_named() -> None:
    table = by_step(3.0, 3.0, 60.0, first=10, apart=10)
    skipping = Times(by_step=table, step_seconds=3.0)
    assert "Each of steps 21–30 took 1 min 0 s" in slow_in_words(skipping)
    # The trainer's own duration is that of its step.
    logged = replace(skipping, step_source="step_time")
    assert "Step 30 took 1 min 0 s" in slow_in_words(logged)


def phases(**seconds: Any) -> pd.DataFrame:
    steps = {"step": np.arange(20)}
    return pd.DataFrame(
        steps | {name.replace("__", "/"): v for name, v in seconds.items()}
    )


def test_phases_are_stacked_without_their_parts() -> None:
    random = np.random.default_rng(0)
    gen = 40 + 10 * random.random(20)
    update = 20 + 5 * random.random(20)
    whole = by_step(*(gen + update + 3))
    logged = phases(
        gen=gen,
        rollout_only=gen - 2,
        gen__mean=gen / 2,
        update=update,
        tiny=np.full(20, 0.1),
    )
    assert fitting_phases(logged, whole) == ["gen", "update"]
    # What takes longer than the step is none of its phases.
    assert fitting_phases(phases(all=2 * gen + update), whole) == []
    assert fitting_phases(pd.DataFrame(), whole) == []


def test_the_overview_links_a_slow_step_and_stacks_phases(tmp_path: Path) -> None:
    def gen(step: int) -> float:
        return 200.0 if step == 7 else 8.0

    rows = [
        {**row, "prompt": "p", "response": f"r{row['step']}"}
        for row in metrics(timestamp=lambda s: at(s).isoformat())
    ]
    log = written(tmp_path / "log.jsonl", rows)
    figures = metrics(
        **{
            "timing_s/gen": gen,
            "timing_s/update": 3.0,
            "step_time": lambda s: gen(s) + 4,
        }
    )
    other = written(tmp_path / "metrics.jsonl", figures)
    out = tmp_path / "out"
    rlreport.build(log, out, metrics=[other], workers=1)
    page = (out / "index.html").read_text()
    assert "Time per step by phase" in page
    section = page.split('<section class="time"')[1].split("</section>")[0]
    assert 'href="steps/7.html"' in section
    assert "took 3 min 24 s, 17 times the median (12 s)." in " ".join(section.split())
    chart = json.loads((out / "data/charts/step_time.vl.json").read_bytes())
    at_7 = {
        row["series"]: row["amount"]
        for row in chart["data"]["values"]
        if row["step"] == 7
    }
    assert at_7 == {"phase_gen": 200.0, "phase_update": 3.0, "rest": 1.0}
