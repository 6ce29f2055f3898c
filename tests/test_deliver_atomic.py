"""A report is there whole or not at all: a full disk or Ctrl-C leaves the old one untouched."""

import contextlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlreport import build
from rlreport.deliver import forms
from rlreport.deliver.publish import publishing
from rlreport.errors import OutputError
from rlreport.signals import ENDING
from tests.forms import FORMS, files_of
from tests.hostile import hostile_rows, write_log
from tests.running import rlreport

LAST_MOMENTS = 4
"""Moments of an exchange after its last move: the old report is removed, then what is left."""


@contextlib.contextmanager
def files_below(size: int):
    """A too large write fails as on a full disk: with an error, as Python ignores the signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(
        tmp_path_factory.mktemp("atomic") / "log.jsonl", hostile_rows(2, 6)
    )


@pytest.fixture(scope="module", params=FORMS)
def old(request, log, tmp_path_factory):
    """A report that was there before, one of each form."""
    out = tmp_path_factory.mktemp("old") / f"run{FORMS[request.param]}"
    build(log, out, title="old", workers=1)
    return out


@pytest.fixture(scope="module")
def new(old, tmp_path_factory):
    """Another report of the same form, with the same name in another folder."""
    copy = copied(old, tmp_path_factory.mktemp("new"))
    for file in [copy, *copy.parent.rglob("*.*")]:
        if file.is_file():
            file.write_bytes(file.read_bytes() + b"\nnew\n")
    return copy


def copied(old, tmp_path):
    shutil.copytree(old.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / old.name


@pytest.mark.untraced
def test_a_full_disk_leaves_the_old_report(old, log, tmp_path, monkeypatch):
    out = copied(old, tmp_path)
    before = files_of(out)
    most = max(map(len, before.values())) // 2

    def limited(write):
        def write_limited(report, path):
            with files_below(most):
                write(report, path)

        return write_limited

    for name, form in list(forms.FORMS.items()):
        changed = replace(form, write=limited(form.write))
        monkeypatch.setitem(forms.FORMS, name, changed)
    done = rlreport("build", log, "-o", out, "--workers", 1)
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert files_of(out) == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("old", "number", "status"),
    [
        ("folder", signal.SIGINT, 130),
        ("html", signal.SIGTERM, 143),
        ("markdown", signal.SIGHUP, 129),
    ],
    indirect=["old"],
)
def test_an_interrupt_leaves_the_old_report(old, number, status, log, tmp_path):
    out = copied(old, tmp_path)
    before = files_of(out)
    command = [
        sys.executable,
        "-m",
        "rlreport",
        "build",
        log,
        "-o",
        out,
        "--workers",
        "2",
    ]
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not list(tmp_path.glob(".*.part")) and running.poll() is None:
        time.sleep(0.005)
    os.killpg(running.pid, number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == status, said
    assert "Traceback" not in said
    assert files_of(out) == before
    assert not list(tmp_path.glob(".*"))


def exchange(out: Path, new: Path, act: Callable[[], None], at: int) -> int:
    """Put ``new`` at ``out``, with ``act`` at a moment between moves; return how many there are."""
    moments = itertools.count()

    def watched(function):
        def call(*arguments, **options):
            for part in (lambda: None, lambda: function(*arguments, **options)):
                part()
                if next(moments) == at:
                    act()

        return call

    form = forms.form_of(out, None)
    with pytest.MonkeyPatch.context() as patch, publishing(out, form) as path:
        shutil.copytree(new.parent, path.parent, dirs_exist_ok=True)
        patch.setattr(Path, "replace", watched(Path.replace))
        patch.setattr(shutil, "rmtree", watched(shutil.rmtree))
    return next(moments)


@pytest.fixture
def raising():
    """Makes each signal that ends a program raise KeyboardInterrupt, as Python does for Ctrl-C."""
    before = {
        number: signal.signal(number, signal.default_int_handler) for number in ENDING
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_between_moves_waits_until_the_new_report_is_whole(
    old, new, number, tmp_path, raising
):
    moments = exchange(copied(old, tmp_path / "whole"), new, lambda: None, -1)
    for moment in range(moments):
        out = copied(old, tmp_path / str(moment))
        with pytest.raises(KeyboardInterrupt):
            exchange(out, new, lambda: signal.raise_signal(number), moment)
        assert files_of(out) == files_of(new)
        assert not list(out.parent.glob(".*"))


def test_an_error_between_moves_restores_the_old_report(old, new, tmp_path):
    def fail():
        raise PermissionError(13, "Permission denied")

    moments = exchange(copied(old, tmp_path / "whole"), new, lambda: None, -1)
    for moment in range(moments - LAST_MOMENTS):
        out = copied(old, tmp_path / str(moment))
        with pytest.raises(OutputError, match="cannot be written: permission denied"):
            exchange(out, new, fail, moment)
        assert files_of(out) == files_of(old)
        assert not list(out.parent.glob(".*"))


def test_a_report_can_be_built_outside_the_main_thread(log, tmp_path):
    out = tmp_path / "run.md"
    for title in ("one", "two"):  # the second replaces the first
        thread = threading.Thread(
            target=build, args=(log, out), kwargs={"title": title}
        )
        thread.start()
        thread.join()
        assert title in out.read_text()
    assert not list(tmp_path.glob(".*"))
