"""A report is there whole or not at all: a full disk or Ctrl-C leaves the old one untouched."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

from rlreport import build, deliver
from tests.forms import FORMS, files_of
from tests.hostile import hostile_rows, write_log
from tests.running import rlreport


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
    return write_log(tmp_path_factory.mktemp("atomic") / "log.jsonl", hostile_rows(2, 6))


@pytest.fixture(scope="module", params=FORMS)
def old(request, log, tmp_path_factory):
    """A report that was there before, one of each form."""
    out = tmp_path_factory.mktemp("old") / f"run{FORMS[request.param]}"
    build(log, out, title="old", workers=1)
    return out


def copied(old, tmp_path):
    shutil.copytree(old.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / old.name


@pytest.mark.untraced
def test_a_full_disk_leaves_the_old_report(old, log, tmp_path, monkeypatch):
    out = copied(old, tmp_path)
    before, write = files_of(out), deliver.Form.write

    def limited(*given):
        with files_below(max(map(len, before.values())) // 2):
            write(*given)

    monkeypatch.setattr(deliver.Form, "write", limited)
    done = rlreport("build", log, "-o", out, "--workers", 1)
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert files_of(out) == before
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("old", "number", "status"),
    [("folder", signal.SIGINT, 130), ("html", signal.SIGTERM, 143)],
    indirect=["old"],
)
def test_an_interrupt_leaves_the_old_report(old, number, status, log, tmp_path):
    out = copied(old, tmp_path)
    before = files_of(out)
    command = [sys.executable, "-m", "rlreport", "build", log, "-o", out, "--workers", "2"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(tmp_path.glob(".*.part")) and running.poll() is None:
        time.sleep(0.005)
    os.killpg(running.pid, number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == status, said
    assert "Traceback" not in said
    assert files_of(out) == before
    assert not list(tmp_path.glob(".*"))
