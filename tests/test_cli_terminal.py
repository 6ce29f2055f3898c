"""Control characters of file names, fields and texts never reach the terminal."""

from __future__ import annotations

import json
import os

import pytest

from tests.running import rlreport

EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b2J\x08\u202egnp\rrlreport: all is well"
ALLOWED = {"\n", "\t"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Logs with hostile names of files and fields, texts and broken lines."""
    folder = tmp_path_factory.mktemp("evil") / EVIL
    folder.mkdir()
    rows = [
        {
            "step": step,
            "prompt": EVIL,
            "response": f"{EVIL} {'hack ' * step} {i}",
            "reward": float(step + i % 2),
            "response_tokens": [EVIL, "x"],
            "logprobs": [-1.0, -0.5],
            "ref_logprobs": [-1.1, -0.4],
            EVIL: 1.5 + i,
            "text": EVIL,
        }
        for step in range(6)
        for i in range(8)
    ]
    lines = [json.dumps(row) for row in rows]
    lines += [json.dumps({"step": EVIL}), "{" + EVIL, json.dumps([EVIL])]
    (folder / f"{EVIL}\n.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / f"{EVIL}.json").write_text(json.dumps({EVIL: EVIL}))
    os.mkfifo(folder / f"{EVIL}pipe.jsonl")
    return folder


def said(*arguments, **extra):
    """Exit status and all that the command writes."""
    done = rlreport(*arguments, **extra)
    text = done.stdout + done.stderr
    assert "Traceback" not in text
    assert all(c in ALLOWED or (c.isprintable() or c in "\u00a0") for c in text), repr(text)
    assert not any(line.startswith("rlreport: all is well") for line in text.splitlines())
    return done.returncode, text


@pytest.mark.parametrize("command", [("inspect",), ("check",), ("check", "--json")])
def test_what_is_read_is_told_without_control_characters(logs, command):
    status, _ = said(*command, logs)
    assert status == 0
    if "--json" in command:
        json.loads(said(*command, logs, "--quiet")[1])


def test_a_build_and_where_it_is(logs, tmp_path):
    status, text = said("build", logs, "-o", tmp_path / EVIL, "--title", EVIL)
    assert status == 0
    assert "48 responses" in text
    assert (tmp_path / EVIL / "index.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("build", EVIL),
        ("build", ".", "--map", EVIL),
        ("build", ".", "--format", EVIL),
        ("build", ".", "--max-size", EVIL),
        ("build", ".", f"--{EVIL}"),
        ("build", ".", "--thresholds", EVIL),
        ("build", ".", "-o", f"{EVIL}/{EVIL}/x.html"),
        (EVIL,),
    ],
)
def test_errors_quote_without_control_characters(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / EVIL).write_text("no folder")
    assert said(*arguments)[0] == 2


def test_a_terminal_that_knows_only_ascii_is_no_error(logs):
    ascii = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    status, _ = said("inspect", logs, env=ascii)
    assert status == 0
