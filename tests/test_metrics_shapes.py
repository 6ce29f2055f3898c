"""Metrics are found by the shape of most of their rows, whatever their file is called."""

import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.errors import RlreportError, UsageError
from rlreport.flows.build import Report
from rlreport.flows.load import read_run
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.metrics.roles import roles_of
from rlreport.system.workers import Progress
from rlreport.tables import NoteKind
from tests.running import rlreport as run

Rows = list[dict[str, Any]]
STEPS = 30
REWARDS = (0.2 + 0.02 * np.arange(STEPS)).tolist()


def rows(**more: Any) -> Rows:
    return [
        {"step": step, "reward": reward, "loss": 0.1, **more}
        for step, reward in enumerate(REWARDS)
    ]


def without_step(logged: Rows, **other: str) -> Rows:
    """The rows with their step under another name, or none."""
    renamed = []
    for row in logged:
        step = row.pop("step")
        renamed.append({**dict.fromkeys(other.values(), step), **row})
    return renamed


def columns(**more: Any) -> dict[str, Any]:
    return {"reward": REWARDS, "loss": [0.1] * STEPS, **more}


def write(path: Path, content: Any) -> Path:
    """Write JSON lines, a table or a document, by the file's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, content[0])
            table.writeheader()
            table.writerows(content)
    else:
        path.write_text(json.dumps(content))
    return path


def load(path: Path, **options: Any) -> TrainerMetrics:
    """Read what a command reads of a folder."""
    return read_run([path], {"workers": 1, **options}, Progress()).metrics


def report_json(report: Report) -> dict[str, Any]:
    content = (Path(report.out) / "data" / "report.json").read_bytes()
    loaded: dict[str, Any] = json.loads(content)
    return loaded


CONFIG = {"type": "config", "args": {"lr": 1e-5}}
LISTS = {"samples": [{"text": "hello"}], "ast": "{}", "rewards": [0.1, 0.2]}
SHAPES: dict[str, tuple[str, Any]] = {
    "configuration first": ("log.jsonl", [CONFIG, *rows()]),
    "start event first": ("log.jsonl", [{"event": "start", "lr": 0.1}, *rows()]),
    "lists and texts": ("log.jsonl", rows(**LISTS)),
    "long text": ("log.jsonl", rows(sample="a word " * 100)),
    "array": ("trajectory.json", rows()),
    "array with texts": ("steps.json", rows(**LISTS)),
    "log_history": ("training_logs.json", {"epoch": 1.0, "log_history": rows()}),
    "columns": ("curves.json", columns(step=list(range(STEPS)))),
    "columns without steps": ("curves.json", columns()),
    "columns of curves": ("c.json", {"reward_history": REWARDS, "loss_curve": REWARDS}),
    "history": ("run.json", {"config": {"lr": 1}, "history": rows()}),
    "columns below a key": ("run.json", {"final": 1.0, "history": columns()}),
    "by step": ("s.json", {str(row["step"]): row for row in rows()}),
    "epochs": ("log.jsonl", without_step(rows(), step="epoch")),
    "iterations": ("out.json", without_step(rows(), step="iter")),
    "no steps": ("log.jsonl", without_step(rows())),
    "table": ("t.csv", without_step(rows(), step="Episode")),
    "table without steps": ("t.csv", without_step(rows())),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_read_alone_in_its_folder_and_as_a_file(shape, tmp_path) -> None:
    name, content = SHAPES[shape]
    path = write(tmp_path / "run" / name, content)
    for given in (path, path.parent):
        table = load(given).table
        assert table["step"].tolist() == list(range(STEPS))
        reward = table.filter(like="reward").iloc[:, -1]
        assert np.allclose(reward, REWARDS)


def told(metrics: TrainerMetrics) -> str:
    return "\n".join(f"{note.text} ({note.count})" for note in metrics.notes)


BAD_STEPS = [0, 1, 1, 2.5, None, "x", 1e30, 3]
LOGGED_STEPS = [{"step": step, "loss": 1.0, "kl": 0.1} for step in BAD_STEPS]
OF_COLUMNS = {"loss": [1.0] * 8, "kl": [0.1] * 8}
HALVES = 9 * [{"step": 0.5, "loss": 1}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", LOGGED_STEPS),
        ("metrics.json", LOGGED_STEPS),
        ("metrics.json", {"step": BAD_STEPS, **OF_COLUMNS}),
        ("metrics.json", {"run": {"Step": BAD_STEPS, **OF_COLUMNS}}),
        ("metrics.jsonl", [*LOGGED_STEPS, *HALVES]),
        ("metrics.json", [*LOGGED_STEPS, *HALVES]),
    ],
)
def test_rows_that_name_their_step_are_never_numbered(name, content, tmp_path):
    metrics = load(write(tmp_path / name, content))
    assert metrics.table["step"].tolist() == [0, 1, 3]
    assert "not a whole number, left out" in told(metrics)
    assert "in their order" not in told(metrics)


def test_columns_keep_steps_and_epochs_that_repeat(tmp_path: Path) -> None:
    for name in ("step", "iter"):
        content = {name: [0, 1, 1, 2], "loss": [1.0, 2.0, 4.0, 5.0]}
        table = load(write(tmp_path / "metrics.json", content)).table
        assert table["step"].tolist() == [0, 1, 2]
        assert table["loss"].tolist() == [1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("steps", "than"),
    [({"step": list(range(STEPS))}, "that of the steps"), ({}, "most")],
)
def test_columns_of_another_length_are_left_out_and_named(steps, than, tmp_path):
    others = {"entropy": REWARDS[1:], "kl": [*REWARDS, 0.5]}
    path = write(tmp_path / "metrics.json", columns(**steps, **others))
    metrics = load(path)
    assert {*metrics.table.columns} == {"step", "reward", "loss"}
    assert f"another length than {than}, left out: `entropy`, `kl`" in told(metrics)


def test_columns_of_a_table_with_the_same_name_are_left_out_and_named(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,reward,loss,reward\n0,1,5,9\n1,2,5,8\n")
    metrics = load(path)
    assert [*metrics.table.columns] == ["step", "loss"]
    assert "several columns have the same name, left out: `reward`" in told(metrics)


NO_METRICS: dict[str, tuple[str, Any]] = {
    "final scores": ("results.json", {"accuracy": 0.5, "reward": 0.7, "steps": 100}),
    "summary": ("wandb-summary.json", {"_step": 100, "reward": 0.7, "loss": 0.1}),
    "scores of answers": ("eval.json", {"accuracy": 0.5, "scores": REWARDS}),
    "answers": ("a.json", 9 * [{"id": 1, "gold": 3, "correct": True}]),
    "settings": ("s.json", {"betas": [0.9, 0.95, 0.99], "lr": 1e-5}),
    "rows of answers": ("r.jsonl", [{"id": n, "reward": 0.5} for n in range(9)]),
}


@pytest.mark.parametrize("case", NO_METRICS)
def test_results_and_settings_are_no_metrics(case: str, tmp_path: Path) -> None:
    name, content = NO_METRICS[case]
    write(tmp_path / name, content)
    assert not find_and_read([tmp_path], wide=True).paths
    assert run("build", tmp_path, "-o", tmp_path / "out").returncode == 2


def test_rollouts_stay_rollouts(tmp_path: Path) -> None:
    responses = []
    for row in rows():
        texts = {**row, "prompt": "2+2?"}
        responses += [{**texts, "completion": answer} for answer in ("It is 4", "5")]
    write(tmp_path / "log.jsonl", responses)
    scan, metrics, _ = read_run([tmp_path], {"workers": 1}, Progress())
    assert len(scan.responses) == 2 * STEPS
    assert not metrics.paths


def test_the_same_run_as_lines_and_as_a_table_is_one_run(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", rows())
    write(tmp_path / "b.csv", rows())
    metrics = load(tmp_path)
    assert len(metrics.paths) == 2
    assert not metrics.runs
    assert not metrics.notes
    assert np.allclose(metrics.table["reward"], REWARDS)


def falling(logged: Rows) -> Rows:
    return [{**row, "reward": 0.9 - row["reward"]} for row in logged]


def test_what_two_loggers_write_of_a_run_in_folders_of_their_own_is_one_run(
    tmp_path: Path,
) -> None:
    for folder in ("logs", "table"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "logs" / "a.jsonl", rows())
    write(tmp_path / "table" / "b.csv", rows())
    assert not load(tmp_path).runs
    others = [{**row, "reward": row["reward"] / 2} for row in rows()]
    write(tmp_path / "table" / "b.csv", others)
    assert load(tmp_path).runs == ["logs", "table"]


@pytest.mark.parametrize("in_one_file", [True, False])
def test_two_runs_in_one_place_are_not_judged_until_one_is_chosen(
    in_one_file: bool, tmp_path: Path
) -> None:
    if in_one_file:
        write(tmp_path / "all.json", {"good": rows(), "poor": falling(rows())})
    else:
        write(tmp_path / "good.jsonl", rows())
        write(tmp_path / "poor.jsonl", falling(rows()))
    report = rlreport.build(tmp_path, tmp_path / "out", quiet=True)
    assert report.verdict.level == "unjudged"
    (note,) = [n for n in report.tables.notes if n.kind == NoteKind.SEVERAL_RUNS]
    assert "good, poor look like 2 runs" in note.text
    assert load(tmp_path, run="good").table["reward"].tolist() == REWARDS
    with pytest.raises(UsageError, match="no such run"):
        load(tmp_path, run="fair")


def test_a_file_of_evaluations_is_validation(tmp_path: Path) -> None:
    write(tmp_path / "train_log.jsonl", rows())
    write(tmp_path / "eval_log.jsonl", rows()[::10])
    metrics = load(tmp_path)
    assert roles_of(metrics.table.columns)["validation"] == "eval/reward"
    assert metrics.table["reward"].tolist() == REWARDS


def test_a_configuration_in_the_log_fills_the_card_without_its_secrets(
    tmp_path: Path,
) -> None:
    settings = {"lr": 1e-5, "hf_token": "hf_abcdefghijklmnopqrstuvwxyz"}
    write(tmp_path / "log.jsonl", [{"type": "config", "args": settings}, *rows()])
    (tmp_path / "config.yaml").write_text("lr: 0.5\n")
    report = rlreport.build(tmp_path, tmp_path / "out", quiet=True)
    card = report_json(report)["card"]
    assert card["entries"] == {"lr": 0.5}  # of the file that the user wrote
    assert (card["sources"], card["hidden"]) == (["config.yaml", "log.jsonl"], 1)


def with_values(*names: str) -> Rows:
    """Rows in which each of the names has the step as its value."""
    rows = []
    for step in range(STEPS):
        values = dict.fromkeys(names, step)
        rows.append({"step": step, **values, "loss": 0.1})
    return rows


@pytest.mark.parametrize(
    ("series", "roles"),
    [
        (("reward_latest",), {"reward": "reward_latest"}),
        (("proxy",), {"reward": "proxy"}),
        (("proxy", "gold"), {"reward": "proxy", "validation": "gold"}),
        (("reward", "reward_format"), {}),
        (("reward_a", "reward_b"), {}),
        (("reward_latest", "accuracy"), {"reward": "reward_latest"}),
        (("proxy", "kl"), {"reward": "proxy"}),
        (("best_reward",), {}),
    ],
)
def test_a_likely_reward_is_taken_and_said(series, roles, tmp_path) -> None:
    write(tmp_path / "metrics.jsonl", with_values(*series))
    metrics = load(tmp_path)
    assert metrics.roles == roles
    assert {f"`{name}`" for name in roles.values()} == {
        note.text.split()[0] for note in metrics.notes if "is taken for" in note.text
    }


@pytest.mark.parametrize("every", [1, 5])
def test_a_rate_of_right_answers_is_validation_if_it_is_logged_rarely(
    every: int, tmp_path: Path
) -> None:
    logged = with_values("reward")
    for row in logged[::every]:
        row["accuracy"] = row["step"] / STEPS
    write(tmp_path / "metrics.jsonl", logged)
    expected = {"validation": "accuracy"} if every > 1 else {}
    assert load(tmp_path).roles == expected


def test_of_several_likely_rewards_the_options_to_paste_are_listed(
    tmp_path: Path,
) -> None:
    write(
        tmp_path / "metrics.jsonl",
        with_values("my reward", "score_b"),
    )
    told = (
        run("check", tmp_path).stdout
        + run("build", tmp_path, "-o", tmp_path / "x").stderr
    )
    assert "--role 'reward=my reward' | --role reward=score_b" in told
    report = rlreport.build(
        tmp_path, tmp_path / "out", roles={"reward": "my reward"}, quiet=True
    )
    assert report.verdict.level == "healthy"
    assert report_json(report)["metric_roles"] == {"reward": "my reward"}
    options = ("-o", tmp_path / "c", "--role", "reward=my reward")
    result = run("compare", report.out, tmp_path / "metrics.jsonl", *options)
    assert "reward" in result.stdout and result.returncode == 0


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("reward=x", "--role reward=x: no such trainer metric; found: loss, reward"),
        ("rewrd=reward", "--role rewrd=reward: no role is named so; roles: reward,"),
    ],
)
def test_an_unknown_role_or_metric_is_refused(role, told, tmp_path) -> None:
    write(tmp_path / "metrics.jsonl", rows())
    result = run("check", tmp_path, "--role", role)
    assert (result.returncode, told in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [("--role", "reward=reward", "reward=loss"), ("--map", "step=a", "step=b")],
)
def test_a_pair_given_twice_with_different_values_is_refused(
    option: str, first: str, second: str, tmp_path: Path
) -> None:
    write(tmp_path / "metrics.jsonl", rows())
    result = run("check", tmp_path, option, first, option, second)
    assert result.returncode == 2
    assert f"is given twice, as '{first.partition('=')[2]}' and as" in result.stderr
    twice = run("check", tmp_path, option, first, option, first)
    assert "given twice" not in twice.stderr


def test_a_role_without_metrics_is_refused(tmp_path: Path) -> None:
    write(
        tmp_path / "r.jsonl",
        [{**row, "prompt": "p", "response": "r"} for row in rows()],
    )
    result = run("check", tmp_path, "--role", "reward=loss")
    assert result.returncode == 2
    assert "no trainer metrics" in result.stderr


def warned(metrics: TrainerMetrics) -> list[str]:
    """Return the notes that are printed at once."""
    return [note.text for note in metrics.notes if note.kind == NoteKind.FORMAT]


def test_columns_of_texts_in_a_table_are_told(tmp_path: Path) -> None:
    table = [
        {"step": step, "prompt": "p", "response": f"r{step}", "reward": step / 10}
        for step in range(9)
    ]
    (text,) = warned(load(write(tmp_path / "roll.csv", table)))
    assert text.startswith(
        "columns `prompt`, `response` of this CSV are texts and are not read"
    )
    assert not warned(load(write(tmp_path / "log.csv", rows(note="ok", by="me"))))


@pytest.mark.parametrize(
    ("texts", "reward", "options"),
    [
        (
            {"q": "2+2", "out": "4"},
            {"score": {"r": 1.0}},
            "--map prompt=q --map response=out --map reward=score.r",
        ),
        (
            {"asked": "what is {}", "said": "it is {}"},
            {"a": 0.5, "b": 0.5},
            "--map prompt=FIELD --map response=FIELD --map reward=FIELD",
        ),
    ],
)
def test_fields_of_texts_beside_metrics_are_told_with_what_reads_them(
    texts: dict[str, str], reward: dict[str, Any], options: str, tmp_path: Path
) -> None:
    logged = []
    for epoch in range(8):
        own = {name: text.format(epoch) for name, text in texts.items()}
        logged.append({"epoch": epoch, **own, **reward})
    (text,) = warned(load(write(tmp_path / "u.jsonl", logged)))
    fields = ", ".join(f"`{name}`" for name in texts)
    assert text == (
        f"text fields {fields} are not read; if these are rollouts, pass {options}"
    )


def test_a_status_a_name_or_a_time_beside_metrics_is_no_text_to_read(
    tmp_path: Path,
) -> None:
    logged = [
        {
            **row,
            "status": "all is well",
            "run": "my first run",
            "elapsed_time": f"about {i} hours and more",
            "progress": f"{i}/8",
            "checkpoint": f"out/step_{i}",
        }
        for i, row in enumerate(rows())
    ]
    assert not warned(load(write(tmp_path / "log.jsonl", logged)))


def test_a_table_without_steps_is_told_with_its_columns(tmp_path: Path) -> None:
    odd = [{f"c{i}": 0.5 for i in range(12)}] * 5
    path = write(tmp_path / "odd.csv", odd)
    why = "no column is named step: found `c0`, "
    with pytest.raises(RlreportError, match=why) as error:
        load(path)
    assert "`c9` and 2 more; rename the column that counts steps to `step`" in str(
        error.value
    )
    write(tmp_path / "metrics.jsonl", rows())
    done = run("inspect", tmp_path)
    assert why in done.stdout


def test_a_text_of_millions_of_letters_is_no_longer_searched_than_another(
    tmp_path: Path,
) -> None:
    letters = "x" * 2_000_000
    lines = [f"{step},0.5,{letters}{step}" for step in range(4)]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(["step,reward,text", *lines]))
    start = time.perf_counter()
    assert load(path).table["reward"].tolist() == [0.5] * 4
    # Quadratic time would be hours.
    assert time.perf_counter() - start < 20


def test_an_object_by_numbers_of_prompts_is_no_curve(tmp_path: Path) -> None:
    write(tmp_path / "log.json", rows())
    numbers = np.random.default_rng(2).permutation(500).tolist()
    of_prompt = {"baseline": 0.1, "reward": 0.5, "loss": 0.3}
    statistics = {str(number): of_prompt for number in numbers}
    write(tmp_path / "prompt_stats.json", statistics)
    found = load(tmp_path)
    assert [file.name for file in found.files] == ["log.json"]
    # Steps are, also if they are sorted as texts.
    by_step = {str(step): {"loss": 0.1, "kl": 0.1} for step in range(STEPS)}
    sorted_as_texts = json.loads(json.dumps(by_step, sort_keys=True))
    other = write(tmp_path / "other" / "log.json", sorted_as_texts)
    assert load(other).table["step"].tolist() == list(range(STEPS))
