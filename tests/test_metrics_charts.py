"""Trainer metrics beside the logs become charts over the same steps."""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.check import quantities
from rlreport.check.run import Run
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart
from rlreport.draw.run_charts import not_drawn
from rlreport.draw.svg import drawn
from rlreport.errors import UnusableInputError
from rlreport.flows.build import check_logs
from rlreport.metrics.find import find_and_read
from rlreport.options import BuildOptions
from rlreport.tables import Tables
from tests.reading import row, write
from tests.running import rlreport as rlreport_command
from tests.tables_builder import line_of, response_table, table_of_rows, tables_of

STEPS = (10, 20, 30)


def state(path: Path, **metrics: list[float]) -> Path:
    """A ``trainer_state.json`` with a value of each metric at each step."""
    history = []
    for i, step in enumerate(STEPS):
        of_step = {name: series[i] for name, series in metrics.items()}
        history.append({"step": step, "epoch": 0.1, **of_step})
    path.write_text(json.dumps({"global_step": STEPS[-1], "log_history": history}))
    return path


@pytest.fixture
def logs(tmp_path):
    earned = product(STEPS, (0, 1))
    rows = [row(step, reward=reward) for step, reward in earned]
    write(tmp_path / "run" / "rank_0.jsonl", rows)
    return tmp_path / "run"


def charts(logs: Path, **options: Any) -> tuple[dict[str, dict], rlreport.Report]:
    """Build a report; return the exported charts of trainer metrics by name, and the report."""
    report = rlreport.build(logs, logs.parent / "report", workers=1, **options)
    exported = sorted((Path(report.out) / "data" / "charts").glob("metric_*.vl.json"))
    specs = {}
    for path in exported:
        name = path.name.removeprefix("metric_").removesuffix(".vl.json")
        specs[name] = json.loads(path.read_bytes())
    return specs, report


def text_of(report: rlreport.Report, page: str) -> str:
    return (Path(report.out) / page).read_text("utf-8")


def values(spec: dict) -> dict[int, float]:
    return {datum["step"]: datum["value"] for datum in spec["data"]["values"]}


def extent(spec: dict, channel: str) -> tuple[float, float]:
    low, high = line_of(spec)[channel]["scale"]["domain"]
    return low, high


def test_each_kind_of_file_beside_the_logs_becomes_charts_over_the_steps_of_all(logs):
    assert charts(logs)[0] == {}
    state(logs / "trainer_state.json", loss=[0.5, 0.25, 0.125])
    (logs / "progress.csv").write_text("step,lr\n10,0.5\n30,0.25\n")
    verl = []
    for step in (0, *STEPS, 40):
        verl.append({"step": step, "data": {"actor/entropy": step / 10}})
    write(logs / "project" / "experiment.jsonl", verl)
    found, report = charts(logs)
    assert found.keys() == {"loss", "lr", "actor_entropy"}
    assert values(found["loss"]) == {
        0: None,
        10: 0.5,
        20: 0.25,
        30: 0.125,
        40: None,
    }
    assert values(found["lr"]) == {10: 0.5, 30: 0.25}  # joined, as it is sparse
    assert values(found["actor_entropy"]) == {
        0: 0.0,
        10: 1.0,
        20: 2.0,
        30: 3.0,
        40: 4.0,
    }
    assert {extent(spec, "x") for spec in found.values()} == {(0.0, 40.0)}
    assert report.tables.steps["step"].tolist() == list(STEPS)
    assert len(report.tables.responses) == 6
    page = text_of(report, "index.html")
    assert page.count(">actor/entropy<") == 1  # the title says it once


def test_metrics_that_cannot_be_read_are_a_note_beside_and_an_error_by_name(logs):
    broken = logs / "trainer_state.json"
    broken.write_text("{")
    (logs / "progress.csv").write_text("step,lr\n10,0.5\n20,0.25\n")
    found, report = charts(logs)
    assert found.keys() == {"lr"}
    (note,) = (note for note in report.tables.notes if note.kind == "metrics")
    assert note.text.startswith("trainer metrics not read: trainer_state.json")
    assert "trainer metrics not read" in text_of(report, "data.html")
    with pytest.raises(UnusableInputError, match=r"trainer_state\.json"):
        find_and_read([logs], [broken])


def later(rows: list[dict], steps: int) -> list[dict]:
    return [{**row, "step": row["step"] + steps} for row in rows]


def test_metrics_at_steps_far_from_the_rollouts_have_an_axis_of_their_own(logs):
    rows = [{"step": s, "reward": s / 10, "loss": s / 100} for s in STEPS]
    write(logs / "metrics.jsonl", later(rows, 10**9))
    found, report = charts(logs)
    extents = {extent(spec, "x") for spec in found.values()}
    assert extents == {(1e9 + 10, 1e9 + 30)}
    drawn = {chart.name: chart.spec for chart in overview_charts(report.tables)}
    assert extent(drawn["reward"], "x") == (10.0, 30.0)
    series = {datum["series"] for datum in drawn["reward"]["data"]["values"]}
    assert series == {"policy"}
    assert report.verdict.courses["reward"].source == "rollouts"
    assert "far from those of rollouts" in text_of(report, "data.html")
    write(logs / "metrics.jsonl", later(rows, 100))
    assert extent(charts(logs)[0]["loss"], "x") == (10.0, 130.0)


def main_of(report: rlreport.Report, page: str) -> str:
    return text_of(report, page).partition("<main")[2]


def test_pages_name_the_files_that_the_metrics_come_from(logs, tmp_path):
    state(logs / "trainer_state.json", loss=[0.5, 0.25, 0.125])
    verl = {"step": 10, "data": {"kl": 1.0, "lr": 2.0}}
    write(logs / "project" / "experiment.jsonl", [verl])
    _, report = charts(logs)
    both = "Trainer metrics from project/experiment.jsonl, trainer_state.json."
    assert both in main_of(report, "index.html")
    files = main_of(report, "data.html").partition("Trainer metrics")[2]
    cells = re.findall(r"<td[^>]*>(?:<div[^>]*>)?([^<]*)", files)
    assert cells[:4] == ["project/experiment.jsonl", "1", "2", "kl, lr"]
    assert cells[4:8] == ["trainer_state.json", "3", "1", "loss"]
    exported = json.loads((Path(report.out) / "data" / "report.json").read_bytes())
    assert exported["metrics_files"][0] == {
        "name": "project/experiment.jsonl",
        "steps": 1,
        "metrics": ["kl", "lr"],
    }
    assert not [note for note in exported["notes"] if "metrics" in note]

    elsewhere = tmp_path / "progress.csv"
    elsewhere.write_text("step,lr\n10,0.5\n")
    _, report = charts(logs, metrics=[elsewhere, logs / "trainer_state.json"])
    both = "Trainer metrics from progress.csv, trainer_state.json."
    assert both in main_of(report, "index.html")
    for page in ("index.html", "data.html"):
        assert str(tmp_path) not in text_of(report, page)

    for i in range(5):  # many are counted on the overview
        (logs / f"progress_{i}.csv").write_text(f"step,m{i}\n10,0.5\n")
    _, report = charts(logs)
    assert "Trainer metrics from 7 files." in main_of(report, "index.html")
    assert "progress_4.csv" in main_of(report, "data.html")


def test_files_that_are_used_are_not_said_to_be_unread(logs):
    state(logs / "trainer_state.json", loss=[0.5, 0.25, 0.125])
    (logs / "config.yaml").write_text("lr: 0.5\n")
    (logs / "args.json").write_text('{"seed": 1}')
    (logs / "mine.md").write_text("Fine.")
    (logs / "limits.toml").write_text("")
    (logs / "charts.py").write_text("def one(tables):\n    return []\n")
    values = logs / "mlflow" / "metrics" / "critic"
    values.mkdir(parents=True)
    (values.parents[1] / "meta.yaml").write_text("")
    (values / "kl").write_text("1 0.5 10\n1 0.5 20\n")
    used = {"notes": logs / "mine.md", "thresholds": logs / "limits.toml"}
    _, report = charts(logs, charts=[logs / "charts.py"], **used)
    notes = [note for note in report.tables.notes if "not read" in note.text]
    assert [note.file for note in notes] == ["mlflow/meta.yaml"]
    assert "charts.py" not in main_of(report, "data.html")
    assert not list(logs.rglob("__pycache__"))


def test_metrics_that_are_read_are_nothing_odd_to_strict(logs):
    state(logs / "trainer_state.json", loss=[0.5, 0.25, 0.125])
    (logs / "progress.csv").write_text("step,lr\n10,0.5\n20,0.25\n")
    done = rlreport_command("inspect", logs, "--strict")
    assert "trainer_state.json  1 metric of 3 steps" in done.stdout
    assert done.returncode == 0
    strict = BuildOptions(strict=True, workers=1)
    check_logs([logs], strict)
    with pytest.raises(UnusableInputError, match=r"progress\.csv"):
        check_logs([logs], replace(strict, metrics=[logs / "trainer_state.json"]))
    (logs / "trainer_state.json").write_text("{")
    with pytest.raises(UnusableInputError, match=r"trainer_state\.json"):
        check_logs([logs], strict)


def with_metrics(**metrics: list[float]) -> Tables:
    rows = [{"step": step, "reward": 0.0} for step in STEPS]
    metrics_table = pd.DataFrame({"step": STEPS, **metrics})
    return tables_of(table_of_rows(rows), metrics=metrics_table)


def charted(tables: Tables) -> dict[str, Chart]:
    """The overview's charts of metrics by the metric's name, in their order."""
    drawn = overview_charts(tables)
    return {c.title: c for c in drawn if c.name.startswith("metric_")}


def test_metrics_with_a_role_stand_first_and_constants_are_not_drawn():
    varied = (
        "lr",
        "misc",
        "loss",
        "actor/entropy",
        "objective/kl",
        "clip_ratio/region_mean",
    )
    metrics = {name: [1.0, 2.0, 3.0] for name in varied}
    tables = with_metrics(**metrics, gamma=[0.5, 0.5, 0.5])
    first = [
        "objective/kl",
        "actor/entropy",
        "loss",
        "clip_ratio/region_mean",
        "lr",
        "misc",
    ]
    assert [*charted(tables)] == first
    assert not_drawn(tables) == []


def test_further_columns_of_the_log_have_charts_and_parts_of_the_reward_their_own():
    reward = np.array([0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
    responses = response_table({"step": sorted(2 * STEPS), "reward": reward})
    extras = {
        "right": reward,
        "latency": reward * 2,
        "question_index": reward,
        "userId": reward,
    }
    tables = tables_of(responses, extras=extras)
    tables.reward_parts = ["right"]
    drawn = overview_charts(tables)
    columns = {c.name: c for c in drawn if c.name.startswith("column_")}
    assert columns.keys() == {"column_latency"}
    assert values(columns["column_latency"].spec) == {10: 3.0, 20: 5.0, 30: 7.0}


def test_positive_metrics_over_decades_have_a_logarithmic_axis():
    tables = with_metrics(lr=[1e-6, 1e-4, 1e-2], loss=[0.5, 1.0, 1.5])
    found = charted(tables)
    assert line_of(found["lr"].spec)["y"]["scale"]["type"] == "log"
    lr, loss = drawn([found["lr"], found["loss"]])
    assert "logarithmic" in lr.svg
    assert "logarithmic" not in loss.svg


@pytest.fixture
def learning(tmp_path):
    """A run of ten steps whose trainer logged what its 256 rollouts a step earned."""
    earned = product(range(10), (1.0, 1.0, 0.0, 0.0))
    rows = [row(step, reward=reward) for step, reward in earned]
    write(tmp_path / "run" / "rank_0.jsonl", rows)
    return tmp_path / "run"


def test_key_figures_are_the_trainers_where_it_logged_them(learning):
    events = [
        {
            "step": s,
            "reward": 0.1 * s,
            "val_accuracy": 0.05 * s,
            "kl": 0.01 * s,
            "token_entropy": 1,
        }
        for s in range(10)
    ]
    _, report = charts(write(learning / "metrics.jsonl", events).parent)
    tiles = {tile.key: tile for tile in report.figures}
    windows = quantities.levels_of(quantities.courses(Run(report.tables))["reward"])
    assert tiles["reward_mean"].now.value == pytest.approx(windows["end"])
    first = tiles["reward_mean"].first
    assert first is not None and first.value == pytest.approx(windows["start"])
    assert tiles["reward_mean"].help == "“reward”, from the trainer's metrics"
    assert report.figures[0].key == "reward_mean"
    assert report.figures[1].key == "validation_reward_mean"
    assert tiles["validation_reward_mean"].label == "Validation"
    assert tiles["kl_k1_mean"].unit == "nats per token"
    assert tiles["surprisal_mean"].label == "Entropy"
    assert "“reward”, from the trainer" in text_of(report, "index.html")
    step = next((Path(report.out) / "steps").glob("*9.html")).read_text("utf-8")
    assert "from the trainer's metrics" not in step  # a step shows its own responses


def test_the_chart_of_the_reward_has_the_trainers_mean_and_validation(learning):
    events = [{"step": s, "reward": 0.1 * s} for s in range(10)]
    events += [{"step": s, "eval_reward": 0.5} for s in (4, 9)]
    _, report = charts(write(learning / "metrics.jsonl", events).parent)
    spec = json.loads(text_of(report, "data/charts/reward.vl.json"))
    data = spec["data"]["values"]
    drawn = {datum["series"] for datum in data if datum.get("value") is not None}
    assert drawn == {"policy", "trainer", "validation"}
