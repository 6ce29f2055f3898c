"""Containers of objects: documents, archives and databases; those made to hurt cost a reason."""

import copy
import json
import os
import random
import sqlite3
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.errors import RlreportError, UnreadRow, UsageError
from rlreport.formats.containers import container_of, read_objects
from rlreport.formats.registry import RowError
from rlreport.formats.token_names import TokenNames
from tests.reading import damage, read

SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "2+2?",
    "target": "4",
    "messages": [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
    ],
    "scores": {"match": {"value": "C"}},
}


def archive(path: Path, *samples: bytes, packed: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a log of Inspect's."""
    with zipfile.ZipFile(path, "w", packed) as made:
        made.writestr("header.json", '{"eval": {"task": "t"}}')
        for number, sample in enumerate(samples):
            made.writestr(f"samples/{number}_epoch_1.json", sample)
    return path


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    large = b'{"id": 1, "pad": "' + b"a" * 30_000_000 + b'"}'
    bomb = archive(tmp_path / "bomb.eval", *[large] * 4)
    with pytest.raises(RowError, match="200 times its size"):
        list(read_objects(bomb.open("rb"), "inspect"))


def test_an_archive_whose_entries_overlap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "overlap.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(
            "samples/0_epoch_1.json",
            json.dumps({**SAMPLE, "pad": os.urandom(999).hex()}),
        )
        info = made.getinfo("samples/0_epoch_1.json")
        for number in range(1, 50):
            again = copy.copy(info)
            again.filename = f"samples/{number}_epoch_1.json"
            made.filelist.append(again)
    with pytest.raises(RowError, match="overlap"):
        list(read_objects(path.open("rb"), "inspect"))


@pytest.mark.parametrize("packed", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_packing_that_inspect_does_not_use_is_not_unpacked(
    packed: int, tmp_path: Path
) -> None:
    path = archive(tmp_path / "odd.eval", json.dumps(SAMPLE).encode(), packed=packed)
    (row,) = read_objects(path.open("rb"), "inspect")
    assert isinstance(row, UnreadRow)
    assert "unsupported method" in str(row.error)


def database(path: Path, table: str, *rows: tuple[object, ...]) -> Path:
    with sqlite3.connect(path) as made:
        made.execute(table)
        for values in rows:
            made.execute(
                f"INSERT INTO traces VALUES ({', '.join('?' * len(values))})", values
            )
    return path


TRACE = ("r", 1, "t", "k", 0, '[{"role": "user", "content": "q"}]', '{"reward": 1}')
PLAIN = (
    "CREATE TABLE traces (run_name TEXT, step INT, timestamp TEXT, key TEXT, trace_index INT, "
    "messages TEXT, metadata TEXT)"
)


@pytest.mark.parametrize("gap", ["", " ", "\n", "/**/"])
def test_a_database_that_computes_what_it_says_is_not_asked(
    gap: str, tmp_path: Path
) -> None:
    computed = PLAIN.replace(
        "messages TEXT", f"messages TEXT AS{gap}(hex(zeroblob(1000)))"
    )
    path = database(tmp_path / "computed.db", computed, (*TRACE[:5], TRACE[6]))
    assert not list(read_objects(path.open("rb"), "sqlite"))
    plain = database(tmp_path / "plain.db", PLAIN, TRACE)
    assert len(list(read_objects(plain.open("rb"), "sqlite"))) == 1


def test_tensors_without_numbers_of_their_own_are_told_by_their_shape(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    odd = {
        "sparse": torch.eye(3).to_sparse()[0],
        "meta": torch.empty(3, device="meta"),
        "plain": torch.tensor([1, 2]),
    }
    torch.save({"rollout_id": 1, "samples": [odd]}, tmp_path / "0.pt")
    (row,) = read_objects((tmp_path / "0.pt").open("rb"), "torch")
    assert row["plain"] == [1, 2]
    assert (row["sparse"], row["meta"]) == ("tensor of shape (3,)",) * 2


def test_a_damaged_sample_costs_itself_only(tmp_path: Path) -> None:
    samples = [json.dumps(SAMPLE).encode(), b"{", b" " * 65_000_000, b"[1]"]
    scan = read(archive(tmp_path / "x.eval", *samples))
    assert (scan.responses["reward"].tolist(), scan.bad_count) == ([1.0], 3)


@pytest.mark.parametrize("kind", ["eval", "db", "json"])
def test_damaged_files_cost_a_reason_and_no_crash(kind: str, tmp_path: Path) -> None:
    if kind == "eval":
        whole = archive(
            tmp_path / "whole.eval", *[json.dumps(SAMPLE).encode()] * 3
        ).read_bytes()
    elif kind == "db":
        whole = database(tmp_path / "whole.db", PLAIN, *[TRACE] * 3).read_bytes()
    else:
        table = {
            "columns": ["step", "prompt", "response", "reward"],
            "data": [[1, "p", "r", 1.0]],
        }
        whole = json.dumps(table).encode()
    rng = random.Random(1)
    for number in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            damage(data, rng, [b"\0", b"\xff" * 4, b"PK\1\2", b"[", b'"'])
        if number % 2:
            del data[len(data) * number // 60 :]
        path = tmp_path / f"{number}.{kind}"
        path.write_bytes(data)
        try:
            read(path)
        except RlreportError as error:
            assert str(error)


@pytest.mark.parametrize("place", ["pipe", "/dev/zero", "folder", "missing"])
def test_a_tokenizer_that_is_no_file_is_refused_at_once(
    place: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="must be a file of at most"):
        TokenNames(str(tmp_path / place))


def test_json_documents_are_objects_arrays_or_lines_after_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for content, expected in (
        ('{"a": 1}', [1]),
        ('[{"a": 1}, 3, {"a": 2}]', [1, 2]),
        ('{"a": 1}\n{"a": 2}\n', [1, 2]),
        ('\ufeff{"a": 1}', [1]),
    ):
        path.write_text(content)
        assert [obj["a"] for obj in read_objects(path.open("rb"), "json")] == expected


@pytest.mark.parametrize("name", ["x.json", "x.parquet"])
@given(data=st.binary(max_size=60))
def test_broken_files_cost_a_reason_and_no_crash(tmp_path_factory, name, data):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    container = container_of(name) or ""
    try:
        objects = list(read_objects(path.open("rb"), container))
    except RowError as error:
        assert str(error).startswith(("no ", "not "))
    else:
        assert all(isinstance(obj, dict) for obj in objects)


def test_json_that_is_too_large_or_too_deep_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    with pytest.raises(RowError, match="the JSON document exceeds a limit"):
        list(read_objects(path.open("rb"), "json"))
    monkeypatch.setattr("rlreport.formats.containers.MAX_JSON", 1000)
    with (
        path.open("rb") as opened,
        pytest.raises(RowError, match="exceeds 1,000 bytes"),
    ):
        list(read_objects(opened, "json"))
