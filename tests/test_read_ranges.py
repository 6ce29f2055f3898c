"""However a log is cut, batched and shared among processes, the tables are the same."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rlreport.errors import RlreportError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.chunk import Chunk, read_chunk
from rlreport.read.detect import LogFiles
from rlreport.read.files import ByteRange, LogFormat, byte_ranges, find_sources, grouped_ranges
from rlreport.read.logs import read_logs
from rlreport.read.tables import extras_table, log_rows, response_table, tool_table
from rlreport.system.stores import Source, zstd
from rlreport.system.workers import Progress
from tests.reading import read, row, tokens, write
from tests.running import SEARCH

SETTINGS = ReadOptions(), FigureOptions()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    """Two rank files of many kinds of rows, with broken lines in between."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("logs")
    for rank in range(2):
        lines: list[object] = []
        for i in range(90):
            words = [f"Ġ{word}" for word in rng.integers(0, 30, int(rng.integers(0, 60)))]
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
                lines.append(row(step, response=text, ref_response="a b c", turns=turns))
            elif i % 5 == 0:
                lines.append(tokens(*words, step=step, reward=float("nan"), group_id=i // 8))
            else:
                lines.append(tokens(*words, "<|endoftext|>", step=step, **fields))
        write(folder / f"rank_{rank}.jsonl", lines)  # type: ignore[arg-type]
    return find_sources([folder]).sources


def tables(chunks: Sequence[Chunk], sources: list[Source]) -> list[Any]:
    chunks = pickle.loads(pickle.dumps(chunks))
    rows = log_rows(
        chunks, LogFiles(sources, [LogFormat()] * len(sources), []), keep_restarted=True
    )
    totals = pd.DataFrame(rows.chunk.counts).groupby("file")[["lines", "unread"]].sum()
    remarks = rows.chunk.remarks
    extras, carried, _ = extras_table(rows)
    return [
        extras,
        carried,
        tool_table(rows),
        *response_table(rows),
        totals,
        rows.failed,
        rows.chunk.reward_parts,
        # Lines are counted inside the range.
        {kind: (one.times, one.first[:2]) for kind, one in remarks.oddities.items()},
        [(one.position[:2], one.reason, one.torn) for one in remarks.unread],
        remarks.unread_count,
        remarks.unread_fields,
    ]


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    for left, right in zip(found, wanted, strict=True):
        if isinstance(left, pd.DataFrame):
            pd.testing.assert_frame_equal(left, right, check_exact=True)
        else:
            np.testing.assert_equal(left, right)


@pytest.fixture(scope="module")
def whole(sources: list[Source]) -> list[Any]:
    """The tables when all is read at once."""
    ranges = byte_ranges(sources, [LogFormat()] * len(sources))
    assert len(ranges) == len(sources)
    found = tables([read_chunk(ranges, *SETTINGS)], sources)
    assert all(len(part) for part in found if not isinstance(part, int | np.ndarray))
    return found


@pytest.mark.untraced
@settings(max_examples=15 * SEARCH, deadline=None)
@given(data=st.data())
def test_cuts_at_any_byte_and_any_groups_of_ranges_give_the_same_tables(sources, whole, data):
    ranges: list[ByteRange] = []
    for i, source in enumerate(sources):
        inner = data.draw(st.lists(st.integers(0, source.size), max_size=4))
        for start, stop in pairwise(sorted({0, source.size, *inner})):
            ranges.append(ByteRange(i, source, start, stop))
    cuts = sorted({0, len(ranges), *data.draw(st.lists(st.integers(0, len(ranges)), max_size=4))})
    groups = [ranges[start:stop] for start, stop in pairwise(cuts)]
    assert_same(tables([read_chunk(group, *SETTINGS) for group in groups], sources), whole)


def test_small_buffers_and_small_batches_change_nothing(sources, whole, monkeypatch):
    monkeypatch.setattr("rlreport.read.files._BUFFER", 700)
    monkeypatch.setattr("rlreport.read.chunk._BATCH_ROWS", 7)
    ranges = byte_ranges(sources, [LogFormat()] * len(sources))
    assert_same(tables([read_chunk(ranges, *SETTINGS)], sources), whole)


def test_ranges_end_at_multiples_so_that_a_growing_file_keeps_its_earlier_ones() -> None:
    def cuts(size: int) -> list[tuple[int, int | None]]:
        source = Source("a.jsonl", "/a.jsonl", size)
        return [(r.start, r.stop) for r in byte_ranges([source], [LogFormat()], range_bytes=100)]

    assert cuts(250) == [(0, 100), (100, 200), (200, 250)]
    assert cuts(330)[:2] == cuts(250)[:2]
    assert cuts(0) == [(0, 0)]
    packed = Source("a.jsonl.gz", "/a.jsonl.gz", 10**9, "gz")
    assert [(r.start, r.stop) for r in byte_ranges([packed], [LogFormat()])] == [(0, None)]


def test_small_files_are_read_together_and_large_ones_alone() -> None:
    sizes = [1000] * 300 + [40 << 20, 1000, 1000, 3 << 20, 3 << 20]
    files = [Source(f"{i}.jsonl", f"/{i}.jsonl", size) for i, size in enumerate(sizes)]
    ranges = byte_ranges(files, [LogFormat()] * len(files))
    groups = grouped_ranges(ranges)
    assert [one for group in groups for one in group] == ranges
    assert [len(group) for group in groups] == [256, 44, 1, 1, 4]
    assert grouped_ranges([]) == []


def _unpacked(packed: bytes) -> tuple[bytes, bool]:
    """Return what can be read, and whether it ends early."""
    source = Source("a.zst", os.devnull, len(packed), "zst", content=packed)
    stream, found = cast("io.BufferedIOBase", source.open()), b""
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
    options = {int(flags.checksum_flag): int(checksum), int(flags.content_size_flag): int(sized)}
    parts = [b"first" * 9, b"", b"second", b"a" * 300_000]
    frames = [zstd.compress(part, options=options) for part in parts]
    frames.insert(1, b"\x51\x2a\x4d\x18\x03\0\0\0abc")  # a frame to be passed over
    whole, ends = b"".join(frames), {0, *accumulate(map(len, frames))}
    assert _unpacked(whole) == (b"".join(parts), False)
    for cut in range(len(whole)):
        found, early = _unpacked(whole[:cut])
        assert b"".join(parts).startswith(found)
        assert early == (cut not in ends)


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_processes_reads_the_same(sources, monkeypatch, workers):
    one = read(folder := Path(sources[0].path).parent)
    monkeypatch.setattr("rlreport.system.workers.FORK_SECONDS", 0)
    monkeypatch.setattr("rlreport.system.workers.SPAWN_SECONDS", 0)
    assert byte_ranges.__kwdefaults__
    monkeypatch.setitem(byte_ranges.__kwdefaults__, "range_bytes", 7_000)
    assert len(byte_ranges(sources, [LogFormat()] * len(sources))) > 10
    several = read_logs([folder], ReadOptions(workers=workers), FigureOptions())
    for name in ("responses", "extras", "positions", "tools"):
        pd.testing.assert_frame_equal(getattr(several, name), getattr(one, name), check_exact=True)
    for name in ("failed", "reward_parts", "bad_lines", "notes", "fields"):
        assert getattr(several, name) == getattr(one, name)
    assert one.tokens is not None
    assert several.tokens is not None
    assert several.tokens.texts.vocabulary == one.tokens.texts.vocabulary
    for ours, theirs in ((several.tokens, one.tokens), (several.tokens.texts, one.tokens.texts)):
        for item in fields(ours):
            if isinstance(values := getattr(ours, item.name), np.ndarray):
                assert_array_equal(values, getattr(theirs, item.name))


def test_an_error_of_ours_in_a_process_reaches_the_user(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RlreportError("the reason")

    monkeypatch.setattr("rlreport.read.logs.read_chunk", fail)
    with pytest.raises(RlreportError, match="the reason"):
        read(write(tmp_path / "a.jsonl", [tokens("a")]))


def test_progress_adds_up_to_all_bytes_and_all_chosen_responses(sources, monkeypatch):
    monkeypatch.setattr("rlreport.read.logs.KEPT_BYTES", 0)

    class Counting(Progress):
        def __init__(self) -> None:
            self.counts: list[list[float]] = []

        def phase(self, name: str, total: float, unit: str):
            self.counts.append([0, total])
            return self

        def advance(self, amount: float) -> None:
            self.counts[-1][0] += amount

        def __enter__(self):
            return self.advance

        def __exit__(self, *error: object) -> None: ...

    counting = Counting()
    folder = Path(sources[0].path).parent
    scan = read_logs([folder], ReadOptions(workers=1), FigureOptions(), counting)
    size, rows = sum(source.size for source in sources), len(scan.responses)
    assert counting.counts == [[size, size], [rows, rows]]
