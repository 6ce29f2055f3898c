"""Folders that may be listed but not entered, links that point up, and names that are no UTF-8."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from email import message_from_bytes, policy
from pathlib import Path

import pytest

import rlreport
from rlreport.errors import UsageError
from rlreport.metrics import metrics_beside
from rlreport.read.logs import read_logs
from tests.reading import row, write

AS_USER = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
     "--inh-caps=-dac_override,-dac_read_search"]
    if os.geteuid() == 0
    else []
)  # fmt: skip
"""Root without the right to read whatever it likes."""


@pytest.mark.skipif(bool(AS_USER) and not shutil.which("setpriv"), reason="needs setpriv for root")
@pytest.mark.parametrize(
    "command",
    ["build {logs} -o {out}", "inspect {logs}", "check {logs}", "index {logs} -o {out}.html",
     "build {logs}/a.jsonl -o {out}"],
)  # fmt: skip
def test_a_folder_that_cannot_be_entered_is_a_message(command: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs / "a.jsonl", [row(0)])
    logs.chmod(0o644)
    words = command.format(logs=logs, out=tmp_path / "out").split()
    program = [*AS_USER, sys.executable, "-m", "rlreport", *words]
    try:
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        logs.chmod(0o755)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert str(logs) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.skipif(bool(AS_USER) and not shutil.which("setpriv"), reason="needs setpriv for root")
def test_the_index_names_a_report_that_must_not_be_read_and_lists_the_others(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a.jsonl", [row(0)])
    for name in ("good", "file", "folder"):
        rlreport.build(tmp_path / "a.jsonl", tmp_path / "runs" / name, workers=1)
    closed = (tmp_path / "runs/file/data/report.json", tmp_path / "runs/folder")
    words = [*AS_USER, sys.executable, "-m", "rlreport", "index", "runs", "-o", "index.html"]
    try:
        for path in closed:
            path.chmod(0)
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        for path in closed:
            path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Permission denied") == 2 and "3 reports" in done.stdout
    assert str(tmp_path) not in (tmp_path / "index.html").read_text("utf-8")


def test_links_that_point_up_are_followed_once(tmp_path: Path) -> None:
    deep = tmp_path / "runs" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "runs" / ".hidden").mkdir()
    for path in (
        deep / "1.jsonl",
        deep.parent / "2.jsonl",
        tmp_path / "runs" / ".hidden" / "3.jsonl",
    ):
        write(path, [row(0, prompt=path.name)])
    for folder in (deep, deep.parent):
        for name in ("up", "again"):
            (folder / name).symlink_to(tmp_path / "runs", target_is_directory=True)
    found = read_logs([f"{tmp_path}/runs/**/*.jsonl"]).files
    assert [file.name for file in found] == ["a/2.jsonl", "a/b/1.jsonl"]
    assert [file.name for file in read_logs([f"{tmp_path}/runs/**/b"]).files] == ["a/b/1.jsonl"]
    with pytest.raises(UsageError, match="No such file"):
        read_logs([f"{tmp_path}/runs/**/*.csv"])


@pytest.mark.parametrize("name", ["训练".encode("gbk"), b"run \xff"])
def test_a_folder_whose_name_is_no_utf8_in_a_mail(name: bytes, tmp_path: Path) -> None:
    logs = tmp_path / os.fsdecode(name)
    logs.mkdir()
    write(logs / "a.jsonl", [row(step) for step in range(3)])
    for title, subject in ((None, None), ("a\udcd1b", None), (None, "a\udcd1b")):
        report = rlreport.build(logs, tmp_path / "run.eml", title=title, subject=subject)
        mail = message_from_bytes(Path(str(report.out)).read_bytes(), policy=policy.default)
        assert "\N{REPLACEMENT CHARACTER}" in mail["Subject"]
    rlreport.compare(logs, logs, tmp_path / "compare.eml")


def test_a_lone_surrogate_in_any_field_is_made_safe(tmp_path: Path) -> None:
    fields = ("split", "agent", "group_id", "note", "prompt", "\ud800")
    rows = [{**row(step), field: "a\ud800"} for field in fields for step in range(3)]
    rows.append({**row(3), "turns": [{"role": "tool", "name": "\udfff", "text": "x\udc00"}]})
    lines = "".join(json.dumps(one) + "\n" for one in [*rows, row(4)])
    (tmp_path / "log.jsonl").write_text(lines)
    for form in ("out", "out.html", "out.eml", "out.md", "out.zip"):
        rlreport.build(tmp_path / "log.jsonl", tmp_path / form)
    shown = rlreport.build(tmp_path / "log.jsonl", tmp_path / "names", redact="names").shown
    assert shown == len(rows) + 1
    (tmp_path / "m.jsonl").write_text('{"step": 1, "a\\ud800": 0.5}\n')
    assert list(metrics_beside([tmp_path / "m.jsonl"]).table.columns) == ["step", "a\ufffd"]
