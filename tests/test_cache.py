"""What is kept for the next build: read again only where the logs are the same to the byte."""

from __future__ import annotations

import errno
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlreport.cli import main
from rlreport.encoding import decoded, encoded
from rlreport.errors import UnusableInputError, UsageError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.logs import Scan, read_logs
from rlreport.read.cache import Kept
from rlreport.read.partial import Extra, Segment
from rlreport.read.files import Source
from rlreport.read.splits import plan_splits
from rlreport.read.token_totals import TokenTotals
from rlreport.store import Store, store_at
from rlreport.text.messages import Message, listed, message, plural
from tests.reading import row, tokens, write
from tests.running import SEARCH

SPLIT = 2_000


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut every 2,000 bytes, and each split is a task."""
    monkeypatch.setattr(plan_splits, "__kwdefaults__", {"split_bytes": SPLIT})
    monkeypatch.setattr("rlreport.read.splits._TASK_BYTES", SPLIT)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Starts of the splits that were scanned, as they come."""
    from rlreport.read.scan import Scanner

    starts: list[int] = []
    real = Scanner.scan

    def scan(self: Scanner, splits: Any) -> Any:
        starts.extend(split.start for split in splits)
        return real(self, splits)

    monkeypatch.setattr(Scanner, "scan", scan)
    return starts


def lines(count: int, seed: int = 0) -> list[bytes]:
    """Rows of several kinds, some with tokens, some broken."""
    rng, made = random.Random(seed), []
    for i in range(count):
        words = [rng.choice("abcdefgh") for _ in range(rng.randrange(12))]
        kind = rng.randrange(8)
        if kind == 0:
            made.append(b'{"step": 1, broken\n')
        elif kind < 3:
            text = row(i // 9, response=" ".join(words), score=i, kind=rng.choice("xy"))
            made.append(encoded_line(text))
        else:
            made.append(encoded_line(tokens(*words, step=i // 9, reward=rng.random())))
    return made


def encoded_line(fields: dict[str, Any]) -> bytes:
    import json

    return json.dumps(fields).encode() + b"\n"


def found(logs: Path, cache: Path | str = "") -> bytes:
    """Everything a scan finds, as bytes; or what it says where there is nothing."""
    try:
        scan = read_logs([logs], ReadOptions(workers=1, cache=str(cache)), FigureOptions())
    except UnusableInputError as error:
        return str(error).encode()
    return told(scan)


def told(scan: Scan) -> bytes:
    tables = [scan.responses, scan.extras, scan.tokens, scan.positions, scan.bigrams, scan.tools]
    rest = [scan.ngrams, scan.ref_ngrams, scan.files, scan.bad_lines, scan.bad_count, scan.notes]
    return encoded([*tables, *rest, scan.fields, scan.failed, scan.reward_parts, scan.prompt_rows])


def append(logs: Path, rng: random.Random) -> None:
    with rng.choice(sorted(logs.iterdir())).open("ab") as file:
        file.write(b"".join(lines(rng.randrange(1, 12), rng.randrange(99))))


def tear(logs: Path, rng: random.Random) -> None:
    with rng.choice(sorted(logs.iterdir())).open("ab") as file:
        line = lines(1, rng.randrange(99))[0]
        file.write(line[: rng.randrange(len(line))])


def truncate(logs: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(logs.iterdir()))
    os.truncate(path, rng.randrange(path.stat().st_size + 1))


def rewrite(logs: Path, rng: random.Random) -> None:
    """Change one byte, and the time of change back."""
    path = rng.choice(sorted(logs.iterdir()))
    data, status = bytearray(path.read_bytes()), path.stat()
    if data:
        data[rng.randrange(len(data))] = rng.choice(b"019 {}x\n")
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def rotate(logs: Path, rng: random.Random) -> None:
    paths = sorted(logs.iterdir())
    paths[0].rename(logs / f"a{rng.randrange(99)}.jsonl")
    write(paths[0], lines(4, rng.randrange(99)))


def replace(logs: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(logs.iterdir()))
    fresh = write(logs / "new", lines(30, rng.randrange(99)))
    fresh.replace(path)


CHANGES: list[Callable[[Path, random.Random], None]] = [
    append, append, tear, truncate, rewrite, rewrite, rotate, replace,
]  # fmt: skip


@pytest.mark.untraced
@settings(
    max_examples=8 * SEARCH,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 1 << 30), changes=st.lists(st.sampled_from(CHANGES), max_size=6))
def test_whatever_happens_to_the_logs_a_build_with_a_cache_finds_what_one_without_does(
    seed: int, changes: list[Callable[[Path, random.Random], None]]
) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        logs, cache = Path(folder) / "logs", Path(folder) / "cache"
        logs.mkdir()
        for rank in range(2):
            write(logs / f"rank_{rank}.jsonl", lines(40, seed + rank))
        assert found(logs, cache) == found(logs)
        for change in changes:
            change(logs, rng)
            assert found(logs, cache) == found(logs)


def test_only_the_split_that_grew_is_scanned_again(tmp_path: Path, scanned: list[int]) -> None:
    logs = write(tmp_path / "log.jsonl", lines(60))
    cold = found(logs, tmp_path / "cache")
    last = max(scanned)
    assert len(scanned) > 4
    scanned.clear()
    assert found(logs, tmp_path / "cache") == cold
    assert scanned == []
    with logs.open("ab") as file:
        file.write(lines(1, 5)[0])
    found(logs, tmp_path / "cache")
    assert scanned == [last]


def test_a_file_that_comes_first_by_name_costs_no_other_its_place(
    tmp_path: Path, scanned: list[int]
) -> None:
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "step_2.jsonl", lines(40))
    found(tmp_path / "logs", tmp_path / "cache")
    write(tmp_path / "logs" / "step_1.jsonl", lines(9, 3))
    scanned.clear()
    warm = found(tmp_path / "logs", tmp_path / "cache")
    assert max(scanned) < SPLIT
    assert warm == found(tmp_path / "logs")


def test_the_time_of_a_file_is_believed_only_two_seconds_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "log.jsonl", lines(3))
    source = Source("log.jsonl", str(path), path.stat().st_size)
    assert source.stamp() is None
    now = time.time_ns()
    monkeypatch.setattr("rlreport.read.files.time.time_ns", lambda: now + 3 * 10**9)
    assert source.stamp() is not None
    with path.open("ab") as file:
        file.write(b"{}\n")
    assert source.stamp() is None  # of another size than when it was listed


def test_a_file_whose_stamp_is_known_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = write(tmp_path / "log.jsonl", lines(40))
    now = time.time_ns()
    monkeypatch.setattr("rlreport.read.files.time.time_ns", lambda: now + 3 * 10**9)
    cold = found(logs, tmp_path / "cache")

    def fail(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(Source, "digest", fail)
    assert found(logs, tmp_path / "cache") == cold


@pytest.mark.parametrize(
    "options",
    [
        {"pad_tokens": ("a",)},
        {"system_end_token": "Say"},
        {"max_line": 300},
        {"mapping": {"reward": "score"}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_other_options_find_nothing_of_these(
    tmp_path: Path, scanned: list[int], options: dict[str, Any]
) -> None:
    logs = write(tmp_path / "log.jsonl", lines(40))
    found(logs, tmp_path / "cache")
    scanned.clear()
    warm = read_logs([logs], ReadOptions(workers=1, cache=str(tmp_path / "cache"), **options))
    assert scanned
    assert told(warm) == told(read_logs([logs], ReadOptions(workers=1, **options)))


def test_another_program_and_other_figures_find_nothing_of_these(
    tmp_path: Path, scanned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = write(tmp_path / "log.jsonl", lines(20))
    options = ReadOptions(workers=1, cache=str(tmp_path / "cache"))
    read_logs([logs], options, FigureOptions())
    scanned.clear()
    read_logs([logs], options, FigureOptions(gamma=0.9))
    assert scanned
    scanned.clear()
    monkeypatch.setattr("rlreport.read.cache.program", lambda: "another")
    read_logs([logs], options, FigureOptions())
    assert scanned


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.glob("*/*") if path.is_file())


def cut(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def exchange(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.choice(entries(path.parents[1])).read_bytes()[:-1])


def as_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def as_link(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("harm", [cut, flip, exchange, as_folder, as_pipe, as_link])
def test_an_entry_that_was_harmed_is_not_there(
    tmp_path: Path, harm: Callable[[Path, random.Random], None]
) -> None:
    logs, cache = write(tmp_path / "log.jsonl", lines(60)), tmp_path / "cache"
    cold = found(logs, cache)
    for seed in range(5 if harm in (cut, flip) else 1):
        for path in entries(cache):
            harm(path, random.Random(seed))
        assert found(logs, cache) == cold


def _with(kept: Kept, **changed: object) -> Kept:
    for name, value in changed.items():
        setattr(kept.partial, name, value)
    return kept


LIES: list[Callable[[Kept], object]] = [
    lambda kept: _with(kept, rows=kept.partial.rows + 1),
    lambda kept: _with(kept, rows=-1),
    lambda kept: _with(kept, columns={}),
    lambda kept: _with(kept, columns={**kept.partial.columns, "../x": np.zeros(kept.partial.rows)}),
    lambda kept: _with(
        kept, columns={**kept.partial.columns, "file": kept.partial.columns["file"] + 9}
    ),
    lambda kept: _with(kept, hashes=kept.partial.hashes[:-1]),
    lambda kept: _with(kept, strings=[]),
    lambda kept: _with(kept, segments=[Segment(99, 0, 1, 1, 1, 1, 1)]),
    lambda kept: _with(kept, extras={"x": Extra(np.array([10**9]), np.array([1.0]))}),
    lambda kept: _with(kept, totals={(0, 10**6): TokenTotals()}),
    lambda kept: [kept.stamps, kept.digests, []],
    lambda kept: [kept.stamps, kept.digests, {"rows": 1}],
    lambda kept: "text",
    lambda kept: None,
]


@pytest.mark.parametrize("lie", LIES)
def test_an_entry_that_is_whole_and_no_partial_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[Kept], object]
) -> None:
    logs, cache = write(tmp_path / "log.jsonl", lines(12)), tmp_path / "cache"
    cold, real = found(logs, cache), Store.get

    def get(self: Store, address: bytes) -> bytes | None:
        data = real(self, address)
        return None if data is None else encoded(lie(decoded(Kept, data)))

    monkeypatch.setattr(Store, "get", get)
    assert found(logs, cache) == cold


@given(st.binary(max_size=200))
def test_no_bytes_decode_to_anything_but_what_is_wanted(data: bytes) -> None:
    for start in (b"", len(data).to_bytes(8, "little")):
        try:
            value = decoded(Kept, start + data)
        except ValueError:
            continue
        assert encoded(value) == start + data


def test_what_would_unpack_to_more_than_memory_is_not_there(tmp_path: Path) -> None:
    import zstandard

    from rlreport.store import _MAGIC, _sum

    store = Store(tmp_path, 1)
    parameters = zstandard.ZstdCompressionParameters.from_level(1)
    writer = zstandard.ZstdCompressor(compression_params=parameters)
    chunker = writer.compressobj(size=1 << 40)
    packed = chunker.compress(b"x") + chunker.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    store.put(b"a", b"")
    store._path(b"a").write_bytes(_MAGIC + _sum(b"a", packed) + packed)
    assert store.get(b"a") is None


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    logs = write(tmp_path / "log.jsonl", lines(20))
    monkeypatch.setattr("rlreport.store.Path.replace", full)
    assert found(logs, tmp_path / "cache") == found(logs)
    assert entries(tmp_path / "cache") == []


def test_what_was_not_used_longest_goes_first(tmp_path: Path) -> None:
    store, noise = Store(tmp_path, 50_000), random.Random(0)
    for i in range(10):
        store.put(bytes([i]), noise.randbytes(10_000))
        os.utime(store._path(bytes([i])), (i, i))
    assert store.get(bytes([0])) is not None  # which is a use
    store.trim()
    kept = [i for i in range(10) if store.get(bytes([i])) is not None]
    assert kept == [0, 7, 8, 9]
    assert store.entries()[1] <= 50_000


def test_the_command_says_how_large_the_cache_is_and_clears_no_file_of_others(
    tmp_path: Path,
) -> None:
    logs, cache = write(tmp_path / "log.jsonl", lines(20)), tmp_path / "cache"
    found(logs, cache)
    (cache / "ab").mkdir(exist_ok=True)
    (cache / "ab" / "notes.txt").write_text("mine")
    said = CliRunner().invoke(main, ["cache", str(cache)]).output
    assert f"{len(entries(cache)) - 1:,} entries" in said
    CliRunner().invoke(main, ["cache", str(cache), "--clear"])
    assert entries(cache) == [cache / "ab" / "notes.txt"]
    assert "0 entries" in CliRunner().invoke(main, ["cache", str(cache)]).output


def test_a_cache_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        store_at(str(tmp_path / "file"))


def test_an_entry_of_another_user_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, 1000)
    store.put(b"a", b"data")
    assert store.get(b"a") == b"data"
    monkeypatch.setattr("rlreport.store._user", lambda: 12345)
    assert store.get(b"a") is None


def test_messages_of_ours_are_kept_with_their_places() -> None:
    inner = message("longer than {size} bytes", size=3.5)
    said = plural("{count} line: {why}", "{count} lines: {why}", 2, why=(inner, "x", None))
    for text in (said, listed([said, "a"]), "plain"):
        back = decoded(Example, encoded(Example(text))).text
        assert (back, type(back)) == (text, type(text))
        assert getattr(back, "places", None) == getattr(text, "places", None)
    with pytest.raises(ValueError, match="no names"):
        decoded(Example, encoded(Example(Message("{a.__class__}", {"a": 1}))))


@dataclass
class Example:
    text: str


def test_the_cache_of_a_folder_that_is_not_there_is_an_error(tmp_path):
    ran = CliRunner().invoke(main, ["cache", str(tmp_path / "none")])
    assert (ran.exit_code, ran.output.count("there is no such folder")) == (2, 1)
    assert not (tmp_path / "none").exists()
