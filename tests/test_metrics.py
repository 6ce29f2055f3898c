"""Trainer metrics of every kind of file become one table by step; their names tell their roles."""

import gzip
import json
import math
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.errors import MissingExtraError, RlreportError, UnusableInputError
from rlreport.flows.build import check_logs
from rlreport.metrics.find import MAX_BROKEN, find_and_read, find_metrics
from rlreport.metrics.roles import in_unit_of, known_keys, roles_of
from rlreport.options import BuildOptions
from rlreport.system.stores import zstd
from rlreport.tables import NoteKind
from tests.net import RUNS, WRITTEN
from tests.reading import row, write

EVENTS = RUNS / "trainer" / "tensorboard" / "events.out.tfevents.1"


def _table(path: Path) -> pd.DataFrame:
    return find_and_read([], [path]).table


def _found(folder: Path) -> list[Path]:
    return [source.path for source in find_metrics(folder)]


def trainer_state(folder: Path, step: int) -> Path:
    state = {"global_step": step, "log_history": [{"kl": 0.5, "step": step}]}
    return write(folder / "trainer_state.json", [json.dumps(state)])


def test_without_tensorboard_the_command_that_brings_its_reader_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    with pytest.raises(
        MissingExtraError, match=r"pip install 'rlreport\[tensorboard\]'"
    ):
        _table(EVENTS)


def _refusal(folder: Path) -> str:
    with pytest.raises(RlreportError) as refused:
        check_logs([folder], BuildOptions(workers=1))
    return str(refused.value)


def test_without_tensorboard_a_folder_of_events_says_what_to_install(
    monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    shutil.copy(EVENTS, tmp_path)
    told = _refusal(tmp_path)
    assert "pip install 'rlreport[tensorboard]'" in told
    assert "not named like a log" not in told
    write(tmp_path / "rollouts.jsonl", [row(step) for step in range(3)])
    report = rlreport.build(tmp_path, tmp_path / "out", workers=1)
    (note,) = (
        note for note in report.tables.notes if "rlreport[tensorboard]" in note.text
    )
    assert note.kind == NoteKind.FORMAT  # printed on the terminal, too


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_of_very_many_metrics_says_the_limit(kind: str, tmp_path: Path) -> None:
    names = ["step", *(f"metric_of_some_layer_{i}" for i in range(60_000))]
    rows = [[step, *[0.5] * 60_000] for step in range(3)]
    if kind == "csv":
        lines = [
            ",".join(names) + "\n",
            *(",".join(map(str, cells)) + "\n" for cells in rows),
        ]
        told = _refusal(write(tmp_path / "metrics.csv", lines).parent)
        assert "more than 5,000 columns" in told and "column named step" not in told
        return
    write(
        tmp_path / "metrics.jsonl",
        [dict(zip(names, cells, strict=True)) for cells in rows],
    )
    found = find_and_read([tmp_path])
    assert len(found.table.columns) == 2_001
    assert "58,000 metrics beyond the first 2,000 left out" in found.notes[0].text


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ((), "an empty folder; looked for rollouts"),
        (
            ("checkpoint-500/model.safetensors", "checkpoint-500/config.json"),
            "checkpoint-500: a checkpoint of model weights; looked for trainer_state.json",
        ),
        (
            ("wandb/run-20260101_120000-abc/files/config.yaml",),
            "wandb/run-20260101_120000-abc: a folder of W&B; looked for its run file run-*.wandb",
        ),
        (
            ("files/wandb-summary.json", "files/config.yaml"),
            "files: a folder of W&B; looked for its run file run-*.wandb",
        ),
    ],
)
def test_a_folder_without_logs_says_what_was_looked_for(
    files, told, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    for name in files:
        write(tmp_path / "logs" / name, ["{}\n"])
    assert f"No rollout log found ({'' if files else 'logs: '}{told}" in _refusal(
        tmp_path / "logs"
    )


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_compressed_metrics_are_found_and_read_up_to_where_they_are_torn(
    tmp_path, packing
):
    pack = gzip.compress if packing == ".gz" else zstd.compress
    lines = "".join(f'{{"step": {step}, "kl": {step}.5}}\n' for step in range(20_000))
    whole = tmp_path / f"a.jsonl{packing}"
    table = tmp_path / f"b.csv{packing}"
    whole.write_bytes(pack(lines.encode()))
    table.write_bytes(pack(b"step,kl\n1,0.5\n"))
    assert _found(tmp_path) == [whole, table]
    assert _table(whole)["kl"].tolist() == [step + 0.5 for step in range(20_000)]
    assert _table(table).to_dict("list") == {"step": [1], "kl": [0.5]}
    whole.write_bytes(pack(lines.encode())[:-500])
    torn = _table(whole)
    assert 0 < len(torn) < 20_000
    assert torn["kl"].iloc[-1] == torn["step"].iloc[-1] + 0.5
    whole.write_bytes(b"no archive")
    assert _found(tmp_path) == [table]
    with pytest.raises(UnusableInputError, match="cannot be read as metrics"):
        _table(whole)


def test_only_the_first_steps_of_values_that_are_not_finite_are_named(
    tmp_path: Path,
) -> None:
    rows = [{"step": step, "loss": math.nan} for step in range(3 * MAX_BROKEN)]
    found = find_and_read([], [write(tmp_path / "metrics.jsonl", rows)])
    assert found.broken == {"loss": list(range(MAX_BROKEN))}


def test_a_number_too_large_to_calculate_with_counts_as_infinite(
    tmp_path: Path,
) -> None:
    losses = [1e150, 1e151, -1e300, math.inf]
    rows = [{"step": step, "loss": loss} for step, loss in enumerate(losses)]
    found = find_and_read([], [write(tmp_path / "metrics.jsonl", rows)])
    assert found.table["loss"].dropna().tolist() == [1e150]
    assert found.broken == {"loss": [1, 2, 3]}


def test_metrics_are_found_beside_rollouts_and_rollouts_are_not(tmp_path: Path) -> None:
    shutil.copytree(WRITTEN, tmp_path, dirs_exist_ok=True)
    (tmp_path / "table.csv").write_text("step,loss\n1,0.5\n")
    (tmp_path / "answers.csv").write_text("step,answer\n1,four\n")
    (tmp_path / "run.csv").write_text("step,prompt,response,reward\n1,2+2?,4,1\n")
    expected = {
        trainer_state(tmp_path / "checkpoint-9", step=9),
        write(
            tmp_path / "project" / "experiment.jsonl",
            [{"step": 1, "data": {"actor/loss": 1.0}}],
        ),
        write(
            tmp_path / "metrics.jsonl", [{"step": 0, "env/reward": 1.0, "name": "x"}]
        ),
        shutil.copytree(EVENTS.parent, tmp_path / "runs") / EVENTS.name,
        tmp_path / "table.csv",
    }
    trainer_state(tmp_path / "checkpoint-3", step=3)
    write(tmp_path / ".cache" / "metrics.jsonl", [{"step": 0, "loss": 1.0}])
    assert _found(tmp_path) == sorted(expected)


def test_nesting_without_end_costs_its_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    deep = '{"a": ' * 100_000 + "1" + "}" * 100_000
    path.write_text(f'{{"step": 1, "kl": 0.5}}\n{{"step": 2, "b": {deep}}}\n')
    assert _table(path)["step"].tolist() == [1]
    state = tmp_path / "trainer_state.json"
    state.write_text(deep)
    with pytest.raises(UnusableInputError, match="nested too deep"):
        _table(state)
    read = find_and_read([tmp_path], [])
    assert [note.file for note in read.notes] == ["metrics.jsonl", "trainer_state.json"]


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    for name in (
        "metrics.jsonl",
        "trainer_state.json",
        "events.out.tfevents.1",
        "x.csv",
    ):
        os.mkfifo(tmp_path / name)
    assert _found(tmp_path) == []
    for path, why in (
        (tmp_path, "this folder contains no"),
        (tmp_path / "x.csv", "no such file"),
    ):
        with pytest.raises(UnusableInputError, match=why):
            _table(path)


@pytest.mark.parametrize("framework", sorted({key.framework for key in known_keys()}))
def test_each_known_key_has_its_role_alone_and_among_the_keys_of_its_framework(
    framework,
) -> None:
    rows = [row for row in known_keys() if row.framework == framework]
    names = {row: row.key.replace("*", "8") for row in rows}
    among = roles_of(sorted(names.values()))
    for key, name in names.items():
        assert roles_of([name]) == {key.role: name}
        preferred = next(row for row in rows if row.role == key.role)
        assert among[key.role] == names[preferred]


@pytest.mark.parametrize(
    ("role", "name", "logged", "expected"),
    [
        ("zero_variance", "env/all/by_group/frac_mixed", 0.7, 0.3),
        ("dropped", "train/dynamic_filtering_pass_rate", 75.0, 0.25),
        ("mismatch_ratio", "sampling/sampling_logp_difference/mean", np.log(1.2), 1.2),
        ("zero_variance", "train/frac_reward_zero_std", 0.7, 0.7),
        ("truncated", "any/other", 0.7, 0.7),
    ],
)
def test_values_are_converted_to_the_unit_of_their_role(role, name, logged, expected):
    assert in_unit_of(role, name, np.array([logged])) == pytest.approx([expected])


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("reward", "reward accuracy rewards/format/mean"),
        ("reward", "rollout/mean_reward train_reward answer_accuracy"),
        ("reward", "rollout/raw_reward rollout/rewards"),
        ("reward", "critic/score/mean critic/rewards/mean critic/returns/mean"),
        ("reward", "reward/overall reward/accuracy reward/format"),
        ("reward", "env/all/reward/total env/all/correct env/all/format"),
        ("validation", "val_mean_reward val_accuracy val_format_ok_rate"),
        (
            "validation",
            "eval_reward eval_rewards/correctness/mean eval_rewards/format/mean",
        ),
        ("validation", "val-core/math/acc/mean@4 val-core/math/acc/best@4/mean"),
        ("kl_token", "kl actor/kl_loss"),
        ("length", "completions/mean_length completions/mean_terminated_length"),
        ("loss", "loss policy_loss loss/value_avg"),
    ],
)
def test_of_several_metrics_the_plain_one_is_taken_in_any_order(
    role: str, names: str
) -> None:
    listed = names.split()
    assert roles_of(listed)[role] == listed[0]
    assert roles_of(listed[::-1])[role] == listed[0]


def test_a_name_may_begin_with_its_run_as_in_an_export_of_a_chart() -> None:
    assert roles_of(["grpo-7b - train/reward", "grpo-7b - train/reward__MAX"]) == {
        "reward": "grpo-7b - train/reward"
    }


def _printed(path: Path, decimals: int | None, steps: int = 30) -> Path:
    """A console of verl with a fixed number of decimals, or numbers as Python prints them."""

    def cell(value: float) -> str:
        return f"np.float64({value!r})" if decimals is None else f"{value:.{decimals}f}"

    lines = []
    for step in range(1, steps + 1):
        logged = {
            "actor/lr": 1e-6,
            "actor/kl_loss": 0.0004 if step < 9 else 0.002,
            "actor/grad_norm": 0.3 + 0.01 * (step % 5),
            "critic/score/mean": 0.1 + 0.02 * step,
            "response_length/clip_ratio": 0.0,
        }
        cells = [f"{name}:{cell(value)}" for name, value in logged.items()]
        lines.append(f"(main_task pid=1) step:{step} - {' - '.join(cells)}\n")
    return write(path, lines)


def test_what_a_console_prints_as_zero_at_all_steps_is_unknown(tmp_path: Path) -> None:
    found = find_and_read([], [_printed(tmp_path / "train.log", 3)])
    assert {"actor/lr", "response_length/clip_ratio"}.isdisjoint(found.table)
    assert found.table["actor/kl_loss"].tolist()[:2] == [
        0.0,
        0.0,
    ]  # as it is more than 0 later
    (told,) = found.notes
    assert told.count == 2 and "prints as 0.000 at all steps" in told.text
    exact = find_and_read([], [_printed(tmp_path / "new.log", None)])
    assert set(exact.table["actor/lr"]) == {1e-6}
    assert set(exact.table["response_length/clip_ratio"]) == {0.0} and not exact.notes


def test_a_learning_rate_that_a_console_rounds_to_zero_is_no_finding(
    tmp_path: Path,
) -> None:
    verdict = check_logs([_printed(tmp_path / "train.log", 3)], BuildOptions(workers=1))
    assert verdict.level == "healthy" and "no_updates" not in {
        f.id for f in verdict.findings
    }
