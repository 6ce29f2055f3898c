"""What is slow to make is made once, and is the same whether it was kept or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlreport.draw import bundle, designs
from rlreport.draw.kept import cache_folder, kept
from rlreport.draw.overview import overview_charts
from tests.draw_tables import response_table, tables_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLREPORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Counts how often it made the text."""

    def __init__(self, text: str = "line\r\nline\n奖励") -> None:
        self.text, self.made = text, 0

    def __call__(self) -> str:
        self.made += 1
        return self.text


def test_a_kept_text_is_made_once(folder: Path) -> None:
    make = Maker()
    assert [kept("a.txt", "1", make) for _ in range(3)] == [make.text] * 3
    assert make.made == 1
    assert len(list(folder.iterdir())) == 1


def test_what_it_is_made_of_tells_texts_apart(folder: Path) -> None:
    assert kept("a.txt", "1", Maker("one")) == "one"
    assert kept("a.txt", "2", Maker("two")) == "two"
    assert kept("a.txt", "1", Maker("never made")) == "one"


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"0\nother text"])
def test_a_damaged_file_is_made_anew(folder: Path, damage: bytes) -> None:
    make = Maker()
    kept("a.txt", "1", make)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert kept("a.txt", "1", make) == make.text
    assert file.read_bytes() == whole


def test_a_file_cut_short_is_made_anew(folder: Path) -> None:
    make = Maker()
    kept("a.txt", "1", make)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert kept("a.txt", "1", make) == make.text
    assert make.made == 2


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RLREPORT_CACHE", str(tmp_path / "file" / "below"))
    make = Maker()
    assert [kept("a.txt", "1", make) for _ in range(2)] == [make.text] * 2
    assert make.made == 2


def test_the_cache_lies_where_the_platform_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLREPORT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == tmp_path / "rlreport"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "rlreport"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "rlreport" / "cache"


def test_charts_are_the_same_whether_designs_were_kept(folder: Path) -> None:
    tables = tables_of(response_table([{"step": s, "reward": s / 3} for s in range(9)]))
    drawn = []
    for _ in range(2):
        designs.designs.cache_clear()
        drawn.append(overview_charts(tables))
    designs.designs.cache_clear()
    assert drawn[0] == drawn[1]
    assert designs.make() == designs.make()


def test_the_bundle_is_read_from_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker("script")
    monkeypatch.setattr(bundle, "make", make)
    assert bundle.vega_bundle() == bundle.vega_bundle() == "script"
    assert make.made == 1
