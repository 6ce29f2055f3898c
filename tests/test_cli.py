"""The command line: what it says, also of odd folders and names, and what it leaves behind."""

import json
import os
import re
import shutil
import subprocess
import sys
from email import message_from_bytes, policy
from itertools import product
from pathlib import Path

import pytest

import rlreport as package
from rlreport.errors import UsageError
from rlreport.metrics.find import find_and_read
from rlreport.read.logs import read_logs
from tests.hostile import hostile_rows, write_log
from tests.reading import row, tokens, write
from tests.running import build, rlreport

WHY = "no known log format; try "
ROW = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}


@pytest.fixture
def log(tmp_path):
    return write_log(
        tmp_path / "log.jsonl", [ROW | {"reward": i / 7} for i in range(8)]
    )


def complains(done, *words):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    lines = [
        line
        for line in done.stderr.splitlines()
        if line.startswith(("rlreport:", "Error:"))
    ]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_version_and_help_come_without_slow_packages():
    assert (
        rlreport("--version").stdout.strip()
        == f"rlreport, version {package.__version__}"
    )
    script = (
        "import sys, click.testing, rlreport, rlreport.cli.main as c\n"
        "click.testing.CliRunner().invoke(c.main, ['build', '--help'])\n"
        "sys.exit(any(m in sys.modules for m in ('pandas', 'altair', 'email.message')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_build_says_where_the_report_is_and_what_it_holds_unless_it_is_quiet(
    log, tmp_path
):
    sizes, last = build(log, tmp_path / "report").stdout.splitlines()[-2:]
    assert last == str(tmp_path / "report" / "index.html")
    assert "8 responses, 1 step" in sizes
    done = build(log, tmp_path / "report", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("logs", "out", "reason"),
    [
        ("nowhere", "r", "nowhere"),
        ("empty.jsonl", "r", ""),
        ("folder", "r", ""),
        ("bad.jsonl", "r", "reward"),
        ("log.jsonl", "empty.jsonl/report", "empty.jsonl"),
    ],
)
def test_what_cannot_be_built_is_one_line_and_leaves_nothing(
    log, logs, out, reason, tmp_path
):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    write_log(tmp_path / "bad.jsonl", [{"step": 1, "prompt": "p", "response": "r"}] * 3)
    before = sorted(tmp_path.iterdir())
    complains(rlreport("build", tmp_path / logs, "-o", tmp_path / out), reason)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "empty.jsonl").read_text() == ""


def test_unreadable_lines_are_named_on_the_terminal_the_page_and_the_json(tmp_path):
    log = tmp_path / "log.jsonl"
    good = json.dumps(ROW)
    log.write_text(f"{good}\n{{not json}}\n{good}\n[1]\n{good[:20]}", "utf-8")
    done = build(log, tmp_path / "report")
    for line in (2, 4, 5):
        assert f"log.jsonl:{line}" in done.stderr
    report = json.loads((tmp_path / "report" / "data" / "report.json").read_bytes())
    found = [(bad["file"], bad["line"], bad["torn"]) for bad in report["bad_lines"]]
    assert found == [("log.jsonl", line, line == 5) for line in (2, 4, 5)]
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


def test_logs_of_no_known_format_are_answered_with_a_mapping_that_reads_them(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / "logs"
    rows = [
        {"iter": 3, "query": "q", "data": {"completion": "a"}, "score": i / 2}
        for i in (0, 1)
    ]
    write_log(logs / "unknown.jsonl", rows)
    for name in "abcd":
        (logs / f"{name}.json").write_text('{"lr": "1e-6"}')
    options = (
        "--map",
        "step=iter",
        "--map",
        "prompt=query",
        "--map",
        "response=data.completion",
        "--map",
        "reward=score",
    )
    why = f"unknown.jsonl: not read: {WHY}{' '.join(options)}"
    built = rlreport("build", logs)
    complains(built, "No rollout log found", why)
    assert "and 3 more" in built.stderr  # one of them for the same reason
    # Inspecting succeeds, as it says what there is.
    inspected = rlreport("inspect", logs)
    assert inspected.returncode == 0, inspected.stderr
    assert why in inspected.stdout
    assert re.search(r"data\.completion +text", inspected.stdout)
    done = rlreport("inspect", logs, *options)
    assert done.returncode == 0, done.stderr
    assert "2 responses over 1 step (3–3)" in done.stdout
    assert re.search(r"unknown\.jsonl +mapped.*step=iter", done.stdout)
    assert re.search(r"a\.json\b", done.stdout)


def test_inspect_says_that_a_file_is_empty(tmp_path):
    for name in ("a.jsonl", "a.json", "a.csv", "a.log"):
        path = tmp_path / name
        path.touch()
        complains(rlreport("inspect", path), "empty")


def test_inspect_says_after_the_fields_what_to_try_or_what_is_needed(tmp_path):
    log = write_log(tmp_path / "a.jsonl", [{"query": "q", "text": "a", "n": 1}])
    said = rlreport("inspect", log).stdout
    options = "--map prompt=query --map response=text --map reward=FIELD"
    assert said.endswith(f"\nnext: try {options}\n")
    log = write_log(tmp_path / "b.jsonl", [{"cats": ["a"]}])
    said = rlreport("inspect", log).stdout
    assert "\nrollouts need a prompt, a response and a reward" in said


def test_inspect_names_a_mapping_for_files_beside_those_it_reads(tmp_path):
    write_log(tmp_path / "known.jsonl", [ROW])
    write_log(tmp_path / "unknown.jsonl", [{"query": "q", "output": "a", "score": 1.0}])
    done = rlreport("inspect", tmp_path)
    assert done.returncode == 0, done.stderr
    told = f"not read: {WHY}--map prompt=query --map response=output --map reward=score"
    assert told in done.stdout
    assert re.search(r"known\.jsonl +rlboard, .*\(has `step`, `prompt`", done.stdout)


def test_fail_on_sets_the_exit_status(shared_data, tmp_path):
    hacked = shared_data / "ppo_reward_hacking"
    healthy = shared_data / "ppo_healthy"
    done = rlreport("check", hacked, "--fail-on", "critical", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["severity"] == "critical"
    assert rlreport("check", healthy, "--fail-on", "warning").returncode == 0


def test_a_closed_pipe_is_no_traceback(log):
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


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_report_is_built_while_standard_streams_are_closed(log, tmp_path, closing):
    report = tmp_path / "report"
    script = f'exec "$@" {closing}'
    build = [sys.executable, "-m", "rlreport", "build", log, "-o", report]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *build], capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert (report / "index.html").exists()


def test_the_module_runs_without_those_of_the_current_folder(log, tmp_path):
    trap = tmp_path / "trapped"
    for name in ("pickle", "json", "numpy", "orjson", "click"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(trap)!r}, 'a').write(__name__)\n"
        )
    command = [sys.executable, "-m", "rlreport", "inspect", str(log)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not trap.exists(), trap.read_text()


@pytest.mark.parametrize("command", ["build", "compare"])
def test_a_dash_is_no_name_of_a_file(command, log, tmp_path):
    complains(
        rlreport(command, log, log, "-o", "-", cwd=tmp_path), "-o -:", "output path"
    )
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b2J\x08\u202egnp\rrlreport: all is well"
ALLOWED = {"\n", "\t"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil") / EVIL
    folder.mkdir()
    rows = [
        tokens(EVIL, "x", step=step, reward=float(step + i % 2), prompt=EVIL)
        | {"response": f"{EVIL} {'hack ' * step} {i}", EVIL: 1.5 + i, "text": EVIL}
        for step, i in product(range(6), range(8))
    ]
    lines = [json.dumps(row) for row in rows]
    lines += [json.dumps({"step": EVIL}), "{" + EVIL, json.dumps([EVIL])]
    (folder / f"{EVIL}\n.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / f"{EVIL}.json").write_text(json.dumps({EVIL: EVIL}))
    os.mkfifo(folder / f"{EVIL}pipe.jsonl")
    return folder


def said(*arguments, **extra):
    done = rlreport(*arguments, **extra)
    text = done.stdout + done.stderr
    assert "Traceback" not in text
    assert all(c in ALLOWED or (c.isprintable() or c in "\u00a0") for c in text), repr(
        text
    )
    assert not any(
        line.startswith("rlreport: all is well") for line in text.splitlines()
    )
    return done.returncode, text


@pytest.mark.parametrize("command", ["inspect", "check", "check --json", "build"])
def test_what_is_read_is_told_without_control_characters(logs, command, tmp_path):
    options = ("-o", tmp_path / EVIL, "--title", EVIL) if command == "build" else ()
    status, text = said(*command.split(), logs, *options)
    assert status == 0
    if "--json" in command:
        json.loads(said(*command.split(), logs, "--quiet")[1])
    if command == "build":
        assert "48 responses" in text
        assert (tmp_path / EVIL / "index.html").exists()


@pytest.mark.parametrize(
    "arguments",
    [("build", EVIL), ("build", ".", "-o", f"{EVIL}/{EVIL}/x.html"), (EVIL,)],
)
def test_errors_quote_without_control_characters(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / EVIL).write_text("no folder")
    assert said(*arguments)[0] == 2


@pytest.mark.parametrize(
    ("option", "values"),
    {
        "--gamma": ["2"],
        "--map": ["reward", EVIL],
        "--step-from-path": ["(", "step"],
        "--format": ["pptx", EVIL],
        "--max-size": ["-3", EVIL],
        "--thresholds": ["none.toml", EVIL],
        "--no-such-option": [EVIL],
    }.items(),
)
def test_a_bad_option_is_named_with_exit_status_2(option, values, log, tmp_path):
    for value in values:
        status, text = said("build", log, "-o", tmp_path / "r", option, value)
        assert status == 2 and option.lstrip("-") in text
        assert not (tmp_path / "r").exists()


def test_a_terminal_that_knows_only_ascii_is_no_error(logs):
    ascii = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert said("inspect", logs, env=ascii)[0] == 0


AS_USER = (
    [
        "setpriv",
        "--bounding-set=-dac_override,-dac_read_search",
        "--inh-caps=-dac_override,-dac_read_search",
    ]
    if os.geteuid() == 0
    else []
)
"""Root without the right to read whatever it likes."""


@pytest.mark.skipif(
    bool(AS_USER) and not shutil.which("setpriv"), reason="needs setpriv for root"
)
@pytest.mark.parametrize(
    "command",
    [
        "build {logs} -o {out}",
        "inspect {logs}",
        "check {logs}",
        "index {logs} -o {out}.html",
        "build {logs}/a.jsonl -o {out}",
    ],
)
def test_a_folder_that_cannot_be_entered_is_a_message(
    command: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    write(logs / "a.jsonl", [row(0)])
    logs.chmod(0o644)
    words = command.format(logs=logs, out=tmp_path / "out").split()
    program = [*AS_USER, sys.executable, "-m", "rlreport", *words]
    try:
        done = subprocess.run(
            program, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    finally:
        logs.chmod(0o755)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert str(logs) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.skipif(
    bool(AS_USER) and not shutil.which("setpriv"), reason="needs setpriv for root"
)
def test_the_index_names_a_report_that_must_not_be_read_and_lists_the_others(tmp_path):
    write(tmp_path / "a.jsonl", [row(0)])
    for name in ("good", "file", "folder"):
        package.build(tmp_path / "a.jsonl", tmp_path / "runs" / name, workers=1)
    closed = (tmp_path / "runs/file/data/report.json", tmp_path / "runs/folder")
    words = [
        *AS_USER,
        sys.executable,
        "-m",
        "rlreport",
        "index",
        "runs",
        "-o",
        "index.html",
    ]
    try:
        for path in closed:
            path.chmod(0)
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    finally:
        for path in closed:
            path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Permission denied") == 2 and "3 reports" in done.stdout
    assert str(tmp_path) not in (tmp_path / "index.html").read_text("utf-8")


def test_links_that_point_up_are_followed_once(tmp_path: Path) -> None:
    deep = tmp_path / "runs" / "a" / "b"
    hidden = tmp_path / "runs" / ".hidden" / "3.jsonl"
    for path in (deep / "1.jsonl", deep.parent / "2.jsonl", hidden):
        write(path, [row(0, prompt=path.name)])
    for folder in (deep, deep.parent):
        for name in ("up", "again"):
            (folder / name).symlink_to(tmp_path / "runs", target_is_directory=True)
    found = read_logs([f"{tmp_path}/runs/**/*.jsonl"]).files
    assert [file.name for file in found] == ["a/2.jsonl", "a/b/1.jsonl"]
    assert [file.name for file in read_logs([f"{tmp_path}/runs/**/b"]).files] == [
        "a/b/1.jsonl"
    ]
    with pytest.raises(UsageError, match="No such file"):
        read_logs([f"{tmp_path}/runs/**/*.csv"])


def test_a_folder_whose_name_is_no_utf8_in_a_mail(tmp_path: Path) -> None:
    logs = tmp_path / os.fsdecode("训练".encode("gbk"))
    write(logs / "a.jsonl", [row(step) for step in range(3)])
    odd = "a\udcd1b"
    for given in ({}, {"title": odd, "subject": odd}):
        report = package.build(logs, tmp_path / "run.eml", **given)
        mail = message_from_bytes(
            Path(str(report.out)).read_bytes(), policy=policy.default
        )
        assert "\N{REPLACEMENT CHARACTER}" in mail["Subject"]


def test_files_whose_names_are_no_utf8_stay_apart_and_pictures_of_such_a_name_are_linked(
    tmp_path: Path,
) -> None:
    for name in (b"\xfe", b"\xff"):
        write(
            tmp_path / f"logs/{os.fsdecode(name)}.jsonl",
            [row(step) for step in range(3)],
        )
    out = tmp_path / os.fsdecode(b"\xff.md")
    package.build(tmp_path / "logs", out)
    assert r"\xfe, \xff look like 2 runs" in out.read_text().replace(r"\\", "\\")
    assert "(%FF" in out.read_text()


def test_a_lone_surrogate_in_any_field_is_made_safe(tmp_path: Path) -> None:
    fields = ("split", "agent", "group_id", "note", "prompt", "\ud800")
    rows = [
        {**row(step), field: "a\ud800"} for field, step in product(fields, range(3))
    ]
    rows.append(
        {**row(3), "turns": [{"role": "tool", "name": "\udfff", "text": "x\udc00"}]}
    )
    lines = "".join(json.dumps(one) + "\n" for one in [*rows, row(4)])
    (tmp_path / "log.jsonl").write_text(lines)
    for form in ("out.eml", "out.md", "out.zip"):
        package.build(tmp_path / "log.jsonl", tmp_path / form)
    shown = package.build(
        tmp_path / "log.jsonl", tmp_path / "names", redact="names"
    ).shown
    assert shown == len(rows) + 1
    (tmp_path / "m.jsonl").write_text('{"step": 1, "a\\ud800": 0.5}\n')
    assert list(find_and_read([tmp_path / "m.jsonl"]).table.columns) == [
        "step",
        "a\ufffd",
    ]
