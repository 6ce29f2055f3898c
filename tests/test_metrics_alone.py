"""A report from trainer metrics alone: sources, verdict, pages, redaction, runs and comparison."""

import csv
import html
import json
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.check import Thresholds
from rlreport.check.verdict import Verdict
from rlreport.columns import STEP_COLUMNS
from rlreport.comparison import outcome
from rlreport.comparison.headline import sentence
from rlreport.comparison.run import ComparedRun
from rlreport.errors import UnusableInputError, UsageError
from rlreport.flows.build import check_logs
from rlreport.flows.compare import compared_run
from rlreport.metrics.find import MAX_STEPS, find_and_read
from rlreport.metrics.roles import (
    PLAIN_NAMES,
    ROLLOUT_SETTINGS,
    framework_of,
    known_keys,
    roles_of,
)
from rlreport.options import BuildOptions, CompareOptions
from rlreport.system.workers import Progress
from tests.net import RUNS
from tests.reading import write
from tests.running import SEARCH
from tests.running import rlreport as rlreport_command
from tests.schemas import validate

STEPS = 60
NAN = float("nan")
WANDB = RUNS / "trainer" / "wandb_0.31.0" / "run-1a2b.wandb"
"""The metrics of ``events()``, and a long text at step 45, as W&B itself wrote them."""

CONSOLE = RUNS / "trainer" / "verl_console" / "train.log"
"""The same as verl prints them, between other lines."""

Event = dict[str, Any]
Events = list[Event]
Metric = Callable[[int], float]


def events(steps: int = STEPS, **changed: Metric) -> Events:
    """Return the metrics of a run that learns, or with other functions of the step."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=steps)
    usual: dict[str, Metric] = {
        "reward": lambda s: 0.2 + 0.5 * s / steps + 0.02 * noise[s],
        "kl": lambda s: 0.0002 * s,
        "completions/mean_length": lambda s: 200.0 + s,
        "frac_reward_zero_std": lambda s: 0.25,
        "grad_norm": lambda s: 1.0 + 0.1 * noise[s],
        "learning_rate": lambda s: 1e-6 * (1 - s / steps),
        "mystery/αβ": lambda s: float(s % 7),
    }
    metrics = {**usual, **changed}
    logged = []
    for step in range(steps):
        values = {name: metric(step) for name, metric in metrics.items()}
        logged.append({"step": step, **values})
    return logged


def changing(before: float, step: int, after: float) -> Metric:
    """Return a metric with one value before a step and another from it on."""

    def metric(s: int) -> float:
        return before if s < step else after

    return metric


def wavering(mean: float, size: float = 0.01) -> Metric:
    """Return a metric that goes up and down within a few steps."""
    return lambda s: mean + size * (s % 5)


def state(path: Path, logged: Events) -> Path:
    return write(path, [json.dumps({"log_history": logged})])


def table(path: Path, logged: Events) -> Path:
    lines = [",".join(logged[0])]
    for event in logged:
        lines.append(",".join(map(str, event.values())))
    path.write_text("\n".join(lines), "utf-8")
    return path


def mlflow(folder: Path, logged: Events, run: str = "swift-fox") -> Path:
    (folder / "tags").mkdir(parents=True)
    (folder / "tags" / "mlflow.runName").write_text(run)
    (folder / "meta.yaml").write_text("run_id: 0\n")
    for name in logged[0].keys() - {"step"}:
        values = [f"{i} {e[name]} {e['step']}\n" for i, e in enumerate(logged)]
        write(folder / "metrics" / name, values)
    return folder


def trackio(path: Path, **runs: Events) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE metrics (run_name TEXT, step INTEGER, metrics TEXT)"
        )
        for run, logged in runs.items():
            for event in logged:
                found = {name: value for name, value in event.items() if name != "step"}
                values = (run, event["step"], json.dumps(found))
                database.execute("INSERT INTO metrics VALUES (?, ?, ?)", values)
    return path


SOURCES: dict[str, Callable[[Path, Events], Path]] = {
    "trainer_state": lambda folder, logged: state(
        folder / "trainer_state.json", logged
    ),
    "lines": lambda folder, logged: write(folder / "metrics.jsonl", logged),
    "csv": lambda folder, logged: table(folder / "metrics.csv", logged),
    "mlflow": lambda folder, logged: mlflow(folder / "run", logged),
    "trackio": lambda folder, logged: trackio(folder / "p.db", one=logged),
    "wandb": lambda folder, _: Path(shutil.copy(WANDB, folder)),
    "console": lambda folder, _: Path(shutil.copy(CONSOLE, folder)),
    "json": lambda folder, logged: write(folder / "history.json", [json.dumps(logged)]),
}


def page(report: rlreport.Report, name: str = "index.html") -> str:
    return html.unescape((Path(report.out) / name).read_text("utf-8"))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("given", ["file", "folder"])
def test_the_same_run_from_any_source_gives_the_same_figures(source, given, tmp_path):
    logged = events()
    (tmp_path / "run").mkdir()
    path = SOURCES[source](tmp_path / "run", logged)
    read = find_and_read([path if given == "file" else path.parent])
    assert read.runs == [] and [note.text for note in read.notes] == []
    assert read.table["step"].tolist() == list(range(STEPS))
    for name in logged[0].keys() - {"step"}:
        assert read.table[name].tolist() == [event[name] for event in logged], name


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> rlreport.Report:
    folder = tmp_path_factory.mktemp("learns")
    return rlreport.build(
        state(folder / "trainer_state.json", events()), folder / "out"
    )


def test_a_run_is_judged_and_shown_by_its_trainers_series(
    report: rlreport.Report,
) -> None:
    assert report.verdict.level == "healthy"
    rose = r"Healthy: the reward rose from 0\.2\d+ \(steps 0–2\) to 0\.6\d+ \(steps 57–59\)\."
    assert re.fullmatch(rose, report.verdict.what)
    assert report.verdict.next == "Keep the last checkpoint."
    overview = page(report)
    assert (
        "7 metrics of the trainer over 60 steps (0–59), from trainer_state.json."
        in overview
    )
    assert "GRPOConfig(log_completions=True" in overview
    assert not {"responses.html", "prompts.html", "texts.html"} & set(files(report))
    assert "responses.html" not in overview
    assert {"reward.vl.json", "length.vl.json", "metric_kl.vl.json"} <= set(
        files(report)
    )
    steps = report.tables.steps
    assert steps["reward_mean"].tolist() == [e["reward"] for e in events()]
    assert steps["kl_k1_mean"].isna().all(), "TRL's kl is per token"
    assert steps["surprisal_mean"].isna().all()
    assert steps["response_tokens_mean"].notna().all()


def files(report: rlreport.Report) -> list[str]:
    paths = [path for path in Path(report.out).rglob("*") if path.is_file()]
    return sorted(path.name for path in paths)


def _collapse(step: int) -> float:
    noise = 0.01 * (step % 3)
    return (0.5 if step < 40 else 0.0) + noise


def _rise_and_fall(step: int) -> float:
    """Return a metric that is highest at step 25."""
    noise = 0.001 * (step % 2)
    return 0.6 - 0.5 * abs(step - 25) / 60 + noise


KL_EXPLOSION = changing(0.001, 31, 2.001)
FAULTS: dict[str, tuple[dict[str, Metric], str, str]] = {
    "reward_collapse": ({"reward": _collapse}, "critical", "Broken"),
    "kl_explosion": ({"kl": KL_EXPLOSION}, "warning", "Warning"),
    "kl_explosion that costs reward": (
        {"kl": KL_EXPLOSION, "reward": changing(0.5, 34, 0.3)},
        "critical",
        "Broken",
    ),
    "nan_metrics": ({"grad_norm": changing(1.0, 50, NAN)}, "critical", "Broken"),
    "nan_metrics of the reward": (
        {"reward": changing(0.5, 50, NAN)},
        "critical",
        "Broken",
    ),
    "no_updates": ({"grad_norm": changing(1.0, 20, 0.0)}, "warning", "Warning"),
    "length_collapse": (
        {"completions/mean_length": changing(200.0, 30, 4.0)},
        "warning",
        "Warning",
    ),
    "reward_stalled": ({"reward": wavering(0.3)}, "info", "Unclear"),
    "watched_reward_fall": ({"eval/reward": _rise_and_fall}, "critical", "Broken"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_trainers_see_is_found(fault: str, tmp_path: Path) -> None:
    changed, severity, word = FAULTS[fault]
    verdict = _verdict(write(tmp_path / "metrics.jsonl", events(STEPS, **changed)))
    severities = {finding.id: finding.severity for finding in verdict.findings}
    assert severities.get(fault.split()[0]) == severity
    assert verdict.sentence.startswith(word)


@pytest.mark.parametrize(
    ("gradient", "rise", "found"),
    [
        (1.0, 0.0, False),
        (None, 0.5, False),
        (None, 0.0, True),
    ],
)
def test_a_learning_rate_of_0_tells_nothing_where_gradients_are_or_the_reward_moves(
    gradient: float | None, rise: float, found: bool, tmp_path: Path
) -> None:
    logged = events(
        reward=lambda s: 0.3 + rise * s / STEPS + 0.01 * (s % 3),
        learning_rate=changing(1e-6, 20, 0.0),
    )
    for event in logged:
        if gradient is None:
            del event["grad_norm"]
        else:
            event["grad_norm"] = gradient
    verdict = _verdict(write(tmp_path / "metrics.jsonl", logged))
    assert ("no_updates" in {finding.id for finding in verdict.findings}) == found


def _verdict(path: Path, run: str = "") -> Verdict:
    return check_logs([path], BuildOptions(workers=1, run=run))


def test_the_chart_of_the_finding_stands_first_and_is_marked(tmp_path: Path) -> None:
    logged = events(kl=KL_EXPLOSION)
    report = rlreport.build(write(tmp_path / "metrics.jsonl", logged), tmp_path / "out")
    overview = page(report)
    names = re.findall(r'data-chart="(\w+)"', overview)
    assert names[0] == "metric_kl"
    figures = overview.index('class="figures"')
    assert overview.index('href="#chart=metric_kl"') < figures, "the small chart"
    assert names.count("metric_kl") == 1
    assert "metric_reward" not in names, "the chart of the reward shows it"


def _sawtooth(slope: int, step: int) -> float:
    return float(step * slope % 11)


@pytest.mark.parametrize("metrics", [3, 60])
def test_many_metrics_are_folded(metrics: int, tmp_path: Path) -> None:
    more = {f"m/{i:03d}": partial(_sawtooth, i + 3) for i in range(metrics)}
    path = write(tmp_path / "metrics.jsonl", events(STEPS, **more))
    out = Path(rlreport.build(path, tmp_path / "r.html").out)
    assert out.stat().st_size < 10e6
    assert ("More trainer metrics" in out.read_text("utf-8")) == (metrics > 20)


def test_names_of_metrics_are_hidden_and_their_roles_stay(
    report, tmp_path: Path
) -> None:
    for role, name in PLAIN_NAMES.items():
        assert roles_of([name]) == {role: name}
    path = write(tmp_path / "zebra" / "metrics.jsonl", events())
    hidden = rlreport.build(path.parent, tmp_path / "hidden.zip", redact="names")
    assert hidden.verdict.sentence == report.verdict.sentence
    with zipfile.ZipFile(hidden.out) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    for name in ("mystery", "αβ", "zebra", "metrics.jsonl", "mean_length"):
        assert name.encode() not in content, name
    assert "mystery" in page(report)


def test_several_runs_are_refused_with_their_names_and_one_can_be_chosen(
    tmp_path: Path,
) -> None:
    high = events(reward=lambda s: 0.3)
    path = trackio(tmp_path / "p.db", low=events(), high=high)
    message = r"2 runs: high, low\. Choose one with --run NAME"
    with pytest.raises(UsageError, match=message):
        rlreport.build(path, tmp_path / "out")
    assert _verdict(path, "low").level == "healthy"
    assert _verdict(path, "high").level == "unclear"
    with pytest.raises(UsageError, match="no such run; found: high, low"):
        rlreport.build(path, tmp_path / "out", run="middle")
    for name in ("a", "b"):
        checkpoint = tmp_path / "runs" / name / "checkpoint-9"
        state(checkpoint / "trainer_state.json", events())
    with pytest.raises(UsageError, match="2 runs: a, b"):
        rlreport.build(tmp_path / "runs", tmp_path / "out")


def test_the_index_builds_a_report_of_each_run(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", **{"kl 0.1/β": events(), "seed 2": events()})
    (tmp_path / "site").mkdir()
    index = rlreport.index([path], tmp_path / "site" / "index.html")
    assert (index.reports, index.unread) == (2, [])
    folder = tmp_path / "site" / "index-reports"
    assert {one.name for one in folder.iterdir()} == {"p-kl-0.1-β", "p-seed-2"}


def _outcome(bases: list[Path], news: list[Path], **given: Any) -> outcome.Outcome:
    options = CompareOptions(**given)

    def compared(path: Path) -> ComparedRun:
        return compared_run(path, options, Thresholds(), Progress())

    base = [compared(path) for path in bases]
    new = [compared(path) for path in news]
    return outcome.outcome_of(base, new, options)


def log_of_reward(path: Path, reward: Metric) -> Path:
    return write(path, events(reward=reward))


def test_a_pair_of_runs_is_evidence_about_these_runs_and_not_about_the_change(tmp_path):
    low = log_of_reward(tmp_path / "low.jsonl", wavering(0.2))
    high = log_of_reward(tmp_path / "high.jsonl", wavering(0.9))
    lower = rlreport.compare(
        high, low, tmp_path / "c.html", fail_on=["worse", "guardrail"]
    )
    assert lower.sentence.startswith("low is worse than high by 0.700 (")
    assert "within these two runs" in lower.sentence
    assert "have been found" not in lower.sentence
    assert any("may come from their seeds" in note for note in lower.notes)
    assert (lower.outcome.comparison.level, lower.gate.exit) == ("worse", 0)
    assert "logged by both runs" not in (tmp_path / "c.html").read_text("utf-8")
    same = sentence(_outcome([high], [high]))
    assert (
        same.startswith("No evidence either way")
        and "would probably have been found" in same
    )
    reports = [tmp_path / "high.html", tmp_path / "low.html"]
    for path, report in zip((high, low), reports, strict=True):
        rlreport.build(path, report)
    assert sentence(_outcome(reports[:1], reports[1:])) == lower.sentence


def test_several_runs_of_a_side_are_evidence_about_the_change(tmp_path: Path) -> None:
    seeds = []
    for seed in range(3):
        reward = partial(_sawtooth, seed + 1)
        seeds.append(log_of_reward(tmp_path / f"{seed}.jsonl", reward))
    far = log_of_reward(tmp_path / "far.jsonl", wavering(90.0, 1.0))
    one = _outcome(seeds, [far], require_evidence=True)
    assert sentence(one).startswith("far is better than 0 (and 2 more) by ")
    assert one.gate.exit == 0
    better = _outcome(seeds, [far] * 3, fail_on=["worse"])
    assert sentence(better).startswith("far (3 runs) is better than 0 (and 2 more) by ")
    assert better.gate.exit == 0


def test_a_comparison_of_metrics_gives_true_reasons_and_has_no_empty_sections(tmp_path):
    log = write(tmp_path / "a.jsonl", events())
    notes = rlreport.compare(log, log, tmp_path / "c.html").notes
    only = "Only the trainer's metrics are logged"
    assert any(note.startswith(only) for note in notes)
    page = (tmp_path / "c.html").read_text("utf-8")
    absent = "Not compared, as a run has no data: Second reward, KL, Cut off at the "
    assert absent in page
    assert "At equal KL" not in page
    assert "Prompts won and lost" not in page
    assert "Texts more frequent in NEW" not in page
    assert "Tokens by change" not in page
    short = write(tmp_path / "b.jsonl", events(2))
    sentence = rlreport.compare(short, short, tmp_path / "c.html").sentence
    assert sentence == (
        "b (NEW) and b (BASE) cannot be compared. "
        "Fewer than three prompts (of metrics: blocks of steps) can be compared."
    )


def test_more_steps_than_a_table_holds_are_means_of_neighbours(tmp_path: Path) -> None:
    steps = 3 * MAX_STEPS
    rows = ",".join(
        f'{{"step":{s},"reward":{s % 4},"grad_norm":{s % 4}}}' for s in range(steps)
    )
    (tmp_path / "m.json").write_text(f"[{rows}]")
    read = find_and_read([tmp_path / "m.json"])
    assert read.table["step"].tolist() == list(range(0, steps, 4))
    assert set(read.table["reward"]) == {1.5}
    assert set(read.table["grad_norm"]) == {3.0}
    (note,) = read.notes
    assert note.text == (
        "too many steps: each row averages up to 4 steps and is labelled with the first"
    )


def test_the_commands_take_metrics(tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", events())
    inspected = rlreport_command("inspect", path).stdout
    assert "no rollouts; trainer metrics of 1 run" in inspected
    found = json.loads(rlreport_command("check", path, "--json").stdout)
    assert found["verdict"]["level"] == "healthy"
    not_run = {"id": "reward_hacking_token", "needs": "rollouts with reward"}
    assert not_run in found["not_run"]
    built = rlreport_command("build", path, "-o", tmp_path / "r.html")
    sizes, last = built.stdout.splitlines()[-2:]
    assert re.fullmatch(r"[\d.]+ [kM]B, 7 metrics, 60 steps", sizes)
    assert last == str(tmp_path / "r.html")


def damaged_database(path: Path) -> None:
    whole = trackio(path, one=events(2)).read_bytes()
    path.write_bytes(whole[:100] + bytes(len(whole) - 100))


def computing(definition: str) -> Callable[[Path], None]:
    """Write a database whose rows are computed when they are read."""

    def make(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute(definition)

    return make


ENDLESS = """CREATE VIEW metrics AS WITH RECURSIVE n(step) AS
    (SELECT 1 UNION ALL SELECT step + 1 FROM n)
    SELECT 'r' AS run_name, step, '{"reward": 1}' AS metrics FROM n"""
COMPUTED = """CREATE TABLE metrics
    (run_name TEXT, step INTEGER, metrics TEXT AS ('{"reward": 1}'))"""


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b'{"a": 1}', r"No rollout log found \(a\.json"),
        ("a.csv", b"x,y\n1,2\n", r"a\.csv: not a metrics table"),
        ("a.csv", b"step,reward\n1e300,1\n", "no steps with numbers"),
        (
            "a.csv",
            "step,reward\n1,0.5\n".encode("utf-16"),
            r"a\.csv: encoded as UTF-16; save it",
        ),
        ("a.csv", b"step,re\rward\n1,0.5\n", "a.csv"),
        ("a.csv", b"step," + 200_000 * b"r" + b"\n1,0.5\n", "a.csv"),
        ("a.log", b"step 1\n", "No rollout log found"),
        ("a.jsonl", b"{}\n", "No rollout log found|No usable response"),
        ("folder/a.csv", b"step,reward\n", "a column named step and rows of numbers"),
        (
            "folder/a.csv",
            b"reward,kl\n0.5,0.1\n",
            "no column is named step: found `reward`, `kl`; rename the column",
        ),
        ("folder/a.csv", b"step,re\rward\n1,0.5\n", "a.csv"),
        ("run-1.wandb", b"", "not a run file of W&B"),
        ("run-1.wandb", b":W&B\xe1\xbe\x00" + bytes(500), "no steps with numbers"),
        ("run-1.wandb", b"x" * 99, "not a run file of W&B"),
        ("a.db", damaged_database, "a.db"),
        ("a.db", computing(ENDLESS), "a.db"),
        ("a.db", computing(COMPUTED), "a.db"),
    ],
)
def test_what_holds_no_metrics_is_refused(name, content, why, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    with pytest.raises(UnusableInputError, match=why):
        rlreport.build(path.parent if "/" in name else path, tmp_path / "out")


def _one_reward(event: Event) -> Event:
    """Return an event without its reward, but for step 7."""
    return {**event, "reward": 0.5 if event["step"] == 7 else ""}


LACKING: dict[str, tuple[Callable[[Event], Event], str, str]] = {
    "no reward": (
        lambda event: {"step": event["step"], "x": 1},
        "Not judged: no reward is logged.",
        "rollouts with reward",
    ),
    "one value": (
        _one_reward,
        "Not judged: the reward has only 1 value.",
        "at least 5 steps with this reward (this run has 1)",
    ),
    "rewards alone": (
        lambda event: {"step": event["step"], "reward": event["reward"]},
        "Healthy as far as rewards show: ",
        "",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_the_sentence_says_what_is_not_judged(case: str, tmp_path: Path) -> None:
    changed, sentence, needs = LACKING[case]
    logged = [changed(event) for event in events()]
    verdict = _verdict(table(tmp_path / "m.csv", logged))
    assert verdict.sentence.startswith(sentence)
    assert verdict.not_observed[-1] == "rollouts (no texts, groups or finish reasons)"
    not_run = {check.id: check.needs for check in verdict.not_run}
    assert not_run.get("reward_collapse", "") == needs


def test_a_run_file_of_wandb_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "run-1.wandb", [WANDB.read_bytes()[:16_000]])
    assert 20 < len(find_and_read([path]).table) < 40


def test_mlflow_folders_with_links_broken_lines_and_huge_steps(tmp_path: Path) -> None:
    folder = mlflow(tmp_path / "a", events(5)) / "metrics"
    (tmp_path / "elsewhere").write_text("1 7 1\n")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with (folder / "reward").open("a") as stream:
        stream.write("1 x 2\n\n7 0.5 5\n1700000000 0.")
    table = find_and_read([tmp_path]).table
    assert table["reward"].tolist()[5:] == [0.5]
    assert "link" not in table
    (folder / "reward").write_text(f"1 0.5 {10**30}\n")
    with pytest.raises(UnusableInputError, match="cannot be read as metrics"):
        find_and_read([], [tmp_path])


def test_a_framework_is_told_by_its_names() -> None:
    for name in ROLLOUT_SETTINGS:
        patterns = [key.key for key in known_keys() if key.framework == name]
        names = [pattern.replace("*", "8") for pattern in patterns]
        assert framework_of(names) == name
    of_any = ["loss", "reward", "step", "grad_norm", "learning_rate"]
    assert framework_of(of_any) is None


def test_a_long_cell_of_a_table_is_no_number(tmp_path: Path) -> None:
    long = "x" * 200_000
    path = tmp_path / "run.csv"
    rows = [
        "step,reward,text",
        f"0,0.5,{long}",
        f"1,{long},a",
        f'2,1.5,"{long},{long}"',
        "x,1,b",
        f"{long},0.5,c",
        f"4,0.5,{long},d",
        "5,2.5,e\n",
    ]
    path.write_text("\n".join(rows))
    read = find_and_read([tmp_path])
    assert read.table["step"].tolist() == [0, 2, 5]
    assert read.table["reward"].tolist() == [0.5, 1.5, 2.5]
    two, one = read.notes
    assert (two.count, two.line) == (2, 5)
    assert (one.count, one.line) == (1, 7)


NOT_FINITE = re.compile(r"\b(nan|inf)\b(?! metrics)")


def _sparse(rng: np.random.Generator) -> Events:
    """Return metrics of which some have one value, none, or none that is finite."""
    names = [*PLAIN_NAMES.values(), "grad_norm", "x/y"]
    steps = int(rng.choice([1, 2, 3, 10, 60]))
    stride = int(rng.choice([1, 5, 100]))
    logged: Events = [{"step": stride * step} for step in range(steps)]
    logged_names = rng.choice(names, rng.integers(1, 9), replace=False)
    for name in logged_names.tolist():
        kind = rng.choice(["all", "one", "few", "start", "nan", "inf", "constant"])
        values = np.full(steps, 0.5) if kind == "constant" else rng.random(steps)
        if kind in ("nan", "inf"):
            values = np.full(steps, float(kind))
        present = {
            "one": np.arange(steps) == rng.integers(steps),
            "few": rng.random(steps) < 2 / steps,
            "start": np.arange(steps) <= steps // 4,
        }.get(str(kind), np.ones(steps, bool))
        for row in np.flatnonzero(present):
            logged[row][name] = float(values[row])
    logged[0].setdefault("x/y", 1.0)
    return logged


@pytest.mark.search
@pytest.mark.parametrize("seed", range(15 * SEARCH))
def test_sparse_metrics_are_judged_and_shown(seed: int, tmp_path: Path) -> None:
    path = write(tmp_path / "metrics.jsonl", _sparse(np.random.default_rng(seed)))
    assert not NOT_FINITE.search(_verdict(path).sentence)
    if seed >= 6:
        return
    report = rlreport.build(path, tmp_path / "out", quiet=True)
    assert {"data.html", "index.html"} <= set(files(report))
    assert not NOT_FINITE.search(page(report))


def test_the_metrics_are_exported_as_logged(tmp_path: Path) -> None:
    names = {
        "=1+1": "'=1+1",
        'a,"b"': 'a,"b"',
        "0007": "'0007",
        "self": "self",
        "αβ/x": "αβ/x",
    }
    logged: Events = [
        {"step": step, "reward": step / 7, **dict.fromkeys(names, step / 3)}
        for step in (0, 5)
    ]
    logged[1]["αβ/x"] = float("nan")
    report = rlreport.build(write(tmp_path / "m.jsonl", logged), tmp_path / "out")
    text = (Path(report.out) / "data" / "metrics.csv").read_text("utf-8")
    header, *rows = csv.reader(text.splitlines())
    escaped = [*names.values(), "reward"]
    assert header == ["step", *sorted(escaped, key=lambda name: name.lstrip("'"))]
    first, last = (dict(zip(header, row, strict=True)) for row in rows)
    assert (first["step"], first["'=1+1"]) == ("0", "0.0")
    assert (last["step"], last["'=1+1"]) == ("5", str(5 / 3))
    assert last["αβ/x"] == ""
    assert float(last["reward"]) == 5 / 7
    assert 'href="data/metrics.csv"' in page(report, "data.html")
    assert ">Chart: Reward</a>" in page(report, "data.html")


def test_metrics_that_do_not_fit_are_left_out_and_said_so(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", events(300))
    size = rlreport.build(path, tmp_path / "out").size
    metrics = (tmp_path / "out" / "data" / "metrics.csv").stat().st_size
    report = rlreport.build(path, tmp_path / "less", max_size=size - metrics // 2)
    assert "metrics.csv" not in files(report)
    assert any("metrics.csv" in text for text in report.left_out)


def test_columns_without_any_value_are_left_out_of_the_json_only(
    report, tmp_path: Path
) -> None:
    data = Path(report.out) / "data"
    about = json.loads((data / "report.json").read_bytes())
    validate(about, "report")
    columns = set()
    for row in about["steps"]:
        columns |= {name for name, value in row.items() if value is not None}
    assert {"step", "responses", "reward_mean"} <= columns == set(about["steps"][0])
    first_line = (data / "steps.csv").read_text().partition("\n")[0]
    header = first_line.replace('"', "").split(",")
    assert header == [column.name for column in STEP_COLUMNS]
    rlreport.index([report.out], tmp_path / "index.html")
    assert rlreport.compare(report.out, report.out, tmp_path / "comparison").outcome


@pytest.mark.parametrize("every", [3, 10])
def test_a_sparse_reward_is_judged_and_drawn_over_the_steps_at_which_it_is_logged(
    every, tmp_path
):
    logged = events(100, loss=lambda s: 1 / (s + 1))
    for event in logged:
        if event["step"] % every:
            event["reward"] = ""
    report = rlreport.build(table(tmp_path / "m.csv", logged), tmp_path / "out")
    assert report.verdict.level == "healthy"
    assert "reward_collapse" in report.verdict.passed
    ((_, spark),) = re.findall(r'(?s)>Reward<(.*?)d="(M[^"]*L[^"]*)"', page(report))[:1]
    assert spark.count("M") == 1


def test_steps_of_a_database_that_are_no_numbers_cost_their_row(tmp_path: Path) -> None:
    broken = {**events(1)[0], "step": None}
    path = trackio(tmp_path / "a.db", one=[*events(3), broken])
    found = find_and_read([], [path])
    assert found.table["step"].tolist() == [0, 1, 2]
    assert "whole number" in found.notes[0].text


CHANGES = st.tuples(st.integers(0, 4000), st.integers(0, 255))  # place, byte


@given(st.lists(CHANGES, max_size=6))
def test_a_damaged_run_file_of_wandb_is_read_or_refused(
    tmp_path_factory, changes
) -> None:
    path = tmp_path_factory.getbasetemp() / "run-1a2b.wandb"
    data = bytearray(WANDB.read_bytes())
    for at, byte in changes:
        data[at % len(data)] = byte
    path.write_bytes(data)
    with suppress(UnusableInputError):
        find_and_read([], [path])
