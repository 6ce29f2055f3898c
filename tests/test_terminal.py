"""The terminal: pages of help, the path at the end, the browser, and progress."""

import os
import pty
import re
import sys
import termios
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from rlreport import build as build_report
from rlreport.cli.command import MOST_LISTED, option_groups
from rlreport.cli.main import main
from rlreport.cli.terminal import say_path
from rlreport.options import GROUPS
from rlreport.system import workers
from rlreport.system.workers import Progress
from tests.hostile import hostile_rows, write_log
from tests.running import build, rlreport

NAMES = sorted(main.commands)
WITH_SETTINGS = [name for name in NAMES if hasattr(main.commands[name], "listed")]


@pytest.fixture
def log(tmp_path) -> Path:
    return write_log(tmp_path / "log.jsonl", hostile_rows(2, 4))


# Help


def flags_in(text: str) -> list[str]:
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_headings_at_most_14_options_and_80_columns(name) -> None:
    for option in ("--help", "-h"):
        text = rlreport(name, option).stdout
        assert max(map(len, text.splitlines())) <= 80
        assert len(flags_in(text)) <= MOST_LISTED == 14
    headings = re.findall(r"^(\w+):$", text, re.M)
    expected = GROUPS if name in WITH_SETTINGS else ("Options",)
    assert headings and set(headings) <= set(expected)
    assert headings == sorted(headings, key=expected.index)


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_all_help_has_every_option_once(name) -> None:
    text = rlreport(name, "--help-all").stdout
    assert max(map(len, text.splitlines())) <= 80
    command = main.commands[name]
    params = [one for one in command.params if isinstance(one, click.Option)]
    expected = {max(param.opts, key=len) for param in params}
    found = flags_in(text)
    assert len(found) == len(set(found))
    assert set(found) == expected | {"--ignore-files", "--help", "--help-all"}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_what_help_lists_are_options_of_the_command(name) -> None:
    command = main.commands[name]
    listed = command.listed  # type: ignore[attr-defined]
    assert listed <= {param.name for param in command.params}
    short = flags_in(rlreport(name, "--help").stdout)
    assert {"--help", "--help-all"} <= set(short)


def test_help_begins_all_descriptions_in_one_column() -> None:
    text = rlreport("build", "--help").stdout
    starts = {len(flags) for flags in re.findall(r"^  -.*?\S  +", text, re.M)}
    assert len(starts) == 1, starts


def test_the_program_lists_its_commands_within_80_columns() -> None:
    text = rlreport("--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert [
        line.split()[0] for line in text.partition("Commands:\n")[2].splitlines()
    ] == NAMES


def test_help_comes_though_a_file_of_settings_is_broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rlreport.toml").write_text("[build")
    for option in ("--help", "--help-all"):
        assert rlreport("build", option).returncode == 0


def test_groups_of_options_are_in_the_order_of_their_headings() -> None:
    context = click.Context(main.commands["build"], info_name="build")
    groups = option_groups(main.commands["build"], context)
    assert list(groups) == [name for name in GROUPS if name in groups]


# The path at the end


def in_terminal(monkeypatch, path: Path | str, **environment: str) -> str:
    """What is printed of a path where standard output is a terminal."""
    for name in ("VTE_VERSION", "TERM_PROGRAM", "KITTY_WINDOW_ID", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    printed: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text, **_: printed.append(text))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    say_path(path)
    return printed[0]


def test_a_terminal_gets_the_whole_path_and_a_link_if_it_shows_links(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    path = Path("a b") / "index.html"
    whole = str(tmp_path / path)
    plain = [
        {"TERM": "dumb"},
        {"TERM": "xterm"},
        {"TERM": "xterm", "VTE_VERSION": "4000"},
    ]
    for environment in plain:
        assert in_terminal(monkeypatch, path, **environment) == whole
    for name, value in [("KITTY_WINDOW_ID", "1"), ("VTE_VERSION", "6800")]:
        text = in_terminal(monkeypatch, path, TERM="xterm", **{name: value})
        found = re.fullmatch("\x1b]8;;(.*?)\x1b\\\\(.*?)\x1b]8;;\x1b\\\\", text)
        assert found, repr(text)
        assert found.groups() == ((tmp_path / path).as_uri(), whole)
    evil = Path("\x1b]0;x\x07\n")
    text = in_terminal(monkeypatch, evil, TERM="dumb")
    assert text.isprintable()
    assert in_terminal(monkeypatch, "s3://b/r", TERM="dumb") == "s3://b/r"


def test_a_pipe_gets_ten_lines_no_control_characters_and_the_path_as_given(
    log, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for command, out, page in [
        (["build", log], "r", "r/index.html"),
        (["build", log], "r.html", "r.html"),
        (["compare", log, log], "c", "c/compare.html"),
        (["index", "r", "r.html"], "i.html", "i.html"),
    ]:
        done = rlreport(*command, "-o", out)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[-1] == page
        assert len(lines) <= 12 if command[0] == "compare" else len(lines) <= 10
        assert all(one.isprintable() for one in (*lines, *done.stderr.splitlines()))
        assert len(done.stderr.splitlines()) <= 5


# The browser


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Addresses that were opened, on a machine with a display."""
    addresses: list[str] = []
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")

    def shown(url: str) -> bool:
        addresses.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", shown)
    return addresses


def test_open_shows_a_report_and_its_path(log, tmp_path, opened, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build(log, Path("report"))
    build(log, Path("r.html"))
    page = tmp_path / "report" / "index.html"
    for arguments in ([], ["report"], ["report/index.html"]):
        done = rlreport("open", *arguments)
        assert (done.returncode, done.stdout) == (0, "report/index.html\n")
    assert opened == [page.as_uri()] * 3
    assert rlreport("open", "r.html").stdout == "r.html\n"
    assert opened[-1] == (tmp_path / "r.html").as_uri()


def test_without_a_display_or_in_ci_the_path_is_printed(
    log, tmp_path, opened, monkeypatch
):
    build(log, tmp_path / "r.html")
    monkeypatch.setenv("CI", "true")
    done = rlreport("open", tmp_path / "r.html")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'r.html'}\n")
    assert done.stderr == "not opened: no browser found\n"
    monkeypatch.delenv("CI")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert rlreport("open", tmp_path / "r.html").returncode == 0
    assert opened == []

    def broken(url: str) -> bool:
        raise webbrowser.Error("none")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", broken)
    assert rlreport("open", tmp_path / "r.html").returncode == 0


def test_only_local_reports_of_rlreport_are_opened(log, tmp_path, opened):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text("<!doctype html><p>not a report")
    build(log, tmp_path / "r.zip")
    build(log, tmp_path / "r.html")
    (foreign / "link.html").symlink_to(tmp_path / "r.html")
    for path in (
        "foreign",
        "foreign/index.html",
        "foreign/link.html",
        "r.zip",
        "log.jsonl",
    ):
        done = rlreport("open", tmp_path / path)
        assert done.returncode == 2
        assert "is not a report of rlreport that a browser can show" in done.stderr
    for path in ("nowhere", "https://example.org/index.html", ""):
        assert rlreport("open", path).returncode == 2
    assert opened == []


def test_open_option_shows_what_was_written(log, tmp_path, opened):
    reports = {"r": "r/index.html", "r.html": "r.html", "r.zip": None}
    for out, page in reports.items():
        done = build(log, tmp_path / out, "--open", "-q")
        assert done.stdout == ""
        if page:
            assert opened.pop() == (tmp_path / page).as_uri()
    assert opened == []
    assert done.stderr == "not opened: a browser shows a local folder or .html file\n"
    rlreport("compare", log, log, "-o", tmp_path / "c", "--open")
    assert opened.pop() == (tmp_path / "c" / "compare.html").as_uri()
    rlreport("index", tmp_path / "r", "-o", tmp_path / "i.html", "--open")
    assert opened.pop() == (tmp_path / "i.html").as_uri()


# Progress


class Terminal:
    """A standard error that is a terminal of 80 columns, and keeps what is written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.leader, self.follower = pty.openpty()
        termios.tcsetwinsize(self.follower, (24, 80))
        self.written = ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.follower

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


@contextmanager
def on_terminal() -> Iterator[Terminal]:
    """Make standard error a terminal."""
    before = sys.stderr
    terminal = Terminal()
    sys.stderr = terminal
    try:
        yield terminal
    finally:
        sys.stderr = before
        os.close(terminal.leader)
        os.close(terminal.follower)


def bar_at_once(**settings: Any) -> Any:
    """A bar that is drawn at every step, not only every tenth of a second."""
    from tqdm import tqdm

    return tqdm(leave=False, file=sys.stderr, ncols=80, mininterval=0, **settings)


def shown_by_phase(unit: str, total: float, amounts: list[float]) -> list[str]:
    """What a terminal shows of a phase after each amount that was done."""
    shown = []
    with (
        on_terminal() as terminal,
        Progress(quiet=False).phase("working", total, unit) as advance,
    ):
        for amount in amounts:
            advance(amount)
            shown.append(terminal.written.split("\r")[-1])
    return shown


def test_no_time_is_estimated_before_the_second_page(monkeypatch):
    monkeypatch.setattr(workers, "_bar", bar_at_once)
    first, second = shown_by_phase("pages", 5, [1, 1])
    assert first.endswith("1/5 pages [00:00]")
    assert re.search(r"2/5 pages \[00:00<\d\d:\d\d\]$", second)


def test_no_time_is_estimated_while_bytes_are_read(monkeypatch):
    monkeypatch.setattr(workers, "_bar", bar_at_once)
    for line in shown_by_phase("B", 5_000_000, [2_000_000, 2_000_000]):
        assert line.endswith("M/5.00MB [00:00]")


def test_a_stage_is_named_while_it_lasts_and_erased_at_its_end():
    def interrupted() -> None:
        with Progress(quiet=False).stage("checking"):
            assert terminal.written.split("\r")[-1].startswith("checking …")
            raise KeyboardInterrupt

    with on_terminal() as terminal:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert terminal.written.split("\r")[-2].strip() == ""


def test_a_pipe_and_quiet_show_no_stages(capsys):
    for quiet in (True, False):
        with Progress(quiet=quiet).stage("checking"):
            pass
    assert capsys.readouterr().err == ""


def test_a_build_names_its_phases_in_order(log, tmp_path):
    with on_terminal() as terminal:
        build_report(log, tmp_path / "r.html", quiet=False, workers=1)
    names = re.findall(r"([a-z]+(?: [a-z]+)?)(?: …|: +\d+%)", terminal.written)
    assert " → ".join(dict.fromkeys(names)) == (
        "reading metrics → reading → summarising → checking → rendering → writing"
    )
