"""Several runs given as one: said, and never said of the ranks of one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlreport
from rlreport.about.several_runs import SEVERAL_RUNS
from rlreport.cli import main


def folders(root, *names, config=False, steps=(0, 1), file="a.jsonl"):
    for i, name in enumerate(names):
        (root / name).mkdir(parents=True)
        own = steps if file else [step + i for step in steps]
        rows = [{"step": s, "prompt": "p", "response": "r", "reward": i} for s in own]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / name / (file or f"{i}.jsonl")).write_text(text)
        if config:
            (root / name / "config.yaml").write_text(f"lr: {i}\n")
    return root


def mixed(report):
    return [note.text for note in report.tables.notes if note.kind == SEVERAL_RUNS]


def test_two_runs_are_told_beside_the_verdict_and_on_the_data_page(tmp_path, capsys):
    logs = folders(tmp_path / "logs", "kl_low", "kl_high")
    out = tmp_path / "out"
    with pytest.raises(SystemExit):
        main(["build", str(logs), "-o", str(out)])
    said = "kl_high/ and kl_low/ look like 2 runs"
    assert said in capsys.readouterr().err
    for page in ("index.html", "data.html"):
        text = (out / page).read_text()
        assert said in text
        assert "rlreport index" in text
        assert "rlreport compare" in text
    assert not mixed(rlreport.build(logs, out, merge=True))
    assert mixed(rlreport.build([logs / "kl_low", logs / "kl_high"], out))
    rlreport.build(logs, tmp_path / "out.md")
    assert "look like 2 runs" in (tmp_path / "out.md").read_text()
    assert "kl_low" not in mixed(rlreport.build(logs, out, redact="names"))[0]


def test_folders_with_a_configuration_each_are_runs_whatever_their_files(tmp_path):
    logs = folders(tmp_path / "logs", "a", "b", config=True, file="")
    assert "its own configuration" in mixed(rlreport.build(logs, tmp_path / "out"))[0]
    logs = folders(tmp_path / "other", "a", "b", file="")
    assert not mixed(rlreport.build(logs, tmp_path / "out"))


def test_runs_of_different_lengths_are_several_runs(tmp_path):
    said = mixed(rlreport.build(Path(__file__).parents[1] / "sample_logs", tmp_path / "out"))
    assert "look like 2 runs, as they share 40 steps" in said[0]


@pytest.mark.parametrize(
    "names", [("rank_0", "rank_1"), ("worker-0", "worker-1"), ("train", "val"), ("0", "1")]
)
def test_folders_that_one_run_writes_are_one_run(names, tmp_path):
    logs = folders(tmp_path / "logs", *names)
    assert not mixed(rlreport.build(logs, tmp_path / "out"))


@pytest.mark.parametrize(
    ("names", "prompts", "expected"),
    [
        (("seed_1", "seed_2"), "", True),
        (("lr_low", "lr_high"), "p", True),
        (("lr_low", "lr_high"), "", False),  # such as an environment a file
        (("rank_0", "rank_1"), "p", False),
        (("rollouts_0", "rollouts_1"), "p", False),
        (("train", "val"), "p", False),
    ],
)
def test_files_of_several_runs_in_one_folder(names, prompts, expected, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in names:
        rows = [{"step": s, "prompt": prompts or name, "response": "r", "reward": s % 2}
                for s in range(6)]  # fmt: skip
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (logs / f"{name}.jsonl").write_text(text)
    report = rlreport.build(logs, tmp_path / "out")
    assert bool(mixed(report)) == expected
    found = {finding.id: finding.severity for finding in report.verdict.findings}
    assert found.get("mixed_runs") == ("warning" if expected else None)
