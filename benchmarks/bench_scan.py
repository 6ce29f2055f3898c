"""Time the first pass against a parser's bare loop over the same lines, in the same run.

    python -m benchmarks.bench_scan                 # long rows, 500 MB; bars 0.8x and 1.5x
    python -m benchmarks.bench_scan --short         # short rows, 1 M; bar 3x json.loads
    python -m benchmarks.bench_scan --logs FOLDER   # a log of your own

Prints throughput relative to the yardstick: ``orjson.loads`` for long rows, one process,
warm file cache; ``json.loads`` for short ones. Also the peak memory of the process tree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import psutil

from benchmarks.generate_log import generate
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs

REPEATS = 3


def yardstick(folder: Path, loads: Callable[[bytes], object]) -> float:
    """Return the seconds that parsing every line takes, best of three."""
    return best(lambda: parse_all(folder, loads))


def parse_all(folder: Path, loads: Callable[[bytes], object]) -> None:
    """Parse every line and discard the result."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                loads(line)


def best(work: Callable[[], object]) -> float:
    """Return the shortest of three times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def scan(folder: Path, workers: int) -> None:
    """Run the first pass over the logs, including its tables."""
    read_logs([folder], ReadOptions(workers=workers), GaeOptions())


def peak_memory(command: list[str]) -> int:
    """Return the peak memory (sum of proportional set sizes) of a process tree."""
    process = subprocess.Popen(command)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _tree_memory(psutil.Process(process.pid)))
        time.sleep(0.02)
    return peak


def _tree_memory(root: psutil.Process) -> int:
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def report(folder: Path, *, short: bool) -> None:
    """Measure a log and print the figures."""
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    name, loads = (
        ("json.loads", json.loads) if short else ("orjson.loads", orjson.loads)
    )
    base = yardstick(folder, loads)
    print(f"{size / 1e6:,.0f} MB; {name}: {base:.2f} s, {size / base / 1e6:,.0f} MB/s")
    for workers in (1, 2):
        seconds = best(lambda workers=workers: scan(folder, workers))  # type: ignore[misc]
        print(
            f"scan, {workers} worker{'s' * (workers > 1)}: {seconds:.2f} s, "
            f"{size / seconds / 1e6:,.0f} MB/s, {base / seconds:.2f} x the yardstick's throughput"
        )
    command = [sys.executable, __file__, "--once", str(folder)]
    print(f"peak memory, 2 workers: {peak_memory(command) / 1e6:,.0f} MB")


def main() -> None:
    """Generate a log if none is given, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument(
        "--rows", type=int, help="default: 17,000 long or 1,000,000 short"
    )
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        scan(given.once, 2)
        return
    if given.logs:
        report(given.logs, short=given.short)
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = given.rows or (1_000_000 if given.short else 17_000)
        generate(Path(folder), rows=rows, tokens=given.tokens, short=given.short)
        report(Path(folder), short=given.short)


if __name__ == "__main__":
    main()
