"""The compiled designs are made on first use and again after their sources changed."""

from __future__ import annotations

import shutil

import orjson
import pytest

from rlreport.draw.designs import compiled


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """``designs.json`` in a copy of the folder with its sources."""
    sources = compiled.PATH.parent
    for name in compiled._SOURCES:
        copy = tmp_path / "designs" / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(sources / name, copy)
    path = tmp_path / "designs" / "designs.json"
    monkeypatch.setattr(compiled, "PATH", path)
    compiled._designs.cache_clear()
    yield path
    compiled._designs.cache_clear()


def test_designs_are_compiled_on_first_use(stored):
    design = compiled.design_copy("curves")
    assert design["spec"]["layer"] and design["vega"]["marks"]
    assert orjson.loads(stored.read_bytes())["designs"]["curves"] == design


def test_stored_designs_are_used(stored):
    compiled.design_copy("curves")
    content = orjson.loads(stored.read_bytes())
    stored.write_bytes(orjson.dumps({**content, "designs": {"curves": {"spec": 1}}}))
    compiled._designs.cache_clear()
    assert compiled.design_copy("curves") == {"spec": 1}


def test_designs_are_compiled_again_after_a_source_changed(stored):
    compiled.design_copy("curves")
    content = orjson.loads(stored.read_bytes())
    stored.write_bytes(orjson.dumps({**content, "designs": {}}))
    with (stored.parent / "parts.py").open("a") as file:
        file.write("# changed\n")
    compiled._designs.cache_clear()
    assert compiled.design_copy("curves")["vega"]["marks"]


def test_a_folder_that_cannot_be_written_to_is_no_error(stored, monkeypatch):
    def refuse(text: bytes) -> None:
        raise PermissionError

    monkeypatch.setattr(compiled, "write", refuse)
    assert compiled.design_copy("curves")["vega"]["marks"]
    assert not stored.exists()
