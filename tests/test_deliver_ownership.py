"""What is not ours is never replaced, removed or followed into: files, folders, links, devices."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rlreport
from rlreport import errors
from rlreport.deliver import forms
from rlreport.deliver.publish import (
    SYSTEM_FILES,
    checked_path,
    publishing,
    write_manifests,
)
from rlreport.errors import OutputError
from rlreport.system.own_output import MANIFEST, listed_files
from tests.forms import FORMS, files_of
from tests.running import rlreport as command
from tests.store import short_log

FOLDER = forms.FORMS["folder"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return short_log(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def finished(log, tmp_path_factory):
    """A report folder."""
    out = tmp_path_factory.mktemp("finished") / "report"
    rlreport.build(log, out, workers=1)
    return out


@pytest.fixture
def report(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "report")


def place(out, content="new"):
    with publishing(out, FOLDER) as new:
        (new / "index.html").write_text(content)
        write_manifests(new, FOLDER)


def test_a_folder_with_files_that_its_manifest_does_not_list_is_refused_and_names_them(
    report, log
):
    files = {path.relative_to(report).as_posix() for path in report.rglob("*.*")}
    assert set(json.loads((report / MANIFEST).read_bytes())["files"]) == files
    (report / "steps" / "77.html").write_text("theirs")
    (report / "notes.txt").write_text("years of work")
    (report / "a" / "b").mkdir(parents=True)
    (report / "a" / "b" / ".hidden").write_text("x")
    (report / "link").symlink_to("/etc")
    before = files_of(report)
    named = r"did not write: a/b/\.hidden, link, notes\.txt and 1 more"
    with pytest.raises(OutputError, match=named):
        rlreport.build(log, report, workers=1)
    assert files_of(report) == before
    assert [p.name for p in report.parent.iterdir()] == ["report"]
    (report / MANIFEST).unlink()
    with pytest.raises(OutputError, match=r"did not write: .*, assets/.* more"):
        rlreport.build(log, report, workers=1)


def test_files_of_systems_and_hosts_survive_a_rebuild(report, log):
    theirs = [
        report / name for name in (*SYSTEM_FILES, "steps/.DS_Store", "photos/Thumbs.db")
    ]
    (report / "photos").mkdir()
    for path in theirs:
        path.write_text(f"from {path.name}")
    (report / ".nfs0001").touch()
    rlreport.build(log, report, workers=1, title="anew")
    for path in theirs:
        assert path.read_text() == f"from {path.name}"
    assert "anew" in (report / "index.html").read_text("utf-8")
    listed = json.loads((report / MANIFEST).read_bytes())["files"]
    assert not {".DS_Store", "CNAME"} & set(listed)


def test_a_file_that_appears_during_the_build_is_not_removed(report):
    with (
        pytest.raises(OutputError, match=r"did not write: notes\.txt"),
        publishing(report, FOLDER),
    ):
        (report / "notes.txt").write_text("years of work")
    assert (report / "notes.txt").read_text() == "years of work"
    assert (report / "index.html").exists()


def test_what_the_new_report_lacks_goes_unless_its_build_fails(report):
    before = files_of(report)
    with pytest.raises(ValueError, match="stop"), publishing(report, FOLDER) as new:
        (new / "index.html").write_text("new")
        raise ValueError("stop")
    assert files_of(report) == before
    assert [p.name for p in report.parent.iterdir()] == ["report"]
    place(report)
    files = sorted(path.relative_to(report).as_posix() for path in report.rglob("*.*"))
    assert files == [MANIFEST, "index.html"]
    assert (report / "index.html").read_text() == "new"


def test_parents_of_a_report_are_made_and_removed_if_its_build_fails(tmp_path):
    out = tmp_path / "deep" / "er" / "report"
    with pytest.raises(KeyboardInterrupt), publishing(out, FOLDER):
        raise KeyboardInterrupt
    with pytest.raises(OutputError, match="no space left"), publishing(out, FOLDER):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
    place(out)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"generator": 3}', '{"generator": {"name": "x"}}']
)
def test_only_a_manifest_of_rlreport_lists_files(tmp_path, content):
    assert listed_files(content.encode()) == frozenset()
    (tmp_path / "data").mkdir()
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(OutputError, match=r"did not write: data/manifest\.json"):
        checked_path(tmp_path, FOLDER)


def test_an_interrupt_that_a_library_drops_leaves_the_old_report(report, monkeypatch):
    monkeypatch.setattr(errors, "_raised_by_signals", [])
    before = files_of(report)
    with pytest.raises(KeyboardInterrupt), publishing(report, FOLDER) as new:
        with contextlib.suppress(KeyboardInterrupt):
            errors.stop(KeyboardInterrupt())
        (new / "index.html").write_text("new")
    assert files_of(report) == before


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(5, "Input/output error"), OutputError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failure_to_swap_restores_the_old_report(
    failing, error, raised, report, monkeypatch
):
    before = files_of(report)
    replace = Path.replace
    calls = []

    def fail(path, target):
        calls.append(path)
        if len(calls) == failing:
            raise error
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(raised):
        place(report)
    assert files_of(report) == before
    assert [p.name for p in report.parent.iterdir()] == ["report"]


@pytest.mark.parametrize("form", ["folder", "html"])
def test_a_link_is_followed_and_stays_a_link(form, log, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    target = away / f"real{FORMS[form]}"
    link = tmp_path / f"report{FORMS[form]}"
    rlreport.build(log, target, workers=1)
    link.symlink_to(target)
    rlreport.build(log, link, workers=1, title="anew")
    assert link.readlink() == target
    page = target / "index.html" if form == "folder" else target
    assert "anew" in page.read_text("utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_links_to_what_is_not_ours_are_refused(form, log, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis").write_text("years of work")
    for target in (theirs, theirs / "thesis", tmp_path / "nowhere"):
        link = tmp_path / f"link{FORMS[form]}"
        link.symlink_to(target)
        with pytest.raises(OutputError):
            rlreport.build(log, link, workers=1)
        assert link.readlink() == target
        link.unlink()
    assert (theirs / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "link to a device"])
def test_pipes_sockets_and_devices_are_refused_at_once(
    kind, form, log, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    out = tmp_path / f"out{FORMS[form]}"
    with contextlib.ExitStack() as stack:
        if kind == "pipe":
            os.mkfifo(out)
        elif kind == "socket":
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(out.name)
        elif kind == "device":
            if os.geteuid():
                pytest.skip("only root makes devices")
            os.mknod(out, 0o600 | 0o020000, os.makedev(1, 3))
        else:
            out.symlink_to("/dev/null")
        with pytest.raises(OutputError, match="is a device, a pipe or a socket"):
            rlreport.build(log, out, workers=1)
        assert [p.name for p in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("out", ["/", "", ".", "..", "/dev/stdout", "a\udcffb/.."])
def test_what_is_no_place_is_one_line(out, log, tmp_path, monkeypatch):
    (tmp_path / "theirs").touch()
    cwd = tmp_path / "here"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    own = {"cwd": cwd} if out == "/dev/stdout" else {}  # that of pytest is a file
    done = command("build", log, "-o", out, **own)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "theirs"]
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("form", ["folder", "markdown"])
def test_the_next_build_removes_what_a_killed_one_left(form, log, tmp_path):
    out = tmp_path / f"run{FORMS[form]}"
    theirs = tmp_path / f".{out.name}.mine.part"
    theirs.mkdir()
    program = [
        sys.executable,
        "-m",
        "rlreport",
        "build",
        log,
        "-o",
        out,
        "--workers",
        "1",
    ]
    killed = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob(".*.part/old")) and killed.poll() is None:
        time.sleep(0.002)
    killed.kill()
    killed.wait()
    (left,) = [p for p in tmp_path.glob(".*.part") if p != theirs]
    other = tmp_path / f".other{FORMS[form]}.x.part"
    shutil.copytree(left, other)
    rlreport.build(log, out, workers=1)
    assert left.exists()  # it may be that of a running build
    for path in (left, other, theirs):
        os.utime(path, (time.time() - 7200,) * 2)
    rlreport.build(log, out, workers=1)
    assert not left.exists()
    assert theirs.exists()
    assert other.exists()


def test_a_build_in_use_is_left_alone_and_both_finish(log, tmp_path):
    out = tmp_path / "report"
    with publishing(out, FOLDER) as first:
        place(out, "second")
        assert first.exists()
        (first / "index.html").write_text("first")
        write_manifests(first, FOLDER)
    assert (out / "index.html").read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_a_report_that_a_killed_build_had_moved_away_is_back(report):
    holder = report.parent / ".report.abc.part"
    (holder / "new").mkdir(parents=True)
    (holder / "old").mkdir()
    report.rename(holder / "old" / "report")
    os.utime(holder, (time.time() - 7200,) * 2)
    with pytest.raises(ValueError, match="stop"), publishing(report, FOLDER):
        raise ValueError("stop")
    assert (report / "index.html").exists()
    assert [p.name for p in report.parent.iterdir()] == ["report"]


FOREIGN = {
    "md": [
        "<!-- rlreport goes here -->\n## Results\n",
        "<!-- rlreport 0.1 -->\nOur notes on <!-- rlreport 0.1.0 -->\n## runs\n",
        "# Notes\n\n<!-- rlreport 0.1.0 -->\n## run\n",
    ],
    "eml": [
        "X-Mailer: rlreport mailing list\nFrom: a@b.example\n\nHello",
        "From: a@b.example\n\nIts header is\nX-Mailer: rlreport 0.1.0\nFrom: x\n",
    ],
    "html": [
        "<!doctype html><title>How to</title>"
        '<pre>&lt;meta&gt;</pre><!-- <meta name="generator" content="rlreport 0.1.0"> -->',
        '<!doctype html><meta name="generator" content="rlreport and a text editor"><p>Mine</p>',
    ],
    "zip": ["PK\x03\x04 a text about rlreport 0.1.0"],
}


FOREIGN_TEXTS: list[tuple[str, str]] = []
for _suffix, _texts in FOREIGN.items():
    FOREIGN_TEXTS += [(_suffix, _text) for _text in _texts]


@pytest.mark.parametrize(("suffix", "text"), FOREIGN_TEXTS)
def test_a_file_that_merely_mentions_rlreport_is_never_overwritten(
    log, tmp_path, suffix, text
):
    out = tmp_path / f"run.{suffix}"
    out.write_text(text)
    with pytest.raises(OutputError, match="not a report of rlreport"):
        rlreport.build(log, out, workers=1)
    assert out.read_text() == text


@pytest.mark.parametrize("suffix", FOREIGN)
def test_our_own_files_of_any_version_are_replaced(log, tmp_path, suffix):
    out = tmp_path / f"run.{suffix}"
    out.touch()  # an empty file is replaced, too
    rlreport.build(log, out, workers=1)
    ours = out.read_bytes()
    current = rlreport.__version__.encode()
    released = ours.replace(b"rlreport " + current, b"rlreport 0.1.0", 1)
    # A zip stores the length of its comment; the lines of a text may have been converted.
    for earlier in (
        (ours,) if suffix == "zip" else (released, ours.replace(b"\r\n", b"\n"))
    ):
        out.write_bytes(earlier)
        assert checked_path(out, forms.form_of(out)) == out
