"""However a log is cut, batched, shared among processes or stored, the tables are the same."""

import gzip
import io
import json
import os
import random
import threading
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, pairwise
from pathlib import Path
from typing import cast
from unittest.mock import Mock, patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rlreport.errors import UsageError
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.detect import detect_formats
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.lines import ByteRange, LogFormat, byte_ranges
from rlreport.read.listing import find_sources
from rlreport.read.logs import read_chunks, read_logs
from rlreport.read.spool import RolloutSpool
from rlreport.read.tables import Scan
from rlreport.system.stores import Source, shown, zstd
from rlreport.system.workers import Progress, Workers
from tests.forms import files_below
from tests.reading import read, row, tokens, write
from tests.running import SEARCH, rlreport
from tests.store import BUCKET, Store, long_log


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return long_log(tmp_path_factory.mktemp("log") / "run" / "a.jsonl")


def test_a_report_of_logs_in_a_store_is_that_of_the_same_logs_on_disk(
    store, shared_data, tmp_path
):
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


def moved(store: Store) -> int:
    """Return the bytes that the store has sent."""
    return sum(request.sent for request in store.requests())


def test_reading_moves_the_log_once_and_detection_a_hundredth(store, log):
    size = store.put_folder(log.parent, "large")
    listing = find_sources([f"s3://{BUCKET}/large"])
    store.forget()
    found = detect_formats(listing, ReadOptions())
    assert moved(store) <= 0.01 * size
    store.forget()
    ranges = byte_ranges(found.sources, found.formats, range_bytes=8 << 20)
    spool = RolloutSpool()
    chunks = read_chunks(
        ranges,
        ReadOptions(),
        GaeOptions(),
        limits=LIMITS,
        progress=Progress(),
        workers=Workers(1),
        spool=spool,
    )
    assert sum(chunk.rows for chunk in chunks) == 2_500
    assert size <= moved(store) <= 1.1 * size


@pytest.fixture(scope="module")
def small(store: Store) -> str:
    for i in range(300):
        store.put(f"small/step_{i}.jsonl", json.dumps(row(i)).encode() + b"\n")
    return f"s3://{BUCKET}/small"


def test_many_small_objects_are_requested_together(store, small, monkeypatch):
    asked = Mock(wraps=store.system.cat_ranges)
    monkeypatch.setattr(store.system, "cat_ranges", asked)
    assert len(read(small).responses) == 300
    together = [len(call.args[0]) for call in asked.call_args_list]
    assert together == [16, 256, 44]  # detection, then rows


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
    lines = []
    for i in range(300):
        response = rng.randbytes(20_000).hex()
        lines.append(json.dumps(row(i % 5, response=response)) + "\n")
    packed = gzip.compress("".join(lines).encode())
    store.put("packed/a.jsonl.gz", packed)
    store.forget()
    assert len(read(f"s3://{BUCKET}/packed").responses) == 300
    assert len(packed) <= moved(store) <= 1.05 * len(packed)


def test_where_files_alike_differ_all_are_looked_at(tmp_path: Path) -> None:
    for i in range(40):
        is_log = i % 10 > 0
        logged = row(i) if is_log else {"step": i, "loss": 1.0}
        write(tmp_path / f"{i}.jsonl", [logged])
    scan = read(tmp_path)
    assert len(scan.responses) == 36
    (no_logs,) = [note for note in scan.notes if note.kind == "not_a_log"]
    assert (no_logs.file, no_logs.count) == ("0.jsonl", 4)


def test_what_was_found_in_a_store_is_kept_until_it_changes(
    store: Store, tmp_path: Path
) -> None:
    lines = [json.dumps(row(i)) + "\n" for i in range(40)]
    store.put("kept/a.jsonl", "".join(lines).encode())
    url = f"s3://{BUCKET}/kept"
    cache = str(tmp_path / "cache")
    first = read(url, cache=cache)
    store.forget()
    again = read(url, cache=cache)
    # Detection; neither the first pass nor the sample
    assert len(store.requests()) == 1
    assert again.responses.equals(first.responses)
    store.put("kept/a.jsonl", "".join(lines[::-1]).encode())
    changed = read(url, cache=cache)
    before = first.responses["offset"].tolist()
    assert changed.responses["offset"].tolist() != before


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
        find_sources(
            ["http://user:hunter2@127.0.0.1:9/a.jsonl?X-Amz-Signature=hunter2"]
        )
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_signed_address_of_a_server_without_ranges_is_read_and_its_signature_told_nobody(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "a.jsonl"
    rows = [row(i, response=f"{i} " * 9_000) for i in range(40)]
    packed = gzip.compress(write(whole, rows).read_bytes())
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for name in ("a.jsonl", "a.jsonl.gz"):
            scan = read(f"{address}/{name}?X-Amz-Signature=hunter2")
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


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rank files of many kinds of rows, with broken lines in between."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("ranks")
    for rank in range(2):
        lines: list[object] = []
        for i in range(90):
            length = int(rng.integers(0, 60))
            words = [f"Ġ{word}" for word in rng.integers(0, 30, length)]
            fields = {
                "score": i,
                "kind": "ab"[i % 2],
                "reward_parts": {"form": 0.5},
                f"field_{i % 70}": i,
            }
            step = int(rng.integers(-5, 60))
            if i % 11 == 0:
                lines.append(b'{"step": 1, "broken\n')
            elif i % 13 == 0:
                failed = {"errors": ["timeout"], "response": "", "unknown": [1]}
                lines.append(row(step, split="val" if i % 2 else "train", **failed))
            elif i % 7 == 0:
                text = "some words of no token " * 3
                turns = [
                    {"role": "assistant", "text": text, "sampled": True},
                    {"role": "tool", "tool": "calc", "text": "4", "sampled": False},
                ]
                lines.append(
                    row(step, response=text, ref_response="a b c", turns=turns)
                )
            elif i % 5 == 0:
                lines.append(
                    tokens(*words, step=step, reward=float("nan"), group_id=i // 8)
                )
            else:
                lines.append(tokens(*words, "<|endoftext|>", step=step, **fields))
        write(folder / f"rank_{rank}.jsonl", lines)  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="module")
def whole(ranks: Path) -> Scan:
    scan = read(ranks)
    assert scan.failed and scan.reward_parts and scan.bad_lines and scan.notes
    assert len(scan.extras.columns) > 40 and len(scan.tools)
    return scan


def assert_same(found: Scan, wanted: Scan) -> None:
    for name in ("responses", "extras", "tools"):
        pd.testing.assert_frame_equal(
            getattr(found, name), getattr(wanted, name), check_exact=True
        )
    for name in (
        "failed",
        "reward_parts",
        "bad_lines",
        "bad_count",
        "notes",
        "fields",
        "files",
    ):
        assert getattr(found, name) == getattr(wanted, name), name
    assert found.tokens is not None and wanted.tokens is not None
    assert found.tokens.texts.vocabulary == wanted.tokens.texts.vocabulary
    for ours, theirs in (
        (found.tokens, wanted.tokens),
        (found.tokens.texts, wanted.tokens.texts),
    ):
        for item in fields(ours):
            values = getattr(ours, item.name)
            if isinstance(values, np.ndarray):
                assert_array_equal(values, getattr(theirs, item.name))


@pytest.mark.untraced
@settings(max_examples=15 * SEARCH, deadline=None)
@given(cuts=st.lists(st.floats(0, 1), max_size=8))
def test_cuts_at_any_byte_give_the_same_tables(ranks, whole, cuts):
    def cut(
        sources: list[Source], formats: list[LogFormat], *, range_bytes: int
    ) -> list[ByteRange]:
        ranges = []
        for i, source in enumerate(sources):
            places = {int(share * source.size) for share in cuts}
            for ends in pairwise(sorted({0, source.size} | places)):
                ranges.append(ByteRange(i, source, *ends, formats[i]))
        return ranges

    with patch("rlreport.read.logs.byte_ranges", cut):
        assert_same(read(ranks), whole)


def test_small_pieces_and_small_batches_change_nothing(ranks, whole):
    limits = ReadLimits(piece_bytes=700, batch_rows=7)
    assert_same(read(ranks, limits=limits), whole)


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_processes_reads_the_same(ranks, whole, monkeypatch, workers):
    monkeypatch.setattr("rlreport.system.workers.FORK_SECONDS", 0)
    monkeypatch.setattr("rlreport.system.workers.SPAWN_SECONDS", 0)
    limits = ReadLimits(range_bytes=7_000)
    sources = find_sources([ranks]).sources
    formats = [LogFormat()] * len(sources)
    assert len(byte_ranges(sources, formats, range_bytes=limits.range_bytes)) > 10
    options = ReadOptions(workers=workers)
    assert_same(read_logs([ranks], options, limits=limits), whole)


def _unpacked(packed: bytes) -> tuple[bytes, bool]:
    """Return what can be read, and whether it ends early."""
    source = Source("a.zst", os.devnull, len(packed), "zst", content=packed)
    stream = cast("io.BufferedIOBase", source.open())
    found = b""
    try:
        while piece := stream.read1(1000):
            found += piece
    except EOFError:
        return found, True
    return found, False


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_every_early_end_of_zstandard_is_noticed(checksum: bool, sized: bool) -> None:
    flags = zstd.CompressionParameter
    options = {
        int(flags.checksum_flag): int(checksum),
        int(flags.content_size_flag): int(sized),
    }
    parts = [b"first" * 9, b"", b"second", b"a" * 300_000]
    frames = [zstd.compress(part, options=options) for part in parts]
    frames.insert(1, b"\x51\x2a\x4d\x18\x03\0\0\0abc")  # a frame to be passed over
    whole = b"".join(frames)
    ends = {0, *accumulate(map(len, frames))}
    assert _unpacked(whole) == (b"".join(parts), False)
    for cut in range(len(whole)):
        found, early = _unpacked(whole[:cut])
        assert b"".join(parts).startswith(found)
        assert early == (cut not in ends)


@pytest.mark.parametrize("range_bytes", [LIMITS.range_bytes, 7_000])
def test_progress_adds_up_to_all_bytes(ranks, range_bytes):
    counts: list[list[float]] = []

    class Counting(Progress):
        def phase(self, name: str, total: float, unit: str):
            count = [0, total]
            counts.append(count)
            return nullcontext(lambda amount: count.__setitem__(0, count[0] + amount))

    limits = ReadLimits(range_bytes=range_bytes)
    read_logs([ranks], ReadOptions(workers=1), progress=Counting(), limits=limits)
    size = sum(path.stat().st_size for path in ranks.iterdir())
    assert counts == [[size, size]]
