"""The command line: what it says, its exit status, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import rlreport as package
from tests.hostile import hostile_rows, write_log
from tests.running import build, rlreport

WHY = "no known log format; try "
ROW = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "log.jsonl", [ROW | {"reward": i / 7} for i in range(8)])


def complains(done, *words):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("rlreport:", "Error:"))]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_version_and_help_come_without_pandas():
    assert rlreport("--version").stdout.strip() == f"rlreport, version {package.__version__}"
    script = (
        "import sys, click.testing, rlreport.cli as c\n"
        "click.testing.CliRunner().invoke(c.main, ['build', '--help'])\n"
        "sys.exit('pandas' in sys.modules)"
    )
    import subprocess

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("command", ["build", "inspect", "check", "checks", "formats"])
def test_every_command_has_help_with_examples(command):
    done = rlreport(command, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    options = re.findall(
        r"^  (?:-\w, )?--[\w-]+(?: \S+)*?(?:  +(\S.*))?$", done.stdout, re.MULTILINE
    )
    assert options


def test_a_build_says_where_the_report_is_and_what_it_holds(log, tmp_path):
    done = build(log, tmp_path / "report")
    last = done.stdout.splitlines()[-1]
    assert last.startswith(str(tmp_path / "report" / "index.html"))
    assert "8 responses, 1 step" in last


def test_quiet_is_quiet(log, tmp_path):
    done = build(log, tmp_path / "report", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_missing_path_is_one_line(tmp_path):
    complains(rlreport("build", tmp_path / "nowhere", "-o", tmp_path / "r"), "nowhere")
    assert not (tmp_path / "r").exists()


def test_logs_without_rows_are_one_line(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    complains(rlreport("build", tmp_path / "empty.jsonl", "-o", tmp_path / "r"))
    (tmp_path / "folder").mkdir()
    complains(rlreport("build", tmp_path / "folder", "-o", tmp_path / "r"))
    assert not (tmp_path / "r").exists()


def test_logs_without_a_usable_row_say_why(tmp_path):
    log = write_log(tmp_path / "bad.jsonl", [{"step": 1, "prompt": "p", "response": "r"}] * 3)
    complains(rlreport("build", log, "-o", tmp_path / "r"), "reward")
    assert sorted(tmp_path.iterdir()) == [log]


def test_an_unwritable_place_is_one_line(log, tmp_path):
    (tmp_path / "file").write_text("x")
    complains(rlreport("build", log, "-o", tmp_path / "file" / "report"), "file")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize(
    "option",
    [
        ("--gamma", "2"),
        ("--map", "reward"),
        ("--step-from-path", "("),
        ("--step-from-path", "step"),
        ("--format", "pptx"),
        ("--max-size", "-3"),
        ("--thresholds", "none.toml"),
        ("--no-such-option",),
    ],
)
def test_a_bad_option_is_exit_status_2(log, tmp_path, option):
    done = rlreport("build", log, "-o", tmp_path / "r", *option)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert option[0].lstrip("-") in done.stderr
    assert not (tmp_path / "r").exists()


def test_unreadable_lines_are_named_on_the_terminal_the_page_and_the_json(tmp_path):
    log = tmp_path / "log.jsonl"
    good = json.dumps(ROW)
    log.write_text(f"{good}\n{{not json}}\n{good}\n[1]\n{good[:20]}", "utf-8")
    done = build(log, tmp_path / "report")
    for line in (2, 4, 5):
        assert f"log.jsonl:{line}" in done.stderr
    report = json.loads((tmp_path / "report" / "data" / "report.json").read_bytes())
    assert [(b["file"], b["line"]) for b in report["bad_lines"]] == [
        ("log.jsonl", 2),
        ("log.jsonl", 4),
        ("log.jsonl", 5),
    ]
    assert [b["torn"] for b in report["bad_lines"]] == [False, False, True]
    assert report["responses"] == 2
    page = (tmp_path / "report" / "data.html").read_text("utf-8")
    for bad in report["bad_lines"]:
        assert bad["reason"].split(":")[0][:20] in page


def test_inspect_says_what_is_in_the_logs(tmp_path):
    log = write_log(tmp_path / "log.jsonl", hostile_rows())
    done = rlreport("inspect", log)
    assert done.returncode == 0, done.stderr
    assert "48 responses over 4 steps (0–3), usually 12 per step" in done.stdout
    assert re.search(r"logprobs +all rows", done.stdout)
    assert re.search(r"valid_reward +missing", done.stdout)


def test_logs_of_no_known_format_are_answered_with_a_mapping_that_reads_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    rows = [{"iter": 3, "query": "q", "data": {"completion": "a"}, "score": i / 2} for i in (0, 1)]
    write_log(logs / "unknown.jsonl", rows)
    for name in "abcd":
        (logs / f"{name}.json").write_text('{"lr": "1e-6"}')
    options = (
        *("--map", "step=iter", "--map", "prompt=query"),
        *("--map", "response=data.completion", "--map", "reward=score"),
    )
    for command in ("inspect", "build"):
        done = rlreport(command, logs)
        complains(
            done, "No rollout log found", f"unknown.jsonl: not read: {WHY}{' '.join(options)}"
        )
        assert "and 2 files more" in done.stderr
    done = rlreport("inspect", logs, *options)
    assert done.returncode == 0, done.stderr
    assert "2 responses over 1 step (3–3)" in done.stdout
    assert re.search(r"unknown\.jsonl +mapped.*step=iter", done.stdout)
    assert re.search(r"a\.json\b", done.stdout)


def test_inspect_names_a_mapping_for_files_beside_those_it_reads(tmp_path):
    write_log(tmp_path / "known.jsonl", [ROW])
    write_log(tmp_path / "unknown.jsonl", [{"query": "q", "output": "a", "score": 1.0}])
    done = rlreport("inspect", tmp_path)
    assert done.returncode == 0, done.stderr
    told = f"not read: {WHY}--map prompt=query --map response=output --map reward=score"
    assert told in done.stdout
    assert re.search(r"known\.jsonl +rlboard, .*\(has `step`, `prompt`", done.stdout)


def test_fail_on_sets_the_exit_status(shared_data, tmp_path):
    hacked, healthy = shared_data / "ppo_reward_hacking", shared_data / "ppo_healthy"
    done = rlreport("check", hacked, "--fail-on", "critical", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["severity"] == "critical"
    assert rlreport("check", healthy, "--fail-on", "warning").returncode == 0


def test_a_closed_pipe_is_no_traceback(log):
    import subprocess

    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "rlreport", "inspect", str(log)],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert b"Traceback" not in done.stderr


def test_the_module_runs_without_those_of_the_current_folder(log, tmp_path):
    trap = tmp_path / "trapped"
    for name in ("pickle", "json", "numpy", "orjson", "click"):
        (tmp_path / f"{name}.py").write_text(f"open({str(trap)!r}, 'a').write(__name__)\n")
    command = [sys.executable, "-m", "rlreport", "inspect", str(log)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not trap.exists(), trap.read_text()


@pytest.mark.parametrize("command", ["compare", "index"])
def test_a_dash_is_no_name_of_a_file(command, log, tmp_path):
    complains(rlreport(command, log, log, "-o", "-", cwd=tmp_path), "-o -:", "output path")
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_standard_error_that_is_full_leaves_the_exit_status(log, tmp_path):
    def status(*args):
        with open("/dev/full", "w") as full:  # noqa: PTH123
            return subprocess.run(
                [sys.executable, "-m", "rlreport", *map(str, args)],
                check=False, stdout=subprocess.DEVNULL, stderr=full,
            ).returncode  # fmt: skip

    assert status("check", log) == 0
    assert status("check", tmp_path / "missing") == 2
    assert status("check", "--no-such-option") == 2


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
