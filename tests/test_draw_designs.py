"""Compiled designs are used only if their sources are the same."""

import shutil

import orjson
import pytest

from rlreport.draw import chart, theme


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """``designs.json`` in a copy of the folder with its sources."""
    for name in ("designs.py", "theme.py"):
        shutil.copyfile(theme.DESIGNS.with_name(name), tmp_path / name)
    path = tmp_path / "designs.json"
    for module in (chart, theme):
        monkeypatch.setattr(module, "DESIGNS", path)
    chart._designs.cache_clear()
    yield path
    chart._designs.cache_clear()


def design(name: str) -> dict:
    return chart._designs()[name]


def test_stored_designs_are_used_until_a_source_changed(stored):
    sources = theme.design_sources()
    stored.write_bytes(
        orjson.dumps({"sources": sources, "designs": {"paths": {"spec": 1}}})
    )
    assert design("paths") == {"spec": 1}
    with (stored.parent / "designs.py").open("a") as file:
        file.write("# changed\n")
    chart._designs.cache_clear()
    assert design("paths")["vega"]["marks"]
