"""Zipped logs: every file of JSON lines or documents in the archive is read, in bounded memory."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import fsspec
import pytest

from rlreport.errors import UnusableInputError
from tests.reading import read, row, tokens


def text_of(*rows: dict) -> str:
    return "".join(json.dumps(one) + "\n" for one in rows)


def zipped(path: Path, members: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_every_json_file_of_an_archive_is_read(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {
        "rank_0.jsonl": text_of(*(tokens("a", step=step) for step in range(3))),
        "more/rank_1.ndjson": "\n" + text_of(row(3, response="from ndjson")),
        "list.json": json.dumps([row(4), row(5)], indent=1),
        "readme.txt": "no log",
        "__MACOSX/._rank_0.jsonl": b"\0\5\26\7",
        "folder.jsonl/": "",
    }
    scan = read(zipped(tmp_path / "run.jsonl.zip", members))
    assert scan.responses["step"].tolist() == [0, 1, 2, 3, 4, 5]
    assert (scan.bad_count, [file.name for file in scan.files]) == (0, ["run.jsonl.zip"])
    rollouts = scan.rollouts.read(range(6))
    assert rollouts[3].response == "from ndjson"
    assert rollouts[0].raw_tokens == ["a"]


def test_archives_are_read_from_folders_stores_and_the_cache(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    zipped(logs / "step_3.jsonl.zip", {"a.jsonl": '{"prompt":"p","response":"r","reward":1}\n'})
    zipped(logs / "step_4.json.zip", {"a.json": '{"prompt":"p","response":"r","reward":1}'})
    for _ in range(2):
        assert read(logs, cache=str(tmp_path / "kept")).responses["step"].tolist() == [3, 4]
    store = fsspec.filesystem("memory")
    for file in logs.iterdir():
        store.pipe_file(f"/zips/{file.name}", file.read_bytes())
    assert read("memory://zips").responses["step"].tolist() == [3, 4]


def test_bad_lines_and_bad_members_cost_only_themselves(tmp_path: Path) -> None:
    members = {
        "../../escape.jsonl": text_of(row(0)),
        "/etc/x\n\x1b[2J.jsonl": text_of(row(1)),
        "broken.jsonl": text_of(row(2), row(3)) + "{not json}\n[1]\n" + text_of(row(4)),
        "damaged.jsonl": text_of(*(row(5, response=str(i)) for i in range(500))),
        "document.json": "{",
        "last.jsonl": text_of(row(6)),
    }
    path = zipped(tmp_path / "a.jsonl.zip", members)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        offset = archive.getinfo("damaged.jsonl").header_offset
    data[offset + 60 : offset + 120] = b"\xff" * 60
    path.write_bytes(data)
    scan = read(path)
    assert {0, 1, 2, 3, 4, 6} <= set(scan.responses["step"])
    assert scan.bad_count == 4
    assert {"a.jsonl.zip"} == {line.file for line in scan.bad_lines}
    lost = "'damaged.jsonl' cannot be read further, the rest of the member is lost: "
    assert any(line.reason.startswith(lost) for line in scan.bad_lines)
    assert not list(tmp_path.parent.rglob("escape.jsonl"))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlreport.formats.containers.MAX_SAMPLE", 1 << 16)
    lines = text_of(row(0)) + "\n" * (1 << 24)
    path = zipped(tmp_path / "a.jsonl.zip", {"a.jsonl": text_of(row(1)), "b.jsonl": lines})
    scan = read(path)
    assert scan.responses["step"].tolist() == [1]
    assert "unpacks to more than 200 times" in scan.bad_lines[0].reason


def test_long_lines_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlreport.formats.containers.MAX_SAMPLE", 1 << 12)
    text = text_of(row(0)) + text_of(row(1, response="x" * 5000)) + text_of(row(2))
    scan = read(zipped(tmp_path / "a.jsonl.zip", {"a.jsonl": text}))
    assert scan.responses["step"].tolist() == [0, 2]
    assert scan.bad_lines[0].reason == "larger than 4,096 bytes"


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive"])
def test_what_is_no_archive_is_said(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zip").write_bytes(data)
    with pytest.raises(UnusableInputError, match=r"a\.jsonl\.zip"):
        read(tmp_path)
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    (tmp_path / "a.jsonl.zip").write_bytes(buffer.getvalue())
    with pytest.raises(UnusableInputError, match="no JSON object"):
        read(tmp_path)
