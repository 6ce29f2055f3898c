"""A report gets into its place whole, or nothing changes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from rlreport.deliver import forms
from rlreport.deliver.ownership import report_files
from rlreport.deliver.place import size_of, staged
from rlreport.errors import OutputError

MARK = '<!doctype html><meta name="generator" content="rlreport 1">'


def write_report(folder: Path, content: str = "page") -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "report.json").write_text(json.dumps({"generator": {"name": "rlreport"}}))
    (folder / "index.html").write_text(content)


def test_a_new_folder_appears_with_its_parents(tmp_path):
    out = tmp_path / "deep" / "er" / "report"
    with staged(out, forms()["folder"]) as place:
        write_report(place)
    assert (out / "index.html").read_text() == "page"
    assert list(out.parent.iterdir()) == [out]


def test_an_earlier_report_is_replaced_whole(tmp_path):
    out = tmp_path / "report"
    write_report(out, "old")
    (out / "steps").mkdir()
    (out / "steps" / "7.html").touch()
    with staged(out, forms()["folder"]) as place:
        write_report(place, "new")
    assert (out / "index.html").read_text() == "new"
    assert not (out / "steps").exists()


def test_a_failure_leaves_the_earlier_report_and_nothing_else(tmp_path):
    out = tmp_path / "report"
    write_report(out, "old")
    with pytest.raises(ValueError, match="stop"), staged(out, forms()["folder"]) as place:
        write_report(place, "new")
        raise ValueError("stop")
    assert (out / "index.html").read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_failure_leaves_no_parent_that_was_made(tmp_path):
    with pytest.raises(KeyboardInterrupt), staged(tmp_path / "a" / "b", forms()["folder"]):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_clear_line(tmp_path):
    with (
        pytest.raises(OutputError, match="no space left"),
        staged(tmp_path / "r", forms()["folder"]),
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
        with pytest.raises(OutputError), staged(out, forms()[form]):
            pytest.fail("must not begin")
    assert (theirs / "thesis.txt").read_text() == "years of work"
    assert notes.read_text() == "<p>notes"


@pytest.mark.parametrize("content", ["", "[]", '{"generator": 3}', '{"generator": {"name": "x"}}'])
def test_only_our_own_report_json_makes_a_folder_ours(tmp_path, content):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "report.json").write_text(content)
    assert report_files(tmp_path) is None


def test_a_file_is_replaced_when_it_is_ours_or_empty(tmp_path):
    out = tmp_path / "run.html"
    out.touch()
    with staged(out, forms()["html"]) as place:
        place.write_text(f"{MARK}one")
    with staged(out, forms()["html"]) as place:
        place.write_text(f"{MARK}two")
    assert out.read_text().endswith("two")
    assert size_of(out) == len(out.read_text())
