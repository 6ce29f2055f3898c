"""Memory grows with the number of responses, never with bytes of texts or tokens."""

import subprocess
import sys
import tempfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.peak_memory import measured
from rlreport.errors import OutputError
from rlreport.figures.constant import compact, is_constant, take, take_rows
from rlreport.options import ReadOptions
from rlreport.pages.encoded import EncodedPage, PageFile
from rlreport.read.limits import ReadLimits
from rlreport.read.rollouts import EDGE
from rlreport.read.sample import with_sample
from rlreport.read.spool import cannot_write, part_folder
from rlreport.system.workers import Workers
from tests.reading import read, row, tokens, write
from tests.tables_builder import make_tables

MB = 1 << 20
ROWS = 48
# Small pieces of work: what one of them takes is not the subject here.
LIMITS = ReadLimits(
    range_bytes=MB // 4, piece_bytes=MB // 8, batch_bytes=MB // 8, sample_job_rows=4
)


def log_of(path: Path, count: int) -> Path:
    """Write a log of ROWS responses with ``count`` tokens each."""
    words = [f"w{i % 50} " for i in range(count)]
    rows = [
        tokens(*words, step=i // 8, prompt=f"p{i}", response="".join(words))
        for i in range(ROWS)
    ]
    return write(path, rows)


def memory_of_files() -> int:
    """Return the bytes of mapped files that are in the memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "RssFile":
            return int(size.split()[0]) * 1024
    raise AssertionError("no RssFile")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_texts_and_tokens_that_were_read_take_no_memory(tmp_path):
    texts = [f"{i} " * 200_000 for i in range(24)]
    log = write(
        tmp_path / "a.jsonl", [row(step=i, response=t) for i, t in enumerate(texts)]
    )
    scan = read(log, limits=LIMITS)
    rollouts = scan.rollouts
    size = rollouts.texts.nbytes
    assert size > 10 * MB
    rollouts.unload()
    before = memory_of_files()
    rollouts.texts.max()
    assert memory_of_files() - before > 0.9 * size  # what is measured
    for rows in np.array_split(np.arange(24), 6):
        lengths = [len(rollout.response) for rollout in rollouts.read(rows)]
        assert lengths == [len(texts[i]) for i in rows]
    assert memory_of_files() - before < 0.1 * size


def test_reading_keeps_as_much_of_a_long_row_as_of_a_short_one(tmp_path):
    # Of longer responses than 2 * EDGE, the sample has the ends only.
    short = log_of(tmp_path / "short.jsonl", 2 * EDGE)
    long = log_of(tmp_path / "long.jsonl", 6 * EDGE)
    assert long.stat().st_size - short.stat().st_size > 9 * MB
    read(short, limits=LIMITS)  # imports
    kept = {}
    for log in (short, long):
        tracemalloc.start()
        scan = read(log, limits=LIMITS)
        kept[log], _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(scan.responses) == ROWS
    assert kept[long] < kept[short] + MB


def test_a_job_of_the_sample_has_few_tokens_of_long_responses(tmp_path):
    scan = read(log_of(tmp_path / "long.jsonl", 6 * EDGE))
    peaks = {}
    for rows in (2, ROWS):
        limits = ReadLimits(sample_job_rows=rows, sample_job_tokens=12 * EDGE)
        tracemalloc.start()
        with Workers(1) as workers:
            sampled = with_sample(scan, np.arange(ROWS), ReadOptions(), workers, limits)
        _, peaks[rows] = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sampled.sampled == ROWS
    assert peaks[ROWS] == pytest.approx(peaks[2], rel=0.05)


def test_columns_without_a_difference_take_no_memory(tmp_path):
    rows = [row(step=i // 100, reward=i % 7) for i in range(2_000)]
    table = read(write(tmp_path / "a.jsonl", rows)).responses
    sizes = {
        name: column.nbytes
        for name, column in table.items()
        if not is_constant(column.to_numpy())
    }
    assert {"step", "n", "reward", "line", "offset"} <= sizes.keys()
    assert sum(sizes.values()) < 80 * len(rows)
    assert len(table.columns) > 80


def test_a_part_of_a_run_has_no_more_columns_in_memory_than_the_run():
    tables = make_tables(
        {
            "step": np.arange(10) // 2,
            "reward": np.arange(10.0),
            "validation": np.arange(10) % 2,
        }
    )
    columns = {}
    for name, values in tables.responses.items():
        columns[name] = compact(values.to_numpy())
    tables = replace(tables, responses=pd.DataFrame(columns, copy=False))
    validation = replace(tables, validation=tables.steps).validation_tables()
    assert validation is not None
    parts = [tables.training(), validation, tables.between(1, 3)]
    for part in parts:
        assert is_constant(part.responses["kl_k1"].to_numpy())
        assert not is_constant(part.responses["reward"].to_numpy())
    rewards = parts[0].responses["reward"]
    assert rewards.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("values", "constant"),
    [
        ([3, 3, 3], True),
        ([3, 4, 3], False),
        ([np.nan, np.nan], True),
        ([np.nan, 0.0], False),
        ([0.0, -0.0, 0.0], False),
        ([2**64 - 1] * 2, True),
        ([True, True], True),
        ([1.5], False),
        ([], False),
        (["a", "a"], False),
    ],
)
def test_compact_changes_no_bit(values, constant):
    dtype = object if values and isinstance(values[0], str) else None
    array = np.array(values, dtype)
    small = compact(array)
    assert is_constant(small) == constant
    assert small.dtype == array.dtype
    assert small.tobytes() == array.tobytes()


def test_rows_of_a_table_are_taken_by_mask_or_number():
    sevens = np.broadcast_to(np.int8(7), 4)
    table = pd.DataFrame({"a": np.arange(4), "b": sevens}, copy=False)
    mask = np.array([True, False, True, True])
    for selection in (mask, np.flatnonzero(mask)):
        rows = take_rows(table, selection)
        pd.testing.assert_frame_equal(rows, table[mask].reset_index(drop=True))
        assert is_constant(rows["b"].to_numpy())
    taken = take(np.arange(3), np.array([2, 0]))
    assert taken.tolist() == [2, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_peak_memory_is_that_of_all_processes_together():
    program = (
        "import os, time\n"
        "ours = b'x' * 40_000_000\n"
        "if not os.fork():\n"
        "    theirs = b'y' * 60_000_000\n"
        "    time.sleep(0.5)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    result = measured([sys.executable, "-c", program])
    assert 100e6 < result.peak_pss < 130e6
    assert 100e6 < result.peak_anonymous <= result.peak_pss
    assert result.cpu > 0
    assert result.wall > 0.5


def test_a_command_that_fails_is_not_measured():
    with pytest.raises(SystemExit, match="exit status 3"):
        measured([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_disk_that_is_full_is_reported_when_a_page_is_put():
    script = """
import resource
from rlreport.errors import OutputError
from rlreport.pages.encoded import EncodedPage, PageFile

file = PageFile()
first = file.put(EncodedPage("steps/0.html", b"a" * (5 << 20), 1))
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, before[1]))
try:
    file.put(EncodedPage("steps/1.html", b"b", 1))  # less than a buffer holds
except OutputError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("cannot write temporary files to ")
    assert done.stdout.endswith(": File too large\n")


def test_without_a_folder_for_temporary_files_the_error_says_what_to_set(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/no/folder"])
    with pytest.raises(OutputError, match=r"/no/folder.*; set TMPDIR"), part_folder():
        pass
    with pytest.raises(OutputError, match=r"/no/folder.*; set TMPDIR"):
        raise cannot_write(OSError(28, "No space left on device"))


def test_pages_wait_in_a_file():
    file = PageFile()
    pages = [
        EncodedPage("steps/0.html", b"a" * MB, 7, ("steps/0.js", b"b" * MB)),
        EncodedPage("steps/1.html", "é".encode() * MB, 8),
        EncodedPage("steps/2.html", b"", 9, ("steps/2.js", b"")),
    ] * 3
    tracemalloc.start()
    stored = [file.put(page) for page in pages]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < MB / 2  # of 12 MB
    assert [page.weight for page in stored] == [7, 8, 9] * 3
    for _ in range(2):  # a second output of the same pages
        assert [page.load() for page in stored] == pages
