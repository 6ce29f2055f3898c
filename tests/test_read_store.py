"""Logs in an object store: read as local ones are, by ranges that hold what is wanted alone."""

from __future__ import annotations

import gzip
import json
import random
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from rlreport.errors import UsageError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.choice import Choice
from rlreport.read.detect import detect_formats
from rlreport.read.files import byte_ranges, find_sources
from rlreport.read.logs import read_chunks
from rlreport.system.stores import read_ranges, shown
from rlreport.system.workers import Progress, Workers
from tests.forms import files_below
from tests.reading import read, row, write
from tests.running import rlreport
from tests.store import BUCKET, Store, long_log


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return long_log(tmp_path_factory.mktemp("log") / "run" / "a.jsonl")


def test_a_report_of_logs_in_a_store_is_that_of_the_same_logs_on_disk(store, shared_data, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in sorted((shared_data / "grpo_math").glob("*.jsonl"))[:2]:
        lines = path.read_bytes().splitlines(keepends=True)
        (logs / f"{path.name}.gz").write_bytes(gzip.compress(b"".join(lines[:60])))
        (logs / path.name).write_bytes(b"".join(lines[60:100]))
    store.put_folder(logs, "same/logs")
    url = f"s3://{BUCKET}/same/logs"
    assert rlreport("build", logs, "-o", tmp_path / "local").returncode == 0
    assert rlreport("build", url, "-o", tmp_path / "remote").returncode == 0
    assert files_below(tmp_path / "remote") == files_below(tmp_path / "local")


def test_the_first_pass_moves_the_log_once_and_detection_a_hundredth(store, log):
    size = store.put_folder(log.parent, "large")
    listing = find_sources([f"s3://{BUCKET}/large"])
    store.forget()
    found = detect_formats(listing, ReadOptions())
    assert sum(request.sent for request in store.requests()) <= 0.01 * size
    store.forget()
    ranges = byte_ranges(found.sources, found.formats, range_bytes=8 << 20)
    chunks = read_chunks(ranges, ReadOptions(), FigureOptions(), Progress(), Workers(1))
    assert sum(chunk.rows for chunk in chunks) == 2_500
    assert size <= sum(request.sent for request in store.requests()) <= 1.1 * size


def test_scattered_rows_are_read_again_without_what_lies_between(store, log, monkeypatch):
    store.put_folder(log.parent, "scattered")
    wanted = np.arange(0, 2_500, 50)
    every = np.ones(len(wanted), bool)
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)

    def choose(*_: object) -> Choice:
        store.forget()
        return Choice(wanted, every, every)

    monkeypatch.setattr("rlreport.read.logs.choose_rows", choose)
    scan = read(f"s3://{BUCKET}/scattered")
    lengths = scan.responses["length"].to_numpy()[wanted]
    assert sum(request.sent for request in store.requests()) == lengths.sum()
    rollouts = scan.rollouts.read(wanted[:3])
    assert [r.response.split()[0] for r in rollouts] == ["0", "50", "100"]


@pytest.fixture(scope="module")
def small(store: Store) -> str:
    """The address of 300 small objects."""
    for i in range(300):
        store.put(f"small/step_{i}.jsonl", json.dumps(row(i)).encode() + b"\n")
    return f"s3://{BUCKET}/small"


@pytest.mark.parametrize("kept", [True, False])
def test_many_small_objects_are_requested_together(store, small, monkeypatch, kept):
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", kept << 28)
    together = []
    cat_ranges = store.system.cat_ranges

    def counting(paths, *args, **options):
        together.append(len(paths))
        return cat_ranges(paths, *args, **options)

    monkeypatch.setattr(store.system, "cat_ranges", counting)
    assert len(read(small).responses) == 300
    assert together == [16, 256, 44, *([] if kept else [300])]  # detection, table, chosen rows


def test_of_many_files_alike_a_few_are_looked_at(store: Store, small: str) -> None:
    store.put("small/metrics.jsonl", b'{"step": 1, "loss": 2.0}\n')
    store.system.invalidate_cache()
    listing = find_sources([small])
    store.forget()
    found = detect_formats(listing, ReadOptions())
    assert len(found.sources) == 300
    assert [note.file for note in found.notes] == ["metrics.jsonl"]
    assert len(store.requests()) == 17


def test_a_small_compressed_object_is_streamed_once(store):
    rng = random.Random(0)
    rows = [row(i % 5, response=rng.randbytes(20_000).hex()) for i in range(300)]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in rows)
    packed = gzip.compress(lines)
    store.put("packed/a.jsonl.gz", packed)
    store.forget()
    assert len(read(f"s3://{BUCKET}/packed").responses) == 300
    moved = sum(request.sent for request in store.requests())
    assert len(packed) <= moved <= 1.05 * len(packed)


def test_where_files_alike_differ_all_are_looked_at(tmp_path: Path) -> None:
    for i in range(40):
        rows = [{"step": i, "loss": 1.0}] if i % 10 == 0 else [row(i)]
        write(tmp_path / f"{i}.jsonl", rows)
    scan = read(tmp_path)
    assert len(scan.responses) == 36
    assert {note.file for note in scan.notes if note.kind == "not_a_log"} == {
        f"{i}.jsonl" for i in range(0, 40, 10)
    }


def test_what_was_found_in_a_store_is_kept_until_it_changes(store: Store, tmp_path: Path) -> None:
    lines = [json.dumps(row(i)).encode() + b"\n" for i in range(40)]
    store.put("kept/a.jsonl", b"".join(lines))
    url, cache = f"s3://{BUCKET}/kept", str(tmp_path / "cache")
    first = read(url, cache=cache)
    store.forget()
    again = read(url, cache=cache)
    assert len(store.requests()) == 1  # detection; neither the first pass nor the sample
    assert again.responses.equals(first.responses)
    store.put("kept/a.jsonl", b"".join(lines[::-1]))
    assert read(url, cache=cache).responses["offset"].tolist() != first.responses["offset"].tolist()


def test_ranges_are_those_asked_for_in_the_order_asked_for(store: Store) -> None:
    data = bytes(range(256)) * 4096
    store.put("ranges/a.jsonl", data)
    store.put("ranges/b.jsonl", data[::-1])
    a, b = find_sources([f"s3://{BUCKET}/ranges"]).sources
    asked = [(b, 5, 9), (a, 900_000, 900_100), (a, 0, 3), (a, 2, 70_000), (a, 0, 3)]
    wanted = [data[::-1][5:9], *(data[i:j] for _, i, j in asked[1:])]
    assert read_ranges(asked) == wanted


def test_a_source_says_what_changes_with_its_content(store: Store) -> None:
    store.put("version/a.jsonl", b"x\n")
    (before,) = find_sources([f"s3://{BUCKET}/version"]).sources
    store.put("version/a.jsonl", b"y\n")
    (after,) = find_sources([f"s3://{BUCKET}/version"]).sources
    assert before.version
    assert before.version != after.version


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://nowhere/logs", "No such file or folder: s3://nowhere/logs"),
        (f"s3://{BUCKET}/nothing/", "No such file or folder"),
        ("nonsense://a/b", "nonsense://a/b"),
    ],
)
def test_a_store_that_has_nothing_there_is_told_in_a_line(store, tmp_path, url, reason):
    done = rlreport("build", url, "-o", tmp_path / "report")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr
    assert "secret" not in done.stderr


def test_a_store_that_cannot_be_reached_is_told_without_secrets(store):
    with pytest.raises(UsageError) as caught:
        find_sources(["http://user:hunter2@127.0.0.1:9/a.jsonl?X-Amz-Signature=hunter2"])
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_signed_address_of_a_server_without_ranges_is_read_and_its_signature_told_nobody(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "a.jsonl"
    rows = [row(i, response=f"{i} " * 9_000) for i in range(40)]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(write(whole, rows).read_bytes()))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("a.jsonl", "a.jsonl.gz"):
            url = f"http://127.0.0.1:{server.server_port}/{name}?X-Amz-Signature=hunter2"
            scan = read(url)
            assert scan.files[0].name == name
            assert scan.responses["step"].tolist() == list(range(40))
            (found,) = scan.rollouts.read([23])
            assert found.response.startswith("23 23")
            assert "hunter2" not in scan.name + found.file
        server.shutdown()


def test_addresses_are_shown_without_what_they_are_signed_with() -> None:
    assert shown("https://u:p@host/a/b.jsonl?sig=x#y") == "https://host/a/b.jsonl"
    assert shown("abfs://c/x?sig=SECRET") == "abfs://c/x"
    assert shown("s3://c/rank_?.jsonl") == "s3://c/rank_?.jsonl"
    assert shown("s3://bucket/a?b#c.jsonl") == "s3://bucket/a?b#c.jsonl"
    assert shown("sftp://user:secret@host/a@b") == "sftp://host/a@b"
