"""The compiled designs are made on first use and again after their sources changed."""

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


def test_designs_are_compiled_on_first_use_and_after_a_source_changed(stored):
    curves = design("curves_linear")
    assert curves["spec"]["layer"] and curves["vega"]["marks"]
    content = orjson.loads(stored.read_bytes())
    assert content["designs"]["curves_linear"] == curves
    stored.write_bytes(orjson.dumps({**content, "designs": {"path": {"spec": 1}}}))
    chart._designs.cache_clear()
    assert design("path") == {"spec": 1}  # as stored
    with (stored.parent / "designs.py").open("a") as file:
        file.write("# changed\n")
    chart._designs.cache_clear()
    assert design("path")["vega"]["marks"]


def test_a_folder_that_cannot_be_written_to_is_no_error(stored, monkeypatch):
    def refuse(path, data: bytes) -> None:
        raise PermissionError

    monkeypatch.setattr(type(stored), "write_bytes", refuse)
    assert design("path")["vega"]["marks"]
    assert not stored.exists()
