"""JSON documents and parquet files yield their objects, and find them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.formats import RowError
from rlreport.formats.containers import container_of, iterate


def test_json_documents_are_objects_arrays_or_lines_after_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for content, expected in (
        ('{"a": 1}', [1]),
        ('[{"a": 1}, 3, {"a": 2}]', [1, 2]),
        ('{"a": 1}\n{"a": 2}\n', [1, 2]),
        ('\ufeff{"a": 1}', [1]),
    ):
        path.write_text(content)
        assert [obj["a"] for _, obj in iterate(path, "json")] == expected
    path.write_text('[{"a": 1}, {"a": 2}]')
    assert list(iterate(path, "json", {1})) == [(1, {"a": 2})]


@pytest.mark.parametrize("name", ["x.json", "x.parquet"])
@given(data=st.binary(max_size=60))
def test_broken_files_cost_a_reason_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    try:
        objects = [obj for _, obj in iterate(path, container_of(name) or "")]
    except RowError as error:
        assert str(error).startswith("no ")
    else:
        assert all(isinstance(obj, dict) for obj in objects)


def test_containers_are_told_by_suffix() -> None:
    names = (
        "a.jsonl",
        "a.jsonl.gz",
        "a.ndjson.zst",
        "a.json",
        "a.parquet",
        "a.csv",
        "a.parquet.gz",
    )
    assert [container_of(name) for name in names] == [
        "lines", "lines", "lines", "json", "parquet", None, None,
    ]  # fmt: skip


def test_json_that_is_too_large_or_too_deep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    with pytest.raises(RowError, match="the JSON document exceeds a limit"):
        list(iterate(path, "json"))
    monkeypatch.setattr("rlreport.formats.containers.MAX_JSON", 1000)
    with path.open("rb") as opened, pytest.raises(RowError, match="over 1,000 bytes"):
        list(iterate(opened, "json"))


def test_a_missing_file_is_no_broken_file(tmp_path: Path) -> None:
    for name in ("x.json", "x.parquet"):
        with pytest.raises(FileNotFoundError):
            list(iterate(tmp_path / name, container_of(name) or ""))
