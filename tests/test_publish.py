"""A report gets into its place whole, or nothing changes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rlreport.deliver import FORMS
from rlreport.deliver.publish import (
    MANIFEST,
    listed_files,
    local_path,
    publishing,
    size_of,
    write_manifests,
)
from rlreport.errors import OutputError

MARK = '<!doctype html><meta name="generator" content="rlreport 1">'


def write_report(folder: Path, content: str = "page") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(content)
    write_manifests(folder, FORMS["folder"])


def test_a_new_folder_appears_with_its_parents(tmp_path):
    out = tmp_path / "deep" / "er" / "report"
    with publishing(out, FORMS["folder"]) as place:
        write_report(place)
    assert (out / "index.html").read_text() == "page"
    assert list(out.parent.iterdir()) == [out]


def test_an_earlier_report_is_replaced_whole(tmp_path):
    out = tmp_path / "report"
    write_report(out, "old")
    (out / "steps").mkdir()
    (out / "steps" / "7.html").touch()
    write_manifests(out, FORMS["folder"])
    with publishing(out, FORMS["folder"]) as place:
        write_report(place, "new")
    assert (out / "index.html").read_text() == "new"
    assert not (out / "steps").exists()


def test_a_failure_leaves_the_earlier_report_and_nothing_else(tmp_path):
    out = tmp_path / "report"
    write_report(out, "old")
    with pytest.raises(ValueError, match="stop"), publishing(out, FORMS["folder"]) as place:
        write_report(place, "new")
        raise ValueError("stop")
    assert (out / "index.html").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_failure_leaves_no_parent_that_was_made(tmp_path):
    with pytest.raises(KeyboardInterrupt), publishing(tmp_path / "a" / "b", FORMS["folder"]):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_clear_line(tmp_path):
    with (
        pytest.raises(OutputError, match="no space left"),
        publishing(tmp_path / "r", FORMS["folder"]),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_folders_and_files_of_others_are_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    notes = tmp_path / "notes.html"
    notes.write_text("<p>notes")
    for out, form in itertools.product((theirs, notes), ("folder", "html")):
        with pytest.raises(OutputError), publishing(out, FORMS[form]):
            pytest.fail("must not begin")
    assert (theirs / "thesis.txt").read_text() == "years of work"
    assert notes.read_text() == "<p>notes"


@pytest.mark.parametrize("content", ["", "[]", '{"generator": 3}', '{"generator": {"name": "x"}}'])
def test_only_a_manifest_of_rlreport_lists_files(tmp_path, content):
    assert listed_files(content.encode()) == frozenset()
    (tmp_path / "data").mkdir()
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(OutputError, match=r"did not write: data/manifest\.json"):
        local_path(tmp_path, FORMS["folder"])


def test_a_file_is_replaced_when_it_is_ours_or_empty(tmp_path):
    out = tmp_path / "run.html"
    out.touch()
    with publishing(out, FORMS["html"]) as place:
        place.write_text(f"{MARK}one")
    with publishing(out, FORMS["html"]) as place:
        place.write_text(f"{MARK}two")
    assert out.read_text().endswith("two")
    assert size_of(out) == len(out.read_text())
