"""A build with a cache finds what one without does, and reads only what changed."""

import errno
import json
import os
import pickle
import random
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from dataclasses import replace as replaced_fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlreport.errors import UnusableInputError, UsageError
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read import ranges as chunks
from rlreport.read.limits import ReadLimits
from rlreport.read.logs import read_logs
from rlreport.read.ranges import read_chunk
from rlreport.read.rollouts import Rollouts
from rlreport.read.tables import Scan
from rlreport.system.cache import Store, store_at
from tests.reading import row, tokens, write
from tests.running import SEARCH

RANGE = 2_000


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files every 2,000 bytes, and read each range by itself."""
    monkeypatch.setattr("rlreport.read.logs.LIMITS", ReadLimits(range_bytes=RANGE))


@pytest.fixture
def starts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    starts: list[int] = []

    def read(ranges: Any, settings: Any) -> Any:
        starts.extend(one.start for one in ranges)
        return read_chunk(ranges, settings)

    monkeypatch.setattr(chunks, "read_chunk", read)
    return starts


def lines(count: int, seed: int = 0) -> list[bytes]:
    """Return rows of several kinds, some with tokens, some broken."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        words = [rng.choice("abcdefgh") for _ in range(rng.randrange(12))]
        kind = rng.randrange(10)
        fields = None
        if kind == 0:
            made.append(b'{"step": 1, broken\n')
        elif kind == 1:
            turns = [
                {"role": "assistant", "text": "a"},
                {"role": "tool", "tool": "x", "text": "b"},
            ]
            fields = row(i // 9, turns=turns, reward_parts={"form": 0.5})
        elif kind == 2:
            fields = row(
                i // 9,
                response="",
                errors=["timeout"],
                kind="\ud800",
                **{"\ud800": [1]},
            )
        elif kind < 5:
            fields = row(
                i // 9, response=" ".join(words), score=i, kind=rng.choice("xy")
            )
        else:
            fields = tokens(*words, step=i // 9, reward=rng.random())
        made += [json.dumps(fields).encode() + b"\n"] if fields else []
    return made


def sound(count: int) -> list[bytes]:
    """Return those of ``lines`` that can be read: other ranges are not kept."""
    return [line for line in lines(count) if b"broken" not in line]


def found(logs: Path, cache: Path | str = "", **options: Any) -> bytes:
    """Return all that reading finds, as bytes; its message if that is nothing."""
    settings = ReadOptions(workers=1, cache=str(cache), **options)
    try:
        return as_bytes(read_logs([logs], settings, GaeOptions()))
    except UnusableInputError as error:
        return str(error).encode()


def as_bytes(scan: Scan) -> bytes:
    values = [getattr(scan, field.name) for field in fields(scan)]
    return pickle.dumps([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    """Return values alone, as pickles also tell which of them are one object."""
    if isinstance(value, pd.DataFrame):
        return value.to_json(double_precision=15, orient="split"), list(
            value.dtypes.astype(str)
        )
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, Rollouts):
        return [_plain(rollout) for rollout in value.read(value.places.row)]
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        return repr({name: _plain(getattr(value, name)) for name in names})
    return repr(value)


def append(logs: Path, rng: random.Random) -> None:
    """Add lines, of which the last may be torn."""
    data = b"".join(lines(rng.randrange(1, 12), rng.randrange(99)))
    torn = rng.choice([0, 0, rng.randrange(40)])
    with rng.choice(sorted(logs.iterdir())).open("ab") as file:
        file.write(data[: len(data) - torn])


def truncate(logs: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(logs.iterdir()))
    os.truncate(path, rng.randrange(path.stat().st_size + 1))


def rewrite(logs: Path, rng: random.Random) -> None:
    """Change one byte, and the time of change back."""
    path = rng.choice(sorted(logs.iterdir()))
    data = bytearray(path.read_bytes())
    status = path.stat()
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
    append,
    append,
    append,
    truncate,
    rewrite,
    rewrite,
    rotate,
    replace,
]


@pytest.mark.ci
@pytest.mark.untraced
@settings(
    max_examples=8 * SEARCH,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 1 << 30), changes=st.lists(st.sampled_from(CHANGES), max_size=6)
)
def test_whatever_happens_to_the_logs_a_build_with_a_cache_finds_what_one_without_does(
    seed: int, changes: list[Callable[[Path, random.Random], None]]
) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        cache = Path(folder) / "cache"
        for rank in range(2):
            write(logs / f"rank_{rank}.jsonl", lines(40, seed + rank))
        assert found(logs, cache) == found(logs)
        for change in changes:
            change(logs, rng)
            assert found(logs, cache) == found(logs)


def test_only_the_range_that_grew_is_read_again(
    tmp_path: Path, starts_read: list[int]
) -> None:
    logs = write(tmp_path / "log.jsonl", sound(58))
    cold = found(logs, tmp_path / "cache")
    last = max(starts_read)
    assert len(starts_read) > 4
    starts_read.clear()
    assert found(logs, tmp_path / "cache") == cold
    assert starts_read == []
    with logs.open("ab") as file:
        file.write(lines(1, 5)[0])
    found(logs, tmp_path / "cache")
    assert starts_read == [last]


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the texts of every three rows into a part of their own."""
    limits = ReadLimits(range_bytes=RANGE, batch_rows=3)
    monkeypatch.setattr("rlreport.read.logs.LIMITS", limits)


@pytest.mark.usefixtures("in_parts")
def test_a_range_in_several_parts_comes_from_the_cache_in_their_order(
    tmp_path, starts_read
):
    logs = write(tmp_path / "log.jsonl", sound(40))
    cold = found(logs, tmp_path / "cache")
    starts_read.clear()
    assert found(logs, tmp_path / "cache") == cold
    assert starts_read == []


@pytest.mark.usefixtures("in_parts")
def test_a_range_of_which_the_cache_lost_a_part_is_read_again(tmp_path, starts_read):
    logs = write(tmp_path / "log.jsonl", sound(40))
    cache = tmp_path / "cache"
    cold = found(logs, cache)
    starts = sorted(starts_read)
    starts_read.clear()
    for path in entries(cache):
        path.unlink()
        assert found(logs, cache) == cold
    assert sorted(set(starts_read)) == starts
    assert len(starts_read) > 3 * len(starts)


def test_what_is_read_of_a_log_that_changed_after_its_hash_is_not_cached(
    tmp_path, monkeypatch
):
    logs = write(tmp_path / "log.jsonl", [row(0)])
    cold = found(logs)

    def read_changed(ranges: Any, settings: Any) -> Any:
        write(logs, [row(0, response="Hi there!")])
        return read_chunk(ranges, settings)

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "read_chunk", read_changed)
        assert found(logs, tmp_path / "cache") != cold
    write(logs, [row(0)])
    assert found(logs, tmp_path / "cache") == cold


def test_a_file_that_comes_first_by_name_costs_no_other_its_place(
    tmp_path, starts_read
):
    write(tmp_path / "logs" / "step_2.jsonl", sound(40))
    found(tmp_path / "logs", tmp_path / "cache")
    write(tmp_path / "logs" / "step_1.jsonl", lines(9, 3))
    starts_read.clear()
    warm = found(tmp_path / "logs", tmp_path / "cache")
    assert max(starts_read) < RANGE
    assert warm == found(tmp_path / "logs")


@pytest.mark.parametrize(
    ("options", "figures", "program"),
    [
        ({"pad_tokens": ("a",)}, {}, "this"),
        ({"system_end_token": "Say"}, {}, "this"),
        ({"mapping": {"reward": "score"}}, {}, "this"),
        ({}, {"gamma": 0.9}, "this"),
        ({}, {}, "another"),
    ],
)
def test_other_options_figures_and_programs_find_nothing_of_these(  # noqa: PLR0917
    tmp_path, starts_read, monkeypatch, options, figures, program
):
    logs = write(tmp_path / "log.jsonl", lines(40))
    cache = str(tmp_path / "cache")
    monkeypatch.setattr("rlreport.read.ranges.program", lambda: "this")
    found(logs, cache)
    monkeypatch.setattr("rlreport.read.ranges.program", lambda: program)
    starts_read.clear()
    settings = (ReadOptions(workers=1, cache=cache, **options), GaeOptions(**figures))
    warm = read_logs([logs], *settings)
    assert starts_read
    cold = read_logs([logs], replaced_fields(settings[0], cache=""), settings[1])
    assert as_bytes(warm) == as_bytes(cold)


def entries(cache: Path) -> list[Path]:
    return sorted(path for path in cache.glob("*/*") if path.is_file())


def cut(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def exchange(path: Path, rng: random.Random) -> None:
    other = rng.choice(entries(path.parents[1]))
    path.write_bytes(other.read_bytes()[:-1])


def as_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def as_link(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_large_file(path: Path, rng: random.Random) -> None:
    """Give the entry a size that no memory has, without taking room on the disk."""
    os.truncate(path, 1 << 42)


HARMS = [cut, flip, exchange, as_folder, as_pipe, as_link, as_large_file]


@pytest.mark.parametrize("harm", HARMS)
def test_an_entry_that_was_harmed_is_not_there(tmp_path, harm):
    logs = write(tmp_path / "log.jsonl", lines(60))
    cache = tmp_path / "cache"
    cold = found(logs, cache)
    for seed in range(5 if harm in (cut, flip) else 1):
        for path in entries(cache):
            harm(path, random.Random(seed))
        assert found(logs, cache) == cold


def test_data_that_cannot_be_decompressed_is_not_there(tmp_path):
    store = Store(tmp_path)
    store.put(b"a", b"data")
    checksum = xxhash.xxh3_128_digest(b"a" + b"other data")
    store._path(b"a").write_bytes(checksum + b"other data")
    assert store.get(b"a") is None


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files")
def test_a_folder_in_the_place_of_an_entry_is_not_left_open(tmp_path):
    store = Store(tmp_path)
    store._path(b"a").mkdir(parents=True)
    before = sorted(Path("/proc/self/fd").iterdir())
    for _ in range(3):
        assert store.get(b"a") is None
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_an_old_entry_of_a_read_only_cache_is_used(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.put(b"a", b"data")
    os.utime(store._path(b"a"), (1, 1))

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("rlreport.system.cache.os.utime", read_only)
    assert store.get(b"a") == b"data"


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    logs = write(tmp_path / "log.jsonl", lines(20))
    monkeypatch.setattr("rlreport.system.cache.Path.replace", full)
    assert found(logs, tmp_path / "cache") == found(logs)
    assert entries(tmp_path / "cache") == []


def test_what_was_not_used_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 50_000)
    noise = random.Random(0)
    for i in range(10):
        store.put(bytes([i]), noise.randbytes(10_000))
        os.utime(store._path(bytes([i])), (i, i))
    assert store.get(bytes([0])) is not None  # which is a use
    store.trim()
    values = [store.get(bytes([i])) for i in range(10)]
    kept = [i for i, value in enumerate(values) if value is not None]
    assert kept == [0, 7, 8, 9]
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 50_000


def test_a_cache_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        store_at(str(tmp_path / "file"))


def test_an_entry_of_another_user_is_not_there(tmp_path, monkeypatch):
    store = Store(tmp_path, 1000)
    store.put(b"a", b"data")
    assert store.get(b"a") == b"data"
    monkeypatch.setattr("rlreport.system.cache.os.geteuid", lambda: 12345)
    assert store.get(b"a") is None
