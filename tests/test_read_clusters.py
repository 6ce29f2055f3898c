"""What clusters write, zipped or not: each oddity costs its own line or file, and is named."""

import gzip
import json
import os
import socket
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import fsspec
import numpy as np
import pytest

from rlreport.errors import UnusableInputError, UsageError
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.chunk import RangeSettings
from rlreport.read.limits import ReadLimits
from rlreport.read.lines import ByteRange, Lines
from rlreport.read.listing import find_sources
from rlreport.read.ranges import read_chunk
from rlreport.read.spool import PartFolder
from rlreport.read.tables import Scan
from rlreport.system.stores import zstd
from tests.reading import kinds, read, row, token_figures, tokens, write

GOOD = row(0)
PACKED = pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("zst", zstd.compress)]
)


def file_names(scan: Scan) -> list[str]:
    return [file.name for file in scan.files]


def test_line_over_the_limit_is_skipped(tmp_path):
    write(tmp_path / "a.jsonl", [GOOD, row(response="x" * 9_000_000), row(5)])
    write(tmp_path / "empty.jsonl", [])
    scan = read(tmp_path, limits=ReadLimits(line_bytes=500))
    assert scan.responses["step"].tolist() == [0, 5]
    (bad,) = scan.bad_lines
    assert (bad.line, bad.reason) == (2, "longer than 500 bytes")
    assert scan.responses["line"].tolist() == [1, 3]
    assert "empty_file" in kinds(scan)
    assert [file.rows for file in scan.files] == [2, 0]


def test_lone_surrogates_and_hostile_tokens_survive_both_passes(tmp_path: Path) -> None:
    strings = [
        '"',
        "\\",
        '\\"',
        "]",
        '"],',
        "\\u0041",
        "\ud800",
        "",
        "\n",
        "🎉",
        "a" * 300,
    ]
    lines = [tokens(*strings, response="x\ud800y"), tokens(*strings)]
    scan = read(write(tmp_path / "a.jsonl", lines))
    counts = token_figures(scan)["count"]
    assert set(counts) == {2}
    assert len(counts) == len(strings)
    rollouts = scan.rollouts.read([0, 1])
    assert rollouts[1].raw_tokens[:6] == strings[:6]
    assert rollouts[0].response == "x\ufffdy"


def test_rows_in_no_order_are_no_restart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row(int(step)) for step in rng.integers(0, 20, 200)]
    assert read(write(tmp_path / "a.jsonl", rows)).notes == []


def test_symlinks_neither_loop_nor_count_twice(tmp_path: Path) -> None:
    write(tmp_path / "run" / "b.jsonl", [GOOD])
    (tmp_path / "run" / "back").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "run" / "latest.jsonl").symlink_to(tmp_path / "run" / "b.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    scan = read(tmp_path)
    assert len(scan.responses) == 1
    assert [bad.file for bad in scan.bad_lines] == ["dangling.jsonl"]


def test_what_is_no_file_is_named_and_never_opened(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    os.mkfifo(tmp_path / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.jsonl"))
    (tmp_path / "linked.jsonl").symlink_to(tmp_path / "pipe.jsonl")
    (tmp_path / "null.jsonl").symlink_to("/dev/zero")
    scan = read(tmp_path)
    names = ["linked.jsonl", "null.jsonl", "pipe.jsonl", "s.jsonl"]
    assert {bad.file: bad.reason for bad in scan.bad_lines} == dict.fromkeys(
        names, "not a regular file (a pipe, socket or device)"
    )
    assert len(scan.responses) == 1


@pytest.mark.timed
def test_a_long_line_costs_no_more_a_byte_than_a_short_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, response="x" * (16 << 20))])
    (source,) = find_sources([path]).sources
    start = time.process_time()
    (line,) = Lines(ByteRange(0, source, 0, source.size), 1 << 40)
    # Joining each piece to all before it would copy gigabytes.
    assert time.process_time() - start < 2
    assert line.data is not None
    assert len(line.data) == source.size - 1


def test_unreadable_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    write(tmp_path / "b.jsonl", [GOOD])
    # Whoever tests as root may read everything, so permissions are acted out.
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).endswith("b.jsonl")
    )
    (bad,) = read(tmp_path).bad_lines
    assert (bad.file, bad.line) == ("b.jsonl", 0)


def test_strict_lists_what_would_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [GOOD, *["broken\n"] * 30])
    with pytest.raises(UnusableInputError) as caught:
        read(path, strict=True)
    assert "a.jsonl:2: not valid JSON" in str(caught.value)
    assert "and 10 more" in str(caught.value)
    assert len(read(write(tmp_path / "b.jsonl", [GOOD]), strict=True).responses) == 1


def test_missing_path_and_useless_input_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(UnusableInputError, match="No rollout log"):
        read(tmp_path)
    write(tmp_path / "a.jsonl", ["x\n"])
    with pytest.raises(UnusableInputError, match=r"a\.jsonl, line 1: not valid JSON"):
        read(tmp_path)


def test_names_are_relative_to_what_was_given(tmp_path: Path) -> None:
    for name in ("one/a.jsonl", "two/deep/b.jsonl"):
        write(tmp_path / name, [GOOD])
    one = tmp_path / "one"
    both = ["one/a.jsonl", "two/deep/b.jsonl"]
    assert file_names(read(tmp_path)) == both
    assert file_names(read(one, tmp_path / "two")) == both
    assert file_names(read(str(tmp_path / "*" / "*.jsonl"))) == ["one/a.jsonl"]
    assert file_names(read(one / "a.jsonl")) == ["a.jsonl"]
    assert len(read(tmp_path, tmp_path / "one").responses) == 2


@PACKED
def test_compressed_logs_stream_in_both_passes(tmp_path, suffix, pack) -> None:
    rows = [tokens("a", "b", step=i, reward=i) for i in range(50)]
    plain = write(tmp_path / "a.jsonl", rows)
    content = plain.read_bytes()
    half = content.index(b"\n", 3_000) + 1
    folder = tmp_path / "packed"
    folder.mkdir()
    # Two members, as a log that was appended to has.
    data = pack(content[:half]) + pack(content[half:])
    (folder / f"a.jsonl.{suffix}").write_bytes(data)
    packed = read(folder)
    wanted = read(plain)
    assert packed.responses.equals(wanted.responses)
    order = [49, 3, 20]
    found = packed.rollouts.read(order)
    assert [r.step for r in found] == order
    assert packed.prompt_texts() == ["Say hi."]


@PACKED
def test_damage_costs_no_line_long_before_it(tmp_path, suffix, pack) -> None:
    rows = [row(step) for step in range(3000)]
    members = []
    for first in range(0, 3000, 100):
        text = text_of(*rows[first : first + 100])
        members.append(pack(text.encode()))
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(b"".join(members) + b"neither is this")
    assert len(read(path).responses) == 3000
    members[20] = members[20][:-20]
    path.write_bytes(b"".join(members))
    assert len(read(path).responses) > 1700


def test_a_container_cut_short_and_what_is_no_archive_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [GOOD])
    rows = [row(step) for step in range(50)]
    packed = gzip.compress(json.dumps(rows).encode())
    (tmp_path / "b.json.gz").write_bytes(packed[:-30])
    assert [note.file for note in read(tmp_path).notes] == ["b.json.gz"]
    (tmp_path / "b.json.gz").write_bytes(packed)
    assert len(read(tmp_path).responses) == 51
    (tmp_path / "c.jsonl.gz").write_bytes(b"not gzip at all")
    (tmp_path / "d.jsonl.zst").write_bytes(b"not zstd at all")
    assert [bad.file for bad in read(tmp_path).bad_lines] == [
        "c.jsonl.gz",
        "d.jsonl.zst",
    ]


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    rows = [tokens("a", step=step) for step in range(20)]
    data = write(tmp_path / "a.jsonl", rows).read_bytes()
    memory.pipe("/run/one/a.jsonl", data)
    memory.pipe("/run/b.jsonl.gz", gzip.compress(data))
    for url, names in {
        "memory://run": ["b.jsonl.gz", "one/a.jsonl"],
        "memory://run/*/*.jsonl": ["one/a.jsonl"],
        f"file://{tmp_path}": ["a.jsonl"],
    }.items():
        scan = read(url)
        assert file_names(scan) == names
        (last,) = scan.rollouts.read([len(scan.responses) - 1])
        assert last.step == 19


def test_further_scalars_are_capped_with_a_note(tmp_path: Path) -> None:
    scalars = {f"f{i:03}": i for i in range(100)}
    scan = read(write(tmp_path / "a.jsonl", [row(**scalars)]))
    assert list(scan.extras.columns) == [f"f{i:03}" for i in range(64)]
    assert "many_extras" in kinds(scan)


def test_system_prompt_and_pad_tokens_are_no_part_of_a_prompt(tmp_path: Path) -> None:
    rows = [
        row(prompt="<PAD>rules<|end|>Say hi."),
        row(prompt="other<|end|>Say hi.<PAD>"),
    ]
    scan = read(write(tmp_path / "a.jsonl", rows), system_end_token="<|end|>")
    assert scan.prompt_texts() == ["Say hi."]


def test_rows_appended_while_reading_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [GOOD, GOOD])
    (source,) = find_sources([path]).sources
    with path.open("ab") as file:
        file.write(path.read_bytes())
    part = ByteRange(0, source, 0, source.size)
    settings = RangeSettings(ReadOptions(), GaeOptions(), PartFolder())
    assert read_chunk([part], settings).rows == 2


def text_of(*rows: dict) -> str:
    return "".join(json.dumps(one) + "\n" for one in rows)


def zipped(path: Path, members: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_every_json_file_of_an_archive_is_read(tmp_path: Path) -> None:
    rank_0 = [tokens("a", step=step) for step in range(3)]
    members: dict[str, str | bytes] = {
        "rank_0.jsonl": text_of(*rank_0),
        "more/rank_1.ndjson": "\n" + text_of(row(3, response="from ndjson")),
        "list.json": json.dumps([row(4), row(5)], indent=1),
        "readme.txt": "no log",
        "__MACOSX/._rank_0.jsonl": b"\0\5\26\7",
        "folder.jsonl/": "",
    }
    scan = read(zipped(tmp_path / "run.jsonl.zip", members))
    assert scan.responses["step"].tolist() == [0, 1, 2, 3, 4, 5]
    assert scan.bad_count == 0
    assert file_names(scan) == ["run.jsonl.zip"]
    rollouts = scan.rollouts.read(range(6))
    assert rollouts[3].response == "from ndjson"
    assert rollouts[0].raw_tokens == ["a"]


def test_archives_are_read_from_folders_stores_and_the_cache(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    rollout = '{"prompt":"p","response":"r","reward":1}'
    zipped(logs / "step_3.jsonl.zip", {"a.jsonl": f"{rollout}\n"})
    zipped(logs / "step_4.json.zip", {"a.json": rollout})
    for _ in range(2):
        scan = read(logs, cache=str(tmp_path / "kept"))
        assert scan.responses["step"].tolist() == [3, 4]
    store = fsspec.filesystem("memory")
    for file in logs.iterdir():
        store.pipe_file(f"/zips/{file.name}", file.read_bytes())
    assert read("memory://zips").responses["step"].tolist() == [3, 4]


def test_bad_lines_and_bad_members_cost_only_themselves(tmp_path: Path) -> None:
    damaged = [row(5, response=str(i)) for i in range(500)]
    members = {
        "../../escape.jsonl": text_of(row(0)),
        "/etc/x\n\x1b[2J.jsonl": text_of(row(1)),
        "broken.jsonl": text_of(row(2), row(3)) + "{not json}\n[1]\n" + text_of(row(4)),
        "damaged.jsonl": text_of(*damaged),
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
    lost = "the rest of 'damaged.jsonl' cannot be read: "
    assert any(line.reason.startswith(lost) for line in scan.bad_lines)
    assert not list(tmp_path.parent.rglob("escape.jsonl"))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlreport.formats.containers.MAX_SAMPLE", 1 << 16)
    members = {
        "a.jsonl": text_of(row(1)),
        "b.jsonl": text_of(row(0)) + "\n" * (1 << 24),
    }
    scan = read(zipped(tmp_path / "a.jsonl.zip", members))
    assert scan.responses["step"].tolist() == [1]
    assert "unpacks to more than 200 times" in scan.bad_lines[0].reason


def test_long_lines_are_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.formats.containers.MAX_SAMPLE", 1 << 12)
    text = text_of(row(0), row(1, response="x" * 5000), row(2))
    scan = read(zipped(tmp_path / "a.jsonl.zip", {"a.jsonl": text}))
    assert scan.responses["step"].tolist() == [0, 2]
    assert scan.bad_lines[0].reason == "larger than 4,096 bytes"


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive"])
def test_what_is_no_archive_is_said(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zip").write_bytes(data)
    with pytest.raises(UnusableInputError, match=r"a\.jsonl\.zip"):
        read(tmp_path)
    zipped(tmp_path / "a.jsonl.zip", {})
    with pytest.raises(UnusableInputError, match="no JSON object"):
        read(tmp_path)
